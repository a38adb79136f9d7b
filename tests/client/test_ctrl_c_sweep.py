"""Ctrl-C on trio, at one instruction of the client after the other: it is as a cancellation, and never lost."""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable
from weakref import WeakSet

import pytest
import trio
from trio.testing import MockClock

import trio_stomp
from tests.client.test_cancellation_sweep import SWEPT, Operation, Stage, check, staged
from tests.kit.reconnecting import reconnecting
from tests.kit.striking import LIBRARY, CtrlCAt
from trio_stomp import Client, Message, OutgoingMessage, Reconnect, Transaction
from trio_stomp.testing import Broker, DropLink, open_broker

# How often each program is interrupted, at moments that are spread over the whole of it: in every run of the tests, and
# where they may take their time.
FEW = 12
MANY = pytest.param(400, marks=pytest.mark.slow)
# Every instruction, in four parts.
ALL = [pytest.param((part, 4), marks=pytest.mark.slow) for part in range(4)]


NEVER = 1_000_000


def moments(count: int, which: int | tuple[int, int]) -> range:
    """Some of the instructions from the first to the last."""
    part, step = which if isinstance(which, tuple) else (0, max(1, count // which))
    return range(1 + part, count + 1, step)


# --- a program that goes on -------------------------------------------------------------------------------------------


def interrupt(clock: MockClock, operation: Operation, strike: CtrlCAt) -> CtrlCAt:
    """Interrupt an operation at one of its instructions, or of the tasks that serve it; then go on with the client."""
    caught = 0

    async def go_on() -> None:
        nonlocal caught
        async with staged() as stage:
            try:
                with strike:
                    await operation(stage)
                # It comes with the next checkpoint, perhaps.
                await trio.lowlevel.checkpoint()
            except* KeyboardInterrupt:
                caught += 1
            await stage.quiesce()
            check(stage)

    trio.run(go_on, clock=clock)
    assert caught == strike.struck
    return strike


async def read_and_write(stage: Stage) -> None:
    await stage.client.send("/queue/out", b"1", receipt=True)


async def take_turns(stage: Stage) -> None:
    """Two tasks want the one place of a window."""
    async with stage.client.publisher(max_in_flight=1) as publisher, trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(publisher.send, "/queue/out", b"x")


def sweep(clock: MockClock, operation: Operation, which: int | tuple[int, int]) -> None:
    count = interrupt(clock, operation, CtrlCAt(NEVER)).count
    for at in moments(count, which):
        interrupt(clock, operation, CtrlCAt(at))
    gc.collect()  # what was left open complains


@pytest.mark.parametrize("which", [FEW, MANY])
@pytest.mark.parametrize("operation", SWEPT)
def test_operation_when_ctrl_c_comes_at_some_instruction_then_nothing_is_lost_torn_or_left(
    operation: Operation, which: int, autojump_clock: MockClock
) -> None:
    sweep(autojump_clock, operation, which)


@pytest.mark.parametrize("which", [FEW, *ALL])
@pytest.mark.parametrize("operation", [read_and_write, take_turns])
def test_reader_writer_and_turns_when_ctrl_c_comes_at_any_instruction_then_nothing_is_lost_torn_or_left(
    operation: Operation, which: int | tuple[int, int], autojump_clock: MockClock
) -> None:
    sweep(autojump_clock, operation, which)


def test_weak_set_when_ctrl_c_comes_in_its_callback_then_it_is_not_lost(autojump_clock: MockClock) -> None:
    """Trio has async generators in one, and Python drops what a callback raises."""

    class Generator:
        pass

    async def forget(strike: CtrlCAt) -> None:
        generator = Generator()
        alive = WeakSet([generator])
        with strike:
            del generator
        assert not alive
        await trio.lowlevel.checkpoint()

    where = vars(WeakSet[Generator]())["_remove"].__code__.co_filename
    strike = CtrlCAt(NEVER, where)
    for _ in range(3):  # Python 3.13 traces the instructions of a function from its second call on
        trio.run(forget, strike, clock=autojump_clock)
    assert strike.count > 0
    for at in moments(strike.count, (0, 1)):
        strike, was_raised = CtrlCAt(at, where), False
        try:
            trio.run(forget, strike, clock=autojump_clock)
        except KeyboardInterrupt:
            was_raised = True
        assert was_raised == strike.struck


# --- a program that ends ----------------------------------------------------------------------------------------------


async def send_confirmed(_broker: Broker, client: Client) -> None:
    # Over a socket, the sender comes to read in place of the reader.
    for _ in range(8):
        await client.send("/queue/none", b"x", receipt=True)


async def publish(_broker: Broker, client: Client) -> None:
    async with client.publisher(max_in_flight=1) as publisher, trio.open_nursery() as nursery:

        async def some() -> None:
            for _ in range(2):
                await publisher.send("/queue/none", b"x")

        for _ in range(3):
            nursery.start_soon(some)


async def consume(broker: Broker, client: Client) -> None:
    async with client.subscribe("/queue/in") as subscription:
        for _ in range(6):
            broker.publish("/queue/in", b"x")
            async with await anext(subscription):
                await client.send("/queue/none", b"x")


async def work(broker: Broker, client: Client) -> None:
    for _ in range(4):
        broker.publish("/queue/in", b"x")

    async def handle(message: Message) -> None:
        await client.send("/queue/none", message.body)

    async with client.subscribe("/queue/in") as subscription:
        with trio.move_on_after(1):
            await subscription.work(handle, workers=2)


async def transact(_broker: Broker, client: Client) -> None:
    async def two(transaction: Transaction) -> None:
        await transaction.send_many([OutgoingMessage("/queue/none", b"x")] * 2)

    await client.run_transaction(two)


async def beat(_broker: Broker, client: Client) -> None:
    await trio.sleep(4)
    assert client.state.healthy


async def lose(broker: Broker, client: Client) -> None:
    async with client.subscribe("/queue/in"), client.publisher() as publisher:
        await publisher.send("/queue/none", b"x")
        broker.faults.now(DropLink())
        await publisher.send("/queue/none", b"x")
        await trio.sleep(1)
    assert client.statistics().reconnections == 1


Program = Callable[[Broker, Client], Awaitable[None]]

PROGRAMS: list[Program] = [send_confirmed, publish, consume, work, transact, beat]


async def over_a_socket(program: Program) -> None:
    ours, theirs = trio.socket.socketpair()
    with ours, theirs:
        async with open_broker(listen=False) as broker, trio.open_nursery() as nursery:
            nursery.start_soon(broker.serve_stream, trio.SocketStream(theirs))
            try:
                async with trio_stomp.connect_stream(trio.SocketStream(ours), heart_beat=(1, 1)) as client:
                    await program(broker, client)
            finally:
                assert ours.fileno() == -1  # it is closed


async def over_several_links(program: Program) -> None:
    async with open_broker(listen=False) as broker, reconnecting(broker, reconnect=Reconnect()) as client:
        await program(broker, client)


def end(
    clock: MockClock, run: Callable[[Program], Awaitable[None]], program: Program, at: int, where: str = LIBRARY
) -> CtrlCAt:
    """Interrupt a program at an instruction, from the first of `connect` to the last of leaving it."""
    strike = CtrlCAt(at, where)
    error: BaseException | None = None

    async def main() -> None:
        with trio.fail_after(1000):
            await run(program)

    try:
        with strike:
            trio.run(main, clock=clock)
    except (KeyboardInterrupt, BaseExceptionGroup) as raised:
        error = raised
    assert (error is not None) == strike.struck
    if isinstance(error, BaseExceptionGroup):
        _, others = error.split(KeyboardInterrupt)
        assert others is None
    return strike


@pytest.mark.parametrize("which", [FEW, MANY])
@pytest.mark.parametrize(
    ("run", "program"), [*((over_a_socket, program) for program in PROGRAMS), (over_several_links, lose)]
)
def test_program_when_ctrl_c_comes_at_some_instruction_then_it_ends_with_that_alone(
    run: Callable[[Program], Awaitable[None]], program: Program, which: int, autojump_clock: MockClock
) -> None:
    count = end(autojump_clock, run, program, NEVER).count
    assert count > 1000
    for at in moments(count, which):
        end(autojump_clock, run, program, at)
    gc.collect()  # what was left open complains


@pytest.mark.parametrize("program", [publish, beat])
def test_task_when_ctrl_c_comes_in_its_first_function_then_the_program_ends_with_that_alone(
    program: Program, autojump_clock: MockClock
) -> None:
    """Nothing around that function is protected, and what it awaits would be dropped."""
    where = f"{LIBRARY}runtime/_trio.py"
    count = end(autojump_clock, over_a_socket, program, NEVER, where).count
    assert count > 1000
    for at in moments(count, 300):
        end(autojump_clock, over_a_socket, program, at, where)
