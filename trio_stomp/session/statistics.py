"""What a client counts."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Counters", "Statistics", "SubscriptionStatistics"]


@dataclass(slots=True)
class Counters:
    """What one connection counts as it goes; only the connection writes it."""

    octets_received: int = 0
    octets_sent: int = 0
    octets_unsent: int = 0
    writes: int = 0
    messages_received: int = 0
    messages_unroutable: int = 0
    frames_sent: int = 0
    receipts_received: int = 0
    receipts_unexpected: int = 0
    errors_received: int = 0
    heart_beats_sent: int = 0
    reader_held: int = 0
    reconnections: int = 0
    stale_messages: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionStatistics:
    """One subscription at one moment.

    Attributes:
        id: Its id.
        destination: What it subscribes to.
        prefetch: How many messages the broker may send ahead, or in auto mode how many the buffer holds.
        waiting: Tasks that wait for a message.
        buffered: Messages that came and that no consumer has taken.
        unsettled: Messages that consumers took and neither acknowledged nor refused.
        delivered: Messages that consumers took, in all.
        dropped: Messages forgotten by ``overflow="drop-oldest"``.
    """

    id: str
    destination: str
    prefetch: int
    waiting: int
    buffered: int
    unsettled: int
    delivered: int
    dropped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """One client at one moment.

    Attributes:
        octets_received: Octets read from the broker.
        octets_sent: Octets handed to the operating system.
        octets_unsent: Octets of frames that waited to be written when a link was lost. What was to be confirmed is
            sent again; the rest is gone.
        writes: In how many pieces.
        messages_received: MESSAGE frames read.
        messages_unroutable: Those of them for no open subscription: late ones, after UNSUBSCRIBE.
        frames_sent: Frames put into the outbox.
        receipts_received: RECEIPT frames read.
        receipts_unexpected: Those of them that nobody waited for.
        receipts_pending: Receipts that are awaited now.
        errors_received: ERROR frames read.
        heart_beats_sent: Heart-beats written because nothing else was.
        outbox_octets: What waits to be written.
        undelivered_octets: Memory taken by messages that wait for consumers: bodies, headers and the objects of both.
        reader_held: How many times the reader was held because of slow consumers.
        reconnections: How many connections have followed the first.
        resent: SEND frames sent again after a reconnection.
        unconfirmed: Messages that await their RECEIPT now.
        stale_messages: Messages that were handled, and whose connection was lost before their ACK: they come again.
        seconds_connected: Since the newest connection was made.
        seconds_since_read: Since octets last came.
        seconds_since_write: Since octets were last written.
        subscriptions: Each open subscription.
    """

    octets_received: int
    octets_sent: int
    octets_unsent: int
    writes: int
    messages_received: int
    messages_unroutable: int
    frames_sent: int
    receipts_received: int
    receipts_unexpected: int
    receipts_pending: int
    errors_received: int
    heart_beats_sent: int
    outbox_octets: int
    undelivered_octets: int
    reader_held: int
    reconnections: int
    resent: int
    unconfirmed: int
    stale_messages: int
    seconds_connected: float
    seconds_since_read: float
    seconds_since_write: float
    subscriptions: tuple[SubscriptionStatistics, ...]
