"""The brokers that crashes are tried with: the embedded one, and the real ones that run."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest

from tests.crashes.targets import Target
from tests.interop.broker_facts import BROKERS, excused, running_brokers
from tests.spark.conftest import spark
from trio_stomp.testing import BrokerOptions, run_broker_in_thread

__all__ = ["spark", "target"]

EMBEDDED = "embedded"
TARGETS = [EMBEDDED, *(pytest.param(name, marks=pytest.mark.interop) for name in sorted(BROKERS))]


@pytest.fixture(params=TARGETS, scope="module")
def target(request: pytest.FixtureRequest) -> Generator[Target]:
    """Each broker in turn."""
    yield from open_target(request.param, BrokerOptions())


@pytest.fixture(params=TARGETS, scope="module")
def sink_target(request: pytest.FixtureRequest) -> Generator[Target]:
    """Each broker in turn; the embedded one calls itself ActiveMQ Classic, where `auto` is neither other mode."""
    yield from open_target(request.param, BrokerOptions(server="ActiveMQ/6.1.7"))


def open_target(name: str, options: BrokerOptions) -> Generator[Target]:
    if name == EMBEDDED:
        with run_broker_in_thread(options=options) as broker:
            yield Target(name=name, address=f"127.0.0.1:{broker.port}", drops_duplicates=False)
        return
    running = running_brokers()
    if name not in running:
        if excuse := excused(name):
            pytest.skip(excuse)
        reason = f"{name} does not run; start it with: scripts/brokers start {name}"
        if os.environ.get("TRIO_STOMP_REQUIRE_BROKERS"):
            pytest.fail(reason)
        pytest.skip(reason)
    port = running[name].ports["stomp"]
    yield Target(name=name, address=f"127.0.0.1:{port}", drops_duplicates=name == "artemis")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/crashes" in item.nodeid:
            item.add_marker(pytest.mark.slow)
