"""What is known of RabbitMQ."""

from __future__ import annotations

from trio_stomp.brokers import RABBITMQ, NackMeaning
from trio_stomp.protocol import Headers


def test_rabbitmq_when_asked_for_prefetch_then_by_count() -> None:
    assert RABBITMQ.prefetch(7) == [("prefetch-count", "7")]


def test_rabbitmq_when_durable_then_the_queue_outlives_the_connection() -> None:
    assert RABBITMQ.dialect.subscribe_headers({"durable": "mine"}) == [("durable", "true"), ("auto-delete", "false")]
    assert not RABBITMQ.durable_needs_client_id
    assert RABBITMQ.durable_ends_while_open


def test_rabbitmq_when_nacked_then_requeued() -> None:
    assert RABBITMQ.nack(Headers(), None) is NackMeaning.REQUEUE


def test_rabbitmq_when_it_cancels_a_subscription_then_only_that_one_is_meant() -> None:
    error = Headers({"message": "Server cancelled subscription", "subscription": "s-1"})
    assert RABBITMQ.cancelled_subscription(error) == "s-1"
    assert RABBITMQ.cancelled_subscription(Headers({"message": "not_found"})) is None
