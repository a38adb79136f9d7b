"""Making one failure raisable many times."""

from __future__ import annotations

import copy
from typing import TypeVar

from trio_stomp.errors import StompError

__all__ = ["renewed"]

E = TypeVar("E", bound=StompError)


def renewed(error: E) -> E:
    """A new exception like `error`, with its cause.

    One lost connection is raised to every task that was waiting. Raised as one object, their tracebacks would grow into
    each other.
    """
    fresh = copy.copy(error)
    fresh.__cause__ = error.__cause__
    fresh.__suppress_context__ = True
    fresh.__traceback__ = None
    return fresh
