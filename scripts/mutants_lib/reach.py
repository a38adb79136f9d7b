"""Which tests may notice a mutant.

Inside a function, the tests that run the line: no other can tell the difference. Tests that fork come last, where the
line may have run in a child.

Anything else runs when its module is imported, before the first test: a constant, a table, an attribute of a class, a
default in a signature, and the functions that these call. Every test of its package may notice such a mutant. The
likeliest run first: those of the signatures, then those that run the function or class around the line, then those that
run the module. A mutant that survives has met all tests of its package.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mutants_lib.sample import PACKAGE, Candidate

__all__ = ["Coverage", "Place"]

# The tests of documented defaults: they take no time, and most defaults are theirs.
_SIGNATURES: Final = "tests/client/test_signatures.py::"
# Tests whose programs fork, and the folder whose lines run in the child, where no recording sees them.
_FORKING: Final = "tests/blocking/test_processes.py::"
_FORKED: Final = "blocking/"
# The closest tests, as many as take this long; most mutants are killed by them. The others only get the survivors.
_FIRST_SECONDS: Final = 8.0


@dataclass(frozen=True, slots=True)
class Place:
    """Where in its module a line is.

    Attributes:
        at_import: Whether it runs when the module is imported, outside of every function's body.
        around: The first and the last line of the innermost function or class that it belongs to; else of the module.
    """

    at_import: bool
    around: tuple[int, int]

    @classmethod
    def of(cls, line: int, source: str) -> Place:
        """The place of a line, counted from 1."""
        place = cls(at_import=True, around=(1, source.count("\n") + 1))
        body: Sequence[ast.stmt] = ast.parse(source).body
        while inner := next((each for each in body if _first(each) <= line <= (each.end_lineno or 0)), None):
            if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef)):
                # In a signature of one line with its body, the body counts: a test that calls the function runs both.
                at_import = place.at_import and line < inner.body[0].lineno
                place = cls(at_import, (_first(inner), inner.end_lineno or line))
                if line < inner.body[0].lineno:
                    break
            elif isinstance(inner, ast.ClassDef):
                place = cls(place.at_import, (_first(inner), inner.end_lineno or line))
            body = [each for each in ast.iter_child_nodes(inner) if isinstance(each, ast.stmt)]
        return place


def _first(node: ast.stmt) -> int:
    """The first line of a statement, decorators included."""
    return min((each.lineno for each in getattr(node, "decorator_list", [])), default=node.lineno)


@dataclass(frozen=True, slots=True)
class Coverage:
    """Which test runs which lines.

    Attributes:
        tests: All tests.
        seconds: How long each takes.
        lines: Module -> line -> numbers of the tests that run it.
        outside: Module -> the lines that ran outside of tests, at import above all.
        breadth: How many lines each test runs: few mean that it is about these.
    """

    tests: Sequence[str]
    seconds: Sequence[float]
    lines: dict[str, dict[int, list[int]]]
    outside: dict[str, frozenset[int]]
    breadth: Sequence[int]

    @classmethod
    def read(cls, path: Path, tree: Path) -> Coverage:
        """What the recording wrote."""
        found = json.loads(path.read_text(encoding="utf-8"))
        package = tree / PACKAGE
        breadth = [0] * len(found["tests"])
        lines: dict[str, dict[int, list[int]]] = {}
        outside: dict[str, frozenset[int]] = {}
        for file, by_line in found["lines"].items():
            if not Path(file).is_relative_to(package):
                continue
            module = Path(file).relative_to(package).as_posix()
            lines[module] = {int(line): tests for line, tests in by_line.items()}
            outside[module] = frozenset(found["outside"][file])
            for tests in by_line.values():
                for test in tests:
                    breadth[test] += 1
        return cls(found["tests"], found["seconds"], lines, outside, breadth)

    def tests_for(self, candidate: Candidate, source: str, within: Sequence[str] = ("tests",)) -> list[int]:
        """The tests that may notice a mutant, the likeliest first; none where nothing runs its line.

        Args:
            candidate: The mutant.
            source: The text of its module, unchanged.
            within: The folders and files with the tests that should notice it.
        """
        by_line = self.lines.get(candidate.module, {})
        place = Place.of(candidate.mutant.line, source)
        first, last = place.around
        # A statement of many lines is known by some of them only, mostly the first.
        known = max((line for line in by_line if line <= candidate.mutant.line), default=0)
        runs_line = set(by_line.get(known, ()))
        runs_around = {test for line, tests in by_line.items() if first <= line <= last for test in tests}
        runs_module = {test for tests in by_line.values() for test in tests}
        at_import = place.at_import or known in self.outside.get(candidate.module, ())
        own = f"/test_{Path(candidate.module).stem}.py::"

        def distance(test: int) -> tuple[bool, bool, bool, bool, bool, int, float]:
            name = self.tests[test]
            return (
                at_import and not name.startswith(_SIGNATURES),
                own not in name,
                test not in runs_line,
                test not in runs_around,
                test not in runs_module,
                self.breadth[test],
                self.seconds[test],
            )

        found = range(len(self.tests)) if at_import else runs_line
        if candidate.module.startswith(_FORKED):
            found = {*found, *(test for test, name in enumerate(self.tests) if name.startswith(_FORKING))}
        places = tuple(f"{each}{separator}" for each in within for separator in ("/", "::"))
        return sorted((test for test in found if self.tests[test].startswith(places)), key=distance)

    def stages(self, tests: Sequence[int]) -> Iterator[list[int]]:
        """The tests in two parts: those that are tried at once, and the rest."""
        spent, count = 0.0, 0
        while count < len(tests) and spent < _FIRST_SECONDS:
            spent += self.seconds[tests[count]]
            count += 1
        yield list(tests[:count])
        if count < len(tests):
            yield list(tests[count:])
