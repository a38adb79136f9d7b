"""The memory of the Python process in the driver that plans a Spark stream, with a million messages waiting.

    python -m benchmarks.planner_memory          prints the table of docs/spark.md, in about three minutes

Its largest resident memory, as Linux counts it, while a query reads all of the messages. Before, half a million rows
with ids wait in the spool, written by four receivers, so that the window of ids becomes full with its default size. The
broker of the queue is the peer of ``make bench``, and the receiver is in the same process.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from benchmarks.bench import Peer
from benchmarks.receiver_scaling import session
from trio_stomp.spark.intake_options import STREAM
from trio_stomp.spark.segments import Segment, SegmentFormat, encoded
from trio_stomp.spark.spool_store import SpoolStore
from trio_stomp.spark.stream_options import StreamOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["CASES", "Case", "main", "measure"]

_RUNNER: Final = b"python_streaming_source_runner"
_SHARDS: Final = 4
_ROWS: Final = 1000
_MESSAGES: Final = 1_000_000
_POLL_SECONDS: Final = 0.5
_PATIENCE: Final = 600.0
_LIMIT: Final = 200 * 1024**2


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Where the messages wait.

    Attributes:
        name: For people.
        queued: The part of them that is in a queue; the others are in the spool.
        batch: The option ``maxOffsetsPerTrigger``; None: all that there are.
    """

    name: str
    queued: float
    batch: int | None


CASES: Final = (
    Case(name="half in the spool, half in the queue, with the receiver in the same process", queued=0.5, batch=50_000),
    Case(name="in the spool", queued=0, batch=50_000),
    Case(name="in the spool, read in one batch", queued=0, batch=None),
)


def _runners(above: int) -> list[int]:
    """The planners among the descendants of a process."""
    parents: dict[int, int] = {}
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text("utf-8", "replace")
                parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
                if _RUNNER in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except (OSError, IndexError):
                continue  # it has ended meanwhile
    return [each for each in found if _is_below(each, above, parents)]


def _is_below(pid: int, above: int, parents: dict[int, int]) -> bool:
    while pid > 1 and pid != above:
        pid = parents.get(pid, 0)
    return pid == above


def _largest(pid: int) -> int:
    """The most memory that a process has had, in bytes."""
    lines = Path(f"/proc/{pid}/status").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def _write_segment(store: SpoolStore, schema: pa.Schema, shard: str, first: int) -> None:
    numbers = range(first, first + _ROWS)
    broker = f"ID:broker.example.com-41613-1732486400-{shard}:1"
    rows = [{"body": b"x" * 200, "redelivered": False, "stable_id": f"{broker}:{number}"} for number in numbers]
    octets = encoded(pa.RecordBatch.from_pylist(rows, schema=schema), SegmentFormat.ARROW)
    now = int(time.time() * 1000)
    # All are suspect, as on brokers that do not mark what they deliver again; so all ids are read.
    segment = Segment(
        shard=shard,
        first=first,
        rows=_ROWS,
        suspects=_ROWS,
        size=octets.size,
        time=now,
        form=SegmentFormat.ARROW,
    )
    store.put(segment.name, octets, durable=False)


def measure(spark: SparkSession, port: int, folder: Path, case: Case, messages: int) -> int:
    """Have a query read all messages of a case, and return the memory of its planner in bytes.

    Raises:
        TimeoutError: It takes too long.
    """
    queued = int(messages * case.queued)
    given = {
        "brokers": f"127.0.0.1:{port}",
        "subscribe": f"/queue/stock.2000.{queued}",
        "spoolLocation": str(folder / "spool"),
        "receivers": "1" if queued else "0",
    }
    if case.batch is not None:
        given["maxOffsetsPerTrigger"] = str(case.batch)
    options = StreamOptions.read(given).intake
    store = options.open_spool(STREAM)
    spooled = (messages - queued) // (_SHARDS * _ROWS)
    for number in range(spooled):
        for shard in range(_SHARDS):
            _write_segment(store, options.columns.arrow_schema(), f"shard-{shard}", 1 + number * _ROWS)
    rows = spark.readStream.format("stomp").options(**given).load()
    query = rows.writeStream.format("noop").option("checkpointLocation", str(folder / "checkpoint")).start()
    until = time.monotonic() + _PATIENCE
    while sum(progress["numInputRows"] for progress in query.recentProgress) < queued + spooled * _SHARDS * _ROWS:
        failure = query.exception()
        if failure is not None:
            raise failure
        if time.monotonic() > until:
            raise TimeoutError(f"not all rows were read after {_PATIENCE:g} s")
        time.sleep(_POLL_SECONDS)
    (runner,) = _runners(os.getpid())
    largest = _largest(runner)
    query.stop()
    return largest


def main(arguments: Sequence[str]) -> int:
    """Measure all, and print the table; returns 0 if all are below 200 MiB."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.planner_memory", description=__doc__)
    parser.add_argument("--messages", type=int, default=_MESSAGES, help="how many wait; default: %(default)s")
    given = parser.parse_args(arguments)
    found: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as temporary, Peer() as peer:
        folder = Path(temporary).resolve()
        spark = session(str(folder), "local[2,4]")
        for number, case in enumerate(CASES):
            found[case.name] = measure(spark, peer.port, folder / str(number), case, int(given.messages))
            print(f"{case.name}: {found[case.name] >> 20} MiB", file=sys.stderr, flush=True)
        spark.stop()
    print("| messages wait | planner, MiB |\n|---|--:|")
    print("\n".join(f"| {name} | {size >> 20} |" for name, size in found.items()))
    return 0 if max(found.values()) < _LIMIT else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
