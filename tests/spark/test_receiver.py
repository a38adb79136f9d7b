"""The receiver, without Spark: its shard of the spool, and what is left at the broker."""

from __future__ import annotations

import errno
import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
import trio
from pyarrow import RecordBatch
from trio.testing import MockClock

from tests.spark.receiving import (
    break_links,
    left,
    numbers_in,
    numbers_of,
    planner_of,
    publish,
    segments_in,
    wait_until_left,
)
from trio_stomp.client import connect
from trio_stomp.errors import BrokerError, ConnectionLost, OperationTimeout
from trio_stomp.protocol import Limits
from trio_stomp.spark import ReceiverState, ReceiverStatus, SpoolError, connection_options, receiver
from trio_stomp.spark.intake_options import IntakeOptions
from trio_stomp.spark.receiver import GracefulStop, ReceiverOptions, ReceiverThread, receive
from trio_stomp.spark.receiver_status import read_status
from trio_stomp.spark.segment_slices import SegmentGroup, rows_of
from trio_stomp.spark.segments import Listing, list_spool, open_batches
from trio_stomp.spark.spool_store import SpoolStore
from trio_stomp.spark.stream_options import StreamOptions
from trio_stomp.testing import Broker, BrokerOptions, SwallowReceipts, ThreadedBroker, run_broker_in_thread
from trio_stomp.types import Command

PATIENCE = 120.0


