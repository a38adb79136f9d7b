"""The real brokers, asked what the embedded one says of them: selectors and wildcards."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

import pytest
import trio

import trio_stomp
from tests.interop.broker_facts import Broker
from tests.testing.test_broker_delivery import ACTIVEMQ, ARTEMIS, RABBITMQ, WILDCARDS
from tests.testing.test_selector import ANSWERS, HEADERS

_SERVERS = {"rabbitmq": RABBITMQ, "activemq": ACTIVEMQ, "artemis": ARTEMIS}


async def which_match(
    broker: Broker,
    subscriptions: Sequence[tuple[str, Mapping[str, str]]],
    sends: Sequence[str],
    headers: Mapping[str, str],
) -> list[bool]:
    """Which of the subscriptions get the message that is sent to their destination."""
    got = [False] * len(subscriptions)

    async def listen(client: trio_stomp.Client, number: int, ready: trio.Event) -> None:
        destination, given = subscriptions[number]
        async with client.subscribe(destination, ack="auto", headers=given) as subscription:
            ready.set()
            async for _ in subscription:
                got[number] = True

    async with trio_stomp.connect(broker.url(), profile="generic") as client, trio.open_nursery() as nursery:
        for number in range(len(subscriptions)):
            ready = trio.Event()
            nursery.start_soon(listen, client, number, ready)
            await ready.wait()
        # A confirmed message to nowhere: all subscriptions stand behind it.
        await client.send(sends[0] + ".nowhere", b"", receipt=True)
        await trio.sleep(0.5)
        for destination in sends:
            await client.send(destination, b"x", headers=headers, receipt=True)
        await trio.sleep(1.5)
        nursery.cancel_scope.cancel()
    return got


async def test_selectors_when_a_broker_is_asked_then_answers_as_the_embedded_one_says(broker: Broker) -> None:
    if broker.name == "rabbitmq":
        pytest.skip("RabbitMQ ignores selectors")
    topic = f"/topic/alike{uuid.uuid4().hex[:12]}"
    asked = [(topic, {"selector": selector}) for selector, _, _ in ANSWERS]

    answers = await which_match(broker, asked, [topic], HEADERS)

    expected = [activemq if broker.name == "activemq" else artemis for _, activemq, artemis in ANSWERS]
    assert dict(zip((selector for selector, _, _ in ANSWERS), answers, strict=True)) == dict(
        zip((selector for selector, _, _ in ANSWERS), expected, strict=True)
    )


async def test_wildcards_when_a_broker_is_asked_then_answers_as_the_embedded_one_says(broker: Broker) -> None:
    unique = uuid.uuid4().hex[:12]
    # Each pattern has words of its own in front, so that one topic is no other's.
    cases = [(f"w{number}{unique}", *case) for number, case in enumerate(WILDCARDS) if not case[0].startswith("#")]
    asked = [(f"/topic/{front}.{pattern}", dict[str, str]()) for front, pattern, _, _ in cases]

    answers = await which_match(broker, asked, [f"/topic/{front}.{name}" for front, _, name, _ in cases], {})

    expected = [_SERVERS[broker.name] in matching for _, _, _, matching in cases]
    assert [(case[1], case[2], answer) for case, answer in zip(cases, answers, strict=True)] == [
        (case[1], case[2], answer) for case, answer in zip(cases, expected, strict=True)
    ]
