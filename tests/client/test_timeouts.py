"""The time limit of every call that waits: what it raises, and that the client works on as if nothing had been."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

import trio_stomp
from tests.client.clients import pieces_of
from tests.client.test_cancellation_sweep import (
    NEVER_WAIT,
    SWEPT,
    Stage,
    ack,
    ack_confirmed,
    block,
    check,
    nack_confirmed,
    send,
    send_confirmed,
    send_many,
    send_many_confirmed,
    several,
    staged,
    take_batch,
    take_last,
    wait_closed,
    watch_state,
)
from tests.kit.cancelling import SCOPES_PASS_ON_CANCELLATIONS, Moment, cancelled_at_step
from tests.kit.loops import REAL_LOOPS_OF_BROKER, lasting, on_loops, wait_all_tasks_blocked
from tests.kit.reconnecting import Host, reconnecting
from trio_stomp import (
    CommitTimeout,
    LocalProtocolError,
    Message,
    OperationTimeout,
    OutgoingMessage,
    RequestTimeout,
    Retry,
    SubscriptionEnded,
    Transaction,
    UnconfirmedError,
    UnconfirmedTimeout,
)
from trio_stomp.session import limits
from trio_stomp.testing import Broker, DelayReceipts, StallReading, SwallowReceipts, open_broker
from trio_stomp.types import AckName, Command, Settlement, TransactionState

pytestmark = pytest.mark.anyio

Call = Callable[[Stage, float | None], Awaitable[object]]

# How long the broker keeps its answers back: longer than any limit here.
LATE = 20


# --- the calls, besides those of the sweep ----------------------------------------------------------------------------


async def send_pieces(stage: Stage, timeout: float | None) -> None:
    await stage.client.send("/queue/out", pieces_of(b"pieces"), content_length=6, timeout=timeout)


async def send_pieces_confirmed(stage: Stage, timeout: float | None) -> None:
    await stage.client.send("/queue/out", pieces_of(b"pieces"), content_length=6, receipt=True, timeout=timeout)


async def leave_publisher(stage: Stage, timeout: float | None) -> None:
    async with stage.client.publisher(timeout=timeout) as publisher:
        await publisher.send("/queue/out", b"1", timeout=math.inf)


async def publish(stage: Stage, timeout: float | None) -> None:
    async with stage.client.publisher(max_in_flight=1) as publisher:
        await publisher.send("/queue/out", b"1", timeout=timeout)
        await publisher.send("/queue/out", b"2", timeout=timeout)


async def publish_many(stage: Stage, timeout: float | None) -> None:
    async with stage.client.publisher(max_in_flight=1) as publisher:
        await publisher.send_many(several(), timeout=timeout)


async def wait_confirmed(stage: Stage, timeout: float | None) -> None:
    async with stage.client.publisher() as publisher:
        await publisher.send("/queue/out", b"1")
        await publisher.wait_confirmed(timeout=timeout)


async def wait_for_one(stage: Stage, timeout: float | None) -> None:
    async with stage.client.publisher() as publisher:
        await (await publisher.send("/queue/out", b"1")).wait(timeout=timeout)


async def wait_settled(stage: Stage, timeout: float | None) -> None:
    async with stage.client.publisher() as publisher:
        await (await publisher.send("/queue/out", b"1")).wait_settled(timeout=timeout)


async def nack(stage: Stage, timeout: float | None) -> None:
    await stage.messages[0].nack(timeout=timeout)


async def ack_up_to(stage: Stage, timeout: float | None) -> None:
    await stage.subscription.ack_up_to(stage.messages[0], timeout=timeout)


async def subscribe(stage: Stage, timeout: float | None) -> None:
    async with stage.client.subscribe("/queue/other", timeout=timeout):
        raise AssertionError


async def delete(stage: Stage, timeout: float | None) -> None:
    async with stage.client.subscribe("/topic/t", durable="mine", timeout=math.inf) as durable:
        await durable.delete(timeout=timeout)


async def transact(stage: Stage, timeout: float | None) -> None:
    async with stage.client.transaction(timeout=timeout) as transaction:
        await transaction.send("/queue/out", b"1", timeout=math.inf)
        await transaction.ack(stage.messages[0], timeout=math.inf)


async def run_transaction(stage: Stage, timeout: float | None) -> None:
    async def work(transaction: Transaction) -> None:
        await transaction.send("/queue/out", b"1", timeout=math.inf)
        # It is the program's own time.
        await anyio.lowlevel.checkpoint()

    await stage.client.run_transaction(work, timeout=timeout)


async def commit(stage: Stage, timeout: float | None) -> None:
    async with stage.client.transaction() as transaction:
        await transaction.send("/queue/out", b"1")
        await transaction.commit(timeout=timeout)


@dataclass(frozen=True, slots=True)
class Reached:
    """What a call raises at its limit.

    Attributes:
        text: What its text says.
        kind: Its class.
        sent: How many messages it has sent.
        unconfirmed: How many of them the broker has not confirmed.
    """

    text: str
    kind: type[OperationTimeout] = OperationTimeout
    sent: int = 0
    unconfirmed: int = 0


MAY_HAVE_ARRIVED = r"the broker has not confirmed message '\w+-r-\d+', which may or may not have arrived$"
COMMIT_UNKNOWN = r"the broker has not confirmed COMMIT: either everything in it took effect, or nothing$"

# What waits for the broker's answer.
ANSWERED: dict[Call, Reached] = {
    send_confirmed: Reached(rf"send\(\) to '/queue/out' .*; {MAY_HAVE_ARRIVED}", sent=1, unconfirmed=1),
    send_pieces_confirmed: Reached(rf"send\(\) to '/queue/out' .*; {MAY_HAVE_ARRIVED}", sent=1, unconfirmed=1),
    send_many_confirmed: Reached(r"send_many\(\) .*; 3 messages were not confirmed: ", UnconfirmedTimeout, 3, 3),
    leave_publisher: Reached(r"leaving publisher\(\) .*; 1 message was not confirmed: ", UnconfirmedTimeout, 1, 1),
    publish: Reached(r"send\(\) of a publisher to '/queue/out' .*; nothing was sent; earlier messages that .*: 1$"),
    publish_many: Reached(r"send_many\(\) of a publisher .*; messages sent: 1; leaving the publisher waits", sent=1),
    wait_confirmed: Reached(r"wait_confirmed\(\) .*; messages that await their RECEIPT: 1; you may", unconfirmed=1),
    wait_for_one: Reached(r"wait\(\) for message '\w+-r-\d+' to '/queue/out' .*; the broker", sent=1, unconfirmed=1),
    wait_settled: Reached(r"wait_settled\(\) for message '\w+-r-\d+' .*; the broker has not", sent=1, unconfirmed=1),
    ack_confirmed: Reached(r"ack\(\) of message '.*' .*; the broker has not confirmed the ACK, which may or may not"),
    nack_confirmed: Reached(r"nack\(\) of message '.*' .*; the broker has not confirmed the NACK, which may or may"),
    subscribe: Reached(r"subscribe\(\) to '/queue/other' .*; the broker has not confirmed it, and the subscription"),
    delete: Reached(r"delete\(\) of subscription .*; it was left, and the broker may or may not have deleted it"),
    transact: Reached(rf"commit\(\) of transaction 'tx-2' .*; {COMMIT_UNKNOWN}", CommitTimeout),
    run_transaction: Reached(rf"commit\(\) of transaction 'tx-2' .*; {COMMIT_UNKNOWN}", CommitTimeout),
    commit: Reached(rf"commit\(\) of transaction 'tx-2' .*; {COMMIT_UNKNOWN}", CommitTimeout),
}

# What waits for room in the outbox.
ROOM: dict[Call, Reached] = {
    send: Reached(r"send\(\) to '/queue/out' took longer than its timeout of 5 s; nothing was sent$"),
    send_confirmed: Reached(r"send\(\) to '/queue/out' .*; nothing was sent$"),
    send_pieces: Reached(r"send\(\) to '/queue/out' .*; nothing was sent$"),
    send_pieces_confirmed: Reached(r"send\(\) to '/queue/out' .*; nothing was sent$"),
    send_many: Reached(r"send_many\(\) .*; messages sent: 0$"),
    send_many_confirmed: Reached(r"send_many\(\) .*; nothing was sent$"),
    publish: Reached(r"send\(\) of a publisher to '/queue/out' .*; nothing was sent; earlier messages that .*: 0$"),
    ack: Reached(r"ack\(\) of message .*; nothing was sent$"),
    ack_confirmed: Reached(r"ack\(\) of message .*; nothing was sent$"),
    nack: Reached(r"nack\(\) of message .*; nothing was sent$"),
    ack_up_to: Reached(r"ack_up_to\(\) of message .*; nothing was sent$"),
    subscribe: Reached(r"subscribe\(\) to '/queue/other' .*; nothing was sent$"),
    transact: Reached(r"transaction\(\) .*; nothing was sent$"),
    run_transaction: Reached(r"transaction\(\) .*; nothing was sent$"),
}

# Where the limit of 5 s comes from: the options of the client, and the argument of the call.
SOURCES: dict[str, tuple[float | None, float | None]] = {
    "argument": (None, 5),
    "default": (5, None),
    "argument-over-default": (1, 5),
}
FROM = pytest.mark.parametrize(("default", "timeout"), SOURCES.values(), ids=SOURCES)


def options(default: float | None, **more: object) -> dict[str, object]:
    return more if default is None else {"timeout": default, **more}


async def reached(stage: Stage, call: Call, timeout: float | None, expected: Reached) -> None:
    """Let a call reach its limit of 5 s."""
    with lasting(5), pytest.raises(OperationTimeout) as raised:
        await call(stage, timeout)
    error = raised.value
    assert type(error) is expected.kind
    assert isinstance(error, TimeoutError)
    assert re.match(expected.text, str(error)), error
    assert "took longer than its timeout of 5 s" in str(error)
    assert (error.sent, len(error.messages)) == (expected.sent, expected.unconfirmed)
    for message in error.messages:
        assert message.destination == "/queue/out"
        assert message.delivery is trio_stomp.DeliveryStatus.UNKNOWN


async def works_on(stage: Stage) -> None:
    """The client and the connection are as good as before."""
    with anyio.fail_after(600):
        await stage.client.send("/queue/after", b"", receipt=True, timeout=math.inf)
        await stage.messages[1].ack(receipt=True, timeout=math.inf)
        # Late RECEIPTs come meanwhile.
        await anyio.sleep(LATE)
        await stage.client.send("/queue/after", b"", receipt=True, timeout=math.inf)
    statistics = stage.client.statistics()
    assert (statistics.receipts_pending, statistics.unconfirmed, statistics.reconnections) == (0, 0, 0)
    stage.frames()


@FROM
@pytest.mark.parametrize("call", ANSWERED)
async def test_call_when_the_broker_is_silent_then_raises_at_its_limit_and_the_client_works_on(
    call: Call, default: float | None, timeout: float | None
) -> None:
    async with staged(**options(default)) as stage:
        # Not of what the call needs before.
        command = Command.UNSUBSCRIBE if call is delete else None
        stage.broker.faults.now(DelayReceipts(seconds=LATE, count=None if command is None else 1, command=command))
        await reached(stage, call, timeout, ANSWERED[call])
        assert stage.client.statistics().unconfirmed == 0  # nor would it be sent again
        await works_on(stage)


@FROM
@pytest.mark.parametrize("call", ROOM)
async def test_call_when_there_is_no_room_then_raises_at_its_limit_and_the_client_works_on(
    call: Call, default: float | None, timeout: float | None
) -> None:
    async with staged(**options(default, outbox_bytes=10)) as stage:
        before = await fill(stage)
        await reached(stage, call, timeout, ROOM[call])
        stage.broker.faults.resume()
        await works_on(stage)
        # Nothing of it was sent.
        assert stage.broker.depth("/queue/out") == 0
        assert stage.messages[0].settlement is Settlement.UNSETTLED
        assert stage.sent(Command.BEGIN) == stage.sent(Command.ABORT)
        assert stage.client.statistics().frames_sent == before + 3
        await stage.messages[0].ack()


async def fill(stage: Stage, seconds: float | None = None) -> int:
    """Let the broker stop reading, and fill the outbox; return how many frames were sent."""
    stage.broker.faults.now(StallReading())
    await wait_all_tasks_blocked()
    while stage.client.statistics().outbox_bytes <= 10:  # until the link holds no more
        await stage.client.send("/queue/fill", b"x" * 100_000, timeout=seconds)
        await anyio.sleep(0.1)
    return stage.client.statistics().frames_sent


# --- what is not lost -------------------------------------------------------------------------------------------------


async def test_receive_when_no_message_comes_then_raises_at_its_limit_and_takes_none() -> None:
    async with staged(timeout=1) as stage:
        stage.taken += [await stage.subscription.receive() for _ in range(2)]
        said = r"receive\(\) from '/queue/in' took longer than its timeout of 5 s; no"

        with lasting(5), pytest.raises(OperationTimeout, match=said):
            await stage.subscription.receive(timeout=5)

        assert stage.subscription.statistics().waiting == 0
        stage.publish()
        assert (await stage.subscription.receive()).body == b"4"


async def test_receive_when_there_is_no_limit_then_that_of_the_client_is_not_its_limit() -> None:
    async with staged(timeout=1) as stage, anyio.create_task_group() as group:
        stage.taken += [await stage.subscription.receive() for _ in range(2)]
        late = partial(publish_after, stage, 30)

        group.start_soon(late)
        assert (await stage.subscription.receive()).body == b"4"
        group.start_soon(late)
        assert [each.body for each in await stage.subscription.receive_batch(9)] == [b"5"]
        group.start_soon(late)
        assert (await anext(stage.subscription)).body == b"6"
        group.start_soon(late)
        assert [each.body async for each in stage.subscription.messages(timeout=40)] == [b"7"]


async def publish_after(stage: Stage, seconds: float) -> None:
    await anyio.sleep(seconds)
    stage.publish()


async def receive(stage: Stage, timeout: float) -> list[Message]:
    return [await stage.subscription.receive(timeout=timeout)]


async def receive_batch(stage: Stage, timeout: float) -> list[Message]:
    return await stage.subscription.receive_batch(3, timeout=timeout)


async def receive_batch_lingering(stage: Stage, timeout: float) -> list[Message]:
    return await stage.subscription.receive_batch(3, linger=1, timeout=timeout)


async def iterate(stage: Stage, timeout: float) -> list[Message]:
    return [message async for message in stage.subscription.messages(timeout=timeout)]


@pytest.mark.parametrize("ack", ["auto", "client-individual"])
@pytest.mark.parametrize("take", [receive, receive_batch, receive_batch_lingering, iterate])
async def test_receive_when_messages_come_as_its_limit_is_reached_then_none_is_lost(
    take: Callable[[Stage, float], Awaitable[list[Message]]], ack: AckName
) -> None:
    """At the same moment, and a little before and after it."""
    count = 60
    async with staged() as stage, stage.client.subscribe("/queue/many", ack=ack, prefetch=1000) as subscription:
        stage.subscription = subscription
        taken: list[bytes] = []
        reached = 0

        async def publish() -> None:
            for number in range(count):
                stage.broker.publish("/queue/many", b"%d" % number)
                await anyio.sleep(1 + 0.001 * (number % 3 - 1))

        async with anyio.create_task_group() as group:
            group.start_soon(publish)
            with anyio.fail_after(600):
                while len(taken) < count:
                    try:
                        taken += [message.body for message in await take(stage, 1)]
                    except OperationTimeout:
                        reached += 1
        assert taken == [b"%d" % number for number in range(count)]
        assert reached or take is iterate


async def test_receive_batch_when_its_limit_is_reached_while_it_lingers_then_what_has_come_is_returned() -> None:
    async with staged() as stage:
        with lasting(5):
            batch = await stage.subscription.receive_batch(10, linger=60, timeout=5)

        assert [message.body for message in batch] == [b"2", b"3"]


async def test_receive_batch_when_the_connection_is_lost_while_it_lingers_then_its_limit_is_as_it_was(
    broker: Broker, host: Host
) -> None:
    async with reconnecting(host) as client, client.subscribe("/queue/in") as subscription:
        broker.publish("/queue/in", b"1")

        async def lose() -> None:
            await anyio.sleep(1)
            host.go_down()

        async with anyio.create_task_group() as group:
            group.start_soon(lose)
            with lasting(5), pytest.raises(OperationTimeout):
                await subscription.receive_batch(10, linger=3, timeout=5)


async def test_receive_when_the_subscription_has_ended_then_says_so_and_a_loop_around_messages_ends() -> None:
    async with staged() as stage:
        async with stage.client.subscribe("/queue/none") as left:
            pass
        with pytest.raises(SubscriptionEnded, match="subscription 's-2' to '/queue/none' was left, or has no more"):
            await left.receive()
        with pytest.raises(SubscriptionEnded):
            for _ in range(10):
                async for _ in left.messages(timeout=1):
                    raise AssertionError
        assert await left.receive_batch(1) == []


async def test_messages_when_a_flag_is_set_while_none_come_then_a_loop_that_looks_at_it_ends() -> None:
    async with staged() as stage, anyio.create_task_group() as group:
        stopping = False

        async def stop() -> None:
            nonlocal stopping
            await anyio.sleep(10.5)
            stopping = True

        group.start_soon(stop)
        group.start_soon(publish_after, stage, 3)
        while not stopping:
            async for message in stage.subscription.messages(timeout=1):
                await message.ack()
                stage.taken.append(message)
        assert anyio.current_time() == pytest.approx(11, abs=0.1)
        assert [message.body for message in stage.taken] == [b"2", b"3", b"4"]


async def test_messages_when_the_subscription_is_left_meanwhile_then_they_end() -> None:
    async with staged() as stage, anyio.create_task_group() as group:
        ended = anyio.Event()
        async with stage.client.subscribe("/queue/none") as left:

            async def iterate() -> None:
                async for _ in left.messages(timeout=math.inf):
                    pass
                ended.set()

            group.start_soon(iterate)
            await wait_all_tasks_blocked()
            assert not ended.is_set()
        await ended.wait()


async def test_messages_when_a_queue_is_browsed_then_they_end_after_the_last_one() -> None:
    async with staged() as stage:
        stage.broker.publish("/queue/b", b"1")
        async with stage.client.subscribe("/queue/b", browse=True) as browsed:
            assert [message.body async for message in browsed.messages(timeout=60)] == [b"1"]


async def test_publisher_when_a_send_has_reached_its_limit_then_its_window_and_its_order_are_given_back() -> None:
    async with staged() as stage:
        stage.broker.faults.now(DelayReceipts(seconds=LATE))
        async with stage.client.publisher(max_in_flight=1) as publisher:
            await publisher.send("/queue/out", b"1")
            for _ in range(3):
                with pytest.raises(OperationTimeout):
                    await publisher.send("/queue/out", b"2", timeout=1)
            assert publisher.in_flight == 1
            with anyio.fail_after(LATE):
                await publisher.send("/queue/out", b"3")
        assert publisher.confirmed == 2
        assert stage.broker.depth("/queue/out") == 2


async def test_publisher_when_leaving_reaches_its_limit_then_what_was_refused_is_listed_too() -> None:
    async with staged() as stage:
        with pytest.raises(UnconfirmedTimeout) as raised:
            async with stage.client.publisher(timeout=5) as publisher:
                stage.broker.faults.now(DelayReceipts(seconds=LATE, count=2))
                await publisher.send("/queue/out", b"1")
                await publisher.send("/queue/out", b"2")
                await publisher.send("/queue/out", b"3")
        error = raised.value
        assert isinstance(error, UnconfirmedError)
        assert [each.id for each in error.messages] == sorted(each.id for each in error.messages)
        assert (error.sent, len(error.messages)) == (3, 2)
        assert not hasattr(error, "__notes__")  # its text says it all
        await works_on(stage)


async def test_transaction_when_a_call_has_reached_its_limit_then_it_is_open_and_can_be_committed() -> None:
    async with staged(outbox_bytes=10) as stage:
        async with stage.client.transaction() as transaction:
            await fill(stage)
            calls = (
                ("send", partial(transaction.send, "/queue/out", b"lost", timeout=1)),
                ("send", partial(transaction.send, "/queue/out", pieces_of(b"pieces"), content_length=6, timeout=1)),
                ("send_many", partial(transaction.send_many, several(), timeout=1)),
                ("ack", partial(transaction.ack, stage.messages[0], timeout=1)),
                ("nack", partial(transaction.nack, stage.messages[0], timeout=1)),
                ("commit", partial(transaction.commit, timeout=1)),
            )
            for name, call in calls:
                why = rf"^{name}\(\) .*in transaction 'tx-2' .* is still open$|COMMIT was not sent"
                with pytest.raises(OperationTimeout, match=why):
                    await call()
                assert transaction.state is TransactionState.OPEN
            stage.broker.faults.resume()
            await transaction.send("/queue/out", b"kept", timeout=60)
            await transaction.ack(stage.messages[0], timeout=60)
        assert transaction.state is TransactionState.COMMITTED
        assert [message.body for message in stage.broker.messages("/queue/out")] == [b"kept"]
        assert stage.messages[0].settlement is Settlement.ACKED


async def test_body_when_the_limit_is_reached_in_the_middle_of_it_then_the_connection_ends_and_the_error_says_so() -> (
    None
):
    async def slow() -> AsyncIterator[bytes]:  # noqa: ASYNC900  # what a program sends
        yield b"1"
        await anyio.sleep(60)

    for receipt in (False, True):
        broker: Broker | None = None
        with pytest.raises(OperationTimeout, match="its body had been sent in part, so the connection has ended, and"):
            async with staged() as stage:
                broker = stage.broker
                await stage.client.send("/queue/out", slow(), content_length=2, receipt=receipt, timeout=5)
        assert broker is not None
        assert broker.depth("/queue/out") == 0


async def test_leaving_a_message_when_there_is_no_room_then_the_limit_of_the_client_counts_and_it_stays_unsettled() -> (
    None
):
    async with staged(timeout=5, outbox_bytes=10) as stage:
        with pytest.raises(OperationTimeout, match=r"ack\(\) of message .*; nothing was sent$"):
            async with stage.messages[0]:
                await fill(stage)
        assert stage.messages[0].settlement is Settlement.UNSETTLED
        stage.broker.faults.resume()
        await stage.messages[0].ack()


async def test_work_when_the_broker_is_slow_then_the_limit_of_the_client_does_not_end_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Neither its ACKs, which wait for room, nor its dead letters, whose COMMIT is not answered."""
    async with staged(timeout=1, outbox_bytes=10) as stage:

        async def handle(message: Message) -> None:
            if message.body == b"2":
                stage.broker.faults.now(DelayReceipts(seconds=LATE, command=Command.COMMIT))
                raise ValueError
            await fill(stage, seconds=math.inf)

        with anyio.move_on_after(2 * LATE) as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(
                    partial(stage.subscription.work, handle, retry=Retry(attempts=1), dead_letter="/queue/d")
                )
                await anyio.sleep(LATE / 4)
                stage.broker.faults.resume()
        assert scope.cancelled_caught
        assert stage.broker.depth("/queue/d") == 1
        assert "may be redelivered" not in caplog.text
        assert stage.subscription.statistics().unsettled == len(stage.messages)


