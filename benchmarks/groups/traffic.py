"""A connection to the peer process, as the application sees it."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from typing import Final

from benchmarks.bench import Bench
from benchmarks.contenders import Contender, aiostomp, on_uvloop, own
from benchmarks.order import UVLOOP
from benchmarks.results import RAW, Row

__all__ = [
    "ASYNCIO",
    "LATENCY",
    "RATES",
    "SYNCHRONOUS",
    "WINDOW",
    "measure_asyncio",
    "measure_echo",
    "measure_latency",
    "measure_rate",
    "measure_synchronous",
]

_SECTION: Final = "One connection: messages a second"
WINDOW: Final = 256

RATES: Final = {
    "receive": Row(_SECTION, "receive, auto"),
    "acknowledge": Row(_SECTION, "receive and ack, client-individual"),
    "send": Row(_SECTION, "send"),
    "receipts": Row(_SECTION, "send, each receipt awaited"),
    "publisher": Row(_SECTION, f"send, {WINDOW} receipts on their way"),
}
# The column of trio_stomp is trio_stomp.blocking here.
SYNCHRONOUS: Final = {
    scenario: Row("Synchronous code, one connection: messages a second", row.name) for scenario, row in RATES.items()
}
_SYNCHRONOUS_PEERS: Final = ("stomp.py", "stompest")
# trio_stomp runs on asyncio here.
ASYNCIO: Final = {
    scenario: Row("asyncio code, one connection: messages a second", row.name) for scenario, row in RATES.items()
}
# aiostomp confirms nothing.
_UNCONFIRMED: Final = ("receive", "acknowledge", "send")
_DESTINATIONS: Final = {"receive": "/queue/flood", "acknowledge": f"/queue/window.{WINDOW}"}

LATENCY: Final = {part: Row("Round trip at 1 000 messages a second", part, "µs") for part in ("p50", "p99", "p99.9")}
_MICRO: Final = 1e6
# A sending side may not claim what did not arrive; what is still in buffers at the end is no more than this part.
_ARRIVED_AT_LEAST: Final = 0.8


def measure_rate(bench: Bench, scenario: str) -> None:
    """One of RATES, every contender, in rounds."""
    _measure(bench, scenario, RATES[scenario], bench.contenders)


def measure_synchronous(bench: Bench) -> None:
    """All of SYNCHRONOUS, in rounds."""
    contenders = [bench.ours("ours_blocking"), *(each for each in bench.contenders if each.name in _SYNCHRONOUS_PEERS)]
    for scenario, row in SYNCHRONOUS.items():
        _measure(bench, scenario, row, [*contenders, *_floor(scenario)])


def measure_asyncio(bench: Bench) -> None:
    """All of ASYNCIO, in rounds."""
    contenders = [bench.ours("ours_asyncio"), *(each for each in bench.contenders if each.name == "stompman")]
    if importlib.util.find_spec(UVLOOP) is not None:
        contenders += map(on_uvloop, contenders[:])
    other = aiostomp()
    for scenario, row in ASYNCIO.items():
        others = [other] if other is not None and scenario in _UNCONFIRMED else []
        _measure(bench, scenario, row, [*contenders, *others])


def _floor(scenario: str) -> list[Contender]:
    """What two threads cost a call that waits for the broker, whatever is between them."""
    return [own(RAW, "raw_crossing")] if scenario == "receipts" else []


def _measure(bench: Bench, scenario: str, row: Row, contenders: Sequence[Contender]) -> None:
    order = bench.order(scenario, _DESTINATIONS.get(scenario, "/queue/benchmark"))
    bench.peer.report()
    for contender in bench.turns(contenders):
        result = bench.rate(row, contender, order)
        arrived = sum(each["frames"] for each in bench.peer.report())
        if scenario != "receive" and result is not None and arrived < _ARRIVED_AT_LEAST * result["total"]:
            bench.trouble(f"{contender.name}, {scenario}: says {result['total']:.0f}, but {arrived:.0f} arrived")


def measure_latency(bench: Bench) -> None:
    """The time from a message of the peer until it has it back, by the peer's clock."""
    measure_echo(bench, "echo", LATENCY, bench.contenders)


def measure_echo(bench: Bench, scenario: str, rows: Mapping[str, Row], contenders: Sequence[Contender]) -> None:
    """The parts of the round trips of some contenders."""
    messages = 200 if bench.quick else int(2000 * bench.seconds)
    order = bench.order(scenario, f"/queue/ticks.{messages}")
    for contender in bench.turns(contenders):
        bench.peer.report()
        if bench.run(contender, order) is None:
            continue
        for seen in bench.peer.report():
            for part, row in rows.items():
                if part in seen:
                    bench.results.add(row, contender.name, seen[part] * _MICRO)
