"""Fixtures for pytest: an embedded STOMP broker for each test that asks for one.

pytest finds them by itself where this package is installed: a ``pytest_plugins`` line would load them a second time,
which pytest refuses.

``stomp_broker`` is for tests that pytest-trio runs: the broker runs in the loop of the test, and the test can look
into it and make it fail. ``stomp_broker_url`` is for all others, whether synchronous or on another loop: the broker
runs in a thread of its own, and ``stomp_broker_thread`` is the way into that one. All take their settings from
``stomp_broker_options``, which a test module or a class may override.

Everything of this package is imported when a fixture is first used, so that tools which start with pytest, such as
coverage, see it happen.
"""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncGenerator, Generator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import trio

    from trio_stomp.testing.broker import Broker
    from trio_stomp.testing.broker_options import BrokerOptions
    from trio_stomp.testing.broker_thread import ThreadedBroker

__all__ = ["stomp_broker", "stomp_broker_options", "stomp_broker_thread", "stomp_broker_url"]


@pytest.fixture
def stomp_broker_options() -> BrokerOptions:
    """The settings of the broker that a test gets; override it to change them."""
    from trio_stomp.testing.broker_options import BrokerOptions  # noqa: PLC0415 - see the docstring of this module

    return BrokerOptions()


if importlib.util.find_spec("pytest_trio") is not None:

    @pytest.fixture
    async def stomp_broker(
        stomp_broker_options: BrokerOptions,
        nursery: trio.Nursery,  # noqa: ARG001 - asking for a fixture of pytest-trio makes this one too, in any mode
    ) -> AsyncGenerator[Broker]:
        """An embedded broker on a free port of 127.0.0.1, in the loop of a pytest-trio test."""
        from trio_stomp.testing.broker import open_broker  # noqa: PLC0415 - see the docstring of this module

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
    from trio_stomp.testing.broker_thread import (  # noqa: PLC0415 - see the docstring of this module
        run_broker_in_thread,
    )

    with run_broker_in_thread(options=stomp_broker_options) as broker:
        yield broker


@pytest.fixture
def stomp_broker_url(stomp_broker_thread: ThreadedBroker) -> str:
    """The URL of an embedded broker that runs in a thread of its own."""
    return stomp_broker_thread.url
