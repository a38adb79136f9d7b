import dataclasses
import re
from collections.abc import Callable
from math import nan

import anyio
import pytest

from tests.kit.loops import wait_all_tasks_blocked
from tests.testing.raw_client import CONNECT, RawClient, connected
from trio_stomp.testing import (
    AnswerConnect,
    Broker,
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
)
from trio_stomp.types import Command, Version

pytestmark = pytest.mark.anyio

SEND = b"SEND\ndestination:/queue/a\n\nx\0"
RULES = [
    RefuseConnection(),
    AnswerConnect(error="no"),
    DropLink(after_sent_bytes=1),
    StallReading(after_bytes=1),
    StallWriting(after_bytes=1),
    HalfOpen(after_received_bytes=1),
    SlowWriting(bytes_per_second=1),
    SwallowReceipts(command=Command.SEND),
    DelayReceipts(seconds=1),
    DuplicateReceipts(skip=1),
    ReverseReceipts(group=3),
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_rule_when_made_then_is_data_that_compares(rule: Fault) -> None:
    assert len({rule, dataclasses.replace(rule)}) == 1


@pytest.mark.parametrize(
    ("rule", "given", "said"),
    [
        (SwallowReceipts, {"command": "SEND"}, "command must be a Command such as Command.SEND, got 'SEND'"),
        (DelayReceipts, {"command": "SEND", "seconds": 1}, "command must be a Command"),
        (SwallowReceipts, {"count": "1"}, "count must be an int of at least 1 or None, got '1'"),
        (SwallowReceipts, {"count": 0}, "count must be"),
        (DuplicateReceipts, {"skip": -1}, "skip must be an int of at least 0, got -1"),
        (ReverseReceipts, {"group": 0}, "group must be"),
        (DelayReceipts, {"seconds": nan}, "seconds must be a number of seconds of at least 0, got nan"),
        (DropLink, {"after_received_bytes": "300"}, "after_received_bytes must be an int of at least 0 or None"),
        (DropLink, {"after_sent_bytes": -1}, "after_sent_bytes must be"),
        (StallReading, {"after_bytes": True}, "after_bytes must be an int of at least 0, got True"),
        (StallWriting, {"after_bytes": None}, "after_bytes must be"),
        (HalfOpen, {"after_received_bytes": 1.5}, "after_received_bytes must be"),
        (SlowWriting, {"bytes_per_second": 0}, "bytes_per_second must be a number of more than 0, got 0"),
        (SlowWriting, {"bytes_per_second": "9"}, "bytes_per_second must be"),
        (AnswerConnect, {"error": b"no"}, "error must be a str or None, got b'no'"),
        (AnswerConnect, {"data": "no"}, "data must be bytes, got 'no'"),
        (AnswerConnect, {"close": "no"}, "close must be True or False, got 'no'"),
    ],
)
def test_rule_when_a_value_is_wrong_then_says_which_and_what_was_expected(
    rule: Callable[[], Fault], given: dict[str, object], said: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(said)):
        rule(**given)


@pytest.mark.parametrize(
    ("fault", "got"),
    [
        (SwallowReceipts, "the class SwallowReceipts; write SwallowReceipts()"),
        ([DropLink()], "several in one argument: [DropLink("),
        ("drop", "'drop'"),
        (None, "None"),
    ],
)
async def test_fault_when_it_is_none_then_refused_with_the_name_of_the_call(
    broker: Broker, client: RawClient, fault: object, got: str
) -> None:
    said = re.escape(f"() takes faults such as DropLink(), got {got}")
    with pytest.raises(TypeError, match=f"^plan{said}"):
        broker.faults.plan(fault)  # type: ignore[arg-type]  # what is refused
    with pytest.raises(TypeError, match=f"^now{said}"):
        broker.faults.now(fault)  # type: ignore[arg-type]  # what is refused
    with pytest.raises(TypeError, match=f"^apply{said}"):
        broker.sessions[0].apply(fault)  # type: ignore[arg-type]  # what is refused

    await client.confirmed(Command.SEND, destination="/queue/a")


async def test_faults_when_they_could_do_nothing_then_refused(broker: Broker) -> None:  # noqa: ASYNC124  # its broker needs a loop
    faults = broker.faults

    with pytest.raises(ValueError, match=r"write plan\(RefuseConnection\(\)\)"):
        faults.now(RefuseConnection())
    with pytest.raises(ValueError, match="connections must be an int of at least 0 or None, got -1"):
        faults.plan(DropLink(), connections=-1)
    with pytest.raises(ValueError, match="skip must be an int of at least 0, got -1"):
        faults.plan(DropLink(), skip=-1)


@pytest.mark.parametrize(
    ("message", "details", "receipt_id", "said"),
    [
        (b"full", "", None, "message must be a str, got b'full'"),
        ("full", b"why", None, "details must be a str, got b'why'"),
        ("full", "", 1, "receipt_id must be a str or None, got 1"),
    ],
)
async def test_error_when_it_is_no_text_then_refused_and_nothing_is_sent(
    broker: Broker, client: RawClient, message: str, details: str, receipt_id: str, said: str
) -> None:
    with pytest.raises(TypeError, match=re.escape(said)):
        broker.faults.send_error(message, details, receipt_id=receipt_id)

    await client.confirmed(Command.SEND, destination="/queue/a")


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
        ([ReverseReceipts(group=3, skip=1, count=2)], ["1", "3", "2", "4"]),
        ([DelayReceipts(seconds=5)], ["2", "3", "4", "1"]),
        ([SwallowReceipts(), DuplicateReceipts()], ["2", "2", "3", "4"]),
        ([ReverseReceipts(), DuplicateReceipts()], ["2", "2", "1", "1", "4", "3"]),
    ],
)
async def test_receipts_when_rules_are_set_then_come_as_the_rules_say(
    broker: Broker, client: RawClient, rules: list[Fault], expected: list[str]
) -> None:
    broker.faults.now(*rules)

    for receipt in "1234":
        await client.send("/queue/a", receipt=receipt)

    assert await receipts(client, len(expected)) == expected
    await client.expect_nothing()
    assert broker.depth("/queue/a") == 4


