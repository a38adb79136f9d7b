import multiprocessing
import os
from pathlib import Path

import pyarrow as pa
import pytest

from trio_stomp.spark.segment_files import (
    SegmentFile,
    SpoolLocked,
    flush_folder,
    list_segments,
    lock_folder,
    read_segment,
    write_segment,
)


def batch(*values: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(values)})


def test_segment_when_written_then_listed_and_read_as_it_was(tmp_path: Path) -> None:
    second = write_segment(tmp_path, batch(4, 5), 4)
    first = write_segment(tmp_path, batch(1, 2, 3), 1)

    assert list_segments(tmp_path) == [first, second]
    assert (first.first, first.last, first.rows) == (1, 3, 3)
    assert [part.to_pydict() for part in read_segment(first.path)] == [{"n": [1, 2, 3]}]


def test_listing_when_a_crash_has_left_half_a_segment_then_it_is_none(tmp_path: Path) -> None:
    (tmp_path / "seg-000000000000001-000000000000003.tmp").write_bytes(b"half")
    (tmp_path / "notes").touch()

    assert list_segments(tmp_path) == []


def test_half_a_segment_when_written_again_then_whole(tmp_path: Path) -> None:
    (tmp_path / "seg-000000000000001-000000000000001.tmp").write_bytes(b"half" * 1000)

    segment = write_segment(tmp_path, batch(1), 1)

    assert [part.num_rows for part in read_segment(segment.path)] == [1]
    assert [path.suffix for path in tmp_path.iterdir()] == [".arrow"]


def test_segment_when_its_folder_is_gone_then_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="gone"):
        write_segment(tmp_path / "gone", batch(1), 1)
    with pytest.raises(OSError, match="gone"):
        flush_folder(tmp_path / "gone")
    with pytest.raises(OSError, match="gone"):
        list(read_segment(str(tmp_path / "gone")))


def test_segments_when_compared_then_by_sequence() -> None:
    segments = [SegmentFile(first=11, last=12, path="a"), SegmentFile(first=2, last=10, path="b")]

    assert [segment.first for segment in sorted(segments)] == [2, 11]


def try_lock(folder: Path, answers: "multiprocessing.SimpleQueue[str]") -> None:
    try:
        with lock_folder(folder):
            answers.put("got it")
    except SpoolLocked as error:
        answers.put(str(error))


def test_lock_when_another_process_has_it_then_refused_and_that_one_is_named(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    answers: multiprocessing.SimpleQueue[str] = context.SimpleQueue()
    with lock_folder(tmp_path):
        other = context.Process(target=try_lock, args=(tmp_path, answers))
        other.start()
        other.join()
    again = context.Process(target=try_lock, args=(tmp_path, answers))
    again.start()
    again.join()

    assert f"in use by process {os.getpid()}" in answers.get()
    assert answers.get() == "got it"