async def test_work_when_its_limit_is_reached_then_running_handlers_finish_and_the_rest_goes_back() -> None:
    async with staged() as stage:
        handled: list[bytes] = []

        async def handle(message: Message) -> None:
            await anyio.sleep(7)
            handled.append(message.body)

        said = r"work\(\) on '/queue/in' .* of 5 s; no further message is started, and"
        with lasting(7), pytest.raises(OperationTimeout, match=said):
            await stage.subscription.work(handle, workers=1, timeout=5)
        assert handled == [b"2"]
        await works_on(stage)


async def test_client_when_messages_are_sent_again_one_by_one_then_its_limit_does_not_end_that(broker: Broker) -> None:
    """After an ERROR that names no frame, each is awaited in the background, for as long as the broker takes."""
    async with reconnecting(broker, timeout=1) as client, client.publisher(timeout=math.inf) as publisher:
        broker.faults.now(SwallowReceipts(count=None))
        broker.faults.plan(DelayReceipts(seconds=5, count=None))
        for _ in range(3):
            await publisher.send("/queue/out", b"1")
        await anyio.sleep(0.1)
        broker.faults.send_error("something", "", close=True)
        await publisher.wait_confirmed(timeout=math.inf)
        assert publisher.confirmed == 3
        assert client.statistics().reconnections == 1
        assert anyio.current_time() > 15


