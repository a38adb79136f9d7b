"""A pytest plugin that notes which test runs which lines, and how long each test takes.

`coverage run` measures; the plugin tells it, before each test, under which name. At the end it writes what a mutant
needs: for each line the tests that run it, and whether it ran outside of tests too.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Generator
from pathlib import Path

import coverage
import pytest

from mutants_lib.sample import PACKAGE

_seconds: dict[str, float] = {}
_failed: set[str] = set()


def _measuring() -> coverage.Coverage:
    measuring = coverage.Coverage.current()
    if measuring is None:
        raise pytest.UsageError("this plugin works under `coverage run` alone")
    return measuring


def _forget_cached() -> None:
    """Have each test run the functions that only run where their result is not yet known."""
    modules = [module for name, module in sys.modules.items() if name.split(".")[0] == PACKAGE]
    for each in {id(each): each for module in modules for each in vars(module).values()}.values():
        if hasattr(each, "cache_clear"):
            each.cache_clear()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Measure one test, with its fixtures, under its own name."""
    _forget_cached()
    measuring = _measuring()
    measuring.switch_context(item.nodeid)
    began = time.perf_counter()
    try:
        return (yield)
    finally:
        _seconds[item.nodeid] = time.perf_counter() - began
        measuring.switch_context("")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note what fails."""
    if report.failed:
        _failed.add(report.nodeid)


def pytest_sessionfinish(exitstatus: int) -> None:
    """Write the map: file -> line -> tests."""
    if exitstatus not in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED}:
        # A run that was stopped has not met all tests: mutants of the others would survive.
        return
    measuring = _measuring()
    measuring.stop()
    data = measuring.get_data()
    # One that fails as things are says nothing about a mutant.
    tests = [test for test in _seconds if test not in _failed]
    numbers = {test: number for number, test in enumerate(tests)}
    contexts = {file: data.contexts_by_lineno(file) for file in data.measured_files()}
    lines = {
        file: {str(line): sorted(numbers[test] for test in found if test in numbers) for line, found in by_line.items()}
        for file, by_line in contexts.items()
    }
    outside = {file: [line for line, found in by_line.items() if "" in found] for file, by_line in contexts.items()}
    text = json.dumps(
        {
            "tests": tests,
            "seconds": [_seconds[test] for test in tests],
            "lines": lines,
            "outside": outside,
            "failed": sorted(_failed),
        }
    )
    Path(os.environ["TRIO_STOMP_MUTANTS_MAP"]).write_text(text, encoding="utf-8")
