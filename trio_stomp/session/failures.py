"""The error policy of a session: what becomes of an exception in one of its tasks, and how a failure is raised.

No background task raises. `guarded` turns whatever one raises into the failure of the connection or session that it
serves: errors of the link into ConnectionLost, and the unexpected, which is a mistake in this library, too, with itself
as the cause. `fail` then wakes every task that waits.

A failure is kept once and raised often: to each task that waits, and to each later call. `renewed` makes the exception
for each, and is the one place that knows which failures the program has seen (`was_raised`). What it has not seen is
raised where the block is left.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeVar, TypeVarTuple
from weakref import WeakSet

import trio

from trio_stomp.errors import ConnectionLost, StompError

__all__ = ["guarded", "mark_raised", "renewed", "was_raised"]

logger: Final = logging.getLogger("trio_stomp")

E = TypeVar("E", bound=StompError)

# The failures of which the program has seen a copy.
_raised: Final[WeakSet[StompError]] = WeakSet()


class Served(Protocol):
    """What a background task serves: a connection, or a session."""

    def lost(self, cause: BaseException | None) -> StompError:
        """What it ends with when its link ends by `cause`."""
        ...

    def fail(self, failure: StompError) -> None:
        """End it."""


S = TypeVar("S", bound=Served)
Ts = TypeVarTuple("Ts")


async def guarded(service: Callable[[S, *Ts], Awaitable[None]], served: S, *args: *Ts) -> None:
    """Run a background task; whatever it raises ends what it serves."""
    try:
        await service(served, *args)
    except StompError as error:
        served.fail(error)
    except (trio.BrokenResourceError, trio.ClosedResourceError, OSError) as error:
        served.fail(served.lost(error.__cause__ or error))
    except Exception as error:
        logger.exception("internal error in the %s of a connection", service.__name__)
        failure = ConnectionLost(f"internal error in the {service.__name__} of the connection: {error!r}")
        failure.__cause__ = error
        served.fail(failure)


def renewed(error: E) -> E:
    """A failure as a new exception, to be raised to the program.

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
    """Note that the program sees this failure, as part of another exception."""
    _raised.add(error)


def was_raised(error: StompError) -> bool:
    """Whether the program has seen this failure, so that it need not be raised again where a block is left."""
    return error in _raised
