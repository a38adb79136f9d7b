"""A test that hangs ends the run, also after one that has failed."""

from __future__ import annotations

import faulthandler
from collections.abc import Generator

import pytest

from tests.kit.watchdog import Watchdog


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was done to the timer of faulthandler, in order."""
    done: list[str] = []

    def dump_later(_seconds: float, *, exit: bool = False, file: object = None) -> None:  # noqa: A002  # its own names
        done.append("set")

    monkeypatch.setattr(faulthandler, "dump_traceback_later", dump_later)
    monkeypatch.setattr(faulthandler, "cancel_dump_traceback_later", lambda: done.append("canceled"))
    return done


@pytest.fixture
def plugins(done: list[str]) -> Generator[pytest.PytestPluginManager]:
    """Those of pytest that have to do with the timer, and a watchdog."""
    plugins = pytest.PytestPluginManager()
    plugins.import_plugin("faulthandler")
    watchdog = Watchdog(limit=300, step=60)
    plugins.register(watchdog, "watchdog")
    yield plugins
    watchdog.pytest_unconfigure()
    assert done[-1] == "canceled"


def begin_test(plugins: pytest.PytestPluginManager) -> None:
    watchdog = plugins.get_plugin("watchdog")
    assert isinstance(watchdog, Watchdog)
    watchdog.pytest_runtest_protocol()


def test_timer_when_tests_are_short_then_it_is_not_set_for_each(
    plugins: pytest.PytestPluginManager, done: list[str]
) -> None:
    begin_test(plugins)
    begin_test(plugins)

    assert done == ["set"]


def test_timer_when_a_test_has_failed_then_it_is_set_again(
    plugins: pytest.PytestPluginManager, done: list[str]
) -> None:
    begin_test(plugins)
    plugins.hook.pytest_exception_interact(node=None, call=None, report=None)

    assert done == ["set", "canceled", "set"]


def test_timer_when_a_debugger_was_left_then_it_is_set_again(
    plugins: pytest.PytestPluginManager, done: list[str]
) -> None:
    begin_test(plugins)
    plugins.hook.pytest_enter_pdb(config=None, pdb=None)
    plugins.hook.pytest_leave_pdb(config=None, pdb=None)

    assert done == ["set", "canceled", "set"]


def test_timer_when_a_module_cannot_be_collected_then_it_is_not_set(
    plugins: pytest.PytestPluginManager, done: list[str]
) -> None:
    plugins.hook.pytest_exception_interact(node=None, call=None, report=None)

    assert done == ["canceled"]
