import re

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.testing.raw_client import RawClient, connected
from trio_stomp.testing import AnswerConnect, Broker, BrokerOptions, StallReading, open_broker
from trio_stomp.types import Command, Version

BEATS = BrokerOptions(heart_beat=(1.0, 1.0), heart_beat_grace=2.0)


async def arrivals(client: RawClient, seconds: float) -> list[float]:
    """When bytes come, from now on."""
    start = trio.current_time()
    times: list[float] = []
    with trio.move_on_after(seconds):
        while await client.stream.receive_some():
            times.append(trio.current_time() - start)
    return times


async def test_broker_when_agreed_then_beats_in_time(autojump_clock: MockClock) -> None:
    """Rows 1x-HB-7, 1x-HB-9, 12-HB-10, 11-HB-10."""
    async with open_broker(listen=False, options=BEATS) as broker:
        client = await connected(broker, heart_beat="0,3000")

        times = await arrivals(client, 12.5)

        gaps = [after - before for before, after in zip([0.0, *times], times, strict=False)]
        assert len(times) == 6
        assert all(1.5 < gap < 3.0 for gap in gaps)


async def test_broker_when_it_says_something_else_then_needs_no_beat(autojump_clock: MockClock) -> None:
    """Row 1x-HB-9."""
    async with open_broker(listen=False, options=BEATS) as broker:
        client = await connected(broker, heart_beat="0,3000")
        await client.subscribe("/queue/a")

        for _ in range(10):
            await trio.sleep(1)
            broker.publish("/queue/a", "x")

        assert len(await client.bodies(10)) == 10
        assert client.data.count(b"\n\n\n") == 0
        assert b"\0\n\n" not in client.data


@pytest.mark.parametrize("heart_beat", ["0,0", "1000,0"])
async def test_broker_when_client_wants_none_then_never_beats(heart_beat: str, autojump_clock: MockClock) -> None:
    """Rows 1x-HB-1, 1x-HB-4, 1x-HB-5."""
    async with open_broker(listen=False, options=BrokerOptions(heart_beat=(1.0, 0.0))) as broker:
        client = await connected(broker, heart_beat=heart_beat)

        assert await arrivals(client, 60) == []


async def test_client_when_silent_then_given_up_after_the_grace(autojump_clock: MockClock) -> None:
    """Rows 1x-HB-6, 1x-HB-11, 1x-HB-12."""
    async with open_broker(listen=False, options=BEATS) as broker:
        client = await connected(broker, heart_beat="1000,0")
        start = trio.current_time()
        await client.subscribe("/queue/a", "client")
        broker.publish("/queue/a", "x")
        await client.message()

        await client.refused("heart-beat missing")

        assert 2.0 <= trio.current_time() - start < 2.1
        assert broker.depth("/queue/a") == 1


@pytest.mark.parametrize("given", [b"\n", b"\r\n", b"S"])
async def test_client_when_any_octet_comes_then_lives_on(given: bytes, autojump_clock: MockClock) -> None:
    """Rows 1x-HB-8, 1x-HB-12."""
    async with open_broker(listen=False, options=BEATS) as broker:
        client = await connected(broker, heart_beat="1000,0")

        for number in range(5):
            await trio.sleep(1.9)
            await client.stream.send_all(b"SEND\n"[number : number + 1] if given == b"S" else given)

        assert broker.sessions[0].connected


async def test_client_when_we_hold_its_input_then_is_not_given_up(autojump_clock: MockClock) -> None:
    options = BrokerOptions(outbox_bytes=1000)
    async with open_broker(listen=False, options=options) as broker:
        client = await connected(broker, heart_beat="1000,0")
        # Receipts that the client does not read: past the buffers the broker stops reading.
        with trio.move_on_after(30):
            while True:
                await client.send("/queue/a", receipt="x" * 1000)
        assert broker.sessions[0].connected
        stored = broker.depth("/queue/a")
        assert broker.sessions[0].output_bytes < 70_000

        await client.expect(Command.RECEIPT)
        for _ in range(stored - 1):
            await client.expect(Command.RECEIPT)
        assert broker.sessions[0].connected


