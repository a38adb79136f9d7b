"""Checks of the values that tests pass, so that a wrong one fails where it is written."""

from __future__ import annotations

import math
from types import UnionType

from trio_stomp.printable import shown
from trio_stomp.protocol import Command

__all__ = ["require", "require_command", "require_number", "require_type", "require_whole"]


def require(is_valid: bool, name: str, expected: str, value: object) -> None:  # noqa: FBT001  # what is required
    """Refuse an invalid value.

    Raises:
        ValueError: It is invalid.
    """
    if not is_valid:
        raise ValueError(f"{name} must be {expected}, got {shown(value)}")


def require_type(name: str, value: object, kind: type | UnionType, expected: str) -> None:
    """Refuse a value of another type.

    Raises:
        TypeError: It has another type.
    """
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be {expected}, got {shown(value)}")


def require_whole(name: str, value: object, least: int = 0, *, or_none: bool = False) -> None:
    """Refuse anything but an int of at least `least`, or None where that is valid.

    Raises:
        TypeError: It has another type.
        ValueError: It is less.
    """
    if or_none and value is None:
        return
    expected = f"an int of at least {least}{' or None' if or_none else ''}"
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be {expected}, got {shown(value)}")
    require(value >= least, name, expected, value)


def require_number(
    name: str, value: object, what: str = "number of seconds", *, zero: bool = False, infinite: bool = True
) -> None:
    """Refuse anything but a number of more than 0, or of at least 0; `what` says of what.

    Raises:
        TypeError: It is no number.
        ValueError: It is less, or infinite where it must not be.
    """
    expected = f"a{'' if infinite else ' finite'} {what} of {'at least' if zero else 'more than'} 0"
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError(f"{name} must be {expected}, got {shown(value)}")
    is_valid = (value >= 0 if zero else value > 0) and (infinite or value < math.inf)
    require(is_valid, name, expected, value)


def require_command(name: str, value: object) -> None:
    """Refuse anything but a Command.

    Raises:
        TypeError: It is something else.
    """
    require_type(name, value, Command, "a Command such as Command.SEND")
