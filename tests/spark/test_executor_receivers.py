"""Receivers as tasks of Spark, and a query that reads what they write."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest
import trio
from pyspark.sql import SparkSession
from trio.testing import MockClock

from tests.spark.receiving import (
    QUEUE,
    left,
    numbers_in,
    publish,
    statuses_in,
    wait_until_disconnected,
    wait_until_left,
)
from tests.spark.test_stream_source import Stream
from tests.spark.waiting import wait_until
from trio_stomp.spark import ReceiversFailed, ReceiverState, ReceiverStatus, SpoolError, executor_receivers, receivers
from trio_stomp.spark.executor_receivers import receive_while_wanted, refuse_few_failures
from trio_stomp.spark.receiver import ReceiverOptions
from trio_stomp.spark.segments import Listing, list_spool
from trio_stomp.spark.spool_store import SpoolStore
from trio_stomp.spark.stream_options import StreamOptions
from trio_stomp.testing import ThreadedBroker

PATIENCE = 120


class Kit:
    """A queue, a spool, and a table."""

    def __init__(self, spark: SparkSession, connection: dict[str, str], folder: Path) -> None:
        self.spark = spark
        self.stream = Stream(spark, connection, folder)
        needed = {"subscribe": QUEUE, "spoolLocation": str(folder / "spool")}
        self.options = {**connection, **needed, "reconnectTimeoutMs": "5000"}
        self.store = StreamOptions.read(self.options).intake.open_spool("stream")

    def statuses(self) -> list[ReceiverStatus]:
        return statuses_in(self.store)

    def is_over(self) -> bool:
        """Whether no job runs, and nothing in the spool says that receivers are wanted."""
        jobs = self.spark.sparkContext.statusTracker().getActiveJobsIds()
        return not jobs and not [each for each in self.store.objects() if each.name.startswith("wanted/")]

    def table(self) -> list[int]:
        """What is in the table when a query has read all that there is."""
        self.stream.run(receivers="0", availableNowTimeoutMs="2000")
        return self.stream.table()


@pytest.fixture
def kit(spark: SparkSession, connection: dict[str, str], tmp_path: Path) -> Kit:
    return Kit(spark, connection, tmp_path)


def test_receivers_when_on_executors_then_a_query_reads_each_message_once(
    threaded_broker: ThreadedBroker, kit: Kit
) -> None:
    publish(threaded_broker, range(200))
    with receivers(kit.spark, kit.options, count=2):
        wait_until_left(threaded_broker, 0)
        assert kit.table() == list(range(200))

        killed, other = kit.statuses()
        os.kill(killed.pid, signal.SIGKILL)
        publish(threaded_broker, range(200, 300))
        wait_until(None, lambda: len(kit.statuses()) == 3)
        wait_until_left(threaded_broker, 0)
        assert kit.table() == list(range(300))

    states = {each.shard: each.state for each in kit.statuses()}
    assert states.pop(killed.shard) is not ReceiverState.ENDED
    assert other.shard in states
    assert list(states.values()) == [ReceiverState.ENDED] * 2
    assert kit.is_over()
    wait_until_disconnected(threaded_broker)


def test_receivers_when_their_job_fails_then_it_is_run_again(threaded_broker: ThreadedBroker, kit: Kit) -> None:
    with receivers(kit.spark, kit.options, count=1):
        (first,) = kit.statuses()
        kit.spark.sparkContext.cancelAllJobs()
        wait_until(None, lambda: len(kit.statuses()) == 2)
        publish(threaded_broker, range(10))
        wait_until_left(threaded_broker, 0)

    assert sorted(set(numbers_in(kit.store))) == list(range(10))
    assert [each.state for each in kit.statuses() if each.shard != first.shard] == [ReceiverState.ENDED]
    assert kit.is_over()


PROGRAM = """
import json, sys
from contextlib import ExitStack
from pyspark.sql import SparkSession
from trio_stomp.spark import receivers

