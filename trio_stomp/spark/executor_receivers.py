"""Receivers on the executors of a cluster: a Spark job whose tasks do not end, beside the query that reads the spool.

Spark runs a task again, elsewhere, when its process or its executor dies. The new receiver has a shard of its own, like
any other, so nothing has to be handed over, and one that was only thought dead does no harm.

Spark can kill a task, but cannot ask it to end. So an object of the spool, the `WantedNote`, says that the receivers
are wanted. Each looks for it every second. When it is gone they finish their segments, acknowledge them and disconnect.
They do the same on SIGHUP, with which Spark ends the Python processes of an executor, and when the process is gone that
started theirs: an executor that was killed cannot tell them.
"""

from __future__ import annotations

import atexit
import logging
import os
import signal
import socket
import threading
import time
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

import anyio
from pyarrow import RecordBatch

from trio_stomp.errors import StompError
from trio_stomp.runtime import current_time
from trio_stomp.spark.intake_options import STREAM
from trio_stomp.spark.receiver import GracefulStop, ReceiverOptions, receive
from trio_stomp.spark.receiver_status import ReceiverState, ReceiverStatus, read_status
from trio_stomp.spark.segments import list_spool, mark_spool
from trio_stomp.spark.spool_store import SpoolError, SpoolStore
from trio_stomp.spark.stream_options import StreamOptions

if TYPE_CHECKING:
    # Receivers without Spark import this module too.
    from pyspark.sql import SparkSession

__all__ = ["ReceiversFailed", "WantedNote", "receive_while_wanted", "receivers", "refuse_few_failures", "task_of"]

T = TypeVar("T")

logger: Final = logging.getLogger("trio_stomp.spark")

_FOLDER: Final = "wanted"
_RENEW_SECONDS: Final = 60.0
# A driver that is suspended for longer writes its note again when it goes on, and its receivers are started again.
_STALE_SECONDS: Final = 900.0
_START_SECONDS: Final = 120.0
_POLL_SECONDS: Final = 0.2
_LOOK_SECONDS: Final = 1.0
_RETRY_SECONDS: Final = 1.0
_FIRST_DELAY: Final = 1.0
_LARGEST_DELAY: Final = 60.0
# Longer than a graceful stop may take.
_STOP_SECONDS: Final = 30.0
# Spark's default, except for local masters, which let no task fail.
_FAILURES: Final = 4
# PySpark's daemon sends SIGHUP to its workers when it is told to end, or its executor has died. Windows has no SIGHUP.
_SIGNALS: Final = [each for each in signal.Signals if each.name in {"SIGHUP", "SIGTERM"}]
_CONNECTED: Final = frozenset({ReceiverState.RECEIVING, ReceiverState.IDLE, ReceiverState.FULL})


class ReceiversFailed(RuntimeError):
    """Receivers could not be started; the text includes what Spark, the spool or the broker said."""


@contextmanager
def receivers(
    spark: SparkSession, options: Mapping[str, str | float | bool], *, count: int, start_timeout: float = _START_SECONDS
) -> Generator[None]:
    """Receive on the executors of a cluster, for the length of a block.

    The block begins when all receivers are connected. Read what they receive with
    ``spark.readStream.format("stomp")``, the same options, and ``receivers=0``. All machines must share the spool.

    Args:
        spark: The session, classic or of Spark Connect.
        options: The options of the streaming source.
        count: How many receivers. Each occupies a slot of the cluster for the length of the block.
        start_timeout: Seconds until all of them must be connected.

    Raises:
        OptionError: An option is missing or wrong.
        ValueError: The cluster cannot run them; the text says what to set.
        ReceiversFailed: A receiver failed at the start.
        TimeoutError: They did not connect in time.
        SpoolError: The spool cannot be used, or did not answer for `start_timeout`.
    """
    if count < 1:
        msg = f"expected a count of at least 1, got {count}"
        raise ValueError(msg)
    given = {name.lower(): _text(value) for name, value in options.items()}
    intake = StreamOptions.read({**given, "receivers": str(count)}).intake
    refuse_few_failures(_master(spark), str(spark.conf.get("spark.task.maxFailures", str(_FAILURES))))
    if _is_local(spark):
        _check_slots(spark, count)
    running = _ExecutorReceivers(spark, ReceiverOptions(intake=intake, use=STREAM), count, start_timeout)
    # For a block that is never left, such as one in an ExitStack of a notebook.
    atexit.register(running.stop)
    try:
        running.wait_until_connected()
        # On a cluster, executors register after the session has started.
        _check_slots(spark, count)
        yield
    finally:
        atexit.unregister(running.stop)
        running.stop()


