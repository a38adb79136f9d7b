"""What a broker makes of STOMP where the specification leaves room, or where it departs from it.

A profile is data and pure functions over headers; it does no I/O. `docs/brokers.md` tells how each fact was seen.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from trio_stomp.brokers.dialect import Dialect, Pairs
from trio_stomp.protocol import Headers, Tolerances

__all__ = ["NackMeaning", "Pairs", "Profile"]

# Counts are signed integers of 64 bits. A header that a sender made up may have any length, and to turn many thousand
# digits into a number takes long, or is refused.
_LONGEST_COUNT_DIGITS: Final = 19


class NackMeaning(enum.Enum):
    """What becomes of a message that is NACKed."""

    UNKNOWN = "whatever the broker chooses"
    REQUEUE = "back to the queue at once, and delivered again"
    DEAD_LETTER = "to the dead letters"
    DEAD_LETTER_IF_SET = "to the dead letters if the queue has them, else dropped"
    DISCARD = "dropped, as if it had been acknowledged"
    IMPOSSIBLE = "the broker has no such choice"


def _no_prefetch(_prefetch: int) -> Pairs:
    return []


def _nack_meaning_unknown(_message: Headers, requeue: bool | None) -> NackMeaning:  # noqa: FBT001  # three-valued
    return NackMeaning.UNKNOWN if requeue is None else NackMeaning.IMPOSSIBLE


def _no_choice(_requeue: bool) -> Pairs:  # noqa: FBT001  # the value of a header
    return []


_TEMPORARY: Final = "/temp-queue/"


def _temporary_queue(name: str) -> str:
    return f"{_TEMPORARY}{name}"


def _as_written(destination: str) -> tuple[str, Pairs]:
    return destination, []


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """How one broker behaves. The defaults are those of a broker that is not known: nothing is assumed.

    Attributes:
        name: The broker's name, for people.
        tolerances: What is taken from it against the specification.
        prefetch: Prefetch in messages -> headers of SUBSCRIBE that ask for it in the client ack modes.
        dialect: How it is asked for what STOMP has no headers for.
        durable_needs_client_id: A durable subscription belongs to the ``client-id`` of CONNECT.
        durable_ends_while_open: A durable subscription is deleted by the UNSUBSCRIBE that ends its use; elsewhere by
            another one that follows.
        text_without_content_length: A SEND without content-length becomes a text message there, and one with it a
            message of bytes, as in JMS.
        unescapes_connect: It decodes escapes in CONNECT, so that a backslash in a passcode must be doubled. Used only
            where the profile is named by the user: before CONNECTED the broker is not known.
        client_ack_crosses_subscriptions: In mode ``client`` an ACK settles messages of other subscriptions too; the
            mode is then emulated with single acknowledgments.
        keeps_unsettled_after_unsubscribe: What was delivered and not settled stays locked after UNSUBSCRIBE until the
            connection ends, unless it is refused first. So does a delivery that crosses an UNSUBSCRIBE; it can
            be refused by its delivery number, as on RabbitMQ.
        commit_receipt_is_early: The RECEIPT of a COMMIT does not say that its SENDs are stored; their own do, and
            come later.
        nacks_in_transactions: A NACK may be part of a transaction.
        answers_subscribe: It answers a SUBSCRIBE with its RECEIPT, so that a refusal is seen at once.
        confirms: It answers ``receipt`` on SEND. False raises `NotSupported` in place of waiting for ever.
        has_transactions: It has BEGIN, COMMIT and ABORT.
        acknowledges: It has the ack modes ``client`` and ``client-individual``.
        acks_ignore_transactions: ACK and NACK take effect at once even in a transaction; they are then sent after the
            COMMIT was confirmed.
        nack: Headers of a message, and whether it is to be requeued (None: no choice is made) -> what a NACK makes of
            it.
        requeue: Whether to requeue -> headers of NACK that say so.
        delivery_count_header: The header that counts the deliveries of a message, where there is one.
        delivery_count_begins: What that header says at the first delivery, or would say.
        marks_redelivered: What it has delivered before it always marks ``redelivered:true``, be it after a restart, so
            that a message without the mark comes for the first time.
        keeps_message_id: A message has the same ``message-id`` each time that it is delivered.
        reply_destination: A name of the client's own -> where replies to its requests go.
        reply_address: A destination for replies -> how SUBSCRIBE and ``reply-to`` spell it, and more headers of
            SUBSCRIBE.
        replies_unasked: Replies to a temporary queue come without a SUBSCRIBE, under the name of their destination as
            subscription.
        cancels_subscriptions: An ERROR with a ``subscription`` header ends that subscription only.
        stable_id_header: The header under which a message keeps one id for ever: through all deliveries, and when it is
            sent again. Where the broker itself finds duplicates, it is the header that it reads for that.
        server_names: What ``server`` in CONNECTED begins with.
        websocket_message_octets: Over a WebSocket, the longest message that it takes by default, where it puts a STOMP
            frame together that comes in several. None: each frame is one message.
        websocket_is_text: Over a WebSocket it drops or damages, without a word, what is not UTF-8 text.
        binary_content_type: The content-type of bodies that it takes as they are, even so.
        bodies_are_text: Bodies must be UTF-8 text: what `over_websocket` makes of that.
    """

    name: str = "unknown broker"
    tolerances: Tolerances = field(default_factory=Tolerances)
    prefetch: Callable[[int], Pairs] = _no_prefetch
    dialect: Dialect = field(default_factory=lambda: Dialect(is_known=False))
    durable_needs_client_id: bool = False
    durable_ends_while_open: bool = False
    text_without_content_length: bool = False
    unescapes_connect: bool = False
    client_ack_crosses_subscriptions: bool = False
    keeps_unsettled_after_unsubscribe: bool = False
    commit_receipt_is_early: bool = False
    nacks_in_transactions: bool = True
    answers_subscribe: bool = False
    confirms: bool = True
    has_transactions: bool = True
    acknowledges: bool = True
    acks_ignore_transactions: bool = False
    nack: Callable[[Headers, bool | None], NackMeaning] = _nack_meaning_unknown
    requeue: Callable[[bool], Pairs] = _no_choice
    delivery_count_header: str | None = None
    delivery_count_begins: int = 1
    marks_redelivered: bool = False
    keeps_message_id: bool = False
    reply_destination: Callable[[str], str] = _temporary_queue
    reply_address: Callable[[str], tuple[str, Pairs]] = _as_written
    replies_unasked: bool = False
    cancels_subscriptions: bool = False
    stable_id_header: str = "dedup-id"
    server_names: tuple[str, ...] = ()
    websocket_message_octets: int | None = None
    websocket_is_text: bool = False
    binary_content_type: str | None = None
    bodies_are_text: bool = False

    def over_websocket(self) -> Profile:
        """This broker, reached over a WebSocket."""
        return replace(self, bodies_are_text=True) if self.websocket_is_text else self

    def replies_need_subscribe(self, destination: str) -> bool:
        """Whether replies to a destination come only to who subscribes to it."""
        return not (self.replies_unasked and destination.startswith(_TEMPORARY))

    def stable_id(self, value: str) -> Pairs:
        """The headers of SEND that give a message an id which it keeps."""
        return [(self.stable_id_header, value)]

    def stable_id_of(self, headers: Headers) -> str | None:
        """What names a message through all its deliveries, from the headers of its MESSAGE; None where nothing does."""
        given = headers.get(self.stable_id_header)
        return headers.get("message-id") if given is None and self.keeps_message_id else given

    def delivery_count_of(self, headers: Headers) -> int | None:
        """How many times the message was delivered, this time included; None where the broker does not tell."""
        if self.marks_redelivered and headers.get("redelivered") != "true":
            # Whatever the header says then is the sender's: RabbitMQ passes it on where it does not count itself.
            return 1
        value = "" if self.delivery_count_header is None else headers.get(self.delivery_count_header) or ""
        if not (value.isascii() and value.isdigit() and len(value) <= _LONGEST_COUNT_DIGITS):
            return None
        return max(1, int(value) - self.delivery_count_begins + 1)

    def cancelled_subscription(self, error: Headers) -> str | None:
        """The id of the one subscription that an ERROR ends, where it ends no more than that."""
        return error.get("subscription") if self.cancels_subscriptions else None
