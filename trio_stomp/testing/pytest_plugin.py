"""Fixtures for pytest: an embedded STOMP broker for each test that asks for one.

They are there as soon as this package is installed; where plugins are not loaded by themselves, the ``conftest.py`` at
the root of the tests switches them on::

    pytest_plugins = ["trio_stomp.testing.pytest_plugin"]

``stomp_broker`` is for tests that pytest-trio runs: the broker runs in the loop of the test, and the test can look
into it and make it fail. ``stomp_broker_url`` is for all others, whether synchronous or on another loop: the broker
runs in a thread of its own, and ``stomp_broker_thread`` is the way into that one. All take their settings from
``stomp_broker_options``, which a test module or a class may override.
"""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncGenerator, Generator

import pytest
import trio

from trio_stomp.testing.broker import Broker, open_broker
from trio_stomp.testing.broker_options import BrokerOptions
from trio_stomp.testing.broker_thread import ThreadedBroker, run_broker_in_thread

__all__ = ["stomp_broker", "stomp_broker_options", "stomp_broker_thread", "stomp_broker_url"]


@pytest.fixture
def stomp_broker_options() -> BrokerOptions:
    """The settings of the broker that a test gets; override it to change them."""
    return BrokerOptions()


if importlib.util.find_spec("pytest_trio") is not None:

    @pytest.fixture
    async def stomp_broker(
        stomp_broker_options: BrokerOptions,
        # A fixture that asks for one of pytest-trio's is one of pytest-trio's, whether its trio mode is on or off.
        nursery: trio.Nursery,  # noqa: ARG001 - asking for it is all that is needed
    ) -> AsyncGenerator[Broker]:
        """An embedded broker on a free port of 127.0.0.1, in the loop of a pytest-trio test."""
        async with open_broker(options=stomp_broker_options) as broker:
            yield broker

else:

    @pytest.fixture
    def stomp_broker() -> None:
        """An embedded broker in the loop of a pytest-trio test, which is not installed."""
        pytest.fail("the fixture stomp_broker needs pytest-trio; install it, or use stomp_broker_url")


@pytest.fixture
def stomp_broker_thread(stomp_broker_options: BrokerOptions) -> Generator[ThreadedBroker]:
    """An embedded broker on a free port of 127.0.0.1, in a thread of its own."""
    with run_broker_in_thread(options=stomp_broker_options) as broker:
        yield broker


@pytest.fixture
def stomp_broker_url(stomp_broker_thread: ThreadedBroker) -> str:
    """The URL of an embedded broker that runs in a thread of its own."""
    return stomp_broker_thread.url
