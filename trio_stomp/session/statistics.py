"""Statistics of a client and of its subscriptions."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Counters", "Statistics", "SubscriptionStatistics"]


@dataclass(slots=True)
class Counters:
    """The running counters of a client."""

    bytes_received: int = 0
    bytes_sent: int = 0
    bytes_unsent: int = 0
    writes: int = 0
    messages_received: int = 0
    messages_unroutable: int = 0
    frames_sent: int = 0
    receipts_received: int = 0
    receipts_unexpected: int = 0
    errors_received: int = 0
    heart_beats_sent: int = 0
    reads_paused: int = 0
    reconnections: int = 0
    stale_messages: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionStatistics:
    """A snapshot of one subscription.

    Attributes:
        id: Id of the subscription.
        destination: Its destination.
        prefetch: How many messages the broker may send ahead; in auto mode, how many the buffer holds.
        waiting: Tasks waiting for a message.
        buffered: Messages received and not taken by a consumer yet.
        unsettled: Messages taken by consumers and neither acknowledged nor refused yet.
        delivered: Messages taken by consumers in total.
        dropped: Messages dropped by ``overflow="drop-oldest"``.
        refusal: The broker's last words, if it has refused the subscription after a reconnection and that is retried.
    """

    id: str
    destination: str
    prefetch: int
    waiting: int
    buffered: int
    unsettled: int
    delivered: int
    dropped: int
    refusal: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """A snapshot of one client.

    Attributes:
        bytes_received: Bytes read from the broker.
        bytes_sent: Bytes handed to the operating system.
        bytes_unsent: Bytes of frames that waited to be written when a connection was lost. Messages sent with a
            receipt are resent; the rest is lost.
        writes: Number of writes.
        messages_received: MESSAGE frames read.
        messages_unroutable: MESSAGE frames for no open subscription, as after UNSUBSCRIBE.
        frames_sent: Frames put into the outbox.
        receipts_received: RECEIPT frames read.
        receipts_unexpected: RECEIPT frames that nothing waited for.
        receipts_pending: Receipts awaited now.
        errors_received: ERROR frames read.
        heart_beats_sent: Heart-beats written because nothing else was.
        outbox_bytes: Bytes waiting to be written.
        undelivered_bytes: Memory used by messages waiting for consumers: bodies, headers and their objects.
        reads_paused: How often the reader stopped because of slow consumers.
        reconnections: Number of connections after the first.
        resent: SEND frames resent after a reconnection.
        unconfirmed: Messages waiting for their RECEIPT now.
        stale_messages: Messages handled whose connection was lost before their ACK; the broker redelivers them.
        seconds_connected: Seconds since the current connection was made.
        seconds_since_read: Seconds since the last read.
        seconds_since_write: Seconds since the last write.
        subscriptions: Every open subscription.
    """

    bytes_received: int = 0
    bytes_sent: int = 0
    bytes_unsent: int = 0
    writes: int = 0
    messages_received: int = 0
    messages_unroutable: int = 0
    frames_sent: int = 0
    receipts_received: int = 0
    receipts_unexpected: int = 0
    receipts_pending: int = 0
    errors_received: int = 0
    heart_beats_sent: int = 0
    outbox_bytes: int = 0
    undelivered_bytes: int = 0
    reads_paused: int = 0
    reconnections: int = 0
    resent: int = 0
    unconfirmed: int = 0
    stale_messages: int = 0
    seconds_connected: float = 0.0
    seconds_since_read: float = 0.0
    seconds_since_write: float = 0.0
    subscriptions: tuple[SubscriptionStatistics, ...] = ()