# --- the end of a client ----------------------------------------------------------------------------------------------


@FROM
async def test_disconnect_when_its_limit_is_reached_then_nothing_more_is_sent_and_leaving_closes_at_once(
    broker: Broker, default: float | None, timeout: float | None
) -> None:
    with lasting(5):
        async with trio_stomp.connect_stream(broker.connect_stream(), timeout=default) as client:
            broker.faults.now(DelayReceipts(seconds=LATE))
            with pytest.raises(OperationTimeout, match=r"disconnect\(\) .*; nothing more can be sent, and leaving"):
                await client.disconnect(timeout=timeout)
            with pytest.raises(trio_stomp.ConnectionClosed):
                await client.send("/queue/out", b"")


async def test_disconnect_when_the_limit_of_the_graceful_shutdown_is_earlier_then_returns_as_before(
    broker: Broker,
) -> None:
    async with trio_stomp.connect_stream(broker.connect_stream(), timeout=11) as client:
        broker.faults.now(DelayReceipts(seconds=LATE))
        assert await client.disconnect() is trio_stomp.DisconnectResult.TIMEOUT


async def test_leaving_when_the_client_has_a_limit_then_the_one_of_the_graceful_shutdown_counts(
    broker: Broker,
) -> None:
    with lasting(10):
        async with trio_stomp.connect_stream(broker.connect_stream(), timeout=1):
            broker.faults.now(DelayReceipts(seconds=LATE))


