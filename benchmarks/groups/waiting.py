"""What a program waits for: its start, its connection after a loss, a message behind others, the collector."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from dataclasses import replace
from pathlib import Path
from typing import Final

from benchmarks.bench import Bench
from benchmarks.contenders import ROOT
from benchmarks.groups.traffic import measure_echo
from benchmarks.results import OURS, Row

__all__ = [
    "AWAY",
    "FLOODED",
    "HELP",
    "IMPORT",
    "KEPT",
    "PAUSE",
    "TRACKED",
    "measure_flooded",
    "measure_held",
    "measure_parting",
    "measure_start",
]

_MILLI: Final = 1e3
_KIB: Final = 1024

IMPORT: Final = Row("Start of a program: processor time", "import of the client, after asyncio", "ms")
HELP: Final = Row("Start of a program: processor time", "trio-stomp --help, the whole process", "ms")
_MODULES: Final = {OURS: "trio_stomp", "stomp.py": "stomp", "stompest": "stompest.sync", "stompman": "stompman"}
_IMPORTING: Final = "import asyncio, time; t = time.process_time(); import {}; print(time.process_time() - t)"
_HELPING: Final = """
import os, subprocess, sys
subprocess.run([sys.argv[1], "--help"], check=True, stdout=subprocess.DEVNULL)
times = os.times()
print(times.children_user + times.children_system)
"""
# More often than other measurements, because it is short.
_STARTS: Final = 5

AWAY: Final = Row("A lost connection", "from the loss to the SUBSCRIBE on the next connection", "ms")

FLOODED: Final = {
    part: Row("Round trip at 1 000 messages a second, another connection being flooded", part, "µs")
    for part in ("p50", "p99", "p99.9")
}

_HELD: Final = 100_000
KEPT: Final = Row("100 000 messages that the program keeps", "memory, for each", "KiB")
TRACKED: Final = Row(
    "100 000 messages that the program keeps", "objects that the collector looks at, for each", "objects"
)
PAUSE: Final = Row("100 000 messages that the program keeps", "a full collection", "ms")


def _processor_seconds(*command: str) -> float:
    """What a process says that it took."""
    return float(
        subprocess.run([sys.executable, *command], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    )


def measure_start(bench: Bench) -> None:
    """Imports, and the help of the command line."""
    wanted = [each for each in bench.contenders if each.name in _MODULES]
    for _ in range(1 if bench.quick else _STARTS):
        for contender in bench.turns(wanted, most=1):
            code = _IMPORTING.format(_MODULES[contender.name])
            bench.results.add(IMPORT, contender.name, _processor_seconds("-c", code) * _MILLI)
        script = Path(sysconfig.get_path("scripts")) / "trio-stomp"
        bench.results.add(HELP, OURS, _processor_seconds("-c", _HELPING, str(script)) * _MILLI)


def measure_parting(bench: Bench) -> None:
    """The peer ends the first connection; how long until the client is back, by the peer's clock.

    One loss for each process: clients wait longer for the next one, if the connection before it did not last.
    """
    clients = [each for each in bench.contenders if each.name in _MODULES]
    for number, contender in enumerate(bench.turns(clients)):
        bench.peer.report()
        if bench.run(contender, replace(bench.order("parting", f"/queue/parting.{number}"), limit=2)) is not None:
            for seen in bench.peer.report():
                if "away" in seen:
                    bench.results.add(AWAY, contender.name, seen["away"] * _MILLI)


def measure_flooded(bench: Bench) -> None:
    """Round trips of those that can have two connections in one program without a thread of the application's."""
    able = [each for each in bench.contenders if each.name in (OURS, "stomp.py", "stompman")]
    measure_echo(bench, "flooded", FLOODED, able)


def measure_held(bench: Bench) -> None:
    """Messages that the application keeps."""
    clients = [each for each in bench.contenders if each.name in _MODULES]
    limit = 1000 if bench.quick else _HELD
    for contender in bench.turns(clients, most=3):
        result = bench.run(contender, replace(bench.order("held", "/queue/flood"), limit=limit))
        if result is not None:
            bench.results.add(KEPT, contender.name, result["bytes"] / _KIB)
            bench.results.add(TRACKED, contender.name, result["tracked"])
            bench.results.add(PAUSE, contender.name, result["pause"] * _MILLI)
