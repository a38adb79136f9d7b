"""RabbitMQ's STOMP plugin, as measured with 3.10."""

from __future__ import annotations

from typing import Final

from trio_stomp.brokers.profile import NackMeaning, Pairs, Profile
from trio_stomp.protocol import Headers, Tolerances

__all__ = ["RABBITMQ"]


def _prefetch(prefetch: int) -> Pairs:
    return [("prefetch-count", str(prefetch))]


def _durable(_name: str) -> Pairs:
    # The subscription's own id names its queue; durable alone would lose everything at the disconnect.
    return [("durable", "true"), ("auto-delete", "false")]


def _nack(_message: Headers) -> NackMeaning:
    return NackMeaning.REQUEUE


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
    prefetch_is_exact=True,
    durable=_durable,
    unescapes_connect=True,
    client_ack_crosses_subscriptions=True,
    keeps_unsettled_after_unsubscribe=True,
    numbers_deliveries=True,
    commit_receipt_is_early=True,
    answers_subscribe=True,
    nack=_nack,
    cancels_subscriptions=True,
    # The AMQP property; message-id changes with each delivery.
    stable_id_header="amqp-message-id",
    server_names=("RabbitMQ",),
)