async def test_wait_closed_when_the_client_goes_on_then_raises_at_its_limit_and_has_no_other(broker: Broker) -> None:
    async with trio_stomp.connect_stream(broker.connect_stream(), timeout=1) as client:
        with pytest.raises(OperationTimeout, match=r"wait_closed\(\) .* of 5 s; the client is not closed$"):
            await client.wait_closed(timeout=5)
        with anyio.move_on_after(60) as scope:
            await client.wait_closed()
        assert scope.cancelled_caught
        await client.send("/queue/out", b"", receipt=True)


# --- zero, infinity, and what is no number ----------------------------------------------------------------------------


async def test_timeout_when_zero_then_what_needs_no_waiting_is_done() -> None:
    async with staged() as stage:
        client, subscription = stage.client, stage.subscription
        for number in range(200):
            await client.send("/queue/out", b"%d" % number, timeout=0)
        await client.send_many([OutgoingMessage("/queue/out", b"")] * 200, timeout=0)
        async with client.publisher(timeout=60) as publisher:
            await publisher.send_many([OutgoingMessage("/queue/out", b"")] * 200, timeout=0)
            for _ in range(50):
                await publisher.send("/queue/out", b"", timeout=0)
            publication = await publisher.send("/queue/out", b"", timeout=0)
            await publisher.wait_confirmed()
            await publisher.wait_confirmed(timeout=0)
            await publication.wait(timeout=0)
            await publication.wait_settled(timeout=0)
        async with client.publisher(timeout=0):
            pass
        async with client.transaction() as transaction:
            for _ in range(100):
                await transaction.send("/queue/out", b"", timeout=0)
            await transaction.send_many([OutgoingMessage("/queue/out", b"")] * 100, timeout=0)
        assert [message.body for message in await subscription.receive_batch(1, linger=60, timeout=0)] == [b"2"]
        assert (await subscription.receive(timeout=0)).body == b"3"
        await stage.messages[0].ack(timeout=0)
        await subscription.ack_up_to(stage.messages[1], timeout=0)
        for _ in range(200):
            stage.publish()
            await wait_all_tasks_blocked()
            async for message in subscription.messages(timeout=0):
                await message.ack(timeout=0)
        assert subscription.statistics().delivered == 204


