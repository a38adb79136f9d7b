"""Broker profiles: what a broker does where the specification leaves room, and where it deviates from it.

A profile is data and pure functions over headers; it does no I/O. `docs/brokers.md` says how each fact was observed.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from trio_stomp.brokers.dialect import Dialect, Pairs
from trio_stomp.protocol import Headers, Tolerances

__all__ = ["REPLY_PREFIXES", "NackMeaning", "Pairs", "Profile", "prefetch_count", "requeue_header"]

# Counts are signed 64-bit integers. A header that a sender made up may have any length, and converting many thousand
# digits is slow, or refused by int().
_LONGEST_COUNT_DIGITS: Final = 19


class NackMeaning(enum.Enum):
    """What a broker does with a message that is NACKed."""

    UNKNOWN = "whatever the broker chooses"
    REQUEUE = "requeued at once, and redelivered"
    DEAD_LETTER = "dead-lettered"
    DEAD_LETTER_IF_SET = "dead-lettered if the queue has a dead-letter exchange, else dropped"
    DISCARD = "dropped, as if it had been acknowledged"
    IMPOSSIBLE = "not supported by the broker"


def prefetch_count(prefetch: int) -> Pairs:
    """Return the header of SUBSCRIBE with the prefetch in messages."""
    return [("prefetch-count", str(prefetch))]


def requeue_header(requeue: bool) -> Pairs:  # noqa: FBT001  # the value of a header
    """Return the header of NACK that says whether the message is requeued."""
    return [("requeue", "true" if requeue else "false")]


def _no_prefetch(_prefetch: int) -> Pairs:
    return []


def _nack_meaning_unknown(_message: Headers, requeue: bool | None) -> NackMeaning:  # noqa: FBT001  # three-valued
    return NackMeaning.UNKNOWN if requeue is None else NackMeaning.IMPOSSIBLE


def _no_choice(_requeue: bool) -> Pairs:  # noqa: FBT001  # the value of a header
    return []


_TEMPORARY: Final = "/temp-queue/"


# How the temporary destinations begin in which requesters await a reply. They may be gone at any time.
REPLY_PREFIXES: Final = (_TEMPORARY, "/remote-temp-queue/", "/remote-temp-topic/", "/reply-queue/", "/temp-topic/")


def _temporary_queue(name: str) -> str:
    return f"{_TEMPORARY}{name}"


def _as_written(destination: str) -> tuple[str, Pairs]:
    return destination, []


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """How one broker behaves. The defaults are for an unknown broker: nothing is assumed.

    Attributes:
        name: The broker's name, for people.
        tolerances: Deviations from the specification that the client accepts from it.
        prefetch: Prefetch in messages -> headers of SUBSCRIBE, for the client ack modes.
        dialect: Its headers for features beyond STOMP.
        durable_needs_client_id: A durable subscription belongs to the ``client-id`` of CONNECT.
        durable_ends_while_open: The UNSUBSCRIBE that leaves a durable subscription can delete it; elsewhere a second
            UNSUBSCRIBE does.
        text_without_content_length: A SEND without content-length becomes a text message, and one with it a bytes
            message, as in JMS.
        unescapes_connect: It unescapes CONNECT, so a backslash in a passcode must be doubled. Used only if the user
            names the profile: before CONNECTED the broker is not known.
        client_ack_crosses_subscriptions: In mode ``client`` an ACK settles messages of other subscriptions too; the
            mode is then emulated with single acknowledgments.
        keeps_unsettled_after_unsubscribe: What was delivered and not settled stays locked after UNSUBSCRIBE until the
            connection ends, unless it is refused first. So does a delivery that crosses an UNSUBSCRIBE; it can
            be refused by its delivery number, as on RabbitMQ.
        commit_receipt_is_early: The RECEIPT of a COMMIT does not confirm that its SENDs are stored. Their own RECEIPTs
            do, and come later.
        confirms_in_bulk: It confirms a transaction of hundreds of messages much faster than as many single messages.
        nacks_in_transactions: A NACK may be part of a transaction.
        answers_subscribe: It answers SUBSCRIBE with a RECEIPT, so that a refusal is seen at once.
        confirms: It answers ``receipt`` on SEND. If False, asking for one raises `NotSupportedError` instead of waiting
            forever.
        has_transactions: It supports BEGIN, COMMIT and ABORT.
        acknowledges: It supports the ack modes ``client`` and ``client-individual``.
        acks_ignore_transactions: ACK and NACK take effect at once even in a transaction, so they are sent after the
            COMMIT was confirmed.
        nack: Headers of a message and the value of ``requeue=`` (None by default) -> what a NACK does with it.
        requeue: The value of ``requeue=`` -> headers of NACK.
        delivery_count_header: The header that counts the deliveries of a message, if there is one.
        delivery_count_begins: The value of that header at the first delivery.
        marks_redelivered: Redelivered messages always have ``redelivered:true``, even after a restart, so a message
            without it is delivered for the first time.
        keeps_message_id: A message has the same ``message-id`` in each delivery.
        reply_destination: A name chosen by the client -> destination of replies to its requests.
        reply_address: A destination of replies -> its spelling in SUBSCRIBE and ``reply-to``, and additional headers of
            SUBSCRIBE.
        replies_unasked: Replies to a temporary queue come without SUBSCRIBE, with their destination as the
            subscription id.
        cancels_subscriptions: An ERROR with a ``subscription`` header ends only that subscription.
        stable_id_header: The header that keeps the id of a message across redeliveries and resends. If the broker
            detects duplicates, it is the header that it reads for that.
        server_names: Prefixes of the ``server`` header of CONNECTED.
        websocket_message_bytes: Over a WebSocket, the longest message in bytes that it accepts by default, if it
            reassembles a STOMP frame from several. None: each frame is one message.
        websocket_is_text: Over a WebSocket it silently drops or damages whatever is not UTF-8 text.
        binary_content_type: The content-type of bodies that it passes on unchanged all the same.
        bodies_are_text: Bodies must be UTF-8 text; set by `over_websocket`.
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
    confirms_in_bulk: bool = False
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
    websocket_message_bytes: int | None = None
    websocket_is_text: bool = False
    binary_content_type: str | None = None
    bodies_are_text: bool = False

    def over_websocket(self) -> Profile:
        """Return the profile of this broker over a WebSocket."""
        return replace(self, bodies_are_text=True) if self.websocket_is_text else self

    def replies_need_subscribe(self, destination: str) -> bool:
        """Return whether replies to a destination come only after a SUBSCRIBE."""
        return not (self.replies_unasked and destination.startswith(_TEMPORARY))

    def stable_id(self, value: str) -> Pairs:
        """Return the headers of SEND that give a message a stable id."""
        return [(self.stable_id_header, value)]

    def stable_id_of(self, headers: Headers) -> str | None:
        """Return the stable id of a message from the headers of its MESSAGE; None if it has none."""
        given = headers.get(self.stable_id_header)
        return headers.get("message-id") if given is None and self.keeps_message_id else given

    def delivery_count_of(self, headers: Headers) -> int | None:
        """Return how often a message was delivered, including this time; None if the broker does not say."""
        if self.marks_redelivered and headers.get("redelivered") != "true":
            # The header is then the sender's own: RabbitMQ passes it on if it does not count itself.
            return 1
        value = "" if self.delivery_count_header is None else headers.get(self.delivery_count_header) or ""
        if not (value.isascii() and value.isdigit() and len(value) <= _LONGEST_COUNT_DIGITS):
            return None
        return max(1, int(value) - self.delivery_count_begins + 1)

    def cancelled_subscription(self, error: Headers) -> str | None:
        """Return the id of the subscription that an ERROR ends, if it ends only that."""
        return error.get("subscription") if self.cancels_subscriptions else None
