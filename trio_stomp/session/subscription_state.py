"""A subscription as its connections know it: SUBSCRIBE, the buffer, UNSUBSCRIBE, and what is given back.

The registration and its buffer last as long as the user's subscription; on each connection that it stands on it has a
book of messages (`AckTracker`) of that connection's own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from trio_stomp.brokers import Pairs, Profile, StreamOffset, SubscribeOptions, ends_browsing, stream_offset_of
from trio_stomp.errors import LocalProtocolError, NotSupported, StompError
from trio_stomp.protocol import AckMode, State, Version
from trio_stomp.session.acks import AckTracker
from trio_stomp.session.buffer import Inbox, Overflow
from trio_stomp.session.failures import renewed, was_raised
from trio_stomp.session.message import Message, Settlement
from trio_stomp.session.receipts import Receipt
from trio_stomp.session.settings import Settings
from trio_stomp.session.statistics import SubscriptionStatistics

if TYPE_CHECKING:
    from trio_stomp.session.connection import Connection

__all__ = ["Registration", "StreamPosition", "SubscriptionOptions"]

_DONE: Final = (Settlement.ACKED, Settlement.NACKED)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionOptions:
    """What a subscription was asked to be.

    Attributes:
        id: Its id on the connection.
        destination: What it subscribes to.
        ack: Its ack mode.
        prefetch: How many messages it holds that no consumer has settled (or, in auto mode, taken).
        overflow: What it does when more come.
        headers: More headers of SUBSCRIBE.
        features: What brokers add.
    """

    id: str
    destination: str
    ack: AckMode
    prefetch: int
    overflow: Overflow
    headers: tuple[tuple[str, str], ...]
    features: SubscribeOptions = field(default_factory=SubscribeOptions)

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        mode = self.ack
        if self.prefetch < 1:
            msg = f"prefetch must be at least 1 message, got {self.prefetch!r}"
            raise LocalProtocolError(msg)
        if self.overflow is Overflow.DROP_OLDEST and mode is not AckMode.AUTO:
            msg = (
                f"overflow='drop-oldest' forgets messages; it needs ack='auto', not {mode.value!r}; use 'wait' or "
                "'error'"
            )
            raise LocalProtocolError(msg)
        if self.features.get("stream_offset") is not None and mode is AckMode.AUTO:
            msg = "a stream is read by credit; it needs ack='client-individual' or 'client', not 'auto'"
            raise LocalProtocolError(msg)

    def headers_at(self, profile: Profile, version: Version, settings: Settings) -> Pairs:
        """The headers of SUBSCRIBE that ask a broker for all this, but for the prefetch.

        Args:
            profile: The broker.
            version: The version of STOMP in force.
            settings: The options of the client.

        Raises:
            NotSupported: The broker has no such thing, or not in that version.
            LocalProtocolError: Something of it cannot be meant there.
        """
        if not profile.acknowledges and self.ack is not AckMode.AUTO:
            msg = (
                f"{profile.name} has no acknowledgments, and no ack mode {self.ack.value!r}; subscribe with ack='auto'"
            )
            raise NotSupported(msg)
        features = profile.dialect.subscribe_headers(self.features)
        if self.features.get("browse") and version is Version.V1_0:
            msg = f"{profile.name} has browsing in STOMP 1.1 and 1.2 only, and 1.0 is in force"
            raise NotSupported(msg)
        needs_client_id = profile.durable_needs_client_id and self.features.get("durable") is not None
        if needs_client_id and "client-id" not in dict(settings.headers):
            msg = (
                f"a durable subscription at {profile.name} belongs to a client-id, and the connection has none: "
                "connect(..., headers={'client-id': ...}), the same each time"
            )
            raise LocalProtocolError(msg)
        return [*features, *self.headers]

    @property
    def name(self) -> str:
        """The subscription, for messages."""
        return f"subscription {self.id!r} to {self.destination!r}"


class StreamPosition:
    """How far one subscription has come in a stream, and so where it goes on after a loss.

    A stream keeps what was read, and RabbitMQ does not remember how far a consumer has come: after a reconnection the
    subscription would start again where the user asked it to start. It starts at the oldest unsettled message instead.

    Args:
        start: Where the user asked to start.
    """

    def __init__(self, start: StreamOffset) -> None:
        self._next: StreamOffset = start
        self._unsettled: deque[tuple[int, Message]] = deque()

    def took(self, message: Message) -> None:
        """A consumer has taken a message."""
        offset = stream_offset_of(message.headers)
        if offset is not None:
            self._unsettled.append((offset, message))
            self._advance()

    def resume(self) -> StreamOffset:
        """Where to go on."""
        self._advance()
        return self._unsettled[0][0] if self._unsettled else self._next

    def _advance(self) -> None:
        waiting = self._unsettled
        while waiting and waiting[0][1].settlement in _DONE:
            self._next = waiting.popleft()[0] + 1


class Registration:
    """One subscription, on one connection after another.

    Args:
        options: What was asked for.

    Attributes:
        options: What was asked for.
        inbox: Its buffer.
        connection: The connection that it stands on, or stood on last.
        acks: Its book of messages that are not settled, on that connection.
        refusal: What the broker said to its SUBSCRIBE, where it said no.
        position: How far it has come, where it reads a stream.
        subscribe_headers: The headers of its SUBSCRIBE besides id, destination, ack mode and prefetch.
    """

    def __init__(self, options: SubscriptionOptions) -> None:
        self.options = options
        self.connection: Connection | None = None
        self.acks: AckTracker | None = None
        self.refusal: StompError | None = None
        start = options.features.get("stream_offset")
        self.position = None if start is None else StreamPosition(start)
        self.subscribe_headers: tuple[tuple[str, str], ...] = ()
        self._delivered_before = 0
        self.inbox = Inbox(
            name=options.name,
            capacity=options.prefetch,
            overflow=options.overflow,
            on_overflow=self._unsubscribe,
            keeps_after_loss=options.ack is AckMode.AUTO,
            is_last=ends_browsing if options.features.get("browse") else None,
        )

    def statistics(self) -> SubscriptionStatistics:
        """What the subscription has done so far, and what it holds."""
        return SubscriptionStatistics(
            id=self.options.id,
            destination=self.options.destination,
            prefetch=self.options.prefetch,
            waiting=self.inbox.waiting,
            buffered=len(self.inbox),
            unsettled=0 if self.acks is None else len(self.acks),
            delivered=self.inbox.delivered,
            dropped=self.inbox.dropped,
        )

    # --- standing -------------------------------------------------------------------------------------------------

    async def open_on(self, connection: Connection) -> None:
        """Send SUBSCRIBE and, where the broker answers it, wait until it stands.

        Cancellation: it may or may not stand at the broker; `close` ends it.
        """
        receipt = self.subscribe_on(connection)
        if receipt is None:
            return
        try:
            await receipt.wait()
        except StompError:
            if receipt.was_refused:
                self.never_stood(connection)
            raise

    def never_stood(self, connection: Connection) -> None:
        """The broker has refused the SUBSCRIBE: an UNSUBSCRIBE would be an error, too."""
        if self.acks is not None:
            self.acks.closed = True
        if connection.failure is None:
            connection.protocol.forget_subscription(self.options.id)
            connection.forget(self.options.id)
            # Messages may have come before the refusal; nothing that is counted here may be out of the reader's sight.
            self.inbox.clear()

    def subscribe_on(self, connection: Connection) -> Receipt | None:
        """Put SUBSCRIBE into the outbox of a connection.

        Returns:
            What to wait for; None where the broker does not answer.

        Raises:
            NotSupported: The broker or the version has no such subscription.
            LocalProtocolError: The id is in use, or a header cannot be represented.
        """
        options, profile = self.options, connection.profile
        acks = AckTracker(connection, subscription_id=options.id, name=options.name, ack=options.ack)
        self._require_own_acks(connection, acks.wire_mode)
        if self.position is not None:
            options = replace(options, features={**options.features, "stream_offset": self.position.resume()})
        headers = options.headers_at(profile, connection.protocol.version, connection.settings)
        self.subscribe_headers = tuple(headers)
        if options.ack is not AckMode.AUTO:
            headers = profile.prefetch(options.prefetch) + headers
        receipt = connection.receipts.expect() if profile.answers_subscribe else None
        if receipt is not None:
            headers.append(("receipt", receipt.id))
        try:
            frame = connection.protocol.subscribe(options.id, options.destination, acks.wire_mode, headers=headers)
        except StompError:
            if receipt is not None:
                connection.receipts.forget(receipt.id)
            raise
        self.inbox.attach(connection.gate)
        # Row all-SUB-17: messages may come before the RECEIPT, so the buffer is there before the frame is.
        connection.register(options.id, self)
        self.connection, self.acks = connection, acks
        self._delivered_before = self.inbox.delivered
        acks.closed = False
        connection.post(frame)
        return receipt

    def _require_own_acks(self, connection: Connection, wire_mode: AckMode) -> None:
        """Refuse a subscription whose ACKs would settle messages of another one, now or when that one is long left."""
        crosses = connection.profile.client_ack_crosses_subscriptions and wire_mode is AckMode.CLIENT
        if crosses and connection.acks_cross:
            msg = (
                f"an ACK in mode 'client' reaches over the whole connection at {connection.profile.name}, and STOMP "
                "1.0 has no 'client-individual' to do without: it takes one such subscription for each connection. "
                "Use another connection, or STOMP 1.1 or 1.2"
            )
            raise NotSupported(msg)
        connection.acks_cross = crosses or connection.acks_cross

    @property
    def holds_messages(self) -> bool:
        """Whether messages wait to be taken and settled, and come again if they are not."""
        if self.inbox.keeps_after_loss or self.acks is None:
            return False
        return len(self.inbox) > 0 or len(self.acks) > 0

    @property
    def has_progressed(self) -> bool:
        """Whether a message was settled (in auto mode: taken) on the connection that it stands on."""
        unsettled = 0 if self.acks is None else len(self.acks)
        return self.inbox.delivered - self._delivered_before > unsettled

    # --- what ends it from outside --------------------------------------------------------------------------------

    def cancelled_by_broker(self, error: StompError) -> None:
        """The broker has ended the subscription: nothing of it can be settled any more."""
        if self.acks is not None:
            self.acks.closed = True
        self.inbox.fail(error, keep=False)

    def refused(self, error: StompError) -> None:
        """The broker does not take its SUBSCRIBE: it is not tried again."""
        self.refusal = error
        self.cancelled_by_broker(error)

    def connection_ended(self, failure: StompError, *, outlived: bool) -> None:
        """The connection has ended; `outlived` tells whether another one follows."""
        browses = bool(self.options.features.get("browse"))
        # What was shown of a queue cannot be gone on with: it would begin anew, with what was seen already.
        if outlived and not browses:
            self.inbox.detach()
        else:
            self.fail(failure)

    def fail(self, failure: StompError) -> None:
        """No connection follows any more."""
        # What came in auto mode is ours already, and is handed out first; in the client modes the broker will deliver
        # it again to somebody.
        self.inbox.fail(failure, keep=self.inbox.keeps_after_loss)

    @property
    def is_over(self) -> bool:
        """Whether it has failed or was left, so that it is not to stand on another connection."""
        return self.inbox.is_over

    def raise_refusal(self) -> None:
        """Raise what the broker said to its SUBSCRIBE, where it said no."""
        if self.refusal is not None:
            raise renewed(self.refusal)

    # --- leaving --------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Send UNSUBSCRIBE and give back what is not settled; never waits."""
        self._unsubscribe()
        self.inbox.end()

    async def delete(self, turn: Callable[[], Awaitable[Connection]]) -> None:
        """Leave a durable subscription, and have the broker forget it and what it holds.

        Args:
            turn: Waits for the connection to use, on which the subscription stands again.

        Raises:
            LocalProtocolError: It is not durable, or was left already.
            StompError: The broker refused, or the link is gone.

        Cancellation: either nothing was sent, or it was left and the broker may or may not have forgotten it.
        """
        name = self.options.features.get("durable")
        if name is None:
            msg = f"{self.options.name} is not durable: leaving it is enough"
            raise LocalProtocolError(msg)
        connection = await turn()
        acks = self.acks
        if acks is None or acks.closed or acks.connection is not connection:
            msg = f"{self.options.name} was left already"
            raise LocalProtocolError(msg)
        profile, protocol, id_ = connection.profile, connection.protocol, self.options.id
        headers = profile.dialect.subscribe_headers({"durable": name})
        acks.closed = True
        self.inbox.end()
        with connection.receipts.expected() as expected:
            last = [*headers, ("receipt", expected.id)]
            if profile.durable_ends_while_open:
                connection.post(protocol.unsubscribe(id_, headers=last))
            else:
                connection.post(protocol.unsubscribe(id_))
                connection.post(protocol.unsubscribe(id_, headers=last, again=True))
            connection.forget(id_)
            connection.unsubscribing.deleted(self)
            await expected.wait()

    def raise_unnoticed(self) -> None:
        """Raise what ended the subscription, if no consumer has seen it."""
        error = self.inbox.error
        if error is not None and not was_raised(error):
            raise renewed(error)

    def _unsubscribe(self) -> None:
        connection, acks = self.connection, self.acks
        if connection is None or acks is None or acks.closed:
            return
        held = acks.held() + [waiting.headers for waiting in self.inbox.drain()]
        acks.closed = True
        # The session is closed, and the connection not yet, while what came before its last frame is handed out.
        if connection.failure is not None or connection.protocol.state is State.CLOSED:
            return
        # When no frames are taken any more, DISCONNECT ends the subscription and gives back what it holds.
        connection.unsubscribing.unsubscribe(connection, self, held)
        connection.forget(self.options.id)
