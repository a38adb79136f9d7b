"""Calls into the loop's thread, the ordered queue, and what an interrupt leaves behind."""

from __future__ import annotations

import contextvars
import gc
import threading
import time
import traceback
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio

import trio_stomp.blocking
from tests.blocking.conftest import threads
from tests.kit.ctrl_c import CtrlC
from trio_stomp import Hooks
from trio_stomp.blocking import Client
from trio_stomp.blocking.calls import Calls, entered
from trio_stomp.blocking.processes import process
from trio_stomp.blocking.thread import Call, LoopThread
from trio_stomp.errors import ConnectionClosed, OperationTimeout, StompError
from trio_stomp.testing import ThreadedBroker

Action = Callable[[], Awaitable[object]]

color = contextvars.ContextVar("color", default="none")


class NoHooks(Hooks):
    """Hooks that do nothing: with them, what is posted keeps the context of its caller."""


@pytest.fixture
def calls(client: Client) -> Calls:
    return client._calls


def run(function: Callable[[], Awaitable[object]]) -> object:
    return process.thread.run(Call(function))


async def succeed(_left: float | None = None) -> str:
    await trio.lowlevel.checkpoint()
    return "done"


async def fail() -> None:
    await trio.lowlevel.checkpoint()
    raise StompError("no")


async def where() -> int:
    await trio.lowlevel.checkpoint()
    return threading.get_ident()


def noting(notes: list[int], number: int) -> Action:
    async def note() -> None:
        await trio.lowlevel.checkpoint()
        notes.append(number)

    return note


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


# --- the thread -----------------------------------------------------------------------------------------------------


def test_thread_when_used_for_the_first_time_by_many_then_one_runs_the_loop() -> None:
    thread, idents = LoopThread(), list[int]()
    with threads(*[lambda: idents.append(thread.run(Call(where)))] * 8):
        pass

    assert len(idents) == 8
    assert len(set(idents)) == 1


def test_thread_when_an_interrupted_start_has_left_one_behind_then_the_next_caller_starts_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    thread, starts = LoopThread(), list[threading.Thread]()
    begin = threading.Thread.start

    def interrupted(self: threading.Thread) -> None:
        starts.append(self)
        if len(starts) == 1:
            raise KeyboardInterrupt
        begin(self)

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        thread.run(Call(where))

    assert thread.run(Call(where)) != threading.get_ident()


def test_thread_when_it_crashes_then_calls_end_and_the_process_gets_another(caplog: pytest.LogCaptureFixture) -> None:
    crashed = process.thread
    begun = threading.Event()

    async def wait() -> None:
        begun.set()
        await trio.sleep_forever()

    def call() -> None:
        with pytest.raises(ConnectionClosed):
            crashed.run(Call(wait))

    with threads(call):
        assert begun.wait(60)
        crashed.soon(lambda: 1 / 0)
    while not crashed.is_over:
        pass

    assert "has crashed" in caplog.text
    with pytest.raises(ConnectionClosed):
        crashed.run(Call(where))
    assert run(where) != threading.get_ident()


# --- calls ----------------------------------------------------------------------------------------------------------


def test_call_when_it_raises_then_that_very_error_with_the_frames_of_both_threads() -> None:
    error = ValueError("mine")

    async def over_there() -> None:
        await trio.lowlevel.checkpoint()
        raise error

    def over_here() -> None:
        run(over_there)

    with pytest.raises(ValueError, match="mine") as caught:
        over_here()

    assert caught.value is error
    names = [each.name for each in traceback.extract_tb(error.__traceback__)]
    assert names.index("over_here") < names.index("over_there")


def test_call_when_it_raises_then_its_error_is_no_garbage_for_the_collector() -> None:
    class Failure(Exception):
        pass

    async def over_there() -> None:
        await trio.lowlevel.checkpoint()
        raise Failure

    gc.disable()
    try:
        gone: list[weakref.ref[Failure]] = []
        try:
            run(over_there)
        except Failure as error:
            gone.append(weakref.ref(error))
        run(where)
        assert gone[0]() is None
    finally:
        gc.enable()


def test_call_when_interrupted_then_canceled_and_ended_before_the_interrupt_goes_on(ctrl_c: CtrlC) -> None:
    recorder = Recorder()
    ctrl_c(recorder.begun)

    with pytest.raises(KeyboardInterrupt):
        run(recorder.wait_for_ever)

    assert recorder.notes == ["canceled", "ended"]


