"""Time limits: the ``timeout=`` of every call that waits.

Theory of operation. A limit is a cancel scope with a deadline, so a call that reaches its limit does what a canceled
one does: each verb promises that in its docstring under "Cancellation". What is added here is the error, which says
what is known of the outcome. The verb notes that in its `Limit` as it goes on. Without a limit there is no scope.

A cancellation from outside, at the same moment or not, stays one: the scope of the limit catches only its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from types import TracebackType
from typing import Final, Protocol, Self

import anyio
import anyio.lowlevel

from trio_stomp.errors import LocalProtocolError, OperationTimeout, UnconfirmedMessage
from trio_stomp.runtime import current_time, move_on_at

__all__ = ["Limit", "checked_seconds", "limit_of"]

_NOTHING_SENT: Final = "nothing was sent"


class Place(Protocol):
    """What a call sends on: a session, or a connection."""

    @property
    def takes_frames(self) -> bool:
        """Whether it may send now."""
        ...

    def rested(self) -> None:
        """The caller has just made a checkpoint."""


def checked_seconds(timeout: object) -> float | None:
    """Check a ``timeout=``, and return it in seconds; None if it is `math.inf`, which is no limit.

    Raises:
        LocalProtocolError: It is no number of seconds.
    """
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout >= 0:
        raise LocalProtocolError(
            f"timeout must be a number of seconds, 0 or more, math.inf for no limit, or None for the default; got "
            f"{timeout!r}"
        )
    return None if timeout == inf else timeout


def limit_of(timeout: object, default: float | None) -> float | None:
    """Return the limit of a call: its own ``timeout=``, or else the default of its client; None is no limit.

    Raises:
        LocalProtocolError: It is no number of seconds.
    """
    return default if timeout is None else checked_seconds(timeout)


class Limit:
    """The time limit of one call: ``async with Limit(...) as limit``.

    Args:
        seconds: The limit; None for none. 0 s are enough for what needs no waiting.
        call: The call, for the error, such as ``send() to '/queue/a'``.
        place: What the call sends on, if it sends: the session, or a connection to which it is bound.
        outcome: The attribute of this name.
        since: The time at which it began. Default: when the block is entered.

    Attributes:
        outcome: What is known of the outcome of the call, for the error.
        kind: The class of the error.
        sent: How many messages the call has sent.
        unconfirmed: Those that it has sent, and that the broker has not confirmed.
        when_reached: Called when the limit is reached, to note all that.
    """

    __slots__ = (
        "_call",
        "_place",
        "_scope",
        "_seconds",
        "_since",
        "kind",
        "outcome",
        "sent",
        "unconfirmed",
        "when_reached",
    )

    def __init__(
        self,
        seconds: float | None,
        call: str,
        place: Place | None = None,
        outcome: str = _NOTHING_SENT,
        *,
        since: float | None = None,
    ) -> None:
        self._seconds = seconds
        self._since = since
        self._call = call
        self._place = place
        self._scope: anyio.CancelScope | None = None
        self.outcome = outcome
        self.kind: type[OperationTimeout] = OperationTimeout
        self.sent = 0
        self.unconfirmed: Sequence[UnconfirmedMessage] = ()
        self.when_reached: Callable[[Limit], None] | None = None

    async def __aenter__(self) -> Self:
        """Begin.

        Cancellation: nothing has happened.
        """
        seconds = self._seconds
        if seconds is None:
            return self
        if not seconds:
            # Here, since within the scope any checkpoint is the end of it, even one that nothing has to wait for.
            await anyio.lowlevel.checkpoint()
            if self._place is not None:
                self._place.rested()
        self._scope = move_on_at((current_time() if self._since is None else self._since) + seconds)
        self._scope.__enter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End.

        Raises:
            OperationTimeout: The limit was reached.

        Cancellation: no cancellation point.
        """
        scope = self._scope
        if scope is None:
            return
        # On trio, what this returns is no answer when there is no exception.
        scope.__exit__(kind, error, trace)
        if scope.cancelled_caught:
            raise self.error()

    def error(self) -> OperationTimeout:
        """Make the error that says that the limit was reached."""
        if self.when_reached is not None:
            self.when_reached(self)
        text = f"{self._call} took longer than its timeout of {self._seconds:g} s; {self.outcome}"
        if self._place is not None and not self._place.takes_frames:
            text = f"{text} (there is no connection now)"
        return self.kind(text, messages=self.unconfirmed, sent=self.sent)
