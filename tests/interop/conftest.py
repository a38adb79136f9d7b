"""The real brokers, started by ``scripts/brokers start``. One that is missing is skipped, and in CI a failure."""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import AsyncGenerator, Callable, Generator

import pytest

from tests.interop.bench import Bench
from tests.interop.broker_facts import BROKERS, SCRIPT, Broker, running_brokers
from tests.interop.proxy import Proxy, open_proxy

# RabbitMQ keeps queues until they are deleted; `rabbitmqctl delete_queue` would take a second for each.
CLEAN_RABBITMQ = """
[rabbit_amqqueue:delete(Queue, false, false, <<"interop">>) || Queue <- rabbit_amqqueue:list(),
 {resource, _, _, Name} <- [amqqueue:get_name(Queue)],
 re:run(Name, <<"^(stomp-subscription-.*|(dlq-src[.]|reply[.])?interop[.].*|"
                "(fan-out|dead-letters)-[0-9a-f]{8}.*)$">>) =/= nomatch], ok.
"""


@pytest.fixture(scope="session")
def brokers() -> Generator[dict[str, Broker]]:
    running = running_brokers()
    yield running
    if "rabbitmq" in running:
        subprocess.run([SCRIPT, "ctl", "rabbitmq", "eval", CLEAN_RABBITMQ], check=True, capture_output=True)


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


@pytest.fixture
def bench(broker: Broker, version: str) -> Bench:
    """Each broker in each version."""
    return Bench(broker=broker, version=version)


@pytest.fixture
def newest(broker: Broker) -> Bench:
    """Each broker in 1.2, for what depends on no version."""
    return Bench(broker=broker, version="1.2")


@pytest.fixture
async def proxy(broker: Broker) -> AsyncGenerator[Proxy]:
    """A proxy to the plain port of the broker."""
    async with open_proxy("127.0.0.1", broker.ports["stomp"]) as opened:
        yield opened


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/interop" in item.nodeid:
            item.add_marker(pytest.mark.interop)
        if isinstance(item, pytest.Function) and _cuts_artemis(item):
            # Artemis itself may hold a message back then (docs/brokers.md, "What may cost you messages"), once in some
            # hundred cuts. The queue of another try has another name, and what is our fault fails each time.
            item.add_marker(pytest.mark.flaky(reruns=2))


def _cuts_artemis(item: pytest.Function) -> bool:
    callspec = getattr(item, "callspec", None)
    return callspec is not None and callspec.params.get("broker") == "artemis" and "proxy" in item.fixturenames
