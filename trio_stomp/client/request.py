"""Request and reply: questions with a ``correlation-id``, and one subscription for all the answers.

Each connection on which something is asked gets one destination for replies: a temporary queue, where the broker has
such. Replies wake whoever asked by themselves; there is no task that reads them.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

import trio

from trio_stomp.errors import Delivery, LocalProtocolError, OutcomeUnknown, RequestTimeout, StompError
from trio_stomp.protocol import AckMode, Frame
from trio_stomp.session import (
    AckTracker,
    Codec,
    Connection,
    DeliveredMessage,
    Message,
    Observer,
    OutgoingMessage,
    SendEnd,
    Session,
    Settlement,
    ask,
    header_pairs,
    renewed,
)

__all__ = ["Requests"]

logger: Final = logging.getLogger("trio_stomp")


V = TypeVar("V")


class _Waiting(Protocol):
    """What replies know of a question; what its reply is decoded to is no matter of theirs."""

    def answer(self, frame: Frame, replies: Replies, sequence: int) -> None:
        """Its reply is there."""

    def fail(self, error: StompError) -> None:
        """No reply can come."""


@dataclass(frozen=True, slots=True)
class _ReplySource(Generic[V]):
    """Where a reply came from, as the reply shows it: the destination of all, with the codec of one question."""

    id: str
    destination: str
    codec: Codec[V]
    ack_mode: AckMode = AckMode.AUTO


class _Question(Generic[V]):
    """One request that awaits its reply."""

    def __init__(self, destination: str, codec: Codec[V]) -> None:
        self.destination = destination
        self.codec = codec
        self.answered = trio.Event()
        self.reply: Message[V] | None = None
        self.error: StompError | None = None
        self.delivery: Delivery | None = None
        self.observer: Observer | None = None
        self.ended: SendEnd | None = None

    def answer(self, frame: Frame, replies: Replies, sequence: int) -> None:
        source = _ReplySource(replies.id, replies.destination, self.codec)
        self.reply = DeliveredMessage(frame, source, replies.acks, Settlement.NEEDLESS, sequence)
        self.answered.set()

    def fail(self, error: StompError) -> None:
        msg = f"the request to {self.destination!r} was sent and may have been handled, but no reply can come: {error}"
        self.error = OutcomeUnknown(msg)
        self.error.__cause__ = error
        self.answered.set()

    def end(self) -> None:
        """Tell the hooks, in the task that has asked."""
        if self.ended is not None:
            self.ended(Delivery.CONFIRMED if self.reply is not None else self.delivery, self.error)
        if self.observer is not None and self.reply is not None:
            self.observer.received(self.reply)


class Replies:
    """The replies that come over one connection: a subscription, its buffer and its receipt in one.

    Attributes:
        connection: That connection.
        id: Its id there.
        destination: Where replies are to be sent, as ``reply-to`` spells it.
        acks: Their tracker; there is nothing to settle.
        questions: Who waits, by correlation-id.
        stands: Set when replies can come, or when it is known that they cannot.
        error: Why they cannot.
        was_refused: Whether the broker said so.
    """

    # What waits here is in the hands of those who asked.
    keeps_after_loss = True

    def __init__(self, connection: Connection, name: str, destination: str | None) -> None:
        profile = connection.profile
        self.connection = connection
        wanted = profile.reply_destination(name) if destination is None else destination
        self.destination, self._headers = profile.reply_address(wanted)
        self._needs_subscribe = profile.replies_need_subscribe(wanted)
        self.id = name if self._needs_subscribe else self.destination
        self.questions: dict[str, _Waiting] = {}
        self.stands = trio.Event()
        self.error: StompError | None = None
        self.was_refused = False
        self._came = 0
        self.acks = AckTracker(connection, subscription_id=self.id, name=f"replies at {self.id!r}", ack=AckMode.AUTO)

    def open(self) -> None:
        """Make sure that replies can come; `stands` tells when."""
        connection = self.connection
        if not self._needs_subscribe:
            connection.register(self.id, self)
            self.stands.set()
            return
        headers = list(self._headers)
        if connection.profile.answers_subscribe:
            headers.append(("receipt", connection.receipts.expect_for(self)))
        else:
            self.stands.set()
        frame = connection.protocol.subscribe(self.id, self.destination, AckMode.AUTO, headers=headers)
        connection.register(self.id, self)
        connection.post(frame)

    def ask(self, correlation_id: str, message: OutgoingMessage, question: _Question[V]) -> None:
        """Send a request; its reply goes to `question`."""
        connection = self.connection
        question.observer = connection.observer
        question.ended = ask(connection, message, self.destination, correlation_id)
        question.delivery = Delivery.UNKNOWN
        self.questions[correlation_id] = question

    # --- what a connection tells its subscriptions ------------------------------------------------------------------

    @property
    def inbox(self) -> Replies:
        """It takes its messages itself."""
        return self

    @property
    def octets(self) -> int:
        """Nothing waits here."""
        return 0

    @property
    def holds_messages(self) -> bool:
        """Replies wake those who asked, and wait for nobody."""
        return False

    def clear(self) -> None:
        """Nothing waits here that could be forgotten."""

    def put(self, frames: Sequence[Frame]) -> bool:
        """Wake those who asked."""
        for frame in frames:
            self._came += 1
            question = self.questions.pop(frame.headers.get("correlation-id") or "", None)
            if question is None:
                self.connection.counters.messages_unroutable += 1
                logger.debug("a reply that nobody waits for: %s", frame)
                continue
            question.answer(frame, self, self._came)
        return False

    def wake(self) -> None:
        """Everybody is awake already."""

    def overflow(self, what: str) -> None:
        """Nothing waits here that could be too much."""

    def cancelled_by_broker(self, error: StompError) -> None:
        """No more replies come."""
        self.lost(error)

    def connection_ended(self, failure: StompError, *, outlived: bool) -> None:  # noqa: ARG002  # both ways the same
        """No more replies come over this connection."""
        self.lost(failure)

    # --- what a receipt tells -----------------------------------------------------------------------------------------

    def confirmed(self) -> None:
        """Its SUBSCRIBE was taken."""
        self.stands.set()

    def refused(self, error: StompError) -> None:
        """Its SUBSCRIBE was not taken."""
        self.connection.protocol.forget_subscription(self.id)
        self.connection.forget(self.id)
        self.was_refused = True
        self.lost(error)

    def lost(self, error: StompError) -> None:
        """No more replies come: whoever waits learns that its request may have been handled."""
        self.error = error
        self.stands.set()
        questions, self.questions = self.questions, {}
        for question in questions.values():
            question.fail(error)


class Requests:
    """The requests of one client."""

    def __init__(self, session: Session) -> None:
        self._session = session
        # Other clients of the broker may ask too: where it has no temporary queues, names must differ.
        self._name = f"replies-{secrets.token_hex(8)}"
        self._count = 0
        # By where they go: None is where the broker's profile says. Kept, with their ids, for the next connection.
        self._ids: dict[str | None, str] = {None: self._name}
        self._replies: dict[str | None, Replies] = {}

    async def ask(self, message: OutgoingMessage, seconds: float, codec: Codec[V], reply_to: str | None) -> Message[V]:
        """Send a request and wait for its reply; see `Client.request`."""
        _check(message, seconds, reply_to)
        self._count += 1
        correlation_id = f"{self._name}-{self._count}"
        question = _Question(message.destination, codec)
        replies: Replies | None = None
        try:
            with trio.move_on_after(seconds):
                replies = await self._standing(reply_to)
                replies.ask(correlation_id, message, question)
                await question.answered.wait()
            if question.reply is None and question.error is None:
                where = "" if replies is not None else "; there was no connection to send it on"
                msg = f"no reply to the request to {message.destination!r} within {seconds:g} s{where}"
                question.error = RequestTimeout(msg)
        finally:
            if replies is not None:
                replies.questions.pop(correlation_id, None)
            question.end()
        if question.reply is None:
            raise renewed(question.error) if question.error is not None else AssertionError
        return question.reply

    async def _standing(self, reply_to: str | None) -> Replies:
        """The replies of the connection in use, once they can come."""
        id_ = self._ids.setdefault(reply_to, f"{self._name}-to-{len(self._ids)}")
        while True:
            connection = await self._session.turn()
            replies = self._replies.get(reply_to)
            if replies is None or replies.connection is not connection:
                replies = Replies(connection, id_, reply_to)
                replies.open()
                self._replies[reply_to] = replies
            if replies.stands.is_set() and replies.error is None:
                return replies
            await replies.stands.wait()
            if replies.error is not None and replies.was_refused:
                # Let the next request try again, and tell this one.
                if self._replies.get(reply_to) is replies:
                    del self._replies[reply_to]
                raise renewed(replies.error)


def _check(message: OutgoingMessage, seconds: float, reply_to: str | None) -> None:
    if not seconds > 0:
        msg = f"timeout must be more than 0 seconds, got {seconds!r}"
        raise LocalProtocolError(msg)
    if reply_to == "":
        msg = "reply_to must name a destination; leave it out for a temporary one"
        raise LocalProtocolError(msg)
    names = {name for name, _ in header_pairs(message.headers)}
    for name in ("reply-to", "correlation-id"):
        if name in names:
            instead = "pass reply_to=" if name == "reply-to" else "leave it out"
            msg = f"header {name!r} of a request is set by request() itself; {instead}"
            raise LocalProtocolError(msg)
