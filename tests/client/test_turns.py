"""The lock that wakes waiting tasks in batches: it keeps their order and survives cancellation of any of them."""

from __future__ import annotations

import random

import pytest
import trio
import trio.testing

import trio_stomp
from trio_stomp.session.budget import Turns
from trio_stomp.testing import Broker

PATIENCE = 30.0


@pytest.fixture
def usual_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the tasks of a pass in their order or in the reverse order, as programs do; pytest-trio shuffles them."""
    monkeypatch.setattr("trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING", False)


async def settled(turns: Turns) -> None:
    """Wait until all tasks are blocked, and check that the lock is free."""
    await trio.testing.wait_all_tasks_blocked()
    assert turns.taken == 0
    async with turns:
        assert turns.taken == 1
    assert turns.taken == 0


async def test_turns_when_free_then_taken_without_a_checkpoint() -> None:
    turns = Turns()
    with trio.testing.assert_no_checkpoints():
        async with turns:
            assert turns.taken == 1
    await settled(turns)


@pytest.mark.parametrize("shuffled", [True, False])
@pytest.mark.parametrize("seed", range(15))
async def test_turns_when_tasks_sleep_in_them_or_are_canceled_then_the_others_go_in_order_one_at_a_time(
    seed: int, shuffled: bool, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING", shuffled)
    chance = random.Random(seed)  # noqa: S311  # a test that can be repeated
    turns = Turns()
    came: list[int] = []
    went: list[int] = []
    gone: set[int] = set()
    scopes: list[trio.CancelScope] = []
    holders = 0

    async def take_turn(number: int, scope: trio.CancelScope, seconds: float | None) -> None:
        nonlocal holders
        came.append(number)
        entered = False
        with scope:
            async with turns:
                entered = True
                went.append(number)
                holders += 1
                assert holders == 1
                try:
                    if seconds is not None:
                        await trio.sleep(seconds)
                finally:
                    holders -= 1
                # Sometimes, cancel a task that was already woken.
                if chance.random() < 0.1:
                    chance.choice(scopes).cancel()
        if not entered:
            gone.add(number)

    async def cancel_some() -> None:
        for _ in range(60):
            await trio.sleep(chance.choice((0, 0, 0.01)))
            chance.choice(scopes).cancel()

    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            for number in range(300):
                scopes.append(trio.CancelScope())
                seconds = chance.choice((None, None, None, None, None, None, 0, 0.01))
                nursery.start_soon(take_turn, number, scopes[-1], seconds)
                if chance.random() < 0.05:
                    await trio.lowlevel.checkpoint()
            nursery.start_soon(cancel_some)

    assert went == [number for number in came if number not in gone]
    assert len(went) > 100
    assert gone
    await settled(turns)


async def test_turns_when_all_who_wait_are_canceled_then_the_next_one_goes() -> None:
    turns = Turns()

    async def go() -> None:
        async with turns:
            raise AssertionError

    async with trio.open_nursery() as nursery:
        async with turns:
            for _ in range(200):
                nursery.start_soon(go)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
    await settled(turns)


async def test_turns_when_the_only_one_that_waits_is_canceled_and_another_comes_then_that_one_goes(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The task that comes finds the lock free, and the canceled one, which has not run since, still waiting."""
    turns, scope = Turns(), trio.CancelScope()

    async def go() -> None:
        with scope:
            async with turns:
                raise AssertionError

    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            async with turns:
                nursery.start_soon(go)
                await trio.testing.wait_all_tasks_blocked()
                scope.cancel()
            async with turns:
                assert scope.cancelled_caught
    await settled(turns)


@pytest.mark.usefixtures("usual_order")
async def test_send_when_hundreds_of_tasks_want_receipts_then_their_frames_are_written_together(broker: Broker) -> None:
    """With one task in each pass of the scheduler, there were two writes for three messages."""
    count = 1000
    async with trio_stomp.connect_stream(broker.connect_stream()) as client:
        before = client.statistics().writes
        async with trio.open_nursery() as nursery:
            for number in range(count):
                nursery.start_soon(lambda body: client.send("/queue/a", body, receipt=True), str(number))
        writes = client.statistics().writes - before

    assert broker.depth("/queue/a") == count
    assert writes < count / 5


@pytest.mark.usefixtures("usual_order")
async def test_subscribe_when_hundreds_of_tasks_do_then_their_frames_are_written_together(broker: Broker) -> None:
    count = 1000
    opened = 0
    async with trio_stomp.connect_stream(broker.connect_stream()) as client, trio.open_nursery() as nursery:
        before = client.statistics().writes

        async def subscribe(queue: str) -> None:
            nonlocal opened
            async with client.subscribe(queue):
                opened += 1
                await trio.sleep_forever()

        for number in range(count):
            nursery.start_soon(subscribe, f"/queue/{number}")
        await trio.testing.wait_all_tasks_blocked()
        assert opened == count
        writes = client.statistics().writes - before
        nursery.cancel_scope.cancel()

    assert writes < count / 5
