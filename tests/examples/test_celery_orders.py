"""Celery beside STOMP: a real worker, whose pre-forked processes send."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.examples.started import DEADLINE, command_of
from tests.kit.needed import needs
from trio_stomp.testing import Broker, ThreadedBroker
from trio_stomp.types import Command

needs("celery")

pytestmark = pytest.mark.slow

SENT = re.compile(r"(tea \d) sent by process (\d+)")


def test_tasks_when_a_celery_worker_runs_them_then_each_process_sends_and_disconnects(
    stomp_broker_thread: ThreadedBroker,
) -> None:
    # Celery itself warns, of a worker that root has started, for example.
    command = command_of("celery_orders.py", "--url", stomp_broker_thread.url)
    done = subprocess.run(
        [each for each in command if each not in {"-W", "error"}],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(found[1] for found in SENT.finditer(done.stdout)) == [f"tea {number}" for number in range(5)]
    counts = stomp_broker_thread.call(Broker.statistics)
    # The two processes of the worker and the receiver.
    assert counts.connections == counts.received[Command.DISCONNECT] == 3
    stomp_broker_thread.call(lambda inner: inner.wait_until(lambda: inner.statistics().open_connections == 0))
