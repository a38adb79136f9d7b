"""stomp.py in the partitions of a DataFrame: what a program does without a sink for STOMP."""

import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from hashlib import blake2b
from pathlib import Path

import stomp
from pyspark.sql import functions as f

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.contestants.ours_in_spark import MASTER, MODES, SETTINGS
from benchmarks.order import Order, answer
from benchmarks.payload import BODY
from benchmarks.processes import Processes
from benchmarks.spark_session import open_session

order = Order.from_argument()
# Here the RECEIPT of a COMMIT comes before its messages are stored, so that it confirms none of them. The sink waits
# for the RECEIPT of each, so this does, too.
EARLY = "RabbitMQ"


class Receipts(stomp.ConnectionListener):
    """Counts them, and notes who sends them."""

    def __init__(self):
        self.came = threading.Semaphore(0)
        self.server = ""

    def on_connected(self, frame):
        """Whose they are."""
        self.server = frame.headers.get("server", "")

    def on_receipt(self, _frame):
        """One more."""
        self.came.release()


def with_ids(rows, scope):
    """Each row with headers that have it stored, and a copy recognized: by digest and number, as the sink does."""
    seen = Counter()
    for row in rows:
        digest = blake2b(row.body.encode(), digest_size=12).hexdigest()
        yield row, {"persistent": "true", "_AMQ_DUPL_ID": f"{scope}.{digest}.{seen[digest]}"}
        seen[digest] += 1


def without_ids(rows, _scope):
    """Each row with the headers that have it stored."""
    for row in rows:
        yield row, {"persistent": "true"}


def sender(order, mode):
    """What each partition does: send its rows, each confirmed or all in a transaction, and wait for the broker."""
    rows_with_headers = without_ids if order.scenario == "sinks without ids" else with_ids

    def send(rows):
        task = uuid.uuid4().hex
        connection = stomp.Connection12([(order.host, order.port)], heartbeats=(0, 0), vhost=order.vhost)
        receipts, asked = Receipts(), 1
        connection.set_listener("", receipts)
        connection.connect(order.login, order.passcode, wait=True)
        if mode == "transaction":
            transaction = connection.begin()
            each = receipts.server.startswith(EARLY)
            for number, (row, headers) in enumerate(rows_with_headers(rows, task), 1):
                confirmed = {"receipt": str(number)} if each else {}
                connection.send(order.destination, row.body, headers=headers | confirmed, transaction=transaction)
                asked += each
            connection.commit(transaction, receipt="last")
        else:
            for asked, (row, headers) in enumerate(rows_with_headers(rows, task), 1):
                connection.send(order.destination, row.body, headers=headers, receipt=str(asked))
        for _ in range(asked):
            if not receipts.came.acquire(timeout=order.patience):
                raise TimeoutError
        connection.disconnect()

    return send


with tempfile.TemporaryDirectory() as folder:
    spark = open_session(folder, MASTER, SETTINGS)
    body = f.lit(BODY.decode("ascii"))
    result = {}
    for mode in MODES:
        for count in (order.limit // 20, order.limit):
            rows = spark.range(count, numPartitions=2).select(body.alias("body"))
            processes = Processes()
            processes.begin()
            begun = time.perf_counter()
            rows.foreachPartition(sender(order, mode))
            result[f"sink/{mode}"] = count / (time.perf_counter() - begun)
            result[f"processor/{mode}"] = sum(processes.for_each(count).values())
    spark.stop()
answer(result)
