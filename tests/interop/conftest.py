"""The real brokers, started by ``scripts/brokers start``. One that is missing is skipped, and in CI a failure."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable

import pytest

from tests.interop.broker_facts import BROKERS, Broker, running_brokers


@pytest.fixture(scope="session")
def brokers() -> dict[str, Broker]:
    return running_brokers()


@pytest.fixture(params=sorted(BROKERS))
def broker(request: pytest.FixtureRequest, brokers: dict[str, Broker]) -> Broker:
    """Each broker in turn."""
    name: str = request.param
    if name not in brokers:
        reason = f"{name} does not run; start it with: scripts/brokers start {name}"
        if os.environ.get("TRIO_STOMP_REQUIRE_BROKERS"):
            pytest.fail(reason)
        pytest.skip(reason)
    return brokers[name]


@pytest.fixture
def destination() -> Callable[[str], str]:
    """Names of this test alone, so that nothing of an earlier run is in the way."""
    unique = uuid.uuid4().hex[:12]
    return lambda name: f"/queue/interop.{unique}.{name}"


@pytest.fixture(params=["1.0", "1.1", "1.2"])
def version(request: pytest.FixtureRequest) -> str:
    """Each version of STOMP in turn."""
    found: str = request.param
    return found


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/interop" in item.nodeid:
            item.add_marker(pytest.mark.interop)
