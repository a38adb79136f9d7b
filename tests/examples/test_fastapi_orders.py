"""The FastAPI service: orders are confirmed, handled in the background, and not lost at a shutdown."""

from __future__ import annotations

import re
import signal
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from tests.examples.started import DEADLINE, command_of
from tests.examples.web_service import Service, serving
from tests.kit.needed import needs
from trio_stomp.testing import Broker, ThreadedBroker

needs("fastapi", "uvicorn")

pytestmark = pytest.mark.slow

ADDRESS = re.compile(r"listening at http://127\.0\.0\.1:(\d+), stop with Ctrl-C\n")
HANDLED = re.compile(r"handled (\d+) orders\n")
QUEUE = "/queue/orders"


@contextmanager
def service(*arguments: str) -> Generator[Service]:
    with serving(command_of("fastapi_orders.py", "--port", "0", *arguments), ADDRESS) as shop:
        shop.wait_for("/ready", lambda answer: answer[0] == 200)
        yield shop


def stop(shop: Service, told: signal.Signals = signal.SIGTERM) -> int:
    """Stop it in good order, and return how many orders it has handled."""
    shop.process.send_signal(told)
    output, errors = shop.process.communicate(timeout=DEADLINE)
    # Uvicorn shuts down, and then ends by the signal that it got.
    assert shop.process.returncode in {0, -signal.SIGTERM}, errors
    assert "Traceback" not in errors
    found = HANDLED.fullmatch(output)
    assert found is not None
    return int(found[1])


@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGINT])
def test_service_when_started_by_one_command_then_an_order_is_handled_and_it_ends_in_order(
    told: signal.Signals,
) -> None:
    with service() as shop:
        assert shop.ask("POST", "/orders", {"item": "tea"}) == (202, {"id": "1"})
        shop.wait_for("/orders/1", lambda answer: answer == (200, {"item": "tea", "state": "handled"}))
        assert shop.ask("GET", "/orders/2")[0] == 404
        assert shop.ask("POST", "/orders", {"thing": "tea"})[0] == 422
        stop(shop, told)


def test_service_when_stopped_then_every_confirmed_order_is_handled_or_with_the_broker(
    stomp_broker_thread: ThreadedBroker,
) -> None:
    broker = stomp_broker_thread
    with service("--url", broker.url) as shop:
        for _ in range(30):
            assert shop.ask("POST", "/orders", {"item": "tea"})[0] == 202
        handled = stop(shop)
        assert handled + broker.call(lambda inner: inner.depth(QUEUE)) == 30
        broker.call(lambda inner: inner.wait_until(lambda: inner.statistics().open_connections == 0))


def test_service_when_the_broker_is_away_then_not_ready_and_back_afterward(
    stomp_broker_thread: ThreadedBroker,
) -> None:
    broker = stomp_broker_thread
    with service("--url", broker.url) as shop:
        broker.call(Broker.stop_listening)
        broker.call(Broker.drop_connections)
        shop.wait_for("/ready", lambda answer: answer[0] == 503)
        broker.call(Broker.start_listening)
        shop.wait_for("/ready", lambda answer: answer[0] == 200)
        assert shop.ask("POST", "/orders", {"item": "tea"})[0] == 202
        stop(shop)
