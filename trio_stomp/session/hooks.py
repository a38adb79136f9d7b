"""Hooks: what a client tells of its doings, for traces, metrics and tests; and what a hook is told."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from trio_stomp.errors import Delivery, StompError
from trio_stomp.session.header_input import header_pairs
from trio_stomp.session.message import Message, Settlement

__all__ = ["Hooks", "Peer", "SendEnd", "Sending"]

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
        body_octets: The length of its body.
        transaction: The transaction that it is part of: it takes effect only when that is committed.
        is_request: Whether a reply to it is awaited.
        confirmed: Whether the broker is asked to confirm it.
    """

    destination: str
    body_octets: int
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
