"""Receivers in threads of one process: how their rate grows with them, with and without a GIL.

    python3.14t -m benchmarks.threads                   a free-threaded build of CPython
    PYTHON_GIL=1 python3.14t -m benchmarks.threads      the same build, with the GIL

Each thread has an event loop, a client and a connection of its own, and takes messages from the peer of ``make bench``,
which needs part of a core too.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import trio

import trio_stomp
from benchmarks.bench import Peer

__all__ = ["main", "measure"]

_COUNTS: Final = "1,2"
_WARM_UP_SECONDS: Final = 1.0


async def _receive(port: int, counts: list[int], number: int, seconds: float) -> None:
    """Count the messages of one connection, after a warm-up."""
    with trio.move_on_after(_WARM_UP_SECONDS + seconds):
        async with (
            trio_stomp.connect(f"stomp://127.0.0.1:{port}", heart_beat=(0, 0)) as client,
            client.subscribe("/queue/flood", ack="auto") as subscription,
        ):
            begin = time.monotonic() + _WARM_UP_SECONDS
            async for _message in subscription:
                if time.monotonic() >= begin:
                    counts[number] += 1


def measure(port: int, threads: int, seconds: float) -> tuple[float, float]:
    """Return the messages that all threads received per second, and the CPU seconds of the process per second."""
    counts = [0] * threads
    with ThreadPoolExecutor(threads) as pool:
        running = [pool.submit(trio.run, _receive, port, counts, number, seconds) for number in range(threads)]
        time.sleep(_WARM_UP_SECONDS)
        began = time.process_time()
        for each in running:
            each.result()
    return sum(counts) / seconds, (time.process_time() - began) / seconds


def main(arguments: Sequence[str]) -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.threads", description=__doc__)
    parser.add_argument("--counts", default=_COUNTS, help="how many threads; default: %(default)s")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long each one lasts; default: %(default)s")
    given = parser.parse_args(arguments)
    has_gil: bool = getattr(sys, "_is_gil_enabled", lambda: True)()
    print(f"CPython {platform.python_version()}, {'with' if has_gil else 'without'} a GIL\n")
    print("| threads | messages/s | of one thread | cores in use |\n|--:|--:|--:|--:|")
    one = 0.0
    with Peer() as peer:
        for count in map(int, str(given.counts).split(",")):
            rate, cores = measure(peer.port, count, float(given.seconds))
            one = one or rate / count
            print(f"| {count} | {rate:,.0f} | {rate / one:.2f} | {cores:.2f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
