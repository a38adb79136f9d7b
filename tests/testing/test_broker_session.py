import re

import anyio
import pytest
import trio

from tests.kit.loops import on_loops, wait_all_tasks_blocked
from tests.testing.raw_client import CONNECT, BrokenStream, RawClient, connected, with_options
from trio_stomp.testing import AnswerConnect, Broker, BrokerOptions, StallReading, StallWriting, open_broker
from trio_stomp.testing.memory_links import MemoryLink, open_memory_links
from trio_stomp.types import Command, Version

pytestmark = pytest.mark.anyio

BEATS = BrokerOptions(heart_beat=(1.0, 1.0), heart_beat_grace=2.0)


async def arrivals(client: RawClient, seconds: float) -> list[float]:
    """When bytes come, from now on."""
    start = anyio.current_time()
    times: list[float] = []
    with anyio.move_on_after(seconds):
        while await client.stream.receive_some():
            times.append(anyio.current_time() - start)
    return times


@with_options(BEATS)
async def test_broker_when_agreed_then_beats_in_time(broker: Broker) -> None:
    """Rows 1x-HB-7, 1x-HB-9, 12-HB-10, 11-HB-10."""
    client = await connected(broker, heart_beat="0,3000")

    times = await arrivals(client, 12.5)

    gaps = [after - before for before, after in zip([0.0, *times], times, strict=False)]
    assert len(times) == 6
    assert all(1.5 < gap < 3.0 for gap in gaps)


@with_options(BEATS)
async def test_broker_when_it_says_something_else_then_needs_no_beat(broker: Broker) -> None:
    """Row 1x-HB-9."""
    client = await connected(broker, heart_beat="0,3000")
    await client.subscribe("/queue/a")

    for _ in range(10):
        await anyio.sleep(1)
        broker.publish("/queue/a", "x")

    assert len(await client.bodies(10)) == 10
    assert client.data.count(b"\n\n\n") == 0
    assert b"\0\n\n" not in client.data


@with_options(BEATS)
async def test_broker_when_a_beat_is_due_within_a_frame_then_it_comes_behind_the_frame(broker: Broker) -> None:
    """Row 1x-HB-16."""
    client = await connected(broker, heart_beat="0,1000")
    broker.faults.now(StallWriting(after_bytes=4))
    await client.send("/queue/a", receipt="r")
    assert await client.stream.receive_some() == b"RECE"

    await anyio.sleep(10)
    broker.faults.resume()

    rest = b""
    while not rest.endswith(b"\0\n\n"):
        rest += await client.stream.receive_some()
    assert rest == b"IPT\nreceipt-id:r\n\n\0\n\n"


@pytest.mark.parametrize("heart_beat", ["0,0", "1000,0"])
@with_options(BrokerOptions(heart_beat=(1.0, 0.0)))
async def test_broker_when_client_wants_none_then_never_beats(broker: Broker, heart_beat: str) -> None:
    """Rows 1x-HB-1, 1x-HB-4, 1x-HB-5."""
    client = await connected(broker, heart_beat=heart_beat)

    assert await arrivals(client, 60) == []


@with_options(BEATS)
async def test_client_when_silent_then_given_up_after_the_grace(broker: Broker) -> None:
    """Rows 1x-HB-6, 1x-HB-11, 1x-HB-12."""
    client = await connected(broker, heart_beat="1000,0")
    start = anyio.current_time()
    await client.delivered(broker)

    await client.refused("heart-beat missing")

    assert 2.0 <= anyio.current_time() - start < 2.1
    assert broker.depth("/queue/a") == 1


@pytest.mark.parametrize("given", [b"\n", b"\r\n", b"S"])
@with_options(BEATS)
async def test_client_when_any_octet_comes_then_lives_on(broker: Broker, given: bytes) -> None:
    """Rows 1x-HB-8, 1x-HB-12."""
    client = await connected(broker, heart_beat="1000,0")

    for number in range(5):
        await anyio.sleep(1.9)
        await client.stream.send_all(b"SEND\n"[number : number + 1] if given == b"S" else given)

    assert broker.sessions[0].connected


