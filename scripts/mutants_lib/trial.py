"""Trying one mutant: a copy of the project with this change, and what its tests say."""

from __future__ import annotations

import contextlib
import enum
import hashlib
import json
import multiprocessing
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final, NoReturn, TypedDict

import pytest

from mutants_lib.reach import Coverage
from mutants_lib.sample import PACKAGE, Candidate

__all__ = ["Tree", "Verdict", "record", "suites_of"]

# The tests that a mutant should not get past, by the package of its module: what is built on the client has its own.
_OWN: Final = {package: (f"tests/{package}",) for package in ("cli", "otel", "spark")} | {
    "blocking": ("tests/blocking",),
}
# All other packages. What only the facades use is tested by theirs.
_CORE: Final = (
    *("tests/protocol", "tests/conformance", "tests/client", "tests/testing", "tests/brokers"),
    *("tests/runtime", "tests/blocking/test_client.py", "tests/blocking/test_confirmed_send.py"),
    *("tests/blocking/test_publisher.py", "tests/blocking/test_transaction.py", "tests/blocking/test_handlers.py"),
    "tests/test_errors.py",
)
_FAST: Final = "not slow and not interop and not spark"
_COPIED: Final = (PACKAGE, "tests", "examples", "benchmarks", "scripts", "docs", "pyproject.toml", "README.md")
# A mutant may be this much slower, and a busy machine for this long.
_SLOWER: Final = 3
_GRACE_SECONDS: Final = 20.0
# More than that, and something else is wrong.
_MOST_FAILURES: Final = 5
# A mutant may ask for all the memory that there is.
_MOST_BYTES: Final = 4 * 1024**3
# Importing hypothesis takes longer than the tests of most mutants: so each process is forked from one that has done it.
_WARM: Final = multiprocessing.get_context("forkserver")
_WARM.set_forkserver_preload(["mutants_lib.trial", "hypothesis.stateful", "pytest_trio.plugin", "trio.testing"])


class Recorded(TypedDict):
    """What the plugin of `recording.py` writes."""

    tests: list[str]
    seconds: list[float]
    lines: dict[str, dict[str, list[int]]]
    outside: dict[str, list[int]]
    failed: list[str]


class Verdict(enum.Enum):
    """What came of a mutant."""

    KILLED = "killed"
    TIMED_OUT = "timed out"
    SURVIVED = "survived"
    NOT_RUN = "not run by any test"


def suites_of(module: str) -> tuple[str, ...]:
    """The folders and files with the tests of a module."""
    return _OWN.get(module.partition("/")[0], _CORE)


class Tree:
    """A copy of the project, in which one module at a time is changed.

    Args:
        root: The project.
        folder: Where the copy goes.
    """

    def __init__(self, root: Path, folder: Path) -> None:
        self.folder = folder
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name in _COPIED:
            source = root / name
            if source.is_dir():
                shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("_build", "node_modules"))
            elif source.exists():
                shutil.copy2(source, folder / name)

    def try_out(self, candidate: Candidate, coverage: Coverage, within: Sequence[str]) -> Verdict:
        """Run the tests in some folders and files against a mutant."""
        path = self.folder / PACKAGE / candidate.module
        source = path.read_text(encoding="utf-8")
        tests = coverage.tests_for(candidate, source, within)
        if not tests:
            return Verdict.NOT_RUN
        path.write_text(candidate.mutant.apply(source), encoding="utf-8")
        try:
            for stage in coverage.stages(tests):
                self._forget_compiled(path)
                verdict = self._run_stage(stage, coverage)
                if verdict is not Verdict.SURVIVED:
                    return verdict
            return Verdict.SURVIVED
        finally:
            path.write_text(source, encoding="utf-8")
            self._forget_compiled(path)

    @staticmethod
    def _forget_compiled(path: Path) -> None:
        """Python knows a compiled module by its time in whole seconds and its size, which mutants may share."""
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
            compiled.unlink()

    def _run_stage(self, stage: Sequence[int], coverage: Coverage) -> Verdict:
        seconds = [coverage.seconds[test] for test in stage]
        status = self._run([coverage.tests[test] for test in stage], max(seconds), sum(seconds))
        if status == pytest.ExitCode.USAGE_ERROR:
            # Either the module cannot be imported, or a test has another parameter now and is not found by its name.
            functions = list(dict.fromkeys(coverage.tests[test].partition("[")[0] for test in stage))
            known = set(functions)
            every = zip(coverage.tests, coverage.seconds, strict=True)
            seconds = [taken for test, taken in every if test.partition("[")[0] in known]
            status = self._run(functions, max(seconds), sum(seconds))
        if status is None:
            return Verdict.TIMED_OUT
        return Verdict.KILLED if status else Verdict.SURVIVED

    def _run(self, tests: Sequence[str], longest: float, together: float) -> int | None:
        """Run tests, and stop them if they take much longer than they took without a mutant.

        Args:
            tests: The names of the tests.
            longest: The seconds that the slowest of them took.
            together: The seconds that all of them took.

        Returns:
            The exit status of pytest, or None if the tests were stopped.
        """
        chosen, told = self.folder / "chosen.txt", self.folder / "stderr.txt"
        chosen.write_text("".join(f"{test}\n" for test in tests), encoding="utf-8")
        one, every = (_SLOWER * each + _GRACE_SECONDS for each in (longest, together))
        arguments = [
            *("-x", "-q", "--no-header", "--no-summary", "-p", "no:cacheprovider", "-m", _FAST),
            # What is imported already keeps its plain assertions.
            *("-W", "ignore::pytest.PytestAssertRewriteWarning", "-o", f"faulthandler_timeout={one}"),
            *("--basetemp", str(self.folder / "tmp"), f"@{chosen}"),
        ]
        process = _WARM.Process(target=_run_pytest, args=(self.folder, told, arguments))
        process.start()
        process.join(every)
        if process.exitcode is not None and "Timeout (" not in told.read_text(encoding="utf-8", errors="replace"):
            return process.exitcode
        # With whatever the tests have started.
        if process.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        process.join()
        return None


