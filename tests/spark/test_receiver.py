"""The receiver, without Spark: its shard of the spool, and what is left at the broker."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path

import pytest

from tests.spark.receiving import left, numbers_in, publish, wait_until_left
from trio_stomp.errors import ConnectionLost, StompError
from trio_stomp.protocol import Command
from trio_stomp.spark.receiver import ReceiverOptions, ReceiverThread
from trio_stomp.spark.segment_files import list_segments
from trio_stomp.spark.stream_options import StreamOptions
from trio_stomp.testing import Broker, DropLink, SwallowReceipts, ThreadedBroker

PATIENCE = 120.0


class Told:
    """A report, and events to wait for."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.last = -1
        self.idles = 0
        self.failures: list[Exception] = []

    def reached(self, last: int) -> None:
        with self.changed:
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


class Kit:
    """Starts receivers, and ends them all."""

    def __init__(self, connection: dict[str, str], folder: Path) -> None:
        self.connection = connection
        self.folder = folder / "shard"
        self.threads: list[ReceiverThread] = []

    def options(self, *, after: int = 0, max_bytes: int = 1 << 30, idle: float = 0.2, **given: str) -> ReceiverOptions:
        needed = {"subscribe": "/queue/a", "spoolLocation": str(self.folder), "reconnectTimeoutMs": "5000"}
        stream = StreamOptions.read({**self.connection, **needed, **given})
        return ReceiverOptions(intake=stream.intake, folder=self.folder, after=after, max_bytes=max_bytes, idle=idle)

    def start(self, options: ReceiverOptions) -> tuple[ReceiverThread, Told]:
        told = Told()
        thread = ReceiverThread(options, told, told.failed)
        self.threads.append(thread)
        return thread, told


@pytest.fixture
def kit(connection: dict[str, str], tmp_path: Path) -> Generator[Kit]:
    made = Kit(connection, tmp_path)
    yield made
    for thread in made.threads:
        thread.stop()
    assert all(thread.join(PATIENCE) for thread in made.threads)


def test_messages_when_received_then_on_the_disk_and_acknowledged(threaded_broker: ThreadedBroker, kit: Kit) -> None:
    publish(threaded_broker, range(250))

    _, told = kit.start(kit.options(segmentRows="100"))
    told.wait(lambda told: told.last == 250)

    assert numbers_in(kit.folder) == list(range(250))
    assert [segment.first for segment in list_segments(kit.folder)] == [1, 101, 201]
    assert left(threaded_broker) == 0


def test_receiver_when_started_behind_a_checkpoint_then_it_counts_on_from_there(
    threaded_broker: ThreadedBroker, kit: Kit
) -> None:
    _, told = kit.start(kit.options(after=500))
    publish(threaded_broker, range(3))
    told.wait(lambda told: told.last == 503)

    (segment,) = list_segments(kit.folder)
    assert (segment.first, segment.last) == (501, 503)


def test_receiver_when_stopped_then_what_it_has_not_kept_is_given_back(
    threaded_broker: ThreadedBroker, kit: Kit
) -> None:
    publish(threaded_broker, range(100))
    size = kit.options(segmentRows="10", max_bytes=1)

    thread, told = kit.start(size)
    told.wait(lambda told: told.last == 10)
    thread.stop()
    assert thread.join(PATIENCE)
    assert not told.failures
    wait_until_left(threaded_broker, 90)

    _, again = kit.start(kit.options())
    again.wait(lambda told: told.last == 100)
    assert numbers_in(kit.folder) == list(range(100))


def test_receiver_when_stopped_before_it_has_begun_then_it_ends(kit: Kit) -> None:
    thread, told = kit.start(kit.options())
    thread.stop()

    assert thread.join(PATIENCE)
    thread.stop()
    assert not told.failures


