"""The headers of dead letters."""

import pytest
import trio

from trio_stomp import Client, Message
from trio_stomp.client.dead_letters import dead_letter_headers
from trio_stomp.protocol import Command, Version, encode_frame
from trio_stomp.testing import Broker


class Unlucky(Exception):
    """What a handler raises."""


async def a_message(client: Client, headers: dict[str, str]) -> Message:
    await client.send("/queue/orders", b"tea", headers=headers)
    async with client.subscribe("/queue/orders") as orders:
        return await anext(orders)


async def test_headers_when_a_message_fails_then_they_tell_the_cause(
    client: Client, broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    message = await a_message(
        client, {"shop": "7", "dedup-id": "d-1", "reply-to": "/queue/answers", "_AMQ_GROUP_ID": "g"}
    )
    headers = dict(dead_letter_headers(message, Unlucky("no\nluck"), 3, 1_700_000_000.123))
    assert headers == {
        "shop": "7",
        "persistent": "true",
        "x-original-destination": "/queue/orders",
        "x-original-message-id": "d-1",
        "x-original-reply-to": "/queue/answers",
        "x-error-type": "tests.client.test_dead_letters.Unlucky",
        "x-error-message": "no luck",
        "x-attempts": "3",
        "x-failed-at": "1700000000123",
    }


async def test_headers_when_a_dead_letter_fails_again_then_the_newest_cause_counts(
    client: Client, broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    message = await a_message(client, {"x-error-message": "the first", "x-attempts": "3"})
    headers = dead_letter_headers(message, Unlucky("the second"), 1, 0)
    assert [value for name, value in headers if name == "x-error-message"] == ["the second"]


@pytest.mark.parametrize("version", list(Version))
async def test_headers_when_the_error_says_what_no_header_can_then_every_version_carries_it(
    client: Client, broker: Broker, autojump_clock: trio.testing.MockClock, version: Version
) -> None:
    message = await a_message(client, {})
    headers = dead_letter_headers(message, Unlucky("a\0b\r\n: c \ud800" + "x" * 9999), 1, 0)
    (text,) = [value for name, value in headers if name == "x-error-message"]
    assert text.startswith("a b : c ?xxx")
    assert len(text) == 500
    assert encode_frame(Command.SEND, [("destination", "/queue/dead"), *headers], version=version)
