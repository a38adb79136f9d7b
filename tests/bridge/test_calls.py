"""Calls into the trio thread: interruptions, context managers, the end of a bridge."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager

import pytest
import trio

from tests.kit.ctrl_c import CtrlC
from trio_stomp.bridge import Bridge, Entered
from trio_stomp.errors import ConnectionClosed

color = contextvars.ContextVar("color", default="none")


@contextmanager
def opened(grace: float = 1) -> Generator[Bridge]:
    bridge = Bridge(grace)
    try:
        bridge.start()
        yield bridge
    finally:
        bridge.close()


class Recorder:
    """What happened, as seen from inside."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.notes: list[str] = []

    async def wait_for_ever(self) -> None:
        self.begun.set()
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            self.notes.append("canceled")
            raise
        finally:
            self.notes.append("ended")

    @asynccontextmanager
    async def manager(self) -> AsyncGenerator[str]:
        self.notes.append("entered")
        try:
            yield "value"
        except BaseException as error:
            self.notes.append(type(error).__name__)
            raise
        else:
            self.notes.append("left")


def test_call_when_it_ends_well_then_returns_what_it_returned(bridge: Bridge) -> None:
    async def where() -> int:
        await trio.lowlevel.checkpoint()
        return threading.get_ident()

    assert bridge.call(where) != threading.get_ident()
    assert bridge.call(where) == bridge.call(where)


def test_call_when_it_raises_then_that_very_error(bridge: Bridge) -> None:
    error = ValueError("mine")

    async def fail() -> None:
        await trio.lowlevel.checkpoint()
        raise error

    with pytest.raises(ValueError, match="mine") as caught:
        bridge.call(fail)

    assert caught.value is error


def test_call_when_made_then_sees_the_context_of_its_caller(bridge: Bridge) -> None:
    async def look() -> str:
        await trio.lowlevel.checkpoint()
        return color.get()

    token = color.set("red")
    try:
        assert bridge.call(look) == "red"
    finally:
        color.reset(token)


def test_call_when_interrupted_then_canceled_and_ended_before_the_interrupt_goes_on(
    bridge: Bridge, ctrl_c: CtrlC
) -> None:
    recorder = Recorder()
    ctrl_c(recorder.begun)

    with pytest.raises(KeyboardInterrupt):
        bridge.call(recorder.wait_for_ever)

    assert recorder.notes == ["canceled", "ended"]


def test_call_when_made_in_the_thread_of_trio_then_refused_instead_of_hanging(bridge: Bridge) -> None:
    async def nothing() -> None:
        await trio.lowlevel.checkpoint()

    async def outer() -> None:
        await trio.lowlevel.checkpoint()
        bridge.call(nothing)

    with pytest.raises(RuntimeError, match="wait for itself"):
        bridge.call(outer)


def test_call_when_the_thread_is_closed_then_connection_closed() -> None:
    with opened() as bridge:
        pass

    with pytest.raises(ConnectionClosed):
        bridge.call(trio.lowlevel.checkpoint)


def test_call_when_under_way_at_the_end_then_connection_closed() -> None:
    recorder = Recorder()
    raised: list[BaseException] = []

    def wait_in_vain() -> None:
        try:
            bridge.call(recorder.wait_for_ever)
        except ConnectionClosed as error:
            raised.append(error)

    with opened(grace=0) as bridge:
        waiting = threading.Thread(target=wait_in_vain)
        waiting.start()
        assert recorder.begun.wait(60)
    waiting.join(60)

    assert len(raised) == 1
    assert recorder.notes == ["canceled", "ended"]


def test_call_when_it_ends_within_the_grace_then_returns() -> None:
    begun, done = threading.Event(), trio.Event()
    results: list[str] = []

    async def wait() -> str:
        begun.set()
        await done.wait()
        return "done"

    with opened(grace=10) as bridge:
        waiting = threading.Thread(target=lambda: results.append(bridge.call(wait)))
        waiting.start()
        assert begun.wait(60)
        bridge.soon(done.set)
    waiting.join(60)

    assert results == ["done"]


def test_block_when_it_raises_then_that_very_error_leaves() -> None:
    error = ValueError("mine")

    with pytest.raises(ValueError, match="mine") as caught:
        with opened():
            raise error

    assert caught.value is error


def test_served_task_when_the_thread_is_open_then_runs_until_the_end() -> None:
    recorder = Recorder()

    with opened() as bridge:
        bridge.serve(recorder.wait_for_ever)
        assert recorder.begun.wait(60)

    assert recorder.notes == ["canceled", "ended"]


# --- Entered --------------------------------------------------------------------------------------------------------


def test_entered_when_the_block_ends_well_then_manager_is_left_well(bridge: Bridge) -> None:
    recorder = Recorder()

    with Entered(bridge, recorder.manager()) as value:
        assert value == "value"
        assert recorder.notes == ["entered"]

    assert recorder.notes == ["entered", "left"]


def test_entered_when_the_block_raises_then_manager_sees_it_and_it_goes_its_way(bridge: Bridge) -> None:
    recorder, error = Recorder(), ValueError("mine")

    with pytest.raises(ValueError, match="mine") as caught:
        with Entered(bridge, recorder.manager()):
            raise error

    assert caught.value is error
    assert recorder.notes == ["entered", "ValueError"]


def test_entered_when_entering_fails_then_raised_at_once(bridge: Bridge) -> None:
    @asynccontextmanager
    async def broken() -> AsyncGenerator[None]:
        await fail()
        yield

    async def fail() -> None:
        await trio.lowlevel.checkpoint()
        raise ValueError("no way in")

    with pytest.raises(ValueError, match="no way in"):
        with Entered(bridge, broken()):
            pytest.fail("entered")


def test_entered_when_leaving_fails_then_raised(bridge: Bridge) -> None:
    @asynccontextmanager
    async def broken() -> AsyncGenerator[None]:
        await trio.lowlevel.checkpoint()
        yield
        raise ValueError("no way out")

    with pytest.raises(ValueError, match="no way out"):
        with Entered(bridge, broken()):
            pass


def test_entered_when_interrupted_while_leaving_then_manager_is_canceled(bridge: Bridge, ctrl_c: CtrlC) -> None:
    recorder = Recorder()

    @asynccontextmanager
    async def slow() -> AsyncGenerator[None]:
        await trio.lowlevel.checkpoint()
        yield
        await recorder.wait_for_ever()

    ctrl_c(recorder.begun)
    with pytest.raises(KeyboardInterrupt):
        with Entered(bridge, slow()):
            pass

    assert recorder.notes == ["canceled", "ended"]


def test_entered_when_interrupted_while_entering_then_manager_is_canceled(bridge: Bridge, ctrl_c: CtrlC) -> None:
    recorder = Recorder()

    @asynccontextmanager
    async def slow() -> AsyncGenerator[None]:
        await recorder.wait_for_ever()
        yield

    ctrl_c(recorder.begun)
    with pytest.raises(KeyboardInterrupt):
        with Entered(bridge, slow()):
            pytest.fail("entered")

    assert recorder.notes == ["canceled", "ended"]


@pytest.mark.parametrize("outlives", [False, True])
def test_entered_when_left_after_the_thread_is_closed_then_quiet_only_if_it_outlives(*, outlives: bool) -> None:
    recorder = Recorder()
    with opened(grace=0) as bridge:
        entered = Entered(bridge, recorder.manager(), outlives=outlives)
        entered.__enter__()

    assert recorder.notes == ["entered", "Cancelled"]
    if outlives:
        entered.__exit__(None, None, None)
    else:
        with pytest.raises(ConnectionClosed):
            entered.__exit__(None, None, None)
