"""Comparing this checkout with an older commit."""

from __future__ import annotations

import pytest

from benchmarks.compare import comparison, earlier
from benchmarks.contenders import ROOT
from benchmarks.results import OURS, Results, Row

needs_git = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="needs a git checkout, not an unpacked sdist")


def test_comparison_when_a_row_is_a_rate_then_more_is_faster() -> None:
    results, row = Results(), Row("One connection", "send")
    for then, now in ((100, 110), (100, 90), (100, 120)):
        results.add(row, "commit 1234567", then)
        results.add(row, OURS, now)
    assert comparison(results, "commit 1234567").splitlines()[-1] == (
        "| One connection: send | 100 | 110 | 1.10 | 0.90 | 1.20 |"
    )


def test_comparison_when_a_row_is_a_time_then_less_is_faster() -> None:
    results, row = Results(), Row("Round trip", "p50", "µs")
    results.add(row, "commit 1234567", 200)
    results.add(row, OURS, 100)
    assert "| 200 | 100 | 2.00 | 2.00 | 2.00 |" in comparison(results, "commit 1234567")


def test_comparison_when_only_one_side_has_a_row_then_it_is_left_out() -> None:
    results = Results()
    results.add(Row("New", "row"), OURS, 1)
    assert "New" not in comparison(results, "commit 1234567")


@needs_git
def test_earlier_when_the_commit_exists_then_its_code_is_there_for_the_block_only() -> None:
    with earlier("HEAD") as older:
        package = older.package
        assert package is not None
        assert (package / "trio_stomp" / "__init__.py").exists()
    assert not package.exists()


@needs_git
def test_earlier_when_git_does_not_know_the_commit_then_it_says_so() -> None:
    with pytest.raises(ValueError, match="git does not know the commit 'no-such-commit'"), earlier("no-such-commit"):
        pass
