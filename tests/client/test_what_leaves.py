"""What leaves the blocks of this library: what would arrive without them arrives with them.

Each body runs in each situation twice: inside one of our blocks, and inside a plain one that only is a checkpoint when
it is left well. What leaves the block, what arrives outside of all scopes, and whether those scopes caught a
cancellation must be the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import NoReturn

import anyio
import anyio.lowlevel
import pytest

import trio_stomp
from tests.kit.loops import LOOPS_OF_BROKER, on_loops, wait_all_tasks_blocked
from tests.kit.reconnecting import reconnecting
from trio_stomp import Client
from trio_stomp.runtime._trio import open_background_nursery
from trio_stomp.testing import Broker, open_broker, open_scripted_peer

pytestmark = pytest.mark.anyio


class BodyError(Exception):
    """What a body raises."""


class Crash(BaseException):
    """As KeyboardInterrupt, which pytest would take for its own."""


# --- bodies -----------------------------------------------------------------------------------------------------------

Body = Callable[[], Awaitable[object]]


async def fails_in_its_clean_up(error: BaseException) -> NoReturn:
    try:
        await anyio.sleep(100)
    finally:
        raise error


async def returns() -> None:
    await anyio.lowlevel.cancel_shielded_checkpoint()


async def waits() -> None:
    await anyio.sleep(100)


async def raises() -> NoReturn:
    await anyio.lowlevel.cancel_shielded_checkpoint()
    raise BodyError


async def raises_a_chain() -> None:
    await anyio.lowlevel.cancel_shielded_checkpoint()
    try:
        int("x")
    except ValueError as cause:
        raise BodyError from cause


async def raises_a_group() -> NoReturn:
    await anyio.lowlevel.cancel_shielded_checkpoint()
    msg = "two"
    raise ExceptionGroup(msg, [BodyError(1), ExceptionGroup(msg, [BodyError(2)])])


async def crashes() -> NoReturn:
    await anyio.lowlevel.cancel_shielded_checkpoint()
    raise Crash


async def raises_a_group_with_a_crash() -> NoReturn:
    await anyio.lowlevel.cancel_shielded_checkpoint()
    msg = "two"
    raise BaseExceptionGroup(msg, [BodyError(), Crash()])


async def cleans_up_badly() -> None:
    await fails_in_its_clean_up(BodyError())


async def cleans_up_with_a_crash() -> None:
    await fails_in_its_clean_up(Crash())


async def cleans_up_under_a_shield() -> None:
    try:
        await anyio.sleep(100)
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(1)
        raise BodyError


async def a_child_cleans_up_badly() -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(fails_in_its_clean_up, BodyError())
        await anyio.sleep(100)


async def two_children_clean_up_badly() -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(fails_in_its_clean_up, BodyError(1))
        group.start_soon(a_child_cleans_up_badly)
        group.start_soon(anyio.sleep, 100)
        await anyio.sleep(100)


async def a_child_crashes_in_its_clean_up() -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(fails_in_its_clean_up, Crash())
        await anyio.sleep(100)


async def a_child_fails_at_once() -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(raises)
        await anyio.sleep(100)


async def raises_a_cancelled_of_another_scope() -> None:
    """Nothing that a program should do; it is not ours to swallow it."""
    caught: list[BaseException] = []
    with anyio.CancelScope() as scope:
        scope.cancel()
        try:
            await anyio.lowlevel.checkpoint()
        except anyio.get_cancelled_exc_class() as cancelled:
            caught.append(cancelled)
            raise
    raise caught[0]


BODIES: tuple[Body, ...] = (
    returns,
    waits,
    raises,
    raises_a_chain,
    raises_a_group,
    crashes,
    raises_a_group_with_a_crash,
    cleans_up_badly,
    cleans_up_with_a_crash,
    cleans_up_under_a_shield,
    a_child_cleans_up_badly,
    two_children_clean_up_badly,
    a_child_crashes_in_its_clean_up,
    a_child_fails_at_once,
    raises_a_cancelled_of_another_scope,
)


# --- situations -------------------------------------------------------------------------------------------------------

Run = Callable[[], Awaitable[None]]
# Runs something, and returns whether each of its scopes caught a cancellation.
Situation = Callable[[Run, "Record"], Awaitable[None]]


@dataclass
class Record:
    """What was seen of one run."""

    thrown: BaseException | None = None
    left: BaseException | None = None
    arrived: BaseException | None = None
    caught: list[bool] = field(default_factory=list[bool])
    before: Callable[[], object] = lambda: None

    def shape(self) -> tuple[str, str, list[bool]]:
        return shape(self.left), shape(self.arrived), self.caught


def shape(error: object) -> str:
    members: tuple[object, ...] = getattr(error, "exceptions", ())
    if members:
        return f"{type(error).__name__}[{', '.join(sorted(map(shape, members)))}]"
    return "Cancelled" if isinstance(error, anyio.get_cancelled_exc_class()) else repr(error)


async def in_peace(run: Run, record: Record) -> None:
    await run()


async def under_a_deadline(run: Run, record: Record) -> None:
    with anyio.move_on_after(5) as scope:
        await run()
    record.caught.append(scope.cancelled_caught)


async def under_two_deadlines(run: Run, record: Record) -> None:
    with anyio.move_on_after(5) as outer:
        with anyio.move_on_after(5) as inner:
            await run()
        record.caught.append(inner.cancelled_caught)
    record.caught.append(outer.cancelled_caught)


async def cancelled_before_the_body(run: Run, record: Record) -> None:
    with anyio.CancelScope() as scope:
        record.before = scope.cancel
        await run()
    record.caught.append(scope.cancelled_caught)


async def beside_a_task_that_fails(run: Run, record: Record) -> None:
    async def fail() -> NoReturn:
        await anyio.sleep(5)
        raise LookupError

    async with anyio.create_task_group() as group:
        group.start_soon(fail)
        await run()


SITUATIONS: tuple[Situation, ...] = (
    in_peace,
    under_a_deadline,
    under_two_deadlines,
    cancelled_before_the_body,
    beside_a_task_that_fails,
)


# --- situations of asyncio's own -------------------------------------------------------------------------------------


async def under_a_timeout_of_asyncio(run: Run, record: Record) -> None:
    limit = asyncio.timeout(5)
    try:
        async with limit:
            await run()
    finally:
        record.caught.append(limit.expired())


async def in_a_task_that_is_cancelled(run: Run, record: Record) -> None:
    await in_a_task(run, record, lambda task: asyncio.get_running_loop().call_later(5, task.cancel))


async def in_a_task_that_is_cancelled_before_the_body(run: Run, record: Record) -> None:
    def cancel_then(task: asyncio.Task[None]) -> None:
        record.before = task.cancel

    await in_a_task(run, record, cancel_then)


async def in_a_task(run: Run, record: Record, begin: Callable[[asyncio.Task[None]], object]) -> None:
    async def main() -> None:
        await run()

    task = asyncio.create_task(main())
    begin(task)
    await asyncio.wait([task])
    record.caught.append(task.cancelled())
    if not task.cancelled():
        task.result()


async def in_a_group_of_asyncio(run: Run, record: Record) -> None:
    async def fail() -> NoReturn:
        await anyio.sleep(5)
        raise LookupError

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(fail())
            await run()

    # In a task of its own: before Python 3.13, a group may leave its task canceled.
    task = asyncio.create_task(main())
    await task


NATIVE_SITUATIONS: tuple[Situation, ...] = (
    under_a_timeout_of_asyncio,
    in_a_task_that_is_cancelled,
    in_a_task_that_is_cancelled_before_the_body,
    in_a_group_of_asyncio,
)


# --- blocks -----------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def plain(_broker: Broker) -> AsyncGenerator[None]:
    yield
    await anyio.lowlevel.checkpoint()


@asynccontextmanager
async def connected(broker: Broker) -> AsyncGenerator[Client]:
    async with trio_stomp.connect_stream(broker.connect_stream()) as client:
        yield client


@asynccontextmanager
async def connected_again_and_again(broker: Broker) -> AsyncGenerator[None]:
    async with reconnecting(broker):
        yield


@asynccontextmanager
async def subscribed(broker: Broker) -> AsyncGenerator[None]:
    async with connected(broker) as client, client.subscribe("/queue/a"):
        yield


@asynccontextmanager
async def handling_a_message(broker: Broker) -> AsyncGenerator[None]:
    broker.publish("/queue/a", b"1")
    async with connected(broker) as client, client.subscribe("/queue/a") as subscription, await anext(subscription):
        yield


@asynccontextmanager
async def publishing(broker: Broker) -> AsyncGenerator[None]:
    async with connected(broker) as client, client.publisher() as publisher:
        await publisher.send("/queue/a", b"1")
        yield


@asynccontextmanager
async def in_a_transaction(broker: Broker) -> AsyncGenerator[None]:
    async with connected(broker) as client, client.transaction() as transaction:
        await transaction.send("/queue/a", b"1")
        yield


@asynccontextmanager
async def beside_a_broker(_broker: Broker) -> AsyncGenerator[None]:
    async with open_broker(listen=False) as other, connected(other):
        yield


@asynccontextmanager
async def beside_a_peer(_broker: Broker) -> AsyncGenerator[None]:
    async with open_scripted_peer():
        yield
        await anyio.lowlevel.checkpoint()


Block = Callable[[Broker], AbstractAsyncContextManager[object]]

BLOCKS: tuple[Block, ...] = (
    connected,
    connected_again_and_again,
    subscribed,
    handling_a_message,
    publishing,
    in_a_transaction,
    beside_a_broker,
    beside_a_peer,
)


async def observed(block: Block, broker: Broker, body: Body, situation: Situation) -> Record:
    record = Record()

    async def run() -> None:
        try:
            async with block(broker):
                record.before()
                try:
                    await body()
                except BaseException as error:
                    record.thrown = error
                    raise
        except BaseException as error:
            record.left = error
            raise

    try:
        await situation(run, record)
    except BaseException as error:  # noqa: ASYNC103, BLE001  # what arrives is what is looked at
        record.arrived = error
    return record


@pytest.mark.parametrize(
    ("anyio_backend", "situation"),
    [
        pytest.param(loop, situation, id=f"{loop}-{situation.__name__}")
        for loop in LOOPS_OF_BROKER
        for situation in (SITUATIONS if loop == "trio" else (*SITUATIONS, *NATIVE_SITUATIONS))
    ],
    indirect=["anyio_backend"],
)
@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
async def test_block_when_it_is_left_then_the_same_arrives_as_without_it(
    broker: Broker, body: Body, situation: Situation
) -> None:
    expected = await observed(plain, broker, body, situation)
    for block in BLOCKS:
        record = await observed(block, broker, body, situation)
        assert record.shape() == expected.shape(), block.__name__
        if record.thrown is not None:
            assert record.left is record.thrown, block.__name__
    await broker.wait_until(lambda: broker.statistics().open_connections == 0)


# --- a background task that crashes -----------------------------------------------------------------------------------


async def crash_later() -> NoReturn:
    await anyio.sleep(1)
    raise Crash


@on_loops("trio")
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (waits, "Crash()"),
        (cleans_up_badly, "BaseExceptionGroup[BodyError(), Crash()]"),
        (a_child_cleans_up_badly, "BaseExceptionGroup[Crash(), ExceptionGroup[BodyError()]]"),
    ],
)
async def test_background_nursery_when_a_task_crashes_then_nothing_is_lost_and_its_cancellation_ends_there(
    body: Body, expected: str
) -> None:
    with pytest.raises(BaseException) as caught:  # noqa: PT011  # its shape is compared
        async with open_background_nursery() as nursery:
            nursery.start_soon(crash_later)
            await body()
    assert shape(caught.value) == expected


@on_loops("trio")
async def test_background_nursery_when_the_block_and_the_end_of_a_task_fail_then_both_leave() -> None:
    mine = BodyError()
    with pytest.raises(BaseExceptionGroup) as caught:  # noqa: ASYNC401  # its members are looked at
        async with open_background_nursery() as nursery:
            nursery.start_soon(fails_in_its_clean_up, Crash())
            await wait_all_tasks_blocked()
            raise mine
    assert shape(caught.value) == "BaseExceptionGroup[BodyError(), Crash()]"
    assert mine in caught.value.exceptions


@on_loops("trio")
async def test_background_nursery_when_cancelled_while_it_ends_then_one_cancelled_leaves() -> None:
    left: list[BaseException] = []
    with anyio.move_on_after(1) as scope:
        try:
            async with open_background_nursery() as nursery:
                nursery.start_soon(anyio.sleep, 100)
                nursery.start_soon(anyio.sleep, 100)
                await wait_all_tasks_blocked()
                scope.cancel()
        except BaseException as error:
            left.append(error)
            raise
    assert scope.cancelled_caught
    assert [type(error) for error in left] == [anyio.get_cancelled_exc_class()]
