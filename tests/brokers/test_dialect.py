"""In which headers brokers are asked for what they add, and what is refused before it is asked."""

from __future__ import annotations

import pytest

from trio_stomp import QueueArguments
from trio_stomp.brokers import (
    ACTIVEMQ,
    ARTEMIS,
    EMBEDDED,
    GENERIC,
    RABBITMQ,
    Dialect,
    Pairs,
    ends_browsing,
)
from trio_stomp.errors import LocalProtocolError, NotSupportedError
from trio_stomp.types import Headers, Profile, SendOptions, SubscribeOptions

NOW = 1_700_000_000.5


def each(names: tuple[str, ...], pairs: Pairs) -> dict[str, Pairs]:
    return {name: [*pairs] for name in names}


ARGUMENTS = QueueArguments(
    type="quorum",
    message_ttl=1.5,
    expires=60,
    max_length=5,
    max_length_bytes=1000,
    max_priority=9,
    dead_letter_exchange="dlx",
    dead_letter_routing_key="dead",
)
SPELLED = [
    ("x-queue-type", "quorum"),
    ("x-message-ttl", "1500"),
    ("x-expires", "60000"),
    ("x-max-length", "5"),
    ("x-max-length-bytes", "1000"),
    ("x-max-priority", "9"),
    ("x-dead-letter-exchange", "dlx"),
    ("x-dead-letter-routing-key", "dead"),
]
SENT: list[tuple[SendOptions, dict[str, Pairs]]] = [
    ({"persistent": True}, each(("rabbitmq", "activemq", "artemis", "embedded"), [("persistent", "true")])),
    (
        {"ttl": 2.5},
        {
            "rabbitmq": [("expiration", "2500")],
            "embedded": [("expiration", "2500")],
            "activemq": [("expires", "1700000003000")],
            "artemis": [("expires", "1700000003000")],
        },
    ),
    ({"priority": 7}, each(("rabbitmq", "activemq", "artemis", "embedded"), [("priority", "7")])),
    ({"delay": 1.5}, each(("activemq", "artemis", "embedded"), [("AMQ_SCHEDULED_DELAY", "1500")])),
    ({"group": "g"}, each(("activemq", "artemis", "embedded"), [("JMSXGroupID", "g")])),
    ({"dedup_id": "d"}, {"artemis": [("_AMQ_DUPL_ID", "d")]}),
    ({"queue_arguments": ARGUMENTS}, {"rabbitmq": SPELLED}),
]
SUBSCRIBED: list[tuple[SubscribeOptions, dict[str, Pairs]]] = [
    ({"selector": "a = 1"}, each(("activemq", "artemis", "embedded"), [("selector", "a = 1")])),
    ({"browse": True}, each(("activemq", "embedded"), [("browser", "true")])),
    ({"no_local": True}, {"activemq": [("activemq.noLocal", "true")], "artemis": [("no-local", "true")]}),
    ({"queue_arguments": ARGUMENTS}, {"rabbitmq": SPELLED}),
    ({"stream_offset": "first"}, {"rabbitmq": [("x-stream-offset", "first")]}),
]
PROFILES = {"rabbitmq": RABBITMQ, "activemq": ACTIVEMQ, "artemis": ARTEMIS, "embedded": EMBEDDED, "unknown": GENERIC}
EACH_PROFILE = pytest.mark.parametrize("profile", PROFILES)


def name_of(options: SendOptions | SubscribeOptions) -> str:
    return next(iter(options))


@EACH_PROFILE
@pytest.mark.parametrize(("options", "spelled"), SENT, ids=[name_of(options) for options, _ in SENT])
def test_send_option_when_asked_for_then_in_the_header_of_the_broker_or_refused(
    profile: str, options: SendOptions, spelled: dict[str, Pairs]
) -> None:
    dialect = PROFILES[profile].dialect
    if profile in spelled:
        assert dialect.send_headers(options, NOW) == spelled[profile]
    else:
        with pytest.raises(NotSupportedError):
            dialect.send_headers(options, NOW)


@EACH_PROFILE
@pytest.mark.parametrize(("options", "spelled"), SUBSCRIBED, ids=[name_of(options) for options, _ in SUBSCRIBED])
def test_subscribe_option_when_asked_for_then_in_the_header_of_the_broker_or_refused(
    profile: str, options: SubscribeOptions, spelled: dict[str, Pairs]
) -> None:
    dialect = PROFILES[profile].dialect
    if profile in spelled:
        assert dialect.subscribe_headers(options) == spelled[profile]
    else:
        with pytest.raises(NotSupportedError):
            dialect.subscribe_headers(options)


@EACH_PROFILE
def test_options_when_none_or_false_then_nothing_is_asked_of_any_broker(profile: str) -> None:
    dialect = PROFILES[profile].dialect
    nothing: SendOptions = {"persistent": False, "ttl": None, "priority": None, "delay": None, "group": None}
    assert dialect.send_headers(nothing, NOW) == []
    assert dialect.subscribe_headers({"selector": None, "durable": None, "browse": False, "stream_offset": None}) == []


def test_refusal_when_it_is_read_then_it_names_the_broker_and_the_feature() -> None:
    with pytest.raises(NotSupportedError, match=r"^RabbitMQ does not support delayed delivery \(delay\)$"):
        RABBITMQ.dialect.send_headers({"delay": 1}, NOW)
    with pytest.raises(NotSupportedError, match=r"how the unknown broker supports selectors: .*profile="):
        GENERIC.dialect.subscribe_headers({"selector": "a = 1"})


@pytest.mark.parametrize(
    ("profile", "priority", "said"),
    [(ACTIVEMQ, 10, "0 to 9 at ActiveMQ Classic, got 10"), (ARTEMIS, -1, "0 to 9"), (RABBITMQ, 256, "0 to 255")],
)
def test_priority_when_the_broker_does_not_go_so_far_then_error(profile: Profile, priority: int, said: str) -> None:
    with pytest.raises(LocalProtocolError, match=said):
        profile.dialect.send_headers({"priority": priority}, NOW)


@pytest.mark.parametrize("options", [{"group": ""}, {"dedup_id": ""}, {"ttl": 0}, {"delay": -1}])
def test_send_option_when_it_cannot_be_meant_then_error(options: SendOptions) -> None:
    with pytest.raises(LocalProtocolError, match="must"):
        ARTEMIS.dialect.send_headers(options, NOW)


@pytest.mark.parametrize("options", [{"selector": ""}, {"durable": ""}])
def test_subscribe_option_when_it_is_empty_then_error(options: SubscribeOptions) -> None:
    with pytest.raises(LocalProtocolError, match="must not be empty"):
        ARTEMIS.dialect.subscribe_headers(options)


def test_queue_arguments_when_few_are_given_then_only_those_are_sent() -> None:
    assert RABBITMQ.dialect.send_headers({"queue_arguments": QueueArguments(max_length=1)}, NOW) == [
        ("x-max-length", "1")
    ]


def test_dialect_when_nothing_is_said_then_the_broker_adds_nothing() -> None:
    with pytest.raises(NotSupportedError, match=r"^x does not support persistent messages$"):
        Dialect(broker="x").send_headers({"persistent": True}, NOW)


def test_end_of_browsing_when_it_comes_then_told_from_messages() -> None:
    assert ends_browsing(Headers({"browser": "end", "message-id": "0"}))
    assert not ends_browsing(Headers({"message-id": "1"}))
