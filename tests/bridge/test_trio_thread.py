"""The thread that all bridges of a process share, and what a fork does to it."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import pytest
import trio

from trio_stomp.bridge import FORKED, Bridge, Entered, Lane
from trio_stomp.errors import ConnectionClosed


def trio_threads() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name == "trio_stomp"]


async def where() -> int:
    await trio.lowlevel.checkpoint()
    return threading.get_ident()


def test_thread_when_several_bridges_are_open_then_they_share_it_until_the_last_is_closed() -> None:
    first, second = Bridge(), Bridge()
    first.start()
    second.start()

    assert first.call(where) == second.call(where) != threading.get_ident()
    assert len(trio_threads()) == 1
    first.close()
    assert second.call(where)
    second.close()
    assert not trio_threads()


def test_thread_when_it_has_ended_then_the_next_bridge_starts_another() -> None:
    for _ in range(2):
        bridge = Bridge()
        bridge.start()
        assert bridge.call(where) != threading.get_ident()
        bridge.close()

    assert not trio_threads()


def test_thread_when_bridges_come_and_go_in_many_threads_then_all_work() -> None:
    failed: list[BaseException] = []

    def use() -> None:
        try:
            for _ in range(20):
                bridge = Bridge(grace=0)
                bridge.start()
                assert bridge.call(where) != threading.get_ident()
                bridge.close()
        except BaseException as error:  # noqa: BLE001, ASYNC103  # shown by the assertion below
            failed.append(error)

    threads = [threading.Thread(target=use) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)

    assert not failed
    assert not trio_threads()


@asynccontextmanager
async def nothing() -> AsyncGenerator[None]:
    await trio.lowlevel.checkpoint()
    yield


def in_child(look: Callable[[], str]) -> str:
    """What a function returns, or raises, in a child of this process."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()

    def run() -> None:
        try:
            theirs.send(look())
        except BaseException as error:  # noqa: BLE001, ASYNC103  # compared with what was expected
            theirs.send(repr(error))

    child = context.Process(target=run)
    child.start()
    try:
        assert ours.poll(60)
        found = ours.recv()
    finally:
        child.join(60)
        child.close()
        ours.close()
        theirs.close()
    assert isinstance(found, str)
    return found


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork()")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_bridge_when_the_process_was_forked_then_refuses_in_the_child_and_works_in_the_parent(bridge: Bridge) -> None:
    lane = Lane(bridge)

    def look() -> str:
        said: set[str] = set()
        uses: list[Callable[[], object]] = [
            lambda: bridge.call(where),
            lambda: lane.post(where),
            lambda: Entered(bridge, nothing()).begin(),
        ]
        for use in uses:
            with pytest.raises(ConnectionClosed) as caught:
                use()
            said.add(str(caught.value))
        bridge.close()
        return "; ".join(said)

    assert in_child(look) == FORKED
    assert bridge.call(where) != threading.get_ident()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork()")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_bridge_when_opened_in_a_forked_child_then_has_a_thread_of_its_own(bridge: Bridge) -> None:
    def look() -> str:
        own = Bridge()
        own.start()
        try:
            return "own" if own.call(where) != threading.get_ident() else "none"
        finally:
            own.close()

    assert in_child(look) == "own"
