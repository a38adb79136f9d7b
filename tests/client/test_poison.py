"""A message at which the broker closes the connection without an ERROR, and links on which it only looks like that."""

from __future__ import annotations

import math
import random
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing

from tests.client.clients import pieces_of
from tests.kit.loops import on_loops
from tests.kit.reconnecting import Host, RawHost, reconnecting
from tests.kit.tapped_stream import TappedStream
from trio_stomp import (
    BrokerError,
    Client,
    ConnectionLost,
    DeliveryStatus,
    PoisonMessage,
    Publication,
    Reconnect,
    Transaction,
    TransactionLost,
    UnconfirmedError,
)

pytestmark = [pytest.mark.anyio, on_loops("trio")]

POISON = b"POISON"
QUICK = Reconnect(first_delay=0.01, max_delay=0.01)


class Sudden:
    """A broker that closes the connection, without a word, when it reads a certain message.

    Args:
        loses_receipts: Whether RECEIPTs for the frames that came just before are lost with the connection.

    Attributes:
        arrived: The bodies that came, each time that they did.
        says: What it sends before it closes a connection.
        closes: Whether it closes a connection at this frame, on the connection with this number.
        answers: Whether it confirms this frame, on the connection with this number.
        closes_at_once: Whether it closes the connection with this number before it has read anything but CONNECT.
        lasts: How many seconds the connection with this number lasts.
    """

    def __init__(self, *, loses_receipts: bool = False) -> None:
        self._loses_receipts = loses_receipts
        self.arrived: list[bytes] = []
        self.says = b""
        self.closes: Callable[[bytes, int], bool] = lambda frame, _number: POISON in frame
        self.answers: Callable[[bytes, int], bool] = lambda _frame, _number: True
        self.closes_at_once: Callable[[int], bool] = lambda _number: False
        self.lasts: Callable[[int], float] = lambda _number: math.inf

    async def serve(self, stream: trio.abc.Stream, number: int) -> None:
        with trio.move_on_after(self.lasts(number)):
            await self._serve(stream, number)

    async def _serve(self, stream: trio.abc.Stream, number: int) -> None:
        data = b""
        async for chunk in stream:
            data += chunk
            *frames, data = data.split(b"\0")
            receipts: list[bytes] = []
            for frame in [*frames, data]:
                # Also at the beginning of a frame, as a broker whose limit is exceeded.
                if self.closes(frame, number):
                    if not self._loses_receipts:
                        await self._confirm(stream, receipts)
                    if self.says:
                        await stream.send_all(self.says)
                    return
                if frame is not data:
                    receipts += self._take(frame.lstrip(), number)
            await self._confirm(stream, receipts)
            if any(b"CONNECT" in frame for frame in frames):
                await stream.send_all(b"CONNECTED\nversion:1.2\nheart-beat:0,0\nserver:RabbitMQ/4.3.6\n\n\0")
                if self.closes_at_once(number):
                    return

    def _take(self, frame: bytes, number: int) -> list[bytes]:
        if frame.startswith(b"SEND"):
            self.arrived.append(frame.partition(b"\n\n")[2])
        return re.findall(rb"\nreceipt:(\S+)", frame) if self.answers(frame, number) else []

    async def _confirm(self, stream: trio.abc.Stream, receipts: list[bytes]) -> None:
        for receipt in receipts:
            await stream.send_all(b"RECEIPT\nreceipt-id:%s\n\n\0" % receipt)


@asynccontextmanager
async def client_of(
    broker: Sudden | Callable[[trio.abc.Stream, int], Awaitable[None]], kind: type[RawHost] = RawHost
) -> AsyncGenerator[tuple[Client, Host]]:
    async with trio.open_nursery() as nursery:
        host = kind(broker.serve if isinstance(broker, Sudden) else broker, nursery)
        async with reconnecting(host, reconnect=QUICK, disconnect_timeout=5) as client:
            yield client, host
        nursery.cancel_scope.cancel()


