"""Making one failure raisable many times."""

from __future__ import annotations

import copy
from typing import Final, TypeVar
from weakref import WeakSet

from trio_stomp.errors import StompError

__all__ = ["mark_raised", "renewed", "was_raised"]

E = TypeVar("E", bound=StompError)


# The failures of which the program has seen a copy.
_raised: Final[WeakSet[StompError]] = WeakSet()


def renewed(error: E) -> E:
    """A failure as a new exception, to be raised to the program; `was_raised` tells from then on.

    One lost connection is raised to every task that was waiting. Raised as one object, their tracebacks would grow into
    each other.
    """
    mark_raised(error)
    fresh = copy.copy(error)
    fresh.__cause__ = error.__cause__
    fresh.__suppress_context__ = True
    fresh.__traceback__ = None
    return fresh


def mark_raised(error: StompError) -> None:
    """The program sees this failure inside another one."""
    _raised.add(error)


def was_raised(error: StompError) -> bool:
    """Whether the program has seen this failure, so that it need not be raised again where a block is left."""
    return error in _raised
