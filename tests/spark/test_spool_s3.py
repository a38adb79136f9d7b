"""A spool on S3, as moto's server answers: objects, receivers, the planner and the command, also while it refuses."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from urllib.parse import urlencode

import pytest

from tests.kit.needed import needs
from tests.spark.receiving import QUEUE, left, numbers_in, planner_of, publish, segments_in, wait_until_left, write
from tests.spark.s3_server import S3Proxy, run_s3_server
from tests.spark.test_receiver import Kit, Told
from trio_stomp.spark import ReceiverState, ReceiverStatus, SpoolError, conditional_put, status
from trio_stomp.spark import planner as planning
from trio_stomp.spark.intake_options import STREAM, destination_folder
from trio_stomp.spark.receiver_status import write_status
from trio_stomp.spark.recent_ids import Window
from trio_stomp.spark.segment_slices import SegmentGroup, rows_of
from trio_stomp.spark.segments import list_spool
from trio_stomp.spark.spool_store import SpoolLocation, SpoolStore
from trio_stomp.testing import ThreadedBroker

PATIENCE = 60.0
needs("moto")


@pytest.fixture(scope="module")
def server() -> Generator[S3Proxy]:
    with run_s3_server() as s3:
        yield s3


@pytest.fixture
def s3(server: S3Proxy) -> S3Proxy:
    server.writes.clear()
    server.signed.clear()
    server.is_waiting.clear()
    return server


@contextmanager
def receiving(connection: dict[str, str], location: SpoolLocation) -> Generator[tuple[Kit, Told]]:
    """A receiver that writes to S3 until the end of the block."""
    kit = Kit({**connection, "spoolOptions": json.dumps(dict(location.settings))}, location.uri)
    thread, told = kit.start(kit.options(reconnectTimeoutMs="60000"))
    try:
        yield kit, told
    finally:
        kit.stop(thread)
    assert not told.failures


def test_objects_when_on_s3_then_written_listed_read_and_deleted(s3: S3Proxy) -> None:
    location = s3.location("objects")
    store = location.open("a")
    assert store.objects() == []
    assert store.get("a/b") is None
    store.put("a/b", b"1")
    store.put("a/b", b"22")
    store.put("c", b"")

    assert [(each.name, each.size) for each in store.objects()] == [("a/b", 2), ("c", 0)]
    assert all(abs(each.changed - time.time()) < PATIENCE for each in store.objects())
    assert store.get("a/b") == b"22"
    with store.open_file(store.path("a/b")) as file:
        assert file.read() == b"22"
    store.delete(["a/b", "nowhere"])
    assert [each.name for each in store.objects()] == ["c"]
    assert location.open().folders() == ["a"]


@pytest.mark.parametrize("query", ["", "&allow_delayed_open=true"])
def test_object_when_the_uri_alone_says_how_to_reach_s3_then_also_written_by_one_request(
    s3: S3Proxy, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    reached = s3.location("by-uri")
    given = dict(reached.settings)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", given.pop("access_key"))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", given.pop("secret_key"))
    store = SpoolLocation.of(f"{reached.uri}?{urlencode(given)}{query}").open()

    store.put("segments/a", b"1")

    assert s3.writes == [f"PUT /{store.path('segments/a')}"]


@pytest.mark.parametrize("flag", ["true", "True"])
def test_object_when_the_bucket_takes_anonymous_writes_then_created_without_a_key(
    s3: S3Proxy, monkeypatch: pytest.MonkeyPatch, flag: str
) -> None:
    """Not even with one that the environment has, as pyarrow does without it."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "y")
    reached = s3.location(f"anonymous-{flag}")
    given = {name: value for name, value in reached.settings if name not in {"access_key", "secret_key"}}
    store = SpoolLocation.of(reached.uri, {**given, "anonymous": flag}.items()).open()

    assert [store.create("a", b"1"), store.create("a", b"2")] == [True, False]
    assert store.get("a") == b"1"
    assert not any(s3.signed)