async def test_delayed_receipt_when_due_then_comes_after_so_many_seconds(broker: Broker) -> None:
    broker.faults.plan(DelayReceipts(seconds=15, command=Command.DISCONNECT))
    client = await connected(broker)
    start = anyio.current_time()

    await client.write(Command.DISCONNECT, receipt="bye")
    await client.expect(Command.RECEIPT, receipt_id="bye")

    assert anyio.current_time() - start == pytest.approx(15)
    await client.expect_eof()


@pytest.mark.parametrize(
    ("fault", "answer"),
    [
        (
            AnswerConnect(error="go away"),
            b"ERROR\nmessage:go away\ncontent-type:text/plain\ncontent-length:7\n\ngo away\0\n",
        ),
        (AnswerConnect(data=b"HTTP/1.1 400 Bad Request\r\n\r\n", close=True), b"HTTP/1.1 400 Bad Request\r\n\r\n"),
        (AnswerConnect(close=True), b""),
    ],
    ids=["error", "bytes", "nothing"],
)
async def test_connect_when_a_fault_answers_then_only_that_comes_and_the_link_is_closed(
    broker: Broker, fault: Fault, answer: bytes
) -> None:
    broker.faults.plan(fault)
    stream = broker.connect_stream()

    await stream.send_all(CONNECT)

    received = b""
    while data := await stream.receive_some():
        received += data
    assert received == answer


@pytest.mark.parametrize(("counted", "refused"), [({}, [0]), ({"connections": 2, "skip": 1}, [1, 2])])
async def test_plan_when_connections_are_counted_then_only_those_are_met(
    broker: Broker, counted: dict[str, int], refused: list[int]
) -> None:
    broker.faults.plan(RefuseConnection(), **counted)

    for number in range(4):
        if number in refused:
            await RawClient(broker.connect_stream()).expect_eof()
        else:
            await connected(broker)
    assert broker.statistics().connections == 4


async def test_plan_when_for_all_then_holds_until_cleared(broker: Broker) -> None:
    broker.faults.plan(RefuseConnection(), connections=None)
    for _ in range(3):
        await RawClient(broker.connect_stream()).expect_eof()

    broker.faults.clear()

    await connected(broker)


async def test_drop_when_bytes_are_counted_then_a_frame_is_cut(broker: Broker, client: RawClient) -> None:
    before = len(client.data)
    broker.faults.now(DropLink(after_sent_bytes=10))

    await client.send("/queue/a", receipt="r")
    await client.expect_eof()

    assert bytes(client.data[before:]) == b"RECEIPT\nre"
    await broker.wait_until(lambda: not broker.sessions)
    assert broker.depth("/queue/a") == 1


