"""How the rate of a Spark stream grows with the receivers on executors, where each connection is slow.

    python -m benchmarks.receiver_scaling        prints a table, in about two minutes; receivers on a local master

    CORES=5 scripts/spark-cluster start          the same on a standalone cluster of two workers
    python -m benchmarks.receiver_scaling --master spark://127.0.0.1:44613
    scripts/spark-cluster stop

A broker that gives each connection 2000 messages per second stands for one that is far away, or limits its clients: the
peer of ``make bench``, behind a proxy that throttles. So that eight receivers can be shown on two cores, the limit is
well below what one receiver can take. A busy machine falls short of it for other reasons, so the load is printed.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.bench import Peer
from benchmarks.payload import message

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SETTINGS", "Run", "ThrottlingProxy", "main", "table"]

COUNTS: Final = (1, 2, 4, 8)
# A query counts its rows by its progress reports.
SETTINGS: Final = {"spark.driver.memory": "1g", "spark.sql.streaming.numRecentProgressUpdates": "10000"}
# Messages per second for each connection.
RATE: Final = 2000
_SECONDS: Final = 20
_WINDOW: Final = 2000
_TICK_SECONDS: Final = 0.02
_POLL_SECONDS: Final = 0.02
_PATIENCE: Final = 300.0
_BYTES: Final = 65536
_LINEAR: Final = 0.9
# Batches that take long make the time of the first and of the last row uncertain.
_POSSIBLE: Final = 1.1
# Which part of the rows is timed.
_FROM: Final = 0.25
_TO: Final = 0.75


class ThrottlingProxy:
    """Forwards connections to a port, and limits what each gets per second.

    Args:
        port: Where to, on the loopback interface.
        rate: The limit in bytes.

    Attributes:
        port: Its own port.
    """

    def __init__(self, port: int, rate: float) -> None:
        self._to = port
        self._rate = rate
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._server.accept()
            except OSError:
                # It was closed.
                return
            threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        with near, socket.create_connection(("127.0.0.1", self._to)) as far:
            back = threading.Thread(target=_forward, args=(near, far, None), daemon=True)
            back.start()
            _forward(far, near, self._rate)
            back.join()

    def close(self) -> None:
        """Accept no more connections."""
        self._server.close()


def _forward(source: socket.socket, target: socket.socket, rate: float | None) -> None:
    """Forward until one side has ended; the other one then gets the end too."""
    allowance, at = 0.0, time.monotonic()
    try:
        while True:
            if rate is not None:
                time.sleep(_TICK_SECONDS)
                now = time.monotonic()
                # What was not used is not saved up.
                allowance = min(allowance + rate * (now - at), rate * 0.2)
                at = now
            data = source.recv(_BYTES if rate is None else max(1, min(_BYTES, int(allowance))))
            if not data:
                break
            allowance -= len(data)
            target.sendall(data)
    except OSError:
        pass  # one of them has been reset, or closed by the other direction
    for each in (source, target):
        try:
            each.shutdown(socket.SHUT_RDWR)
        except OSError:
            continue


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One measurement.

    Attributes:
        receivers: The number of receivers.
        rate: Rows per second, from the queue to a batch.
        load: What the machine did meanwhile: its load, which includes this.
    """

    receivers: int
    rate: float
    load: float


def measure(spark: SparkSession, port: int, folder: str, receivers: int, seconds: int) -> Run:
    """Let receivers take what a throttled broker gives in some seconds, and time it.

    Raises:
        TimeoutError: It takes too long.
        RuntimeError: Too few batches to time.
    """
    from trio_stomp.spark import receivers as receiving  # noqa: PLC0415  # the proxy needs no Spark

    each = RATE * seconds
    options = {
        "brokers": f"127.0.0.1:{port}",
        "subscribe": f"/queue/stock.{_WINDOW}.{each}",
        "spoolLocation": f"{folder}/spool{receivers}",
        "prefetch": str(_WINDOW),
        # The peer gives all connections the same messages.
        "dedupe": "none",
    }
    rows = spark.readStream.format("stomp").options(**options).option("receivers", "0").load()
    writing = rows.writeStream.format("noop").option("checkpointLocation", f"{folder}/checkpoint{receivers}")
    query = writing.start()
    until = time.monotonic() + _PATIENCE

    def pause(come: str) -> None:
        failure = query.exception()
        if failure is not None:
            raise failure
        if time.monotonic() > until:
            raise TimeoutError(f"{come} after {_PATIENCE:g} s")
        time.sleep(_POLL_SECONDS)

    def taken(least: float) -> tuple[int, float]:
        """Wait for `least` rows, and return the number of rows and the time."""
        while (count := sum(progress["numInputRows"] for progress in query.recentProgress)) < least:
            pause(f"{count} of {least:.0f} rows")
        return count, time.monotonic()

    # The query starts first, and finds an empty spool.
    while not list(Path(options["spoolLocation"]).glob("*/stream/lease/*.json")):
        pause("the query has not opened its spool")
    with receiving(spark, options, count=receivers):
        # Receivers start and end one after the other; in between, all of them receive.
        before, begun = taken(_FROM * receivers * each)
        after, ended = taken(_TO * receivers * each)
        taken(receivers * each)
        query.stop()
    if after == before:
        raise RuntimeError("half of the rows came in one batch: set more --seconds, or quiet the machine")
    rate = (after - before) / (ended - begun)
    if rate > _POSSIBLE * RATE * receivers:
        raise RuntimeError(f"{rate:,.0f} rows/s came in too few batches: set more --seconds, or quiet the machine")
    return Run(receivers=receivers, rate=rate, load=os.getloadavg()[0])


def table(runs: Sequence[Run]) -> str:
    """The table, in Markdown."""
    lines = ["| receivers | rows/s | share of linear growth | load of the machine |", "|--:|--:|--:|--:|"]
    one = runs[0].rate / runs[0].receivers
    lines += [
        f"| {run.receivers} | {run.rate:,.0f} | {run.rate / run.receivers / one:.2f} | {run.load:.1f} |" for run in runs
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    """Measure all, and print the table; returns 0 if the growth is nearly linear."""
    from benchmarks.spark_session import open_session  # noqa: PLC0415  # see above

    parser = argparse.ArgumentParser(prog="python -m benchmarks.receiver_scaling", description=__doc__)
    parser.add_argument("--seconds", type=int, default=_SECONDS, help="how long each one lasts; default: %(default)s")
    parser.add_argument("--counts", default=",".join(map(str, COUNTS)), help="how many receivers; default: %(default)s")
    parser.add_argument("--master", help="the Spark master; its machines share the folder for temporary files")
    given = parser.parse_args(arguments)
    counts = [int(each) for each in str(given.counts).split(",")]
    size = len(message(0, b"0", f"/queue/stock.{_WINDOW}.{RATE * int(given.seconds)}".encode()))
    runs: list[Run] = []
    with tempfile.TemporaryDirectory() as temporary, Peer() as peer:
        folder = str(Path(temporary).resolve())
        proxy = ThrottlingProxy(peer.port, RATE * size)
        master: str = given.master or f"local[{max(counts) + 2},4]"
        spark = open_session(folder, master, SETTINGS)
        for count in counts:
            runs.append(measure(spark, proxy.port, folder, count, int(given.seconds)))
            print(f"{count} receivers: {runs[-1].rate:,.0f} rows/s", file=sys.stderr, flush=True)
        spark.stop()
        proxy.close()
    print(table(runs))
    one = runs[0].rate / runs[0].receivers
    return 0 if all(run.rate / run.receivers >= _LINEAR * one for run in runs) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
