"""Checks of the arguments that programs pass, for those that run without a type checker.

Each error names the argument, what was expected and what came. Where a call runs for each message, a check belongs
behind a branch that only unusual values take.
"""

from __future__ import annotations

import math

from typing_extensions import TypeIs

from trio_stomp.errors import LocalProtocolError
from trio_stomp.printable import shown

__all__ = [
    "is_number",
    "is_whole",
    "require",
    "require_bool",
    "require_destination",
    "require_seconds",
    "require_str",
    "require_whole",
]


def is_number(value: object) -> TypeIs[int | float]:
    """Whether a value is a number; True and False are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_whole(value: object, least: int) -> TypeIs[int]:
    """Whether a value is an int of at least `least`; True and False are none."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def require(is_valid: bool, name: str, expected: str, value: object) -> None:  # noqa: FBT001  # what is required
    """Raise the error of a check unless it has passed.

    Raises:
        LocalProtocolError: It has not.
    """
    if not is_valid:
        raise LocalProtocolError(f"{name} must be {expected}, got {shown(value)}")


def require_bool(name: str, value: object) -> None:
    """Refuse anything but True and False: the text ``'false'`` would count as True."""
    require(isinstance(value, bool), name, "True or False", value)


def require_str(name: str, value: object) -> None:
    """Refuse anything but text."""
    require(isinstance(value, str), name, "a str", value)


def require_destination(value: object, name: str = "destination") -> None:
    """Refuse a destination that is no text, or empty: what an unset environment variable gives.

    Brokers lose a message to the empty destination (Artemis), or close the connection (ActiveMQ Classic).
    """
    require(isinstance(value, str) and value != "", name, "a str such as '/queue/orders'", value)


def require_whole(name: str, value: object, least: int = 1, or_none: str = "") -> None:
    """Refuse anything but an int of at least `least`; `or_none` says what else may be passed."""
    require(is_whole(value, least), name, f"an int of at least {least}{or_none}", value)


def require_seconds(name: str, value: object) -> None:
    """Refuse anything but a number of seconds, 0 or more; `math.inf` is one."""
    is_valid = is_number(value) and not math.isnan(value) and value >= 0
    require(is_valid, name, "a number of seconds, 0 or more", value)
