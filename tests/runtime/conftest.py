"""An embedded broker in a thread of its own, for clients on asyncio."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.kit.ctrl_c import ctrl_c
from trio_stomp.testing import ThreadedBroker, run_broker_in_thread

__all__ = ["broker", "ctrl_c"]


@pytest.fixture
def broker() -> Generator[ThreadedBroker]:
    """A broker that listens on loopback."""
    with run_broker_in_thread() as running:
        yield running