async def test_client_when_it_does_not_read_then_broker_keeps_its_messages_in_the_queue(
    autojump_clock: MockClock,
) -> None:
    async with open_broker(listen=False, options=BrokerOptions(outbox_bytes=10_000)) as broker:
        client = await connected(broker)
        await client.subscribe("/queue/a")
        for _ in range(1000):
            broker.publish("/queue/a", b"x" * 1000)
        await wait_all_tasks_blocked()

        assert broker.sessions[0].output_bytes < 12_000
        assert broker.depth("/queue/a") > 500
        assert len(await client.bodies(1000)) == 1000


async def test_connect_when_it_does_not_come_then_error_after_the_timeout(autojump_clock: MockClock) -> None:
    async with open_broker(listen=False, options=BrokerOptions(connect_timeout=3)) as broker:
        client = RawClient(broker.connect_stream())
        start = trio.current_time()

        await client.refused("no CONNECT frame")

        assert trio.current_time() - start == pytest.approx(3)


@pytest.mark.parametrize("fault", [AnswerConnect(), StallReading()])
async def test_connect_when_a_fault_keeps_silent_then_timeout_does_too(
    fault: AnswerConnect | StallReading, autojump_clock: MockClock
) -> None:
    async with open_broker(listen=False, options=BrokerOptions(connect_timeout=3)) as broker:
        broker.faults.plan(fault)
        client = RawClient(broker.connect_stream())
        await client.write(Command.CONNECT, accept_version="1.2", host="h")

        await client.expect_nothing(60)


async def test_session_when_connected_then_tells_who_it_is(autojump_clock: MockClock) -> None:
    async with open_broker(listen=False, options=BrokerOptions(vhosts={"/", "/test"})) as broker:
        client = RawClient(broker.connect_stream(), version=Version.V1_1)
        await wait_all_tasks_blocked()
        (session,) = broker.sessions
        assert (session.connected, session.login, session.vhost, session.subscriptions) == (False, None, None, ())
        assert session.transactions == 0

        await client.connect(host="/test", login="alice", heart_beat="2000,0")
        await client.subscribe("/queue/a", subscription_id="1")
        await client.subscribe("/queue/b", subscription_id="2")
        await client.confirmed(Command.BEGIN, transaction="t")

        assert (session.connected, session.login, session.vhost) == (True, "alice", "/test")
        assert session.version is Version.V1_1
        assert session.subscriptions == ("/queue/a", "/queue/b")
        assert session.transactions == 1
        assert session.heart_beat.client_sends_seconds == 2.0


async def test_link_when_closed_by_client_then_session_ends_and_messages_go_back(autojump_clock: MockClock) -> None:
    """Rows all-DISC-3, 1x-SUB-10."""
    async with open_broker(listen=False) as broker:
        client = await connected(broker)
        await client.subscribe("/queue/a", "client")
        broker.publish("/queue/a", "x")
        await client.message()

        await client.stream.aclose()
        await broker.wait_until(lambda: not broker.sessions)

        assert broker.depth("/queue/a") == 1
        assert broker.statistics().open_connections == 0


async def test_link_when_half_closed_by_client_then_answers_are_still_written(autojump_clock: MockClock) -> None:
    async with open_broker(listen=False) as broker:
        stream = broker.connect_stream()
        client = RawClient(stream)
        await client.connect()

        await client.send("/queue/a", receipt="r")
        await stream.send_eof()

        await client.expect(Command.RECEIPT, receipt_id="r")
        await client.expect_eof()


async def test_error_when_client_has_sent_more_then_it_can_still_read_the_error() -> None:
    """Rows 1x-LING-2, 12-ERR-2, 1x-CONN-3."""
    async with open_broker(options=BrokerOptions(logins={})) as broker:
        client = RawClient(await trio.open_tcp_stream("127.0.0.1", broker.port))

        await client.write(Command.CONNECT, accept_version="1.2", host="h")
        for _ in range(50):
            await client.send("/queue/a", b"x" * 1000)

        await client.refused("access refused")
        await client.stream.aclose()