def test_call_when_it_does_not_end_after_an_interrupt_then_waited_for_no_longer_than_a_second(ctrl_c: CtrlC) -> None:
    begun, end = threading.Event(), trio.Event()

    async def stay() -> None:
        with trio.CancelScope(shield=True):
            begun.set()
            await end.wait()

    ctrl_c(begun)
    before = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run(stay)

    assert 0.9 < time.monotonic() - before < 10
    process.thread.soon(end.set)


# --- a client that is closed ----------------------------------------------------------------------------------------


def test_call_when_under_way_as_the_client_is_closed_then_given_a_moment_and_connection_closed(
    broker: ThreadedBroker,
) -> None:
    ends, stays, done = Recorder(), Recorder(), trio.Event()
    results: list[object] = []

    async def end_soon(_left: float | None) -> str:
        ends.begun.set()
        await done.wait()
        return "done"

    def wait(function: Callable[[float | None], Awaitable[object]]) -> None:
        try:
            results.append(client._calls.call(function))
        except ConnectionClosed as error:
            results.append(error)

    client = trio_stomp.blocking.open(broker.url)

    async def stay(_left: float | None) -> None:
        await stays.wait_for_ever()

    def end_it() -> None:
        while not client._opened._closers:
            pass
        client._calls.link.thread.soon(done.set)

    with threads(partial(wait, end_soon), partial(wait, stay)):
        assert ends.begun.wait(60)
        assert stays.begun.wait(60)
        threading.Thread(target=end_it).start()
        client.close()

    assert results[0] == "done"
    assert isinstance(results[1], ConnectionClosed)
    assert stays.notes == ["canceled", "ended"]


# --- the queue ------------------------------------------------------------------------------------------------------


def test_action_when_posted_while_the_queue_rests_then_done_though_nothing_else_is_called(calls: Calls) -> None:
    for _ in range(200):
        done = threading.Event()

        async def act(done: threading.Event = done) -> None:  # noqa: ASYNC124  # what is posted
            done.set()

        calls.post(act)
        assert done.wait(60)


