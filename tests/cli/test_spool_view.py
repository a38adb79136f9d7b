"""``trio-stomp top --spool``: receivers and rows of a spool that other processes have written."""

from __future__ import annotations

import json
import signal
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest
import trio

from tests.cli.conftest import Cli
from tests.cli.exit_code import ExitCode
from tests.cli.processes import PATIENCE, OnPipes

pytest.importorskip("fcntl", reason="spools are not for Windows")
pytest.importorskip("pyarrow", reason="pyarrow comes with the extra `spool`")

from trio_stomp.cli.top import SpoolView
from trio_stomp.spark import CareReport, OptionError, ReceiverState, ReceiverStatus, SpoolError, SpoolTaken
from trio_stomp.spark.intake_options import STREAM, destination_folder
from trio_stomp.spark.receiver_status import write_status
from trio_stomp.spark.segments import mark_spool
from trio_stomp.spark.spool_store import SpoolLocation
from trio_stomp.spark.stream_offsets import QueryProgress, write_progress

RECEIVING = ReceiverStatus(
    shard="2",
    state=ReceiverState.RECEIVING,
    host="worker-1",
    pid=12,
    broker="RabbitMQ/4.1",
    rows=1200,
    redelivered=3,
    rate=250.0,
    last_message=1000.0,
)
# What a broker has said may look like another line, or move the cursor.
FAILED = ReceiverStatus(shard="1", state=ReceiverState.FAILED, host="worker-2", pid=13, text="refused\n\x1b[2Jby me")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A spool with two receivers."""
    store = SpoolLocation.of(str(tmp_path)).open(destination_folder("/queue/a"), STREAM)
    mark_spool(store, "/queue/a")
    for each in (RECEIVING, FAILED):
        write_status(store, each)
    return tmp_path


async def test_spool_when_looked_at_then_each_receiver_is_a_row_and_its_error_follows(folder: Path) -> None:
    shown = await SpoolView(str(folder), clock=lambda: 1002.5).look()

    assert shown.title == f"{folder}, 0 rows (0 bytes) wait for a query"
    assert shown.lines(100, 20)[1:] == [
        "RECEIVER                          STATE  ROWS  ROWS/s  REDELIVERED  LAST MESSAGE",
        "/queue/a                         0 wait",
        "  worker-1 12 (RabbitMQ/4.1)  receiving  1200     250            3     2.5 s ago",
        "  worker-2 13 (no broker)        failed     0     0.0            0          none",
        "    refused\\n\\x1b[2Jby me",
    ]


@pytest.mark.parametrize(
    ("rows", "rate", "seconds", "shown"),
    [
        (9_999_999, 99.9, 999.25, ("9999999", "99.9", "3", "999 s ago")),
        (10_000_000, 99.95, 999.5, ("10M", "100", "3", "1,000 s ago")),
        (1, 12_345_678.0, 86_400.0, ("1", "12M", "3", "86,400 s ago")),
    ],
)
async def test_spool_when_numbers_are_large_then_they_have_few_digits(
    tmp_path: Path, rows: int, rate: float, seconds: float, shown: tuple[str, ...]
) -> None:
    store = SpoolLocation.of(str(tmp_path)).open(destination_folder("/queue/a"), STREAM)
    mark_spool(store, "/queue/a")
    write_status(store, replace(RECEIVING, rate=rate, rows=rows))

    look = await SpoolView(str(tmp_path), clock=lambda: 1000.0 + seconds).look()

    assert look.rows[-1][2:] == shown


@pytest.mark.parametrize(
    ("now", "shown"),
    [
        # The clock of the machine that wrote it is ahead.
        (999.0, "0 ms ago"),
        (1000.5, "500 ms ago"),
        (1999.0, "999 s ago"),
        (1999.5, "1,000 s ago"),
        (1000.0 + 86_400, "86,400 s ago"),
    ],
)
async def test_spool_when_the_last_message_is_old_then_its_age_is_in_whole_seconds(
    folder: Path, now: float, shown: str
) -> None:
    look = await SpoolView(str(folder), clock=lambda: now).look()

    assert look.rows[1][-1] == shown


def test_top_when_a_receiver_cannot_write_then_blocked(cli: Cli, folder: Path) -> None:
    store = SpoolLocation.of(str(folder)).open(destination_folder("/queue/a"), STREAM)
    write_status(store, ReceiverStatus(shard="3", state=ReceiverState.BLOCKED, text="cannot write"))

    done = cli("top", "--spool", str(folder), "--once")
    data = json.loads(cli("top", "--spool", str(folder), "--once", "--json").stdout)

    assert done.stdout.startswith(f"{folder}, 0 rows (0 bytes) wait for a query, BLOCKED\n")
    (destination,) = data["destinations"]
    assert (destination["destination"], destination["blocked"]) == ("/queue/a", True)
    assert [each["state"] for each in destination["receivers"]] == ["cannot write", "receiving", "failed"]


def test_top_when_a_query_went_on_without_rows_then_says_how_many(cli: Cli, folder: Path) -> None:
    store = SpoolLocation.of(str(folder)).open(destination_folder("/queue/a"), STREAM)
    write_progress(store, QueryProgress(spool=mark_spool(store, "/queue/a"), lost=60))

    done = cli("top", "--spool", str(folder), "--once")
    data = json.loads(cli("top", "--spool", str(folder), "--once", "--json").stdout)

    assert "\n    60 rows missing, left out by failOnDataLoss=false" in done.stdout
    assert data["destinations"][0]["lost"] == 60


def test_top_when_the_spool_cannot_be_read_then_said_why(cli: Cli) -> None:
    done = cli("top", "--spool", "/dev/null", "--once")

    assert (done.exit_code, done.stdout) == (ExitCode.NOT_CONNECTED, "")
    assert "cannot list /dev/null" in done.stderr


def test_top_when_pyarrow_is_missing_then_it_is_named(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in sys.modules if each.startswith(("pyarrow", "trio_stomp.spark"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    done = cli("top", "--spool", "/dev/null", "--once")

    assert done.exit_code == ExitCode.USAGE
    assert "top requires pyarrow. Run: pip install 'trio-stomp[cli,spool]'" in done.stderr


def test_top_when_a_spool_and_a_queue_are_given_then_refused(cli: Cli, folder: Path) -> None:
    done = cli("top", "orders", "--spool", str(folder), "--once")

    assert (done.exit_code, done.stdout) == (ExitCode.USAGE, "")
    assert "--spool shows no queues of a broker" in done.stderr


def test_top_when_it_watches_a_spool_then_until_ctrl_c(on_pipes: OnPipes, folder: Path) -> None:
    with on_pipes("top", "--interval", "0.01", "--spool", str(folder)) as piped:
        assert piped.output.readline() == f"{folder}, 0 rows (0 bytes) wait for a query\n".encode()
        piped.process.send_signal(signal.SIGINT)
        status, _, errors = piped.finish()

    assert (status, errors) == (0, b"")


async def test_spool_when_it_is_slow_then_a_look_can_be_canceled(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    is_over = threading.Event()

    def slow(*_location: object) -> NoReturn:
        is_over.wait(PATIENCE)
        raise AssertionError

    monkeypatch.setattr("trio_stomp.spark.status", slow)

    with trio.move_on_after(0.01) as scope:
        await SpoolView(str(folder)).look()
    is_over.set()

    assert scope.cancelled_caught


# --- trio-stomp spool -------------------------------------------------------------------------------------------------


def damaged_in(folder: Path) -> Path:
    """A segment that has another size than its name says."""
    path = folder / destination_folder("/queue/a") / STREAM / "segments" / "2" / "seg-000000000001-3-0-0-999-1.arrow"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"short")
    return path


def test_spool_when_it_is_whole_then_said_in_a_line_for_each_part(cli: Cli, folder: Path) -> None:
    done = cli("spool", str(folder), "--verify")

    assert (done.exit_code, done.stdout) == (0, "/queue/a: 0 rows (0 bytes), read by no query\n"), done.stderr


def test_spool_when_a_segment_is_damaged_then_it_fails_until_it_is_set_aside(cli: Cli, folder: Path) -> None:
    path = damaged_in(folder)

    done = cli("spool", str(folder), "--json")
    looked = cli("top", "--spool", str(folder), "--once")
    assert f"\n{path} of the spool has 5 bytes instead of 999: it was truncated" in looked.stdout
    assert done.exit_code == ExitCode.FAILED
    assert "1 damaged segment; restore them from a backup, or run the command again with --set-aside" in done.stderr
    (why,) = json.loads(done.stdout)["damaged"].values()
    assert "has 5 bytes instead of 999: it was truncated" in why

    done = cli("spool", str(folder), "--set-aside")
    assert done.exit_code == 0
    assert f"    set aside: segments/2/{path.name}" in done.stdout
    assert not path.exists()
    assert cli("spool", str(folder)).exit_code == 0


def test_spool_when_parts_were_looked_after_then_each_is_said_in_full(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def care(location: str, settings: dict[str, str], **wanted: object) -> list[CareReport]:
        asked.extend((location, settings, wanted))
        damaged = {"segments/1/a": "cut\n\x1b[2J", "segments/1/b": "gone", "segments/1/c": "gone"}
        stream = CareReport(
            destination="/queue/a\n",
            part="stream",
            folder="f",
            owner="query 1",
            rows=1,
            size=12_345,
            damaged=damaged,
            set_aside=("segments/1/a",),
            halves=1,
        )
        reads = replace(
            stream, destination="/queue/b", part="reads", owner=None, rows=2, set_aside=(), halves=2, reads=1
        )
        return [stream, replace(reads, damaged={"segments/2/a": "cut"}), replace(reads, damaged={}, halves=0, reads=2)]

    monkeypatch.setattr("trio_stomp.spark.care", care)

    done = cli("spool", "/s", "--spool-option", "a=b", "--set-aside", "--clean", "--delete-reads", "1m")

    assert asked == [
        "/s",
        {"a": "b"},
        {"verify": False, "set_aside": True, "clean": True, "reads_older_than": 60.0},
    ]
    assert done.stdout == (
        "/queue/a\\n: 1 row (12,345 bytes), read by query 1\n"
        "    damaged: cut\\n\\x1b[2J\n"
        "    damaged: gone\n"
        "    damaged: gone\n"
        "    set aside: segments/1/a\n"
        "    1 half-written file deleted\n"
        "/queue/b: 2 rows (12,345 bytes), batch reads\n"
        "    damaged: cut\n"
        "    2 half-written files deleted\n"
        "    1 batch read deleted\n"
        "/queue/b: 2 rows (12,345 bytes), batch reads\n"
        "    2 batch reads deleted\n"
    )
    how = "restore them from a backup, or run the command again with --set-aside"
    assert (done.exit_code, done.stderr) == (ExitCode.FAILED, f"trio-stomp: 3 damaged segments; {how}\n")


@pytest.mark.parametrize(
    ("error", "code", "why"),
    [
        (OptionError("no such"), ExitCode.USAGE, "no such"),
        (SpoolError("not there"), ExitCode.NOT_CONNECTED, "not there"),
        (SpoolTaken("a query reads it"), ExitCode.FAILED, "a query reads it"),
        (UnicodeEncodeError("utf-8", "s3cret", 0, 1, "no"), ExitCode.USAGE, "an argument is not UTF-8 text"),
    ],
)
def test_spool_when_it_cannot_be_done_then_said_why(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, error: Exception, code: ExitCode, why: str
) -> None:
    def care(*_location: object, **_wanted: object) -> list[CareReport]:
        raise error

    monkeypatch.setattr("trio_stomp.spark.care", care)

    done = cli("spool", "/s")

    assert (done.exit_code, done.output) == (code, f"trio-stomp: {why}\n")


def test_spool_when_there_is_none_then_said(cli: Cli, tmp_path: Path) -> None:
    done = cli("spool", str(tmp_path))

    assert (done.exit_code, done.stdout) == (ExitCode.FAILED, "")
    assert f"there is no spool in {tmp_path}" in done.stderr


def test_spool_when_there_is_none_and_its_uri_has_a_key_then_it_is_not_shown(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def care(*_location: object, **_wanted: object) -> list[CareReport]:
        return []

    monkeypatch.setattr("trio_stomp.spark.care", care)

    done = cli("spool", "s3://bucket/spool?secret_key=s3cret")

    assert done.stderr == "trio-stomp: there is no spool in s3://bucket/spool\n"
