"""The table of states, and the stream of them that a program sees."""

import pytest
import trio

from tests.kit.reconnecting import Host, reconnecting
from trio_stomp import Client, ConnectionLost, Reconnect
from trio_stomp.session.state import PHASES, SESSION_STEPS, SessionState, StateLog, Step, after
from trio_stomp.testing import Broker, DropLink
from trio_stomp.types import ConnectionState, Phase, StateChanges


def healthy(client: Client) -> bool:
    return client.state.healthy


async def test_state_when_the_link_is_lost_and_made_again_then_each_change_is_told_once(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    host = Host(broker)
    seen: list[ConnectionState] = []

    async with trio.open_nursery() as nursery:
        async with reconnecting(host) as client:

            async def watch() -> None:
                async for state in client.state_changes():
                    seen.append(state)  # noqa: PERF401  # each as it comes

            nursery.start_soon(watch)
            await trio.sleep(1)
            assert healthy(client)
            host.refuses = True
            broker.faults.now(DropLink())
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


async def test_state_when_the_client_gives_up_then_closed_bears_the_cause(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    host = Host(broker)
    async with reconnecting(host, reconnect=Reconnect(attempts=1)) as client:
        host.refuses = True
        broker.faults.now(DropLink())
        with pytest.raises(ConnectionLost):
            await client.wait_closed()
        assert client.state.phase is Phase.CLOSED
        assert "give up" in str(client.state.cause)


def test_state_when_printed_then_says_all_that_is_known() -> None:
    assert str(ConnectionState(phase=Phase.CONNECTED)) == "connected"
    state = ConnectionState(phase=Phase.LOST, endpoint="stomp://b:1", cause=ConnectionLost("it broke"), attempt=2)
    assert str(state) == "lost to stomp://b:1 (attempt 2) because it broke"


def test_state_when_only_its_phase_is_known_then_it_says_nothing_else() -> None:
    state = ConnectionState(phase=Phase.LOST)
    assert (state.endpoint, state.cause, state.attempt, state.since) == (None, None, 0, 0.0)


async def test_changes_when_there_are_several_watchers_then_each_gets_all(
    autojump_clock: trio.testing.MockClock,
) -> None:
    log = StateLog()
    watchers = [StateChanges(log), StateChanges(log)]
    log.add(ConnectionState(phase=Phase.CONNECTED))
    log.add(ConnectionState(phase=Phase.CLOSED))
    for watcher in watchers:
        assert [state.phase async for state in watcher] == [Phase.CONNECTING, Phase.CONNECTED, Phase.CLOSED]
        with pytest.raises(StopAsyncIteration):
            await anext(watcher)


async def test_changes_when_a_watcher_is_very_slow_then_it_misses_the_oldest_only(
    autojump_clock: trio.testing.MockClock,
) -> None:
    log = StateLog()
    watcher = StateChanges(log)
    for attempt in range(1000):
        log.add(ConnectionState(phase=Phase.LOST, attempt=attempt))
    log.add(ConnectionState(phase=Phase.CLOSED))
    attempts = [state.attempt async for state in watcher if state.phase is Phase.LOST]
    assert attempts == list(range(1000 - 63, 1000))


async def test_changes_when_watched_late_then_the_present_state_comes_first(
    autojump_clock: trio.testing.MockClock,
) -> None:
    log = StateLog()
    log.add(ConnectionState(phase=Phase.CONNECTED))
    assert (await anext(StateChanges(log))).phase is Phase.CONNECTED


async def test_changes_when_cancelled_then_no_state_is_taken(autojump_clock: trio.testing.MockClock) -> None:
    log = StateLog()
    watcher = StateChanges(log)
    await anext(watcher)
    with trio.move_on_after(1) as scope:
        await anext(watcher)
    assert scope.cancelled_caught
    log.add(ConnectionState(phase=Phase.CONNECTED))
    assert (await anext(watcher)).phase is Phase.CONNECTED


async def test_changes_when_a_state_waits_then_taking_it_can_be_cancelled_and_leaves_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    log = StateLog()
    watcher = StateChanges(log)
    with trio.CancelScope() as scope:
        scope.cancel()
        await anext(watcher)
    assert scope.cancelled_caught
    assert (await anext(watcher)).phase is Phase.CONNECTING


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


def test_step_when_impossible_then_an_error_names_it() -> None:
    assert after(SessionState.MOVED, Step.LOSE) is SessionState.RECONNECTING
    with pytest.raises(AssertionError, match=r"impossible: Step\.RESTORE in SessionState\.CLOSED"):
        after(SessionState.CLOSED, Step.RESTORE)