def test_object_when_many_create_it_on_s3_at_once_then_one_does(s3: S3Proxy) -> None:
    stores = [s3.location("created").open() for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        created = list(pool.map(SpoolStore.create, stores, ["a/b"] * 8, [str(at).encode() for at in range(8)]))

    assert [stores[0].get("a/b")] == [str(at).encode() for at in range(8) if created[at]]


@pytest.mark.parametrize(("conflicts", "is_created"), [(1, True), (3, True), (4, False)])
def test_object_when_another_write_of_it_is_under_way_on_s3_then_tried_again(
    s3: S3Proxy, monkeypatch: pytest.MonkeyPatch, conflicts: int, is_created: bool
) -> None:
    monkeypatch.setattr(conditional_put, "_PAUSE_SECONDS", 0.0)
    store = s3.location(f"conflicts-{conflicts}").open()
    s3.conflicts = conflicts

    assert store.create("a/b", b"1") is is_created
    assert s3.conflicts == 0
    assert store.get("a/b") == (b"1" if is_created else None)


@pytest.mark.parametrize("written", [SpoolStore.put, SpoolStore.create])
def test_bucket_when_it_does_not_exist_then_said_which_and_what_to_check_and_no_key_is_shown(
    s3: S3Proxy, written: Callable[[SpoolStore, str, bytes], object]
) -> None:
    settings = {**dict(s3.location("x").settings), "secret_key": "hunter2"}
    other = SpoolLocation.of("s3://nowhere/spool", settings.items())

    with pytest.raises(SpoolError, match=r"cannot write nowhere/spool/a of the spool: .*; (check|was)") as caught:
        written(other.open(), "a", b"")
    assert "hunter2" not in f"{caught.value!r} {caught.value} {caught.value.__cause__!r}"


def test_planner_when_on_s3_then_copies_are_left_out_and_segments_deleted(
    s3: S3Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "_RELEASE_SECONDS", 1e12)
    location = s3.location("planned")
    store = location.open()
    write(store, "a", 1, ["1", "2"], time=1)
    write(store, "b", 1, ["2", "3"], redelivered=[0, 1], time=2)
    planner = planner_of(store, window=Window(rows=1000, seconds=1e9), max_bytes=1)

    end = planner.next({}, None)

    batches = rows_of(location, SegmentGroup(planner.slices({}, end)), ["body"])
    assert [bytes(body) for batch in batches for body in batch.to_pydict()["body"]] == [b"1", b"2", b"2"]
    planner.next(end, None)
    listing = list_spool(store)
    assert (listing.segments, listing.drops, len(listing.ids)) == ({}, frozenset(), 1)


def test_shard_when_retired_on_s3_then_no_object_is_left_in_place_of_its_folder(
    s3: S3Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each batch lists the spool, so it would take longer with each receiver that there ever was."""
    monkeypatch.setattr(planning, "SILENT_SECONDS", -1.0)
    location = s3.location("retired")
    store = location.open()
    write(store, "old", 1, ["1"], time=1)
    write_status(store, ReceiverStatus(shard="old", state=ReceiverState.ENDED))
    planner = planner_of(store, window=Window(rows=1000, seconds=1e9), max_bytes=1)
    end = planner.next({}, None)

    planner.next(end, None)
    planner.next(end, None)

    assert location.open("segments").folders() == []
    assert list_spool(store).statuses == {}


def test_segment_when_received_then_one_object_written_by_one_request(
    s3: S3Proxy, threaded_broker: ThreadedBroker, connection: dict[str, str]
) -> None:
    publish(threaded_broker, range(100))

    with receiving(connection, s3.location("received")) as (kit, _):
        wait_until_left(threaded_broker, 0)

    assert numbers_in(kit.store) == list(range(100))
    assert s3.writes == [f"PUT /{kit.store.path(each.name)}" for each in segments_in(kit.store)]


def test_segment_when_the_store_refuses_then_acknowledged_only_after_it_was_written(
    s3: S3Proxy, threaded_broker: ThreadedBroker, connection: dict[str, str]
) -> None:
    publish(threaded_broker, range(10))
    s3.refuses = True
    with receiving(connection, s3.location("refused")) as (kit, told):
        kit.wait_for(told, ReceiverState.BLOCKED)
        assert left(threaded_broker) == 10
        assert segments_in(kit.store) == []

        s3.refuses = False
        wait_until_left(threaded_broker, 0)

    assert numbers_in(kit.store) == list(range(10))


def test_segment_when_the_answer_of_the_store_is_lost_then_written_again_under_the_same_name(
    s3: S3Proxy, threaded_broker: ThreadedBroker, connection: dict[str, str]
) -> None:
    publish(threaded_broker, range(10))
    s3.loses_answers = 2

    with receiving(connection, s3.location("doubtful")) as (kit, _):
        wait_until_left(threaded_broker, 0)

    assert len(s3.writes) >= 3
    assert numbers_in(kit.store) == list(range(10))


def test_command_when_terminated_while_the_store_is_slow_then_the_segment_is_finished_and_acknowledged(
    s3: S3Proxy, threaded_broker: ThreadedBroker
) -> None:
    location = s3.location("slow")
    publish(threaded_broker, range(10))
    s3.is_open.clear()
    url = f"stomp://guest:guest@127.0.0.1:{threaded_broker.port}"
    command = [sys.executable, "-m", "trio_stomp.cli", "receive", QUEUE, "--spool", location.uri, "--url", url]
    settings = [f"--spool-option={name}={value}" for name, value in location.settings]
    with subprocess.Popen([*command, *settings], stdout=subprocess.PIPE, text=True) as process:
        assert s3.is_waiting.wait(PATIENCE)
        process.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        assert left(threaded_broker) == 10
        s3.is_open.set()
        output, _ = process.communicate(timeout=PATIENCE)

    assert (process.returncode, output) == (0, f"10 messages received into {location.uri}\n")
    assert numbers_in(location.open(destination_folder(QUEUE), STREAM)) == list(range(10))
    assert left(threaded_broker) == 0
    (destination,) = status(location.uri, dict(location.settings)).destinations
    assert (destination.rows, [each.state for each in destination.receivers]) == (10, [ReceiverState.ENDED])
