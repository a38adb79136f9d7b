"""Many connections, many subscriptions, many messages, one large body."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from benchmarks.bench import Bench
from benchmarks.contenders import own
from benchmarks.groups.traffic import WINDOW
from benchmarks.results import RAW, Row

__all__ = [
    "BODIES",
    "CONNECTIONS",
    "DISPATCH",
    "GROWN",
    "IDLE",
    "MEMORY",
    "OPEN",
    "RECEIVED",
    "REOPENED",
    "RESTORE",
    "SENT",
    "SPOOLED",
    "STEPS",
    "SUBSCRIPTIONS",
    "measure_connections",
    "measure_memory",
    "measure_subscriptions",
]

_KIB: Final = 1024
_MIB: Final = 1024 * _KIB

CONNECTIONS: Final = {
    count: Row("Connections in one process", f"{count:,} connections", "") for count in (1, 10, 100, 1000)
}
RECEIVED: Final = "received a second, all together"
_BARE: Final = "by a raw trio loop"
IDLE: Final = Row("An idle connection", "without heart-beats", "")
BEATING: Final = Row("An idle connection", "a heart-beat each second, both ways", "")
MEMORY: Final = "KiB of memory"
STEPS: Final = "wake-ups of a task a second"
BUSY: Final = "% of a processor, for 1 000"

SUBSCRIPTIONS: Final = {
    count: Row("Subscriptions on one connection", f"{count:,} subscriptions", "") for count in (1, 100, 10_000)
}
# How many messages in a row go to a subscription before it is the next one's turn.
_RUNS: Final = {10: "10 messages in a row", 1: "one in turn"}
DISPATCH: Final = {run: f"µs of dispatch for a message, {name}" for run, name in _RUNS.items()}
EACH: Final = "KiB for each"
TAKEN: Final = {run: f"received a second by a task for each, {name}" for run, name in _RUNS.items()}
# With a share of 1 for each, every subscription has had as many.
SHARE: Final = "least share of a task, one in turn"

REOPENED: Final = {
    count: Row("Subscriptions at the embedded broker, in a process of its own", f"{count:,} subscriptions", "s")
    for count in (100, 1000, 10_000)
}
OPEN: Final = "open all"
RESTORE: Final = "restore all after a loss"

GROWN: Final = Row("Memory", "1 000 000 messages, received and acknowledged: grown by", "MiB")
BODIES: Final = Row("Memory", "a body of 256 MiB, while it arrives: at most", "bodies")
BODY_SPEED: Final = Row("Memory", "a body of 256 MiB: speed", "MiB/s")
SPOOLED: Final = Row("Memory", "a body of 256 MiB, into a file: at most", "bodies")
SPOOLED_SPEED: Final = Row("Memory", "a body of 256 MiB, into a file: speed", "MiB/s")
SENT: Final = Row("Memory", "a body of 256 MiB, sent from a file: at most", "bodies")
SENT_SPEED: Final = Row("Memory", "a body of 256 MiB, sent from a file: speed", "MiB/s")
_LARGE: Final = {"large": (BODIES, BODY_SPEED), "spooled": (SPOOLED, SPOOLED_SPEED), "sent": (SENT, SENT_SPEED)}
_PERCENT: Final = 100


def measure_connections(bench: Bench) -> None:
    """Throughput of 1 to 1000 connections; memory and work of idle ones."""
    contender = bench.ours("ours_at_scale")
    counts = list(CONNECTIONS)[: 2 if bench.quick else None]
    for _ in range(min(bench.rounds, 3)):
        for count in counts:
            # The buffers of a thousand sockets take the system seconds to fill.
            warm_up = max(bench.warm_up, count / 300)
            order = replace(bench.order("crowd", "/queue/shared"), count=count, warm_up=warm_up)
            for column, each in ((RECEIVED, contender), (_BARE, own(RAW, "raw"))):
                result = bench.run(each, order)
                if result is not None:
                    bench.results.add(CONNECTIONS[count], column, result["rate"])
        count = 20 if bench.quick else 1000
        order = replace(bench.order("idle", "/queue/quiet"), count=count, seconds=3 * bench.seconds)
        result = bench.run(contender, order)
        if result is not None:
            bench.results.add(IDLE, MEMORY, result["bytes"] / _KIB)
        for row, name in ((IDLE, "silent"), (BEATING, "beating")):
            if result is not None:
                bench.results.add(row, STEPS, result[f"{name}/steps"])
                bench.results.add(row, BUSY, result[f"{name}/cpu"] * _PERCENT * 1000 / count)


def measure_subscriptions(bench: Bench) -> None:
    """Dispatch and consumption on 1 to 10 000 subscriptions; how long it takes to open and to restore them."""
    contender = bench.ours("ours_at_scale")
    counts = list(SUBSCRIPTIONS)[: 2 if bench.quick else None]
    for _ in range(min(bench.rounds, 3)):
        for count in counts:
            row = SUBSCRIPTIONS[count]
            for run in _RUNS:
                order = replace(bench.order("dispatch", f"/queue/spread.{count}.{run}"), count=count)
                result = bench.run(contender, order)
                if result is not None:
                    bench.results.add(row, DISPATCH[run], result["microseconds"])
                    bench.results.add(row, EACH, result["bytes"] / _KIB)
                result = bench.run(contender, replace(order, scenario="tasks"))
                if result is not None:
                    bench.results.add(row, TAKEN[run], result["rate"])
                    if run == 1:
                        bench.results.add(row, SHARE, result["least"])
        for count in list(REOPENED)[: 1 if bench.quick else None]:
            result = bench.run(contender, replace(bench.order("reopen", ""), count=count))
            if result is not None:
                bench.results.add(REOPENED[count], OPEN, result["open"])
                bench.results.add(REOPENED[count], RESTORE, result["restore"])


def measure_memory(bench: Bench) -> None:
    """A million messages, and one large one three ways; once, because they take long and do not vary."""
    contender = bench.ours("ours_at_scale")
    messages, size = (60_000, 4 * _MIB) if bench.quick else (1_000_000, 256 * _MIB)
    order = replace(bench.order("flow", f"/queue/window.{WINDOW}"), limit=messages, patience=120)
    result = bench.run(contender, order)
    if result is not None:
        bench.results.add(GROWN, contender.name, result["grown"] / _MIB)
    for scenario, (memory, speed) in _LARGE.items():
        result = bench.run(contender, replace(bench.order(scenario, "/queue/large"), body_bytes=size))
        if result is not None:
            bench.results.add(memory, contender.name, result["bodies"])
            bench.results.add(speed, contender.name, result["bytes_per_second"] / _MIB)