settings, options = json.loads(sys.argv[1])
spark = SparkSession.builder.config(map=settings).getOrCreate()
stack = ExitStack()
stack.enter_context(receivers(spark, options, count=1))
"""


def test_receivers_when_their_program_ends_within_the_block_then_they_stop_gracefully(
    threaded_broker: ThreadedBroker, kit: Kit
) -> None:
    publish(threaded_broker, range(10))
    settings = {
        "spark.master": "local[2,4]",
        "spark.ui.enabled": "false",
        "spark.driver.memory": "512m",
        "spark.driver.host": "127.0.0.1",
    }

    command = [sys.executable, "-c", PROGRAM, json.dumps([settings, kit.options])]
    done = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=False)

    assert done.returncode == 0, done.stderr.decode()
    assert [each.state for each in kit.statuses()] == [ReceiverState.ENDED]
    assert kit.is_over()
    wait_until_disconnected(threaded_broker)
    # What was not received is at the broker.
    assert len(numbers_in(kit.store)) + left(threaded_broker) == 10


@pytest.mark.parametrize(
    ("options", "count", "said"),
    [
        ({"prefetc": 5}, 1, "has no option 'prefetc'; did you mean 'prefetch'"),
        # Values become text, as with Spark's own readers.
        ({"receivers": 0, "includeHeaders": True, "includeText": 2}, 1, "'includeText' must be .*, got '2'"),
        ({}, 0, "at least 1, got 0"),
        # One slot is for the query.
        ({}, 5, "the cluster has 5: set count to 4, or add slots"),
    ],
)
def test_receivers_when_they_cannot_be_as_wanted_then_refused_before_a_task_starts(
    kit: Kit, options: dict[str, str | float | bool], count: int, said: str
) -> None:
    with (
        pytest.raises(ValueError, match=said),
        receivers(kit.spark, {**kit.options, **options}, count=count),
    ):
        pytest.fail("they were started")

    assert kit.store.objects() == []
    assert kit.is_over()


@dataclass(frozen=True)
class Cluster:
    """What is asked of a session before receivers are started: its settings, and how many cores it has."""

    settings: dict[str, str]
    cores: int

    @property
    def conf(self) -> dict[str, str]:
        return self.settings

    @property
    def sparkContext(self) -> Cluster:  # noqa: N802  # as PySpark calls it
        return self

    @property
    def defaultParallelism(self) -> int:  # noqa: N802  # as PySpark calls it
        return self.cores


def test_receivers_when_a_task_takes_several_cores_then_the_cluster_has_fewer_slots(tmp_path: Path) -> None:
    settings = {"spark.master": "local[7,4]", "spark.task.cpus": "2"}
    cluster = cast("SparkSession", Cluster(settings, cores=7))
    options = {"brokers": "b", "subscribe": QUEUE, "spoolLocation": str(tmp_path)}

    with (
        pytest.raises(ValueError, match="the cluster has 3: set count to 2"),
        receivers(cluster, options, count=3, start_timeout=0),
    ):
        pytest.fail("they were started")


def test_receivers_when_they_cannot_log_in_then_the_error_is_that_of_the_broker(kit: Kit) -> None:
    kit.options["password"] = "hunter2"
    with pytest.raises(ReceiversFailed, match="wrong passcode") as caught, receivers(kit.spark, kit.options, count=1):
        pytest.fail("they are connected")

    assert "hunter2" not in str(caught.value)
    assert kit.is_over()


def test_receivers_when_they_are_not_connected_in_time_then_said_what_to_look_at(kit: Kit) -> None:
    with (
        pytest.raises(TimeoutError, match=r"0 of 1 receivers are connected after 0 s: .* 2 free slots\?"),
        receivers(kit.spark, kit.options, count=1, start_timeout=0),
    ):
        pytest.fail("they are connected")

    assert kit.is_over()


class Silent:
    """A spool that does not answer when it is listed, some times."""

    def __init__(self, times: int, error: OSError, answers: int = 0) -> None:
        self.times = times
        self.error = error
        self.answers = answers

    def list(self, store: SpoolStore) -> Listing:
        if self.answers or not self.times:
            self.answers = max(0, self.answers - 1)
            return list_spool(store)
        self.times -= 1
        raise SpoolError("cannot list it") from self.error


NO_ANSWER = OSError("AWS Error NETWORK_CONNECTION: curlCode: 28, Timeout was reached")


@pytest.mark.parametrize("answers", [0, 1], ids=["at first", "while they connect"])
def test_receivers_when_the_spool_does_not_answer_at_the_start_then_tried_again(
    kit: Kit, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, answers: int
) -> None:
    spool = Silent(2, NO_ANSWER, answers)
    monkeypatch.setattr(executor_receivers, "list_spool", spool.list)
    monkeypatch.setattr(executor_receivers, "_RETRY_SECONDS", 0.0)

    with receivers(kit.spark, kit.options, count=1):
        assert spool.times == 0

    assert caplog.text.count("cannot list it; tried again for") == 2


def test_receivers_when_the_spool_never_answers_then_said_for_how_long(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor_receivers, "list_spool", Silent(1000, NO_ANSWER).list)
    monkeypatch.setattr(executor_receivers, "_RETRY_SECONDS", 0.01)

    with (
        pytest.raises(SpoolError, match=r"did not answer for 0.1 s: cannot list it. If .* raise start_timeout"),
        receivers(kit.spark, kit.options, count=1, start_timeout=0.1),
    ):
        pytest.fail("they were started")

    assert kit.is_over()


def test_receivers_when_the_spool_is_not_there_then_raised_at_once(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = Silent(1000, FileNotFoundError(errno.ENOENT, "no such bucket"))
    monkeypatch.setattr(executor_receivers, "list_spool", gone.list)

    with pytest.raises(SpoolError, match=r"^cannot list it$"), receivers(kit.spark, kit.options, count=1):
        pytest.fail("they were started")

    assert gone.times == 999


@pytest.mark.parametrize(
    ("master", "setting", "advice"),
    [
        ("local", "4", r"has failed once: set the master to local\[1,4\]"),
        ("local[3]", "1000", r"has failed once: set the master to local\[3,4\]"),
        ("local[*, 2]", "4", r"has failed 2 times: set the master to local\[\*,4\]"),
        ("spark://a:7077", "3", "has failed 3 times: set spark.task.maxFailures to 4 or more"),
    ],
)
def test_failures_when_spark_allows_only_a_few_then_said_what_to_set(master: str, setting: str, advice: str) -> None:
    with pytest.raises(ValueError, match=advice):
        refuse_few_failures(master, setting)


@pytest.mark.parametrize(
    ("master", "setting"), [("local[3,4]", "1"), ("spark://a:7077", "4"), ("local-cluster[2,1,1024]", "4"), ("", "4")]
)
def test_failures_when_spark_allows_enough_then_nothing_is_raised(master: str, setting: str) -> None:
    refuse_few_failures(master, setting)


NOTE = "wanted/x.json"


@pytest.fixture
def told(tmp_path: Path) -> ReceiverOptions:
    """What a receiver is told for which there is no broker."""
    options = {"brokers": "127.0.0.1:1", "subscribe": QUEUE, "spoolLocation": str(tmp_path), "reconnectTimeoutMs": "10"}
    return ReceiverOptions(intake=StreamOptions.read(options).intake, use="stream")


async def test_receiver_when_it_fails_then_another_one_follows_until_its_note_is_gone(
    autojump_clock: MockClock, told: ReceiverOptions
) -> None:
    store = told.intake.open_spool("stream")
    store.put(NOTE, b"{}")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(receive_while_wanted, told, NOTE)
        while len(list_spool(store).statuses) < 2:  # noqa: ASYNC110  # a thread writes them
            await trio.sleep(0.1)
        store.delete([NOTE])

    assert ReceiverState.FAILED in [each.state for each in statuses_in(store)]


async def test_receiver_when_it_fails_again_and_again_then_the_pauses_grow_up_to_a_minute(
    autojump_clock: MockClock, told: ReceiverOptions, caplog: pytest.LogCaptureFixture
) -> None:
    store = told.intake.open_spool("stream")
    store.put(NOTE, b"{}")

    def pauses() -> list[str]:
        texts = [each.getMessage().partition(" is started again in ")[2] for each in caplog.records]
        return [text.partition(":")[0] for text in texts if text]

    async with trio.open_nursery() as nursery:
        nursery.start_soon(receive_while_wanted, told, NOTE)
        while len(pauses()) < 8:  # noqa: ASYNC110  # a record of the log
            await trio.sleep(0.1)
        store.delete([NOTE])

    assert pauses()[:8] == ["1 s", "2 s", "4 s", "8 s", "16 s", "32 s", "60 s", "60 s"]


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_receiver_when_its_process_is_told_to_end_then_it_leaves_a_last_status_and_the_task_fails(
    threaded_broker: ThreadedBroker, connection: dict[str, str], tmp_path: Path, number: signal.Signals
) -> None:
    """Spark's daemon sends SIGHUP to all workers when their executor has died."""
    publish(threaded_broker, range(10))
    options = {**connection, "subscribe": QUEUE, "spoolLocation": str(tmp_path)}
    told = ReceiverOptions(intake=StreamOptions.read(options).intake, use="stream")
    store = told.intake.open_spool("stream")
    store.put(NOTE, b"{}")

    def kill_when_received() -> None:
        wait_until_left(threaded_broker, 0)
        os.kill(os.getpid(), number)

    killer = threading.Thread(target=kill_when_received)
    killer.start()
    with pytest.raises(SystemExit) as ended:
        trio.run(receive_while_wanted, told, NOTE)
    killer.join()

    assert ended.value.code == 1
    assert [each.state for each in statuses_in(store)] == [ReceiverState.ENDED]
    assert numbers_in(store) == list(range(10))


