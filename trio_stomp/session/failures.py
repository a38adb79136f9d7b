"""The error policy of a session: how exceptions in its tasks are handled, and how failures are raised.

No background task raises. `guarded` turns each exception into the failure of the connection or session that the task
serves. Errors of the stream become ConnectionLost. So do unexpected exceptions, which are bugs in this library, with
the exception as the cause. `fail` then wakes every task that waits.

A failure is stored once and raised often: to each task that waits, and to each later call. `renewed` makes a new
exception for each, and records that the program has seen the failure (`was_raised`), unless that is raised to a
background task. A failure that the program has not seen is raised when the block is left.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Final, Protocol, TypeVar, TypeVarTuple
from weakref import WeakSet

import anyio

from trio_stomp.errors import ConnectionLost, StompError
from trio_stomp.printable import safe_repr

__all__ = ["add_note", "guarded", "mark_raised", "renewed", "was_raised"]

logger: Final = logging.getLogger("trio_stomp")

E = TypeVar("E", bound=StompError)

# The failures of which the program has seen a copy.
_raised: Final[WeakSet[StompError]] = WeakSet()

# Whether this is a background task, from which the program sees nothing.
_in_background: Final = ContextVar("_in_background", default=False)


class Served(Protocol):
    """A connection or a session, which background tasks serve."""

    def lost(self, cause: BaseException | None) -> StompError:
        """Return the failure to end it with when its stream fails with `cause`."""
        ...

    def fail(self, failure: StompError) -> None:
        """End it."""


S = TypeVar("S", bound=Served)
Ts = TypeVarTuple("Ts")


async def guarded(service: Callable[[S, *Ts], Awaitable[None]], served: S, *args: *Ts) -> None:
    """Run a background task. An exception ends the connection or session that it serves."""
    before = _in_background.set(True)
    try:
        await service(served, *args)
    except StompError as error:
        served.fail(error)
    except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError) as error:
        served.fail(served.lost(error.__cause__ or error))
    except Exception as error:
        logger.exception("internal error in the %s of a connection", service.__name__)
        failure = ConnectionLost(f"internal error in the {service.__name__} of the connection: {safe_repr(error)}")
        failure.__cause__ = error
        served.fail(failure)
    finally:
        _in_background.reset(before)


def renewed(error: E) -> E:
    """Copy a failure, to raise it to the program.

    One lost connection is raised to every task that was waiting. If they all raised the same object, their tracebacks
    would be mixed.
    """
    if not _in_background.get():
        mark_raised(error)
    fresh = copy.copy(error)
    # A copy has no traceback. Setting the cause, even to None, also hides the context in which the copy is raised.
    fresh.__cause__ = error.__cause__
    return fresh


def mark_raised(error: StompError) -> None:
    """Record that the program sees this failure, as part of another exception."""
    _raised.add(error)


def was_raised(error: StompError) -> bool:
    """Return whether the program has seen this failure, so that leaving the block need not raise it again."""
    return error in _raised


def add_note(error: Exception, note: str) -> None:
    """Add a note to an exception of the program's. Some take none, such as frozen dataclasses: then it is logged."""
    try:
        error.add_note(note)
    except Exception:  # noqa: BLE001  # user code: the exception itself is worth more than the note
        logger.warning("%s", note)
