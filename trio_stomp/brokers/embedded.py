"""The broker of trio_stomp.testing: the specification, prefetch by count, and what the real brokers add to SEND."""

from __future__ import annotations

from typing import Final

from trio_stomp.brokers.dialect import Dialect, expires_after
from trio_stomp.brokers.profile import NackMeaning, Pairs, Profile, prefetch_count, requeue_header
from trio_stomp.protocol import Headers

__all__ = ["EMBEDDED"]


def _durable(name: str) -> Pairs:
    return [("durable", "true"), ("durable-subscription-name", name)]


def _nack(_message: Headers, requeue: bool | None) -> NackMeaning:  # noqa: FBT001  # three-valued
    return NackMeaning.DEAD_LETTER if requeue is False else NackMeaning.REQUEUE


EMBEDDED: Final = Profile(
    name="trio_stomp.testing",
    prefetch=prefetch_count,
    # It keeps everything in memory, so `persistent` makes no difference.
    dialect=Dialect(
        broker="trio_stomp.testing",
        persistent=True,
        # As on RabbitMQ: a time of day would not work with a mock clock.
        ttl=expires_after,
        highest_priority=9,
        delay_header="AMQ_SCHEDULED_DELAY",
        group_header="JMSXGroupID",
        selectors=True,
        durable=_durable,
        browse=("browser", "true"),
    ),
    answers_subscribe=True,
    nack=_nack,
    requeue=requeue_header,
    delivery_count_header="delivery-count",
    marks_redelivered=True,
    keeps_message_id=True,
    server_names=("trio-stomp-testing",),
)
