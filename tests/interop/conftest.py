"""Fixtures of the interop tests: a running broker for each test, in each version."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncGenerator, Generator

import pytest
import trio

from tests.interop.bench import Bench
from tests.interop.brokers import BEHAVIORS, SCRIPT, Broker, running_brokers
from tests.interop.proxy import Proxy, open_proxy

# Deletes the queues of these tests at once; one `rabbitmqctl delete_queue` for each would take a second each.
CLEAN_RABBITMQ = (
    "[rabbit_amqqueue:delete(Q, false, false, <<\"interop\">>) || Q <- rabbit_amqqueue:list(), "
    "{resource, _, _, Name} <- [amqqueue:get_name(Q)], "
    "re:run(Name, <<\"^(dlq-src[.])?it[.]|^it[.]\">>) =/= nomatch], ok."
)

# No scenario needs this long, however loaded the machine is.
DEADLINE = 30.0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = os.path.dirname(__file__)
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.interop)


@pytest.fixture(scope="session")
def brokers() -> Generator[dict[str, Broker]]:
    """The brokers that run; their queues are deleted afterwards where they would stay."""
    running = running_brokers()
    yield running
    if "rabbitmq" in running:
        subprocess.run([SCRIPT, "ctl", "rabbitmq", "eval", CLEAN_RABBITMQ], check=True, capture_output=True)


@pytest.fixture(params=list(BEHAVIORS))
def broker(request: pytest.FixtureRequest, brokers: dict[str, Broker]) -> Broker:
    """Each broker in turn."""
    name = str(request.param)
    if name not in brokers:
        message = f"{name} does not run; start it with: scripts/brokers start {name}"
        if os.environ.get("TRIO_STOMP_REQUIRE_BROKERS") == "1":
            pytest.fail(message)
        pytest.skip(message)
    return brokers[name]


@pytest.fixture(params=["1.0", "1.1", "1.2"])
def bench(request: pytest.FixtureRequest, broker: Broker) -> Bench:
    """Each broker in each version."""
    return Bench(broker=broker, version=str(request.param))


@pytest.fixture
def newest(broker: Broker) -> Bench:
    """Each broker in 1.2, for what depends on no version."""
    return Bench(broker=broker, version="1.2")


@pytest.fixture
async def proxy(broker: Broker) -> AsyncGenerator[Proxy]:
    """A proxy to the plain port of the broker."""
    async with open_proxy(broker.host, broker.ports["stomp"]) as opened:
        yield opened


async def ring() -> None:
    await trio.sleep(DEADLINE)
    raise trio.TooSlowError(f"the scenario did not end within {DEADLINE:g} s")


@pytest.fixture(autouse=True)
async def deadline() -> AsyncGenerator[None]:
    """End a test that hangs: what a fixture's task raises cancels the test."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ring)
        yield
        nursery.cancel_scope.cancel()
