import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.testing.raw_client import RawClient, connected
from trio_stomp.testing import (
    AnswerConnect,
    DelayReceipts,
    DropLink,
    DuplicateReceipts,
    Fault,
    HalfOpen,
    RefuseConnection,
    ReverseReceipts,
    SlowWriting,
    StallReading,
    StallWriting,
    SwallowReceipts,
    open_broker,
)
from trio_stomp.types import Command


async def receipts(client: RawClient, count: int) -> list[str]:
    return [(await client.expect(Command.RECEIPT)).headers["receipt-id"] for _ in range(count)]


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ([SwallowReceipts()], ["2", "3", "4"]),
        ([SwallowReceipts(skip=1, count=2)], ["1", "4"]),
        ([SwallowReceipts(command=Command.BEGIN)], ["1", "2", "3", "4"]),
        ([DuplicateReceipts(skip=3)], ["1", "2", "3", "4", "4"]),
        ([ReverseReceipts()], ["2", "1", "4", "3"]),
        ([ReverseReceipts(group=4)], ["4", "3", "2", "1"]),
        ([DelayReceipts(seconds=5)], ["2", "3", "4", "1"]),
        ([SwallowReceipts(), DuplicateReceipts()], ["2", "2", "3", "4"]),
        ([ReverseReceipts(), DuplicateReceipts()], ["2", "2", "1", "1", "4", "3"]),
    ],
)
async def test_receipts_when_rules_are_set_then_come_as_the_rules_say(
    rules: list[Fault], expected: list[str], autojump_clock: MockClock
) -> None:
    async with open_broker(listen=False) as broker:
        client = await connected(broker)
        broker.faults.now(*rules)

        for receipt in "1234":
            await client.send("/queue/a", receipt=receipt)

        assert await receipts(client, len(expected)) == expected
        await client.expect_nothing()
        assert broker.depth("/queue/a") == 4


async def test_delayed_receipt_when_due_then_comes_after_so_many_seconds(autojump_clock: MockClock) -> None:
    async with open_broker(listen=False) as broker:
        broker.faults.plan(DelayReceipts(seconds=15, command=Command.DISCONNECT))
        client = await connected(broker)
        start = trio.current_time()

        await client.write(Command.DISCONNECT, receipt="bye")
        await client.expect(Command.RECEIPT, receipt_id="bye")

        assert trio.current_time() - start == pytest.approx(15)
        await client.expect_eof()


async def test_refusal_when_planned_then_link_is_closed_without_a_word(autojump_clock: MockClock) -> None:
    async with open_broker(listen=False) as broker:
        broker.faults.plan(RefuseConnection())

        await RawClient(broker.connect_stream()).expect_eof()

        await connected(broker)
        assert broker.statistics().connections == 2


async def test_connect_when_answered_by_an_error_then_link_is_closed(autojump_clock: MockClock) -> None:
    async with open_broker(listen=False) as broker:
        broker.faults.plan(AnswerConnect(error="go away"))
        client = RawClient(broker.connect_stream())

        await client.write(Command.CONNECT, accept_version="1.2", host="h")

        await client.refused("go away")


async def test_connect_when_answered_by_bytes_then_they_come_as_they_are(autojump_clock: MockClock) -> None:
    async with open_broker(listen=False) as broker:
        broker.faults.plan(AnswerConnect(data=b"HTTP/1.1 400 Bad Request\r\n\r\n", close=True))
        stream = broker.connect_stream()

        await stream.send_all(b"CONNECT\naccept-version:1.2\nhost:h\n\n\0")

        assert await stream.receive_some() == b"HTTP/1.1 400 Bad Request\r\n\r\n"
        assert await stream.receive_some() == b""


async def test_connect_when_link_is_closed_instead_then_nothing_is_said(autojump_clock: MockClock) -> None:
    async with open_broker(listen=False) as broker:
        broker.faults.plan(AnswerConnect(close=True))
        client = RawClient(broker.connect_stream())

        await client.write(Command.CONNECT, accept_version="1.2", host="h")

        await client.expect_eof()


async def test_plan_when_connections_are_counted_then_only_those_are_met(autojump_clock: MockClock) -> None:
    async with open_broker(listen=False) as broker:
        broker.faults.plan(RefuseConnection(), connections=2, skip=1)

        await connected(broker)
        for _ in range(2):
            await RawClient(broker.connect_stream()).expect_eof()
        await connected(broker)


