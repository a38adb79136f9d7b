"""The Django project: a view that sends, a management command that handles, and the tests of the project itself."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.examples.started import DEADLINE, ROOT
from tests.examples.web_service import Service
from tests.kit.needed import needs
from trio_stomp.testing import Broker, ThreadedBroker
from trio_stomp.types import Command

needs("django")

pytestmark = pytest.mark.slow

PROJECT = ROOT / "examples" / "django_orders"
MANAGE = str(PROJECT / "manage.py")
QUEUE = "/queue/orders"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@contextmanager
def started(*command: str, **variables: str) -> Generator[subprocess.Popen[str]]:
    """A program that says what it does on one stream."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", **variables}
    with subprocess.Popen(
        [sys.executable, *command],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        process_group=0,
    ) as process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def wait_for_line(process: subprocess.Popen[str], text: str) -> None:
    assert process.stdout is not None
    said: list[str] = []
    for line in process.stdout:
        said.append(line)
        if text in line:
            return
    raise AssertionError("".join(said))


def stop(process: subprocess.Popen[str], number: signal.Signals) -> str:
    if number is signal.SIGINT:
        os.killpg(process.pid, number)  # as Ctrl-C in a terminal does
    else:
        process.send_signal(number)
    output, _ = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0, output
    assert "Traceback" not in output
    return output


def order(shop: Service, item: str) -> None:
    status, found = shop.ask("POST", "/orders", form=f"item={item}")
    assert status == 202
    number = found["id"]
    shop.wait_for(f"/orders/{number}", lambda answer: answer == (200, {"item": item, "handled": True}))


def test_project_when_started_by_one_command_then_an_order_is_handled() -> None:
    port = free_port()
    with started("-W", "error", str(PROJECT), "--port", str(port)) as process:
        wait_for_line(process, "Starting development server")
        order(Service(process, port), "tea")
        stop(process, signal.SIGTERM)


def test_worker_and_server_when_stopped_then_every_order_is_handled_or_with_the_broker(
    stomp_broker_thread: ThreadedBroker, tmp_path: Path
) -> None:
    broker, port = stomp_broker_thread, free_port()
    variables = {"STOMP_URL": broker.url, "DATABASE": str(tmp_path / "orders.sqlite3")}
    subprocess.run(
        [sys.executable, MANAGE, "migrate", "--run-syncdb", "--verbosity", "0"],
        env={**os.environ, **variables},
        check=True,
        timeout=DEADLINE,
    )
    # The server reloads itself, as it does by default; then it warns of its own process that it leaves running.
    with started(MANAGE, "runserver", str(port), **variables) as server:
        wait_for_line(server, "Starting development server")
        shop = Service(server, port)
        with started("-W", "error", MANAGE, "stomp_worker", **variables) as worker:
            wait_for_line(worker, "waiting for orders")
            for number in range(10):
                order(shop, f"tea-{number}")
            assert "stopped" in stop(worker, signal.SIGTERM)

        assert shop.ask("POST", "/orders", form="item=coffee")[0] == 202
        assert broker.call(lambda inner: inner.depth(QUEUE)) == 1
        stop(server, signal.SIGINT)

    counts = broker.call(Broker.statistics)
    assert counts.received[Command.ACK] == 10
    assert counts.connections == counts.received[Command.DISCONNECT] == 2


def test_tests_of_the_project_when_run_by_manage_then_they_pass() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", MANAGE, "test", "shop"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE,
    )

    assert done.returncode == 0, done.stderr
    assert "Ran 1 test" in done.stderr
