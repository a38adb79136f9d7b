"""Spark: rows a second from a destination, to one, and out of the spool; how long a message takes to a batch."""

from __future__ import annotations

import importlib.util
import os
import shutil
from dataclasses import replace
from typing import Final

from benchmarks.bench import Bench
from benchmarks.results import OURS, Row

__all__ = ["ALERT", "SINK", "SOURCE", "SPOOL", "measure"]

_SECTION: Final = "Spark, on two cores: rows, or messages"
SOURCE: Final = {
    1: Row(_SECTION, "source, one receiver"),
    2: Row(_SECTION, "source, two receivers"),
}
SINK: Final = {
    "receipt": Row(_SECTION, "sink, writeMode=receipt"),
    "transaction": Row(_SECTION, "sink, writeMode=transaction"),
}
SPOOL: Final = Row(_SECTION, "spool, read")
ALERT: Final = Row("Spark, from SEND to foreachBatch at the default trigger", "p50", "ms")
_SLOW: Final = Row(ALERT.section, "p95", "ms")

_ROWS: Final = 600_000
_ROWS_QUICK: Final = 2_000
# Spark takes ten seconds to start, and a query two more.
_PATIENCE: Final = 240.0
_WINDOW: Final = 5_000


def measure(bench: Bench) -> None:
    """All of it, once, in one session; each figure is over seconds."""
    if importlib.util.find_spec("pyspark") is None or not (shutil.which("java") or "JAVA_HOME" in os.environ):
        bench.note("no Java or no PySpark here, so nothing of Spark was measured")
        return
    contender = bench.ours("ours_in_spark")
    rows = _ROWS_QUICK if bench.quick else _ROWS
    order = replace(bench.order("spark", ""), limit=rows, window=_WINDOW, patience=_PATIENCE)
    result = bench.run(contender, order)
    if result is None:
        return
    for receivers, row in SOURCE.items():
        bench.results.add(row, OURS, result[f"source/{receivers}"])
    for mode, row in SINK.items():
        bench.results.add(row, OURS, result[f"sink/{mode}"])
    bench.results.add(SPOOL, OURS, result["spool"])
    bench.results.add(ALERT, OURS, result["p50"] * 1000)
    bench.results.add(_SLOW, OURS, result["p95"] * 1000)
