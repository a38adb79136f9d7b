"""Receivers on executors, one of which kills a process at one step, once: the first receiver to get there."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.crashes import dying_source
from tests.crashes.dying_sink import die_once
from tests.crashes.sink_steps import replace
from tests.crashes.source_steps import SourceStep, watch_intake
from trio_stomp.spark import executor_receivers, receivers
from trio_stomp.spark.receiver import ReceiverOptions

__all__ = ["FAULT", "dying_receivers", "fault_at", "run_query"]

T = TypeVar("T")

DEADLINE = 240.0
# The victim if no process dies: the test does something else, while the receiver waits at its step.
FAULT = "-1"
# The options that are not those of the receivers.
OWN = frozenset({"dieAt", "mark", "victim", "after", "folder", "count", "rows"})


@contextmanager
def dying_receivers(spark: SparkSession, options: Mapping[str, str]) -> Generator[None]:
    """Receive on executors for the length of a block, with the options of `DyingSource`, and ``count``."""
    task_of = executor_receivers.task_of
    death = {name: options[name] for name in ("dieAt", "mark", "victim", "after")}

    def dying_task_of(told: ReceiverOptions, note: str) -> Callable[[Iterable[T]], Iterator[T]]:
        task = task_of(told, note)

        def dying_task(given: Iterable[T]) -> Iterator[T]:
            _Watch.begin(death)
            return task(given)

        return dying_task

    given = {name: value for name, value in options.items() if name not in OWN}
    replace(executor_receivers, "task_of", dying_task_of)
    try:
        with receivers(spark, given, count=int(options["count"])):
            yield
    finally:
        replace(executor_receivers, "task_of", task_of)


class _Watch:
    """When a receiver of this process dies: Spark runs the tasks of other tests in it, too."""

    death: Mapping[str, str] | None = None
    times = 0

    @classmethod
    def begin(cls, death: Mapping[str, str]) -> None:
        if cls.death is None:
            watch_intake(cls.passed)
        cls.death = death
        cls.times = 0

    @classmethod
    def passed(cls, step: SourceStep) -> None:
        death = cls.death
        if death is not None and step.name.lower() == death["dieAt"]:
            cls.times += 1
            if cls.times > int(death["after"]):
                if death["victim"] == FAULT:
                    _pause_once(Path(death["mark"]))
                else:
                    die_once(Path(death["mark"]), int(death["victim"]) or os.getpid())


def _done(mark: Path) -> Path:
    return mark.with_name(f"{mark.name}-done")


def _pause_once(mark: Path) -> None:
    with suppress(FileExistsError):
        mark.touch(exist_ok=False)
        _wait_for(_done(mark))


def _wait_for(file: Path) -> None:
    deadline = time.monotonic() + DEADLINE
    while not file.exists():
        assert time.monotonic() < deadline, f"{file} does not come"
        time.sleep(0.01)


@contextmanager
def fault_at(options: Mapping[str, str], strike: Callable[[], None]) -> Generator[None]:
    """Call something, in a thread, when the first receiver comes to its step, and let it go on afterwards."""
    mark = Path(options["mark"])

    def watch() -> None:
        _wait_for(mark)
        strike()
        _done(mark).touch()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    yield
    thread.join(DEADLINE)


def run_query(spark: SparkSession, options: dict[str, str]) -> None:
    """Read the queue into a table, beside receivers on executors, until it has ``rows`` rows, and then what is left."""
    with dying_receivers(spark, options):
        deadline = time.monotonic() + DEADLINE
        while rows_in(spark, options) < int(options["rows"]):
            assert time.monotonic() < deadline, "rows do not come"
            # The death of a receiver is cured by Spark, and so is that of a task; that of the source fails the query.
            with suppress(PySparkException):
                read(spark, options)
    read(spark, options)


def read(spark: SparkSession, options: Mapping[str, str]) -> None:
    """Read into the table what receivers have written."""
    given = {name: value for name, value in options.items() if name not in {"count", "rows"}}
    dying_source.run_query(spark, {**given, "receivers": "0", "availableNowTimeoutMs": "3000"})


def rows_in(spark: SparkSession, options: Mapping[str, str]) -> int:
    """How many different rows the table has."""
    table = Path(options["folder"]) / "table"
    if not (table / "_spark_metadata").exists():
        return 0
    return spark.read.schema("n INT").parquet(str(table)).distinct().count()
