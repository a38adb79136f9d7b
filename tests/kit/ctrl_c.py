"""Ctrl-C at a moment that a test chooses. Import the fixture `ctrl_c` in the conftest.py of a folder."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable

import pytest

__all__ = ["CtrlC", "ctrl_c"]

CtrlC = Callable[[threading.Event], None]


@pytest.fixture
def ctrl_c() -> CtrlC:
    """Interrupts the main thread, as the terminal does, once an event is set."""

    def press(moment: threading.Event) -> None:
        main = threading.main_thread().ident
        assert main is not None

        def when_it_comes() -> None:
            assert moment.wait(60)
            signal.pthread_kill(main, signal.SIGINT)

        threading.Thread(target=when_it_comes).start()

    return press
