"""Change the source in small ways, one at a time, and see whether a test notices.

    make mutants                                       a sample of 200 mutants of all packages
    make mutants ARGS="--seed 7 --count 50"            another sample, a smaller one
    make mutants ARGS="--modules cli session/receipts.py"
    make mutants ARGS="--list"                         only say how many mutants there are

First the tests run unchanged, and each is noted with the lines that it runs, which takes some minutes and is kept until
the source or a test changes. Then each mutant meets the tests that run its line, those that run least first. Where the
line runs at import (a constant, a default), these are the tests that run anything of its module, or all if none does.
Tests that need Java are left out.

A mutant that no test notices has survived: a test is missing, the code is redundant, or the mutant behaves as the
original does. Exits with 1 if fewer than the goal are killed.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import hashlib
import itertools
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Final

import coverage
import pytest

ROOT: Final = Path(__file__).resolve().parents[1]
PACKAGE: Final = "trio_stomp"
BUILD: Final = ROOT / "build" / "mutants"
COPIED: Final = (PACKAGE, "tests", "examples", "benchmarks", "scripts", "docs", "pyproject.toml", "README.md")
FAST: Final = ("-q", "-p", "no:cacheprovider", "-m", "not slow and not interop and not spark")
# The tests that a mutant should not get past: what is built on the client has its own, and all other packages these.
OWN: Final[Mapping[str, tuple[str, ...]]] = {
    "blocking": ("tests/blocking",),
    # The options are in the tables of a page, which a test compares.
    "cli": ("tests/cli", "tests/docs/test_command_reference.py"),
    "otel": ("tests/otel",),
    "spark": ("tests/spark",),
}
OF_ALL_COMMANDS: Final = ("tests/cli/test_command_line.py::", "tests/docs/test_command_reference.py::")
CORE: Final = tuple(
    f"tests/{each}"
    for each in ("protocol", "conformance", "client", "testing", "brokers", "runtime", "blocking", "test_errors.py")
)
# The variable that names the test, for the programs that it starts: see `context` in pyproject.toml.
TEST: Final = "TRIO_STOMP_TEST"
# A test that takes longer than this hangs, and so do all tests of a mutant together.
TEST_SECONDS: Final = 60
MUTANT_SECONDS: Final = 600
# A mutant may ask for all the memory that there is; without one, the tests need less than this. Only Linux has prlimit.
MOST_BYTES: Final = 4 * 1024**3
LIMITED: Final = ("prlimit", f"--as={MOST_BYTES}") if shutil.which("prlimit") else ()

# --- the mutants ----------------------------------------------------------------------------------------------------

COMPARISONS: Final[Mapping[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
OPERATORS: Final[Mapping[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
# Their arguments are words for people. A test that insisted on each of them would hold nothing that matters.
TELLING: Final = frozenset({"debug", "info", "warning", "error", "exception", "add_note", "log", "repr", "warn"})
ERRORS: Final = ("Error", "Lost", "Exceeded", "Failed", "Supported", "Closed")
# What Python or a type checker reads, and the words of errors.
UNSEEN_NAMES: Final = frozenset({"__all__", "__slots__", "__match_args__", "logger", "msg", "reason", "hint"})
# A text of three words or more is for people too.
PROSE: Final = re.compile(r"[a-z]\W* \W*[a-z]+\W* \W*[a-z]", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change.

    Attributes:
        module: The path of the module below the package.
        line: The line on which it begins, from 1.
        start: Where the piece begins that is replaced, in bytes of the module.
        before: What is replaced.
        after: What it becomes.
        at_import: Whether it runs when its module is imported, outside the body of any function.
    """

    module: str
    line: int
    start: int
    before: str
    after: str
    at_import: bool

    def __str__(self) -> str:
        return f"{PACKAGE}/{self.module}:{self.line}\n    - {self.before}\n    + {self.after}"

    def apply(self, source: str) -> str:
        """The text of the module with this change."""
        octets = source.encode()
        end = self.start + len(self.before.encode())
        return (octets[: self.start] + self.after.encode() + octets[end:]).decode()