async def test_confirmed_send_when_the_broker_closes_at_it_three_times_then_it_fails_and_the_error_names_it() -> None:
    broker = Sudden()
    async with client_of(broker) as (client, host):
        with pytest.raises(PoisonMessage) as caught:
            await client.send("/queue/a", POISON, headers={"a": "1", "b": "2"}, receipt=True)
        await client.send("/queue/b", b"later", receipt=True)
        assert len(host.dialed) == 4
    assert isinstance(caught.value, ConnectionLost)
    for named in ("3 times in a row", "'/queue/a'", "receipt r-", "6 bytes", "6 headers", "4 MiB", "100 headers"):
        assert named in str(caught.value)
    assert broker.arrived == [b"later"]


async def test_confirmed_send_when_others_are_in_flight_then_they_are_confirmed_and_the_closes_counted() -> None:
    broker = Sudden()
    async with client_of(broker) as (client, host), trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(partial(client.send, "/queue/b", b"%d" % number, receipt=True))
        with pytest.raises(PoisonMessage):
            await client.send("/queue/a", POISON, receipt=True)
        assert len(host.dialed) <= 5
    assert len(set(broker.arrived)) == 20


@pytest.mark.parametrize("loses_receipts", [False, True])
@pytest.mark.parametrize("place", [0, 1, 2, 37, 99])
async def test_publisher_when_the_broker_closes_at_one_of_many_then_only_that_fails_and_order_is_kept(
    place: int, loses_receipts: bool
) -> None:
    bodies = [b"%d" % number for number in range(100)]
    bodies[place] = POISON
    broker = Sudden(loses_receipts=loses_receipts)
    async with client_of(broker) as (client, host):
        publications: list[Publication] = []
        with pytest.raises(UnconfirmedError) as caught:
            async with client.publisher() as publisher:
                publications += [await publisher.send(f"/queue/{body.decode()}", body) for body in bodies]
        assert len(host.dialed) < 15
    (failed,) = caught.value.messages
    assert (failed.destination, failed.delivery) == ("/queue/POISON", DeliveryStatus.UNKNOWN)
    assert "without an ERROR 3 times" in failed.reason
    assert isinstance(publications[place].error, PoisonMessage)
    del bodies[place]
    assert list(dict.fromkeys(broker.arrived)) == bodies


@pytest.mark.parametrize("says", [b"", b"ERROR\nmessage:too large\n\n\0"])
@on_loops("trio-real")
async def test_confirmed_send_when_the_broker_closes_in_a_file_then_it_fails_alone(tmp_path: Path, says: bytes) -> None:
    path = tmp_path / "film"
    path.write_bytes(POISON + b"x" * 1_000_000)
    broker = Sudden()
    broker.says = says
    async with client_of(broker) as (client, host):
        with pytest.raises(BrokerError if says else PoisonMessage, match="too large" if says else "1,000,006 bytes"):
            await client.send("/queue/a", path, receipt=True)
        await client.send("/queue/b", b"behind", receipt=True)
        assert len(host.dialed) == (3 if says else 4)
    assert broker.arrived == [b"behind"]


async def test_confirmed_send_when_the_broker_refuses_an_iterable_then_it_fails_with_the_words_of_the_broker() -> None:
    broker = Sudden()
    broker.says = b"ERROR\nmessage:too large\n\n\0"
    async with client_of(broker) as (client, _):
        with pytest.raises(ConnectionLost, match="too large") as caught:
            await client.send("/queue/a", pieces_of(POISON), content_length=len(POISON), receipt=True)
        assert isinstance(caught.value.__cause__, BrokerError)
        await client.send("/queue/b", b"behind", receipt=True)


async def test_leaving_when_a_message_closes_each_connection_then_the_others_are_confirmed_first() -> None:
    broker = Sudden(loses_receipts=True)
    async with trio.open_nursery() as nursery, client_of(broker) as (client, _):
        failures: list[Exception] = []

        async def send(body: bytes) -> None:
            try:
                await client.send("/queue/a", body, receipt=True)
            except ConnectionLost as error:
                failures.append(error)

        for body in (b"a", POISON, b"b"):
            nursery.start_soon(send, body)
        await trio.testing.wait_all_tasks_blocked()
    assert [type(error) for error in failures] == [PoisonMessage]
    assert sorted(set(broker.arrived)) == [b"a", b"b"]