class Told:
    """A report, and events to wait for."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.shard = ""
        self.last = -1
        self.idles = 0
        self.failures: list[Exception] = []

    def wrote(self, shard: str, last: int) -> None:
        with self.changed:
            self.shard = shard
            self.last = last
            self.changed.notify_all()

    def idle(self) -> None:
        with self.changed:
            self.idles += 1
            self.changed.notify_all()

    def failed(self, failure: Exception) -> None:
        with self.changed:
            self.failures.append(failure)
            self.changed.notify_all()

    def wait(self, condition: Callable[[Told], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: condition(self), PATIENCE), vars(self)

    def failure(self) -> Exception:
        """Wait for a failure."""
        self.wait(lambda told: bool(told.failures))
        return self.failures[0]


class Kit:
    """Starts receivers, and ends them all."""

    def __init__(self, connection: dict[str, str], location: str) -> None:
        self.connection = connection
        self.location = location
        self.threads: list[ReceiverThread] = []
        self.store = self.options().intake.open_spool("stream")

    def options(self, *, idle: float = 0.2, max_rows: int | None = None, **given: str) -> ReceiverOptions:
        needed = {"subscribe": "/queue/a", "spoolLocation": self.location, "reconnectTimeoutMs": "5000"}
        stream = StreamOptions.read({**self.connection, **needed, **given})
        return ReceiverOptions(intake=stream.intake, use="stream", idle=idle, max_rows=max_rows)

    def start(self, options: ReceiverOptions) -> tuple[ReceiverThread, Told]:
        told = Told()
        thread = ReceiverThread(options, told, told.failed)
        self.threads.append(thread)
        return thread, told

    def stop(self, thread: ReceiverThread) -> None:
        """Stop a receiver, and wait until it has ended."""
        thread.stop()
        assert thread.join(PATIENCE)

    def status(self, told: Told) -> ReceiverStatus:
        found = read_status(self.store, told.shard)
        assert found is not None
        return found

    def wait_for(self, told: Told, state: ReceiverState) -> None:
        """Wait until the status of a receiver says this."""
        deadline = time.monotonic() + PATIENCE
        # On S3, it may be missing while it is written again.
        while (found := read_status(self.store, told.shard)) is None or found.state is not state:
            assert not told.failures
            assert time.monotonic() < deadline, vars(told)
            time.sleep(0)

    def delete_segments(self) -> None:
        """Make room in the spool."""
        self.store.delete(segment.name for segment in segments_in(self.store))


@pytest.fixture
def kit(connection: dict[str, str], tmp_path: Path) -> Generator[Kit]:
    made = Kit(connection, str(tmp_path))
    yield made
    for thread in made.threads:
        thread.stop()
    assert all(thread.join(PATIENCE) for thread in made.threads)


def test_messages_when_received_then_in_the_spool_and_acknowledged(threaded_broker: ThreadedBroker, kit: Kit) -> None:
    publish(threaded_broker, range(250))

    _, told = kit.start(kit.options(segmentRows="100"))
    told.wait(lambda told: told.last == 250)

    assert numbers_in(kit.store) == list(range(250))
    assert [segment.first for segment in segments_in(kit.store)] == [1, 101, 201]
    assert left(threaded_broker) == 0


def test_receiver_when_messages_come_again_then_it_is_not_idle(threaded_broker: ThreadedBroker, kit: Kit) -> None:
    class Looking(Told):
        def wrote(self, shard: str, last: int) -> None:
            self.seen = read_status(kit.store, shard)
            super().wrote(shard, last)

    told = Looking()
    kit.threads.append(ReceiverThread(kit.options(idle=0.05), told, told.failed))
    told.wait(lambda told: told.idles > 0)
    publish(threaded_broker, [1])
    told.wait(lambda told: told.last == 1)

    assert told.seen is not None
    assert (told.seen.state, told.seen.idle) == (ReceiverState.RECEIVING, 0)


def test_receiver_when_stopped_then_what_it_has_not_kept_is_given_back(
    threaded_broker: ThreadedBroker, kit: Kit
) -> None:
    publish(threaded_broker, range(100))

    thread, told = kit.start(kit.options(segmentRows="10", maxSpoolBytes="1"))
    told.wait(lambda told: told.last == 10)
    kit.stop(thread)
    assert not told.failures
    wait_until_left(threaded_broker, 90)

    _, again = kit.start(kit.options())
    again.wait(lambda told: told.last == 90)
    assert numbers_in(kit.store) == list(range(100))


def test_receiver_when_stopped_before_it_has_begun_then_it_ends(kit: Kit) -> None:
    thread, told = kit.start(kit.options())
    thread.stop()

    assert thread.join(PATIENCE)
    thread.stop()
    assert not told.failures


async def test_stop_when_connected_then_only_the_work_ends(autojump_clock: MockClock) -> None:
    stop = GracefulStop()
    with stop.everything():
        with stop.working():
            stop.begin()
            await trio.sleep(5)
        await trio.sleep(1)

    assert trio.current_time() == 1


async def test_stop_when_the_connection_is_lost_meanwhile_then_no_work_follows_and_all_ends(
    autojump_clock: MockClock,
) -> None:
    stop = GracefulStop()
    with stop.everything():
        with suppress(ConnectionLost), stop.working():
            stop.begin()
            raise ConnectionLost("the connection was lost")
        with stop.working():
            await trio.sleep(5)
        assert trio.current_time() == 0
        await trio.sleep(100)

    assert trio.current_time() == 20


async def test_stop_when_not_connected_then_all_ends(autojump_clock: MockClock) -> None:
    stop = GracefulStop()
    with stop.everything():
        with stop.working():
            pass
        stop.begin()
        await trio.sleep(100)

    assert trio.current_time() == 0


def test_spool_when_two_receivers_share_it_then_it_is_full_for_both_and_the_first_has_not_taken_all_the_room(
    threaded_broker: ThreadedBroker, kit: Kit
) -> None:
    started: list[Told] = []
    for _ in range(2):
        # The first one lists the spool while it is the only one, and again only when it has used what it took.
        _, told = kit.start(kit.options(segmentRows="5", prefetch="5", maxSpoolBytes="20000"))
        told.wait(lambda told: told.idles > 0)
        started.append(told)
    publish(threaded_broker, range(400))
    for told in started:
        kit.wait_for(told, ReceiverState.FULL)

    largest = max(each.size for each in segments_in(kit.store))
    assert 20_000 <= list_spool(kit.store).size <= 22_500 + 2 * largest
    assert left(threaded_broker) > 0


def test_segment_when_written_then_it_would_outlive_a_power_cut_before_its_messages_are_acknowledged(
    threaded_broker: ThreadedBroker, kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: dict[int, int] = {}
    statuses = 0
    flush = os.fsync

    def fsync(number: int) -> None:
        nonlocal statuses
        flush(number)
        # A file keeps its number when it gets its name; of several flushes of a folder, the last one counts.
        flushed[os.fstat(number).st_ino] = left(threaded_broker)
        statuses += bool(list(Path(kit.location).rglob("status/*.tmp")))

    monkeypatch.setattr(os, "fsync", fsync)
    publish(threaded_broker, range(20))
    _, told = kit.start(kit.options(segmentRows="20", max_rows=20))
    told.wait(lambda told: told.last == 20)

    (segment,) = segments_in(kit.store)
    path = Path(kit.store.path(segment.name))
    assert (flushed[path.stat().st_ino], flushed[path.parent.stat().st_ino]) == (20, 20)
    # A shard without a status is one that someone has deleted. What it says later only informs.
    assert statuses == 1
    assert left(threaded_broker) == 0


def start_and_block(broker: ThreadedBroker, kit: Kit, outage: str = "5000") -> tuple[ReceiverThread, Told, Path]:
    """Start a receiver of twenty messages that has written ten and cannot write more: a file is in the way."""
    publish(broker, range(20))
    few = kit.options(segmentRows="10", prefetch="10", maxSpoolBytes="1", reconnectTimeoutMs=outage)
    thread, told = kit.start(few)
    told.wait(lambda told: told.last == 10)
    kit.wait_for(told, ReceiverState.FULL)
    folder = Path(kit.store.path(f"segments/{told.shard}"))
    kit.delete_segments()
    folder.rmdir()
    folder.touch()
    return thread, told, folder


def test_spool_when_it_cannot_be_written_to_then_nothing_is_taken_or_acknowledged_until_it_can(
    threaded_broker: ThreadedBroker, kit: Kit
) -> None:
    _, told, folder = start_and_block(threaded_broker, kit)
    kit.wait_for(told, ReceiverState.BLOCKED)
    assert "cannot write" in kit.status(told).text
    assert left(threaded_broker) == 10

    folder.unlink()
    told.wait(lambda told: told.last == 20)

    assert numbers_in(kit.store) == list(range(10, 20))
    wait_until_left(threaded_broker, 0)


def test_spool_when_it_cannot_be_written_to_for_good_then_the_receiver_fails_and_the_messages_are_given_back(
    threaded_broker: ThreadedBroker, kit: Kit
) -> None:
    thread, told, _ = start_and_block(threaded_broker, kit, outage="3000")

    assert isinstance(told.failure(), SpoolError)
    assert thread.join(PATIENCE)
    assert kit.status(told).state is ReceiverState.FAILED
    assert "cannot write" in kit.status(told).text
    wait_until_left(threaded_broker, 10)


def test_receiver_when_it_was_suspended_for_long_then_it_leaves_its_shard(kit: Kit) -> None:
    """The planner may have given it up, and forgotten the shard."""
    clock = [1e9]

    class Suspended(Told):
        def idle(self) -> None:
            clock[0] += 1000

    with pytest.raises(SpoolError, match=r"could not write its status for \d+ s"):
        trio.run(partial(receive, kit.options(idle=0.05), Suspended(), now=lambda: clock[0]))

    assert segments_in(kit.store) == []


def test_status_when_messages_come_then_it_says_how_many_from_where(threaded_broker: ThreadedBroker, kit: Kit) -> None:
    publish(threaded_broker, range(5))
    _, told = kit.start(kit.options(idle=0.05))
    # It is told again and again.
    told.wait(lambda told: told.last == 5 and told.idles >= 2)
    kit.wait_for(told, ReceiverState.IDLE)

    status = kit.status(told)

    assert (status.rows, status.redelivered, status.pid) == (5, 0, os.getpid())
    assert status.broker.startswith("trio-stomp-testing")
    assert status.last_message >= status.started > 1e9


@pytest.mark.parametrize(
    ("pauses", "rate"),
    [
        pytest.param([4.9, 1.1], 20 / 6, id="since it began"),
        pytest.param([5, 1], 10.0, id="since the last status, which is five seconds old at most"),
        pytest.param([0, 0], 200.0, id="no time has passed"),
    ],
)
def test_status_when_messages_come_then_it_says_how_fast_and_when(
    threaded_broker: ThreadedBroker, kit: Kit, pauses: list[float], rate: float
) -> None:
    """The times are those of the machine that receives."""
    clock, left_of = [1e9], list(pauses)

    class Slow(Told):
        def wrote(self, shard: str, last: int) -> None:
            super().wrote(shard, last)
            if last:
                clock[0] += left_of.pop(0)

    publish(threaded_broker, range(20))
    told = Slow()
    trio.run(partial(receive, kit.options(segmentRows="10", max_rows=20), told, now=lambda: clock[0]))

    status = kit.status(told)
    assert (status.state, status.rows, status.confirmed) == (ReceiverState.ENDED, 20, 20)
    assert status.rate == pytest.approx(rate)
    assert (status.started, status.last_message) == (1e9, 1e9 + pauses[0])
    assert [each.time for each in segments_in(kit.store)] == [10**12, 10**12 + int(pauses[0] * 1000)]


def test_status_when_the_broker_is_gone_then_it_says_that_it_is_not_connected_and_why(
    threaded_broker: ThreadedBroker, kit: Kit
) -> None:
    _, told = kit.start(kit.options(idle=0.05, reconnectTimeoutMs="60000"))
    told.wait(lambda told: told.idles > 0)
    kit.wait_for(told, ReceiverState.IDLE)
    assert kit.status(told).idle > 0

    threaded_broker.call(Broker.stop_listening)
    threaded_broker.call(Broker.drop_connections)
    kit.wait_for(told, ReceiverState.CONNECTING)

    status = kit.status(told)
    assert status.idle == 0
    assert status.text


# --- stores that hang, are full, or are replaced ----------------------------------------------------------------------


class Hanging:
    """Renames of segments hang, from the first on, until they are let go; or they are refused.

    At each of these, the time of a receiver that has this clock goes on by `passing` seconds. So its limits can be
    long, and a busy machine has the time that it needs to connect and to write.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = MockClock(rate=1)
        self.passing = 0.0
        self.hangs = 0
        self.error: OSError | None = None
        self.attempts = 0
        # Called with the number of each.
        self.attempted: Callable[[int], None] | None = None
        self.go_on = threading.Event()
        # Why receivers said that they cannot write.
        self.blocked: list[str] = []
        self._replace = os.replace
        monkeypatch.setattr(os, "replace", self.replace)

    def replace(self, source: str, target: str) -> None:
        if "/status/" in target:
            said = json.loads(Path(source).read_bytes())
            if said["state"] == ReceiverState.BLOCKED.value:
                self.blocked.append(said["text"])
        if "/segments/" in target:
            self.attempts += 1
            if self.attempted is not None:
                self.attempted(self.attempts)
            if self.error is not None or self.attempts <= self.hangs:
                trio.from_thread.run_sync(self.clock.jump, self.passing)
            if self.error is not None:
                raise self.error
            if self.attempts <= self.hangs:
                self.go_on.wait(PATIENCE)
        self._replace(source, target)

    def receive(self, options: ReceiverOptions, told: Told) -> None:
        """Receive until that ends, with this clock."""
        trio.run(partial(receive, options, told), clock=self.clock)


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Generator[Hanging]:
    made = Hanging(monkeypatch)
    yield made
    made.go_on.set()