def test_action_when_its_wake_up_was_interrupted_then_the_next_one_wakes_the_queue(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes: list[int] = []
    calls.catch_up(None)
    soon = calls.link.thread.soon
    while calls.link.queue._rung == calls.link.queue._sleep:
        run(where)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(calls.link.thread, "soon", interrupted)
        with pytest.raises(KeyboardInterrupt):
            calls.post(noting(notes, 0))
    assert calls.link.thread.soon == soon
    done = threading.Event()

    async def act() -> None:  # noqa: ASYNC124  # what is posted
        done.set()

    calls.post(act)
    assert done.wait(60)
    assert notes == [0]


def test_call_when_something_was_posted_then_comes_after_it_within_what_is_left_of_its_time(calls: Calls) -> None:
    notes: list[object] = []
    gate = trio.Event()

    async def slow() -> None:
        await gate.wait()
        notes.append("posted")

    async def called(left: float | None) -> None:
        await trio.lowlevel.checkpoint()
        assert left is not None
        notes.append(left < 60)

    posted = calls.post(slow)
    assert not posted.done
    threading.Timer(0.05, calls.link.thread.soon, [gate.set]).start()
    calls.call(called, 60)

    assert notes == ["posted", True]
    assert posted.done


# --- failures -------------------------------------------------------------------------------------------------------


def test_failure_when_posted_then_raised_by_the_next_call_once_and_says_so(calls: Calls) -> None:
    gate, notes = trio.Event(), list[int]()
    calls.post(gate.wait)
    calls.post(fail)
    calls.post(noting(notes, 1))
    calls.link.thread.soon(gate.set)

    with pytest.raises(StompError, match="no") as caught:
        calls.call(succeed)

    assert "an earlier call" in caught.value.__notes__[0]
    assert calls.call(succeed) == "done"
    assert notes == [1]


def test_failure_when_it_is_known_then_raised_by_the_next_post(calls: Calls) -> None:
    calls.post(fail)
    calls.call(succeed, raises_earlier=False)

    with pytest.raises(StompError):
        calls.post(succeed)


def test_failure_when_of_another_object_then_raised_there_alone(calls: Calls) -> None:
    other = calls.branch()
    other.post(fail)

    assert calls.call(succeed) == "done"
    with pytest.raises(StompError):
        other.catch_up(None)
    other.catch_up(None)


def test_failure_when_it_is_a_mistake_of_ours_then_raised_and_the_queue_goes_on(calls: Calls) -> None:
    async def mistaken() -> None:
        await trio.lowlevel.checkpoint()
        raise ZeroDivisionError

    calls.post(mistaken)
    with pytest.raises(ZeroDivisionError):
        calls.call(succeed)
    assert calls.call(succeed) == "done"


# --- the context of the caller --------------------------------------------------------------------------------------


def post_in_red(calls: Calls, action: Action) -> None:
    context = contextvars.copy_context()
    context.run(color.set, "red")
    context.run(calls.post, action)


@pytest.mark.parametrize("keeps", [False, True])
def test_action_when_it_waits_then_sees_the_context_of_its_caller_only_with_hooks(
    broker: ThreadedBroker, *, keeps: bool
) -> None:
    seen: list[str] = []

    async def look() -> None:
        seen.append(color.get())
        await trio.lowlevel.checkpoint()
        seen.append(color.get())
        color.set("blue")
        await trio.lowlevel.checkpoint()
        seen.append(color.get())

    with trio_stomp.blocking.connect(broker.url, hooks=[NoHooks()] if keeps else []) as client:
        post_in_red(client._calls.branch(), look)

    assert seen == (["red", "red", "blue"] if keeps else ["none", "none", "blue"])
    assert color.get() == "none"


def test_action_when_it_raises_or_catches_in_its_context_then_as_without_one(broker: ThreadedBroker) -> None:
    seen: list[str] = []

    async def catch() -> None:
        with trio.move_on_after(0):
            await trio.sleep_forever()
        seen.append(color.get())

    with trio_stomp.blocking.connect(broker.url, hooks=NoHooks()) as client:
        post_in_red(client._calls, catch)
        post_in_red(client._calls, fail)
        with pytest.raises(StompError, match="no"):
            client._calls.catch_up(None)

    assert seen == ["red"]


def test_action_when_canceled_in_its_context_then_it_may_clean_up(broker: ThreadedBroker) -> None:
    seen: list[str] = []
    begun = threading.Event()

    async def wait() -> None:
        begun.set()
        try:
            await trio.sleep_forever()
        finally:
            seen.append(color.get())

    with pytest.raises(StompError):
        with trio_stomp.blocking.connect(broker.url, hooks=NoHooks(), disconnect_timeout=0.05) as client:
            post_in_red(client._calls, wait)
            assert begun.wait(60)
            raise StompError("left")

    run(where)
    assert seen == ["red"]


# --- blocks ---------------------------------------------------------------------------------------------------------


def test_block_when_it_raises_then_manager_sees_it_and_it_goes_its_way_with_its_own_traceback(calls: Calls) -> None:
    recorder, error = Recorder(), ValueError("mine")

    with pytest.raises(ValueError, match="mine") as caught:
        with entered(calls, recorder.manager(), None):
            raise error

    assert caught.value is error
    assert recorder.notes == ["entered", "ValueError"]
    assert "leave" not in [each.name for each in traceback.extract_tb(error.__traceback__)]


def test_block_when_it_raises_after_something_posted_has_failed_then_that_is_noted(calls: Calls) -> None:
    with pytest.raises(ValueError, match="mine") as caught:
        with entered(calls, Recorder().manager(), None):
            calls.post(fail)
            raise ValueError("mine")

    assert "has failed: no" in caught.value.__notes__[0]


@pytest.mark.parametrize("enters", [False, True])
def test_block_when_interrupted_while_entering_or_leaving_then_manager_is_canceled(
    calls: Calls, ctrl_c: CtrlC, *, enters: bool
) -> None:
    recorder = Recorder()

    @asynccontextmanager
    async def slow() -> AsyncGenerator[str]:
        if enters:
            await trio.lowlevel.checkpoint()
            yield "value"
        await recorder.wait_for_ever()
        if not enters:
            yield "value"

    ctrl_c(recorder.begun)
    with pytest.raises(KeyboardInterrupt):
        with entered(calls, slow(), None):
            assert enters

    assert recorder.notes == ["canceled", "ended"]


def test_block_when_left_after_the_client_was_closed_then_manager_is_left_all_the_same(broker: ThreadedBroker) -> None:
    recorder = Recorder()
    with trio_stomp.blocking.connect(broker.url) as client:
        block = entered(client._calls, recorder.manager(), None)
        block.__enter__()
    block.__exit__(None, None, None)

    assert recorder.notes == ["entered", "left"]


def test_block_when_what_it_has_posted_is_not_done_in_time_then_timeout_and_manager_sees_it(calls: Calls) -> None:
    recorder, gate = Recorder(), trio.Event()
    with pytest.raises(OperationTimeout):
        with entered(calls, recorder.manager(), 0.01):
            calls.post(gate.wait)
    calls.link.thread.soon(gate.set)

    assert recorder.notes == ["entered", "OperationTimeout"]
