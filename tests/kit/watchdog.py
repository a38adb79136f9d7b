"""A plugin of pytest that ends a run that hangs, and shows where."""

from __future__ import annotations

import faulthandler
import os
import time
from collections.abc import Generator

import pytest

__all__ = ["Watchdog"]


class Watchdog:
    """Ends the process when a test takes longer than `limit` seconds, or up to `step` seconds more.

    pytest's own ``faulthandler_timeout`` starts a thread for each test, and waits for its end. Where all cores are
    busy, that takes longer than most tests. This one starts a thread when the last one is older than `step` seconds.
    """

    def __init__(self, *, limit: float, step: float) -> None:
        self._limit = limit
        self._step = step
        # Before pytest captures what is written to it.
        self._errors = os.fdopen(os.dup(2), "w")
        self._set_at: float | None = None

    def _set(self) -> None:
        self._set_at = time.monotonic()
        faulthandler.dump_traceback_later(self._limit + self._step, exit=True, file=self._errors)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self) -> None:
        if self._set_at is None or time.monotonic() - self._set_at >= self._step:
            self._set()

    @pytest.hookimpl(wrapper=True)
    def pytest_exception_interact(self) -> Generator[None, object, object]:
        # pytest switches it off when a test has failed, and when a debugger begins: the next test may hang, too.
        try:
            return (yield)
        finally:
            if self._set_at is not None:
                self._set()

    def pytest_leave_pdb(self) -> None:
        self._set()

    def pytest_unconfigure(self) -> None:
        faulthandler.cancel_dump_traceback_later()
        self._errors.close()