def test_spool_when_full_then_nothing_is_taken_until_there_is_room(threaded_broker: ThreadedBroker, kit: Kit) -> None:
    publish(threaded_broker, range(100))
    _, told = kit.start(kit.options(segmentRows="10", prefetch="10", max_bytes=10_000))
    told.wait(lambda told: told.last >= 10)
    threading.Event().wait(0.3)
    full = told.last
    assert full < 100

    for segment in list_segments(kit.folder)[:-1]:
        Path(segment.path).unlink()
    told.wait(lambda told: told.last > full)


def test_destination_when_quiet_then_told_again_and_again(kit: Kit) -> None:
    _, told = kit.start(kit.options(idle=0.05))

    told.wait(lambda told: told.idles >= 2)


def test_link_when_it_breaks_on_the_way_then_each_row_is_there_once(threaded_broker: ThreadedBroker, kit: Kit) -> None:
    publish(threaded_broker, range(500))
    for octets in (3000, 12_000):
        threaded_broker.call(partial(break_after, octets=octets))

    _, told = kit.start(kit.options(prefetch="50"))
    told.wait(lambda told: told.last == 500)

    assert sorted(numbers_in(kit.folder)) == list(range(500))
    wait_until_left(threaded_broker, 0)


def break_after(broker: Broker, *, octets: int) -> None:
    broker.faults.plan(DropLink(after_sent_bytes=octets))


def test_copies_when_two_receivers_died_before_their_acks_then_both_are_known(
    threaded_broker: ThreadedBroker, kit: Kit
) -> None:
    """An ACK is lost with its link, more is written, and the process dies: the first ids must not be forgotten."""
    publish(threaded_broker, range(30))
    threaded_broker.call(lambda broker: broker.faults.plan(SwallowReceipts(command=Command.ACK)))
    thread, told = kit.start(kit.options())
    threaded_broker.call(lambda inner: inner.wait_until(lambda: inner.statistics().received[Command.ACK] > 0))
    threaded_broker.call(Broker.drop_connections)
    told.wait(lambda told: told.last == 30)
    publish(threaded_broker, [30])
    told.wait(lambda told: told.last == 31)
    thread.stop()
    thread.join(PATIENCE)

    # The broker had taken none of those ACKs, as far as this spool can know.
    publish(threaded_broker, range(32))
    _, again = kit.start(kit.options())
    again.wait(lambda told: told.last == 32)
    wait_until_left(threaded_broker, 0)
    assert numbers_in(kit.folder) == list(range(32))


def test_broker_when_it_cannot_be_reached_then_the_failure_is_told(threaded_broker: ThreadedBroker, kit: Kit) -> None:
    threaded_broker.call(Broker.stop_listening)

    _, told = kit.start(kit.options(reconnectTimeoutMs="300"))
    told.wait(lambda told: bool(told.failures))

    assert isinstance(told.failures[0], ConnectionLost)
    assert "Connection refused" in str(told.failures[0])


def test_passcode_when_wrong_then_the_broker_is_quoted_and_the_passcode_is_not(
    threaded_broker: ThreadedBroker, connection: dict[str, str], tmp_path: Path
) -> None:
    kit = Kit({**connection, "password": "hunter2"}, tmp_path)

    thread, told = kit.start(kit.options())
    told.wait(lambda told: bool(told.failures))

    assert thread.join(PATIENCE)
    (failure,) = told.failures
    assert isinstance(failure, StompError)
    assert "hunter2" not in f"{failure!r} {failure}"


def test_broker_when_it_never_confirms_an_ack_then_the_receiver_fails_and_the_rows_are_kept(
    threaded_broker: ThreadedBroker, kit: Kit
) -> None:
    publish(threaded_broker, range(5))
    threaded_broker.call(lambda broker: broker.faults.plan(SwallowReceipts(command=Command.ACK)))

    _, told = kit.start(kit.options(reconnectTimeoutMs="200"))
    told.wait(lambda told: bool(told.failures))

    assert numbers_in(kit.folder) == list(range(5))
