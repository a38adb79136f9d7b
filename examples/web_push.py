"""A web application that pushes what comes from the broker to every browser that looks at it.

    python examples/web_push.py                                         an embedded broker
    python examples/web_push.py --url stomp://guest:guest@localhost     a broker of your own

Open the address that it prints, in two windows. Needs starlette and hypercorn; `make example NAME=web_push` brings
them along.

One subscription serves all browsers: the broker sends each message once, however many there are. A browser that does
not keep up loses the oldest messages, and holds up nobody. /ready is for a load balancer: 503 while there is no broker.
"""

from __future__ import annotations

import argparse
import functools
import random
import signal
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager

import hypercorn
import hypercorn.trio
import trio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

import trio_stomp
from trio_stomp.testing import open_broker

PRICES = "/topic/prices"
SECONDS_BETWEEN_PRICES = 0.5
# Events that wait for a browser: what a slow network may delay. Prices that are older than that help nobody.
INBOX_EVENTS = 16
PAGE = """\
<!doctype html>
<html lang="en">
<title>Prices</title>
<h1>Prices, as they come</h1>
<ol id="prices" reversed></ol>
<script>
  // An EventSource connects again by itself when its connection is lost.
  new EventSource("/events").onmessage = (event) => {
    const line = document.createElement("li");
    line.textContent = event.data;
    document.getElementById("prices").prepend(line);
  };
</script>
</html>
"""


class Inbox:
    """The events that wait for one browser: the newest ones, if it does not keep up."""

    def __init__(self) -> None:
        self._send, self.events = trio.open_memory_channel[bytes](INBOX_EVENTS)

    def put(self, event: bytes) -> None:
        """Add an event; makes room for it where there is none."""
        try:
            self._send.send_nowait(event)
        except trio.WouldBlock:
            self.events.receive_nowait()
            self._send.send_nowait(event)

    def close(self) -> None:
        """Let the browser's iteration end after what waits."""
        self._send.close()


class Hub:
    """Passes on what comes from the broker to whoever has joined."""

    def __init__(self) -> None:
        self._inboxes: set[Inbox] = set()

    @contextmanager
    def join(self) -> Generator[Inbox]:
        """Be told of everything, for the length of a block."""
        inbox = Inbox()
        self._inboxes.add(inbox)
        try:
            yield inbox
        finally:
            self._inboxes.discard(inbox)

    def publish(self, text: str) -> None:
        """Tell everybody; the event is written once, for all of them."""
        # A server-sent event: one field a line, and an empty line at the end.
        event = "".join(f"data: {line}\n" for line in text.splitlines() or [""]) + "\n"
        for inbox in self._inboxes:
            inbox.put(event.encode())

    async def relay(self, messages: trio_stomp.Subscription) -> None:
        """Pass on messages until there are no more."""
        async for message in messages:
            self.publish(message.text)

    def close(self) -> None:
        """End all streams, so that the server need not wait for them."""
        for inbox in self._inboxes:
            inbox.close()


class EventStream:
    """Server-sent events: the web application of one address, for each browser until it goes away."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one browser; it is forgotten however that ends."""
        with self._hub.join() as inbox:
            headers = {"cache-control": "no-store"}
            await StreamingResponse(inbox.events, headers=headers, media_type="text/event-stream")(scope, receive, send)


def make_app(client: trio_stomp.Client, hub: Hub) -> Starlette:
    """The web application: a page, its events, and whether all is well."""

    async def show_page(_request: Request) -> Response:
        await trio.lowlevel.checkpoint()
        return HTMLResponse(PAGE)

    async def tell_readiness(_request: Request) -> Response:
        await trio.lowlevel.checkpoint()
        state = client.state
        return JSONResponse({"broker": str(state)}, status_code=200 if state.healthy else 503)

    events = Route("/events", EventStream(hub), methods=["GET"])
    return Starlette(routes=[Route("/", show_page), events, Route("/ready", tell_readiness)])


async def publish_prices(client: trio_stomp.Client) -> None:
    """Make up prices; in earnest, this is another program."""
    price = 350
    while True:
        price += random.randint(-3, 3)  # noqa: S311  # chance is good enough for prices that are made up
        await client.send(PRICES, f"coffee {price / 100:.2f}")
        await trio.sleep(SECONDS_BETWEEN_PRICES)


async def wait_for_signal(signals: AsyncIterator[int], hub: Hub) -> None:
    """Wait until the program is to end."""
    await anext(signals)
    hub.close()


async def run(url: str, port: int) -> None:
    """Serve until a signal comes."""
    hub = Hub()
    config = hypercorn.Config()
    config.bind = [f"127.0.0.1:{port}"]
    config.loglevel = "WARNING"
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with (
            # Browsers stay connected while the broker is away, and get what comes when it is back.
            trio_stomp.connect(url, reconnect=trio_stomp.Reconnect(max_delay=2)) as client,
            client.subscribe(PRICES, ack="auto", overflow="drop-oldest") as prices,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(hub.relay, prices)
            nursery.start_soon(publish_prices, client)
            stop = functools.partial(wait_for_signal, signals, hub)
            async with trio.open_nursery() as server:
                app = make_app(client, hub)
                serve = functools.partial(hypercorn.trio.serve, app, config, shutdown_trigger=stop)  # type: ignore[arg-type]  # Hypercorn's types of ASGI are its own
                (address,) = await server.start(serve)
                print(f"open {address}/ and end with Ctrl-C", flush=True)
            nursery.cancel_scope.cancel()


async def run_by_itself(port: int) -> None:
    """Run with an embedded broker."""
    async with open_broker() as broker:
        await run(broker.url, port)


def main(arguments: list[str] | None = None) -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="a broker of your own; default: an embedded one")
    parser.add_argument("--port", type=int, default=8000, help="where to serve; 0: any free port; default: 8000")
    given = parser.parse_args(arguments)
    if given.url is None:
        trio.run(run_by_itself, given.port)
    else:
        trio.run(run, given.url, given.port)


if __name__ == "__main__":
    main()
