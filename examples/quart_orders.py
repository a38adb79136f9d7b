"""A Quart service on Trio: orders come in by HTTP, go through the broker, and a background consumer handles them.

    python examples/quart_orders.py                                         an embedded broker
    python examples/quart_orders.py --url stomp://guest:guest@localhost     your own broker

    curl -X POST localhost:8000/orders -d tea

Requires quart-trio and hypercorn; `make example NAME=quart_orders` installs them.
"""

import argparse
import itertools
import os
from pathlib import Path

import hypercorn
import hypercorn.run
import trio
from quart import request
from quart_trio import QuartTrio

import trio_stomp
from trio_stomp.testing import run_broker_in_thread

QUEUE = "/queue/orders"
SECONDS_TO_CONFIRM = 5
Answer = tuple[dict[str, str], int]

app = QuartTrio(__name__)


class Shop:
    """The orders of this process, and its way to the broker."""

    client: trio_stomp.Client

    def __init__(self) -> None:
        self.orders: dict[str, str] = {}
        self.ids = itertools.count(1)
        self.consuming = trio.CancelScope()
        self.disconnected = trio.Event()

    async def run(self, task_status: trio.TaskStatus[None]) -> None:  # noqa: ASYNC114  # it is started in this module alone
        """Connect and consume, in a task of the application."""
        async with (
            trio_stomp.connect(os.environ["STOMP_URL"], reconnect=True) as self.client,
            self.client.subscribe(QUEUE, prefetch=20) as queue,
        ):
            task_status.started()
            with self.consuming:
                await queue.work(self.handle)
        self.disconnected.set()

    async def handle(self, message: trio_stomp.Message) -> None:
        """Handle an order."""
        await trio.sleep(0.1)  # Make tea.
        self.orders[message.headers["order"]] = "handled"


shop = Shop()


@app.before_serving
async def start() -> None:
    """Open the connection before the first request."""
    await app.nursery.start(shop.run)


@app.after_serving
async def stop() -> None:
    """Let running handlers finish; the broker keeps the other orders."""
    shop.consuming.cancel()
    await shop.disconnected.wait()


@app.post("/orders")
async def create() -> Answer:
    """Accept an order once the broker has it."""
    name = str(next(shop.ids))
    shop.orders[name] = "accepted"
    body = await request.get_data(as_text=False)
    try:
        with trio.fail_after(SECONDS_TO_CONFIRM):
            await shop.client.send(QUEUE, body, headers={"order": name}, persistent=True, receipt=True)
    except (trio.TooSlowError, trio_stomp.StompError):
        return {"error": "the broker has not confirmed the order"}, 503
    return {"id": name}, 202


@app.get("/orders/<name>")
async def show(name: str) -> Answer:
    """Show whether an order was handled."""
    await trio.lowlevel.checkpoint()
    if name not in shop.orders:
        return {"error": "no such order"}, 404
    return {"state": shop.orders[name]}, 200


def serve(url: str, port: int) -> None:
    """Serve until a signal comes, like `hypercorn --worker-class trio quart_orders:app`."""
    os.environ["STOMP_URL"] = url
    config = hypercorn.Config()
    config.application_path = f"{Path(__file__).resolve()}:app"
    config.bind = [f"127.0.0.1:{port}"]
    config.worker_class = "trio"
    hypercorn.run.run(config)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="your own broker; default: an embedded one")
    parser.add_argument("--port", type=int, default=8000, help="port of the web server (0: any free port)")
    given = parser.parse_args()
    if given.url is not None:
        serve(given.url, given.port)
        return
    with run_broker_in_thread() as broker:
        serve(broker.url, given.port)


if __name__ == "__main__":
    main()
