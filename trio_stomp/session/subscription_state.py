"""The state of a subscription: its options, its buffer, SUBSCRIBE and UNSUBSCRIBE, and its position in a stream.

A `Registration` and its buffer last as long as the user's `Subscription`, across reconnections. On each connection it
has a new `AckTracker` for the messages of that connection.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from trio_stomp.brokers import (
    Pairs,
    Profile,
    StreamOffset,
    SubscribeOptions,
    ends_browsing,
    is_whole,
    require_destination,
    require_whole,
    stream_offset_of,
)
from trio_stomp.errors import LocalProtocolError, NotSupportedError, StompError
from trio_stomp.protocol import AckMode, Headers, State, Version
from trio_stomp.runtime import current_time
from trio_stomp.session.acks import AckTracker
from trio_stomp.session.buffer import Inbox, Overflow
from trio_stomp.session.connection import Connection, Left, LeftLater
from trio_stomp.session.failures import renewed, was_raised
from trio_stomp.session.limits import Limit
from trio_stomp.session.message import Message, Settlement
from trio_stomp.session.receipts import Receipt
from trio_stomp.session.reconnect import Refusals
from trio_stomp.session.settings import Settings
from trio_stomp.session.spool import SMALLEST_THRESHOLD
from trio_stomp.session.statistics import SubscriptionStatistics

__all__ = ["Registration", "StreamPosition", "SubscriptionOptions"]

# A broker that sends no RECEIPT for SUBSCRIBE has accepted it when the connection goes on for this long.
_ACCEPTED_SECONDS: Final = 1.0

_DONE: Final = (Settlement.ACKED, Settlement.NACKED)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionOptions:
    """The arguments of `Client.subscribe`, checked.

    Attributes:
        id: Id of the subscription on the connection.
        destination: Its destination.
        ack: Its ack mode.
        prefetch: How many messages it holds that consumers have not settled (in auto mode: not taken).
        overflow: What happens when more messages come.
        headers: Additional headers of SUBSCRIBE.
        features: Options beyond STOMP that the broker supports.
        spool_threshold_bytes: Longer bodies go into files; None: no body does.
    """

    id: str
    destination: str
    ack: AckMode
    prefetch: int
    overflow: Overflow
    headers: tuple[tuple[str, str], ...]
    features: SubscribeOptions = field(default_factory=SubscribeOptions)
    spool_threshold_bytes: int | None = None

    def __post_init__(self) -> None:
        """Check the options against each other."""
        mode = self.ack
        require_destination(self.destination)
        require_whole("prefetch", self.prefetch)
        if self.overflow is Overflow.DROP_OLDEST and mode is not AckMode.AUTO:
            raise LocalProtocolError(
                f"overflow='drop-oldest' drops messages; it needs ack='auto', not {mode.value!r}; use 'wait' or 'error'"
            )
        if self.spool_threshold_bytes is not None and not is_whole(self.spool_threshold_bytes, SMALLEST_THRESHOLD):
            raise LocalProtocolError(
                f"spool_threshold_bytes must be at least {SMALLEST_THRESHOLD} bytes, got {self.spool_threshold_bytes!r}"
            )
        if self.features.get("stream_offset") is not None and mode is AckMode.AUTO:
            raise LocalProtocolError(
                "a stream is read by credit; it needs ack='client-individual' or 'client', not 'auto'"
            )

    def headers_at(self, profile: Profile, version: Version, settings: Settings) -> Pairs:
        """Return the headers of SUBSCRIBE that ask a broker for these options, except for the prefetch.

        Args:
            profile: The broker.
            version: The version of STOMP in use.
            settings: The options of the client.

        Raises:
            NotSupportedError: The broker does not support an option, or not in that version.
            LocalProtocolError: An option is invalid at that broker, or sets a header that is in `headers` too.
        """
        if not profile.acknowledges and self.ack is not AckMode.AUTO:
            raise NotSupportedError(
                f"{profile.name} does not support acknowledgments: use ack='auto', not {self.ack.value!r}"
            )
        features = profile.dialect.subscribe_headers(self.features)
        if self.features.get("browse") and version is Version.V1_0:
            raise NotSupportedError(
                f"{profile.name} supports browsing in STOMP 1.1 and 1.2 only; this connection uses 1.0"
            )
        needs_client_id = profile.durable_needs_client_id and self.features.get("durable") is not None
        if needs_client_id and "client-id" not in dict(settings.headers):
            raise LocalProtocolError(
                f"a durable subscription at {profile.name} belongs to a client-id, and the connection has none. Use "
                "connect(..., headers={'client-id': ...}), with the same id each time"
            )
        self._require_once(profile, features)
        return [*features, *self.headers]

    def _require_once(self, profile: Profile, features: Pairs) -> None:
        # The first of repeated headers counts, so that of the program would have no effect.
        given = {name for name, _ in self.headers}
        prefetch = () if self.ack is AckMode.AUTO else profile.prefetch(self.prefetch)
        for name, _ in prefetch:
            if name in given:
                raise LocalProtocolError(f"header {name!r} is set by the call itself: use prefetch=")
        for name, _ in features:
            if name in given:
                raise LocalProtocolError(
                    f"the header {name!r} is given twice: in headers= and by an option; leave out one"
                )

    @property
    def name(self) -> str:
        """Name of the subscription in messages."""
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
        """Note that a consumer has taken a message."""
        offset = stream_offset_of(message.headers)
        if offset is not None:
            self._unsettled.append((offset, message))
            self._advance()

    def resume(self) -> StreamOffset:
        """Return where to continue on another connection, on which all from there on is delivered again."""
        self._advance()
        if self._unsettled:
            self._next = self._unsettled[0][0]
            # They can never be settled: only the messages of the next connection can.
            self._unsettled.clear()
        return self._next

    def _advance(self) -> None:
        waiting = self._unsettled
        while waiting and waiting[0][1].settlement in _DONE:
            self._next = waiting.popleft()[0] + 1


class Registration:
    """One subscription, on one connection after another.

    Args:
        options: Its options.

    Attributes:
        options: Its options.
        inbox: Its buffer.
        connection: Its current connection, or its last one.
        acks: Its unsettled messages on that connection.
        was_accepted: Whether a broker has accepted it before.
        is_suspected: Whether the broker has closed a connection instead of answering it; see `Suspicion`.
        subscribed_at: Clock time of its last SUBSCRIBE.
        confirmed_before: How many messages of the session had been confirmed by then.
        refusals: The refusals after a reconnection while it is retried.
        refusal: The error that its SUBSCRIBE has failed with for good.
        position: Its position, if it reads a stream.
        subscribe_headers: The headers of its SUBSCRIBE besides id, destination, ack mode and prefetch.
    """

    def __init__(self, options: SubscriptionOptions) -> None:
        self.options = options
        self.connection: Connection | None = None
        self.acks: AckTracker | None = None
        self.was_accepted = False
        self.is_suspected = False
        self.refusals: Refusals | None = None
        self.refusal: StompError | None = None
        start = options.features.get("stream_offset")
        self.position = None if start is None else StreamPosition(start)
        self.subscribe_headers: tuple[tuple[str, str], ...] = ()
        self.subscribed_at = 0.0
        self.confirmed_before = 0
        self._delivered_before = 0
        self._arrived_before = 0
        self._is_accepted = False
        self._receipt: Receipt | None = None
        self.inbox = Inbox(
            name=options.name,
            capacity=options.prefetch,
            overflow=options.overflow,
            on_overflow=self._unsubscribe,
            keeps_after_loss=options.ack is AckMode.AUTO,
            is_last=ends_browsing if options.features.get("browse") else None,
        )

    def statistics(self) -> SubscriptionStatistics:
        """Return the counters of the subscription, and what it holds now."""
        return SubscriptionStatistics(
            id=self.options.id,
            destination=self.options.destination,
            prefetch=self.options.prefetch,
            waiting=self.inbox.waiting,
            buffered=len(self.inbox),
            unsettled=0 if self.acks is None else len(self.acks),
            delivered=self.inbox.delivered,
            dropped=self.inbox.dropped,
            refusal=None if self.refusals is None else str(self.refusals.error),
        )

    # --- subscribing -------------------------------------------------------------------------------------------------

    async def open_on(self, connection: Connection) -> None:
        """Send SUBSCRIBE and wait for its RECEIPT, if the broker sends one.

        Cancellation: the broker may or may not have the subscription; `close` ends it.
        """
        receipt = self.subscribe_on(connection)
        if receipt is not None:
            try:
                await receipt.wait()
            except StompError:
                if receipt.was_refused:
                    self.forget_refused(connection)
                raise
            self.accepted()

    def accepted(self) -> None:
        """Note that the broker has accepted it on the current connection."""
        self.was_accepted = self._is_accepted = True
        self.is_suspected = False

    def awaits_answer_on(self, connection: Connection) -> bool:
        """Whether it was sent on a connection, and the broker has neither accepted nor refused it."""
        if self.connection is not connection or self._is_accepted or self.is_over:
            return False
        if self._receipt is None:
            # A broker delivers only to what it has accepted.
            has_delivered = self._arrived > self._arrived_before
            return not has_delivered and current_time() < self.subscribed_at + _ACCEPTED_SECONDS
        return not self._receipt.is_answered

    def forget_refused(self, connection: Connection) -> None:
        """Forget a SUBSCRIBE that the broker refused; an UNSUBSCRIBE would be an error too."""
        if self.acks is not None:
            self.acks.closed = True
        if connection.failure is None:
            connection.protocol.forget_subscription(self.options.id)
            connection.forget(self.options.id)
            self.inbox.detach()

    def subscribe_on(self, connection: Connection) -> Receipt | None:
        """Put SUBSCRIBE into the outbox of a connection.

        Returns:
            The receipt to wait for, or None if the broker sends none.

        Raises:
            NotSupportedError: The broker or the version does not support an option.
            LocalProtocolError: The id is in use, or a header cannot be encoded.
        """
        options, profile = self.options, connection.profile
        acks = AckTracker(connection, subscription_id=options.id, name=options.name, ack=options.ack)
        crosses = self._require_own_acks(connection, acks.wire_mode)
        if self.position is not None:
            options = replace(options, features={**options.features, "stream_offset": self.position.resume()})
        headers = options.headers_at(profile, connection.protocol.version, connection.settings)
        self.subscribe_headers = tuple(headers)
        if options.ack is not AckMode.AUTO:
            headers = profile.prefetch(options.prefetch) + headers
        receipt_id = connection.receipts.new_id() if profile.answers_subscribe else None
        if receipt_id is not None:
            headers.append(("receipt", receipt_id))
        if options.id in connection.left_later:
            # The other one has the id.
            connection.left_later[options.id].leave()
        # It may raise, and then no RECEIPT comes, and no other subscription is left for this one.
        frame = connection.protocol.subscribe(options.id, options.destination, acks.wire_mode, headers=headers)
        connection.acks_cross |= crosses
        for other in list(connection.left_later.values()):
            if other.destination == options.destination:
                # It holds messages that this one would wait for.
                other.leave()
        receipt = None if receipt_id is None else connection.receipts.expect(receipt_id)
        self.inbox.attach(connection.gate)
        # Row all-SUB-17: messages may come before the RECEIPT, so the buffer is registered before the frame is sent.
        connection.register(options.id, self)
        if options.spool_threshold_bytes is not None:
            connection.spool(options.id, options.spool_threshold_bytes, self.inbox)
        if self.acks is not None:
            self.acks.let_go()
        self.connection, self.acks = connection, acks
        self._receipt, self._is_accepted = receipt, False
        self._delivered_before, self._arrived_before = self.inbox.delivered, self._arrived
        self.subscribed_at = current_time()
        self.confirmed_before = connection.receipts.confirmed
        connection.post(frame)
        return receipt

    def _require_own_acks(self, connection: Connection, wire_mode: AckMode) -> bool:
        """Refuse a subscription whose ACKs would settle messages of another one, be that open or left.

        Returns:
            Whether its ACKs settle messages of the whole connection.
        """
        crosses = connection.profile.client_ack_crosses_subscriptions and wire_mode is AckMode.CLIENT
        if crosses and connection.acks_cross:
            raise NotSupportedError(
                f"at {connection.profile.name} an ACK in mode 'client' settles messages of the whole connection, and "
                "STOMP 1.0 does not support 'client-individual': only one such subscription for each connection is "
                "safe. Use another connection, or STOMP 1.1 or 1.2"
            )
        return crosses

    @property
    def _arrived(self) -> int:
        """How many messages have come, those of earlier connections included."""
        return self.inbox.delivered + self.inbox.dropped + len(self.inbox)

    @property
    def holds_messages(self) -> bool:
        """Whether there are unsettled messages, which the broker redelivers after a loss."""
        if self.inbox.keeps_after_loss or self.acks is None:
            return False
        return len(self.inbox) > 0 or len(self.acks) > 0

    @property
    def has_progressed(self) -> bool:
        """Whether a message was settled (in auto mode: taken) on its current connection."""
        return self.acks is not None and self.inbox.delivered - self._delivered_before > len(self.acks)

    # --- ends --------------------------------------------------------------------------------

    def cancelled_by_broker(self, error: StompError) -> None:
        """End it because the broker did: none of its messages can be settled any more."""
        if self.acks is not None:
            self.acks.closed = True
        self.inbox.fail(error, keep=False)

    def refused(self, error: StompError) -> None:
        """End it because its SUBSCRIBE was refused for good."""
        self.refusals = None
        self.refusal = error
        self.cancelled_by_broker(error)

    def connection_ended(self, failure: StompError, *, outlived: bool) -> None:
        """Note that its connection has ended, and whether another one follows."""
        browses = bool(self.options.features.get("browse"))
        # Browsing cannot be resumed: it would start over with messages that were seen already.
        if self.connection is not None and not self.connection.profile.answers_subscribe:
            self.was_accepted |= current_time() >= self.subscribed_at + _ACCEPTED_SECONDS
        if outlived and not browses:
            self.inbox.detach()
        else:
            self.fail(failure)

    def fail(self, failure: StompError) -> None:
        """End it: no other connection follows."""
        # In auto mode what has come is ours alone, so consumers get it first. In the client modes the broker redelivers
        # it.
        self.inbox.fail(failure, keep=self.inbox.keeps_after_loss)

    @property
    def is_over(self) -> bool:
        """Whether it failed or was left, so that it is not restored on another connection."""
        return self.inbox.is_over

    @property
    def waits_for_retry(self) -> bool:
        """Whether the broker has refused it after a reconnection, and it is retried."""
        return self.refusals is not None and not self.is_over

    def raise_refusal(self) -> None:
        """Raise the error by which the broker refused its SUBSCRIBE, if it did."""
        if self.refusal is not None:
            raise renewed(self.refusal)

    # --- leaving --------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Send UNSUBSCRIBE, so that unsettled messages are requeued; never waits."""
        self._unsubscribe()
        self.inbox.end()

    async def delete(self, turn: Callable[[], Awaitable[Connection]], limit: Limit) -> None:
        """Delete a durable subscription at the broker; see `Subscription.delete`.

        Args:
            turn: Waits for the connection to use, after the subscription was restored on it.
            limit: The time limit that is over all this, to note the outcome in.

        Cancellation: either nothing was sent, or it was left and the broker may or may not have deleted it.
        """
        name = self.options.features.get("durable")
        if name is None:
            raise LocalProtocolError(f"{self.options.name} is not durable: leaving it is enough")
        connection = await turn()
        acks = self.acks
        if acks is None or acks.closed or acks.connection is not connection:
            raise LocalProtocolError(f"{self.options.name} was left already")
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
            connection.unsubscribing.deleted(id_, self._left())
            limit.outcome = "it was left, and the broker may or may not have deleted it"
            await expected.wait()

    def raise_unnoticed(self) -> None:
        """Raise the error that ended the subscription, unless a consumer has seen it."""
        error = self.inbox.error
        if error is not None and not was_raised(error):
            raise renewed(error)

    def _left(self) -> Left:
        options = self.options
        return Left(options.destination, self.subscribe_headers, acknowledges=options.ack is not AckMode.AUTO)

    def _unsubscribe(self) -> None:
        acks = self.acks
        if acks is None or acks.closed:
            return
        held = acks.held() + [waiting.headers for waiting in self.inbox.drain()]
        acks.closed = True
        leave = partial(self._leave, acks, held)
        if acks.has_promised:
            acks.then_leave = leave
            acks.connection.left_later[self.options.id] = LeftLater(self.options.destination, leave)
        else:
            leave()

    def _leave(self, acks: AckTracker, held: Sequence[Headers]) -> None:
        connection = acks.connection
        acks.then_leave = None
        connection.left_later.pop(self.options.id, None)
        acks.let_go()
        # The protocol is closed before the connection is, while consumers take what came before its last frame.
        if connection.failure is not None or connection.protocol.state is State.CLOSED:
            return
        if connection.registered.get(self.options.id) is not self:
            # The broker has ended it meanwhile.
            return
        # Without UNSUBSCRIBE, DISCONNECT ends the subscription, and the broker requeues what it holds.
        connection.unsubscribing.unsubscribe(connection, self.options.id, self._left(), held)
        connection.forget(self.options.id)
