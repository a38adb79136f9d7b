"""The matrix has no empty row, and the page that shows it is up to date."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.conformance.rows import load_partial, load_rows, load_untestable, rows_named, shown_by

ROOT = Path(__file__).parents[2]


def test_rows_when_looked_up_then_each_is_shown_or_has_a_reason() -> None:
    shown, untestable = shown_by(), load_untestable()
    empty = [row["id"] for row in load_rows() if row["id"] not in shown and row["id"] not in untestable]
    assert empty == []
    assert not set(untestable) & set(shown), "a row that is shown needs no reason"


def test_rows_when_named_by_a_test_or_vector_then_they_exist() -> None:
    known = {row["id"] for row in load_rows()}
    assert set(shown_by()) <= known
    assert set(load_untestable()) <= known
    assert set(load_partial()) <= set(shown_by()), "a row that holds in part is shown by a test of that part"


def test_tests_when_they_are_methods_of_a_class_then_their_rows_are_found() -> None:
    assert any("::Test" in test and "::test_" in test for tests in shown_by().values() for test in tests)


def test_rows_named_when_a_range_then_spelled_out() -> None:
    assert rows_named("Rows 1x-HB-6 to 1x-HB-8, 12-HB-10.") == ["1x-HB-6", "1x-HB-8", "12-HB-10", "1x-HB-7"]


def test_page_when_the_tests_have_changed_then_it_was_written_anew() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "conformance_doc"), "--check"]
    done = subprocess.run(command, check=False)
    assert done.returncode == 0, "docs/conformance.md is out of date: run scripts/conformance_doc"
