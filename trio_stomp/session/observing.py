"""Calling the hooks of a user: all of them, in order, and whatever they raise stays here."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Final, ParamSpec, TypeVar

from trio_stomp.errors import ConnectionClosed, Delivery, StompError
from trio_stomp.session.hooks import Hooks, Peer, SendEnd, Sending
from trio_stomp.session.message import Message, Settlement
from trio_stomp.session.outgoing import Outgoing

__all__ = ["Observer"]

logger: Final = logging.getLogger("trio_stomp")

P = ParamSpec("P")
T = TypeVar("T")


def _contained(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
    """Call what the user gave. Messages flow whether or not it works, so its errors are logged, and no more."""
    try:
        return call(*args, **kwargs)
    except Exception:
        logger.exception("the hook %s failed; what it was told of goes on", getattr(call, "__qualname__", call))
        return None


class Observer:
    """The hooks of one connection.

    Args:
        hooks: The user's, in order.
        peer: The other side.
    """

    def __init__(self, hooks: Sequence[Hooks], peer: Peer) -> None:
        self._hooks = hooks
        self._peer = peer
        self._handled: dict[Message, _Handled] = {}

    def connected(self) -> None:
        """The connection stands."""
        for hooks in self._hooks:
            _contained(hooks.connected, self._peer)

    def disconnected(self, failure: StompError) -> None:
        """The connection has ended."""
        cause = None if isinstance(failure, ConnectionClosed) else failure
        for hooks in self._hooks:
            _contained(hooks.disconnected, self._peer, cause)

    def sending(
        self,
        destination: str,
        out: Outgoing,
        *,
        transaction: str | None = None,
        is_request: bool = False,
        confirmed: bool = False,
    ) -> SendEnd:
        """A message is about to be sent; hooks may add to its headers. Returns what to call at the end."""
        sending = Sending(
            destination=destination,
            body_octets=len(out.body),
            transaction=transaction,
            is_request=is_request,
            confirmed=confirmed,
            _headers=out.headers,
        )
        ends = [_contained(hooks.sending, self._peer, sending) for hooks in self._hooks]

        def ended(delivery: Delivery | None, error: StompError | None) -> None:
            for end in ends:
                if end is not None:
                    _contained(end, delivery, error)

        return ended

    def posting(self, destination: str, out: Outgoing, transaction: str | None) -> AbstractContextManager[None]:
        """A message is sent within the block, and nobody waits for what becomes of it."""
        return _Posting(self.sending(destination, out, transaction=transaction))

    def received(self, message: Message) -> None:
        """A consumer has taken a message."""
        for hooks in self._hooks:
            _contained(hooks.received, self._peer, message)

    def settled(self, messages: Iterable[Message], how: Settlement, transaction: str | None) -> None:
        """Messages were acknowledged or refused."""
        for message in messages:
            for hooks in self._hooks:
                _contained(hooks.settled, self._peer, message, how, transaction)

    # --- handling -------------------------------------------------------------------------------------------------

    def handling(self, message: Message) -> AbstractContextManager[None]:
        """A message is handled within the block."""
        return _Handling(self, message)

    def begin(self, message: Message) -> None:
        """A message is about to be handled; inside of that, only the outermost block counts."""
        handled = self._handled.get(message)
        if handled is None:
            handled = self._handled[message] = _Handled()
            for hooks in self._hooks:
                manager = _contained(hooks.handling, self._peer, message)
                if manager is not None:
                    _contained(handled.enter, manager)
        handled.depth += 1

    def end(self, message: Message, error: BaseException | None) -> None:
        """The block that has begun last is over."""
        handled = self._handled[message]
        handled.depth -= 1
        if not handled.depth:
            del self._handled[message]
            for manager in reversed(handled.managers):
                trace = None if error is None else error.__traceback__
                _contained(manager.__exit__, None if error is None else type(error), error, trace)


class _Handled:
    """What was entered for a message that is being handled, and how many blocks are inside of each other."""

    def __init__(self) -> None:
        self.managers: list[AbstractContextManager[object]] = []
        self.depth = 0

    def enter(self, manager: AbstractContextManager[object]) -> None:
        manager.__enter__()
        self.managers.append(manager)


class _Handling(AbstractContextManager[None]):
    def __init__(self, observer: Observer, message: Message) -> None:
        self._observer = observer
        self._message = message

    def __enter__(self) -> None:
        self._observer.begin(self._message)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._observer.end(self._message, error)


class _Posting(AbstractContextManager[None]):
    def __init__(self, ended: SendEnd) -> None:
        self._ended = ended

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._ended(Delivery.SENT, None)
        else:
            self._ended(None, error if isinstance(error, StompError) else None)
