"""Cost in counts that are the same on every machine: calls made, blocks of memory kept, bytes held at once."""

# sys.setprofile hands over frames and arguments of any type.

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

__all__ = ["Calls", "blocks_kept", "bytes_kept", "collect_only_new", "count_calls", "peak_bytes"]


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

    In a long test session these are more than a million, and a full collection takes seconds.
    """
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


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