async def test_unconfirmed_send_when_the_broker_closes_at_it_each_time_then_no_confirmed_message_is_blamed() -> None:
    """It is not sent again by the client, but the program sends another one on each connection."""
    broker = Sudden(loses_receipts=True)
    async with client_of(broker) as (client, host), trio.open_nursery() as nursery:
        for number in range(6):
            nursery.start_soon(partial(client.send, "/queue/a", b"%d" % number, receipt=True))
            await trio.testing.wait_all_tasks_blocked()
            await client.send("/queue/a", POISON)
            await trio.sleep(0.5)
        assert len(host.dialed) >= 6
    assert set(broker.arrived) == {b"%d" % number for number in range(6)}


async def test_transaction_when_the_broker_closes_at_a_message_of_it_then_lost_and_not_repeated_for_ever() -> None:
    broker = Sudden()
    async with client_of(broker) as (client, host):

        async def work(transaction: Transaction) -> None:
            await transaction.send("/queue/a", POISON)
            await trio.sleep(1)

        with pytest.raises(TransactionLost):
            await client.run_transaction(work, attempts=3)
        await client.send("/queue/a", b"behind", receipt=True)
        assert len(host.dialed) == 4


# --- what is no poison ------------------------------------------------------------------------------------------------


async def test_message_when_the_broker_takes_it_at_the_third_time_then_it_is_confirmed() -> None:
    broker = Sudden()
    broker.closes = lambda frame, number: POISON in frame and number < 3
    async with client_of(broker) as (client, _):
        await client.send("/queue/a", POISON, receipt=True)
        # A new row begins.
        broker.closes = lambda frame, number: POISON in frame and number < 5
        await client.send("/queue/a", POISON, receipt=True)
    assert broker.arrived == [POISON, POISON]


async def test_message_when_another_was_confirmed_before_the_close_then_that_close_does_not_count() -> None:
    broker = Sudden()
    broker.closes = lambda frame, number: POISON in frame and number < 4
    async with client_of(broker) as (client, host):
        async with client.publisher() as publisher:
            await publisher.send("/queue/a", b"fine")
            await publisher.send("/queue/a", POISON)
        assert len(host.dialed) == 4
    assert broker.arrived == [b"fine", POISON]


@pytest.mark.parametrize("silent", [False, True], ids=["closed at once", "closed after ten seconds"])
async def test_message_when_links_end_by_themselves_then_it_is_sent_until_one_lasts(silent: bool) -> None:
    broker = Sudden()
    if silent:
        broker.answers = lambda frame, number: b"SEND" not in frame or number > 9
        broker.lasts = lambda number: 11 if number <= 9 else 1000
    else:
        broker.closes = lambda frame, number: b"SEND" in frame and number == 1
        broker.closes_at_once = lambda number: 1 < number <= 20
    async with client_of(broker) as (client, host):
        await client.send("/queue/a", b"x", receipt=True)
        assert len(host.dialed) == (10 if silent else 21)


async def test_message_when_its_link_always_ends_late_then_it_fails_at_last() -> None:
    broker = Sudden()
    broker.answers = lambda frame, _number: b"stuck" not in frame
    broker.lasts = lambda _number: 60
    async with client_of(broker) as (client, _):
        with pytest.raises(PoisonMessage, match="10 times in a row"):
            await client.send("/queue/a", b"stuck", receipt=True)
        await client.send("/queue/a", b"behind", receipt=True)


class Restarting(RawHost):
    """A host that refuses each second attempt, as one whose broker crashes and starts again."""

    async def open_stream(self) -> trio.abc.Stream:
        if len(self.dialed) % 2:
            self.dialed.append(trio.current_time())
            raise ConnectionRefusedError(111, "Connection refused")
        return await super().open_stream()


async def test_messages_when_links_end_at_one_and_then_at_another_then_neither_is_blamed_for_both() -> None:
    broker = Sudden()
    # Both are on the first link; each of the others ends at the message that is sent alone.
    broker.closes = lambda frame, number: (b"first" in frame and number < 3) or (b"second" in frame and number < 5)
    async with client_of(broker) as (client, host), client.publisher() as publisher:
        for body in (b"first", b"second"):
            await publisher.send("/queue/a", body)
    assert len(host.dialed) == 5
    assert broker.arrived == [b"first", b"second"]


