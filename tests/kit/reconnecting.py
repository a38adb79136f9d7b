"""A client that reconnects, over links in memory and on virtual time."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final, Unpack

import anyio
import anyio.abc
import anyio.lowlevel
import trio

from tests.kit.peer import Peer, PeerOptions
from tests.kit.streams import BROKEN, ByteStream, abort
from tests.kit.tapped_stream import TappedStream
from tests.kit.wire import Wire
from trio_stomp import Client, Reconnect, Subscription
from trio_stomp.client.connecting import _Serving
from trio_stomp.session.reconnecting import first_link
from trio_stomp.session.session import Session
from trio_stomp.session.settings import Settings
from trio_stomp.testing import Broker, DropLink
from trio_stomp.transport.urls import Endpoint
from trio_stomp.types import ConnectOptions

__all__ = [
    "AT_ONCE",
    "Host",
    "PeerHost",
    "RawHost",
    "TappedHost",
    "reconnecting",
    "reconnecting_to_peers",
    "settings_for",
]

# A policy without chance: the delays are exactly their bounds.
AT_ONCE: Final = Reconnect(first_delay=0.5, max_delay=8.0, random=lambda: 1.0)


class Host:
    """One host: a broker that may be reached or not.

    Attributes:
        broker: The broker.
        refuses: Whether it refuses connections.
        silent: Seconds before a connection stands.
        dialed: The clock times at which it was dialed.
    """

    def __init__(self, broker: Broker, *, refuses: bool = False, silent: float = 0.0) -> None:
        self.broker = broker
        self.refuses = refuses
        self.silent = silent
        self.dialed: list[float] = []

    async def open_stream(self) -> ByteStream:
        self.dialed.append(anyio.current_time())
        await anyio.sleep(self.silent)
        if self.refuses:
            raise ConnectionRefusedError(111, "Connection refused")
        return self.broker.connect_stream()

    def go_down(self) -> None:
        """Lose all connections, and refuse others from now on."""
        self.refuses = True
        self.broker.faults.now(DropLink())


class TappedHost(Host):
    """A host with a tap on each link to it.

    Attributes:
        links: The client's ends, in order.
    """

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker)
        self.links: list[TappedStream] = []

    async def open_stream(self) -> ByteStream:
        self.links.append(TappedStream(await super().open_stream()))
        return self.links[-1]


class RawHost(Host):
    """A host whose server is a function on its end of the stream, called for each connection.

    Args:
        serve: That function, told the number of the connection; what a link raises at its end is its end.
        nursery: Where it runs.
    """

    def __init__(
        self, serve: Callable[[trio.abc.Stream, int], Awaitable[None]], nursery: trio.Nursery | anyio.abc.TaskGroup
    ) -> None:
        self._serve = serve
        self._nursery = nursery
        self.dialed: list[float] = []

    async def open_stream(self) -> trio.abc.Stream:
        self.dialed.append(anyio.current_time())
        await anyio.lowlevel.checkpoint()
        wire = Wire()
        self._nursery.start_soon(self._run, wire.server, len(self.dialed))
        return wire.client

    async def _run(self, stream: trio.abc.Stream, number: int) -> None:
        with suppress(*BROKEN):
            await self._serve(stream, number)
        await abort(stream)


class PeerHost(RawHost):
    """A host whose server is a `Peer` on each connection.

    Args:
        nursery: Where they run.
        prepare: Called with each peer, and the number of its connection, before it serves that.
        options: What sort of broker it is.

    Attributes:
        peers: The peers, in order.
    """

    def __init__(
        self,
        nursery: trio.Nursery | anyio.abc.TaskGroup,
        prepare: Callable[[Peer, int], object] = lambda _peer, _number: None,
        options: PeerOptions | None = None,
    ) -> None:
        super().__init__(self._serve_peer, nursery)
        self._prepare = prepare
        self._options = options
        self.peers: list[Peer] = []

    async def _serve_peer(self, stream: trio.abc.Stream, number: int) -> None:
        peer = Peer(stream, self._options)
        self.peers.append(peer)
        self._prepare(peer, number)
        await peer.serve()

    def lose(self) -> None:
        """Close the connection in use."""
        self.peers[-1].hang_up()

    async def takes(self, subscription: Subscription) -> None:
        """Send a message on the connection in use, and receive it."""
        self.peers[-1].deliver(subscription.id, b"x")
        with anyio.fail_after(1):
            assert (await anext(subscription)).text == "x"


def settings_for(hosts: Sequence[Host | Broker], **options: Unpack[ConnectOptions]) -> Settings:
    """The settings of a client whose hosts are these, named h0, h1 and so on."""
    found = [host if isinstance(host, Host) else Host(host) for host in hosts]

    async def open_stream(endpoint: Endpoint) -> ByteStream:
        return await found[int(endpoint.host.removeprefix("h"))].open_stream()

    urls = [f"stomp://h{number}" for number in range(len(found))]
    options.setdefault("reconnect", AT_ONCE)
    return dataclasses.replace(Settings.of(urls, options), open_stream=open_stream)


@asynccontextmanager
async def reconnecting(*hosts: Host | Broker, **options: Unpack[ConnectOptions]) -> AsyncGenerator[Client]:
    """A connected client of the first of these hosts that answers."""
    settings = settings_for(hosts, **options)

    async def dialed() -> Session:
        return Session(await first_link(settings), settings)

    async with _Serving(dialed) as client:
        yield client


@asynccontextmanager
async def reconnecting_to_peers(
    prepare: Callable[[Peer, int], object] = lambda _peer, _number: None,
    peer_options: PeerOptions | None = None,
    **options: Unpack[ConnectOptions],
) -> AsyncGenerator[tuple[Client, PeerHost]]:
    """A connected client of a `PeerHost`, and that host."""
    async with anyio.create_task_group() as group:
        host = PeerHost(group, prepare, peer_options)
        async with reconnecting(host, **options) as client:
            yield client, host
