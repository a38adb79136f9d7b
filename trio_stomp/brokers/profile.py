"""What a broker makes of STOMP where the specification leaves room, or where it departs from it.

A profile is data and pure functions over headers; it does no I/O. `docs/brokers.md` tells how each fact was seen.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field

from trio_stomp.errors import NotSupported
from trio_stomp.protocol import Headers, Tolerances

__all__ = ["NackMeaning", "Pairs", "Profile"]

Pairs = list[tuple[str, str]]


class NackMeaning(enum.Enum):
    """What becomes of a message that is NACKed."""

    UNKNOWN = "whatever the broker chooses"
    REQUEUE = "back to the queue at once, and delivered again"
    DEAD_LETTER = "to the dead letters"
    DISCARD = "dropped, as if it had been acknowledged"


def _no_prefetch(_prefetch: int) -> Pairs:
    return []


def _no_durable(_name: str) -> Pairs:
    msg = "this broker's way of durable subscriptions is not known: pass its own headers to subscribe() instead"
    raise NotSupported(msg)


def _nack_meaning_unknown(_message: Headers) -> NackMeaning:
    return NackMeaning.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """How one broker behaves. The defaults are those of a broker that is not known: nothing is assumed.

    Attributes:
        name: The broker's name, for people.
        tolerances: What is taken from it against the specification.
        prefetch: Prefetch in messages -> headers of SUBSCRIBE that ask for it in the client ack modes.
        prefetch_is_exact: The broker then never sends more than that many messages that are not settled.
        durable: Name of a durable subscription -> headers of SUBSCRIBE.
        text_without_content_length: A SEND without content-length becomes a text message there, and one with it a
            message of bytes, as in JMS.
        unescapes_connect: It decodes escapes in CONNECT, so that a backslash in a passcode must be doubled. Used only
            where the profile is named by the user: before CONNECTED the broker is not known.
        client_ack_crosses_subscriptions: In mode ``client`` an ACK settles messages of other subscriptions too; the
            mode is then emulated with single acknowledgments.
        keeps_unsettled_after_unsubscribe: What was delivered and not settled stays locked after UNSUBSCRIBE until the
            connection ends, unless it is given back first.
        numbers_deliveries: A delivery that meets an UNSUBSCRIBE is answered with an ERROR and stays locked; it can be
            refused by its number through any open subscription. See `delivery_numbers`.
        commit_receipt_is_early: The RECEIPT of a COMMIT does not say that its SENDs are stored; their own do, and
            come later.
        nacks_in_transactions: A NACK may be part of a transaction.
        answers_subscribe: It answers a SUBSCRIBE with its RECEIPT, so that a refusal is seen at once. Spring's simple
            broker knows no receipts.
        acks_ignore_transactions: ACK and NACK take effect at once even in a transaction; they are then sent after the
            COMMIT was confirmed.
        nack: Headers of a message -> what a NACK makes of it.
        cancels_subscriptions: An ERROR with a ``subscription`` header ends that subscription only.
        stable_id_header: The header under which a message keeps one id for ever: through all deliveries, and when it is
            sent again. Where the broker itself finds duplicates, it is the header that it reads for that.
        server_names: What ``server`` in CONNECTED begins with.
    """

    name: str = "unknown broker"
    tolerances: Tolerances = field(default_factory=Tolerances)
    prefetch: Callable[[int], Pairs] = _no_prefetch
    prefetch_is_exact: bool = False
    durable: Callable[[str], Pairs] = _no_durable
    text_without_content_length: bool = False
    unescapes_connect: bool = False
    client_ack_crosses_subscriptions: bool = False
    keeps_unsettled_after_unsubscribe: bool = False
    numbers_deliveries: bool = False
    commit_receipt_is_early: bool = False
    nacks_in_transactions: bool = True
    answers_subscribe: bool = False
    acks_ignore_transactions: bool = False
    nack: Callable[[Headers], NackMeaning] = _nack_meaning_unknown
    cancels_subscriptions: bool = False
    stable_id_header: str = "dedup-id"
    server_names: tuple[str, ...] = ()

    def stable_id(self, value: str) -> Pairs:
        """The headers of SEND that give a message an id which it keeps."""
        return [(self.stable_id_header, value)]

    def stable_id_of(self, headers: Headers) -> str | None:
        """The id that `stable_id` gave to a message, from the headers of its MESSAGE."""
        return headers.get(self.stable_id_header)

    def cancelled_subscription(self, error: Headers) -> str | None:
        """The id of the one subscription that an ERROR ends, where it ends no more than that."""
        return error.get("subscription") if self.cancels_subscriptions else None
