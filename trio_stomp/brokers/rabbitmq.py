"""RabbitMQ's STOMP plugin, as measured with 3.10."""

from __future__ import annotations

from typing import Final

from trio_stomp.brokers.dialect import Dialect, queue_argument_headers
from trio_stomp.brokers.profile import NackMeaning, Pairs, Profile
from trio_stomp.brokers.streams import stream_offset_header, stream_offset_of
from trio_stomp.protocol import Headers, Tolerances

__all__ = ["RABBITMQ"]


def _prefetch(prefetch: int) -> Pairs:
    return [("prefetch-count", str(prefetch))]


def _durable(_name: str) -> Pairs:
    # The subscription's own id names its queue; durable alone would lose everything at the disconnect.
    return [("durable", "true"), ("auto-delete", "false")]


def _expiration(ttl: int, _now: int) -> Pairs:
    return [("expiration", str(ttl))]


def _nack(message: Headers, requeue: bool | None) -> NackMeaning:  # noqa: FBT001  # three-valued
    if stream_offset_of(message) is not None:
        # "basic.nack and basic.reject not supported by stream queues": it ends the connection.
        return NackMeaning.IMPOSSIBLE
    # Whether a queue has a dead-letter exchange cannot be seen from here, nor whether the broker was configured to take
    # a NACK without a choice for requeue:false (stomp.default_nack_requeue).
    return NackMeaning.DEAD_LETTER_IF_SET if requeue is False else NackMeaning.REQUEUE


def _requeue(requeue: bool) -> Pairs:  # noqa: FBT001  # the value of a header
    return [("requeue", "true" if requeue else "false")]


RABBITMQ: Final = Profile(
    name="RabbitMQ",
    tolerances=Tolerances(
        # Header octets are passed on as the sender wrote them.
        invalid_utf8=True,
        # It escapes in every version, 1.0 included.
        escapes_in_1_0=True,
        # Unknown destinations, bad headers, cancelled subscriptions: an ERROR, and the connection goes on.
        errors_leave_open=True,
    ),
    prefetch=_prefetch,
    dialect=Dialect(
        broker="RabbitMQ",
        persistent=True,
        ttl=_expiration,
        # Where the queue was declared with as many; the protocol has one octet for it.
        highest_priority=255,
        durable=_durable,
        queue_arguments=queue_argument_headers,
        stream_offset=stream_offset_header,
    ),
    durable_ends_while_open=True,
    unescapes_connect=True,
    client_ack_crosses_subscriptions=True,
    keeps_unsettled_after_unsubscribe=True,
    commit_receipt_is_early=True,
    answers_subscribe=True,
    nack=_nack,
    requeue=_requeue,
    # Quorum queues alone have it; it counts the deliveries before this one.
    delivery_count_header="x-delivery-count",
    delivery_count_begins=0,
    marks_redelivered=True,
    replies_unasked=True,
    cancels_subscriptions=True,
    # The AMQP property; message-id changes with each delivery.
    stable_id_header="amqp-message-id",
    server_names=("RabbitMQ",),
)
