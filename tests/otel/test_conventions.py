"""What spans and metrics are called, and what is said with them."""

from __future__ import annotations

import pytest

from trio_stomp import ConnectionLost
from trio_stomp.otel.conventions import describe, describe_sending, error_type, for_metrics, span_name
from trio_stomp.types import ConnectionInfo, Sending


def peer(broker: str) -> ConnectionInfo:
    return ConnectionInfo(endpoint="stomp://b:1", host="b", port=1, broker=broker, server=None)


@pytest.mark.parametrize(
    ("broker", "system"),
    [
        ("RabbitMQ", "rabbitmq"),
        ("ActiveMQ Classic", "activemq"),
        ("ActiveMQ Artemis", "activemq"),
        ("a broker that is not known", "stomp"),
    ],
)
def test_system_when_described_then_by_the_name_that_the_conventions_have(broker: str, system: str) -> None:
    assert describe(peer(broker), "send", "send", "/queue/a")["messaging.system"] == system


@pytest.mark.parametrize(
    ("destination", "name"),
    [
        ("/queue/a", "send /queue/a"),
        ("/topic/temp-queue", "send /topic/temp-queue"),
        ("/temp-queue/a", "send"),
        ("/remote-temp-queue/ID:x", "send"),
        ("/reply-queue/amq.gen-1", "send"),
        ("/queue/replies-0123456789abcdef", "send"),
        ("/queue/replies-of-clients", "send /queue/replies-of-clients"),
    ],
)
def test_span_name_when_the_destination_is_temporary_then_without_it(destination: str, name: str) -> None:
    attributes = describe(peer("RabbitMQ"), "send", "send", destination)

    assert span_name(attributes) == name
    assert ("messaging.destination.name" in for_metrics(attributes)) == (name != "send")


def test_metrics_when_a_message_is_described_then_only_what_has_few_values_is_kept() -> None:
    message = Sending(
        destination="/queue/a",
        body_bytes=7,
        transaction=None,
        is_request=True,
        confirmed=False,
        _headers=[("correlation-id", "c-1")],
    )

    attributes = describe_sending(peer("RabbitMQ"), message)

    assert attributes["messaging.message.conversation_id"] == "c-1"
    assert set(attributes) - set(for_metrics(attributes)) == {
        "messaging.message.body.size",
        "messaging.message.conversation_id",
    }


def test_error_type_when_named_then_as_it_is_imported() -> None:
    assert error_type(OSError()) == "OSError"
    assert error_type(ConnectionLost()) == "trio_stomp.errors.ConnectionLost"