async def test_session_when_client_never_closes_then_lingers_only_so_long(autojump_clock: MockClock) -> None:
    async with open_broker(listen=False, options=BrokerOptions(linger=4)) as broker:
        client = await connected(broker)
        await client.confirmed(Command.DISCONNECT)
        start = trio.current_time()

        await broker.wait_until(lambda: not broker.sessions)

        assert trio.current_time() - start == pytest.approx(4)


async def test_session_when_last_frame_cannot_be_written_then_is_not_kept_for_ever(autojump_clock: MockClock) -> None:
    async with open_broker(listen=False, options=BrokerOptions(outbox_bytes=10_000_000, linger=1)) as broker:
        client = await connected(broker)
        await client.subscribe("/queue/a")
        broker.publish("/queue/a", b"x" * 1_000_000)
        await client.write(Command.DISCONNECT)
        start = trio.current_time()

        await broker.wait_until(lambda: not broker.sessions)

        assert 5 <= trio.current_time() - start <= 6


async def test_write_when_link_is_broken_then_what_came_before_still_counts(autojump_clock: MockClock) -> None:
    """Row 12-RECEIPT-4."""

    class OneWay(trio.abc.Stream):
        """Gives its input, then waits; takes nothing."""

        def __init__(self, data: bytes) -> None:
            self.data = [data]

        async def receive_some(self, max_bytes: int | None = None) -> bytes:
            await trio.sleep(1)
            return self.data.pop() if self.data else b""

        async def send_all(self, data: bytes | bytearray | memoryview) -> None:
            await trio.lowlevel.checkpoint()
            raise trio.BrokenResourceError

        async def wait_send_all_might_not_block(self) -> None:
            await trio.lowlevel.checkpoint()

        async def aclose(self) -> None:
            await trio.lowlevel.checkpoint()

    sends = b"SEND\ndestination:/queue/a\nreceipt:r\n\nx\0" * 3
    async with open_broker(listen=False) as broker:
        await broker.serve_stream(OneWay(b"CONNECT\naccept-version:1.2\nhost:h\n\n\0" + sends))

        assert broker.depth("/queue/a") == 3


async def test_statistics_when_session_ran_then_frames_and_bytes_were_counted(autojump_clock: MockClock) -> None:
    async with open_broker(listen=False) as broker:
        client = await connected(broker)
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


async def test_frames_when_they_come_octet_by_octet_then_mean_the_same(autojump_clock: MockClock) -> None:
    async with open_broker(listen=False) as broker:
        client = RawClient(broker.connect_stream())
        given = (
            b"\n\nCONNECT\naccept-version:1.2\nhost:h\n\n\0\nSUBSCRIBE\nid:1\ndestination:/queue/a\n\n\0\r\n"
            b"SEND\r\ndestination:/queue/a\r\ncontent-length:3\r\n\r\nx\0y\0"
        )

        for byte in given:
            await client.stream.send_all(bytes([byte]))

        await client.expect_connected()
        await client.message(b"x\0y")


async def pipelined(broker: Broker) -> bytes:
    stream = broker.connect_stream()
    await stream.send_all(
        b"CONNECT\naccept-version:1.2\nhost:h\n\n\0SEND\ndestination:/queue/a\nreceipt:r\n\nx\0DISCONNECT\nreceipt:d\n\n\0"
    )
    answer = b""
    while data := await stream.receive_some():
        answer += data
    return answer


async def test_frames_when_pipelined_behind_connect_then_all_are_answered(autojump_clock: MockClock) -> None:
    async with open_broker(listen=False) as broker:
        answer = await pipelined(broker)

        assert re.findall(rb"receipt-id:(\w+)", answer) == [b"r", b"d"]
