"""Celery and STOMP: tasks send messages, with one client in each worker process.

    python examples/celery_orders.py                                         an embedded broker
    python examples/celery_orders.py --url stomp://guest:guest@localhost     your own broker

Starts a Celery worker with two processes, queues five tasks, and receives what they send. Celery's own queue is a
folder here. Requires celery; `make example NAME=celery_orders` installs it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from celery import Celery
from celery.signals import worker_process_shutdown

import trio_stomp
import trio_stomp.blocking
from trio_stomp.testing import run_broker_in_thread

QUEUE = "/queue/orders"
TASKS = 5

# Your project has its own settings here.
app = Celery("celery_orders", broker="filesystem://")
app.conf.task_ignore_result = True


def use_folder(folder: str) -> None:
    """Keep Celery's queue in this folder."""
    app.conf.broker_transport_options = {
        "data_folder_in": folder,
        "data_folder_out": folder,
        "control_folder": f"{folder}/control",
        "polling_interval": 0.1,
    }


use_folder(os.environ.get("QUEUE_FOLDER", "celery-queue"))


class WorkerProcess:
    """What each worker process has of its own: a client, from the first task on."""

    def __init__(self) -> None:
        self._client: trio_stomp.blocking.Client | None = None
        self._lock = threading.Lock()

    @property
    def client(self) -> trio_stomp.blocking.Client:
        """The client. The first task connects, after Celery has forked this process."""
        with self._lock:
            if self._client is None:
                self._client = trio_stomp.blocking.open(os.environ["STOMP_URL"], reconnect=True)
            return self._client

    def close(self) -> None:
        """Disconnect, if any task has connected."""
        if self._client is not None:
            self._client.close()


process = WorkerProcess()


@worker_process_shutdown.connect
def close_client(**_: object) -> None:
    """Send what is left: Celery ends its processes without the usual clean-up of the interpreter."""
    process.close()


# Where nothing could be sent, because no broker answered, the task is run again.
@app.task(autoretry_for=(trio_stomp.ConnectError,), retry_backoff=True)
def place_order(item: str) -> None:
    """Send an order; the task succeeds once the broker has it."""
    process.client.send(QUEUE, item, headers={"sent-by": str(os.getpid())}, persistent=True, receipt=True)


def run(url: str) -> None:
    """Start a worker, queue tasks, and print the messages that they send."""
    with tempfile.TemporaryDirectory() as folder:
        use_folder(folder)
        environment = {**os.environ, "STOMP_URL": url, "QUEUE_FOLDER": folder, "PYTHONPATH": str(Path(__file__).parent)}
        worker = [
            sys.executable,
            "-m",
            "celery",
            "-A",
            "celery_orders",
            "worker",
            "--concurrency",
            "2",
            "--loglevel",
            "WARNING",
        ]
        with subprocess.Popen(worker, env=environment) as running:
            try:
                for number in range(TASKS):
                    place_order.delay(f"tea {number}")
                receive(url)
            finally:
                running.terminate()


def receive(url: str) -> None:
    """Print the orders that arrive."""
    with trio_stomp.blocking.connect(url) as client, client.subscribe(QUEUE) as orders:
        for _ in range(TASKS):
            with next(orders) as order:
                print(f"{order.text} sent by process {order.headers['sent-by']}", flush=True)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="your own broker; default: an embedded one")
    given = parser.parse_args()
    if given.url is not None:
        run(given.url)
        return
    with run_broker_in_thread() as broker:
        run(broker.url)


if __name__ == "__main__":
    main()
