"""A web application that pushes messages from the broker to every open browser.

    python examples/web_push.py                                         an embedded broker
    python examples/web_push.py --url stomp://guest:guest@localhost     your own broker

Open the printed address in two windows. Requires starlette and hypercorn; `make example NAME=web_push` installs them.

One subscription serves all browsers, so the broker sends each message once. A slow browser loses the oldest messages,
and does not delay the others. /ready is for a load balancer: it returns 503 while there is no broker.
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
# Events buffered for a slow browser; older prices are worthless.
INBOX_EVENTS = 16
PAGE = """\
<!doctype html>
<html lang="en">
<title>Prices</title>
<h1>Live prices</h1>
<ol id="prices" reversed></ol>
<script>
  // An EventSource reconnects automatically.
  new EventSource("/events").onmessage = (event) => {
    const line = document.createElement("li");
    line.textContent = event.data;
    document.getElementById("prices").prepend(line);
  };
</script>
</html>
"""


class Inbox:
    """The buffered events of one browser; the newest ones, if it is slow."""

    def __init__(self) -> None:
        self._send, self.events = trio.open_memory_channel[bytes](INBOX_EVENTS)

    def put(self, event: bytes) -> None:
        """Add an event, and drop the oldest if the inbox is full."""
        try:
            self._send.send_nowait(event)
        except trio.WouldBlock:
            self.events.receive_nowait()
            self._send.send_nowait(event)

    def close(self) -> None:
        """End the browser's iteration after the buffered events."""
        self._send.close()


class Hub:
    """Forwards messages from the broker to all browsers."""

    def __init__(self) -> None:
        self._inboxes: set[Inbox] = set()

    @contextmanager
    def join(self) -> Generator[Inbox]:
        """Receive all events for the length of a block."""
        inbox = Inbox()
        self._inboxes.add(inbox)
        try:
            yield inbox
        finally:
            self._inboxes.discard(inbox)

    def publish(self, text: str) -> None:
        """Send a text to all browsers; the event is encoded once."""
        # A server-sent event: one field per line, and an empty line at the end.
        event = "".join(f"data: {line}\n" for line in text.splitlines() or [""]) + "\n"
        for inbox in self._inboxes:
            inbox.put(event.encode())

    async def relay(self, messages: trio_stomp.Subscription) -> None:
        """Forward messages until the subscription ends."""
        async for message in messages:
            self.publish(message.text)

    def close(self) -> None:
        """End all streams, so that the server does not wait for them."""
        for inbox in self._inboxes:
            inbox.close()


class EventStream:
    """The server-sent events endpoint."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one browser until it disconnects."""
        with self._hub.join() as inbox:
            headers = {"cache-control": "no-store"}
            await StreamingResponse(inbox.events, headers=headers, media_type="text/event-stream")(scope, receive, send)


def make_app(client: trio_stomp.Client, hub: Hub) -> Starlette:
    """The web application: a page, its events, and a readiness check."""

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
    """Publish random prices; in production, this is another program."""
    price = 350
    while True:
        price += random.randint(-3, 3)  # noqa: S311  # random prices need no cryptography
        await client.send(PRICES, f"coffee {price / 100:.2f}")
        await trio.sleep(SECONDS_BETWEEN_PRICES)


async def wait_for_signal(signals: AsyncIterator[int], hub: Hub) -> None:
    """Wait for the signal to shut down."""
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
            # Browsers stay connected during an outage, and receive events again afterward.
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
                print(f"open {address}/ and stop with Ctrl-C", flush=True)
            nursery.cancel_scope.cancel()


async def run_by_itself(port: int) -> None:
    """Run with an embedded broker."""
    async with open_broker() as broker:
        await run(broker.url, port)


def main(arguments: list[str] | None = None) -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="your own broker; default: an embedded one")
    parser.add_argument(
        "--port", type=int, default=8000, help="port of the web server (0: any free port; default: 8000)"
    )
    given = parser.parse_args(arguments)
    if given.url is None:
        trio.run(run_by_itself, given.port)
    else:
        trio.run(run, given.url, given.port)


if __name__ == "__main__":
    main()
