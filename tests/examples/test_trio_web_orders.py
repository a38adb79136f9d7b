"""The Starlette and Quart services on Hypercorn's Trio workers: orders are handled, and not lost at a shutdown."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from tests.examples.started import DEADLINE, ROOT, command_of
from tests.examples.web_service import Service
from tests.kit.needed import needs
from trio_stomp.testing import Broker, ThreadedBroker
from trio_stomp.types import Command

needs("starlette", "quart_trio", "hypercorn")

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("example", ["starlette_orders", "quart_orders"])]

RUNNING = re.compile(r"Running on http://127\.0\.0\.1:(\d+) ")
QUEUE = "/queue/orders"


@contextmanager
def service(command: list[str], url: str = "") -> Generator[Service]:
    environment = {**os.environ, "STOMP_URL": url, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, cwd=ROOT / "examples", env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            said = iter(process.stderr.readline, "")
            port = next(found[1] for line in said if (found := RUNNING.search(line)))
            yield Service(process, int(port))
        finally:
            process.kill()


def stop(shop: Service) -> None:
    shop.process.send_signal(signal.SIGTERM)
    _, errors = shop.process.communicate(timeout=DEADLINE)
    assert shop.process.returncode == 0, errors
    assert "Traceback" not in errors


def hypercorn(example: str) -> list[str]:
    command = ["hypercorn", "--worker-class", "trio", "--bind", "127.0.0.1:0", f"{example}:app"]
    return [sys.executable, "-W", "error", "-m", *command]


def test_service_when_started_by_one_command_then_an_order_is_handled(example: str) -> None:
    with service(command_of(f"{example}.py", "--port", "0")) as shop:
        assert shop.ask("POST", "/orders", "tea") == (202, {"id": "1"})
        shop.wait_for("/orders/1", lambda answer: answer == (200, {"state": "handled"}))
        assert shop.ask("GET", "/orders/2")[0] == 404
        stop(shop)


def test_service_when_hypercorn_stops_it_then_every_order_is_handled_or_with_the_broker(
    example: str, stomp_broker_thread: ThreadedBroker
) -> None:
    broker = stomp_broker_thread
    with service(hypercorn(example), broker.url) as shop:
        for _ in range(30):
            assert shop.ask("POST", "/orders", "tea")[0] == 202
        stop(shop)

    counts = broker.call(Broker.statistics)
    assert counts.received[Command.DISCONNECT] == 1
    assert counts.received[Command.ACK] + broker.call(lambda inner: inner.depth(QUEUE)) == 30
