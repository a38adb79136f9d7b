"""Who sends when: places in line, room among the unconfirmed messages, and the window of a publisher."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import pytest
import trio
import trio.testing

import trio_stomp
from tests.client.clients import client_of_peer
from tests.kit.loops import on_loops
from tests.kit.peer import PeerOptions
from tests.kit.reconnecting import reconnecting
from trio_stomp import Client, OutgoingMessage, Publication, Publisher
from trio_stomp.testing import (
    Broker,
    DelayReceipts,
    DropLink,
    SwallowReceipts,
    open_broker,
)
from trio_stomp.types import Command

pytestmark = [pytest.mark.anyio, on_loops("trio")]

QUEUE = "/queue/a"


def arrived(broker: Broker) -> list[str]:
    """The bodies in the queue, in order."""
    return [message.body.decode() for message in broker.messages(QUEUE)]


async def start_in_order(nursery: trio.Nursery, calls: Sequence[Callable[[], Awaitable[object]]]) -> None:
    """Start tasks, each once the one before waits or is done."""
    for call in calls:
        nursery.start_soon(call)
        await trio.testing.wait_all_tasks_blocked()


# --- the book of unconfirmed messages ---------------------------------------------------------------------------------


async def test_book_when_full_then_what_needs_no_room_goes_on(broker: Broker) -> None:
    broker.faults.plan(SwallowReceipts(command=Command.SEND, count=None))
    async with trio_stomp.connect_stream(broker.connect_stream(), unconfirmed_messages=2) as client:
        async with trio.open_nursery() as nursery:
            send = partial(client.send, "/queue/full", b"", receipt=True)
            await start_in_order(nursery, [send] * 4)
            with trio.fail_after(1):
                await client.send(QUEUE, "plain")
                await client.send_many([OutgoingMessage(QUEUE, "many")])
                async with client.transaction() as transaction:
                    await transaction.send(QUEUE, "transaction")
                async with client.subscribe(QUEUE) as subscription:
                    messages = await subscription.receive_batch(3, linger=0.1)
                    await subscription.ack_up_to(messages[-1])
            assert [message.text for message in messages] == ["plain", "many", "transaction"]
            nursery.cancel_scope.cancel()
    assert broker.depth("/queue/full") == 2


@pytest.mark.parametrize("seed", range(12))
async def test_order_when_tasks_send_in_every_way_then_each_keeps_its_own_and_all_get_through(
    seed: int, broker: Broker
) -> None:
    chance = random.Random(seed)  # noqa: S311  # a test that can be repeated
    broker.faults.plan(DelayReceipts(command=Command.SEND, seconds=0.3, count=None))
    confirmed: list[str] = []

    async def confirm(client: Client, body: str) -> None:
        confirmed.append(body)
        await client.send(QUEUE, body, receipt=True)

    async def run(client: Client, publisher: Publisher, name: str, ways: Sequence[str]) -> None:
        for number, way in enumerate(ways):
            body = f"{name}:{number}"
            if way == "plain":
                began = trio.current_time()
                await client.send(QUEUE, body)
                # Room comes after 0.3 s at the earliest.
                assert trio.current_time() - began < 0.1
            elif way == "confirmed":
                await confirm(client, body)
            elif way == "published":
                await publisher.send(QUEUE, body)
            else:
                async with client.transaction() as transaction:
                    await transaction.send(QUEUE, body)

    plans = [chance.choices(["plain", "confirmed", "published", "transaction"], k=12) for _ in range(8)]
    with trio.fail_after(300):
        async with trio_stomp.connect_stream(
            broker.connect_stream(), unconfirmed_messages=chance.choice([1, 2, 5])
        ) as client:
            async with client.publisher(max_in_flight=chance.choice([1, 2, 100])) as publisher:
                async with trio.open_nursery() as nursery:
                    for task, ways in enumerate(plans):
                        nursery.start_soon(run, client, publisher, str(task), ways)
    got = arrived(broker)
    for task, ways in enumerate(plans):
        mine = [int(body.partition(":")[2]) for body in got if body.startswith(f"{task}:")]
        assert mine == list(range(len(ways)))
    assert [body for body in got if body in set(confirmed)] == confirmed


# --- the window of a publisher ----------------------------------------------------------------------------------------


class Watched:
    """What is sent through one publisher, and how much of it was on its way at most."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self._open: list[Publication] = []
        self.most = 0
        self.most_bytes = 0

    async def send(self, body: bytes | str) -> None:
        """Send one message."""
        self.sent([await self._publisher.send(QUEUE, body)])

    async def send_many(self, bodies: Sequence[bytes]) -> None:
        """Send several; each look at the next one is a look at what is on its way."""

        def messages(body: bytes) -> OutgoingMessage:
            self.most = max(self.most, self._publisher.in_flight)
            return OutgoingMessage(QUEUE, body)

        self.sent(await self._publisher.send_many(messages(body) for body in bodies))

    def sent(self, publications: Sequence[Publication]) -> None:
        """Count what is on its way now."""
        self._open = [each for each in (*self._open, *publications) if not each.is_settled]
        self.most = max(self.most, len(self._open), self._publisher.in_flight)
        self.most_bytes = max(self.most_bytes, sum(each.body_bytes for each in self._open))


