"""Hooks: how a program is told what its client does, for traces, metrics and tests.

`Hooks` is what users derive from. `Observer` calls the hooks of one connection: all of them, in order. What they raise
is logged and goes no further.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, ParamSpec, TypeVar

from trio_stomp.errors import ConnectionClosed, Delivery, StompError
from trio_stomp.session.header_input import header_pairs
from trio_stomp.session.message import Message, Settlement

__all__ = ["Hooks", "Observer", "Peer", "SendEnd", "Sending"]

logger: Final = logging.getLogger("trio_stomp")

P = ParamSpec("P")
T = TypeVar("T")

SendEnd = Callable[[Delivery | None, StompError | None], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """The other side of a connection.

    Attributes:
        endpoint: Its URL, without user and passcode.
        host: Its name or address.
        port: Its TCP port.
        broker: The name of its profile: ``RabbitMQ``, for example.
        server: What it says of itself.
    """

    endpoint: str
    host: str
    port: int
    broker: str
    server: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """A message that is about to be sent.

    Attributes:
        destination: Where to.
        body_bytes: The length of its body.
        transaction: The transaction that it is part of: it takes effect only when that is committed.
        is_request: Whether a reply to it is awaited.
        confirmed: Whether the broker is asked to confirm it.
    """

    destination: str
    body_bytes: int
    transaction: str | None
    is_request: bool
    confirmed: bool
    _headers: list[tuple[str, str]] = field(repr=False)

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """Its headers so far; receipt, transaction and content-length are none of them."""
        return tuple(self._headers)

    def add_header(self, name: str, value: str) -> None:
        """Add a header to the message. Where it has one of that name, the first counts.

        Raises:
            LocalProtocolError: It is not text, or one that the call itself sets.
        """
        self._headers.extend(header_pairs([(name, value)]))


class Hooks:
    """What is called as things happen on a client: derive from it, and override what you want to know.

    All are plain functions, called in the task in question, and must return soon. What they raise is logged, and
    disturbs nothing else. Without hooks, nothing of this is called, and it costs nothing.
    """

    def connected(self, peer: Peer) -> None:
        """A connection stands: the first one, or one after a loss."""

    def disconnected(self, peer: Peer, cause: StompError | None) -> None:
        """A connection has ended; `cause` is None where this program has ended it."""

    def sending(self, peer: Peer, message: Sending) -> SendEnd | None:
        """A message is about to be sent, by the task that sends it; after a loss, it is not told again.

        Returns:
            What to call when its sender is done with it, or None. It is given what is known of the message (None: it
            was not sent) and the error, if any. Of a request it is called when the reply is there. Of a message whose
            sender was cancelled, it is called with UNKNOWN and no error.
        """

    def received(self, peer: Peer, message: Message) -> None:
        """A consumer has taken a message, in its own task."""

    def handling(self, peer: Peer, message: Message) -> AbstractContextManager[object] | None:
        """A message is about to be handled: by a handler of `Subscription.work`, or in ``async with message:``.

        Returns:
            What to enter for that time, or None. It sees the exception, if any, and cannot stop it.
        """

    def settled(self, peer: Peer, message: Message, how: Settlement, transaction: str | None) -> None:
        """A message was acknowledged or refused; in a transaction: if that is committed."""


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
        headers: list[tuple[str, str]],
        body_bytes: int,
        *,
        transaction: str | None = None,
        is_request: bool = False,
        confirmed: bool = False,
    ) -> SendEnd:
        """A message is about to be sent; hooks may append to `headers`. Returns what to call at the end."""
        sending = Sending(
            destination=destination,
            body_bytes=body_bytes,
            transaction=transaction,
            is_request=is_request,
            confirmed=confirmed,
            _headers=headers,
        )
        ends = [_contained(hooks.sending, self._peer, sending) for hooks in self._hooks]

        def ended(delivery: Delivery | None, error: StompError | None) -> None:
            for end in ends:
                if end is not None:
                    _contained(end, delivery, error)

        return ended

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
