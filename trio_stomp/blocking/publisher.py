"""Confirmed sending in a window, for synchronous code."""

# What the classes of this package hand each other is hidden from users alone.
# pyright: reportPrivateUsage=false
# ruff: noqa: SLF001

from __future__ import annotations

import threading
from collections.abc import Generator, Iterable
from contextlib import AbstractAsyncContextManager
from functools import partial
from math import inf
from typing import Final, TypeVar, Unpack

from trio_stomp.blocking.calls import Calls, entered
from trio_stomp.blocking.verbs import Shown, blocks, documented, like
from trio_stomp.brokers import SendOptions
from trio_stomp.client import HeaderInput, OutgoingMessage
from trio_stomp.client import Publication as AsyncPublication
from trio_stomp.client import Publisher as AsyncPublisher
from trio_stomp.errors import DeliveryStatus, StompError, UnconfirmedError, UnconfirmedMessage
from trio_stomp.runtime import sync_context
from trio_stomp.session import EncodeValue, checked, message_of, renewed, size_of

__all__ = ["Publication", "Publisher", "open_publisher"]

# The type of `json=`.
J = TypeVar("J")

# Of a message whose `Publisher.send` has raised, or was interrupted: it counts no longer.
_UNSENT: Final = StompError("it was not sent")


class Publication:
    """A message that was sent with a receipt, and its outcome. `Publisher.send` returns it.

    Attributes:
        destination: Its destination.
        body_bytes: The length of its body.
    """

    __slots__ = ("_calls", "_error", "_sent", "body_bytes", "destination")

    def __init__(
        self, calls: Calls | None = None, message: OutgoingMessage | None = None, sent: AsyncPublication | None = None
    ) -> None:
        if not isinstance(calls, Calls) or message is None:
            raise TypeError("a Publication cannot be constructed: Publisher.send() returns it")
        self._calls = calls
        # It exists when the message is in the outbox.
        self._sent = sent
        self._error: StompError | None = None
        self.destination = message.destination
        self.body_bytes = size_of(message.body)

    def __repr__(self) -> str:
        return repr(self._sent) if self._sent is not None else f"<Publication to {self.destination!r}: unknown>"

    @property
    def id(self) -> str:
        """Its stable id, which is the same each time that it is sent. Waits until the message is in the outbox.

        Raises:
            StompError: The message could not be sent.
        """
        if self._sent is None and self._error is None:
            self._calls.call(lambda _: self._reach(), raises_earlier=False)
        return self._inner.id

    @property
    def delivery(self) -> DeliveryStatus:
        """The outcome; UNKNOWN until the broker answers."""
        return DeliveryStatus.UNKNOWN if self._sent is None else self._sent.delivery

    @property
    def error(self) -> StompError | None:
        """Why it was not confirmed, or None."""
        return self._error if self._sent is None else self._sent.error

    @property
    def is_settled(self) -> bool:
        """Whether the outcome is final."""
        return self._error is not None if self._sent is None else self._sent.is_settled

    wait = blocks(AsyncPublication.wait, raises_earlier=False)

    @documented(AsyncPublication.wait_settled)
    def wait_settled(self, *, timeout: float | None = None) -> None:
        """Wait until the outcome is final; then see `delivery`."""
        self._calls.call(self._wait_settled, timeout, name="wait_settled", raises_earlier=False)

    @property
    def _inner(self) -> AsyncPublication:
        """The publication in the loop's thread, once its turn in the queue has come."""
        if self._sent is None:
            raise AssertionError if self._error is None else renewed(self._error)  # it was its turn
        return self._sent

    # --- in the loop's thread -------------------------------------------------------------------------------------

    async def _wait_settled(self, left: float | None) -> None:
        """Wait until the outcome is final.

        Cancellation: nothing changes.
        """
        if self._sent is not None:
            await self._sent.wait_settled(timeout=left)

    async def _reach(self) -> None:  # noqa: ASYNC124  # the call waits for everything posted
        """Nothing: its turn has come.

        Cancellation: no cancellation point.
        """

    async def _send(self, publisher: AsyncPublisher, message: OutgoingMessage, timeout: float | None) -> None:
        """Send it.

        Cancellation: the frame was sent whole or not at all.
        """
        try:
            self._sent = await publisher.send(message, timeout=timeout)
        except StompError as error:
            self._error = error
            raise