RECEIVER = """
import json, sys, trio
from trio_stomp.spark.executor_receivers import receive_while_wanted
from trio_stomp.spark.receiver import ReceiverOptions
from trio_stomp.spark.stream_options import StreamOptions
told = ReceiverOptions(intake=StreamOptions.read(json.loads(sys.argv[1])).intake, use="stream")
trio.run(receive_while_wanted, told, sys.argv[2])
"""
EXECUTOR = "import subprocess, sys; subprocess.run([sys.executable, '-c', *sys.argv[1:]])"


def test_receiver_when_its_executor_is_killed_and_cannot_tell_it_then_it_ends_in_order(
    threaded_broker: ThreadedBroker, connection: dict[str, str], tmp_path: Path
) -> None:
    publish(threaded_broker, range(10))
    options = {**connection, "subscribe": QUEUE, "spoolLocation": str(tmp_path)}
    store = StreamOptions.read(options).intake.open_spool("stream")
    store.put(NOTE, b"{}")

    # It is all that is known of an executor here: the process that has started the one of its receiver.
    executor = subprocess.Popen([sys.executable, "-c", EXECUTOR, RECEIVER, json.dumps(options), NOTE])
    wait_until_left(threaded_broker, 0)
    executor.kill()
    executor.wait()
    wait_until(None, lambda: [each.state for each in statuses_in(store)] == [ReceiverState.ENDED])

    assert numbers_in(store) == list(range(10))


async def test_receiver_when_its_note_cannot_be_read_then_it_goes_on(
    autojump_clock: MockClock, told: ReceiverOptions
) -> None:
    store = told.intake.open_spool("stream")
    note = trio.Path(store.path(NOTE))
    await note.mkdir(parents=True)

    with trio.move_on_after(10) as scope:
        await receive_while_wanted(told, NOTE)
    assert scope.cancelled_caught
    await note.rmdir()
    await receive_while_wanted(told, NOTE)


async def test_receiver_when_the_spool_never_answers_for_its_note_then_it_can_end_all_the_same(
    autojump_clock: MockClock, told: ReceiverOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, answered, gave_up = threading.Event(), threading.Event(), threading.Event()
    get = SpoolStore.get

    def silent_get(store: SpoolStore, name: str) -> bytes | None:
        if name == NOTE:
            asked.set()
            if not answered.wait(5):
                gave_up.set()
        return get(store, name)

    monkeypatch.setattr(SpoolStore, "get", silent_get)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(receive_while_wanted, told, NOTE)
        await trio.to_thread.run_sync(asked.wait)
        nursery.cancel_scope.cancel()

    assert not gave_up.is_set()
    answered.set()