async def test_plan_when_for_all_then_holds_until_cleared(autojump_clock: MockClock) -> None:
    async with open_broker(listen=False) as broker:
        broker.faults.plan(RefuseConnection(), connections=None)
        for _ in range(3):
            await RawClient(broker.connect_stream()).expect_eof()

        broker.faults.clear()

        await connected(broker)


async def test_drop_when_bytes_are_counted_then_a_frame_is_cut(autojump_clock: MockClock) -> None:
    async with open_broker(listen=False) as broker:
        client = await connected(broker)
        before = len(client.data)
        broker.faults.now(DropLink(after_sent_bytes=10))

        await client.send("/queue/a", receipt="r")
        await client.expect_eof()

        assert bytes(client.data[before:]) == b"RECEIPT\nre"
        await broker.wait_until(lambda: not broker.sessions)
        assert broker.depth("/queue/a") == 1


async def test_drop_when_received_bytes_are_counted_then_earlier_frames_took_effect(autojump_clock: MockClock) -> None:
    async with open_broker(listen=False) as broker:
        client = await connected(broker)
        frame = b"SEND\ndestination:/queue/a\n\nx\0"
        broker.faults.now(DropLink(after_received_bytes=2 * len(frame) + 3))

        await client.stream.send_all(frame * 5)
        await client.expect_eof()

        await broker.wait_until(lambda: not broker.sessions)
        assert broker.depth("/queue/a") == 2


async def test_drop_when_one_session_is_named_then_the_other_stays(autojump_clock: MockClock) -> None:
    async with open_broker(listen=False) as broker:
        one, other = await connected(broker), await connected(broker)

        broker.faults.drop(session_id=broker.sessions[0].session_id)

        await one.expect_eof()
        await other.send("/queue/a", receipt="r")
        await other.expect(Command.RECEIPT)


async def test_half_open_when_set_then_broker_is_deaf_and_mute_and_patient(autojump_clock: MockClock) -> None:
    async with open_broker(listen=False) as broker:
        client = await connected(broker, heart_beat="1000,1000")
        broker.faults.now(HalfOpen())

        await client.send("/queue/a", receipt="r")
        await client.expect_nothing(60)

        assert broker.depth("/queue/a") == 0
        assert len(broker.sessions) == 1
        broker.faults.resume()
        await client.send("/queue/a", receipt="s")
        await client.expect(Command.RECEIPT, receipt_id="s")


async def test_stalls_when_set_then_what_waited_comes_after_resume(autojump_clock: MockClock) -> None:
    for rule in (StallReading(), StallWriting(after_bytes=4)):
        async with open_broker(listen=False) as broker:
            client = await connected(broker)
            before = len(client.data)
            broker.faults.now(rule)

            await client.send("/queue/a", receipt="r")
            await wait_all_tasks_blocked()
            assert broker.depth("/queue/a") == (0 if isinstance(rule, StallReading) else 1)
            broker.faults.resume()

            await client.expect(Command.RECEIPT, receipt_id="r")
            assert len(client.data) > before + 4


async def test_slow_writing_when_set_then_message_takes_its_time(autojump_clock: MockClock) -> None:
    async with open_broker(listen=False) as broker:
        client = await connected(broker)
        await client.subscribe("/queue/a")
        broker.faults.now(SlowWriting(bytes_per_second=100))
        start = trio.current_time()

        broker.publish("/queue/a", b"x" * 1000)
        await client.message()

        assert 10 < trio.current_time() - start < 13


async def test_bytes_when_sent_now_then_come_between_frames(autojump_clock: MockClock) -> None:
    async with open_broker(listen=False) as broker:
        client = await connected(broker)
        garbage = b"MESSAGE\nsubscription:none\nmessage-id:1\ndestination:/queue/x\n\nspurious\0"

        broker.faults.send_bytes(garbage)

        await client.message("spurious", subscription="none")


async def test_error_when_sent_now_then_session_ends_or_goes_on(autojump_clock: MockClock) -> None:
    async with open_broker(listen=False) as broker:
        client = await connected(broker)

        broker.faults.send_error("warning", close=False, receipt_id="r")
        await client.expect(Command.ERROR, message="warning", receipt_id="r")
        broker.faults.send_error("fatal", "why")

        assert (await client.refused("fatal")).body == b"why"
