"""What the long run is judged by: its schedule, its table, and its verdict."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.crashes.soak import Kill, Outcome, plan
from tests.crashes.soak_table import SoakTable


def write_file(file: Path, numbers: list[int]) -> None:
    table = pa.table({"n": pa.array(numbers, pa.int32())})
    parquet.write_table(table, file)  # pyright: ignore[reportUnknownMemberType]  # the stubs do not say


def write(folder: Path, batch: str, files: dict[str, list[int]]) -> None:
    """Add a batch, as Spark's file sink does."""
    notes = folder / "_spark_metadata"
    notes.mkdir(exist_ok=True)
    lines = ["v1"]
    for name, numbers in files.items():
        write_file(folder / name, numbers)
        lines.append(json.dumps({"path": f"file://{folder}/{name}", "action": "add"}))
    (notes / batch).write_text("\n".join(lines), "utf-8")


def test_table_when_batches_are_added_then_each_is_counted_once(tmp_path: Path) -> None:
    table = SoakTable(tmp_path, 10)
    write(tmp_path, "0", {"a": [0, 1], "b": [2]})
    table.read_new()
    write(tmp_path, "1.compact", {"a": [0, 1], "b": [2], "c": [3, 5]})
    (tmp_path / "_spark_metadata" / ".2.tmp").touch()

    table.read_new()
    table.read_new()

    assert (table.different, table.doubled, table.strange) == (5, 0, 0)
    assert table.missing(6) == [4]


def test_table_when_rows_are_copies_or_were_never_sent_then_it_tells(tmp_path: Path) -> None:
    table = SoakTable(tmp_path, 4)
    write(tmp_path, "0", {"a": [0, 1, 1, 4]})
    write(tmp_path, "1", {"b": [0, 1]})

    table.read_new()

    assert (table.different, table.doubled, table.strange) == (2, 3, 1)
    assert table.repeated() == [0, 1]


def test_table_when_a_file_belongs_to_no_batch_then_it_is_not_counted(tmp_path: Path) -> None:
    table = SoakTable(tmp_path, 4)
    write(tmp_path, "0", {"a": [0]})
    write_file(tmp_path / "of a task that was run twice", [0])

    table.read_new()

    assert (table.different, table.doubled) == (1, 0)


def test_plan_when_there_are_many_kills_then_each_kind_is_in_it_and_the_seed_decides() -> None:
    kills = plan(7, 100, 1_000_000, list(Kill))

    assert len(kills) == 100
    assert set(Counter(kind for _, kind in kills)) == set(Kill)
    assert kills == sorted(kills, key=lambda each: each[0])
    assert kills == plan(7, 100, 1_000_000, list(Kill))
    assert kills != plan(8, 100, 1_000_000, list(Kill))


def test_plan_when_kinds_are_named_then_it_has_no_others() -> None:
    assert {kind for _, kind in plan(7, 5, 1000, [Kill.LINKS])} == {Kill.LINKS}


GOOD = Outcome(broker="rabbitmq", receivers=4, spool="local", master="cluster", seed=1, sent=5, different=5)


@pytest.mark.parametrize(
    "outcome",
    [replace(GOOD, different=4), replace(GOOD, doubled=1), replace(GOOD, strange=1), replace(GOOD, left=1)],
    ids=["lost", "doubled", "never sent", "left"],
)
def test_outcome_when_a_message_is_not_there_once_then_it_is_bad(outcome: Outcome) -> None:
    assert GOOD.is_good
    assert not outcome.is_good


def test_outcome_when_it_is_told_then_kills_are_listed_by_kind() -> None:
    outcome = replace(GOOD, kills=Counter({Kill.LINKS: 3, Kill.DRIVER: 1}))

    told = {line.strip().rsplit("  ", 1)[0].strip(): line.rsplit(None, 1)[-1] for line in outcome.lines()}

    assert (told["sent"], told["lost"], told["kills"], told[Kill.LINKS]) == ("5", "0", "4", "3")
    assert Kill.BROKER not in told