async def test_message_when_the_broker_is_away_between_the_closes_then_it_is_not_blamed_for_them() -> None:
    broker = Sudden()
    broker.closes = lambda frame, number: POISON in frame and number < 11
    async with client_of(broker, Restarting) as (client, host):
        await client.send("/queue/a", POISON, receipt=True)
    assert (len(host.dialed), broker.arrived) == (11, [POISON])


async def test_messages_when_the_lost_link_had_confirmed_some_then_the_others_are_sent_again_in_one_go() -> None:
    """A close that no message can be blamed for: none has to wait for the RECEIPT of another."""

    async def serve(stream: trio.abc.Stream, number: int) -> None:
        data = b""
        async for chunk in stream:
            first, data = not data, data + chunk
            if first:
                await stream.send_all(b"CONNECTED\nversion:1.2\nheart-beat:0,0\n\n\0")
            receipts = re.findall(rb"\nreceipt:(\S+)", data)
            if number == 1 and receipts:
                await stream.send_all(b"RECEIPT\nreceipt-id:%s\n\n\0" % receipts[0])
                if len(receipts) == 51:
                    return
            elif len(receipts) >= 50:
                for receipt in receipts:
                    await stream.send_all(b"RECEIPT\nreceipt-id:%s\n\n\0" % receipt)

    async with client_of(serve) as (client, host):
        with trio.fail_after(60):
            async with client.publisher() as publisher:
                for number in range(51):
                    await publisher.send("/queue/a", b"%d" % number)
        assert len(host.dialed) == 2


async def test_message_when_an_error_comes_between_the_closes_then_a_new_row_begins() -> None:
    broker = Sudden()
    error = b"ERROR\nmessage:I am going down\n\n\0"

    def closes(frame: bytes, number: int) -> bool:
        broker.says = error if number == 3 else b""
        return POISON in frame and number < 6

    broker.closes = closes
    async with client_of(broker) as (client, host):
        await client.send("/queue/a", POISON, receipt=True)
        assert len(host.dialed) == 6


class Flaky(RawHost):
    """A host whose links are cut after a random time, or in their first bytes, often many in a row."""

    def __init__(self, broker: Sudden, nursery: trio.Nursery, chance: random.Random) -> None:
        self._broker = broker
        self._chance = chance
        # How long each of the next links lasts: seconds, or bytes.
        self._next: list[float | int] = []
        super().__init__(self._cut, nursery)

    async def _cut(self, stream: trio.abc.Stream, number: int) -> None:
        chance = self._chance
        if not self._next:
            # Two cuts of bytes in a row at most: a third one at the same message would be what poison looks like.
            short: list[float | int] = [chance.randrange(1000)]
            if chance.random() < 0.7:
                short = [0.3 * chance.random() for _ in range(10)]
            self._next = [*short, 5 * chance.random()]
        lasts = self._next.pop() if number < 300 else 10_000.0
        if isinstance(lasts, int):
            await self._broker.serve(TappedStream(stream, cut_sent=lasts, cut_received=lasts), number)
        else:
            with trio.move_on_after(lasts):
                await self._broker.serve(stream, number)


@pytest.mark.parametrize("seed", range(10))
async def test_messages_when_links_are_cut_at_random_then_none_is_taken_for_poison(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311  # not a secret
    broker = Sudden(loses_receipts=True)
    bodies = [b"%d." % number + b"x" * chance.choice([10, 100, 100, 4000]) for number in range(1000)]
    async with trio.open_nursery() as nursery:
        host = Flaky(broker, nursery, chance)
        async with reconnecting(host, reconnect=Reconnect(first_delay=0.05, max_delay=0.5)) as client:
            async with client.publisher(max_in_flight=20) as publisher:
                publications: list[Publication] = []
                for body in bodies:
                    publications.append(await publisher.send("/queue/a", body))
                    await trio.sleep(0.05 * chance.random())
        assert len(host.dialed) > 20
        nursery.cancel_scope.cancel()
    assert {each.delivery for each in publications} == {DeliveryStatus.CONFIRMED}
    assert list(dict.fromkeys(broker.arrived)) == bodies