def _text(value: str | float | bool) -> str:  # noqa: FBT001  # as Spark converts the values of options
    return str(value).lower() if isinstance(value, bool) else str(value)


# --- on the executors -------------------------------------------------------------------------------------------------


def task_of(options: ReceiverOptions, note: str) -> Callable[[Iterable[T]], Iterator[T]]:
    """What each task does: it hands on what it is given, and receives while the note is there."""

    def stomp_receiver(given: Iterable[T]) -> Iterator[T]:
        yield from given
        anyio.run(receive_while_wanted, options, note, backend="trio")

    return stomp_receiver


async def receive_while_wanted(options: ReceiverOptions, note: str) -> None:
    """Receive until a note in the spool is deleted. A receiver that fails is followed by another one.

    Raises:
        SpoolError: The spool cannot be opened.
        SystemExit: The process received SIGHUP or SIGTERM, or its parent is gone. The task has then failed, and Spark
            runs it again.

    Cancellation: as in `receive`.
    """
    store = await anyio.to_thread.run_sync(options.intake.open_spool, options.use)
    stop, parent = GracefulStop(), os.getppid()
    hung_up = False

    async def stop_when_unwanted() -> None:
        nonlocal hung_up
        hung_up = not await _wait_until_unwanted(store, note, parent)
        stop.begin()

    async def stop_when_hung_up() -> None:
        nonlocal hung_up
        with anyio.open_signal_receiver(*_SIGNALS) as signals:
            async for _ in signals:
                hung_up = True
                stop.begin()

    async with anyio.create_task_group() as nursery:
        nursery.start_soon(stop_when_unwanted)
        nursery.start_soon(stop_when_hung_up)
        delay = _FIRST_DELAY
        with stop.everything():
            while True:  # noqa: ASYNC913  # each round receives
                begun = current_time()
                try:
                    await receive(options, working=stop.working)
                except (StompError, SpoolError, OSError) as failure:
                    if current_time() - begun > _LARGEST_DELAY:
                        delay = _FIRST_DELAY
                    logger.warning("a receiver failed, and is started again in %g s: %s", delay, failure)
                    await anyio.sleep(delay)
                    delay = min(2 * delay, _LARGEST_DELAY)
                else:
                    # It ended because it was stopped.
                    break
        nursery.cancel_scope.cancel()
    if hung_up:
        raise SystemExit(1)


async def _wait_until_unwanted(store: SpoolStore, note: str, parent: int) -> bool:
    """Returns False if the parent of this process has ended first."""
    while True:
        await anyio.sleep(_LOOK_SECONDS)
        if os.getppid() != parent:
            return False
        try:
            # A store may never answer, and the receiver must end all the same.
            found = await anyio.to_thread.run_sync(store.get, note, abandon_on_cancel=True)
        except SpoolError as error:
            # The receiver sees this too, and waits for as long as its options say.
            logger.info("%s", error)
            continue
        if found is None:
            return True


# --- in the driver ----------------------------------------------------------------------------------------------------