def mutants_of(module: str) -> list[Mutant]:
    """All mutants of a module, in order."""
    octets = (ROOT / PACKAGE / module).read_bytes()
    lines = octets.splitlines(keepends=True)
    starts = [0, *itertools.accumulate(map(len, lines))]
    found: list[Mutant] = []
    tree = ast.parse(octets)
    functions = [each for each in ast.walk(tree) if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))]
    bodies = [range(each.body[0].lineno, (each.end_lineno or 0) + 1) for each in functions]
    for node in _read(tree):
        for piece, new in _changes(node):
            if b"pragma: no cover" not in lines[piece.lineno - 1]:
                start = starts[piece.lineno - 1] + piece.col_offset
                end = starts[(piece.end_lineno or 0) - 1] + (piece.end_col_offset or 0)
                at_import = not any(piece.lineno in body for body in bodies)
                found.append(Mutant(module, piece.lineno, start, octets[start:end].decode(), new, at_import))
    return found


def _read(node: ast.AST) -> Iterator[ast.expr | ast.stmt]:  # noqa: C901, PLR0912  # one case for each kind
    """The statements and expressions of a node, itself included, that a test can see."""
    match node:
        case (
            ast.Import()
            | ast.ImportFrom()
            | ast.Assert()
            | ast.JoinedStr()
            | ast.pattern()
            | ast.If(test=ast.Name("TYPE_CHECKING"))
            | ast.Raise(exc=ast.Name("AssertionError") | ast.Call(func=ast.Name("AssertionError")))
            | ast.Call(func=ast.Name("TypeVar" | "TypeVarTuple" | "ParamSpec"))
            | ast.Subscript(value=ast.Name("Literal"))
            | ast.Expr(value=ast.Constant())  # a docstring
        ):
            return
        case ast.Assign(targets=[ast.Name(name)]) | ast.AnnAssign(target=ast.Name(name)) if name in UNSEEN_NAMES:
            return
        case ast.Call() | ast.Await() if _tells(node):
            return
        case ast.Expr(value=value) if _tells(value):
            return
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            # Methods of a Protocol and overloads are never called: they only declare signatures.
            if all(isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant) for each in node.body):
                return
            below: list[ast.AST | None] = [*node.args.defaults, *node.args.kw_defaults, *node.body]
        case ast.ClassDef(bases=[ast.Attribute(attr="Enum")]):
            # Their values are texts for people; what is compared is in a StrEnum.
            below = [each for each in node.body if not isinstance(each, ast.Assign)]
        case ast.ClassDef():
            below = [*node.body]
        case ast.AnnAssign():
            below = [node.value]
        case ast.Raise():
            below = []  # its words are not for a test
        case _:
            below = [*ast.iter_child_nodes(node)]
    if isinstance(node, (ast.expr, ast.stmt)):
        yield node
    for each in below:
        if each is not None:
            yield from _read(each)


def _changes(  # noqa: C901, PLR0912  # one case for each kind
    node: ast.expr | ast.stmt,
) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """The pieces of a node that are replaced, in turn, and what they become."""
    match node:
        case ast.Return(value=ast.expr() as value) if not (isinstance(value, ast.Constant) and not value.value):
            yield node, "return None"
        case ast.Expr() | ast.Delete() | ast.Raise() | ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield node, "pass"
        case ast.AugAssign():
            yield node, "pass"
            if type(node.op) in OPERATORS:
                yield node, ast.unparse(ast.AugAssign(node.target, OPERATORS[type(node.op)](), node.value))
        case ast.Continue():
            yield node, "break"
        case ast.Break():
            yield node, "continue"
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) if not isinstance(
            test, (ast.Constant, ast.Compare, ast.UnaryOp)
        ):
            yield test, f"(not ({ast.unparse(test)}))"
        case ast.Compare(ops=[operator]):
            yield node, f"({ast.unparse(ast.Compare(node.left, [COMPARISONS[type(operator)]()], node.comparators))})"
        case ast.BoolOp():
            other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield node, f"({ast.unparse(ast.BoolOp(other, node.values))})"
        case ast.UnaryOp(op=ast.Not()):
            yield node, f"({ast.unparse(node.operand)})"
        case ast.BinOp() if type(node.op) in OPERATORS and not (_is_text(node.left) or _is_text(node.right)):
            yield node, f"({ast.unparse(ast.BinOp(node.left, OPERATORS[type(node.op)](), node.right))})"
        case ast.Constant(bool() as value):
            yield node, f"{not value}"
        case ast.Constant(int() | float() as value):
            yield node, f"{value + 1!r}"
        case ast.Constant(str() as value) if value and not PROSE.search(value):
            yield node, f"{value + 'XX'!r}"
        case ast.Constant(bytes() as value) if value:
            yield node, f"{value + b'XX'!r}"
        case _:
            pass


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)))


def _tells(node: ast.expr) -> bool:
    """Whether a call only tells people something, in the log or in an error."""
    if isinstance(node, ast.Await):
        node = node.value
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return name in TELLING or name.endswith(ERRORS)


