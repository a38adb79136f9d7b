"""The intake by itself is tried where it is used: test_receiver.py and test_batch_drain.py. Here is what they do not
reach."""

import time
from pathlib import Path

import pyarrow as pa
import pytest

from trio_stomp.spark.in_doubt import InDoubt
from trio_stomp.spark.intake import Intake
from trio_stomp.spark.intake_options import IntakeOptions
from trio_stomp.spark.option_reader import OptionReader
from trio_stomp.spark.segment_files import write_segment

OPTIONS = IntakeOptions.read(OptionReader({"brokers": "b", "subscribe": "/queue/a", "spoolLocation": "/spool"}))


def segment(folder: Path, first: int, *ids: str | None) -> None:
    write_segment(folder, pa.record_batch({"stable_id": pa.array(ids, pa.string())}), first)


def test_intake_when_it_begins_then_the_ids_of_the_newest_segment_are_safe_before_it_is_not_the_newest(
    tmp_path: Path,
) -> None:
    segment(tmp_path, 1, "old")
    segment(tmp_path, 2, "a", None, "b")

    intake = Intake(OPTIONS, tmp_path, InDoubt(tmp_path / "ids"), time.time)

    again = InDoubt(tmp_path / "ids")
    assert intake.last == 4
    assert ["a" in again, "b" in again, "old" in again] == [True, True, False]


@pytest.mark.parametrize(("after", "last"), [(0, 1), (7, 7)])
def test_intake_when_the_checkpoint_is_ahead_of_the_folder_then_it_counts_on_from_the_checkpoint(
    tmp_path: Path, after: int, last: int
) -> None:
    segment(tmp_path, 1, "a")

    assert Intake(OPTIONS, tmp_path, InDoubt(tmp_path / "ids"), time.time, after=after).last == last
