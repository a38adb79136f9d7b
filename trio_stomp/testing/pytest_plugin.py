"""Fixtures for pytest: an embedded STOMP broker for each test that requests one.

pytest loads them as soon as this package is installed. If the autoloading of plugins is disabled, enable them in the
``conftest.py`` at the root of the tests::

    pytest_plugins = ["trio_stomp.testing.pytest_plugin"]

``stomp_broker`` is for tests that run on Trio, by pytest-trio or by anyio's plugin: the broker runs in the event loop
of the test, which can inspect it and inject faults. ``stomp_broker_url`` is for all other tests, whether synchronous or
on asyncio: the broker runs in its own thread, and ``stomp_broker_thread`` gives access to it. All use the settings of
``stomp_broker_options``, which you can override in a test module or class.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator

import pytest

from trio_stomp.testing.broker import Broker, open_broker
from trio_stomp.testing.broker_options import BrokerOptions
from trio_stomp.testing.broker_thread import ThreadedBroker, run_broker_in_thread

__all__ = ["stomp_broker", "stomp_broker_options", "stomp_broker_thread", "stomp_broker_url"]


@pytest.fixture
def stomp_broker_options() -> BrokerOptions:
    """The settings of the broker. Override this fixture to change them."""
    return BrokerOptions()


@pytest.fixture
def _runs_on_trio(request: pytest.FixtureRequest) -> None:
    """Fail in a test that does not run on Trio. Synchronous, so that it works whatever plugin runs the test."""
    if request.node.get_closest_marker("trio") is not None:  # pytest-trio's mark, which its Trio mode sets too
        return
    if "anyio_backend" in request.fixturenames and request.getfixturevalue("anyio_backend_name") == "trio":
        return
    pytest.fail(
        "the fixture stomp_broker requires a test that runs on Trio, by pytest-trio or anyio's plugin; on asyncio and "
        "in synchronous tests, use stomp_broker_thread or stomp_broker_url",
        pytrace=False,
    )


@pytest.fixture
async def stomp_broker(stomp_broker_options: BrokerOptions, _runs_on_trio: None) -> AsyncGenerator[Broker]:
    """An embedded broker on a free port of 127.0.0.1, in the event loop of a test that runs on Trio."""
    async with open_broker(options=stomp_broker_options) as broker:
        yield broker


@pytest.fixture
def stomp_broker_thread(stomp_broker_options: BrokerOptions) -> Generator[ThreadedBroker]:
    """An embedded broker on a free port of 127.0.0.1, in its own thread."""
    with run_broker_in_thread(options=stomp_broker_options) as broker:
        yield broker


@pytest.fixture
def stomp_broker_url(stomp_broker_thread: ThreadedBroker) -> str:
    """The URL of an embedded broker that runs in its own thread."""
    return stomp_broker_thread.url
