"""An embedded broker in a thread of its own, and a synchronous client of it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator

import pytest

import trio_stomp.blocking
from trio_stomp.blocking import Client
from trio_stomp.testing import ThreadedBroker, run_broker_in_thread


@pytest.fixture
def broker() -> Generator[ThreadedBroker]:
    """A broker that listens on loopback."""
    with run_broker_in_thread() as running:
        yield running


@pytest.fixture
def client(broker: ThreadedBroker) -> Generator[Client]:
    """A connected client of `broker`."""
    with trio_stomp.blocking.connect(broker.url) as connected:
        yield connected


@pytest.fixture
def ctrl_c() -> Callable[[threading.Event], None]:
    """Interrupts the main thread, as the terminal does, once an event is set."""

    def press(moment: threading.Event) -> None:
        main = threading.main_thread().ident
        assert main is not None

        def when_it_comes() -> None:
            assert moment.wait(60)
            signal.pthread_kill(main, signal.SIGINT)

        threading.Thread(target=when_it_comes).start()

    return press