@pytest.mark.parametrize("call", [send_confirmed, leave_publisher, ack_confirmed, subscribe, transact, wait_for_one])
async def test_timeout_when_zero_then_what_waits_for_the_broker_raises_in_no_time(call: Call) -> None:
    async with staged() as stage:
        with lasting(0), pytest.raises(OperationTimeout, match="took longer than its timeout of 0 s"):
            await call(stage, 0)
        await works_on(stage)


async def test_receive_when_polled_with_a_limit_of_zero_then_the_rest_of_the_program_runs() -> None:
    async with staged() as stage, anyio.create_task_group() as group:
        taken = 0
        group.start_soon(publish_after, stage, 0)
        with anyio.fail_after(60):
            while taken < 3:
                try:
                    await stage.subscription.receive(timeout=0)
                    taken += 1
                except OperationTimeout:
                    pass


@pytest.mark.parametrize(
    "call", [send_confirmed, leave_publisher, ack_confirmed, transact, wait_confirmed, wait_settled]
)
async def test_timeout_when_infinite_then_there_is_no_limit_whatever_the_default_is(call: Call) -> None:
    async with staged(timeout=1) as stage:
        stage.broker.faults.now(DelayReceipts(seconds=LATE))
        await call(stage, math.inf)
        assert anyio.current_time() >= LATE