async def test_drop_when_received_bytes_are_counted_then_earlier_frames_took_effect(
    broker: Broker, client: RawClient
) -> None:
    broker.faults.now(DropLink(after_received_bytes=2 * len(SEND) + 3))

    await client.stream.send_all(SEND * 5)
    await client.expect_eof()

    await broker.wait_until(lambda: not broker.sessions)
    assert broker.depth("/queue/a") == 2


async def test_drop_when_one_session_is_named_then_the_other_stays(broker: Broker) -> None:
    one, other = await connected(broker), await connected(broker)

    broker.faults.drop(session_id=broker.sessions[0].session_id)

    await one.expect_eof()
    await other.confirmed(Command.SEND, destination="/queue/a")


async def test_half_open_when_set_then_broker_is_deaf_and_mute_and_patient(broker: Broker) -> None:
    client = await connected(broker, heart_beat="1000,1000")
    broker.faults.now(HalfOpen())

    await client.send("/queue/a", receipt="r")
    await client.expect_nothing(60)

    assert broker.depth("/queue/a") == 0
    assert len(broker.sessions) == 1
    broker.faults.resume()
    await client.confirmed(Command.SEND, destination="/queue/a")
    broker.faults.now(HalfOpen())
    await client.leave(broker)


async def test_stall_when_reading_then_input_waits_until_resume_and_the_broker_is_patient(broker: Broker) -> None:
    client = await connected(broker, heart_beat="1000,0")
    broker.faults.now(StallReading())

    await client.send("/queue/a", receipt="r")
    await client.expect_nothing(61)
    assert broker.depth("/queue/a") == 0
    broker.faults.resume()

    await client.expect(Command.RECEIPT, receipt_id="r")


@pytest.mark.parametrize(
    ("fault", "executed"),
    [
        (StallReading(after_bytes=len(CONNECT + SEND) + 3), 3),
        (HalfOpen(after_received_bytes=len(CONNECT + SEND) + 3), 1),
    ],
)
async def test_fault_when_received_bytes_are_counted_then_only_those_take_effect_before_resume(
    broker: Broker, fault: Fault, executed: int
) -> None:
    broker.faults.plan(fault)
    await broker.connect_stream().send_all(CONNECT + SEND * 3)
    await wait_all_tasks_blocked()
    assert broker.depth("/queue/a") == 1

    broker.faults.resume()
    await wait_all_tasks_blocked()

    assert broker.depth("/queue/a") == executed


async def test_stall_when_writing_then_the_rest_comes_after_resume(broker: Broker, client: RawClient) -> None:
    broker.faults.now(StallWriting(after_bytes=4))

    await client.send("/queue/a", receipt="r")
    assert await client.stream.receive_some() == b"RECE"
    await client.expect_nothing(60)
    assert broker.depth("/queue/a") == 1
    broker.faults.resume()

    assert await client.stream.receive_some() == b"IPT\nreceipt-id:r\n\n\0\n"


@pytest.mark.parametrize(("rate", "receipt"), [(100.0, "r" * 1000), (0.5, "r")])
async def test_slow_writing_when_set_then_each_byte_takes_its_time(
    broker: Broker, client: RawClient, rate: float, receipt: str
) -> None:
    before, start = len(client.data), anyio.current_time()
    broker.faults.now(SlowWriting(bytes_per_second=rate))

    await client.send("/queue/a", receipt=receipt)
    await client.expect(Command.RECEIPT)

    expected = (len(client.data) - before) / rate
    # The last piece may be there before its time has passed.
    assert expected - 2.1 < anyio.current_time() - start <= expected


async def test_bytes_when_sent_now_then_come_between_frames(broker: Broker, client: RawClient) -> None:
    garbage = b"MESSAGE\nsubscription:none\nmessage-id:1\ndestination:/queue/x\n\nspurious\0"

    broker.faults.send_bytes(garbage)

    await client.message("spurious", subscription="none")


@pytest.mark.parametrize("version", [Version.V1_0])
async def test_error_when_sent_now_then_session_ends_or_goes_on(broker: Broker, client: RawClient) -> None:
    broker.faults.send_error("first\n warning", close=False, receipt_id="r")
    await client.expect(Command.ERROR, message="first warning", receipt_id="r")
    broker.faults.send_error("fatal", "why")

    assert (await client.refused("fatal")).body == b"why"
