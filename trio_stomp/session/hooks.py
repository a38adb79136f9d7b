"""Hooks: functions of the program that the client calls when something happens, for traces, metrics and tests.

Users derive from `Hooks`. An `Observer` calls the hooks of one connection, all of them and in order. It logs the
exceptions that they raise.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, ParamSpec, TypeVar

from trio_stomp.errors import ConnectionClosed, DeliveryStatus, StompError
from trio_stomp.printable import name_of
from trio_stomp.runtime import called
from trio_stomp.session.message import Message, Settlement
from trio_stomp.session.outgoing import header_pairs

__all__ = ["ConnectionInfo", "Hooks", "Observer", "SendCallback", "Sending"]

logger: Final = logging.getLogger("trio_stomp")

P = ParamSpec("P")
T = TypeVar("T")

SendCallback = Callable[[DeliveryStatus | None, StompError | None], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionInfo:
    """The other side of a connection.

    Attributes:
        endpoint: Its URL, without user and passcode; with `connect_stream`, "the program's own stream".
        host: Host name or address; empty with `connect_stream`.
        port: TCP port; 0 with `connect_stream`.
        broker: Name of its profile, such as ``RabbitMQ``.
        server: Its ``server`` header.
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
        destination: Its destination.
        body_bytes: The length of its body.
        transaction: The id of its transaction, or None. It takes effect when that is committed.
        is_request: Whether it is a request that waits for a reply.
        confirmed: Whether the broker is asked for a RECEIPT.
    """

    destination: str
    body_bytes: int
    transaction: str | None
    is_request: bool
    confirmed: bool
    _headers: list[tuple[str, str]] = field(repr=False)

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """Its headers so far, without receipt, transaction and content-length."""
        return tuple(self._headers)

    def add_header(self, name: str, value: str) -> None:
        """Add a header to the message. If the message already has a header of that name, the first one counts.

        Raises:
            LocalProtocolError: Name or value is not text, or the client sets this header itself.
        """
        self._headers.extend(header_pairs([(name, value)]))


class Hooks:
    """Get called when a client connects, sends, receives or acknowledges: derive from it, and override what you need.

    All methods are synchronous, run in the task that caused the event, and must return soon. If one raises, the
    exception is logged and has no other effect. Pass an instance as ``connect(hooks=...)``. A client without hooks pays
    nothing for them.
    """

    def connected(self, peer: ConnectionInfo) -> None:
        """A connection was made: the first one, or a later one after a loss."""

    def disconnected(self, peer: ConnectionInfo, cause: StompError | None) -> None:
        """A connection has ended. `cause` is None if this program closed it."""

    def sending(self, peer: ConnectionInfo, message: Sending) -> SendCallback | None:
        """A message is about to be sent. Not called again when the message is resent after a loss.

        Returns:
            A function to call when sending has ended, or None. It receives the `DeliveryStatus` (None: not sent) and
            the error, if any. For a request it is called when the reply has arrived. If the sender was canceled, it
            receives UNKNOWN and no error.
        """

    def received(self, peer: ConnectionInfo, message: Message) -> None:
        """A consumer has taken a message."""

    def handling(self, peer: ConnectionInfo, message: Message) -> AbstractContextManager[object] | None:
        """A message is about to be handled: by a handler of `Subscription.work`, or in ``async with message:``.

        Returns:
            A context manager to enter meanwhile, or None. It sees the exception, if any, and cannot suppress it.
        """

    def settled(self, peer: ConnectionInfo, message: Message, how: Settlement, transaction: str | None) -> None:
        """A message was acknowledged or refused. In a `transaction`, that takes effect when it is committed."""


def _contained(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
    """Call a hook, and log the exception if it raises: a broken hook must not stop messages."""
    try:
        return called(call, *args, **kwargs)
    except Exception:
        logger.exception("the hook %s failed; the client continues", name_of(call))
        return None


class Observer:
    """The hooks of one connection.

    Args:
        hooks: The hooks of the user, in order.
        peer: The other side.
    """

    def __init__(self, hooks: Sequence[Hooks], peer: ConnectionInfo) -> None:
        self._hooks = hooks
        self._peer = peer
        self._handled: dict[Message, _Handled] = {}

    def connected(self) -> None:
        """The connection was made."""
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
        transaction: str | None,
        is_request: bool,
        confirmed: bool,
    ) -> SendCallback:
        """A message is about to be sent; hooks may append to `headers`. Returns a function to call at the end."""
        sending = Sending(
            destination=destination,
            body_bytes=body_bytes,
            transaction=transaction,
            is_request=is_request,
            confirmed=confirmed,
            _headers=headers,
        )
        ends = [_contained(hooks.sending, self._peer, sending) for hooks in self._hooks]

        def ended(delivery: DeliveryStatus | None, error: StompError | None) -> None:
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
        """Report that a message is handled, for the length of a block."""
        return _Handling(self, message)

    def begin(self, message: Message) -> None:
        """A message is about to be handled. Of nested blocks, only the outermost counts."""
        handled = self._handled.get(message)
        if handled is None:
            handled = self._handled[message] = _Handled()
            for hooks in self._hooks:
                manager = _contained(hooks.handling, self._peer, message)
                if manager is not None:
                    _contained(handled.enter, manager)
        handled.depth += 1

    def end(self, message: Message, error: BaseException | None) -> None:
        """The block that began last has ended."""
        handled = self._handled[message]
        handled.depth -= 1
        if not handled.depth:
            del self._handled[message]
            for manager in reversed(handled.managers):
                trace = None if error is None else error.__traceback__
                _contained(manager.__exit__, None if error is None else type(error), error, trace)


class _Handled:
    """The context managers entered for a message that is being handled, and how deep its blocks are nested."""

    def __init__(self) -> None:
        self.managers: list[AbstractContextManager[object]] = []
        self.depth = 0

    def enter(self, manager: AbstractContextManager[object]) -> None:
        called(manager.__enter__)
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
