"""One body of a test, run on trio and on asyncio, both on virtual time; and on uvloop, whose time is real.

An async test is written with anyio and marked::

    pytestmark = pytest.mark.anyio                      # on trio and asyncio

    @on_loops("trio-real", "asyncio-real", "uvloop")    # or on these: real time is for tests with sockets
    async def test_...

Its async fixtures run in the same loop. A test that is no async function, such as a Hypothesis test, calls `run_on`.

What a test needs besides is anyio's: `anyio.sleep`, `create_task_group`, `CancelScope`, `fail_after`, `current_time`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Final, Literal, TypeAlias, TypeVar, TypeVarTuple, Unpack

import anyio
import pytest
import trio
import trio.testing

from tests.kit.virtual_loop import VirtualLoop

__all__ = [
    "LOOPS",
    "LOOPS_OF_BROKER",
    "LOOPS_OF_CLIENT",
    "REAL_LOOPS_OF_BROKER",
    "LoopName",
    "backend",
    "has_virtual_time",
    "lasting",
    "nothing_left",
    "on_loops",
    "run_on",
    "wait_all_tasks_blocked",
]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
LoopName: TypeAlias = Literal["trio", "asyncio", "asyncio-shuffled", "trio-real", "asyncio-real", "uvloop"]

# Those with virtual time.
LOOPS: Final[tuple[LoopName, ...]] = ("trio", "asyncio")
# Those that the client runs on, and those that the embedded broker runs on too: in virtual time, and in real time for
# tests with sockets.
LOOPS_OF_CLIENT: Final[tuple[LoopName, ...]] = ("trio", "asyncio")
LOOPS_OF_BROKER: Final[tuple[LoopName, ...]] = ("trio", "asyncio")
REAL_LOOPS_OF_BROKER: Final[tuple[LoopName, ...]] = ("trio-real", "asyncio-real", "uvloop")


def on_loops(*names: LoopName) -> pytest.MarkDecorator:
    """Run a test that is marked ``anyio`` on these loops: said of a module, or of a test, which then counts."""
    return pytest.mark.loops(*names)


def backend(name: LoopName) -> tuple[str, dict[str, object]]:
    """What anyio's plugin for pytest takes for a loop; each run needs a new one."""
    if name.startswith("trio"):
        return "trio", {"clock": _new_clock(name)}
    return "asyncio", {"loop_factory": partial(_new_loop, name)}


def run_on(name: LoopName, function: Callable[[Unpack[Ts]], Awaitable[T]], *args: *Ts) -> T:
    """Run an async function in a loop of its own."""
    if name.startswith("trio"):
        return trio.run(function, *args, clock=_new_clock(name))

    async def main() -> T:
        return await function(*args)

    # Not anyio.run(), which on asyncio took no loop from its caller at first.
    with asyncio.Runner(loop_factory=partial(_new_loop, name)) as runner:
        return runner.run(main())


def _new_clock(name: LoopName) -> trio.abc.Clock | None:
    return trio.testing.MockClock(autojump_threshold=0) if name == "trio" else None


def _new_loop(name: LoopName) -> asyncio.AbstractEventLoop:
    match name:
        case "asyncio":
            return VirtualLoop()
        case "asyncio-shuffled":
            # Trio's tasks run in random order anyway, asyncio's in the order in which they were woken.
            return VirtualLoop(random.Random(0).shuffle)  # noqa: S311  # no secret
        case "uvloop":
            import uvloop  # noqa: PLC0415  # not installed wherever the tests run

            return uvloop.new_event_loop()
        case _:
            return asyncio.new_event_loop()


def has_virtual_time() -> bool:
    """Whether the loop that runs here lets time pass by itself."""
    if trio.lowlevel.in_trio_run():
        return isinstance(trio.lowlevel.current_clock(), trio.testing.MockClock)
    return isinstance(asyncio.get_running_loop(), VirtualLoop)


@contextmanager
def lasting(seconds: float, *, tolerance: float = 1e-6) -> Generator[None]:
    """A block that must take this much virtual time."""
    began = anyio.current_time()
    yield
    assert anyio.current_time() - began == pytest.approx(seconds, abs=tolerance)


async def wait_all_tasks_blocked() -> None:
    """Wait until every other task waits for something; no virtual time passes.

    anyio's own lets a tenth of a second pass on asyncio when it has to wait.
    """
    if trio.lowlevel.in_trio_run():
        await trio.testing.wait_all_tasks_blocked()
    elif isinstance(loop := asyncio.get_running_loop(), VirtualLoop):
        await loop.wait_all_tasks_blocked()
    else:
        await anyio.wait_all_tasks_blocked()


@asynccontextmanager
async def nothing_left() -> AsyncGenerator[None]:
    """A block that must leave no task behind.

    What ends by itself once the block has been left may do so, but without any time passing.
    """
    before = {task.id for task in anyio.get_running_tasks()}
    yield
    await wait_all_tasks_blocked()
    left = [task for task in anyio.get_running_tasks() if task.id not in before]
    assert not left, f"tasks left behind: {left}"