def modules_named(names: Sequence[str]) -> list[str]:
    """The modules of packages (`client`) and the modules (`session/receipts.py`) of these names; no name: all."""
    package = ROOT / PACKAGE
    every = sorted(path.relative_to(package).as_posix() for path in package.rglob("*.py") if path.stem != "__init__")
    found = [each for each in every if not names or each in names or each.startswith(tuple(f"{n}/" for n in names))]
    if not found:
        raise SystemExit(f"mutants: {PACKAGE} has no package or module {', '.join(names)}")
    return found


# --- the tests that run a line ---------------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Measure one test, with its fixtures, under its own name: this file is a plugin of pytest, too."""
    measuring = coverage.Coverage.current()
    if measuring is None:
        return (yield)
    # A function whose results are kept would run in the first test alone.
    for module in [module for name, module in sys.modules.items() if name.partition(".")[0] == PACKAGE]:
        for each in list(vars(module).values()):
            if hasattr(each, "cache_clear"):
                each.cache_clear()
    test = item.nodeid.partition("[")[0]
    measuring.switch_context(test)
    # For the programs that it starts.
    os.environ[TEST] = test
    try:
        return (yield)
    finally:
        del os.environ[TEST]
        measuring.switch_context("")


class Recording:
    """Which tests run which lines.

    Args:
        tree: The copy of the project in which they ran.
        recorded: The file of coverage.py.
    """

    def __init__(self, tree: Path, recorded: Path) -> None:
        data = coverage.CoverageData(str(recorded))
        data.read()
        self._lines = {
            Path(file).relative_to(tree / PACKAGE).as_posix(): data.contexts_by_lineno(file)
            for file in data.measured_files()
        }
        self._breadth = Counter(
            test for by_line in self._lines.values() for tests in by_line.values() for test in tests
        )

    def of(self, mutant: Mutant, suites: Sequence[str]) -> list[str]:
        """The tests that may notice a mutant, those that run least first."""
        by_line = self._lines.get(mutant.module, {})
        # A statement of many lines is known by some of them only, mostly the first.
        known = max((line for line in by_line if line <= mutant.line), default=0)
        found = set(by_line.get(known, ()))
        # What ran outside of tests ran at import. A module that a test imports first was noted under its name.
        if mutant.at_import or "" in found:
            found = {test for tests in by_line.values() for test in tests}
        if found <= {""}:
            found = set(self._breadth)
        if mutant.at_import:
            # They look at all commands, which were imported when these tests were collected.
            found |= {test for test in self._breadth if test.startswith(OF_ALL_COMMANDS)}
        places = tuple(f"{each}{separator}" for each in suites for separator in ("/", "::"))
        return sorted((test for test in found if test.startswith(places)), key=lambda test: self._breadth[test])


def record(tree: Path, suites: Sequence[str], jobs: int) -> Recording:
    """Run the tests once, unchanged. What was noted for the same source and tests is used again."""
    # coverage.py notes paths.
    digest = hashlib.sha256(f"{tree} {' '.join(suites)}".encode())
    for path in sorted(path for name in (PACKAGE, "tests") for path in (tree / name).rglob("*.py")):
        digest.update(path.read_bytes())
    recorded = BUILD / f"coverage-{digest.hexdigest()[:16]}"
    if not recorded.exists():
        for old in BUILD.glob("coverage-*"):
            old.unlink()
        print("recording which tests run which lines ...", flush=True)
        parts = tree / "coverage"
        parts.mkdir()
        variables = {
            "COVERAGE_PROCESS_START": str(tree / "pyproject.toml"),
            "COVERAGE_FILE": str(parts / recorded.name),
        }
        python = (sys.executable, "-m")
        done = subprocess.run(
            [*LIMITED, *python, "pytest", *FAST, "-n", str(jobs), "-p", "scripts.mutants", *suites],
            cwd=tree,
            env=_environment(tree) | variables,
            check=False,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise SystemExit(f"mutants: the tests do not pass as they are:\n{done.stdout[-4000:]}{done.stderr[-2000:]}")
        combine = [*python, "coverage", "combine", "--quiet", "--data-file", str(recorded), str(parts)]
        subprocess.run(combine, cwd=tree, check=True)
    return Recording(tree, recorded)


def _environment(tree: Path) -> dict[str, str]:
    """Have the copy tested, not the project that is installed."""
    return {**os.environ, "PYTHONPATH": str(tree), "PYTEST_ADDOPTS": ""}


# --- trying them -----------------------------------------------------------------------------------------------------


def copied(number: int) -> Path:
    """Copy the project, so that one module at a time can be changed."""
    tree = BUILD / f"tree-{number}"
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("_build", "__pycache__"))
        else:
            shutil.copy2(ROOT / name, tree / name)
    return tree


