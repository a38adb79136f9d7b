"""The FastAPI service: orders are confirmed, handled in the background, and not lost at a shutdown."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from tests.examples.started import DEADLINE, command_of
from tests.examples.web_service import Service
from tests.kit.needed import needs
from trio_stomp.testing import Broker, ThreadedBroker, run_broker_in_thread

needs("fastapi", "uvicorn")

pytestmark = pytest.mark.slow

ADDRESS = re.compile(r"listening at http://127\.0\.0\.1:(\d+), stop with Ctrl-C\n")
HANDLED = re.compile(r"handled (\d+) orders\n")
QUEUE = "/queue/orders"


class Shop(Service):
    """The service in a process of its own."""

    def stop(self, told: signal.Signals = signal.SIGTERM) -> int:
        """Stop it in good order, and return how many orders it has handled."""
        self.process.send_signal(told)
        output, errors = self.process.communicate(timeout=DEADLINE)
        # Uvicorn shuts down, and then ends by the signal that it got.
        assert self.process.returncode in {0, -signal.SIGTERM}, errors
        assert "Traceback" not in errors
        found = HANDLED.fullmatch(output)
        assert found is not None
        return int(found[1])


@contextmanager
def service(*arguments: str) -> Generator[Shop]:
    with subprocess.Popen(
        command_of("fastapi_orders.py", "--port", "0", *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            found = ADDRESS.fullmatch(process.stdout.readline())
            assert found is not None
            yield Shop(process, int(found[1]))
        finally:
            process.kill()


@pytest.fixture
def broker() -> Generator[ThreadedBroker]:
    with run_broker_in_thread() as running:
        yield running


@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGINT])
def test_service_when_started_by_one_command_then_an_order_is_handled_and_it_ends_in_order(
    told: signal.Signals,
) -> None:
    with service() as shop:
        shop.wait_for("/ready", lambda answer: answer[0] == 200)
        assert shop.ask("POST", "/orders", {"item": "tea"}) == (202, {"id": "1"})
        shop.wait_for("/orders/1", lambda answer: answer == (200, {"item": "tea", "state": "handled"}))
        assert shop.ask("GET", "/orders/2")[0] == 404
        assert shop.ask("POST", "/orders", {"thing": "tea"})[0] == 422
        shop.stop(told)


def test_service_when_stopped_then_every_confirmed_order_is_handled_or_with_the_broker(broker: ThreadedBroker) -> None:
    with service("--url", broker.url) as shop:
        shop.wait_for("/ready", lambda answer: answer[0] == 200)
        for _ in range(30):
            assert shop.ask("POST", "/orders", {"item": "tea"})[0] == 202
        handled = shop.stop()
        assert handled + broker.call(lambda inner: inner.depth(QUEUE)) == 30
        assert broker.call(Broker.statistics).open_connections == 0


def test_service_when_the_broker_is_away_then_not_ready_and_back_afterward(broker: ThreadedBroker) -> None:
    with service("--url", broker.url) as shop:
        shop.wait_for("/ready", lambda answer: answer[0] == 200)
        broker.call(Broker.stop_listening)
        broker.call(Broker.drop_connections)
        shop.wait_for("/ready", lambda answer: answer[0] == 503)
        broker.call(Broker.start_listening)
        shop.wait_for("/ready", lambda answer: answer[0] == 200)
        assert shop.ask("POST", "/orders", {"item": "tea"})[0] == 202
        shop.stop()
