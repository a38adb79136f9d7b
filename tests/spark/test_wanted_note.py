"""The note that receivers are wanted: it is there while a driver renews it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.spark.receiving import opened
from tests.spark.waiting import wait_until
from trio_stomp.spark import executor_receivers
from trio_stomp.spark.executor_receivers import WantedNote
from trio_stomp.spark.spool_store import SpoolError, SpoolStore

QUARTER_HOUR = 900.0


@pytest.fixture
def store(tmp_path: Path) -> SpoolStore:
    return opened(tmp_path)


@contextmanager
def written(store: SpoolStore, name: str) -> Generator[WantedNote]:
    note = WantedNote(store, name, {"receivers": 2})
    try:
        yield note
    finally:
        note.delete()


def notes_in(store: SpoolStore) -> list[str]:
    return sorted(each.name for each in store.objects())


def make_older(store: SpoolStore, name: str, seconds: float) -> None:
    path = Path(store.path(name))
    changed = path.stat().st_mtime - seconds
    os.utime(path, (changed, changed))


def test_note_when_deleted_then_gone_and_not_renewed(store: SpoolStore) -> None:
    with written(store, "a") as note:
        assert store.get_json(note.name) == {"receivers": 2}

    assert notes_in(store) == []
    note.renew()
    assert notes_in(store) == []


@pytest.mark.parametrize(("ago", "is_kept"), [(QUARTER_HOUR + 60, False), (QUARTER_HOUR - 60, True)])
def test_note_when_its_driver_was_killed_then_the_next_one_deletes_it_once_it_is_old(
    store: SpoolStore, ago: float, is_kept: bool
) -> None:
    store.put("wanted/killed.json", b"{}")
    store.put("other/old.json", b"{}")
    for name in ("wanted/killed.json", "other/old.json"):
        make_older(store, name, ago)

    with written(store, "a"):
        assert ("wanted/killed.json" in notes_in(store)) is is_kept

    assert "other/old.json" in notes_in(store)


DRIVER = """
import os, signal, sys
from trio_stomp.spark.spool_store import SpoolLocation
from trio_stomp.spark.executor_receivers import WantedNote
WantedNote(SpoolLocation.of(sys.argv[1]).open(), "killed", {})
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_note_when_its_driver_is_killed_then_it_stays_until_another_driver_finds_that_it_is_old(
    store: SpoolStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed = subprocess.run([sys.executable, "-c", DRIVER, store.folder], check=False)
    assert killed.returncode == -signal.SIGKILL
    monkeypatch.setattr(executor_receivers, "_RENEW_SECONDS", 0.01)

    with written(store, "a") as note:
        assert notes_in(store) == [note.name, "wanted/killed.json"]
        # A driver that runs already finds it, too.
        make_older(store, "wanted/killed.json", QUARTER_HOUR + 60)
        wait_until(None, lambda: notes_in(store) == [note.name])


def test_note_when_time_passes_then_renewed(store: SpoolStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor_receivers, "_RENEW_SECONDS", 0.01)
    with written(store, "a") as note:
        store.delete([note.name])
        wait_until(None, lambda: notes_in(store) == [note.name])


def test_note_when_it_cannot_be_renewed_then_tried_again(
    store: SpoolStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(executor_receivers, "_RENEW_SECONDS", 0.01)
    with written(store, "a") as note:
        path = Path(store.path(note.name))
        while not path.is_dir():  # the note may be renewed between the two calls
            path.unlink(missing_ok=True)
            with suppress(FileExistsError):
                path.mkdir()
        wait_until(None, lambda: "cannot write" in caplog.text)
        while path.is_dir():
            path.rmdir()
        wait_until(None, path.is_file)


def test_note_when_it_cannot_be_written_then_the_error_says_so(store: SpoolStore) -> None:
    Path(store.path("wanted")).write_bytes(b"")

    with pytest.raises(SpoolError, match="cannot write"):
        WantedNote(store, "a", {})
