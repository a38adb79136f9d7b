"""The table of states, and the stream of them that a program sees."""

import pytest
import trio

from tests.kit.loops import on_loops
from tests.kit.reconnecting import Host, reconnecting
from trio_stomp import Client, ConnectionLost
from trio_stomp.session.state import PHASES, SESSION_STEPS, SessionState, Step
from trio_stomp.types import ConnectionState, Phase

pytestmark = [pytest.mark.anyio, on_loops("trio")]


def healthy(client: Client) -> bool:
    return client.state.healthy


async def test_state_when_the_link_is_lost_and_made_again_then_each_change_is_told_once(host: Host) -> None:
    seen: list[ConnectionState] = []

    async with trio.open_nursery() as nursery:
        async with reconnecting(host) as client:

            async def watch() -> None:
                async for state in client.state_changes():
                    seen.append(state)  # noqa: PERF401  # each as it comes

            nursery.start_soon(watch)
            await trio.sleep(1)
            assert healthy(client)
            host.go_down()
            await trio.sleep(1)
            assert not healthy(client)
            host.refuses = False
            await trio.sleep(20)
            assert healthy(client)
    lost, tried, failed, again = seen[1:5]
    assert [state.phase for state in seen] == [
        Phase.CONNECTED,
        Phase.LOST,
        Phase.CONNECTING,
        Phase.LOST,
        Phase.CONNECTING,
        Phase.CONNECTED,
        Phase.CLOSED,
    ]
    assert isinstance(lost.cause, ConnectionLost)
    assert lost.endpoint == "stomp://h0:61613"
    assert (tried.attempt, failed.attempt, again.attempt) == (1, 1, 2)
    assert "Connection refused" in str(failed)
    assert str(failed).startswith("lost (attempt 1) because could not connect")
    assert [state.since for state in seen] == sorted(state.since for state in seen)
    assert seen[-1].cause is None


def test_state_when_printed_then_says_all_that_is_known() -> None:
    state = ConnectionState(phase=Phase.CONNECTED)
    assert str(state) == "connected"
    assert (state.endpoint, state.cause, state.attempt, state.since) == (None, None, 0, 0.0)
    state = ConnectionState(phase=Phase.LOST, endpoint="stomp://b:1", cause=ConnectionLost("it broke"), attempt=2)
    assert str(state) == "lost to stomp://b:1 (attempt 2) because it broke"


async def test_changes_when_there_are_several_watchers_then_each_gets_all(client: Client) -> None:
    watchers = [client.state_changes(), client.state_changes()]
    await client.disconnect()
    for watcher in watchers:
        assert [state.phase async for state in watcher] == [Phase.CONNECTED, Phase.CLOSED]
        with pytest.raises(StopAsyncIteration):
            await anext(watcher)


async def test_changes_when_a_watcher_is_very_slow_then_it_misses_the_oldest_only(host: Host) -> None:
    async with reconnecting(host) as client:
        changes = client.state_changes()
        host.go_down()
        await trio.sleep(1000)
        await client.disconnect()
    states = [state async for state in changes]
    assert len(states) == 64
    assert states[-1].phase is Phase.CLOSED
    attempts = [state.attempt for state in states if state.phase is Phase.LOST]
    assert attempts[0] > 64
    assert attempts == list(range(attempts[0], attempts[0] + len(attempts)))


async def test_changes_when_cancelled_then_no_state_is_taken(client: Client) -> None:
    changes = client.state_changes()
    with trio.CancelScope() as scope:
        scope.cancel()
        await anext(changes)
    assert scope.cancelled_caught
    assert (await anext(changes)).phase is Phase.CONNECTED
    with trio.move_on_after(1) as scope:
        await anext(changes)
    assert scope.cancelled_caught
    await client.disconnect()
    assert (await anext(changes)).phase is Phase.CLOSED


def test_table_when_walked_then_each_state_can_be_reached_and_each_has_an_end() -> None:
    found, to_visit = {SessionState.RESTORING}, [SessionState.RESTORING]
    while to_visit:
        for state in SESSION_STEPS[to_visit.pop()].values():
            if state not in found:
                found.add(state)
                to_visit.append(state)
    assert found == set(SessionState) == SESSION_STEPS.keys() == PHASES.keys()
    assert {state for state, steps in SESSION_STEPS.items() if not steps} == {SessionState.CLOSED}
    assert all(Step.END in steps for steps in SESSION_STEPS.values() if steps)
    assert {phase for phases in PHASES.values() for phase in phases} == set(Phase)


async def test_step_when_the_table_lacks_it_then_that_is_a_bug_and_says_so(client: Client) -> None:
    await client.disconnect()
    with pytest.raises(AssertionError, match=r"impossible: .* in SessionState\.CLOSED"):
        client._session.enter(Step.MOVE)
