"""Which tests are run against a mutant: none that could notice it is left out."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "scripts"))

from mutants_lib.mutations import mutants_of  # noqa: E402  # found only now
from mutants_lib.reach import Coverage, Place  # noqa: E402  # found only now
from mutants_lib.recording import pytest_sessionfinish  # noqa: E402  # found only now
from mutants_lib.sample import Candidate, modules_named  # noqa: E402  # found only now
from mutants_lib.trial import suites_of  # noqa: E402  # found only now

SOURCE = """\
LIMIT = 3

class Window:
    size: int = 5

    def full(self, extra: int = 7) -> bool:
        return extra > 2

def other() -> int:
    return 11
"""
FULL, OTHER, ELSEWHERE = "tests/client/test_a.py::full", "tests/client/test_b.py::other", "tests/client/test_c.py::c"
OWN, SIGNATURES = "tests/client/test_window.py::own", "tests/client/test_front_door.py::signatures"


@pytest.fixture
def coverage(tmp_path: Path) -> Coverage:
    """Recorded: two tests run one function each, three run none; every other line ran at import."""
    tests = [ELSEWHERE, OTHER, FULL, OWN, SIGNATURES]
    file = str(tmp_path / "trio_stomp" / "client" / "window.py")
    lines = {"1": [], "3": [], "4": [], "6": [], "7": [2], "9": [], "10": [1]}
    recorded = {"tests": tests, "seconds": [1.0] * 5, "lines": {file: lines}, "outside": {file: [1, 3, 4, 6, 9]}}
    path = tmp_path / "coverage.json"
    path.write_text(json.dumps(recorded), encoding="utf-8")
    return Coverage.read(path, tmp_path)


def chosen(coverage: Coverage, after: str) -> list[str]:
    """The tests for the mutant that makes a line of the source this one."""
    found = [Candidate("client/window.py", each, *each.lines(SOURCE)) for each in mutants_of(SOURCE)]
    (candidate,) = [each for each in found if each.after == after]
    return [coverage.tests[test] for test in coverage.tests_for(candidate, SOURCE)]


def test_tests_when_a_line_is_in_a_function_then_they_are_those_that_run_it(coverage: Coverage) -> None:
    assert chosen(coverage, "return extra > 3") == [FULL]
    assert chosen(coverage, "return 12") == [OTHER]


@pytest.mark.parametrize("after", ["LIMIT = 4", "size: int = 6", "def full(self, extra: int = 8) -> bool:"])
def test_tests_when_a_line_runs_at_import_then_they_are_all_and_signatures_come_first(
    coverage: Coverage, after: str
) -> None:
    tests = chosen(coverage, after)

    assert tests[:2] == [SIGNATURES, OWN]
    assert sorted(tests[2:4]) == [FULL, OTHER]
    assert tests[4:] == [ELSEWHERE]


@pytest.mark.parametrize("after", ["size: int = 6", "def full(self, extra: int = 8) -> bool:"])
def test_tests_when_a_class_or_function_is_around_the_line_then_its_own_tests_come_before_the_module_s(
    coverage: Coverage, after: str
) -> None:
    tests = chosen(coverage, after)

    assert tests.index(FULL) < tests.index(OTHER)


def test_tests_when_a_function_ran_outside_of_tests_too_then_they_are_all(coverage: Coverage) -> None:
    at_import = Coverage(
        coverage.tests, coverage.seconds, coverage.lines, {"client/window.py": frozenset({10})}, coverage.breadth
    )

    assert len(chosen(at_import, "return 12")) == len(coverage.tests)


def test_tests_when_a_package_has_its_own_then_only_those_are_run(coverage: Coverage) -> None:
    found = [Candidate("client/window.py", each, *each.lines(SOURCE)) for each in mutants_of(SOURCE)]
    (constant,) = [each for each in found if each.after == "LIMIT = 4"]

    assert len(coverage.tests_for(constant, SOURCE, ["tests/client"])) == len(coverage.tests)
    assert coverage.tests_for(constant, SOURCE, ["tests/cli"]) == []
    assert [coverage.tests[each] for each in coverage.tests_for(constant, SOURCE, ["tests/client/test_a.py"])] == [FULL]


def test_modules_when_none_is_named_then_all_packages_have_mutants_and_tests() -> None:
    modules = modules_named(ROOT, [])

    packages = {each.parent.name for each in (ROOT / "trio_stomp").glob("*/__init__.py")}
    assert packages <= {each.partition("/")[0] for each in modules}
    assert {test for each in modules for test in suites_of(each) if not (ROOT / test).exists()} == set()
    assert suites_of("cli/send.py") == ("tests/cli",)
    assert suites_of("spark/options.py") == ("tests/spark",)
    assert "tests/blocking" in suites_of("blocking/client.py")
    assert "tests/client" in suites_of("session/session.py")


def test_tests_when_nothing_runs_the_line_then_there_are_none(coverage: Coverage) -> None:
    unused = Coverage(coverage.tests, coverage.seconds, {}, {}, coverage.breadth)

    assert chosen(unused, "return 12") == []


@pytest.mark.parametrize(
    ("line", "at_import", "around"),
    [
        (1, True, (1, 14)),
        (2, True, (2, 12)),
        (3, True, (2, 12)),
        (4, True, (4, 10)),
        (6, True, (4, 10)),
        (8, False, (4, 10)),
        (9, False, (9, 10)),
        (10, False, (9, 10)),
        (11, True, (11, 12)),
        (12, True, (11, 12)),
        (13, True, (1, 14)),
    ],
)
def test_place_when_asked_for_a_line_then_it_says_whether_import_runs_it_and_what_is_around(
    line: int, at_import: bool, around: tuple[int, int]
) -> None:
    source = """\
x = 1
@decorated
class A:
    @cached(3)
    def f(
        self, a=2
    ):
        if a:
            def g(b=3):
                return b
    class B:
        c = 4
if x:
    y = 5"""

    assert Place.of(line, source) == Place(at_import, around)


def test_recording_when_the_tests_were_stopped_then_nothing_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = tmp_path / "map.json"
    monkeypatch.setenv("TRIO_STOMP_MUTANTS_MAP", str(recorded))

    pytest_sessionfinish(pytest.ExitCode.INTERRUPTED)

    assert not recorded.exists()
