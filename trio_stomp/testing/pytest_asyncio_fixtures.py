"""The fixtures of `pytest_plugin` that only pytest-asyncio can make. Imported only where that is used.

In its strict mode, pytest-asyncio runs no other async fixtures than its own. There is one for each event loop that a
test may run in, and it lasts for the test alone.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Final, Literal

import pytest
import pytest_asyncio

from trio_stomp.testing.broker import Broker, open_broker
from trio_stomp.testing.broker_options import BrokerOptions

__all__ = ["fixture_for"]

_LoopScope = Literal["session", "package", "module", "class", "function"]
_SCOPES: Final[tuple[_LoopScope, ...]] = ("session", "package", "module", "class", "function")


def _fixture_in(scope: _LoopScope) -> object:
    # A function for each: pytest-asyncio notes the loop on it.
    async def stomp_broker(stomp_broker_options: BrokerOptions) -> AsyncGenerator[Broker]:  # noqa: ASYNC900  # see below
        async with open_broker(options=stomp_broker_options) as broker:
            yield broker  # noqa: ASYNC119  # pytest-asyncio closes it

    return pytest_asyncio.fixture(stomp_broker, loop_scope=scope, name=f"_stomp_broker_on_asyncio_{scope}")


# pytest finds fixtures as attributes of this module.
globals().update({f"_stomp_broker_on_asyncio_{scope}": _fixture_in(scope) for scope in _SCOPES})


def fixture_for(node: pytest.Item, config: pytest.Config) -> str:
    """Return the name of the fixture that runs in the event loop of a test with pytest-asyncio's mark."""
    mark = node.get_closest_marker("asyncio")
    given = None if mark is None else mark.kwargs.get("loop_scope", mark.kwargs.get("scope"))
    return f"_stomp_broker_on_asyncio_{given or config.getini('asyncio_default_test_loop_scope') or 'function'}"