class _ExecutorReceivers:
    """The job, in a thread of the driver. It is run again if Spark gives it up because its tasks failed too often."""

    def __init__(self, spark: SparkSession, options: ReceiverOptions, count: int, timeout: float) -> None:
        self._spark = spark
        self._options = options
        self._count = count
        self._name = f"stomp-receivers-{uuid.uuid4().hex[:12]}"
        self._failure: Exception | None = None
        self._stopping = threading.Event()
        self._timeout = timeout
        self._until = time.monotonic() + timeout
        self._store = self._patiently(lambda: options.intake.open_spool(options.use))
        self._patiently(lambda: mark_spool(self._store, options.intake.destination))
        self._before = frozenset(self._patiently(lambda: list_spool(self._store)).statuses)
        about: dict[str, str | float] = {"receivers": count, "driver": socket.gethostname(), "started": time.time()}
        self._note = self._patiently(lambda: WantedNote(self._store, self._name, about))
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()

    def _patiently(self, do: Callable[[], T]) -> T:
        """Use the spool, again and again if it does not answer: receivers wait for it too."""
        while True:
            try:
                return do()
            except SpoolError as error:
                if not error.may_pass:
                    raise
                left = self._until - time.monotonic()
                if left <= 0:
                    raise SpoolError(
                        f"the receivers were not started, because the spool did not answer for {self._timeout:g} s: "
                        f"{error}. If it only needs longer, raise start_timeout"
                    ) from error
                logger.warning("%s; tried again for %.0f s", error, left)
                time.sleep(_RETRY_SECONDS)

    def _run(self) -> None:
        delay = _FIRST_DELAY
        # A tag belongs to a thread, and Spark Connect has tags too.
        self._spark.addTag(self._name)
        while not self._stopping.is_set():
            begun = time.monotonic()
            try:
                self._run_job()
                # The job has ended because another driver took this one for dead, and deleted its note.
                self._note.renew()
            except Exception as failure:  # noqa: BLE001  # Spark's, py4j's or gRPC's; raised at the start, logged later
                if self._stopping.is_set():
                    return
                self._failure = failure
                if time.monotonic() - begun > _LARGEST_DELAY:
                    delay = _FIRST_DELAY
                logger.warning("the job of the receivers failed, and is run again in %g s: %s", delay, failure)
                self._stopping.wait(delay)
                delay = min(2 * delay, _LARGEST_DELAY)

    def _run_job(self) -> None:
        count, note = self._count, self._note.name
        if _is_connect(self._spark):
            # It has no RDDs. This requires pandas, as Spark Connect itself does.
            receive_arrow: Callable[[Iterable[RecordBatch]], Iterator[RecordBatch]] = task_of(self._options, note)
            self._spark.range(0, count, 1, count).mapInArrow(receive_arrow, "id LONG").collect()
        else:
            receive_numbers: Callable[[Iterable[int]], Iterator[int]] = task_of(self._options, note)
            self._spark.sparkContext.parallelize(range(count), count).mapPartitions(receive_numbers).count()

    def wait_until_connected(self) -> None:
        """Wait until all receive.

        Raises:
            ReceiversFailed: One has failed.
            TimeoutError: They do not in time.
            SpoolError: The spool cannot be read.
        """
        while True:
            if self._failure is not None:
                raise ReceiversFailed(f"the job of the receivers failed: {self._failure}") from self._failure
            statuses = self._patiently(self._statuses)
            for each in statuses:
                if each.state is ReceiverState.FAILED:
                    raise ReceiversFailed(f"a receiver on {each.host} failed: {each.text}")
            connected = sum(each.state in _CONNECTED for each in statuses)
            if connected >= self._count:
                return
            if time.monotonic() >= self._until:
                raise TimeoutError(
                    f"{connected} of {self._count} receivers are connected after {self._timeout:g} s: does the cluster "
                    f"have {self._count + 1} free slots? Do all of its machines reach the broker and the spool "
                    f"{self._store.folder}?"
                )
            time.sleep(_POLL_SECONDS)

    def _statuses(self) -> list[ReceiverStatus]:
        """Those of the receivers that were started after this object was made."""
        shards = list_spool(self._store).statuses.keys() - self._before
        found = (read_status(self._store, shard) for shard in shards)
        return [each for each in found if each is not None]

    def stop(self) -> None:
        """Have all receivers end. Those that do not within a while are killed, which loses nothing."""
        self._stopping.set()
        try:
            self._note.delete()
        except SpoolError as error:
            logger.warning("the receivers are killed, because they cannot be told to end: %s", error)
        else:
            self._thread.join(_STOP_SECONDS)
        if self._thread.is_alive():
            self._spark.interruptTag(self._name)
            self._thread.join(_STOP_SECONDS)