BAD = [-1, -0.001, math.nan, -math.inf, True, False, "5", b"5", (5,), 5j]


@pytest.mark.parametrize("value", BAD, ids=repr)
async def test_timeout_when_no_number_of_seconds_then_each_call_says_what_was_expected_and_does_nothing(
    value: float,
) -> None:
    async with (
        staged() as stage,
        stage.client.publisher() as publisher,
        stage.client.transaction() as transaction,
    ):
        publication = await publisher.send("/queue/out", b"1")
        await publication.wait()
        client, subscription, message = stage.client, stage.subscription, stage.messages[0]
        before = client.statistics().frames_sent

        async def handle(_message: Message) -> None:
            await anyio.lowlevel.checkpoint()
            raise AssertionError

        calls: list[Callable[[], Awaitable[object]]] = [
            *(partial(call, stage, value) for call in {*ANSWERED, *ROOM} - {publish, publish_many, commit, delete}),
            partial(publisher.send, "/queue/out", b"", timeout=value),
            partial(publisher.send_many, several(), timeout=value),
            partial(publisher.wait_confirmed, timeout=value),
            partial(publication.wait, timeout=value),
            partial(publication.wait_settled, timeout=value),
            partial(transaction.send, "/queue/out", b"", timeout=value),
            partial(transaction.send_many, several(), timeout=value),
            partial(transaction.ack, message, timeout=value),
            partial(transaction.nack, message, timeout=value),
            partial(transaction.commit, timeout=value),
            partial(subscription.receive, timeout=value),
            partial(subscription.receive_batch, 1, timeout=value),
            partial(subscription.delete, timeout=value),
            partial(subscription.work, handle, timeout=value),
            partial(client.request, "/queue/out", b"", timeout=value),
            partial(client.disconnect, timeout=value),
            partial(client.aclose, timeout=value),
            partial(client.wait_closed, timeout=value),
        ]
        for call in calls:
            with pytest.raises(LocalProtocolError, match=re.escape(f"or None for the default; got {value!r}")):
                await call()
        with pytest.raises(LocalProtocolError, match=r"timeout must be a number of seconds, 0 or more"):
            subscription.messages(timeout=value)
        assert client.statistics().frames_sent - before <= 3  # of wait_confirmed, wait_for_one and wait_settled