def test_write_when_it_hangs_then_tried_again_beside_it_and_acknowledged_once(
    threaded_broker: ThreadedBroker, kit: Kit, hanging: Hanging
) -> None:
    publish(threaded_broker, range(11))
    hanging.hangs, hanging.passing = 1, 15
    told = Told()

    hanging.receive(kit.options(max_rows=11, segmentRows="10", reconnectTimeoutMs="60000", heartBeatMs="0"), told)
    hanging.go_on.set()

    assert (told.last, hanging.attempts, len(hanging.blocked)) == (11, 3, 1)
    assert numbers_in(kit.store) == list(range(11))
    wait_until_left(threaded_broker, 0)


def test_write_when_it_hangs_for_good_then_the_receiver_says_so_and_fails_and_what_it_brings_later_is_not_read(
    threaded_broker: ThreadedBroker, kit: Kit, hanging: Hanging
) -> None:
    """Without ids: a copy could not be recognized by them."""
    publish(threaded_broker, range(10))
    hanging.hangs, hanging.passing = 3, 30
    told = Told()
    options = kit.options(dedupe="none", spoolTimeoutMs="30000", reconnectTimeoutMs="80000", heartBeatMs="0")

    with pytest.raises(SpoolError, match="the store has not answered for"):
        hanging.receive(options, told)
    assert "the store has not answered for 30 s" in hanging.blocked[0]
    assert hanging.attempts == 3
    assert kit.status(told).state is ReceiverState.FAILED
    wait_until_left(threaded_broker, 10)

    _, second = kit.start(kit.options(dedupe="none"))
    second.wait(lambda told: told.last == 10)
    hanging.go_on.set()
    while len(segments_in(kit.store)) < 2:
        assert not second.failures
    assert planned(kit, dedupe="none") == list(range(10))


