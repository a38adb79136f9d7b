"""An embedded broker in a thread of its own, and a synchronous client of it."""

from __future__ import annotations

from collections.abc import Generator

import pytest

import trio_stomp.blocking
from tests.kit.ctrl_c import ctrl_c
from trio_stomp.blocking import Client
from trio_stomp.testing import ThreadedBroker, run_broker_in_thread

__all__ = ["broker", "client", "ctrl_c"]


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