class Publisher:
    """Sends messages and collects their confirmations; see `Client.publisher`.

    Any number of threads may send through one publisher.
    """

    def __init__(
        self, calls: Calls | None = None, inner: AsyncPublisher | None = None, max_messages: int = 0, max_bytes: int = 0
    ) -> None:
        if not isinstance(calls, Calls) or inner is None:
            raise TypeError("a Publisher cannot be constructed: use with client.publisher() as publisher")
        self._calls = calls
        self._inner = inner
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        # What is in flight or in the queue, and some that is settled.
        self._open: list[Publication] = []
        self._bytes = 0
        self._counting = threading.Lock()

    def __repr__(self) -> str:
        return repr(self._inner)

    confirmed = Shown[int](AsyncPublisher, "confirmed")

    @property
    def in_flight(self) -> int:
        """Number of messages that await their RECEIPT, including those that wait to be written."""
        return sum(not each.is_settled for each in tuple(self._open))

    @like(AsyncPublisher.send)
    def send(
        self,
        destination: str | OutgoingMessage,
        body: bytes | str | None = None,
        *,
        json: J | None = None,
        encode: EncodeValue[J] | None = None,
        headers: HeaderInput | None = None,
        content_type: str | None = None,
        timeout: float | None = None,
        **options: Unpack[SendOptions],
    ) -> Publication:
        """Send a message. Waits only while the window is full, or while there is no connection."""
        message = message_of(destination, body, headers, content_type, options, json, encode)
        calls = self._calls
        if calls.failures:
            calls.raise_failure()
        copied = checked(calls.link.session, message)
        publication = Publication(calls, message)
        size, is_sent = publication.body_bytes, False
        # The window of the inner publisher holds in any case. This one keeps acknowledgments, which share the queue,
        # from waiting behind a message that has no room.
        with self._counting:
            has_room = copied is not None and self._has_room(size)
            self._open.append(publication)
            self._bytes += size
        try:
            if copied is not None and has_room:
                no_limit = None if calls.link.session.settings.timeout is None else inf
                calls.post(partial(publication._send, self._inner, copied, no_limit), size, timeout)
            else:
                calls.call(partial(publication._send, self._inner, message), timeout, name="send")
            is_sent = True
        finally:
            if not is_sent and publication._sent is None:
                publication._error = _UNSENT
        return publication

    @documented(AsyncPublisher.send_many)
    def send_many(self, messages: Iterable[OutgoingMessage], *, timeout: float | None = None) -> list[Publication]:
        """Send many messages in one call, which is faster than a call of `send` for each."""
        listed = tuple(messages)
        self._calls.raise_failure()
        inner = self._calls.call(lambda left: self._inner.send_many(listed, timeout=left), timeout, name="send_many")
        sent = [Publication(self._calls, *each) for each in zip(listed, inner, strict=True)]
        with self._counting:
            self._forget_settled()
            self._open += sent
            self._bytes += sum(each.body_bytes for each in sent)
        return sent

    wait_confirmed = blocks(AsyncPublisher.wait_confirmed)

    def _has_room(self, size: int) -> bool:
        if not self._fits(size):
            self._forget_settled()
        return self._fits(size)

    def _forget_settled(self) -> None:
        self._open = [each for each in self._open if not each.is_settled]
        self._bytes = sum(each.body_bytes for each in self._open)

    def _fits(self, size: int) -> bool:
        fits = len(self._open) < self._max_messages and self._bytes + size <= self._max_bytes
        return fits or not self._open

    def _unconfirmed(self, failure: Exception) -> UnconfirmedError:
        """Return the error for what was posted and has failed, with the messages that were never sent, each once."""
        known = failure.messages if isinstance(failure, UnconfirmedError) else ()
        with self._counting:
            # They have no id, because sending assigns that.
            unsent = [
                UnconfirmedMessage(
                    id="",
                    destination=each.destination,
                    delivery=DeliveryStatus.UNKNOWN,
                    reason=f"it was not sent: {each.error}",
                )
                for each in self._open
                if each._sent is None and each.error is not None and each.error is not _UNSENT
            ]
            self._open = [each for each in self._open if each._sent is not None or each.error is None]
        error = UnconfirmedError([*known, *unsent])
        error.__cause__ = failure
        return error


@sync_context("publisher()", "with client.publisher() as publisher:")
def open_publisher(
    calls: Calls,
    manager: AbstractAsyncContextManager[AsyncPublisher],
    max_messages: int,
    max_bytes: int,
    timeout: float | None,
) -> Generator[Publisher]:
    """Keep a publisher for the length of a block."""
    own = calls.branch()
    calls.catch_up(timeout)
    with entered(own, manager, timeout, own.take_failure) as inner:
        publisher = Publisher(own, inner, max_messages, max_bytes)
        own.to_raise = publisher._unconfirmed
        yield publisher
