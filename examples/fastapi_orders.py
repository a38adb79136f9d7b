"""A FastAPI service: orders come in by HTTP, go through the broker, and a background consumer handles them.

    python examples/fastapi_orders.py                                         an embedded broker
    python examples/fastapi_orders.py --url stomp://guest:guest@localhost     your own broker

    curl -X POST localhost:8000/orders -H 'content-type: application/json' -d '{"item": "tea"}'

Requires fastapi and uvicorn; `make example NAME=fastapi_orders` installs them.
"""

# mypy takes the __init__ that Pydantic's models are given for an explicit Any.
# mypy: disallow-any-explicit=False

import argparse
import asyncio
import itertools
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Annotated

import uvicorn
from fastapi import Depends, FastAPI, HTTPException, Request, Response
from pydantic import BaseModel

import trio_stomp
from trio_stomp.testing import run_broker_in_thread

QUEUE = "/queue/orders"
SECONDS_TO_CONFIRM = 5


class Order(BaseModel):
    """An order, in a request and in a message."""

    item: str


class Shop:
    """The orders of this process, and its way to the broker."""

    def __init__(self, client: trio_stomp.Client, worker: asyncio.Task[None]) -> None:
        self.client = client
        self.worker = worker
        self.ids = itertools.count(1)


def shop_of(request: Request) -> Shop:
    """Return what the lifespan has opened: a dependency."""
    shop: Shop = request.app.state.shop
    return shop


CurrentShop = Annotated[Shop, Depends(shop_of)]


def lifespan_at(url: str, orders: dict[str, dict[str, str]]) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    """Make the lifespan of an application that uses a broker."""

    async def handle(message: trio_stomp.Message[Order]) -> None:
        await asyncio.sleep(0.1)  # Make tea.
        orders[message.headers["order"]] = {"item": message.value.item, "state": "handled"}

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        async with (
            trio_stomp.connect(url, reconnect=True) as client,
            client.subscribe(QUEUE, prefetch=20, decode=Order) as queue,
        ):
            worker = asyncio.create_task(queue.work(handle))
            app.state.shop = Shop(client, worker)
            yield
            # Running handlers finish; the broker keeps the other orders.
            worker.cancel()
            await asyncio.wait([worker])
            print(f"handled {sum(order['state'] == 'handled' for order in orders.values())} orders", flush=True)

    return lifespan


def make_app(url: str) -> FastAPI:
    """Make the application."""
    orders: dict[str, dict[str, str]] = {}
    app = FastAPI(lifespan=lifespan_at(url, orders))

    @app.post("/orders", status_code=202)
    async def create(order: Order, shop: CurrentShop) -> dict[str, str]:
        name = str(next(shop.ids))
        orders[name] = {"item": order.item, "state": "accepted"}
        try:
            async with asyncio.timeout(SECONDS_TO_CONFIRM):
                await shop.client.send(
                    QUEUE, json=order.model_dump(), headers={"order": name}, persistent=True, receipt=True
                )
        except (TimeoutError, trio_stomp.StompError) as error:
            raise HTTPException(503, "the broker has not confirmed the order") from error
        return {"id": name}

    @app.get("/orders/{name}")
    async def show(name: str) -> dict[str, str]:  # noqa: ASYNC124  # runs in the event loop, where the client is
        if name not in orders:
            raise HTTPException(404, "no such order")
        return orders[name]

    @app.get("/ready")
    async def tell_readiness(shop: CurrentShop, response: Response) -> dict[str, str]:  # noqa: ASYNC124  # runs in the event loop, where the client is
        if shop.worker.done() or not shop.client.state.healthy:
            response.status_code = 503
        return {"broker": str(shop.client.state)}

    return app


def serve(url: str, port: int) -> None:
    """Serve until a signal comes."""
    with socket.create_server(("127.0.0.1", port)) as listener:
        print(f"listening at http://127.0.0.1:{listener.getsockname()[1]}, stop with Ctrl-C", flush=True)
        try:  # noqa: SIM105  # the guide shows the imports of this file, and does not need suppress()
            uvicorn.Server(uvicorn.Config(make_app(url), log_level="warning")).run(sockets=[listener])
        except KeyboardInterrupt:
            # Uvicorn has shut down in good order, and raises Ctrl-C again.
            pass


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
