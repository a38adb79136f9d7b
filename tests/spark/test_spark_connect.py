"""Spark Connect, where the program is a client of a server that runs Spark."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.crashes.targets import IS_WHOLE
from tests.spark.conftest import require_java
from tests.spark.connect_client import ROWS
from tests.spark.connect_server import ROOT, ConnectServer, connect_server
from tests.spark.receiving import (
    QUEUE,
    left,
    numbers_in,
    publish,
    statuses_in,
    wait_until_disconnected,
    wait_until_left,
)
from tests.spark.waiting import wait_until
from trio_stomp.spark import ReceiverState
from trio_stomp.spark.spool_store import SpoolStore
from trio_stomp.spark.stream_options import StreamOptions
from trio_stomp.testing import BrokerOptions, ThreadedBroker, run_broker_in_thread

pytestmark = [pytest.mark.slow, pytest.mark.spark]

PATIENCE = 240
# How long the server keeps what a client left that was killed: by default 5 minutes, and it looks every 30 seconds.
PATIENT = {
    "spark.connect.execute.manager.detachedTimeout": "3s",
    "spark.connect.execute.manager.maintenanceInterval": "1s",
}
BLOCK = """
import json, sys
from contextlib import ExitStack
from pyspark.sql import SparkSession
from trio_stomp.spark import receivers

url, options = json.loads(sys.argv[1])
spark = SparkSession.Builder().remote(url).getOrCreate()
stack = ExitStack()
stack.enter_context(receivers(spark, options, count=1))
print("connected", flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[ConnectServer]:
    require_java()
    with connect_server(tmp_path_factory.mktemp("connect"), PATIENT) as running:
        yield running


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def test_connect_when_a_client_uses_the_data_source_in_every_way_then_each_row_is_there_once(
    server: ConnectServer, tmp_path: Path
) -> None:
    password = str(secrets.randbelow(10**20)).zfill(20)
    with run_broker_in_thread(options=BrokerOptions(logins={"guest": password})) as broker:
        options = {
            "brokers": f"127.0.0.1:{broker.port}",
            "login": "guest",
            "password": password,
            "subscribe": "/queue/orders",
            "spoolLocation": str(tmp_path / "spool"),
        }
        done = subprocess.run(
            [sys.executable, "-m", "tests.spark.connect_client"],
            input=json.dumps({"url": server.url, "folder": str(tmp_path), "options": options}),
            env=environment(),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        wait_until_disconnected(broker)

    found = json.loads(done.stdout)
    assert found["rows"] == list(range(ROWS))
    assert found["back"] == list(range(ROWS))
    assert "did you mean 'maxRows'" in found["misspelled"]
    assert "wrong passcode" in found["refused"]
    states = [each.state for each in statuses_in(StreamOptions.read(options).intake.open_spool("stream"))]
    assert states == [ReceiverState.ENDED] * 2
    # Options are shown there, so the password would be too.
    written, shown = server.written(), server.shown()
    assert "subscribe=/queue/orders" in found["explained"]
    assert "/queue/orders" in written
    assert "/queue/orders" in shown
    assert password not in done.stdout + done.stderr + written + shown


@contextmanager
def receiving(server: ConnectServer, options: dict[str, str]) -> Generator[subprocess.Popen[bytes]]:
    """A client within the block of its receivers."""
    command = [sys.executable, "-c", BLOCK, json.dumps([server.url, options])]
    with subprocess.Popen(command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == b"connected\n"
        yield client


@pytest.fixture
def options(connection: dict[str, str], tmp_path: Path) -> dict[str, str]:
    return {**connection, "subscribe": QUEUE, "spoolLocation": str(tmp_path)}


@pytest.fixture
def store(options: dict[str, str]) -> SpoolStore:
    return StreamOptions.read(options).intake.open_spool("stream")


def test_connect_when_the_client_ends_within_the_block_then_its_receivers_stop_gracefully(
    server: ConnectServer, threaded_broker: ThreadedBroker, options: dict[str, str], store: SpoolStore
) -> None:
    publish(threaded_broker, range(10))
    with receiving(server, options) as client:
        wait_until_left(threaded_broker, 0)
        client.communicate(timeout=PATIENCE)

    assert client.returncode == 0
    # The server's executors may need a moment longer than the client.
    wait_until(None, lambda: [each.state for each in statuses_in(store)] == [ReceiverState.ENDED])
    assert numbers_in(store) == list(range(10))
    wait_until_disconnected(threaded_broker)


@pytest.mark.skipif(not IS_WHOLE, reason="waits two minutes for the server: TRIO_STOMP_CRASHES=all runs it")
def test_connect_when_the_client_is_killed_then_the_server_ends_its_receivers_and_nothing_is_lost(
    server: ConnectServer, threaded_broker: ThreadedBroker, options: dict[str, str], store: SpoolStore
) -> None:
    publish(threaded_broker, range(10))
    with receiving(server, options) as client:
        wait_until_left(threaded_broker, 0)
        client.kill()

    wait_until_disconnected(threaded_broker)
    publish(threaded_broker, range(10, 20))
    assert numbers_in(store) == list(range(10))
    assert left(threaded_broker) == 10
