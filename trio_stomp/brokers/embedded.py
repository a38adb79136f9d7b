"""The broker of trio_stomp.testing: the specification, prefetch by count, and what the real brokers add to SEND."""

from __future__ import annotations

from typing import Final

from trio_stomp.brokers.dialect import Dialect
from trio_stomp.brokers.profile import NackMeaning, Pairs, Profile
from trio_stomp.protocol import Headers

__all__ = ["EMBEDDED"]


def _prefetch(prefetch: int) -> Pairs:
    return [("prefetch-count", str(prefetch))]


def _durable(name: str) -> Pairs:
    return [("durable", "true"), ("durable-subscription-name", name)]


def _expiration(ttl: int, _now: int) -> Pairs:
    # A duration, as on RabbitMQ, and not a time of day, so that it works with a mock clock.
    return [("expiration", str(ttl))]


def _nack(_message: Headers, requeue: bool | None) -> NackMeaning:  # noqa: FBT001  # three-valued
    return NackMeaning.DEAD_LETTER if requeue is False else NackMeaning.REQUEUE


def _requeue(requeue: bool) -> Pairs:  # noqa: FBT001  # the value of a header
    return [("requeue", "true" if requeue else "false")]


EMBEDDED: Final = Profile(
    name="trio_stomp.testing",
    prefetch=_prefetch,
    # It keeps everything in memory, so `persistent` makes no difference.
    dialect=Dialect(
        broker="trio_stomp.testing",
        persistent=True,
        ttl=_expiration,
        highest_priority=9,
        delay_header="AMQ_SCHEDULED_DELAY",
        group_header="JMSXGroupID",
        selectors=True,
        durable=_durable,
        browse=("browser", "true"),
    ),
    answers_subscribe=True,
    nack=_nack,
    requeue=_requeue,
    delivery_count_header="delivery-count",
    marks_redelivered=True,
    keeps_message_id=True,
    server_names=("trio-stomp-testing",),
)
