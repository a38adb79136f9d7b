"""Spring's simple broker, by what it sends."""

from __future__ import annotations

import pytest

from trio_stomp.brokers import ARTEMIS, GENERIC, RABBITMQ, SPRING, profile_of
from trio_stomp.types import Headers, Profile


@pytest.mark.parametrize(
    ("connected", "over_websocket", "profile"),
    [
        # As seen with Spring Framework 6.1, without and with a user.
        ({"version": "1.2", "heart-beat": "0,0"}, True, SPRING),
        ({"version": "1.2", "heart-beat": "0,0", "user-name": "ann"}, True, SPRING),
        # It cannot be reached in any other way.
        ({"version": "1.2", "heart-beat": "0,0"}, False, GENERIC),
        # stomp-broker-js, and Artemis in 1.0.
        ({"version": "1.1", "session": "id8", "server": "STOMP-JS/1.3.0", "heart-beat": "0,0"}, True, GENERIC),
        ({"session": "1"}, True, GENERIC),
        # What a Spring application that relays to a real broker passes on.
        ({"version": "1.2", "server": "RabbitMQ/3.10.8"}, True, RABBITMQ),
        ({"version": "1.2", "server": "ActiveMQ-Artemis/2.44.0 x", "session": "1"}, False, ARTEMIS),
    ],
)
def test_profile_when_found_by_connected_then_that_of_the_broker_that_sent_it(
    connected: dict[str, str], over_websocket: bool, profile: Profile
) -> None:
    assert profile_of(Headers(connected), over_websocket=over_websocket) is profile


@pytest.mark.parametrize(
    ("destination", "address", "headers"),
    [
        ("/topic/a.b", "a.b", [("subscription-type", "MULTICAST")]),
        ("/queue/a/b", "a/b", [("subscription-type", "ANYCAST")]),
        ("a", "a", []),
    ],
)
def test_artemis_when_replies_go_somewhere_then_to_the_bare_address(
    destination: str, address: str, headers: list[tuple[str, str]]
) -> None:
    assert ARTEMIS.reply_address(destination) == (address, headers)


def test_rabbitmq_when_replies_go_to_a_temporary_queue_then_nobody_subscribes() -> None:
    assert not RABBITMQ.replies_need_subscribe("/temp-queue/a")
    assert RABBITMQ.replies_need_subscribe("/queue/a")
    assert GENERIC.replies_need_subscribe("/temp-queue/a")
