"""A Starlette service on Trio: orders come in by HTTP, go through the broker, and a background consumer handles them.

    python examples/starlette_orders.py                                         an embedded broker
    python examples/starlette_orders.py --url stomp://guest:guest@localhost     your own broker

    curl -X POST localhost:8000/orders -d tea

Requires starlette and hypercorn; `make example NAME=starlette_orders` installs them.
"""

from __future__ import annotations

import argparse
import itertools
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypedDict

import hypercorn
import hypercorn.run
import trio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

import trio_stomp
from trio_stomp.testing import run_broker_in_thread

QUEUE = "/queue/orders"
SECONDS_TO_CONFIRM = 5


class State(TypedDict):
    """What the lifespan opens, and every request gets."""

    client: trio_stomp.Client
    orders: dict[str, str]
    ids: itertools.count[int]


@asynccontextmanager
async def lifespan(_app: Starlette) -> AsyncGenerator[State]:
    """Connect, and consume in the background, while the application runs."""
    orders: dict[str, str] = {}

    async def handle(message: trio_stomp.Message) -> None:
        await trio.sleep(0.1)  # Make tea.
        orders[message.headers["order"]] = "handled"

    async with (
        trio_stomp.connect(os.environ["STOMP_URL"], reconnect=True) as client,
        client.subscribe(QUEUE, prefetch=20) as queue,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(queue.work, handle)
        yield {"client": client, "orders": orders, "ids": itertools.count(1)}
        # Running handlers finish; the broker keeps the other orders.
        nursery.cancel_scope.cancel()


async def create(request: Request[State]) -> Response:
    """Accept an order once the broker has it."""
    state = request.state
    name = str(next(state["ids"]))
    state["orders"][name] = "accepted"
    try:
        with trio.fail_after(SECONDS_TO_CONFIRM):
            await state["client"].send(
                QUEUE, await request.body(), headers={"order": name}, persistent=True, receipt=True
            )
    except (trio.TooSlowError, trio_stomp.StompError):
        return JSONResponse({"error": "the broker has not confirmed the order"}, status_code=503)
    return JSONResponse({"id": name}, status_code=202)


async def show(request: Request[State]) -> Response:
    """Show whether an order was handled."""
    await trio.lowlevel.checkpoint()
    found = request.state["orders"].get(request.path_params["name"])
    return JSONResponse({"state": found}, status_code=200 if found else 404)


app = Starlette(
    lifespan=lifespan,
    routes=[Route("/orders", create, methods=["POST"]), Route("/orders/{name}", show)],
)


def serve(url: str, port: int) -> None:
    """Serve until a signal comes, like `hypercorn --worker-class trio starlette_orders:app`."""
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
