"""Request and reply: requests with a ``correlation-id``, and one subscription for all replies.

Each connection on which a request is sent gets one destination for replies: a temporary queue, if the broker has them.
A reply directly wakes the task that waits for it; no task in between reads replies.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

import anyio

from trio_stomp.brokers import require_destination
from trio_stomp.errors import DeliveryStatus, LocalProtocolError, OutcomeUnknown, RequestTimeout, StompError
from trio_stomp.protocol import AckMode, Frame
from trio_stomp.session import (
    AckTracker,
    Codec,
    Connection,
    HeaderInput,
    Message,
    Parts,
    SendCallback,
    Session,
    Settlement,
    ask,
    header_pairs,
    renewed,
    send_reply,
    tracker_of,
)

__all__ = ["Requests"]

logger: Final = logging.getLogger("trio_stomp")


V = TypeVar("V")


class _Waiting(Protocol):
    """A question of any type of reply."""

    def answer(self, frame: Frame, replies: Replies, sequence: int) -> None:
        """Accept the reply."""

    def fail(self, error: StompError) -> None:
        """Report that no reply can come."""


class ReplySubscription(NamedTuple, Generic[V]):
    """What a reply shows as its subscription: the destination of all replies, with the codec of one question."""

    id: str
    destination: str
    codec: Codec[V]
    session: Session
    ack_mode: AckMode = AckMode.AUTO

    async def _reply(self, message: Parts[bytes | str], *, receipt: bool, timeout: float | None) -> None:
        await send_reply(self.session, message, receipt=receipt, timeout=timeout)


class _Question(Generic[V]):
    """One request that awaits its reply."""

    def __init__(self, session: Session, destination: str, codec: Codec[V]) -> None:
        self.session = session
        self.destination = destination
        self.codec = codec
        self.answered = anyio.Event()
        self.reply: Message[V] | None = None
        self.error: StompError | None = None
        self.ended: SendCallback | None = None

    def answer(self, frame: Frame, replies: Replies, sequence: int) -> None:
        source = ReplySubscription(replies.id, replies.destination, self.codec, self.session)
        self.reply = Message(frame, source, replies.acks, Settlement.AUTO, sequence)
        self.answered.set()

    def fail(self, error: StompError) -> None:
        msg = f"the request to {self.destination!r} was sent and may have been handled, but no reply can come: {error}"
        self.error = OutcomeUnknown(msg)
        self.error.__cause__ = error
        self.answered.set()

    def end(self) -> None:
        """Call the hooks, in the task that sent the request."""
        if self.ended is not None:
            self.ended(DeliveryStatus.CONFIRMED if self.reply is not None else DeliveryStatus.UNKNOWN, self.error)
        if self.reply is not None:
            observer = tracker_of(self.reply).observer
            if observer is not None:
                observer.received(self.reply)


class Replies:
    """The replies on one connection: a subscription, its buffer and its receipt in one.

    Attributes:
        connection: The connection.
        id: The id of the subscription.
        destination: Where services send replies: the value of ``reply-to``.
        acks: The tracker of the replies; there is nothing to settle.
        questions: The questions that wait, by correlation-id.
        ready: Set when replies can come, or when it is certain that they cannot.
        error: Why replies cannot come.
        refusal: The ERROR by which the broker refused the subscription, or None.
    """

    # A reply that has arrived belongs to the task that asked.
    keeps_after_loss = True

    def __init__(self, connection: Connection, name: str, destination: str | None) -> None:
        profile = connection.profile
        self.connection = connection
        wanted = profile.reply_destination(name) if destination is None else destination
        self.destination, self._headers = profile.reply_address(wanted)
        self._needs_subscribe = profile.replies_need_subscribe(wanted)
        self.id = name if self._needs_subscribe else self.destination
        self.questions: dict[str, _Waiting] = {}
        self.ready = anyio.Event()
        self.error: StompError | None = None
        self.refusal: StompError | None = None
        self._came = 0
        self.acks = AckTracker(connection, subscription_id=self.id, name=f"replies at {self.id!r}", ack=AckMode.AUTO)

    def open(self) -> None:
        """Subscribe to replies, if the broker requires it; `ready` is set when they can come."""
        connection = self.connection
        if not self._needs_subscribe:
            connection.register(self.id, self)
            self.ready.set()
            return
        headers = list(self._headers)
        receipt_id = connection.receipts.new_id() if connection.profile.answers_subscribe else None
        if receipt_id is not None:
            headers.append(("receipt", receipt_id))
        # It may raise, and then no RECEIPT comes.
        frame = connection.protocol.subscribe(self.id, self.destination, AckMode.AUTO, headers=headers)
        if receipt_id is None:
            self.ready.set()
        else:
            connection.receipts.expect_for(receipt_id, self)
        connection.register(self.id, self)
        connection.post(frame)

    def ask(self, correlation_id: str, message: Parts[bytes | str], question: _Question[V]) -> None:
        """Send a request; its reply goes to `question`."""
        connection = self.connection
        question.ended = ask(connection, message, self.destination, correlation_id)
        self.questions[correlation_id] = question

    # --- what a connection calls on its subscriptions ---------------------------------------------------------------

    @property
    def inbox(self) -> Replies:
        """This object: it has no separate buffer."""
        return self

    @property
    def held_bytes(self) -> int:
        """Always 0: replies do not wait here."""
        return 0

    @property
    def holds_messages(self) -> bool:
        """Always False: replies do not wait here."""
        return False

    def clear(self) -> None:
        """Do nothing: replies do not wait here."""

    def put(self, frames: Sequence[Frame]) -> bool:
        """Give each reply to its question."""
        for frame in frames:
            self._came += 1
            question = self.questions.pop(frame.headers.get("correlation-id") or "", None)
            if question is None:
                self.connection.counters.messages_unroutable += 1
                logger.debug("a reply that no request waits for: %s", frame)
                continue
            question.answer(frame, self, self._came)
        return False  # `answer` has woken the task

    def wake(self) -> None:
        """Do nothing: `put` wakes the tasks."""

    def overflow(self, what: str) -> None:
        """Do nothing: replies do not wait here."""

    def cancelled_by_broker(self, error: StompError) -> None:
        """The broker has ended the subscription."""
        self.lost(error)

    def connection_ended(self, failure: StompError, *, outlived: bool) -> None:  # noqa: ARG002  # both ways the same
        """The connection has ended."""
        self.lost(failure)

    # --- how the broker answers SUBSCRIBE -----------------------------------------------------------------------------

    def confirmed(self) -> None:
        """The broker has accepted SUBSCRIBE."""
        self.ready.set()

    def refused(self, error: StompError) -> None:
        """The broker has refused SUBSCRIBE."""
        self.connection.protocol.forget_subscription(self.id)
        self.connection.forget(self.id)
        self.refusal = error
        self.lost(error)

    def lost(self, error: StompError) -> None:
        """No more replies come: fail every question that waits."""
        self.error = error
        self.ready.set()
        questions, self.questions = self.questions, {}
        for question in questions.values():
            question.fail(error)


class Requests:
    """The requests of one client."""

    def __init__(self, session: Session) -> None:
        self._session = session
        # On a broker without temporary queues, the names of all clients must differ.
        self._name = f"replies-{os.urandom(8).hex()}"
        self._count = 0
        # Both by `reply_to`; None is the destination of the broker's profile. A reconnection does not change the ids.
        self._ids: dict[str | None, str] = {None: self._name}
        self._replies: dict[str | None, Replies] = {}

    async def ask(
        self, message: Parts[bytes | str], seconds: float, codec: Codec[V], reply_to: str | None
    ) -> Message[V]:
        """Send a request and wait for its reply; see `Client.request`."""
        destination, _, headers, _, _ = message
        _check(headers, seconds, reply_to)
        self._count += 1
        correlation_id = f"{self._name}-{self._count}"
        question = _Question(self._session, destination, codec)
        replies: Replies | None = None
        try:
            with anyio.move_on_after(seconds):
                replies = await self._ready_replies(reply_to)
                replies.ask(correlation_id, message, question)
                with replies.connection.awaiting_reply():
                    await question.answered.wait()
            if question.reply is None and question.error is None:
                why = ""
                if replies is None and self._session.takes_frames:
                    why = "; it was not sent, because the broker has not answered the SUBSCRIBE for replies"
                elif replies is None:
                    why = "; there was no connection to send it on"
                msg = f"no reply to the request to {destination!r} within {seconds:g} s{why}"
                question.error = RequestTimeout(msg)
        finally:
            if replies is not None:
                replies.questions.pop(correlation_id, None)
            question.end()
        if question.reply is None:
            raise renewed(question.error) if question.error is not None else AssertionError
        return question.reply

    async def _ready_replies(self, reply_to: str | None) -> Replies:
        """Return the replies of the current connection, as soon as they can come."""
        id_ = self._ids.setdefault(reply_to, f"{self._name}-to-{len(self._ids)}")
        while True:
            connection = await self._session.turn()
            replies = self._replies.get(reply_to)
            if replies is None or replies.connection is not connection or replies.error is not None:
                replies = Replies(connection, id_, reply_to)
                replies.open()
                self._replies[reply_to] = replies
            if replies.ready.is_set():
                return replies
            await replies.ready.wait()
            if replies.refusal is not None:
                # This request fails; the next one tries to subscribe again.
                raise renewed(replies.refusal)


def _check(headers: HeaderInput | None, seconds: float, reply_to: str | None) -> None:
    if not seconds > 0:
        msg = f"timeout must be more than 0 seconds, got {seconds!r}"
        raise LocalProtocolError(msg)
    if reply_to == "":
        msg = "reply_to must name a destination; leave it out for a temporary one"
        raise LocalProtocolError(msg)
    if reply_to is not None:
        require_destination(reply_to, "reply_to")
    names = {name for name, _ in header_pairs(headers)}
    for name in ("reply-to", "correlation-id"):
        if name in names:
            instead = "pass reply_to=" if name == "reply-to" else "leave it out"
            msg = f"header {name!r} of a request is set by request() itself; {instead}"
            raise LocalProtocolError(msg)