def _run_pytest(folder: Path, stderr: Path, arguments: Sequence[str]) -> NoReturn:
    """Run tests in the copy of the project; in a process of its own, which ends with pytest's status."""
    os.setsid()
    os.chdir(folder)
    os.environ |= environment(folder)
    sys.path.insert(0, str(folder))
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_BYTES, _MOST_BYTES))
    with Path(os.devnull).open("r+b") as nothing, stderr.open("wb") as told:
        os.dup2(nothing.fileno(), 0)
        os.dup2(nothing.fileno(), 1)
        os.dup2(told.fileno(), 2)
    sys.exit(pytest.main([*arguments]))


def environment(folder: Path) -> dict[str, str]:
    """Have the copy tested, not the project that is installed."""
    return {**os.environ, "PYTHONPATH": str(folder), "PYTEST_ADDOPTS": ""}


def digest(folder: Path, tests: Sequence[str]) -> str:
    """What a recording depends on, in short."""
    found = hashlib.sha256(" ".join(tests).encode())
    for path in sorted(path for name in (PACKAGE, "tests") for path in (folder / name).rglob("*.py")):
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


def record(tree: Tree, folder: Path, tests: Sequence[str], jobs: int) -> Coverage:
    """Run the tests once, unchanged, and note which runs which lines; some files at a time, on several cores.

    What was noted for the same source and tests is used again.

    Raises:
        RuntimeError: More than a few of them fail.
    """
    found = folder / f"coverage-{digest(tree.folder, tests)}.json"
    if found.exists():
        return Coverage.read(found, tree.folder)
    for old in folder.glob("coverage*"):
        old.unlink()
    named = (tree.folder / test for test in tests)
    files = sorted({file for path in named for file in (path.rglob("test_*.py") if path.is_dir() else [path])})
    # Many small parts: which files take long is not known.
    parts = [part for number in range(8 * jobs) if (part := files[number :: 8 * jobs])]
    with ThreadPoolExecutor(jobs) as pool:
        recorded = list(pool.map(partial(_record_part, tree, folder), range(len(parts)), parts))
    if len(failed := [test for part in recorded for test in part["failed"]]) > _MOST_FAILURES:
        raise RuntimeError(f"the tests do not pass as they are: {', '.join(failed)}")
    for test in failed:
        print(f"left out, it fails as things are: {test}", flush=True)
    found.write_text(json.dumps(_joined(recorded)), encoding="utf-8")
    return Coverage.read(found, tree.folder)


def _record_part(tree: Tree, folder: Path, number: int, files: Sequence[Path]) -> Recorded:
    """Run the tests of some files, and note which runs which lines."""
    found = folder / f"coverage-part-{number}.json"
    data = {
        "COVERAGE_FILE": str(folder / f"coverage-{number}.data"),
        "TRIO_STOMP_MUTANTS_MAP": str(found),
        "PYTHONPATH": f"{tree.folder}{os.pathsep}{Path(__file__).resolve().parents[1]}",
    }
    command = [
        *(sys.executable, "-m", "coverage", "run", f"--source={tree.folder / PACKAGE}", "--rcfile=/dev/null"),
        *("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "mutants_lib.recording", "-m", _FAST),
        *("--basetemp", str(tree.folder / f"tmp-{number}"), *(str(each.relative_to(tree.folder)) for each in files)),
    ]
    done = subprocess.run(
        command, cwd=tree.folder, env=environment(tree.folder) | data, check=False, capture_output=True, text=True
    )
    # None is chosen where all tests of the part are slow ones.
    if done.returncode not in {0, 1, pytest.ExitCode.NO_TESTS_COLLECTED} or not found.exists():
        raise RuntimeError(f"the tests do not run as they are:\n{done.stdout[-4000:]}{done.stderr[-2000:]}")
    recorded: Recorded = json.loads(found.read_text(encoding="utf-8"))
    return recorded


def _joined(parts: Sequence[Recorded]) -> Recorded:
    """What several processes noted, as if one had run all tests."""
    every = Recorded(tests=[], seconds=[], lines={}, outside={}, failed=[])
    for part in parts:
        first = len(every["tests"])
        every["tests"] += part["tests"]
        every["seconds"] += part["seconds"]
        for file, by_line in part["lines"].items():
            for line, numbers in by_line.items():
                every["lines"].setdefault(file, {}).setdefault(line, []).extend(first + each for each in numbers)
        for file, lines in part["outside"].items():
            every["outside"][file] = sorted({*every["outside"].get(file, ()), *lines})
    return every
