import re
from pathlib import Path

import pyarrow as pa
import pytest

from trio_stomp.spark import in_doubt
from trio_stomp.spark.in_doubt import InDoubt, ids_of
from trio_stomp.spark.segment_files import write_segment


def test_ids_when_saved_then_another_process_knows_them(tmp_path: Path) -> None:
    path = tmp_path / "ids"
    ids = InDoubt(path)
    strange = ["a", "b c", "line\nfeed", "ü\u2028", '"']
    ids.add(strange)
    assert not path.exists()

    ids.save()

    again = InDoubt(path)
    assert len(again) == len(strange)
    assert all(each in again for each in strange)
    assert "c" not in again


def test_ids_when_acknowledged_then_forgotten_and_the_file_may_have_more(tmp_path: Path) -> None:
    ids = InDoubt(tmp_path / "ids")
    ids.add(["a", "b"])
    ids.save()
    ids.discard(["a", "never there"])
    ids.save()

    assert "a" not in ids
    assert "a" in InDoubt(tmp_path / "ids")


def test_ids_when_there_are_too_many_then_the_oldest_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_doubt, "_MOST", 3)
    ids = InDoubt(tmp_path / "ids")

    ids.add("abcde")

    assert [each in ids for each in "abcde"] == [False, False, True, True, True]


def test_ids_when_nothing_was_added_then_nothing_is_written(tmp_path: Path) -> None:
    InDoubt(tmp_path / "ids").save()

    assert list(tmp_path.iterdir()) == []


def test_file_when_damaged_then_the_error_names_it(tmp_path: Path) -> None:
    path = tmp_path / "ids"
    path.write_text('"a"\n"b')

    with pytest.raises(ValueError, match=re.escape(str(path))):
        InDoubt(path)


def test_segment_when_some_rows_have_an_id_then_those(tmp_path: Path) -> None:
    batch = pa.record_batch({"stable_id": pa.array(["a", None, "b"], pa.string())})

    assert ids_of(write_segment(tmp_path, batch, 1)) == ["a", "b"]
