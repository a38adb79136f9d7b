"""RabbitMQ's STOMP plugin, as measured with 3.10 and 4.3: its profiles, its streams, and its delivery numbers.

Streams are queues that can be read any number of times, from any offset.

Delivery numbers. The ``message-id`` of a MESSAGE has three parts: ``T_<subscription>@@<session>@@<number>``. The number
counts all deliveries of the connection, across subscriptions. If the broker handles an UNSUBSCRIBE before it has sent a
delivery, an ERROR "Subscription not found" takes its place and uses up its number, and the message stays locked until
the connection ends or a NACK refuses it by that number. Seen with 3.10.8 and 4.3.6: an ACK followed by UNSUBSCRIBE,
on a queue that holds more messages, causes it nearly every time. The NACK names an open subscription, and any will do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Final

from trio_stomp.brokers.arguments import is_whole, require
from trio_stomp.brokers.dialect import Dialect, expires_after, queue_argument_headers
from trio_stomp.brokers.features import StreamOffset
from trio_stomp.brokers.profile import NackMeaning, Pairs, Profile, prefetch_count, requeue_header
from trio_stomp.errors import LocalProtocolError
from trio_stomp.protocol import Headers, Tolerances

__all__ = [
    "RABBITMQ",
    "RABBITMQ_4_3",
    "by_version",
    "delivery_id",
    "delivery_number",
    "outlives_subscribers",
    "reads_stream",
    "stream_offset_of",
    "swallowed_for",
]

# --- streams ----------------------------------------------------------------------------------------------------------

# In SUBSCRIBE: where to start. In MESSAGE: the offset of the message.
_OFFSET: Final = "x-stream-offset"


def _stream_offset_header(offset: StreamOffset) -> list[tuple[str, str]]:
    """Return the header of SUBSCRIBE that says where to start reading a stream."""
    if isinstance(offset, datetime):
        if offset.tzinfo is None:
            msg = f"stream_offset must be a time with a time zone, got {offset!r}; use datetime.now(UTC)"
            raise LocalProtocolError(msg)
        value = f"timestamp={int(offset.timestamp())}"
    else:
        expected = "'first', 'last', 'next', the number of a message, or a time"
        require(isinstance(offset, str) or is_whole(offset, 0), "stream_offset", expected, offset)
        value = f"offset={offset}" if isinstance(offset, int) else offset
    return [(_OFFSET, value)]


def stream_offset_of(message: Headers) -> int | None:
    """Return the offset of a message in its stream; None if it came from a queue."""
    value = message.get(_OFFSET) or ""
    return int(value) if value.isascii() and value.isdigit() and len(value) < len(str(2**64)) else None


def reads_stream(subscribe: Iterable[tuple[str, str]]) -> bool:
    """Return whether a SUBSCRIBE with these headers reads a stream."""
    return any(name == _OFFSET or (name, value) == ("x-queue-type", "stream") for name, value in subscribe)


# --- delivery numbers -------------------------------------------------------------------------------------------------

_SWALLOWED: Final = re.compile(rb"There is no current subscription with tag 'T_(.*)'\.\s*", re.DOTALL)

# Erlang's integers are unbounded, but no count has more digits than this, and int() refuses thousands of them.
_LONGEST_NUMBER_DIGITS: Final = 20

# Queues that stay without subscribers; those behind topics and exchanges are deleted with their subscriber.
_QUEUES: Final = ("/queue/", "/amq/queue/")


def swallowed_for(body: bytes) -> str | None:
    """Return the id of the subscription for which a message came too late, according to an ERROR; None for others."""
    found = _SWALLOWED.fullmatch(body)
    return None if found is None else found[1].decode("utf-8", "replace")


def delivery_number(message_id: str) -> int | None:
    """Return the number of a delivery on its connection, by its ``message-id``."""
    _, separator, number = message_id.rpartition("@@")
    if not separator or len(number) > _LONGEST_NUMBER_DIGITS or not (number.isascii() and number.isdigit()):
        return None
    return int(number)


def delivery_id(subscription_id: str, session: str, number: int) -> str:
    """Return the ``message-id`` by which a delivery can be settled through an open subscription."""
    return f"T_{subscription_id}@@{session}@@{number}"


def outlives_subscribers(destination: str) -> bool:
    """Return whether the messages of a destination stay when its last subscriber leaves."""
    return destination.startswith(_QUEUES)


# --- the profiles -----------------------------------------------------------------------------------------------------


def _durable(_name: str) -> Pairs:
    # The subscription's own id names its queue; durable alone would lose everything at the disconnect.
    return [("durable", "true"), ("auto-delete", "false")]


def _nack(message: Headers, requeue: bool | None) -> NackMeaning:  # noqa: FBT001  # three-valued
    if stream_offset_of(message) is not None:
        # "basic.nack and basic.reject not supported by stream queues": it ends the connection.
        return NackMeaning.IMPOSSIBLE
    # Whether a queue has a dead-letter exchange cannot be seen from here, nor whether the broker was configured to take
    # a NACK without a choice for requeue:false (stomp.default_nack_requeue).
    return NackMeaning.DEAD_LETTER_IF_SET if requeue is False else NackMeaning.REQUEUE


RABBITMQ: Final = Profile(
    name="RabbitMQ",
    tolerances=Tolerances(
        # Header bytes are passed on as the sender wrote them.
        invalid_utf8=True,
        nul_in_message_headers=True,
        # AMQP allows a header without a name.
        empty_header_names=True,
        # It escapes as 1.2 does in every version.
        escapes_in_1_0=True,
        cr_escape_in_1_1=True,
        # After an ERROR about unknown destinations, bad headers or canceled subscriptions, the connection continues.
        errors_leave_open=True,
    ),
    prefetch=prefetch_count,
    dialect=Dialect(
        broker="RabbitMQ",
        persistent=True,
        ttl=expires_after,
        # If the queue was declared with that many; the protocol has one byte for it.
        highest_priority=255,
        durable=_durable,
        queue_arguments=queue_argument_headers,
        stream_offset=_stream_offset_header,
    ),
    durable_ends_while_open=True,
    unescapes_connect=True,
    client_ack_crosses_subscriptions=True,
    keeps_unsettled_after_unsubscribe=True,
    commit_receipt_is_early=True,
    answers_subscribe=True,
    nack=_nack,
    requeue=requeue_header,
    # Only quorum queues have it; it counts the deliveries before this one. As measured with 3.10.
    delivery_count_header="x-delivery-count",
    delivery_count_begins=0,
    marks_redelivered=True,
    replies_unasked=True,
    cancels_subscriptions=True,
    # The AMQP property; message-id changes with each delivery.
    stable_id_header="amqp-message-id",
    server_names=("RabbitMQ",),
)

RABBITMQ_4_3: Final = replace(
    RABBITMQ,
    # From 4.3 on, x-delivery-count leaves out what was NACKed; 4.0 counts as 3.10 does.
    delivery_count_header="x-acquired-count",
)

_VERSION: Final = re.compile(r"RabbitMQ/(\d{1,4})\.(\d{1,4})")


def by_version(profile: Profile, server: str | None) -> Profile:
    """Return the profile for the version in a ``server`` header, if the given one is RabbitMQ's.

    Args:
        profile: Any profile.
        server: The header of CONNECTED, such as ``RabbitMQ/4.3.6``, or None.
    """
    found = _VERSION.match(server or "")
    is_newer = found is not None and (int(found[1]), int(found[2])) >= (4, 3)
    return RABBITMQ_4_3 if profile is RABBITMQ and is_newer else profile
