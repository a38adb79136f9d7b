"""Run seeds: `python -m tests.simulation --seeds 100`, or one of them again: `--seed 17`."""

from __future__ import annotations

import argparse
import gc
import signal
import sys
import time
from collections import Counter
from types import FrameType

from tests.simulation.loops import LOOPS
from tests.simulation.planted import PLANTED, search
from tests.simulation.scenario import Result, simulate

# Real seconds for one seed, of which nearly all take less than one.
_MOST_SECONDS = 120


def main() -> int:
    """Run the seeds that the command line names; return the status."""
    parser = argparse.ArgumentParser(prog="make simulate", description="Simulate client, network and broker.")
    parser.add_argument("--seed", type=int, help="run this seed alone, and say all that is known about it")
    parser.add_argument("--seeds", type=int, default=100, help="run this many seeds (default 100)")
    parser.add_argument("--first", type=int, default=0, help="begin with this seed (default 0)")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no new seed after this many seconds")
    parser.add_argument("--loop", choices=sorted(LOOPS), default="trio", help="the event loop (default trio)")
    parser.add_argument("--planted", action="store_true", help="plant each fault of the table, and search for it")
    options = parser.parse_args()
    if options.planted:
        return _search_planted(options.loop)
    seeds = range(options.first, options.first + options.seeds) if options.seed is None else [options.seed]
    began, messages, confirmed, links, ran = time.monotonic(), 0, 0, 0, 0
    counts: Counter[str] = Counter()
    failed: list[int] = []
    # What is imported stays: the collection after each seed looks at what the seed has left.
    gc.collect()
    gc.freeze()
    for seed in seeds:
        if time.monotonic() - began > options.seconds:
            break
        result = _bounded(seed, options.loop)
        ran += 1
        messages += result.messages
        confirmed += result.confirmed
        links += result.links
        counts += result.counts
        if options.seed is not None:
            print(f"trace {result.trace}")
        if result.troubles:
            failed.append(seed)
            print(f"seed {seed} failed; run it again: make simulate SEED={seed} LOOP={options.loop}")
            for trouble in result.troubles:
                print(f"    {trouble}")
            sys.stdout.flush()
    seconds = time.monotonic() - began
    found = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())) or "no trouble"
    print(
        f"{ran:,} seeds on {options.loop} in {seconds:,.0f} s: {messages:,} messages, {confirmed:,} confirmed, "
        f"{links:,} connections; {len(failed)} seeds failed: {found}"
    )
    return bool(failed)


def _search_planted(loop: str) -> int:
    """Say of each planted fault after how many seeds it is found."""
    missed = 0
    for name in PLANTED:
        result = search(name, loop=loop)
        missed += result is None
        said = "not found" if result is None else f"found after {result.seed + 1} seeds: {', '.join(result.counts)}"
        print(f"{name}: {said}", flush=True)
    return bool(missed)


def _bounded(seed: int, loop: str) -> Result:
    """Run a seed; one that takes no end in real time fails."""

    def spins(_number: int, _frame: FrameType | None) -> None:
        raise RuntimeError(f"seed {seed} takes more than {_MOST_SECONDS} s of real time")

    before = signal.signal(signal.SIGALRM, spins)
    signal.alarm(_MOST_SECONDS)
    try:
        return simulate(seed, loop=loop)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


if __name__ == "__main__":
    sys.exit(main())
