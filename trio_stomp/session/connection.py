"""One connection: its link, everything that waits on it in both directions, and how all of that ends with it.

Theory of operation. Background tasks serve a connection (see `connection_tasks`). The reader turns bytes into events
and passes them to `route`; a task that waits for a RECEIPT may do that in its place (see `reading`). The writer sends
what verbs have put into the outbox. Two more watch the clock: one sends heart-beats, the other expects the broker's.
None of them raises. Each failure goes to `fail`, which ends the connection once, for one reason, and wakes every task
that waits.

A verb first awaits `turn`: a checkpoint now and then, room in the outbox, and a look at the state. Then come the
protocol step and the append, without an await in between. So a verb that is canceled has sent a whole frame or nothing.

A connection has no state of its own: it is in use as the session's state says, until it has a `failure`. `check`
decides whether ACK, NACK and transactions may still send, since they are bound to this connection. All other verbs ask
the session for a connection, and never get one that is being left.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import anyio
import anyio.lowlevel

from trio_stomp.errors import (
    BrokerError,
    ConnectionClosed,
    ConnectionLost,
    RemoteProtocolError,
    StaleMessage,
    StompError,
)
from trio_stomp.printable import safe_str
from trio_stomp.protocol import (
    BodySink,
    ClientEvent,
    ErrorReceived,
    Frame,
    Headers,
    MessagesReceived,
    ReceiptsReceived,
    State,
    Violation,
)
from trio_stomp.runtime import OTHER_LOOP, clock, current_time, loop_id, move_on_at
from trio_stomp.session.buffer import Gate, Inbox
from trio_stomp.session.failures import mark_raised, renewed
from trio_stomp.session.hooks import ConnectionInfo, Observer
from trio_stomp.session.outbox import Outbox
from trio_stomp.session.reading import Reading
from trio_stomp.session.spool import SMALLEST_THRESHOLD, Spooling
from trio_stomp.session.state import TAKES_FRAMES, DisconnectResult, SessionState, Step
from trio_stomp.session.wire_log import LoggedOutbox, wire_log
from trio_stomp.transport import MessageStream

if TYPE_CHECKING:
    from trio_stomp.session.dialing import Link
    from trio_stomp.session.receipts import Receipts
    from trio_stomp.session.settings import Settings
    from trio_stomp.session.statistics import Counters
    from trio_stomp.transport import Endpoint

__all__ = ["CLOSED", "Connection", "Left", "LeftLater", "Receiver", "Unsubscribing"]

logger: Final = logging.getLogger("trio_stomp")

# Each call of a hot verb could be a checkpoint; a full one costs more than decoding a frame, so it is one in this many.
_CALLS_PER_CHECKPOINT: Final = 64

# Passes of the event loop in which the reader of a stream is woken and reads. TLS was seen to need 6.
_PASSES_PER_READ: Final = 10
# The kernel holds some MiB, and a broker that goes on sending must not keep the program from leaving.
_MOST_READS: Final = 200

CLOSED: Final = "this client was closed; open a new one with connect()"

# Where it is in use, and not being left.
_OPEN: Final = frozenset({SessionState.CONNECTED, SessionState.RESTORING})


class Receiver(Protocol):
    """The buffer of one subscription."""

    keeps_after_loss: bool

    @property
    def held_bytes(self) -> int:
        """Memory used by its messages."""
        ...

    def clear(self) -> None:
        """Drop all messages."""

    def put(self, frames: Sequence[Frame]) -> bool:
        """Add messages; return whether to call `wake` after the chunk."""
        ...

    def wake(self) -> None:
        """Wake the tasks that wait, at the end of a chunk of input."""

    def overflow(self, what: str) -> None:
        """Fail the subscription, because its consumers are too slow."""


class Registered(Protocol):
    """A subscription, as its connection sees it."""

    @property
    def inbox(self) -> Receiver:
        """Its buffer."""
        ...

    @property
    def holds_messages(self) -> bool:
        """Whether there are unsettled messages, which the broker redelivers after a loss."""
        ...

    def cancelled_by_broker(self, error: StompError) -> None:
        """The broker has ended the subscription."""

    def connection_ended(self, failure: StompError, *, outlived: bool) -> None:
        """The connection has ended; if `outlived`, another one follows."""


class Owner(Protocol):
    """The session, as its connections see it."""

    @property
    def state(self) -> SessionState:
        """Its state."""
        ...

    @property
    def receipts(self) -> Receipts:
        """Its book of what awaits a RECEIPT."""
        ...

    @property
    def counters(self) -> Counters:
        """Its counters."""
        ...

    def enter(self, step: Step) -> None:
        """Change its state."""

    def connection_ended(self, failure: StompError, *, attributed: bool) -> bool:
        """The connection has ended; return whether another one follows."""
        ...


class Left(NamedTuple):
    """A subscription that was left.

    Attributes:
        destination: Its destination.
        headers: The other headers of its SUBSCRIBE.
        acknowledges: Whether its messages are acknowledged at all.
    """

    destination: str
    headers: tuple[tuple[str, str], ...]
    acknowledges: bool


class LeftLater(NamedTuple):
    """A subscription that is left when transactions have ended.

    Attributes:
        destination: Its destination.
        leave: Sends its UNSUBSCRIBE.
    """

    destination: str
    leave: Callable[[], None]


class Unsubscribing:
    """How subscriptions are left: UNSUBSCRIBE is enough for brokers that requeue unsettled messages then.

    See `requeue_after_unsubscribe` for a broker that does not.
    """

    def unsubscribe(self, connection: Connection, subscription_id: str, left: Left, held: Sequence[Headers]) -> None:
        """Send UNSUBSCRIBE.

        Args:
            connection: The connection of the subscription.
            subscription_id: Its id.
            left: What else is known of it.
            held: The headers of its messages that are not settled.
        """
        del left, held  # the broker requeues them by itself
        if connection.takes_frames:
            connection.post(connection.protocol.unsubscribe(subscription_id))

    def deleted(self, subscription_id: str, left: Left) -> None:
        """Note that a durable subscription was deleted at the broker, together with its messages."""

    def subscribed(self) -> None:
        """Note that a subscription was opened."""

    def late_message(self, message: Headers, subscription_id: str | None) -> None:
        """Note a MESSAGE for a subscription that is not open."""

    def is_late_delivery(self, error: Headers, body: bytes, *, newest: Headers | None, messages: int) -> bool:  # noqa: ARG002  # here none does
        """Return whether an ERROR replaces a late delivery, so that it can be ignored; note its number.

        Args:
            error: The headers of the ERROR.
            body: The body of the ERROR.
            newest: The headers of the newest MESSAGE on this connection.
            messages: The number of MESSAGE frames so far on this connection.
        """
        return False

    async def run(self, connection: Connection) -> None:
        """Requeue late deliveries until the connection ends.

        Cancellation: what was not refused stays locked until the connection ends.
        """


class Connection:
    """One link in use.

    Args:
        link: The link, connected.
        settings: The options of the client.
        session: The session that it belongs to.
        unsubscribing: How to leave subscriptions at its broker.

    Attributes:
        settings: The options of the client.
        takes_frames: Whether verbs that are bound to it may send. For all others the session decides.
        failure: Why it ended.
        is_replaced: Whether it ended, and another one follows or has followed.
        ending: The failure to end it with after DISCONNECT.
        was_closed: Whether it ended because the peer closed or reset it.
        violation: Input that cannot be decoded; the connection ends with it once all earlier messages are settled.
        takes_plain: Whether the accelerator of SEND may be used: no hook has to see the headers, and no body has to be
            looked at.
        names_all: Whether each confirmed message gets a stable id; if not, only those of publishers.
        sent_plain: Whether a message was sent whose refusal no call would raise: one without a receipt.
        plain_destination: Where the last of those went that are no replies.
        left_later: Subscriptions that are left when transactions have ended, by their ids.
        acks_cross: Whether it has had a subscription whose ACKs settle messages of all others.
        opened_at: Clock time of its beginning.
        confirmed_before: How many messages of the session were confirmed before it.
        last_read: Clock time of the last read.
        last_write: Clock time of the last write.
        now: Returns the clock time, with fewer calls than `current_time`.
        loop: The event loop that it belongs to, as `loop_id` tells it there.
        loop_id: Tells the event loop that runs.
        awaited_replies: How many requests wait for their reply.
        observer: Calls the hooks of the program, if it has any.
        reading: Whose turn it is to read it.
        unsubscribing: The argument.
        wire: Logs its frames, if that is enabled.
        spooling: What writes large bodies to files, once a subscription asks for it.
    """

    # Each message asks for some of these, and in a dict of more than 30 names that takes longer: a twentieth of a send.
    __slots__ = (
        "__weakref__",
        "_calls",
        "_messages",
        "_newest",
        "_session",
        "_spools",
        "_touched",
        "acks_cross",
        "awaited_replies",
        "confirmed_before",
        "counters",
        "ended",
        "ending",
        "failure",
        "gate",
        "inboxes",
        "is_replaced",
        "last_read",
        "last_write",
        "left_later",
        "lends_reads",
        "link",
        "loop",
        "loop_id",
        "names_all",
        "now",
        "observer",
        "opened_at",
        "outbox",
        "plain_destination",
        "profile",
        "protocol",
        "reading",
        "receipts",
        "receive_some",
        "registered",
        "sent_plain",
        "settings",
        "spooling",
        "stream",
        "takes_frames",
        "takes_plain",
        "terms",
        "unsubscribing",
        "violation",
        "was_closed",
        "wire",
        "write_now",
        "writes_now",
    )

    def __init__(self, link: Link, settings: Settings, session: Owner, unsubscribing: Unsubscribing) -> None:
        self.stream = link.stream
        self.protocol = link.protocol
        self.profile = link.profile
        self.terms = link.connected.terms
        self.link = link
        self.settings = settings
        # A quarter; the rest is for messages that arrive while the reader must continue.
        self.gate = Gate(settings.limits.undelivered_bytes // 4)
        self.wire = wire_log(link.endpoint, link.protocol.version, link.protocol.secrets)
        room, wake_reader = settings.outbox_bytes, self.gate.notify
        self.outbox = Outbox(room, wake_reader) if self.wire is None else LoggedOutbox(room, wake_reader, self.wire)
        self.writes_now, self.lends_reads = link.stream.writes_now, link.stream.lends_reads
        self.write_now, self.receive_some = link.stream.write_now, link.stream.receive_some
        self.reading = Reading()
        self.receipts = session.receipts
        self.confirmed_before = self.receipts.confirmed
        self.receipts.connected(self.gate.notify)
        self.counters = session.counters
        self._session = session
        self.unsubscribing = unsubscribing
        # A message without a subscription header looks up None here, and finds nothing.
        self.inboxes: dict[str | None, Receiver] = {}
        self.registered: dict[str, Registered] = {}
        self.takes_frames = True
        self.failure: StompError | None = None
        self.is_replaced = False
        self.was_closed = False
        self.ending: StompError = ConnectionClosed(CLOSED)
        self.violation: RemoteProtocolError | None = None
        # Artemis writes each id to its disk before it confirms the message, and a sender of one at a time waits for it.
        # The id pays where the message may be sent again, or where many wait together.
        self.names_all = settings.reconnect is not None or not link.profile.dialect.dedup_header
        self.sent_plain = False
        self.plain_destination: str | None = None
        self.left_later: dict[str, LeftLater] = {}
        self.acks_cross = False
        self.spooling: Spooling | None = None
        self._spools: dict[str | None, tuple[int, Inbox]] = {}
        self.ended = anyio.Event()
        self.opened_at = self.last_read = self.last_write = current_time()
        self.now = clock()
        self.loop_id = loop_id()
        self.loop = self.loop_id()
        self.awaited_replies = 0
        self._calls = 0
        self._touched: list[Receiver] = []
        self._newest: Headers | None = None
        self._messages = 0
        self.observer = Observer(settings.hooks, _peer(link)) if settings.hooks else None
        self.takes_plain = (
            self.observer is None and not link.profile.bodies_are_text and link.protocol.takes_plain_heads
        )
        if self.observer is not None:
            self.observer.connected()

    def __repr__(self) -> str:
        return f"<Connection to {self.link.endpoint}{'' if self.failure is None else ', ended'}>"

    # --- verbs ----------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise if nothing can be sent any more.

        Raises:
            StaleMessage: The connection is gone, and another one follows.
            StompError: What ended the connection, and the session.
            ConnectionClosed: The client was closed by its own program.
        """
        if not self.takes_frames:
            raise self.raisable(self.ending if self.failure is None else self.failure)

    def raisable(self, failure: StompError) -> StompError:
        """Return the failure as a new exception, for the program."""
        if self.is_stale:
            # Only messages and transactions of this connection still use it.
            stale = StaleMessage(f"its connection is gone, and the broker redelivers it: {failure}")
            stale.__cause__ = failure
            return stale
        return renewed(failure)

    @property
    def is_open(self) -> bool:
        """Whether it is in use and not being left."""
        return self.failure is None and self._session.state in _OPEN

    @property
    def is_closing(self) -> bool:
        """Whether it is in use for DISCONNECT alone, because the program leaves."""
        return self.failure is None and self._session.state is SessionState.CLOSING

    @property
    def is_gone(self) -> bool:
        """Whether nothing can reach the broker on it any more."""
        return self.failure is not None or self._session.state is SessionState.MOVED

    @property
    def is_stale(self) -> bool:
        """Whether nothing can be sent on it any more, and the client continues with another one."""
        return self.is_replaced or self._session.state is SessionState.MOVED

    def goes_at_once(self) -> bool:
        """Whether this caller may send at once. If not, await `turn`, which counts the call.

        Raises:
            RuntimeError: It runs in another event loop.
        """
        if self.loop_id() != self.loop:
            raise RuntimeError(OTHER_LOOP)
        outbox, calls = self.outbox, self._calls + 1
        if calls >= _CALLS_PER_CHECKPOINT or not self.takes_frames or outbox.waiting_bytes > outbox.high_water_bytes:
            return False
        self._calls = calls
        return True

    def rested(self) -> None:
        """The caller has just made a checkpoint."""
        self._calls = 0  # the next one is due later

    async def turn(self) -> None:
        """Wait until this caller may send. Each verb awaits it before its protocol step.

        Cancellation: nothing was sent.
        """
        self._calls += 1
        if self._calls >= _CALLS_PER_CHECKPOINT:
            self._calls = 0
            await anyio.lowlevel.checkpoint()
        if self.outbox.is_full:
            await self.outbox.wait_for_room()
        self.check()

    def post(self, frame: bytes) -> None:
        """Put a frame into the outbox."""
        self.counters.frames_sent += 1
        self.outbox.append(frame)

    def post_at_once(self, frame: bytes) -> None:
        """`post` a frame whose sender waits for the answer, and write it at once if the outbox is empty.

        This saves waking the writer. Bytes that the operating system does not accept go into the outbox.
        """
        outbox = self.outbox
        if not self.writes_now or not outbox.is_idle:
            self.post(frame)
            return
        counters, written = self.counters, self.write_now(frame)
        if written:
            self.last_write = self.now()
            counters.bytes_sent += written
            counters.writes += 1
        counters.frames_sent += 1
        outbox.append(frame, written=written)

    @property
    def can_lend(self) -> bool:
        """Whether frames can be written piece by piece. A WebSocket sends each as one message."""
        return not isinstance(self.stream, MessageStream)

    @contextmanager
    def awaiting_reply(self) -> Generator[None]:
        """Keep the reader going, within the limits, during a block that waits for the reply to a request."""
        self.awaited_replies += 1
        self.gate.notify()
        try:
            yield
        finally:
            self.awaited_replies -= 1

    def register(self, subscription_id: str, subscription: Registered) -> None:
        """Start to route messages to a subscription. Call it before SUBSCRIBE is sent."""
        self.inboxes[subscription_id] = subscription.inbox
        self.registered[subscription_id] = subscription
        self.unsubscribing.subscribed()

    def spool(self, subscription_id: str, threshold: int, inbox: Inbox) -> None:
        """Let bodies of more than `threshold` bytes for a subscription go into files."""
        if self.spooling is None:
            self.spooling = Spooling()
            self.protocol.spool(self._open_sink)
        self._spools[subscription_id] = threshold, inbox

    @property
    def smallest_threshold(self) -> int:
        """The smallest threshold of all subscriptions: a body that belongs in a file has more bytes than this."""
        return min((threshold for threshold, _inbox in self._spools.values()), default=SMALLEST_THRESHOLD)

    def _open_sink(self, subscription_id: str | None, size: int) -> BodySink | None:
        wanted = self._spools.get(subscription_id)
        if wanted is None or self.spooling is None:
            return None
        threshold, inbox = wanted
        return self.spooling.open(inbox) if size > threshold else None

    def forget(self, subscription_id: str) -> None:
        """Stop routing messages to a subscription."""
        self.inboxes.pop(subscription_id, None)
        self._spools.pop(subscription_id, None)
        del self.registered[subscription_id]

    # --- input ----------------------------------------------------------------------------------------------------

    @property
    def may_read(self) -> bool:
        """Whether a task that waits for a RECEIPT may read in place of the reader."""
        return self.reading.is_offered and self.spooling is None and self.violation is None and not self.gate.is_closed

    def received(self, data: bytes) -> None:
        """Decode a chunk of input and deliver its events."""
        self.last_read = self.now()
        self.counters.bytes_received += len(data)
        # No local variable keeps the events: they would be in memory until more comes.
        self.route(self.protocol.receive_data(data))

    def route(self, events: Sequence[ClientEvent]) -> None:
        """Deliver the events of one chunk of input, and wake each consumer once."""
        inboxes, touched = self.inboxes, self._touched
        if self.wire is not None:
            self.wire.received(events)
        for event in events:
            if isinstance(event, MessagesReceived):
                frames = event.frames
                self._newest = frames[-1].headers
                self._messages += len(frames)
                self.counters.messages_received += len(frames)
                inbox = inboxes.get(event.subscription_id)
                if inbox is None:
                    self._unroutable(event)
                    continue
                if inbox.put(frames):
                    touched.append(inbox)
            elif isinstance(event, ReceiptsReceived):
                self.counters.receipts_received += len(event.receipt_ids)
                self.counters.receipts_unexpected += self.receipts.confirm(event.receipt_ids)
            else:
                self._control(event)
        for inbox in touched:
            inbox.wake()
        touched.clear()

    def _unroutable(self, event: MessagesReceived) -> None:
        # Row 1x-MSG-6: messages may cross an UNSUBSCRIBE. The broker still holds them for the next consumer.
        self.counters.messages_unroutable += len(event.frames)
        for frame in event.frames:
            logger.debug("message for no open subscription: %s", frame)
            self.unsubscribing.late_message(frame.headers, event.subscription_id)

    def _control(self, event: ClientEvent) -> None:
        if isinstance(event, ErrorReceived):
            self.counters.errors_received += 1
            self._error(event)
        elif isinstance(event, Violation):
            self._violation(event.error)

    def _violation(self, error: RemoteProtocolError) -> None:
        """Stop reading for good, but let consumers settle the messages that came before.

        Otherwise the broker would redeliver the same messages before the same fault, on each connection.
        """
        if not self.is_open or not self.holds_messages:
            self.fail(error)
            return
        self.protocol.reopen()
        self.violation = error

    @property
    def holds_messages(self) -> bool:
        """Whether there are unsettled messages, which the broker redelivers after a loss."""
        return any(registered.holds_messages for registered in self.registered.values())

    def _error(self, event: ErrorReceived) -> None:
        """Find out what an ERROR is about: one operation, one subscription, or the whole connection."""
        headers, body = event.frame.headers, event.frame.body
        if self.unsubscribing.is_late_delivery(headers, body, newest=self._newest, messages=self._messages):
            self.counters.messages_unroutable += 1
            logger.debug("ERROR instead of a message for no open subscription: %s", event.frame)
            return
        error = event.as_exception()
        logger.warning("the broker sent %s", event.frame)
        attributed = error.receipt_id is not None and self.receipts.refuse(error.receipt_id, error)
        if event.fatal:
            self.fail(error, attributed=attributed)
            return
        if attributed:
            return
        subscription_id = self.profile.cancelled_subscription(event.frame.headers)
        cancelled = self.registered.get(subscription_id or "")
        if subscription_id is not None and cancelled is not None:
            self.protocol.forget_subscription(subscription_id)
            self.forget(subscription_id)
            cancelled.cancelled_by_broker(error)
            return
        # It is unknown which frame failed. A RECEIPT that follows may belong to that frame, so going on could turn a
        # failure into a success.
        self.fail(error)

    @property
    def unwritten_bytes(self) -> int:
        """How much is not written, at least: what a stream has left over may be in the outbox too."""
        return max(self.outbox.waiting_bytes, self.stream.unwritten_bytes)

    # --- end ------------------------------------------------------------------------------------------------------

    def entered(self, state: SessionState) -> None:
        """The session has changed its state, and this is its connection."""
        self.takes_frames = state in TAKES_FRAMES
        # Unless it is in use, the reader must continue to the end, even if buffers are full.
        self.gate.notify()

    def move(self, endpoint: Endpoint) -> None:
        """Begin to leave it for another host: new work waits for the next connection.

        In the client ack modes, buffered messages are dropped, because the broker redelivers them on the next
        connection. Messages that consumers have taken can be settled until DISCONNECT is sent.
        """
        self.ending = ConnectionLost(f"the connection to {self.link.endpoint} was left for {endpoint}")
        for subscription_id, registered in self.registered.items():
            if not registered.inbox.keeps_after_loss:
                self.inboxes.pop(subscription_id, None)
                registered.inbox.clear()

    async def disconnect(self, deadline: float) -> DisconnectResult:
        """Wait for pending receipts, then send DISCONNECT with a receipt and wait for the answer.

        Call it in the states CLOSING and MOVING. In MOVING, messages and transactions can still be completed before it
        is sent.

        Spec: "DISCONNECT", "Connection Lingering".

        Raises:
            ConnectionLost: Without ``reconnect=``: the connection was lost before DISCONNECT was sent. Or bytes were
                unwritten at the deadline.
            BrokerError: The broker refused DISCONNECT.

        Cancellation: the connection stays as it is; the caller closes it.
        """
        outcome = DisconnectResult.TIMEOUT
        refusal: StompError | None = None
        with move_on_at(deadline):
            # RabbitMQ drops the receipts that are outstanding at a DISCONNECT.
            await self.receipts.wait_none()
            await self._read_all()
            if self.failure is None:
                outcome, refusal = await self._disconnect()
            elif self.settings.reconnect is None:
                raise self.raisable(self.failure)
            else:
                outcome = DisconnectResult.CLOSED
        seconds, unwritten = self.settings.disconnect_timeout, self.unwritten_bytes
        if outcome is DisconnectResult.TIMEOUT and unwritten:
            msg = f"{unwritten} bytes could not be written within {seconds:g} s (disconnect_timeout)"
            error = ConnectionLost(f"{msg}: {self.link.endpoint} does not read")
            self.fail(error)
            raise self.raisable(error)
        if outcome is DisconnectResult.TIMEOUT:
            logger.warning("%s did not confirm DISCONNECT within %g s", self.link.endpoint, seconds)
        self.fail(self.ending)
        if refusal is not None:
            raise self.raisable(refusal)
        return outcome

    async def _read_all(self) -> None:
        """Let the reader take in what has come already, which may be an ERROR or the end of the link.

        Once DISCONNECT is sent, the broker may close at any time, and an end that was there before looks the same.
        """
        for _ in range(_MOST_READS):
            before = self.counters.bytes_received
            await self.let_reader_run()
            if self.counters.bytes_received == before or self.failure is not None:
                return

    async def let_reader_run(self) -> None:
        """Let the reader take in what the kernel holds, as much as one read is.

        Cancellation: nothing changes.
        """
        for _ in range(_PASSES_PER_READ):
            await anyio.lowlevel.checkpoint()

    async def _disconnect(self) -> tuple[DisconnectResult, StompError | None]:
        """Send DISCONNECT; return how it ended, and the ERROR that names it, if one came."""
        with self.receipts.expected() as receipt:
            self._session.enter(Step.DISCONNECT)
            self.post(self.protocol.disconnect(receipt.id))
            error = await receipt.wait_answer()
            if error is not None and not isinstance(error, BrokerError):
                # Row 1x-DISC-6: the link may end in any way before the RECEIPT has come through.
                mark_raised(error)
            result = DisconnectResult.RECEIPT if error is None else DisconnectResult.CLOSED
            return result, error if receipt.was_refused else None

    def fail(self, failure: StompError, *, attributed: bool = False) -> None:
        """End the connection, once: every task that waits on it is woken with `failure`.

        Args:
            failure: Why it ended.
            attributed: Whether the failure is about one known frame, and reported to its sender.
        """
        if self.failure is not None:
            return
        self.failure = failure
        # The session logs what that means to the program.
        logger.debug("connection to %s ended: %s", self.link.endpoint, failure)
        followed = self.is_replaced = self._session.connection_ended(failure, attributed=attributed)
        if self.observer is not None:
            self.observer.disconnected(failure)
        self.receipts.lose_all(failure, keep_messages=followed)
        for subscription_id, registered in list(self.registered.items()):
            registered.connection_ended(failure, outlived=followed)
            if not registered.inbox.keeps_after_loss:
                # What the same chunk still holds would be settled on the next connection. RabbitMQ reads the delivery
                # tag of an ACK alone, so that would settle another message.
                self.inboxes.pop(subscription_id, None)
        self.counters.bytes_unsent += self.unwritten_bytes
        self.outbox.close()
        self.ended.set()

    def lost(self, cause: BaseException | None) -> StompError:
        """Return the failure to end it with when its stream fails with `cause`; None is an end of file."""
        if self.protocol.state is State.DISCONNECTING:
            # Row 1x-LING-2: the end, or even a reset, may overtake the last RECEIPT.
            return self.ending
        # A network that is down, or a timeout of TCP, is not the peer's doing. A task may fail after the end, too.
        if self.failure is None:
            self.was_closed = not isinstance(cause, OSError) or isinstance(cause, (ConnectionError, ssl.SSLError))
        middle = ", in the middle of a frame" if self.protocol.mid_frame else ""
        by = "the broker closed it"
        if cause is not None and not isinstance(cause, ssl.SSLEOFError):
            by = safe_str(cause) or type(cause).__name__
        error = ConnectionLost(f"the connection to {self.link.endpoint} was lost{middle}: {by}")
        error.__cause__ = cause
        return error

    @property
    def was_left(self) -> bool:
        """Whether it ended normally, so that its stream may be closed gracefully."""
        return self.failure is self.ending

    @property
    def reader_rests(self) -> bool:
        """Whether the reader waits for consumers or a disk, so that silence does not mean that the broker is dead."""
        return self.gate.holds or self.violation is not None or (self.spooling is not None and self.spooling.is_writing)

    @property
    def awaits_broker(self) -> bool:
        """Whether a task waits for something that only the reader can deliver."""
        return (
            len(self.receipts) > 0
            or self.outbox.waiting_tasks > 0
            or self.protocol.state is not State.CONNECTED
            or not self.is_open
        )


def _peer(link: Link) -> ConnectionInfo:
    return ConnectionInfo(
        endpoint=str(link.endpoint),
        host=link.endpoint.host,
        port=link.endpoint.port,
        broker=link.profile.name,
        server=link.connected.server,
    )
