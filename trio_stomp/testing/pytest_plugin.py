"""Fixtures for pytest: an embedded STOMP broker for each test that requests one.

pytest loads them as soon as this package is installed. If the autoloading of plugins is disabled, enable them in the
``conftest.py`` at the root of the tests::

    pytest_plugins = ["trio_stomp.testing.pytest_plugin"]

``stomp_broker`` is for async tests, on trio or asyncio, by pytest-trio, anyio's plugin or pytest-asyncio: the broker
runs in the event loop of the test, which can inspect it and inject faults. ``stomp_broker_url`` is for all other tests:
the broker runs in its own thread, and ``stomp_broker_thread`` gives access to it. All use the settings of
``stomp_broker_options``, which you can override in a test module or class.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Generator, Sequence
from typing import Final

import pytest

from trio_stomp.testing.broker import Broker, open_broker
from trio_stomp.testing.broker_options import BrokerOptions
from trio_stomp.testing.broker_thread import ThreadedBroker, run_broker_in_thread

__all__ = ["stomp_broker", "stomp_broker_options", "stomp_broker_thread", "stomp_broker_url"]

# Their names, when pytest loads them by itself, and when it is asked to.
_PYTEST_ASYNCIO: Final = ("asyncio", "pytest_asyncio.plugin")
_PYTEST_TRIO: Final = ("trio", "pytest_trio.plugin")
_ON_ASYNCIO: Final = "trio_stomp.testing.pytest_asyncio_fixtures"


def pytest_configure(config: pytest.Config) -> None:
    """Add the fixture that only pytest-asyncio can make, where it is used."""
    if any(map(config.pluginmanager.has_plugin, _PYTEST_ASYNCIO)):
        config.pluginmanager.import_plugin(_ON_ASYNCIO)


@pytest.fixture
def stomp_broker_options() -> BrokerOptions:
    """The settings of the broker. Override this fixture to change them."""
    return BrokerOptions()


@pytest.fixture
async def _stomp_broker(stomp_broker_options: BrokerOptions) -> AsyncGenerator[Broker]:
    """`stomp_broker`, by a plugin that runs the async fixtures of each test that it runs."""
    async with open_broker(options=stomp_broker_options) as broker:
        yield broker


@pytest.fixture
def stomp_broker(
    request: pytest.FixtureRequest,
    stomp_broker_options: BrokerOptions,  # noqa: ARG001  # so that pytest lets tests parametrize them
) -> Broker:
    """An embedded broker on a free port of 127.0.0.1, in the event loop of the test."""
    marks = {mark.name for mark in request.node.iter_markers()}
    plugins = request.config.pluginmanager
    on_asyncio = plugins.get_plugin(_ON_ASYNCIO)
    claims = {
        # The marks are set by the modes of these plugins too.
        "pytest-trio": "trio" in marks and any(map(plugins.has_plugin, _PYTEST_TRIO)),
        "pytest-asyncio": "asyncio" in marks and on_asyncio is not None,
        "anyio's plugin": "anyio_backend" in request.fixturenames,
    }
    claimants = [name for name, claimed in claims.items() if claimed]
    if len(claimants) != 1:
        pytest.fail(_advice(request.node, claimants), pytrace=False)
    name = "_stomp_broker"
    if on_asyncio is not None and claims["pytest-asyncio"]:
        name = on_asyncio.fixture_for(request.node, request.config)
    # With pytest-trio, this is its promise of one, which the test or fixture gets as the broker.
    broker: Broker = request.getfixturevalue(name)
    return broker


def _advice(node: pytest.Item, claimants: Sequence[str]) -> str:
    """What to do with a test that no plugin runs in an event loop, or that several do."""
    if claimants:
        return (
            f"{node.name} belongs to {' and to '.join(claimants)}, each with an event loop of its own: leave "
            "trio_mode, asyncio_mode and anyio_mode unset, and mark each test with pytest.mark.trio, asyncio or anyio"
        )
    if inspect.iscoroutinefunction(getattr(node, "function", None)):
        return (
            f"{node.name} is async, but no plugin runs it: install pytest-asyncio or pytest-trio, and mark it with "
            "pytest.mark.asyncio, trio or anyio, or set asyncio_mode = auto or trio_mode = true"
        )
    return (
        "the fixture stomp_broker requires an async test that pytest-trio, anyio's plugin or pytest-asyncio runs; "
        "in synchronous tests, use stomp_broker_thread or stomp_broker_url"
    )


@pytest.fixture
def stomp_broker_thread(stomp_broker_options: BrokerOptions) -> Generator[ThreadedBroker]:
    """An embedded broker on a free port of 127.0.0.1, in its own thread."""
    with run_broker_in_thread(options=stomp_broker_options) as broker:
        yield broker


@pytest.fixture
def stomp_broker_url(stomp_broker_thread: ThreadedBroker) -> str:
    """The URL of an embedded broker that runs in its own thread."""
    return stomp_broker_thread.url