@pytest.mark.parametrize("is_given_up", [True, False])
def test_write_when_it_took_long_then_acknowledged_only_if_the_shard_was_not_given_up_meanwhile(
    threaded_broker: ThreadedBroker, kit: Kit, monkeypatch: pytest.MonkeyPatch, is_given_up: bool
) -> None:
    """As when the process was suspended: the planner forgets a receiver that writes no status."""
    publish(threaded_broker, range(10))
    clock, replace = [1e9], os.replace

    def suspended(source: str, target: str) -> None:
        if "/segments/" in target:
            clock[0] += 5
            if is_given_up:
                kit.store.delete([each.name for each in kit.store.objects("status")])
        replace(source, target)

    monkeypatch.setattr(os, "replace", suspended)
    receiving = partial(receive, kit.options(max_rows=10), now=lambda: clock[0])

    if is_given_up:
        with pytest.raises(SpoolError, match="was given up while a write to it took long; start the receiver again"):
            trio.run(receiving)
    else:
        trio.run(receiving)
    wait_until_left(threaded_broker, 10 if is_given_up else 0)


@pytest.mark.parametrize(
    ("number", "text"), [(errno.ETIMEDOUT, "Connection timed out"), (errno.EACCES, "Permission denied")]
)
def test_spool_when_it_cannot_be_listed_for_a_moment_then_tried_again_unless_that_is_for_good(
    threaded_broker: ThreadedBroker, kit: Kit, monkeypatch: pytest.MonkeyPatch, number: int, text: str
) -> None:
    failures = [OSError(number, text)] * 3

    def listed(store: SpoolStore) -> Listing:
        if failures:
            raise SpoolError(f"cannot list it: {text}") from failures.pop()
        return list_spool(store)

    monkeypatch.setattr(receiver, "list_spool", listed)
    monkeypatch.setattr(receiver, "_FULL_SECONDS_REMOTE", 0.0)
    publish(threaded_broker, range(10))
    _, told = kit.start(kit.options())

    if number == errno.EACCES:
        assert str(told.failure()) == f"cannot list it: {text}"
        wait_until_left(threaded_broker, 10)
    else:
        told.wait(lambda told: told.last == 10)
        assert failures == []


