"""The memory of the Python processes of a Spark stream, as Linux counts the largest that each has had.

    python -m benchmarks.spark_memory            prints the two tables of docs/spark.md, in about five minutes

First the planner, while a query reads a million messages. Before, half a million rows with ids wait in the spool,
written by four receivers, so that the window of ids becomes full with its default size. The broker of the queue is the
peer of ``make bench``, and the receiver is in the same process.

Then bodies of 50 MB, on the way into a queue of the embedded broker and out of it.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import pyarrow as pa

from benchmarks.bench import Peer
from benchmarks.receiver_scaling import SETTINGS
from benchmarks.spark_session import open_session
from benchmarks.spool_requests import put_segment
from trio_stomp import Limits
from trio_stomp.spark.intake_options import STREAM
from trio_stomp.spark.spool_store import SpoolStore
from trio_stomp.spark.stream_options import StreamOptions
from trio_stomp.testing import BrokerOptions, run_broker_in_thread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["CASES", "Case", "main", "measure", "measure_bodies"]

_RUNNER: Final = b"python_streaming_source_runner"
_SHARDS: Final = 4
_ROWS: Final = 1000
_MESSAGES: Final = 1_000_000
_POLL_SECONDS: Final = 0.5
_PATIENCE: Final = 600.0
_LIMIT: Final = 200 * 1024**2
_BODIES: Final = 20
_BODY_BYTES: Final = 50_000_000
_QUEUE: Final = "/queue/large"
_LOOK_SECONDS: Final = 0.05


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


def _pythons(above: int) -> dict[int, bool]:
    """The processes of Python among the descendants of a process, and whether each is a planner."""
    parents: dict[int, int] = {}
    found: dict[int, bool] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text("utf-8", "replace")
                parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
                command = (entry / "cmdline").read_bytes()
            except (OSError, IndexError):
                continue  # it has ended meanwhile
            if b"pyspark" in command and b"java" not in command:
                found[int(entry.name)] = _RUNNER in command
    return {pid: is_planner for pid, is_planner in found.items() if pid != above and _is_below(pid, above, parents)}


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
    # All are suspect, as on brokers that do not mark what they deliver again; so all ids are read.
    put_segment(store, pa.RecordBatch.from_pylist(rows, schema=schema), shard, first, suspects=_ROWS)


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
    (runner,) = (pid for pid, is_planner in _pythons(os.getpid()).items() if is_planner)
    largest = _largest(runner)
    query.stop()
    return largest


class _Watch:
    """The largest memory of the planner, and of a task, while a block runs."""

    def __init__(self) -> None:
        self.planner = self.task = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._is_over.wait(_LOOK_SECONDS):
            for pid, is_planner in _pythons(os.getpid()).items():
                with contextlib.suppress(OSError, StopIteration):  # it has ended meanwhile
                    size = _largest(pid)
                    self.planner, self.task = (
                        (max(self.planner, size), self.task) if is_planner else (self.planner, max(self.task, size))
                    )


def measure_bodies(folder: Path, count: int, size: int) -> dict[str, int]:
    """Send large bodies and receive them; return the memory of each process in bytes.

    Raises:
        RuntimeError: Not all have come.
    """
    held = 2 * count * size
    limits = BrokerOptions(
        limits=Limits(body_bytes=size), max_queue_bytes=held, max_stored_bytes=held, max_unfinished_bytes=held
    )
    with run_broker_in_thread(options=limits) as broker:
        given = {"brokers": f"127.0.0.1:{broker.port}", "login": "guest", "password": "guest"}
        # Each phase has workers of its own.
        spark = open_session(str(folder), "local[1]", SETTINGS)
        made = f"cast(repeat(cast(id % 10 as string), {size}) as binary) as body"
        bodies = spark.range(0, count, 1, 1).selectExpr(made)
        with _Watch() as sending:
            bodies.write.format("stomp").options(**given).option("destination", _QUEUE).mode("append").save()
        spark.stop()
        spark = open_session(str(folder), "local[1]", SETTINGS)
        rows = spark.readStream.format("stomp").options(**given).option("subscribe", _QUEUE)
        writing = rows.option("spoolLocation", str(folder / "spool")).load().writeStream.format("noop")
        with _Watch() as receiving:
            query = writing.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
            query.awaitTermination()
        failure, came = query.exception(), sum(progress["numInputRows"] for progress in query.recentProgress)
        spark.stop()
    if failure is not None:
        raise failure
    if came != count:
        raise RuntimeError(f"{came} of {count} bodies have come")
    return {
        "a task that sends them": sending.task,
        "the receiver and planner": receiving.planner,
        "a task that reads them": receiving.task,
    }


def main(arguments: Sequence[str]) -> int:
    """Measure all, and print the tables; returns 0 if the planner is always below 200 MiB."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark_memory", description=__doc__)
    parser.add_argument("--messages", type=int, default=_MESSAGES, help="how many wait; default: %(default)s")
    parser.add_argument("--bodies", type=int, default=_BODIES, help="how many large ones; default: %(default)s")
    parser.add_argument("--size", type=int, default=_BODY_BYTES, help="their bytes; default: %(default)s")
    given = parser.parse_args(arguments)
    found: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary).resolve()
        with Peer() as peer:
            spark = open_session(str(folder), "local[2,4]", SETTINGS)
            for number, case in enumerate(CASES):
                found[case.name] = measure(spark, peer.port, folder / str(number), case, int(given.messages))
                print(f"{case.name}: {found[case.name] >> 20} MiB", file=sys.stderr, flush=True)
            spark.stop()
        large = measure_bodies(folder / "large", int(given.bodies), int(given.size))
    print("| messages wait | planner, MiB |\n|---|--:|")
    print("\n".join(f"| {name} | {size >> 20} |" for name, size in found.items()))
    print(f"\n| {given.bodies} bodies of {given.size / 1e6:g} MB | MiB |\n|---|--:|")
    print("\n".join(f"| {name} | {size >> 20} |" for name, size in large.items()))
    return 0 if max(found.values()) < _LIMIT else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
