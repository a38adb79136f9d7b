"""What else may go wrong while receivers on executors write: links are cut, the broker dies, the object store refuses.

The fault strikes while the first receiver that comes to a step waits there. The broker is the embedded one, which can
be told to drop its links and to go away. `tests.crashes.soak` does the same to real brokers, at random moments.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.crashes.conftest import EMBEDDED
from tests.crashes.dying_receivers import FAULT, fault_at, run_query
from tests.crashes.dying_source import DyingSource
from tests.crashes.source_steps import SourceStep
from tests.crashes.targets import Target, combinations
from tests.crashes.test_receiver_crashes import on_s3, s3
from tests.crashes.test_source_crashes import ROWS, judge, settings
from tests.spark.s3_server import S3Proxy
from trio_stomp.testing import Broker, ThreadedBroker, run_broker_in_thread

__all__ = ["s3"]

# How long the broker is gone, or the store in trouble.
SECONDS = 1.5


class Fault(enum.Enum):
    """What goes wrong."""

    LINKS_CUT = "links cut"
    BROKER_KILLED = "broker killed"
    STORE_REFUSES = "store refuses"
    STORE_SLOW = "store slow"


# A segment is stored, and its messages are not acknowledged; or messages were received, and are not stored.
STEPS = {
    Fault.LINKS_CUT: SourceStep.STORED,
    Fault.BROKER_KILLED: SourceStep.STORED,
    Fault.STORE_REFUSES: SourceStep.RECEIVED,
    Fault.STORE_SLOW: SourceStep.RECEIVED,
}
# Each fault, each number of receivers and each kind of spool.
CELLS = combinations(
    [
        (1, "s3", Fault.STORE_REFUSES),
        (2, "local", Fault.BROKER_KILLED),
        (4, "local", Fault.LINKS_CUT),
        (4, "s3", Fault.STORE_SLOW),
    ],
    [
        (count, where, fault)
        for count in (1, 2, 4)
        for where in ("local", "s3")
        for fault in Fault
        if where == "s3" or fault in {Fault.LINKS_CUT, Fault.BROKER_KILLED}
    ],
)


@pytest.fixture(scope="module")
def broker() -> Generator[ThreadedBroker]:
    with run_broker_in_thread() as broker:
        yield broker


def striker(fault: Fault, broker: ThreadedBroker, s3: S3Proxy) -> tuple[Callable[[], None], Callable[[], None]]:
    """What begins the fault, and what ends it."""

    def lose_broker() -> None:
        broker.call(Broker.drop_connections)
        broker.call(Broker.stop_listening)

    def set_refusing(*, refuses: bool) -> None:
        s3.refuses = refuses

    match fault:
        case Fault.LINKS_CUT:
            return lambda: broker.call(Broker.drop_connections), lambda: None
        case Fault.BROKER_KILLED:
            return lose_broker, lambda: broker.call(Broker.start_listening)
        case Fault.STORE_REFUSES:
            return lambda: set_refusing(refuses=True), lambda: set_refusing(refuses=False)
        case Fault.STORE_SLOW:
            return s3.is_open.clear, s3.is_open.set


@pytest.mark.parametrize(
    ("count", "where", "fault"),
    CELLS,
    ids=lambda value: value.name.lower() if isinstance(value, Fault) else str(value),
)
def test_receivers_on_executors_when_something_fails_for_a_while_then_each_row_is_there_once(
    spark: SparkSession, broker: ThreadedBroker, s3: S3Proxy, tmp_path: Path, count: int, where: str, fault: Fault
) -> None:
    spark.dataSource.register(DyingSource)
    target = Target(name=EMBEDDED, address=f"127.0.0.1:{broker.port}", drops_duplicates=False)
    options = {**settings(target, tmp_path, STEPS[fault]), "victim": FAULT, "count": str(count), "rows": str(ROWS)}
    if where == "s3":
        options |= on_s3(s3)
    begin, end = striker(fault, broker, s3)
    s3.is_waiting.clear()
    timer = threading.Timer(SECONDS, end)

    def strike() -> None:
        begin()
        timer.start()

    with fault_at(options, strike):
        run_query(spark, options)
    timer.join()

    assert s3.is_waiting.is_set() == (fault is Fault.STORE_SLOW)
    judge(spark, target, options, ROWS)
