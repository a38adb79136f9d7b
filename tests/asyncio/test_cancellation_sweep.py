"""Every public operation on asyncio, cancelled at each of its waits in turn, in two ways.

After each, as on trio: the peer saw whole frames only; no message, receipt or acknowledgment was lost or doubled; no
call is left in the trio thread; and the client works on. A test at the end compares what is swept with the public API.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import pytest
import trio

import trio_stomp.asyncio
from tests.client.test_cancellation_sweep import is_awaited
from tests.kit.cancelling_asyncio import Moment, Sweep, cancelled_at_step
from tests.kit.on_asyncio import on_asyncio
from tests.kit.tapped_stream import TappedStream, frames_of
from trio_stomp import OutgoingMessage
from trio_stomp.asyncio import Client, Message, Subscription, Transaction
from trio_stomp.asyncio.client import OpenClient
from trio_stomp.asyncio.crossing import enter, leave, stop
from trio_stomp.bridge import Bridge, Entered, Lane
from trio_stomp.protocol import Command, Frame
from trio_stomp.testing import Broker, ThreadedBroker, open_broker
from trio_stomp.types import Settlement, TransactionState

T = TypeVar("T")

# Long enough to be cancelled in between.
_SHORT = 0.01

EACH_MOMENT = pytest.mark.parametrize("moment", Moment)


@dataclass
class Stage:
    """What an operation works on, made anew for each wait at which it is cancelled."""

    bridge: Bridge
    broker: Broker
    stream: TappedStream
    client: Client
    messages: list[Message]
    taken: list[Message]
    published: int = 0
    subscription: Subscription | None = None

    @property
    def messages_in(self) -> Subscription:
        assert self.subscription is not None
        return self.subscription

    def in_trio(self, function: Callable[[], T]) -> T:
        async def run() -> T:  # noqa: ASYNC124  # runs in the trio thread
            return function()

        return self.bridge.call(run)

    def publish(self) -> None:
        """Let the broker have one more message for the subscription."""
        self.in_trio(lambda: self.broker.publish("/queue/in", b"%d" % self.published))
        self.published += 1

    def depth(self, queue: str) -> int:
        return self.in_trio(lambda: self.broker.depth(queue))

    def frames(self) -> list[Frame]:
        """What the broker has been sent: whole frames, and nothing behind them."""
        frames, torn = frames_of(self.stream.sent)
        assert not torn
        return frames

    def sent(self, command: Command) -> int:
        return sum(frame.command is command for frame in self.frames())

    async def quiesce(self) -> None:
        """Show that the client works on, and that all that it has sent has arrived."""
        await self.client.send("/queue/after", b"", receipt=True)
        assert self.client.statistics().receipts_pending == 0


@asynccontextmanager
async def brokered() -> AsyncGenerator[tuple[Bridge, Broker]]:
    """An embedded broker in the trio thread."""
    bridge = Bridge()
    bridge.start()
    try:
        held = Entered(bridge, open_broker(listen=False))
        broker = await enter(bridge, held)
        yield bridge, broker
        await leave(bridge, held, None)
    finally:
        await stop(bridge)  # noqa: ASYNC102  # asyncio has no scopes


async def connected(bridge: Bridge, broker: Broker) -> tuple[Client, TappedStream]:
    """A client of such a broker, over a stream in memory with a tap on it."""

    async def tapped() -> TappedStream:  # noqa: ASYNC124  # runs in the trio thread
        return TappedStream(broker.connect_stream())

    stream = bridge.call(tapped)
    own = Bridge()
    own.start()
    lane = Lane(own)
    held = Entered(own, trio_stomp.connect_stream(stream, heart_beat=(0, 0)))
    await enter(own, held)
    return OpenClient(lane, held), stream


@asynccontextmanager
async def staged() -> AsyncGenerator[Stage]:
    async with brokered() as (bridge, broker):
        client, stream = await connected(bridge, broker)
        async with client, client.subscribe("/queue/in", prefetch=10) as subscription:
            stage = Stage(bridge, broker, stream, client, [], [], subscription=subscription)
            for _ in range(4):
                stage.publish()
            stage.messages += [await anext(subscription) for _ in range(2)]
            yield stage


Operation = Callable[[Stage], Coroutine[object, object, object]]


async def send(stage: Stage) -> None:
    # More than one round of calls that do not wait.
    for _ in range(70):
        await stage.client.send("/queue/out", b"1")


async def send_confirmed(stage: Stage) -> None:
    await stage.client.send("/queue/out", b"1", receipt=True)


async def take(stage: Stage) -> None:
    stage.taken += [await anext(stage.messages_in) for _ in range(2)]


async def take_last(stage: Stage) -> None:
    """Wait for a message that comes later than those that are there."""
    await take(stage)
    asyncio.get_running_loop().call_later(_SHORT, stage.publish)
    stage.taken.append(await anext(stage.messages_in))


async def take_batch(stage: Stage) -> None:
    stage.taken += await stage.messages_in.receive_batch(5, linger=_SHORT)
    stage.publish()
    stage.taken += await stage.messages_in.receive_batch(5)


async def ack(stage: Stage) -> None:
    await stage.messages[0].ack()


async def ack_confirmed(stage: Stage) -> None:
    await stage.messages[0].ack(receipt=True)


async def nack_confirmed(stage: Stage) -> None:
    await stage.messages[0].nack(receipt=True)


async def ack_up_to(stage: Stage) -> None:
    await stage.messages_in.ack_up_to(stage.messages[1])


async def block(stage: Stage) -> None:
    async with stage.messages[0]:
        await asyncio.sleep(_SHORT)


async def transact(stage: Stage) -> None:
    async with stage.client.transaction() as transaction:
        await transaction.send("/queue/out", b"1")
        await transaction.ack(stage.messages[0])
        await asyncio.sleep(_SHORT)
        await transaction.send("/queue/out", b"2")


async def transact_many(stage: Stage) -> None:
    async with stage.client.transaction() as transaction:
        await transaction.send_many([OutgoingMessage("/queue/out", b"1"), OutgoingMessage("/queue/out", b"2")])
        await transaction.nack(stage.messages[0])


async def transact_by_function(stage: Stage) -> None:
    async def work(transaction: Transaction) -> None:
        await transaction.send("/queue/out", b"1")
        await transaction.ack(stage.messages[0])
        await asyncio.sleep(_SHORT)
        await transaction.send("/queue/out", b"2")

    await stage.client.run_transaction(work)


async def send_many(stage: Stage) -> None:
    await stage.client.send_many([OutgoingMessage("/queue/out", b"%d" % number) for number in range(3)])


async def send_many_confirmed(stage: Stage) -> None:
    await stage.client.send_many([OutgoingMessage("/queue/out", b"%d" % number) for number in range(3)], receipt=True)


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
        stage.in_trio(lambda: stage.broker.publish("/queue/other", b"1"))
        await (await anext(other)).ack()


async def wait_closed(stage: Stage) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(_SHORT):
            await stage.client.wait_closed()


async def watch_state(stage: Stage) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(_SHORT):
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
    take_batch: ("Subscription.receive_batch",),
    ack: ("Message.ack",),
    ack_confirmed: ("Message.ack",),
    nack_confirmed: ("Message.nack",),
    ack_up_to: ("Subscription.ack_up_to",),
    block: ("Message.__aenter__", "Message.__aexit__"),
    transact: ("Client.transaction", "Transaction.send", "Transaction.ack"),
    transact_many: ("Client.transaction", "Transaction.send_many", "Transaction.nack"),
    transact_by_function: ("Client.run_transaction",),
    subscribe: ("Client.subscribe",),
    wait_closed: ("Client.wait_closed",),
    watch_state: ("StateChanges.__anext__",),
}
# They wait for nothing when there is room: that is their promise.
NEVER_WAIT = {take, ack, ack_up_to}


@EACH_MOMENT
@pytest.mark.parametrize("operation", SWEPT)
@on_asyncio
async def test_operation_when_cancelled_at_any_wait_then_nothing_is_lost_torn_or_left(
    operation: Operation, moment: Moment
) -> None:
    sweep = Sweep()
    for step in sweep:
        async with staged() as stage:
            outcome = await cancelled_at_step(partial(operation, stage), step, moment)
            await stage.quiesce()
            check(stage)
        assert outcome.cancelled == outcome.reached
        sweep.note(outcome)
    assert operation in NEVER_WAIT or sweep.cancelled


def check(stage: Stage) -> None:
    """What the client believes is what the broker has seen."""
    frames = stage.frames()
    acked = {frame.headers["id"] for frame in frames if frame.command is Command.ACK}
    nacks = [frame for frame in frames if frame.command is Command.NACK]
    nacked = {frame.headers["id"] for frame in nacks}
    assert len(acked) + len(nacked) == stage.sent(Command.ACK) + len(nacks)
    committed = stage.sent(Command.COMMIT)
    assert stage.sent(Command.BEGIN) == committed + stage.sent(Command.ABORT)
    for message in stage.messages:
        name = message.headers["ack"]
        if message.settlement is Settlement.ACKED:
            assert name in acked
        elif message.settlement is Settlement.NACKED:
            assert name in nacked
        elif message.settlement is Settlement.OPEN:
            assert name not in acked | nacked or not committed
    # Nothing is sent twice, and what was sent in a transaction is there only with its COMMIT.
    sends = [frame for frame in frames if frame.headers.get("destination") == "/queue/out"]
    in_transaction = [frame for frame in sends if "transaction" in frame.headers]
    assert stage.depth("/queue/out") == len(sends) - len(in_transaction) + (2 if committed else 0)
    # Messages are taken once each, or still there to be taken.
    bodies = [message.body for message in (*stage.messages, *stage.taken)]
    assert len(bodies) == len(set(bodies))
    redelivered = sum(committed or "transaction" not in nack.headers for nack in nacks)
    assert len(bodies) + stage.messages_in.statistics().buffered == stage.published + redelivered


@EACH_MOMENT
@on_asyncio
async def test_delete_when_cancelled_at_any_wait_then_the_broker_has_it_whole_or_not_at_all(moment: Moment) -> None:
    sweep = Sweep()
    for step in sweep:
        async with staged() as stage, stage.client.subscribe("/topic/t", durable="mine") as durable:
            outcome = await cancelled_at_step(durable.delete, step, moment)
            await stage.quiesce()
            # It takes two: one to leave, and one to be forgotten.
            assert stage.sent(Command.UNSUBSCRIBE) in (0, 2)
            sweep.note(outcome)
    assert sweep.cancelled


async def until_deserted(broker: Broker) -> None:
    with trio.fail_after(10):
        await broker.wait_until(lambda: broker.statistics().open_connections == 0)


@EACH_MOMENT
@pytest.mark.parametrize("by_hand", [False, True])
@on_asyncio
async def test_connect_when_cancelled_at_any_wait_then_the_link_is_closed_and_nothing_is_left(
    broker: ThreadedBroker, moment: Moment, by_hand: bool
) -> None:
    async def in_block() -> None:
        async with trio_stomp.asyncio.connect(broker.url) as client:
            await client.send("/queue/a", b"1", receipt=True)

    async def by_calls() -> None:
        client = await trio_stomp.asyncio.open(broker.url)
        try:
            await client.send("/queue/a", b"1", receipt=True)
        finally:
            await client.aclose()

    sweep = Sweep()
    for step in sweep:
        outcome = await cancelled_at_step(by_calls if by_hand else in_block, step, moment)
        assert outcome.cancelled == outcome.reached
        broker.call(until_deserted)
        sweep.note(outcome)
    assert sweep.cancelled >= 3


@EACH_MOMENT
@on_asyncio
async def test_disconnect_when_cancelled_at_any_wait_then_leaving_closes_at_once(moment: Moment) -> None:
    sweep = Sweep()
    for step in sweep:
        async with brokered() as (bridge, broker):
            client, stream = await connected(bridge, broker)
            async with asyncio.timeout(5), client:
                await client.send("/queue/a", b"1")
                outcome = await cancelled_at_step(client.disconnect, step, moment)
            frames, torn = frames_of(stream.sent)
            assert not torn
            assert [frame.command for frame in frames].count(Command.DISCONNECT) <= 1
        sweep.note(outcome)
    assert sweep.cancelled


@on_asyncio
async def test_commit_when_cancelled_while_it_waits_then_the_outcome_is_unknown_and_says_so() -> None:
    states: set[TransactionState] = set()
    for moment in Moment:
        sweep = Sweep()
        for step in sweep:
            async with staged() as stage, stage.client.transaction() as transaction:
                await transaction.send("/queue/out", b"1")
                outcome = await cancelled_at_step(transaction.commit, step, moment)
                states.add(transaction.state)
                if transaction.state is TransactionState.OPEN:
                    transaction.abort()
                await stage.quiesce()
                assert stage.depth("/queue/out") == (transaction.state is not TransactionState.ABORTED)
            sweep.note(outcome)
    assert TransactionState.COMMITTED in states


@EACH_MOMENT
@on_asyncio
async def test_request_when_cancelled_at_any_wait_then_its_reply_is_dropped_and_the_next_request_gets_its_own(
    moment: Moment,
) -> None:
    sweep = Sweep()
    for step in sweep:
        async with staged() as stage:
            server, _ = await connected(stage.bridge, stage.broker)
            echo = asyncio.create_task(serve_echo(server))
            outcome = await cancelled_at_step(
                partial(stage.client.request, "/queue/echo", b"first", timeout=30), step, moment
            )
            assert (await stage.client.request("/queue/echo", b"second", timeout=30)).body == b"second"
            await stage.quiesce()
            check(stage)
            echo.cancel()
            await asyncio.wait([echo])
            assert stage.depth("/queue/echo") == 0
            sweep.note(outcome)
    assert sweep.cancelled


async def serve_echo(server: Client) -> None:
    async with server, server.subscribe("/queue/echo", ack="auto") as requests:
        async for request in requests:
            correlation = {"correlation-id": request.headers["correlation-id"]}
            await server.send(request.headers["reply-to"], request.body, headers=correlation)


@EACH_MOMENT
@on_asyncio
async def test_work_when_cancelled_at_any_wait_then_what_was_handled_is_acknowledged_and_the_rest_comes_again(
    moment: Moment,
) -> None:
    sweep = Sweep()
    for step in sweep:
        handled: list[bytes] = []

        async def handle(message: Message, handled: list[bytes] = handled) -> None:
            await asyncio.sleep(_SHORT)
            handled.append(message.body)

        async with brokered() as (bridge, broker):
            for number in range(6):
                bridge.call(partial(_publish, broker, b"%d" % number))
            client, stream = await connected(bridge, broker)
            async with client:
                async with client.subscribe("/queue/in", prefetch=2) as subscription:

                    async def pool(subscription: Subscription = subscription) -> None:
                        # It has no end of its own: it is cancelled by its user, and at one of its waits before.
                        with pytest.raises(TimeoutError):
                            async with asyncio.timeout(1.5 * _SHORT):
                                await subscription.work(handle, workers=2)

                    outcome = await cancelled_at_step(pool, step, moment)
                await client.send("/queue/after", b"", receipt=True)
                assert client.statistics().receipts_pending == 0
            frames, torn = frames_of(stream.sent)
            assert not torn
            assert sum(frame.command is Command.ACK for frame in frames) == len(handled) == len(set(handled))
            left = bridge.call(partial(_bodies, broker))
            assert sorted(left + handled) == [b"%d" % number for number in range(6)]
        sweep.note(outcome)
    assert sweep.cancelled


async def _publish(broker: Broker, body: bytes) -> None:  # noqa: ASYNC124  # runs in the trio thread
    broker.publish("/queue/in", body)


async def _bodies(broker: Broker) -> list[bytes]:  # noqa: ASYNC124  # runs in the trio thread
    return [message.body for message in broker.messages("/queue/in")]


# --- all of it --------------------------------------------------------------------------------------------------------

CONNECT = test_connect_when_cancelled_at_any_wait_then_the_link_is_closed_and_nothing_is_left
# What is swept by a test of its own.
APART = {
    "Client.__aenter__": CONNECT,
    "Client.__aexit__": CONNECT,
    "Client.aclose": CONNECT,
    "Client.disconnect": test_disconnect_when_cancelled_at_any_wait_then_leaving_closes_at_once,
    "Client.request": (
        test_request_when_cancelled_at_any_wait_then_its_reply_is_dropped_and_the_next_request_gets_its_own
    ),
    "Subscription.delete": test_delete_when_cancelled_at_any_wait_then_the_broker_has_it_whole_or_not_at_all,
    "Subscription.work": (
        test_work_when_cancelled_at_any_wait_then_what_was_handled_is_acknowledged_and_the_rest_comes_again
    ),
    "Transaction.commit": test_commit_when_cancelled_while_it_waits_then_the_outcome_is_unknown_and_says_so,
    "connect": CONNECT,
    "open": CONNECT,
}


def public_operations() -> set[str]:
    """Whatever of the public API is awaited: its functions and methods."""
    found: set[str] = set()
    for name in trio_stomp.asyncio.__all__:
        thing: object = getattr(trio_stomp.asyncio, name)
        if inspect.isclass(thing):
            methods = {each: inspect.getattr_static(thing, each) for each in dir(thing)}
            found |= {f"{name}.{each}" for each, method in methods.items() if is_awaited(each, method)}
        elif is_awaited(name, thing):
            found.add(name)
    return found


def test_sweep_when_compared_with_the_public_api_then_no_operation_is_missing() -> None:
    swept = {name for names in SWEPT.values() for name in names} | set(APART)

    assert swept == public_operations()