@pytest.mark.parametrize("seed", range(12))
async def test_window_when_many_tasks_send_then_it_is_never_exceeded(seed: int, broker: Broker) -> None:
    chance = random.Random(seed)  # noqa: S311  # a test that can be repeated
    broker.faults.plan(DelayReceipts(command=Command.SEND, seconds=0.05, count=None), connections=9)
    if seed % 2:
        broker.faults.plan(DropLink(after_received_bytes=6000), connections=5)

    async def run(watched: Watched, lengths: Sequence[int]) -> None:
        for length in lengths:
            with trio.move_on_after(chance.choice([0.01, 0.3, 9, 9, 9])):
                if length % 3:
                    await watched.send(b"x" * length)
                else:
                    await watched.send_many([b"x" * length] * 3)

    messages, body_bytes = chance.choice([(4, 200), (8, 300), (8, 100_000), (1, 100)])
    with trio.fail_after(300):
        async with reconnecting(broker, unconfirmed_messages=chance.choice([2, 1000, 1000])) as client:
            async with client.publisher(max_in_flight=messages, max_in_flight_bytes=body_bytes) as publisher:
                watched = Watched(publisher)
                async with trio.open_nursery() as nursery:
                    for _ in range(100):
                        nursery.start_soon(run, watched, chance.choices(range(100), k=5))
    assert 1 <= watched.most <= messages
    assert 50 <= watched.most_bytes <= body_bytes


async def test_window_when_full_then_senders_go_in_the_order_of_their_calls(client: Client, broker: Broker) -> None:
    broker.faults.now(DelayReceipts(command=Command.SEND, seconds=1, count=None))
    async with client.publisher(max_in_flight=3) as publisher, trio.open_nursery() as nursery:
        await start_in_order(nursery, [partial(publisher.send, QUEUE, str(number)) for number in range(20)])
    assert arrived(broker) == [str(number) for number in range(20)]


@pytest.mark.parametrize("verb", ["send", "send_many"])
async def test_window_when_a_large_message_waits_for_room_then_a_small_one_does_not_overtake_it(
    verb: str, client: Client, broker: Broker
) -> None:
    broker.faults.now(DelayReceipts(command=Command.SEND, seconds=1, count=None))
    async with client.publisher(max_in_flight_bytes=10) as publisher, trio.open_nursery() as nursery:
        small = partial(publisher.send, QUEUE, "small")
        at_once = partial(publisher.send_many, [OutgoingMessage(QUEUE, "small")])
        large = partial(publisher.send, QUEUE, "large" * 2)
        await start_in_order(nursery, [small, large, small if verb == "send" else at_once])
    assert arrived(broker) == ["small", "large" * 2, "small"]


@pytest.mark.parametrize(
    ("window", "answered", "in_flight"),
    [
        pytest.param(4, [3], 2, id="several at once"),
        pytest.param(4, [1], 4, id="a quarter"),
        pytest.param(40, [1] * 15, 31, id="one by one"),
        pytest.param(40, [1], 40, id="no more come"),
    ],
)
async def test_window_when_receipts_come_then_the_sender_sleeps_until_a_quarter_is_free_or_a_moment_has_passed(
    window: int, answered: list[int], in_flight: int
) -> None:
    found: list[int] = []
    options = PeerOptions(silent=frozenset({Command.SEND}))
    async with client_of_peer(options) as (client, peer), client.publisher(window) as publisher:
        for _ in range(window):
            await publisher.send(QUEUE, b"")

        async def send() -> None:
            await publisher.send(QUEUE, b"")
            found.append(publisher.in_flight)

        began = trio.current_time()
        async with trio.open_nursery() as sender:
            sender.start_soon(send)
            for count in answered:
                await trio.testing.wait_all_tasks_blocked()
                for _ in range(count):
                    peer.answer(peer.kept_back.pop(0))
        assert trio.current_time() - began < 0.01
        await trio.testing.wait_all_tasks_blocked()
        peer.answer_kept_back()
    assert found == [in_flight]


# --- the writer -------------------------------------------------------------------------------------------------------


@on_loops("trio-real")
async def test_writer_when_a_frame_waits_for_it_then_the_next_one_does_not_overtake_that() -> None:
    async with open_broker() as broker, trio_stomp.connect(broker.url, heart_beat=(0, 0)) as client:
        for number in range(0, 20, 2):
            # Now the writer sleeps, and a frame that is to be confirmed would be written without it.
            await trio.testing.wait_all_tasks_blocked()
            await client.send(QUEUE, str(number))
            await client.send(QUEUE, str(number + 1), receipt=True)
        assert arrived(broker) == [str(number) for number in range(20)]