def test_spool_when_listing_it_hangs_then_tried_again(
    threaded_broker: ThreadedBroker, kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, go_on, asked = MockClock(rate=1), threading.Event(), 0

    def listed(store: SpoolStore) -> Listing:
        nonlocal asked
        asked += 1
        if asked == 1:
            trio.from_thread.run_sync(clock.jump, 15)
            go_on.wait(PATIENCE)
        return list_spool(store)

    monkeypatch.setattr(receiver, "list_spool", listed)
    monkeypatch.setattr(receiver, "_FULL_SECONDS_REMOTE", 0.0)
    publish(threaded_broker, range(10))
    options = kit.options(max_rows=10, reconnectTimeoutMs="60000", heartBeatMs="0")

    trio.run(partial(receive, options), clock=clock)
    go_on.set()

    assert numbers_in(kit.store) == list(range(10))
    wait_until_left(threaded_broker, 0)


def test_store_when_it_does_not_answer_at_the_start_then_the_receiver_fails_and_names_it(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()

    def link(_source: str, _target: str) -> None:
        go_on.wait(PATIENCE)
        raise FileExistsError

    monkeypatch.setattr(os, "link", link)
    thread, told = kit.start(kit.options(spoolTimeoutMs="100"))

    assert thread.join(PATIENCE)
    go_on.set()
    assert f"cannot use the spool {kit.location}: the store has not answered for 0.1 s" in str(told.failures[0])


def test_disk_when_it_is_full_then_the_receiver_pauses_for_as_long_as_it_is(
    threaded_broker: ThreadedBroker, kit: Kit, hanging: Hanging
) -> None:
    publish(threaded_broker, range(10))
    told = Told()

    def attempted(number: int) -> None:
        # Much longer than other failures would be borne.
        if number == 4:
            assert kit.status(told).state is ReceiverState.BLOCKED
            assert left(threaded_broker) == 10
            # The one of this attempt; those before it left none.
            assert len(list(Path(kit.location).rglob("*.tmp"))) == 1
            hanging.error = None

    hanging.attempted, hanging.passing = attempted, 50
    hanging.error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    options = kit.options(max_rows=10, spoolTimeoutMs="600000", reconnectTimeoutMs="60000", heartBeatMs="0")
    hanging.receive(options, told)

    assert "No space left on device; make room there" in hanging.blocked[0]
    assert (told.last, hanging.attempts) == (10, 4)
    wait_until_left(threaded_broker, 0)


def test_receiver_when_stopped_while_the_disk_is_full_then_it_ends_and_the_messages_are_given_back(
    threaded_broker: ThreadedBroker, kit: Kit, hanging: Hanging
) -> None:
    publish(threaded_broker, range(10))
    hanging.error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    thread, told = kit.start(kit.options(reconnectTimeoutMs="60000"))
    told.wait(lambda told: told.last == 0)
    kit.wait_for(told, ReceiverState.BLOCKED)

    kit.stop(thread)

    assert kit.status(told).state is ReceiverState.ENDED
    assert not told.failures
    wait_until_left(threaded_broker, 10)


def test_spool_when_neither_a_segment_nor_the_last_status_can_be_written_then_the_error_is_that_of_the_segment(
    threaded_broker: ThreadedBroker, kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace, is_broken, clock = os.replace, threading.Event(), MockClock(rate=1)

    def failing(source: str, target: str) -> None:
        if "/segments/" in target:
            is_broken.set()
            trio.from_thread.run_sync(clock.jump, 60)
        if is_broken.is_set():
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        replace(source, target)

    monkeypatch.setattr(os, "replace", failing)
    publish(threaded_broker, range(10))
    options = kit.options(reconnectTimeoutMs="60000", heartBeatMs="0")

    with pytest.raises(SpoolError, match=r"^cannot write .*/segments/"):
        trio.run(partial(receive, options), clock=clock)
    wait_until_left(threaded_broker, 10)


def test_spool_when_deleted_while_a_receiver_runs_then_it_acknowledges_nothing_more_and_says_why(
    threaded_broker: ThreadedBroker, kit: Kit
) -> None:
    publish(threaded_broker, [0])
    _, told = kit.start(kit.options())
    told.wait(lambda told: told.last == 1)
    wait_until_left(threaded_broker, 0)
    shutil.rmtree(kit.store.folder)
    publish(threaded_broker, range(1, 5))

    assert "was deleted or replaced while this receiver wrote to it" in str(told.failure())
    wait_until_left(threaded_broker, 4)


def wait_for_ack(broker: ThreadedBroker) -> None:
    """Wait until the broker has received an ACK."""
    broker.call(lambda inner: inner.wait_until(lambda: inner.statistics().received[Command.ACK] > 0, timeout=60))


def start_and_lose_acks(broker: ThreadedBroker, kit: Kit, options: ReceiverOptions) -> tuple[ReceiverThread, Told]:
    """Start a receiver whose link breaks before its first ACK is confirmed."""
    broker.call(lambda inner: inner.faults.plan(SwallowReceipts(command=Command.ACK)))
    thread, told = kit.start(options)
    wait_for_ack(broker)
    broker.call(Broker.drop_connections)
    return thread, told


def test_acks_when_the_broker_has_not_confirmed_them_then_the_next_segment_and_the_status_say_so(
    threaded_broker: ThreadedBroker, kit: Kit
) -> None:
    publish(threaded_broker, range(5))
    thread, told = start_and_lose_acks(threaded_broker, kit, kit.options(prefetch="5"))
    told.wait(lambda told: told.last >= 5)
    publish(threaded_broker, [5])
    wait_until_left(threaded_broker, 0)
    kit.stop(thread)

    first, *others = segments_in(kit.store)
    assert first.in_doubt == 0
    assert others[0].in_doubt == first.rows
    assert all(each.in_doubt == 0 for each in others[1:])
    status = kit.status(told)
    assert status.confirmed == status.rows == sum(each.rows for each in [first, *others])
    # The six that were published, and those that came again: it depends on whether the broker had taken the ACK.
    assert status.redelivered == status.rows - 6


def batches_planned(options: IntakeOptions, names: list[str]) -> Iterator[RecordBatch]:
    """The rows in the batches that the planner makes of the spool."""
    store = options.open_spool("stream")
    planner = planner_of(store, destination=options.destination, window=options.dedupe.wanted)
    return rows_of(options.spool, SegmentGroup(planner.slices({}, planner.next({}, None))), names)


def planned(kit: Kit, *, dedupe: str = "auto") -> list[int]:
    """The numbers in these batches."""
    return sorted(numbers_of(batches_planned(kit.options(dedupe=dedupe).intake, ["body"])))


@pytest.mark.parametrize("receivers", [1, 2])
def test_link_when_it_breaks_on_the_way_then_each_row_is_planned_once(
    threaded_broker: ThreadedBroker, kit: Kit, receivers: int
) -> None:
    publish(threaded_broker, range(500))
    break_links(threaded_broker, 3000, 12_000, 5000, 20_000)

    for _ in range(receivers):
        kit.start(kit.options(prefetch="50"))
    wait_until_left(threaded_broker, 0)

    assert planned(kit) == list(range(500))


def test_link_when_it_breaks_again_and_again_while_rows_come_then_the_receiver_goes_on(
    threaded_broker: ThreadedBroker, kit: Kit
) -> None:
    """Each connection is too short to end the outage, and the outage lasts longer than it may."""
    clock = MockClock(rate=1)

    class Flapping(Told):
        def wrote(self, shard: str, last: int) -> None:
            super().wrote(shard, last)
            clock.jump(9)
            if last < 6:
                threaded_broker.call(Broker.drop_connections)
                publish(threaded_broker, [last])

    options = kit.options(max_rows=6, reconnectTimeoutMs="30000", heartBeatMs="0")
    trio.run(partial(receive, options, Flapping()), clock=clock)

    assert planned(kit) == list(range(6))


def test_copies_when_acks_were_lost_and_the_receiver_died_then_planned_once(
    threaded_broker: ThreadedBroker, kit: Kit
) -> None:
    """An ACK is lost with its link, more is written, and the process dies: the first ids must not be forgotten."""
    publish(threaded_broker, range(30))
    thread, told = start_and_lose_acks(threaded_broker, kit, kit.options())
    told.wait(lambda told: told.last >= 30)
    publish(threaded_broker, [30])
    wait_until_left(threaded_broker, 0)
    kit.stop(thread)

    # The broker had taken none of those ACKs, as far as this spool can know.
    publish(threaded_broker, range(32))
    kit.start(kit.options())
    wait_until_left(threaded_broker, 0)
    assert planned(kit) == list(range(32))


def test_receiver_when_it_lingers_longer_than_it_takes_to_be_idle_then_the_messages_are_kept(
    threaded_broker: ThreadedBroker, kit: Kit
) -> None:
    publish(threaded_broker, range(3))

    _, told = kit.start(kit.options(idle=0.1, lingerMs="300"))
    told.wait(lambda told: told.last == 3)

    assert left(threaded_broker) == 0


@pytest.mark.parametrize(("server", "suspects"), [("RabbitMQ/4.1.0", 0), ("ActiveMQ/6.1.8", 3)])
def test_rows_when_the_broker_marks_each_copy_then_only_those_that_it_has_marked_are_suspect(
    tmp_path: Path, server: str, suspects: int
) -> None:
    with run_broker_in_thread(options=BrokerOptions(server=server)) as broker:
        publish(broker, range(3))
        kit = Kit({"brokers": f"127.0.0.1:{broker.port}"}, str(tmp_path))
        thread, told = kit.start(kit.options())
        told.wait(lambda told: told.last == 3)
        kit.stop(thread)

    assert sum(each.suspects for each in segments_in(kit.store)) == suspects


# --- large bodies -----------------------------------------------------------------------------------------------------


def test_segments_when_bodies_are_large_then_bounded_by_their_bytes(
    threaded_broker: ThreadedBroker, kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiver, "_SEGMENT_BYTES", 100_000)
    # The last ones are exactly as many as fit.
    sizes = [40_000, 40_000, 40_000, 300_000, 10, 10, 99_980]
    for size in sizes:
        threaded_broker.call(partial(Broker.publish, destination="/queue/a", body=bytes(size)))

    _, told = kit.start(kit.options(prefetch=str(len(sizes)), lingerMs="60000"))
    told.wait(lambda told: told.last == len(sizes))

    assert [each.rows for each in segments_in(kit.store)] == [2, 1, 1, 3]
    assert left(threaded_broker) == 0


def test_spool_when_large_bodies_come_at_once_then_no_more_of_them_are_written_than_there_is_room_for(
    threaded_broker: ThreadedBroker, kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiver, "_SEGMENT_BYTES", 100_000)
    for _ in range(20):
        threaded_broker.call(lambda broker: broker.publish("/queue/a", bytes(100_000)))

    _, told = kit.start(kit.options(lingerMs="500", maxSpoolBytes="300000"))
    told.wait(lambda told: told.last > 0)
    kit.wait_for(told, ReceiverState.FULL)

    assert list_spool(kit.store).size <= 300_000 + max(each.size for each in segments_in(kit.store))
    deadline = time.monotonic() + PATIENCE
    while left(threaded_broker):
        assert time.monotonic() < deadline
        kit.delete_segments()
    told.wait(lambda told: told.last == 20)


def test_bodies_when_more_than_fit_into_memory_come_before_a_receipt_then_they_wait_in_files(
    threaded_broker: ThreadedBroker, kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = os.urandom(1024) * 1536
    # Much less than by default, for which a busy machine would need minutes.
    few = Limits(undelivered_bytes=4 * len(body))
    monkeypatch.setattr(connection_options, "connect", partial(connect, limits=few))
    threaded_broker.call(lambda broker: broker.faults.plan(SwallowReceipts(command=Command.ACK)))
    thread, told = kit.start(kit.options(reconnectTimeoutMs="60000"))
    threaded_broker.call(lambda broker: broker.publish("/queue/a", body))
    wait_for_ack(threaded_broker)
    for _ in range(13):
        threaded_broker.call(lambda broker: broker.publish("/queue/a", body))
    threaded_broker.call(
        lambda broker: broker.wait_until(lambda: bool(told.failures) or broker.depth("/queue/a") == 0, timeout=60)
    )
    assert not told.failures
    threaded_broker.call(Broker.drop_connections)
    wait_until_left(threaded_broker, 0)
    kit.stop(thread)

    assert sum(each.rows for each in segments_in(kit.store)) == 14
    for each in segments_in(kit.store):
        (batch,) = open_batches(kit.store, kit.store.path(each.name), ["body"])
        assert batch.to_pydict()["body"] == [body] * each.rows


# --- several destinations ---------------------------------------------------------------------------------------------

BOTH = json.dumps(["/queue/a", "/queue/b"])


def publish_to_both(broker: Broker) -> None:
    """A message that was copied to two queues has one id, and is two messages."""
    for number in range(300):
        for queue in ("/queue/a", "/queue/b"):
            broker.publish(queue, str(number), [("dedup-id", f"id-{number}")])


def rows_of_both(kit: Kit) -> list[tuple[str, int, str]]:
    """What the planner makes of the spool: destinations, numbers and ids."""
    names = ["destination", "body", "stable_id"]
    found = (batch.to_pydict() for batch in batches_planned(kit.options(subscribe=BOTH).intake, names))
    return [(each[0], int(each[1]), each[2]) for batch in found for each in zip(*map(batch.get, names), strict=True)]


async def wait_until_both_are_empty(broker: Broker) -> None:
    await broker.wait_until(
        lambda: not any(broker.depth(queue) + broker.unacknowledged(queue) for queue in ("/queue/a", "/queue/b")),
        timeout=60,
    )


@pytest.mark.parametrize("cuts", [(), (3000, 12_000, 5000, 20_000)], ids=["whole links", "links that break"])
def test_destinations_when_there_are_two_then_each_message_of_each_is_planned_once(
    threaded_broker: ThreadedBroker, kit: Kit, cuts: tuple[int, ...]
) -> None:
    threaded_broker.call(publish_to_both)
    break_links(threaded_broker, *cuts)

    _, told = kit.start(kit.options(subscribe=BOTH, prefetch="50"))
    threaded_broker.call(wait_until_both_are_empty)
    told.wait(lambda told: told.idles > 0)

    expected = [(queue, number, f"{queue} id-{number}") for queue in ("/queue/a", "/queue/b") for number in range(300)]
    assert sorted(rows_of_both(kit)) == sorted(expected)


def test_destinations_when_only_one_is_quiet_then_the_receiver_is_not_idle(
    threaded_broker: ThreadedBroker, kit: Kit
) -> None:
    clock = MockClock(rate=1)

    class OneIsBusy(Told):
        def wrote(self, shard: str, last: int) -> None:
            super().wrote(shard, last)
            if last < 8:
                busy = "/queue/a" if last < 4 else "/queue/b"
                threaded_broker.call(partial(Broker.publish, destination=busy, body=b"1"))
            clock.jump(20)

    told = OneIsBusy()
    options = kit.options(subscribe=BOTH, idle=30, max_rows=8, reconnectTimeoutMs="60000", heartBeatMs="0")
    trio.run(partial(receive, options, told), clock=clock)

    assert (told.last, told.idles) == (8, 0)


def test_destinations_when_there_is_a_limit_then_no_more_rows_and_the_rest_stays(
    threaded_broker: ThreadedBroker, kit: Kit
) -> None:
    threaded_broker.call(publish_to_both)

    thread, told = kit.start(kit.options(subscribe=BOTH, max_rows=450, prefetch="100"))

    assert thread.join(PATIENCE)
    assert (told.last, told.failures) == (450, [])
    depths = threaded_broker.call(lambda broker: broker.depth("/queue/a") + broker.depth("/queue/b"))
    assert depths == 150


def test_destinations_when_the_broker_refuses_one_then_the_receiver_fails_with_its_words(
    threaded_broker: ThreadedBroker, kit: Kit
) -> None:
    _, told = kit.start(kit.options(subscribe=json.dumps(["/queue/a", "x" * 2000])))

    assert isinstance(told.failure(), BrokerError)


def test_broker_when_it_never_confirms_an_ack_then_the_receiver_fails_and_the_rows_are_kept(
    threaded_broker: ThreadedBroker, kit: Kit
) -> None:
    publish(threaded_broker, range(5))
    threaded_broker.call(lambda broker: broker.faults.plan(SwallowReceipts(command=Command.ACK)))

    # The time limit also holds for connecting and writing, which take long on a busy machine.
    _, told = kit.start(kit.options(prefetch="5", lingerMs="60000", reconnectTimeoutMs="3000"))

    assert isinstance(told.failure(), OperationTimeout)
    assert numbers_in(kit.store) == list(range(5))
