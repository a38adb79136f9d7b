"""What a hostile server can make the client hold: measured, for each profile and for each shape of flood.

The server ignores the prefetch and sends without end. The client must stop reading or, while it has to read on, fail
the subscription; either way its memory stays within `Limits`. The floods are made as they are read, so that all memory
that is measured is the client's.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import tracemalloc
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Self

import pytest
import trio
import trio.testing

from tests.kit.costs import expect_below, measures_memory
from tests.kit.loops import on_loops
from tests.kit.streams import KitStream
from trio_stomp import (
    Client,
    LimitExceeded,
    Limits,
    StompError,
    Subscription,
    SubscriptionOverflow,
    connect_stream,
)

pytestmark = [pytest.mark.anyio, on_loops("trio")]

KIB = 1024
LIMITS = Limits(header_line_bytes=8 * KIB, header_count=64, body_bytes=64 * KIB, undelivered_bytes=256 * KIB)
# On top of what waits: a frame in the making, a chunk with what it decodes to, and for each message that comes after
# its subscription has failed the number by which it is refused.
SLACK = 384 * KIB
CHUNK = 16 * KIB
# Were it kept, it would take many times the limit; and so would as many messages, however small.
FLOOD = 1536 * KIB
MESSAGES = 2000
# The same of what is not to be kept at all: twenty bytes of each would be too much.
FRAMES = 20_000

# What they say they are, and the names of their profiles.
SERVERS = {
    "rabbitmq": ("RabbitMQ/3.13.0", "RabbitMQ"),
    "activemq": ("ActiveMQ/6.1.0", "ActiveMQ Classic"),
    "artemis": ("ActiveMQ-Artemis/2.40.0 ActiveMQ Artemis Messaging Engine", "ActiveMQ Artemis"),
    "embedded": ("trio-stomp-testing/1", "trio_stomp.testing"),
    "unknown": ("no-such-broker/1.0", "unknown broker"),
}

# The client of a broker with numbered deliveries has most to remember, so the default run has that one.
EACH_SERVER = pytest.mark.parametrize(
    "server", [pytest.param(name, marks=() if name == "rabbitmq" else pytest.mark.slow) for name in SERVERS]
)


def message(number: int, headers: bytes = b"", body: bytes = b"", *, to: bytes = b"s-1") -> bytes:
    id_ = b"T_%b@@session-x@@%d" % (to, number)
    return b"MESSAGE\nsubscription:%b\nmessage-id:%b\nack:%b\ndestination:/queue/a\n%bcontent-length:%d\n\n%b\0" % (
        to,
        id_,
        id_,
        headers,
        len(body),
        body,
    )


Shape = Callable[[int], bytes]

# What fills the buffer of a subscription.
FILLING: dict[str, Shape] = {
    "tiny messages without a body": message,
    "big bodies": lambda number: message(number, body=b"x" * 50 * KIB),
    "big headers": lambda number: message(number, b"h:%b\n" % (b"v" * 8000)),
    "big headers that widen in memory": lambda number: message(number, b"h:%b\xf0\x9f\x98\x80\n" % (b"v" * 8000)),
    "many tiny headers": lambda number: message(number, b"".join(b"%d:\n" % (number + each) for each in range(50))),
    "the same header again and again": lambda number: message(number, b"a:b\n" * 50),
}
# What concerns no open subscription, and is not to be kept at all.
PASSING: dict[str, Shape] = {
    "messages for unknown subscriptions": lambda number: message(number, to=b"s-7", body=b"x" * 100),
    "messages late after UNSUBSCRIBE": lambda number: message(number, to=b"left"),
    "receipts that nobody awaits": lambda number: b"RECEIPT\nreceipt-id:q-%d\n\n\0" % number,
    "heart-beats": lambda number: b"\n" * 50 + message(number, to=b"s-7", body=b"x" * 1000),
}
# What ends the connection by a limit.
ENDLESS: dict[str, bytes] = {
    "command": b"",
    "header line": b"MESSAGE\nname:",
    "head": b"MESSAGE\n",
    "body": b"MESSAGE\nsubscription:s-1\nmessage-id:1\nack:1\ndestination:/queue/a\n\n",
    "ERROR": b"ERROR\nmessage:\n\n",
}


class Flood(KitStream):
    """The client's end of a link to a server that floods it once it is told to, and keeps nothing itself.

    Attributes:
        answers_receipts: Whether it answers them.
        reads: Whether it reads what the client writes.
        sent_bytes: How much of the flood the client has read.
    """

    def __init__(self, server: str) -> None:
        self._answers = b"CONNECTED\nversion:1.2\nserver:%b\nsession:session-x\nheart-beat:0,0\n\n\0" % server.encode()
        self._flood: Iterator[bytes] = iter(())
        self._is_over = False
        self._changed = trio.lowlevel.ParkingLot()
        self.answers_receipts = True
        self.reads = True
        self.sent_bytes = 0

    def start(self, flood: Iterator[bytes]) -> None:
        self._flood, self._is_over = flood, False
        self._changed.unpark_all()

    def is_over(self) -> bool:
        """Whether the client has read all of the flood."""
        return self._is_over

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        while True:
            await trio.lowlevel.checkpoint()
            data, self._answers = self._answers or self._chunk(), b""
            if data:
                return data
            await self._changed.park()

    def _chunk(self) -> bytes:
        data = bytearray()
        while len(data) < CHUNK:
            piece = next(self._flood, b"") if self.sent_bytes < FLOOD else b""
            if not piece:
                self._is_over = not data
                break
            data += piece
            self.sent_bytes += len(piece)
        return bytes(data)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await trio.lowlevel.checkpoint()
        if not self.reads:
            await trio.sleep_forever()
        if self.answers_receipts:
            for part in bytes(data).split(b"\nreceipt:")[1:]:
                self._answers += b"RECEIPT\nreceipt-id:%b\n\n\0" % part.split(b"\n")[0]
            self._changed.unpark_all()

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


class Measured:
    """How much memory is taken at most, from when it is entered until now or until it was left."""

    _peak: int | None = None

    def __enter__(self) -> Self:
        # When garbage is next collected must not depend on the tests before. They are not given back to the collector,
        # as it would take a second each time.
        gc.collect()
        gc.freeze()
        tracemalloc.start()
        self._before, _ = tracemalloc.get_traced_memory()
        return self

    @property
    def peak_bytes(self) -> int:
        if self._peak is not None:
            return self._peak
        _, peak = tracemalloc.get_traced_memory()
        return peak - self._before

    def __exit__(self, *_: object) -> None:
        self._peak = self.peak_bytes
        tracemalloc.stop()


@asynccontextmanager
async def subscribed(server: str) -> AsyncGenerator[tuple[Flood, Client, Subscription]]:
    """A client of a server that will flood it, and a subscription of prefetch 100; one that was left as well."""
    says, profile = SERVERS[server]
    flood = Flood(says)
    # The tests look themselves at how it ends.
    with contextlib.suppress(StompError):
        async with connect_stream(
            flood, limits=LIMITS, heart_beat=(0, 0), disconnect_timeout=1, outbox_bytes=64 * KIB
        ) as client:
            assert client.profile.name == profile
            async with client.subscribe("/queue/a", id="left"):
                pass
            async with client.subscribe("/queue/a", id="s-1") as subscription:
                yield flood, client, subscription


def endless(shape: Shape) -> Iterator[bytes]:
    return map(shape, itertools.count(1))


async def confirmed(client: Client) -> None:
    with contextlib.suppress(StompError):
        await client.send("/queue/b", b"", receipt=True)


@pytest.mark.parametrize("shape", FILLING)
@EACH_SERVER
@measures_memory
async def test_memory_when_the_prefetch_is_ignored_then_the_reader_is_held_or_the_subscription_fails(
    server: str, shape: str
) -> None:
    async with subscribed(server) as (flood, client, subscription), trio.open_nursery() as nursery:
        with Measured() as memory:
            flood.start(itertools.islice(endless(FILLING[shape]), MESSAGES))
            await trio.testing.wait_all_tasks_blocked()
            # Nothing is awaited, so the reader waits for the consumer.
            assert not flood.is_over()
            assert client.statistics().reads_paused == 1
            held_bytes = memory.peak_bytes
            # Now it has to go on, for a RECEIPT that does not come.
            flood.answers_receipts = False
            nursery.start_soon(confirmed, client)
            await trio.testing.wait_all_tasks_blocked()
            assert flood.is_over()
        with pytest.raises(SubscriptionOverflow, match="undelivered_bytes is 262144"):
            await anext(subscription)
        nursery.cancel_scope.cancel()
    expect_below(held_bytes, LIMITS.undelivered_bytes / 4 + SLACK)
    expect_below(memory.peak_bytes, LIMITS.undelivered_bytes + SLACK)


@pytest.mark.parametrize("shape", PASSING)
@EACH_SERVER
@measures_memory
async def test_memory_when_no_task_waits_for_frames_then_they_are_read_and_forgotten(server: str, shape: str) -> None:
    async with subscribed(server) as (flood, client, _):
        with Measured() as memory:
            flood.start(itertools.islice(endless(PASSING[shape]), FRAMES))
            await trio.testing.wait_all_tasks_blocked()
        assert flood.is_over()
        assert client.state.healthy
    expect_below(memory.peak_bytes, SLACK)


@pytest.mark.parametrize("start", ENDLESS)
@EACH_SERVER
@measures_memory
async def test_memory_when_a_frame_never_ends_then_a_limit_ends_the_connection(server: str, start: str) -> None:
    line = b"n:%b\n" % (b"v" * 100) if start == "head" else b"v" * 1000
    async with subscribed(server) as (flood, client, _):
        with Measured() as memory:
            flood.start(itertools.chain([ENDLESS[start]] if ENDLESS[start] else [], itertools.repeat(line)))
            with pytest.raises(LimitExceeded):
                await client.wait_closed()
    expect_below(memory.peak_bytes, SLACK)


@EACH_SERVER
@measures_memory
async def test_memory_when_a_body_comes_octet_by_octet_and_stops_then_no_more_than_the_body_is_held(
    server: str,
) -> None:
    head = ENDLESS["body"].replace(b"\n\n", b"\ncontent-length:65536\n\n")
    async with subscribed(server) as (flood, client, _):
        flood.start(iter([head]))
        await trio.testing.wait_all_tasks_blocked()
        with Measured() as memory:
            for _ in range(2000):
                flood.start(iter([b"x" * 30]))
                await trio.testing.wait_all_tasks_blocked()
        assert client.state.healthy
    expect_below(memory.peak_bytes, 4 * 60_000)


LATE: dict[str, Shape] = {
    "messages": PASSING["messages late after UNSUBSCRIBE"],
    "errors": lambda _number: (
        b"ERROR\nmessage:Subscription not found\n\nThere is no current subscription with tag 'T_left'.\0"
    ),
}


@pytest.mark.parametrize("kind", LATE)
async def test_memory_when_a_rabbitmq_sends_late_deliveries_and_does_not_read_then_refusals_wait_for_room(
    kind: str,
) -> None:
    async with subscribed("rabbitmq") as (flood, client, _):
        flood.reads = False
        flood.start(endless(LATE[kind]))
        await trio.testing.wait_all_tasks_blocked()
        assert flood.is_over()
        assert client.statistics().messages_unroutable > 5000
        assert 64 * KIB <= client.statistics().outbox_bytes < 65 * KIB


async def test_overflow_when_one_subscription_holds_most_bytes_and_another_most_messages_then_the_first_one_fails() -> (
    None
):
    """What was read and taken counts for nothing; nor does it matter who is over its prefetch."""
    async with subscribed("unknown") as (flood, client, _), trio.open_nursery() as nursery:
        async with (
            client.subscribe("/queue/a", ack="auto", prefetch=5, id="small") as small,
            client.subscribe("/queue/a", ack="auto", id="fast") as fast,
        ):
            flood.answers_receipts = False
            nursery.start_soon(confirmed, client)
            # 10 messages for one that holds 5; then three times the limit for another one, which takes it as it comes.
            flood.start(iter([message(number, to=b"small") for number in range(10)]))
            await trio.testing.wait_all_tasks_blocked()
            for number in range(15):
                flood.start(iter([message(number, body=b"z" * 50 * KIB, to=b"fast")]))
                with trio.fail_after(60):
                    assert len((await anext(fast)).body) == 50 * KIB
            assert small.statistics().buffered == 10
            # Then it stops taking them.
            with pytest.raises(SubscriptionOverflow, match="'fast'"):
                for number in range(10):
                    flood.start(iter([message(number, body=b"z" * 50 * KIB, to=b"fast")]))
                    await trio.testing.wait_all_tasks_blocked()
                with trio.fail_after(60):
                    await anext(fast)
            assert len((await anext(small)).body) == 0
            assert small.statistics().buffered == 9
        nursery.cancel_scope.cancel()
