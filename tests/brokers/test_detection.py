"""Which profile fits a broker."""

from __future__ import annotations

import pytest

from trio_stomp.brokers import (
    ACTIVEMQ,
    ARTEMIS,
    EMBEDDED,
    GENERIC,
    RABBITMQ,
    RABBITMQ_4_3,
    profile_for,
    profile_named,
)
from trio_stomp.errors import LocalProtocolError
from trio_stomp.types import Profile


@pytest.mark.parametrize(
    ("server", "profile"),
    [
        ("RabbitMQ/3.10.8", RABBITMQ),
        ("RabbitMQ/3.13.7+12.gabc", RABBITMQ),
        ("RabbitMQ/4.0.5", RABBITMQ),
        ("RabbitMQ/4.3.6", RABBITMQ_4_3),
        ("RabbitMQ/10.0.0", RABBITMQ_4_3),
        ("RabbitMQ", RABBITMQ),
        ("ActiveMQ/6.1.8", ACTIVEMQ),
        ("ActiveMQ", ACTIVEMQ),
        ("ActiveMQ-Artemis/2.44.0 ActiveMQ Artemis Messaging Engine", ARTEMIS),
        ("trio-stomp-testing/0.1", EMBEDDED),
        ("rabbitmq/3", GENERIC),
        ("RabbitMQX/1", GENERIC),
        ("", GENERIC),
        (None, GENERIC),
    ],
)
def test_profile_when_the_broker_names_itself_then_its_own(server: str | None, profile: Profile) -> None:
    assert profile_for(server) is profile


def test_profile_when_named_by_the_user_then_found_and_otherwise_listed() -> None:
    assert profile_named("artemis") is ARTEMIS
    with pytest.raises(LocalProtocolError, match="rabbitmq, activemq, artemis, spring, generic; got 'kafka'"):
        profile_named("kafka")
