"""The note that receivers are wanted: it is there while a driver renews it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.spark.receiving import make_older
from tests.spark.waiting import wait_until
from trio_stomp.spark import SpoolError, executor_receivers
from trio_stomp.spark.executor_receivers import WantedNote
from trio_stomp.spark.spool_store import SpoolStore

QUARTER_HOUR = 900.0


@contextmanager
def written(store: SpoolStore, name: str) -> Generator[WantedNote]:
    note = WantedNote(store, name, {"receivers": 2})
    try:
        yield note
    finally:
        note.delete()


def notes_in(store: SpoolStore) -> list[str]:
    return sorted(each.name for each in store.objects())


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


def test_note_when_it_becomes_old_then_a_driver_that_runs_deletes_it(
    store: SpoolStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor_receivers, "_RENEW_SECONDS", 0.01)
    store.put("wanted/killed.json", b"{}")

    with written(store, "a") as note:
        assert notes_in(store) == [note.name, "wanted/killed.json"]
        make_older(store, "wanted/killed.json", QUARTER_HOUR + 60)
        wait_until(None, lambda: notes_in(store) == [note.name])


def test_note_when_it_cannot_be_renewed_then_tried_again_and_renewed(
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