@with_options(BrokerOptions(outbox_bytes=1000))
async def test_client_when_we_hold_its_input_then_is_not_given_up(broker: Broker) -> None:
    client = await connected(broker, heart_beat="1000,0")
    # Receipts that the client does not read: past the buffers the broker stops reading.
    with anyio.move_on_after(30):
        while True:
            await client.send("/queue/a", receipt="x" * 1000)
    assert broker.sessions[0].connected
    stored = broker.depth("/queue/a")
    assert broker.sessions[0].output_bytes < 70_000

    await client.expect(Command.RECEIPT)
    for _ in range(stored - 1):
        await client.expect(Command.RECEIPT)
    assert broker.sessions[0].connected


@with_options(BrokerOptions(outbox_bytes=10_000))
async def test_client_when_it_does_not_read_then_broker_keeps_its_messages_in_the_queue(
    broker: Broker, client: RawClient
) -> None:
    await client.subscribe("/queue/a")
    for _ in range(1000):
        broker.publish("/queue/a", b"x" * 1000)
    await wait_all_tasks_blocked()

    assert broker.sessions[0].output_bytes < 12_000
    assert broker.depth("/queue/a") > 500
    assert len(await client.bodies(1000)) == 1000


@with_options(BrokerOptions(connect_timeout=3))
async def test_connect_when_it_does_not_come_then_error_after_the_timeout(stranger: RawClient) -> None:
    start = anyio.current_time()

    await stranger.refused("no CONNECT frame")

    assert anyio.current_time() - start == pytest.approx(3)


@pytest.mark.parametrize("fault", [AnswerConnect(), StallReading()])
@with_options(BrokerOptions(connect_timeout=3))
async def test_connect_when_a_fault_keeps_silent_then_timeout_does_too(
    broker: Broker, fault: AnswerConnect | StallReading
) -> None:
    broker.faults.plan(fault)
    client = RawClient(broker.connect_stream())
    await client.write(Command.CONNECT, accept_version="1.2", host="h")
    await client.send("/queue/a")

    await client.expect_nothing(60)
    assert broker.statistics().received[Command.SEND] == broker.depth("/queue/a") == 0


@pytest.mark.parametrize("version", [Version.V1_1])
@with_options(BrokerOptions(vhosts={"/", "/test"}))
async def test_session_when_connected_then_tells_who_it_is(broker: Broker, stranger: RawClient) -> None:
    await wait_all_tasks_blocked()
    (session,) = broker.sessions
    assert (session.connected, session.login, session.vhost, session.subscriptions) == (False, None, None, ())
    assert session.transactions == 0

    await stranger.connect(host="/test", login="alice", heart_beat="2000,0")
    await stranger.subscribe("/queue/a", subscription_id="1")
    await stranger.subscribe("/queue/b", subscription_id="2")
    await stranger.confirmed(Command.BEGIN, transaction="t")

    assert (session.connected, session.login, session.vhost) == (True, "alice", "/test")
    assert session.version is Version.V1_1
    assert session.subscriptions == ("/queue/a", "/queue/b")
    assert session.transactions == 1
    assert session.heart_beat.client_sends_seconds == 2.0


async def test_link_when_closed_by_client_then_session_ends_and_others_get_its_messages_at_once(
    broker: Broker, client: RawClient
) -> None:
    """Rows all-DISC-3, 1x-SUB-10."""
    await client.delivered(broker)
    other = await connected(broker)
    await other.subscribe("/queue/a", "client")

    await client.stream.aclose()

    await other.message("x", redelivered="true")
    await broker.wait_until(lambda: len(broker.sessions) == 1)
    assert broker.statistics().open_connections == 1


async def test_link_when_half_closed_by_client_then_answers_are_still_written(broker: Broker) -> None:
    stream = broker.connect_stream()
    client = RawClient(stream)
    await client.connect()

    await client.send("/queue/a", receipt="r")
    await stream.send_eof()

    await client.expect(Command.RECEIPT, receipt_id="r")
    await client.expect_eof()


@on_loops("trio-real")
async def test_error_when_client_has_sent_more_then_it_can_still_read_the_error() -> None:
    """Rows 1x-LING-2, 12-ERR-2, 1x-CONN-3."""
    async with open_broker(options=BrokerOptions(logins={})) as broker:
        client = RawClient(await trio.open_tcp_stream("127.0.0.1", broker.port))

        await client.write(Command.CONNECT, accept_version="1.2", host="h")
        for _ in range(50):
            await client.send("/queue/a", b"x" * 1000)

        await client.refused("access refused")
        await client.stream.aclose()


