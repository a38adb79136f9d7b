"""`scripts/mutants.py`: which tests a mutant meets."""

from __future__ import annotations

import sys
from pathlib import Path

import coverage
import pytest

from tests.architecture.source_tree import ROOT

sys.path.append(str(ROOT / "scripts"))

from mutants import Mutant, Recording, mutants_of  # found only now

SOURCE = """\
LIMIT = 5


def within(value: int, limit: int = 6) -> bool:
    return value < 7
"""
CALLS, IMPORTS, OTHER = (f"tests/client/test_{name}.py::test_{name}" for name in ("calls", "imports", "other"))
SUITES = ["tests/client"]


@pytest.fixture
def mutants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Mutant]:
    """Those of the numbers in `SOURCE`, by what is replaced."""
    (tmp_path / "trio_stomp").mkdir()
    (tmp_path / "trio_stomp" / "limits.py").write_text(SOURCE, encoding="utf-8")
    monkeypatch.setattr("mutants.ROOT", tmp_path)
    return {each.before: each for each in mutants_of("limits.py") if each.before.isdecimal()}


def noted(tree: Path, lines: dict[str, dict[str, list[int]]]) -> Recording:
    """What coverage.py would note: for each test, the lines of each module that it runs."""
    data = coverage.CoverageData(str(tree / "coverage"))
    for test, by_module in lines.items():
        data.set_context(test)
        data.add_lines({str(tree / "trio_stomp" / module): run for module, run in by_module.items()})
    data.write()
    return Recording(tree, tree / "coverage")


def test_mutant_when_in_a_function_then_meets_the_tests_that_run_its_line(
    tmp_path: Path, mutants: dict[str, Mutant]
) -> None:
    tests = noted(tmp_path, {"": {"limits.py": [1, 4]}, CALLS: {"limits.py": [5]}, OTHER: {"other.py": [1]}})

    assert tests.of(mutants["7"], SUITES) == [CALLS]
    assert tests.of(mutants["7"], ["tests/cli"]) == []


@pytest.mark.parametrize("number", ["5", "6"])
def test_mutant_when_its_line_runs_at_import_then_meets_all_tests_that_run_its_module(
    number: str, tmp_path: Path, mutants: dict[str, Mutant]
) -> None:
    # The first test to import the module is the only one that is noted with its constants and defaults.
    tests = noted(tmp_path, {IMPORTS: {"limits.py": [1, 4]}, CALLS: {"limits.py": [5]}, OTHER: {"other.py": [1]}})

    assert tests.of(mutants[number], SUITES) == [CALLS, IMPORTS]


def test_mutant_when_no_test_runs_anything_of_its_module_then_meets_all_tests(
    tmp_path: Path, mutants: dict[str, Mutant]
) -> None:
    tests = noted(tmp_path, {"": {"limits.py": [1, 4]}, OTHER: {"other.py": [1]}})

    assert tests.of(mutants["5"], SUITES) == [OTHER]