@pytest.mark.parametrize("value", [*BAD, 0, 0.0], ids=repr)
async def test_default_when_no_number_of_seconds_then_connecting_says_what_was_expected(
    broker: Broker, value: float
) -> None:
    with pytest.raises(LocalProtocolError, match=r"^timeout must be .* got "):
        async with trio_stomp.connect_stream(broker.connect_stream(), timeout=value):
            raise AssertionError


async def test_request_when_the_client_has_a_limit_then_needs_none_of_its_own(broker: Broker) -> None:
    async with trio_stomp.connect_stream(broker.connect_stream(), timeout=5) as client:
        with lasting(5), pytest.raises(RequestTimeout, match="no reply to the request to '/queue/unserved' within 5 s"):
            await client.request("/queue/unserved", b"")
        with pytest.raises(RequestTimeout, match="within 7 s"):
            await client.request("/queue/unserved", b"", timeout=7)


async def test_request_when_there_is_no_limit_at_all_then_asks_for_one(broker: Broker) -> None:
    async with trio_stomp.connect_stream(broker.connect_stream()) as client:
        with pytest.raises(LocalProtocolError, match=r"request\(\) needs timeout=.* or pass timeout= to connect\(\)"):
            await client.request("/queue/unserved", b"")


# --- at every step ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("moment", Moment)
@pytest.mark.parametrize("operation", SWEPT)
async def test_operation_when_its_limit_is_reached_at_any_step_then_nothing_is_lost_torn_or_left(
    operation: Callable[[Stage], Awaitable[object]], moment: Moment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As canceled in all other ways, in test_cancellation_sweep."""
    open_scopes: list[anyio.CancelScope] = []
    reached = 0

    def opened(deadline: float) -> anyio.CancelScope:
        open_scopes.append(anyio.CancelScope(deadline=deadline))
        return open_scopes[-1]

    def strike() -> None:
        for scope in open_scopes:  # a scope that is over takes no notice
            scope.cancel()

    async def limited() -> None:
        nonlocal reached
        try:
            await operation(stage)
        except* OperationTimeout:
            reached += 1

    monkeypatch.setattr(limits, "move_on_at", opened)
    for step in range(1, 400):
        async with staged(timeout=1e6) as stage:
            open_scopes.clear()
            outcome = await cancelled_at_step(limited, step, moment=moment, strike=strike)
            await stage.quiesce()
            check(stage)
        if not outcome.reached:
            break
    # What is woken already goes on, and its limit is not reached.
    assert reached or moment is Moment.WOKEN or operation in {*NEVER_WAIT, *WITHOUT_DEFAULT}


# The limit of the client is not theirs, or they never come to where it is.
WITHOUT_DEFAULT = {take_last, take_batch, block, wait_closed, watch_state}


# --- on real loops, over sockets --------------------------------------------------------------------------------------


@on_loops(*REAL_LOOPS_OF_BROKER)
async def test_client_when_the_broker_is_silent_on_a_real_loop_then_its_limit_ends_each_call(tmp_path: Path) -> None:
    file = tmp_path / "body"
    file.write_bytes(b"file")
    async with (
        open_broker() as broker,
        trio_stomp.connect(broker.url, heart_beat=(0, 0), timeout=0.02) as client,
        client.subscribe("/queue/in", timeout=60) as subscription,
    ):
        with pytest.raises(OperationTimeout):
            await subscription.receive(timeout=0.01)
        assert [message async for message in subscription.messages(timeout=0.01)] == []
        broker.faults.now(SwallowReceipts(count=5))
        # A file is read in a thread, which takes its time.
        for body, limit in ((b"bytes", None), (file, 1)):
            with pytest.raises(OperationTimeout, match="which may or may not have arrived"):
                await client.send("/queue/out", body, receipt=True, timeout=limit)
        with pytest.raises(UnconfirmedTimeout):
            await client.send_many(several(), receipt=True)
        await client.send("/queue/out", file, receipt=True, timeout=60)
        assert client.statistics().reconnections == 0
    assert broker.depth("/queue/out") == 6


# --- limits of the program's own --------------------------------------------------------------------------------------


@pytest.mark.parametrize("timeout", [9, None])
@pytest.mark.parametrize("call", [send_confirmed, leave_publisher, transact, subscribe])
async def test_call_when_a_scope_of_the_program_ends_first_then_that_is_what_ends_it(
    call: Call, timeout: float | None
) -> None:
    async with staged(timeout=9) as stage:
        stage.broker.faults.now(DelayReceipts(seconds=LATE))
        with anyio.move_on_after(5) as scope:
            await call(stage, timeout)
        assert scope.cancelled_caught
        await works_on(stage)


@pytest.mark.parametrize("own", ["scope", "asyncio"])
@pytest.mark.parametrize("call", [send_confirmed, leave_publisher, transact, subscribe, ack_confirmed])
async def test_call_when_both_end_at_once_then_one_of_them_is_raised_and_the_client_works_on(
    call: Call, own: str, anyio_backend_name: str
) -> None:
    if own == "asyncio" and anyio_backend_name == "trio":
        pytest.skip("it is asyncio's")
    async with staged() as stage:
        stage.broker.faults.now(DelayReceipts(seconds=LATE))
        deadline = anyio.current_time() + 5
        if own == "asyncio":
            with pytest.raises(TimeoutError):
                async with asyncio.timeout_at(deadline):
                    await call(stage, 5)
            task = asyncio.current_task()
            assert task is not None
            assert task.cancelling() == 0
        else:
            with anyio.CancelScope(deadline=deadline), suppress(OperationTimeout):
                await call(stage, 5)
        assert anyio.current_time() == pytest.approx(deadline)
        await works_on(stage)


@on_loops("asyncio")
@pytest.mark.skipif(not SCOPES_PASS_ON_CANCELLATIONS, reason="anyio before 4.16 loses such a cancellation")
async def test_task_when_canceled_as_the_limit_is_reached_then_it_is_canceled() -> None:
    async with staged() as stage:
        stage.broker.faults.now(DelayReceipts(seconds=LATE))
        task = asyncio.create_task(stage.client.send("/queue/out", b"1", receipt=True, timeout=5))
        await asyncio.sleep(5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await works_on(stage)


@on_loops("asyncio")
async def test_call_when_the_task_cleans_up_after_a_cancellation_then_its_limit_still_raises_its_error() -> None:
    """``finally: await client.send(..., timeout=5)``, in a task of asyncio that was canceled."""
    async with staged() as stage:
        stage.broker.faults.now(DelayReceipts(seconds=LATE))
        raised: list[BaseException] = []

        async def clean_up() -> None:
            try:
                await asyncio.sleep(60)
            finally:
                with pytest.raises(OperationTimeout) as error:
                    await stage.client.send("/queue/out", b"1", receipt=True, timeout=5)  # noqa: ASYNC102  # see above
                raised.append(error.value)

        task = asyncio.create_task(clean_up())
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(raised) == 1
        await works_on(stage)


async def test_call_when_there_is_no_limit_then_no_scope_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scope would cost each call, and most programs have no limit."""
    opened: list[float] = []
    monkeypatch.setattr(limits, "move_on_at", opened.append)
    async with staged() as stage:
        for call in (send, send_confirmed, send_many, send_many_confirmed, leave_publisher, transact, ack, nack):
            with suppress(LocalProtocolError):  # the message is settled already
                await call(stage, None)
            with suppress(LocalProtocolError):
                await call(stage, math.inf)
        await stage.subscription.receive()
        await stage.subscription.receive_batch(1)
    assert opened == []


async def test_send_when_the_client_is_reconnecting_then_the_error_says_that_there_is_no_connection(
    broker: Broker, host: Host
) -> None:
    async with reconnecting(host, timeout=1) as client:
        host.go_down()
        await anyio.sleep(0.1)
        with pytest.raises(OperationTimeout, match=r"; nothing was sent \(there is no connection now\)$"):
            await client.send("/queue/out", b"1")
        host.refuses = False
        await client.send("/queue/out", b"2", receipt=True, timeout=60)
    assert broker.depth("/queue/out") == 1
