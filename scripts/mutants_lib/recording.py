"""A pytest plugin that notes which test runs which lines, and how long each test takes.

`coverage run` measures; the plugin tells it, before each test, under which name. At the end it writes what a mutant
needs: for each line the tests that run it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Generator
from pathlib import Path

import coverage
import pytest

_seconds: dict[str, float] = {}
_failed: set[str] = set()


def _measuring() -> coverage.Coverage:
    measuring = coverage.Coverage.current()
    if measuring is None:
        raise pytest.UsageError("this plugin works under `coverage run` alone")
    return measuring


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Measure one test, with its fixtures, under its own name."""
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


def pytest_sessionfinish() -> None:
    """Write the map: file -> line -> tests."""
    measuring = _measuring()
    measuring.stop()
    data = measuring.get_data()
    # One that fails as things are says nothing about a mutant.
    tests = [test for test in _seconds if test not in _failed]
    numbers = {test: number for number, test in enumerate(tests)}
    lines = {
        file: {
            str(line): sorted(numbers[test] for test in contexts if test in numbers)
            for line, contexts in data.contexts_by_lineno(file).items()
        }
        for file in data.measured_files()
    }
    text = json.dumps(
        {"tests": tests, "seconds": [_seconds[test] for test in tests], "lines": lines, "failed": sorted(_failed)}
    )
    Path(os.environ["TRIO_STOMP_MUTANTS_MAP"]).write_text(text, encoding="utf-8")
