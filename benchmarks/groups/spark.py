"""Spark: rows a second from a destination, to one, and out of the spool; how long a message takes to a batch."""

from __future__ import annotations

import importlib.util
import itertools
import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from benchmarks.bench import Bench
from benchmarks.contenders import Contender, own, python_peer
from benchmarks.groups.brokers import TITLES, Target, broker_pid, running_brokers
from benchmarks.order import Order
from benchmarks.processes import BROKER, JVM, PLANNER, RECEIVER, TASKS
from benchmarks.results import OURS, Row

__all__ = [
    "ALERT",
    "AUTO",
    "BEYOND",
    "BROKER_SINK",
    "BROKER_SINK_PROCESSOR",
    "BROKER_SOURCE",
    "BROKER_SOURCE_PROCESSOR",
    "PLAIN",
    "SINK",
    "SOURCE",
    "SPOOL",
    "measure",
    "measure_on_brokers",
]

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
_ALERTS: Final = {
    "p50": ALERT,
    "p95": Row(ALERT.section, "p95", "ms"),
    "called": Row(ALERT.section, "to the call for the batch, if none is under way: p50", "ms"),
    "empty": Row(ALERT.section, "a micro-batch of Spark's rate source in which nothing is done", "ms"),
}
BEYOND: Final = Row(ALERT.section, "the call for the batch, beyond that micro-batch", "ms")
# The default mode, which stomp.py has no counterpart of. The other end of the group `spark` is an unknown broker, where
# it is receipts.
AUTO: Final = "auto"
# A consumer without Spark.
PLAIN: Final = "client and pyarrow"
BROKER_SOURCE: Final = {
    broker: Row(f"{title}, with Spark: rows a second", "source, one receiver") for broker, title in TITLES.items()
}
BROKER_SINK: Final = {
    broker: {
        (mode, ids): Row(row.section, f"sink, writeMode={mode}{'' if ids else ', dedupIds=none'}")
        for mode in (*SINK, AUTO)
        for ids in (True, False)
    }
    for broker, row in BROKER_SOURCE.items()
}

# Of all processes of Spark together.
BROKER_SINK_PROCESSOR: Final = {
    (broker, key): Row(f"{TITLES[broker]}, with Spark: processor time for a row", row.name, "µs")
    for broker, rows in BROKER_SINK.items()
    for key, row in rows.items()
}
BROKER_SOURCE_PROCESSOR: Final = {
    (broker, kind): Row(f"{title}, with Spark: processor time for a row", f"source, one receiver: {kind}", "µs")
    for broker, title in TITLES.items()
    for kind in (RECEIVER, PLANNER, TASKS, JVM, BROKER)
}
_MICRO: Final = 1e6
_ROWS: Final = 600_000
_ROWS_QUICK: Final = 2_000
_BROKER_ROWS: Final = 100_000
# In three modes, and they stay in the queue: more than twice as many fill the memory of ActiveMQ.
_BROKER_SINK_ROWS: Final = 20_000
# Spark takes ten seconds to start, and a query two more.
_PATIENCE: Final = 240.0
_WINDOW: Final = 5_000
_WINDOW_QUICK: Final = 500


def measure(bench: Bench) -> None:
    """All of it, once, in one session; each figure is over seconds."""
    if not _is_possible(bench):
        return
    contender = bench.ours("ours_in_spark")
    rows = _ROWS_QUICK if bench.quick else _ROWS
    order = replace(bench.order("spark", ""), limit=rows, window=_window(bench), patience=_PATIENCE)
    result = bench.run(contender, order)
    if result is None:
        return
    for receivers, row in SOURCE.items():
        bench.results.add(row, OURS, result[f"source/{receivers}"])
    for mode, row in SINK.items():
        bench.results.add(row, OURS, result[f"sink/{mode}"])
    bench.results.add(SPOOL, OURS, result["spool"])
    for key, row in _ALERTS.items():
        bench.results.add(row, OURS, result[key] * 1000)
    bench.results.add(BEYOND, OURS, (result["called"] - result["empty"]) * 1000)


def measure_on_brokers(bench: Bench) -> None:
    """The source next to a consumer that writes Parquet, and the sinks next to stomp.py, on real brokers."""
    if not _is_possible(bench):
        return
    count = _ROWS_QUICK if bench.quick else _BROKER_ROWS
    sinking = [bench.ours("ours_in_spark")]
    peer = python_peer("stomp.py", "stomp_py_in_spark.py")
    if peer is not None:
        sinking.append(peer)
    for broker, port in running_brokers(bench).items():
        target = Target(bench, broker, port)
        for contender, scenario in ((bench.ours("ours_in_spark"), "source"), (own(PLAIN, "ours_in_spark"), "consume")):
            target.fill(count)
            # Some stay behind, because a broker may keep one back for a consumer that has just gone.
            order = replace(_at(target, scenario, count * 9 // 10), broker_pid=broker_pid(broker))
            _note_processor(bench, broker, contender, bench.rate(BROKER_SOURCE[broker], contender, order) or {})
            target.tidy()
        for contender, ids in itertools.product(sinking, (True, False)):
            scenario = "sinks" if ids else "sinks without ids"
            result = bench.run(contender, _at(target, scenario, min(count, _BROKER_SINK_ROWS)))
            for (mode, with_ids), row in BROKER_SINK[broker].items():
                if result is not None and with_ids is ids and f"sink/{mode}" in result:
                    used = BROKER_SINK_PROCESSOR[broker, (mode, with_ids)]
                    bench.results.add(row, contender.name, result[f"sink/{mode}"])
                    bench.results.add(used, contender.name, result[f"processor/{mode}"] * _MICRO)
            target.tidy()


def _note_processor(bench: Bench, broker: str, contender: Contender, result: Mapping[str, float]) -> None:
    """Where the time of the cores went, and how many rows one of them gives."""
    without_broker = 0.0
    for (of, kind), row in BROKER_SOURCE_PROCESSOR.items():
        seconds = result.get(f"processor/{kind}")
        if of == broker and seconds is not None:
            bench.results.add(row, contender.name, seconds * _MICRO)
            without_broker += seconds if kind != BROKER else 0
    if without_broker:
        per_core = Row(BROKER_SOURCE[broker].section, "source, for each second of a core, without the broker's")
        bench.results.add(per_core, contender.name, 1 / without_broker)


def _window(bench: Bench) -> int:
    """As many messages as a segment may have; in a short run there are several segments, too."""
    return _WINDOW_QUICK if bench.quick else _WINDOW


def _at(target: Target, scenario: str, limit: int) -> Order:
    return replace(target.order(scenario, limit), window=_window(target.bench), patience=_PATIENCE)


def _is_possible(bench: Bench) -> bool:
    """Whether Spark can run here, and a note if not."""
    found = importlib.util.find_spec("pyspark") is not None and bool(shutil.which("java") or "JAVA_HOME" in os.environ)
    if not found:
        bench.note("no Java or no PySpark here, so nothing of Spark was measured")
    return found