@with_options(BrokerOptions(linger=4))
async def test_session_when_client_never_closes_then_lingers_only_so_long(broker: Broker, client: RawClient) -> None:
    await client.confirmed(Command.DISCONNECT)
    start = anyio.current_time()

    await broker.wait_until(lambda: not broker.sessions)

    assert anyio.current_time() - start == pytest.approx(4)


@with_options(BrokerOptions(outbox_bytes=10_000_000, linger=1))
async def test_session_when_last_frame_cannot_be_written_then_is_not_kept_for_ever(
    broker: Broker, client: RawClient
) -> None:
    await client.subscribe("/queue/a")
    broker.publish("/queue/a", b"x" * 1_000_000)
    await client.write(Command.DISCONNECT)
    start = anyio.current_time()

    await broker.wait_until(lambda: not broker.sessions)

    assert 5 <= anyio.current_time() - start <= 6


class SlowToEnd(MemoryLink):
    """A link on which the end takes a second to be sent."""

    async def send_eof(self) -> None:
        with self._one_sender():
            await anyio.sleep(1)
        await super().send_eof()


@with_options(BrokerOptions(heart_beat=(0.1, 0.1), linger=5))
async def test_session_when_heart_beats_are_due_while_its_end_is_sent_then_the_broker_goes_on(broker: Broker) -> None:
    ours, theirs = open_memory_links()
    slow = SlowToEnd(theirs._incoming, theirs._outgoing)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(broker.serve_stream, slow)
        client = RawClient(ours)
        await client.connect(heart_beat="0,100")
        await ours.send_eof()
        await client.expect_eof()
        await ours.aclose()
    await connected(broker)


async def test_write_when_link_is_broken_then_frames_still_take_effect_and_no_message_is_lost(broker: Broker) -> None:
    """Row 12-RECEIPT-4."""
    subscribe = b"SUBSCRIBE\nid:1\ndestination:/queue/a\nack:auto\n\n\0"
    sends = b"SEND\ndestination:/queue/a\nreceipt:r\n\nx\0" * 3

    await broker.serve_stream(BrokenStream(anyio.BrokenResourceError(), CONNECT, subscribe + sends))

    assert broker.depth("/queue/a") == 3


async def test_statistics_when_session_ran_then_frames_and_bytes_were_counted(
    broker: Broker, client: RawClient
) -> None:
    await client.subscribe("/queue/a")
    await client.send("/queue/a", "x")
    await client.message()
    await client.confirmed(Command.DISCONNECT)
    await client.expect_eof()

    counted = broker.statistics()

    assert counted.received[Command.SEND] == counted.sent[Command.MESSAGE] == 1
    assert counted.sent[Command.RECEIPT] == 2
    assert counted.sent_bytes == len(client.data)
    assert counted.received_bytes > 0
    assert (counted.connections, counted.open_connections) == (1, 1)
    await connected(broker)
    assert counted.connections == counted.received[Command.CONNECT] == 1


async def test_frames_when_they_come_octet_by_octet_then_mean_the_same(stranger: RawClient) -> None:
    given = (
        b"\n\nCONNECT\naccept-version:1.2\nhost:h\n\n\0\nSUBSCRIBE\nid:1\ndestination:/queue/a\n\n\0\r\n"
        b"SEND\r\ndestination:/queue/a\r\ncontent-length:3\r\n\r\nx\0y\0"
    )

    for byte in given:
        await stranger.stream.send_all(bytes([byte]))

    await stranger.expect_connected()
    await stranger.message(b"x\0y")


async def test_frames_when_pipelined_then_all_up_to_disconnect_are_answered(broker: Broker) -> None:
    stream = broker.connect_stream()
    await stream.send_all(
        b"CONNECT\naccept-version:1.2\nhost:h\n\n\0SEND\ndestination:/queue/a\nreceipt:r\n\nx\0"
        b"DISCONNECT\nreceipt:d\n\n\0SEND\ndestination:/queue/a\nreceipt:late\n\nx\0"
    )
    answer = b""
    while data := await stream.receive_some():
        answer += data

    assert re.findall(rb"receipt-id:(\w+)", answer) == [b"r", b"d"]
    assert broker.depth("/queue/a") == 1