def is_killed(mutant: Mutant, tree: Path, tests: Sequence[str]) -> bool:
    """Whether one of the tests notices a mutant."""
    if not tests:
        return False
    path = tree / PACKAGE / mutant.module
    source = path.read_text(encoding="utf-8")
    path.write_text(mutant.apply(source), encoding="utf-8")
    chosen = tree / "chosen.txt"
    chosen.write_text("".join(f"{test}\n" for test in tests), encoding="utf-8")
    arguments = ["-x", "--no-summary", "-o", f"faulthandler_timeout={TEST_SECONDS}", f"@{chosen}"]
    try:
        _forget_compiled(path)
        process = subprocess.Popen(
            [*LIMITED, sys.executable, "-m", "pytest", *FAST, "--basetemp", str(tree / "tmp"), *arguments],
            cwd=tree,
            env=_environment(tree),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            return process.wait(MUTANT_SECONDS) != 0
        except subprocess.TimeoutExpired:
            # Unless the machine is too busy: then a smaller --jobs tells.
            print(f"stopped after {MUTANT_SECONDS} s, and counted as killed: {mutant}", flush=True)
            return True
        finally:
            # With whatever the tests have started.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    finally:
        path.write_text(source, encoding="utf-8")
        _forget_compiled(path)


def _forget_compiled(path: Path) -> None:
    """Python knows a compiled module by its time in whole seconds and its size, which mutants may share."""
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
        compiled.unlink()


def suites_of(mutant: Mutant) -> tuple[str, ...]:
    """The folders and files with the tests of a module."""
    return OWN.get(mutant.module.partition("/")[0], CORE)


def try_all(chosen: Sequence[Mutant], jobs: int, deadline: float) -> dict[Mutant, bool]:
    """Whether each mutant is killed, as far as there is time."""
    trees: SimpleQueue[Path] = SimpleQueue()
    for number in range(jobs):
        trees.put(copied(number))
    verdicts: dict[Mutant, bool] = {}
    first = trees.get()
    tests = record(first, list(dict.fromkeys(suite for mutant in chosen for suite in suites_of(mutant))), jobs)
    trees.put(first)

    def attempt(mutant: Mutant) -> None:
        if time.monotonic() > deadline:
            return
        tree = trees.get()
        try:
            verdicts[mutant] = is_killed(mutant, tree, tests.of(mutant, suites_of(mutant)))
        finally:
            trees.put(tree)
        if not verdicts[mutant]:
            print(f"survived: {mutant}", flush=True)

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(attempt, chosen))
    return verdicts


def main() -> int:
    """Run the command; returns its exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="which sample; default: %(default)s")
    parser.add_argument("--count", type=int, default=200, help="how many mutants; default: %(default)s")
    parser.add_argument(
        "--minutes", type=float, default=30, help="try no further ones after this; default: %(default)s"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many at a time; default: cores")
    parser.add_argument("--goal", type=float, default=95, help="percent that have to be killed; default: %(default)s")
    parser.add_argument("--modules", nargs="*", default=[], help="packages or modules; default: all")
    parser.add_argument("--list", action="store_true", help="only count the mutants of each module")
    given = parser.parse_args()
    every = [mutant for module in modules_named(given.modules) for mutant in mutants_of(module)]
    if given.list:
        for module, count in Counter(each.module for each in every).items():
            print(f"{count:6} {module}")
        print(f"{len(every):6} in all")
        return 0
    chosen = random.Random(given.seed).sample(every, min(given.count, len(every)))  # noqa: S311  # no secret
    print(f"{len(chosen)} of {len(every)} mutants, seed {given.seed}", flush=True)
    try:
        verdicts = try_all(chosen, given.jobs, time.monotonic() + 60 * given.minutes)
    finally:
        for tree in BUILD.glob("tree-*"):
            shutil.rmtree(tree, ignore_errors=True)
    if len(verdicts) < len(chosen):
        print(f"out of time: {len(chosen) - len(verdicts)} were not tried")
    score = 100 * sum(verdicts.values()) / max(1, len(verdicts))
    print(f"{score:.1f} % of {len(verdicts)} mutants killed (goal {given.goal:g} %)")
    return int(score < given.goal)


if __name__ == "__main__":
    sys.exit(main())