class WantedNote:
    """The note that receivers on executors are wanted: an object of the spool, written by the driver.

    A driver that is killed leaves its note. Each driver renews its own every minute, and deletes old ones.

    Args:
        store: The spool.
        name: The name of the receivers.
        about: For people who look at the spool.

    Attributes:
        name: The name of the object.

    Raises:
        SpoolError: The note cannot be written.
    """

    def __init__(self, store: SpoolStore, name: str, about: dict[str, str | float]) -> None:
        self.name = f"{_FOLDER}/{name}.json"
        self._store = store
        self._about = about
        self._lock = threading.Lock()
        self._deleted = threading.Event()
        self.renew()
        threading.Thread(target=self._keep, name=f"{name} note", daemon=True).start()

    def renew(self) -> None:
        """Write it, and delete those of drivers that were killed. Does nothing after `delete`.

        Raises:
            SpoolError: The spool cannot be used.
        """
        with self._lock:
            if self._deleted.is_set():
                return
            self._store.put_json(self.name, self._about, durable=False)
            # By the clock of the store: the clocks of drivers may differ.
            renewed = {each.name: each.changed for each in self._store.objects(_FOLDER)}
            oldest = renewed.get(self.name, 0.0) - _STALE_SECONDS
            self._store.delete(name for name, at in renewed.items() if at < oldest)

    def _keep(self) -> None:
        while not self._deleted.wait(_RENEW_SECONDS):
            try:
                self.renew()
            except SpoolError as error:
                logger.warning("%s", error)

    def delete(self) -> None:
        """Delete it. The receivers end in order.

        Raises:
            SpoolError: It cannot be deleted.
        """
        with self._lock:
            self._deleted.set()
            self._store.delete([self.name])


# --- whether the cluster can run them ---------------------------------------------------------------------------------


def _is_connect(spark: SparkSession) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def _master(spark: SparkSession) -> str:
    return str(spark.conf.get("spark.master", ""))


def _is_local(spark: SparkSession) -> bool:
    return _master(spark).partition("[")[0] == "local"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def refuse_few_failures(master: str, setting: str) -> None:
    """Refuse a cluster that gives up a job when a few of its processes die.

    Args:
        master: The setting ``spark.master``.
        setting: The setting ``spark.task.maxFailures``, which local masters ignore.

    Raises:
        ValueError: The cluster is such a one; the text says what to set.
    """
    kind, _, arguments = master.rstrip("]").partition("[")
    cores, _, failures = arguments.partition(",")
    if kind == "local":
        allowed = int(failures or 1)
        advice = f"set the master to local[{cores or 1},{_FAILURES}]"
    else:
        allowed = int(setting)
        advice = f"set spark.task.maxFailures to {_FAILURES} or more before the session starts"
    if allowed < _FAILURES:
        raise ValueError(f"Spark ends all receivers when one of their tasks has failed {_times(allowed)}: {advice}")


def _check_slots(spark: SparkSession, count: int) -> None:
    """Raise ValueError if the cluster has no slot for the query."""
    slots = _slots(spark)
    if slots is not None and slots <= count:
        raise ValueError(
            f"{count} receivers occupy {count} slots, and the query needs at least one more, but the cluster has "
            f"{slots}: set count to {max(1, slots - 1)}, or add slots (local[{count + 1},{_FAILURES}], "
            "spark.cores.max, spark.executor.instances, spark.executor.cores)"
        )


def _slots(spark: SparkSession) -> int | None:
    """How many tasks can run at once; None if that cannot be known."""
    if _is_connect(spark):
        # Its client cannot see the cluster.
        return None
    is_dynamic = spark.conf.get("spark.dynamicAllocation.enabled", "false") == "true"
    if is_dynamic or spark.conf.get("spark.default.parallelism", None) is not None:
        return None
    return spark.sparkContext.defaultParallelism // int(str(spark.conf.get("spark.task.cpus", "1")))
