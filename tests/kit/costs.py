"""Cost in counts that are the same on every machine: calls made, blocks of memory kept, bytes held at once."""

# sys.setprofile hands over frames and arguments of any type.

from __future__ import annotations

import functools
import gc
import inspect
import sys
import tracemalloc
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import ParamSpec, TypeVar, cast

__all__ = [
    "Calls",
    "blocks_kept",
    "bytes_kept",
    "collect_only_new",
    "count_calls",
    "expect_below",
    "measures_memory",
    "peak_bytes",
]

_P = ParamSpec("_P")
_T = TypeVar("_T")

# Enough that another thread does not disturb each of them, and that a test that fails still ends soon.
_MEASUREMENTS = 3


@dataclass(slots=True)
class Calls:
    """How many functions were called, of Python and of C together."""

    count: int = 0


@contextmanager
def count_calls() -> Generator[Calls]:
    """Count the calls of the block."""
    calls = Calls()

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        if event in {"call", "c_call"}:
            calls.count += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield calls
    finally:
        sys.setprofile(before)


@contextmanager
def collect_only_new() -> Generator[None]:
    """Keep the garbage collector from the objects that were there before the block.

    In a long test session these are more than a million, and a full collection takes seconds. That is why they are
    not given back afterwards: the next collection, in whatever test, would be a full one.
    """
    gc.collect()
    gc.freeze()
    yield


def blocks_kept(make: Callable[[], object]) -> int:
    """How many blocks of memory the result of `make` keeps."""
    with collect_only_new():
        before = sys.getallocatedblocks()
        kept = make()
        gc.collect()
        after = sys.getallocatedblocks()
    del kept
    return after - before


def peak_bytes(run: Callable[[], object]) -> int:
    """How many bytes `run` holds at most, beyond what was there before."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        run()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return peak - before


def bytes_kept(run: Callable[[], object]) -> int:
    """How many bytes more than before are held when `run` is done, its result included and garbage left out."""
    with collect_only_new():
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            kept = run()
            gc.collect()
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    del kept
    return after - before


class MoreThanExpected(AssertionError):
    """A measurement is not below its bound."""


def expect_below(measured: float, bound: float) -> None:
    """Fail the test unless a measurement is below its bound; where the test `measures_memory`, let it measure again."""
    if measured >= bound:
        raise MoreThanExpected(f"{measured} is not below {bound}")


def measures_memory(test: Callable[_P, _T]) -> Callable[_P, _T]:
    """Repeat a test that measured too much, up to twice.

    What is measured is the memory of the whole process, and not all of it is the test's: the thread through which
    pytest-xdist moves tests between its workers takes hundreds of KiB when it moves a thousand. Other threads can only
    add to what the test takes by itself, which is the same each time, so the least of the measurements counts.

    Args:
        test: A function, or an async function, that measures the same however often it is called, and says so by
            `expect_below`, outside of all nurseries. All other failures are final.
    """
    if inspect.iscoroutinefunction(test):
        awaited = cast("Callable[_P, Coroutine[object, object, None]]", test)

        @functools.wraps(test)
        async def repeated(*args: _P.args, **kwargs: _P.kwargs) -> None:
            for _ in range(_MEASUREMENTS - 1):
                try:
                    return await awaited(*args, **kwargs)
                except MoreThanExpected:
                    continue
            return await awaited(*args, **kwargs)

        return cast("Callable[_P, _T]", repeated)

    @functools.wraps(test)
    def repeated_at_once(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        for _ in range(_MEASUREMENTS - 1):
            try:
                return test(*args, **kwargs)
            except MoreThanExpected:
                continue
        return test(*args, **kwargs)

    return repeated_at_once
