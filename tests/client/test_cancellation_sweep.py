"""Every public operation, cancelled at each of its steps in turn, in each way in which a program can cancel it.

After each: the peer saw whole frames only; no message, receipt or acknowledgment was lost or doubled; no task is left;
and the client works on. A test at the end compares what is swept with the public API.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial

import anyio
import anyio.lowlevel
import pytest

import trio_stomp
from tests.client import test_transports
from tests.kit.cancelling import Moment, Outcome, Way, cancelled_at_step, in_each_way
from tests.kit.loops import LOOPS_OF_BROKER, LoopName, nothing_left, wait_all_tasks_blocked
from tests.kit.tapped_stream import TappedStream, frames_of
from trio_stomp import Client, Message, OutgoingMessage, Subscription, Transaction
from trio_stomp.testing import Broker, DelayReceipts, open_broker
from trio_stomp.types import Command, Frame, Settlement, TransactionState

pytestmark = pytest.mark.anyio
in_each_way_there_is = in_each_way(*LOOPS_OF_BROKER)
SHUFFLED: tuple[LoopName, ...] = ("asyncio-shuffled",) if "asyncio" in LOOPS_OF_BROKER else ()

# More steps than any operation here makes: a sweep that gets so far does not end by itself, and is wrong.
_TOO_MANY = 400


class Steps:
    """The steps of an operation, one after the other until one is not reached.

    Attributes:
        cancelled: At how many of them it was cancelled.
    """

    def __init__(self) -> None:
        self.cancelled = 0
        self._are_over = False

    def __iter__(self) -> Iterator[int]:
        for step in range(1, _TOO_MANY):
            yield step
            if self._are_over:
                return
        raise AssertionError

    def note(self, outcome: Outcome) -> None:
        self.cancelled += outcome.cancelled
        self._are_over = not outcome.reached


@dataclass
class Stage:
    """What an operation works on, made anew for each step at which it is cancelled."""

    broker: Broker
    stream: TappedStream
    client: Client
    subscription: Subscription
    messages: list[Message]
    taken: list[Message]
    published: int = 0

    def publish(self) -> None:
        """Let the broker have one more message for the subscription."""
        self.broker.publish("/queue/in", b"%d" % self.published, [("reply-to", "/queue/out")])
        self.published += 1

    def frames(self) -> list[Frame]:
        """What the broker has been sent: whole frames, and nothing behind them."""
        frames, torn = frames_of(self.stream.sent)
        assert not torn
        return frames

    def sent(self, command: Command) -> int:
        return sum(frame.command is command for frame in self.frames())

    async def quiesce(self) -> None:
        """Show that the client works on, and that all that it has sent has arrived."""
        with anyio.fail_after(60):
            await self.client.send("/queue/after", b"", receipt=True)
        assert self.client.statistics().receipts_pending == 0


def is_deserted(broker: Broker) -> bool:
    return broker.statistics().open_connections == 0


@asynccontextmanager
async def staged(**options: object) -> AsyncGenerator[Stage]:
    async with open_broker(listen=False) as broker:
        stream = TappedStream(broker.connect_stream())
        async with (
            trio_stomp.connect_stream(stream, heart_beat=(0, 0), **options) as client,  # type: ignore[arg-type]  # passed on
            client.subscribe("/queue/in", prefetch=10) as subscription,
        ):
            stage = Stage(broker, stream, client, subscription, [], [])
            for _ in range(4):
                stage.publish()
            stage.messages += [await anext(subscription) for _ in range(2)]
            await wait_all_tasks_blocked()
            yield stage


def _nothing() -> None:
    pass


async def _no_wait() -> None:
    pass


@dataclass
class Rivals:
    """Tasks that wait for the same.

    Attributes:
        rival: What each of them does.
        before: Runs beside them, and lets there be enough for all but one.
        fill: What the first does just before, and does not wait for.
        again: Lets there be enough for one more.
    """

    stage: Stage
    rival: Callable[[], Awaitable[object]]
    before: Callable[[], Coroutine[object, object, None]] = anyio.lowlevel.checkpoint
    fill: Callable[[], Awaitable[object]] = _no_wait
    again: Callable[[], object] = _nothing

    async def compete(self) -> None:
        await self.fill()
        await self.rival()


Operation = Callable[[Stage], Awaitable[object]]


# Some take a limit as well: see test_timeouts.


async def send(stage: Stage, timeout: float | None = None) -> None:
    await stage.client.send("/queue/out", b"1", timeout=timeout)


async def send_confirmed(stage: Stage, timeout: float | None = None) -> None:
    await stage.client.send("/queue/out", b"1", receipt=True, timeout=timeout)


async def take(stage: Stage) -> None:
    stage.taken.append(await anext(stage.subscription))


async def take_last(stage: Stage) -> None:
    """Wait for a message that comes later than those that are there."""
    stage.taken += [await anext(stage.subscription) for _ in range(2)]

    async def publish_later() -> None:
        await anyio.sleep(1)
        stage.publish()

    async with anyio.create_task_group() as group:
        group.start_soon(publish_later)
        stage.taken.append(await anext(stage.subscription))


async def take_within_limits(stage: Stage) -> None:
    """Wait for messages that come later, for no longer than a limit."""
    stage.taken += await stage.subscription.receive_batch(2, timeout=60)

    async def publish_later() -> None:
        for _ in range(3):
            await anyio.sleep(1)
            stage.publish()

    async with anyio.create_task_group() as group:
        group.start_soon(publish_later)
        stage.taken.append(await stage.subscription.receive(timeout=60))
        stage.taken += await stage.subscription.receive_batch(1, linger=1, timeout=60)
        async for message in stage.subscription.messages(timeout=60):
            stage.taken.append(message)
            break


async def take_batch(stage: Stage) -> None:
    stage.taken += await stage.subscription.receive_batch(5, linger=1)


async def ack(stage: Stage, timeout: float | None = None) -> None:
    await stage.messages[0].ack(timeout=timeout)


async def ack_confirmed(stage: Stage, timeout: float | None = None) -> None:
    await stage.messages[0].ack(receipt=True, timeout=timeout)


async def nack_confirmed(stage: Stage, timeout: float | None = None) -> None:
    await stage.messages[0].nack(receipt=True, timeout=timeout)


async def ack_up_to(stage: Stage) -> None:
    await stage.subscription.ack_up_to(stage.messages[1])


async def reply(stage: Stage) -> None:
    await stage.messages[0].reply(b"1")


async def reply_confirmed(stage: Stage) -> None:
    await stage.messages[0].reply(b"1", receipt=True)


async def block(stage: Stage) -> None:
    async with stage.messages[0]:
        await anyio.sleep(1)


async def send_ack_and_send(stage: Stage, transaction: Transaction) -> None:
    await transaction.send("/queue/out", b"1")
    await transaction.ack(stage.messages[0])
    await anyio.sleep(1)
    await transaction.send("/queue/out", b"2")


async def transact(stage: Stage) -> None:
    async with stage.client.transaction() as transaction:
        await send_ack_and_send(stage, transaction)


async def transact_many(stage: Stage) -> None:
    async with stage.client.transaction() as transaction:
        await transaction.send_many([OutgoingMessage("/queue/out", b"1"), OutgoingMessage("/queue/out", b"2")])
        await transaction.nack(stage.messages[0])


async def transact_by_function(stage: Stage) -> None:
    await stage.client.run_transaction(partial(send_ack_and_send, stage))


def several() -> list[OutgoingMessage]:
    return [OutgoingMessage("/queue/out", b"%d" % number) for number in range(3)]


async def send_many(stage: Stage, timeout: float | None = None) -> None:
    await stage.client.send_many(several(), timeout=timeout)


async def send_many_confirmed(stage: Stage, timeout: float | None = None) -> None:
    await stage.client.send_many(several(), receipt=True, timeout=timeout)


async def publish(stage: Stage) -> None:
    # A window of one: the second waits for the first.
    async with stage.client.publisher(max_in_flight=1) as publisher:
        await publisher.send("/queue/out", b"1")
        publication = await publisher.send("/queue/out", b"2")
        await publication.wait()
        (publication,) = await publisher.send_many([OutgoingMessage("/queue/out", b"3")])
        await publication.wait_settled()
        await publisher.send_many([OutgoingMessage("/queue/out", b"%d" % number) for number in range(4, 7)])
        await publisher.wait_confirmed()
        await publisher.send("/queue/out", b"7")


async def subscribe(stage: Stage) -> None:
    async with stage.client.subscribe("/queue/other") as other:
        stage.broker.publish("/queue/other", b"1")
        await (await anext(other)).ack()


async def wait_closed(stage: Stage) -> None:
    with anyio.move_on_after(1):
        await stage.client.wait_closed()


async def watch_state(stage: Stage) -> None:
    with anyio.move_on_after(1):
        async for state in stage.client.state_changes():
            assert state.healthy


# What is swept here, and the names of the public API that it goes through.
SWEPT: dict[Operation, tuple[str, ...]] = {
    send: ("Client.send",),
    send_confirmed: ("Client.send",),
    send_many: ("Client.send_many",),
    send_many_confirmed: ("Client.send_many",),
    publish: (
        "Client.publisher",
        "Publisher.send",
        "Publisher.send_many",
        "Publisher.wait_confirmed",
        "Publication.wait",
        "Publication.wait_settled",
    ),
    take: ("Subscription.__anext__",),
    take_last: ("Subscription.__anext__",),
    take_within_limits: ("Subscription.receive", "Subscription.receive_batch"),
    take_batch: ("Subscription.receive_batch",),
    ack: ("Message.ack",),
    ack_confirmed: ("Message.ack",),
    nack_confirmed: ("Message.nack",),
    ack_up_to: ("Subscription.ack_up_to",),
    reply: ("Message.reply",),
    reply_confirmed: ("Message.reply",),
    block: ("Message.__aenter__", "Message.__aexit__"),
    transact: ("Client.transaction", "Transaction.send", "Transaction.ack"),
    transact_many: ("Client.transaction", "Transaction.send_many", "Transaction.nack"),
    transact_by_function: ("Client.run_transaction",),
    subscribe: ("Client.subscribe",),
    wait_closed: ("Client.wait_closed",),
    watch_state: ("StateChanges.__anext__",),
}
# No await of theirs has to wait when there is room: that is their promise.
NEVER_WAIT = {send, send_many, take, ack, ack_up_to, reply}


@in_each_way_there_is
@pytest.mark.parametrize("operation", SWEPT)
async def test_operation_when_cancelled_at_any_step_then_nothing_is_lost_torn_or_left(
    operation: Operation, way: Way, moment: Moment
) -> None:
    steps, step = Steps(), 0
    for step in steps:
        async with staged() as stage:
            steps.note(await cancelled_at_step(partial(operation, stage), step, way, moment))
            await stage.quiesce()
            check(stage)
    assert step > 1
    assert steps.cancelled > 0 or operation in NEVER_WAIT


def check(stage: Stage) -> None:
    """What the client believes is what the broker has seen."""
    frames = stage.frames()
    sent = Counter(frame.command for frame in frames)
    acked = {frame.headers["id"] for frame in frames if frame.command is Command.ACK}
    nacks = [frame for frame in frames if frame.command is Command.NACK]
    nacked = {frame.headers["id"] for frame in nacks}
    assert len(acked) + len(nacked) == sent[Command.ACK] + len(nacks)
    committed = sent[Command.COMMIT]
    assert sent[Command.BEGIN] == committed + sent[Command.ABORT]
    for message in stage.messages:
        name = message.headers["ack"]
        if message.settlement is Settlement.ACKED:
            assert name in acked
        elif message.settlement is Settlement.NACKED:
            assert name in nacked
        elif message.settlement is Settlement.UNSETTLED:
            assert name not in acked | nacked or not committed
    # Nothing is sent twice, and what was sent in a transaction is there only with its COMMIT.
    out = stage.broker.depth("/queue/out")
    sends = [frame for frame in frames if frame.headers.get("destination") == "/queue/out"]
    in_transaction = [frame for frame in sends if "transaction" in frame.headers]
    assert out == len(sends) - len(in_transaction) + (2 if committed else 0)
    # Messages are taken once each, or still there to be taken.
    bodies = [message.body for message in (*stage.messages, *stage.taken)]
    assert len(bodies) == len(set(bodies))
    redelivered = sum(committed or "transaction" not in nack.headers for nack in nacks)
    assert len(bodies) + stage.subscription.statistics().buffered == stage.published + redelivered


# --- tasks that wait for the same -------------------------------------------------------------------------------------


@asynccontextmanager
async def rivals_for_a_message(count: int) -> AsyncGenerator[Rivals]:
    """They wait on one subscription."""
    async with staged() as stage:
        stage.taken += [await anext(stage.subscription) for _ in range(2)]

        async def rival() -> None:
            stage.taken.append(await anext(stage.subscription))

        async def publish_later() -> None:
            await anyio.sleep(1)
            for _ in range(count):
                stage.publish()

        yield Rivals(stage, rival, before=publish_later, again=stage.publish)


@asynccontextmanager
async def rivals_for_the_window(_count: int) -> AsyncGenerator[Rivals]:
    """They send by a publisher, which has one message in flight."""
    async with staged() as stage, stage.client.publisher(max_in_flight=1) as publisher:
        stage.broker.faults.plan(DelayReceipts(seconds=1, command=Command.SEND))
        await publisher.send("/queue/out", b"0")
        yield Rivals(stage, partial(publisher.send, "/queue/out", b"1"))


@asynccontextmanager
async def rivals_for_the_outbox(_count: int) -> AsyncGenerator[Rivals]:
    """They send while the outbox is full; there is room for one of them at a time."""
    async with staged(outbox_bytes=10) as stage:
        send = stage.client.send
        yield Rivals(stage, partial(send, "/queue/out", b"1" * 10), fill=partial(send, "/queue/out", b"0" * 10))


@pytest.mark.parametrize("are_first", [True, False])
@pytest.mark.parametrize("rivals", [rivals_for_a_message, rivals_for_the_window, rivals_for_the_outbox])
@in_each_way(*LOOPS_OF_BROKER, *SHUFFLED)
async def test_tasks_when_one_of_those_that_wait_for_the_same_is_cancelled_then_the_others_get_it(
    rivals: Callable[[int], AbstractAsyncContextManager[Rivals]], way: Way, moment: Moment, *, are_first: bool
) -> None:
    """On asyncio, a task may be cancelled in the same pass of the loop in which it is woken."""
    steps = Steps()
    for step in steps:
        async with rivals(1 if are_first else 2) as all_of_them:
            steps.note(await in_a_queue(all_of_them, step, way, moment, is_first=are_first))
            # And those that come later.
            with anyio.fail_after(60):
                async with anyio.create_task_group() as group:
                    for _ in range(3):
                        all_of_them.again()
                        group.start_soon(all_of_them.compete)
            await all_of_them.stage.quiesce()
            check(all_of_them.stage)
    assert steps.cancelled > 0


async def in_a_queue(rivals: Rivals, step: int, way: Way, moment: Moment, *, is_first: bool) -> Outcome:
    """Let two or three wait, one behind the other, and cancel the first or the second."""
    outcome = Outcome(reached=True, cancelled=False)
    has_begun = [anyio.Event(), anyio.Event()]

    async def first() -> None:
        await rivals.fill()
        has_begun[0].set()
        await rivals.rival()

    async def second() -> None:
        await has_begun[0].wait()
        has_begun[1].set()
        await rivals.rival()

    async def last() -> None:
        with anyio.fail_after(60):
            await has_begun[0 if is_first else 1].wait()
            await rivals.rival()

    async with anyio.create_task_group() as group:
        group.start_soon(rivals.before)
        if not is_first:
            group.start_soon(first)
        group.start_soon(last)
        outcome = await cancelled_at_step(first if is_first else second, step, way, moment)
        if not outcome.cancelled:
            rivals.again()
        # It may have been cancelled before it began.
        for event in has_begun:
            event.set()
    return outcome


# --- one by one -------------------------------------------------------------------------------------------------------


@in_each_way_there_is
async def test_delete_when_cancelled_at_any_step_then_the_broker_has_it_whole_or_not_at_all(
    way: Way, moment: Moment
) -> None:
    steps = Steps()
    for step in steps:
        async with staged() as stage, stage.client.subscribe("/topic/t", durable="mine") as durable:
            steps.note(await cancelled_at_step(durable.delete, step, way, moment))
            await stage.quiesce()
            # It takes two: one to leave, and one to be forgotten.
            assert stage.sent(Command.UNSUBSCRIBE) in (0, 2)
    assert steps.cancelled > 0


@in_each_way_there_is
async def test_connect_when_cancelled_at_any_step_then_the_link_is_closed_and_no_task_is_left(
    way: Way, moment: Moment
) -> None:
    steps = Steps()
    for step in steps:
        async with open_broker(listen=False) as broker, nothing_left():
            stream = TappedStream(broker.connect_stream())
            begun = False

            async def session(stream: TappedStream = stream) -> None:
                nonlocal begun
                begun = True
                async with trio_stomp.connect_stream(stream, heart_beat=(0, 0)) as client:
                    await client.send("/queue/a", b"1", receipt=True)

            steps.note(await cancelled_at_step(session, step, way, moment))
            # At once, and not by a task that goes on behind it.
            assert stream.is_closed or not begun
            if not begun:
                await stream.aclose()
            with anyio.fail_after(60):
                await broker.wait_until(partial(is_deserted, broker))
    assert steps.cancelled >= 4


@in_each_way_there_is
async def test_disconnect_when_cancelled_at_any_step_then_leaving_closes_at_once(way: Way, moment: Moment) -> None:
    steps = Steps()
    for step in steps:
        async with open_broker(listen=False) as broker:
            stream = TappedStream(broker.connect_stream())
            start = anyio.current_time()
            outcome = None
            with anyio.move_on_after(60):
                async with trio_stomp.connect_stream(stream, heart_beat=(0, 0)) as client:
                    await client.send("/queue/a", b"1")
                    outcome = await cancelled_at_step(client.disconnect, step, way, moment)
            assert anyio.current_time() - start < 30
            frames, torn = frames_of(stream.sent)
            assert not torn
            assert [frame.command for frame in frames].count(Command.DISCONNECT) <= 1
        assert outcome is not None
        steps.note(outcome)


@in_each_way_there_is
async def test_commit_when_cancelled_while_it_waits_then_the_outcome_is_unknown_and_says_so(
    way: Way, moment: Moment
) -> None:
    states: set[TransactionState] = set()
    steps = Steps()
    for step in steps:
        async with staged() as stage, stage.client.transaction() as transaction:
            await transaction.send("/queue/out", b"1")
            steps.note(await cancelled_at_step(transaction.commit, step, way, moment))
            states.add(transaction.state)
            if transaction.state is TransactionState.OPEN:
                transaction.abort()
            await stage.quiesce()
            assert stage.broker.depth("/queue/out") == (transaction.state is not TransactionState.ABORTED)
    assert TransactionState.COMMITTED in states
    assert TransactionState.UNKNOWN in states


@in_each_way_there_is
async def test_request_when_cancelled_at_any_step_then_its_reply_is_dropped_and_the_next_request_gets_its_own(
    way: Way, moment: Moment
) -> None:
    steps = Steps()
    for step in steps:
        async with staged() as stage, anyio.create_task_group() as group:
            group.start_soon(serve_echo, stage.broker)
            await wait_all_tasks_blocked()
            request = partial(stage.client.request, "/queue/echo", b"first", timeout=30)
            steps.note(await cancelled_at_step(request, step, way, moment))
            assert (await stage.client.request("/queue/echo", b"second", timeout=30)).body == b"second"
            await stage.quiesce()
            check(stage)
            assert stage.broker.depth("/queue/echo") == 0
            group.cancel_scope.cancel()
    assert steps.cancelled > 0


async def serve_echo(broker: Broker) -> None:
    async with (
        trio_stomp.connect_stream(broker.connect_stream(), heart_beat=(0, 0)) as client,
        client.subscribe("/queue/echo", ack="auto") as requests,
    ):
        async for request in requests:
            # Later than at once, so that the asker is cancelled while it waits, too.
            await anyio.sleep(1)
            await request.reply(request.body)


@in_each_way_there_is
async def test_work_when_cancelled_at_any_step_then_what_was_handled_is_acknowledged_and_the_rest_comes_again(
    way: Way, moment: Moment
) -> None:
    steps = Steps()
    for step in steps:
        handled: list[bytes] = []

        async def handle(message: Message, handled: list[bytes] = handled) -> None:
            await anyio.sleep(1)
            handled.append(message.body)

        async with open_broker(listen=False) as broker:
            for number in range(6):
                broker.publish("/queue/in", b"%d" % number)
            stream = TappedStream(broker.connect_stream())
            async with trio_stomp.connect_stream(stream, heart_beat=(0, 0)) as client:
                async with client.subscribe("/queue/in", prefetch=2) as subscription:

                    async def pool(subscription: Subscription = subscription) -> None:
                        # It has no end of its own: it is cancelled by its user, and at one of its steps before.
                        with anyio.move_on_after(2.5):
                            await subscription.work(handle, workers=2)

                    steps.note(await cancelled_at_step(pool, step, way, moment))
                with anyio.fail_after(60):
                    await client.send("/queue/after", b"", receipt=True)
                assert client.statistics().receipts_pending == 0
            frames, torn = frames_of(stream.sent)
            assert not torn
            assert sum(frame.command is Command.ACK for frame in frames) == len(handled) == len(set(handled))
            left = [frame.body for frame in broker.messages("/queue/in")]
            assert sorted(left + handled) == [b"%d" % number for number in range(6)]
    assert steps.cancelled > 0


# --- all of it --------------------------------------------------------------------------------------------------------

# What is swept by a test of its own.
APART = {
    # Both as leaving `connect`.
    "Client.__aenter__": test_disconnect_when_cancelled_at_any_step_then_leaving_closes_at_once,
    "Client.__aexit__": test_disconnect_when_cancelled_at_any_step_then_leaving_closes_at_once,
    "Client.aclose": test_disconnect_when_cancelled_at_any_step_then_leaving_closes_at_once,
    "Client.disconnect": test_disconnect_when_cancelled_at_any_step_then_leaving_closes_at_once,
    "Client.request": (
        test_request_when_cancelled_at_any_step_then_its_reply_is_dropped_and_the_next_request_gets_its_own
    ),
    "Subscription.delete": test_delete_when_cancelled_at_any_step_then_the_broker_has_it_whole_or_not_at_all,
    "Subscription.work": (
        test_work_when_cancelled_at_any_step_then_what_was_handled_is_acknowledged_and_the_rest_comes_again
    ),
    "Transaction.commit": test_commit_when_cancelled_while_it_waits_then_the_outcome_is_unknown_and_says_so,
    "connect": test_transports.test_connect_when_cancelled_at_any_step_then_what_was_opened_is_closed,
    "connect_stream": test_connect_when_cancelled_at_any_step_then_the_link_is_closed_and_no_task_is_left,
}


def public_operations() -> set[str]:
    """Whatever of the public API is awaited: its functions and methods."""
    found: set[str] = set()
    public: dict[str, object] = {name: getattr(trio_stomp, name) for name in trio_stomp.__all__}
    public |= {name: getattr(trio_stomp.types, name) for name in trio_stomp.types.__all__}
    for name, thing in public.items():
        if inspect.isclass(thing) and thing.__module__.startswith("trio_stomp."):
            methods = {each: inspect.getattr_static(thing, each) for each in dir(thing)}
            found |= {f"{name}.{each}" for each, method in methods.items() if is_awaited(each, method)}
        elif is_awaited(name, thing):
            found.add(name)
    return found


def is_awaited(name: str, thing: object) -> bool:
    if not inspect.isfunction(thing) or (name.startswith("_") and not name.startswith("__a")):
        return False
    returned = str(inspect.signature(thing).return_annotation)
    makes_a_block = returned.startswith(("AbstractAsyncContextManager", "AsyncGenerator"))
    return inspect.iscoroutinefunction(thing) or makes_a_block


def test_sweep_when_compared_with_the_public_api_then_no_operation_is_missing() -> None:
    swept = {name for names in SWEPT.values() for name in names} | set(APART)

    assert swept == public_operations()
