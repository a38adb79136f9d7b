"""Proxies that do what the RFCs say, or what a test says: SOCKS5 (RFC 1928, 1929) and HTTP CONNECT (RFC 9110)."""

from __future__ import annotations

import socket
import struct
from base64 import b64decode
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

import trio
import trio.testing

__all__ = ["Tunnels", "open_http_proxy", "open_resetting_port", "open_silent_port", "open_socks_proxy"]

Serve = Callable[[trio.SocketStream], Awaitable[None]]


@dataclass(slots=True, kw_only=True)
class Tunnels:
    """What a proxy was asked for, and what it answers.

    Attributes:
        url: Where it listens, without a user.
        login: The user it wants, with its passcode; None lets everybody in.
        names: Where the names that it knows lead.
        answer: What it answers instead of connecting: a SOCKS reply code, or all bytes of an HTTP answer.
        piecewise: It sends its answer byte by byte.
        asked: The names and ports that it was asked for.
        carried: The bytes that went through it to the broker.
    """

    url: str = ""
    login: tuple[str, str] | None = None
    names: Mapping[str, str] = field(default_factory=dict[str, str])
    answer: int | bytes | None = None
    piecewise: bool = False
    asked: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    carried: bytearray = field(default_factory=bytearray)

    async def send(self, near: trio.SocketStream, data: bytes) -> None:
        """Send an answer, in one piece or byte by byte."""
        for piece in [bytes([byte]) for byte in data] if self.piecewise else [data]:
            await near.send_all(piece)
            # Long enough for the other side to have read it.
            await trio.testing.wait_all_tasks_blocked()

    async def join(self, near: trio.SocketStream, name: str, port: int, answer: bytes) -> None:
        """Connect to where the client wants, say so, and pass bytes on until one side ends."""
        async with await trio.open_tcp_stream(self.names.get(name, name), port) as far:
            await self.send(near, answer)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._pass_on, near, far, self.carried, nursery.cancel_scope)
                nursery.start_soon(self._pass_on, far, near, bytearray(), nursery.cancel_scope)

    async def _pass_on(
        self, source: trio.SocketStream, target: trio.SocketStream, noted: bytearray, scope: trio.CancelScope
    ) -> None:
        try:
            async for data in source:
                noted += data
                await target.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        scope.cancel()


@asynccontextmanager
async def _listening(serve: Serve) -> AsyncGenerator[int]:
    async def serve_and_close(stream: trio.SocketStream) -> None:
        async with stream:
            with suppress(_Gone, trio.BrokenResourceError):
                await serve(stream)

    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        await nursery.start(trio.serve_listeners, serve_and_close, [listener])
        yield int(listener.socket.getsockname()[1])
        nursery.cancel_scope.cancel()


class _Gone(Exception):
    """The client has closed the connection in the middle of something."""


async def _exactly(stream: trio.SocketStream, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = bytes(await stream.receive_some(count - len(data)))
        if not more:
            raise _Gone
        data += more
    return data


async def _serve_socks(tunnels: Tunnels, near: trio.SocketStream) -> None:
    version, count = await _exactly(near, 2)
    methods = await _exactly(near, count)
    wanted = 0 if tunnels.login is None else 2
    if version != 5 or wanted not in methods:
        await tunnels.send(near, b"\x05\xff")
        return
    await tunnels.send(near, bytes([5, wanted]))
    if tunnels.login is not None:
        login = await _exactly(near, (await _exactly(near, 2))[1])
        passcode = await _exactly(near, (await _exactly(near, 1))[0])
        is_known = (login.decode(), passcode.decode()) == tunnels.login
        await tunnels.send(near, b"\x01\x00" if is_known else b"\x01\x01")
        if not is_known:
            return
    _, command, _, kind = await _exactly(near, 4)
    assert (command, kind) == (1, 3), "CONNECT to a name is what is expected here"
    name = (await _exactly(near, (await _exactly(near, 1))[0])).decode()
    port = int.from_bytes(await _exactly(near, 2), "big")
    tunnels.asked.append((name, port))
    reply = b"\x00\x01\x7f\x00\x00\x01\x00\x00"
    if isinstance(tunnels.answer, int):
        await tunnels.send(near, bytes([5, tunnels.answer]) + reply)
        return
    await tunnels.join(near, name, port, b"\x05\x00" + reply)


async def _serve_http(tunnels: Tunnels, near: trio.SocketStream) -> None:
    request = b""
    while not request.endswith(b"\r\n\r\n"):
        request += await _exactly(near, 1)
    line, *lines = request.decode().split("\r\n")
    method, target, _ = line.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (each.partition(":") for each in lines)}
    assert method == "CONNECT"
    assert headers["host"] == target
    name, _, port = target.rpartition(":")
    tunnels.asked.append((name, int(port)))
    given = b64decode(headers.get("proxy-authorization", "Basic ").removeprefix("Basic ")).decode()
    if tunnels.login is not None and given != ":".join(tunnels.login):
        refusal = b"HTTP/1.1 407 Who\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n"
        await tunnels.send(near, refusal)
        return
    if isinstance(tunnels.answer, bytes):
        await tunnels.send(near, tunnels.answer)
        return
    await tunnels.join(near, name, int(port), b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 Done\r\n\r\n")


@asynccontextmanager
async def open_socks_proxy(tunnels: Tunnels) -> AsyncGenerator[Tunnels]:
    """A SOCKS5 proxy for the length of a block."""
    async with _listening(partial(_serve_socks, tunnels)) as port:
        tunnels.url = f"socks5://127.0.0.1:{port}"
        yield tunnels


@asynccontextmanager
async def open_http_proxy(tunnels: Tunnels) -> AsyncGenerator[Tunnels]:
    """A proxy that knows CONNECT, for the length of a block."""
    async with _listening(partial(_serve_http, tunnels)) as port:
        tunnels.url = f"http://127.0.0.1:{port}"
        yield tunnels


@asynccontextmanager
async def open_silent_port(
    says: bytes | None = None, *, clock: trio.testing.MockClock | None = None
) -> AsyncGenerator[int]:
    """A port that takes whatever comes; it says nothing, or waits for the first bytes, says this and closes.

    A mock clock, where it is given, jumps by a second when something comes: whoever waits for an answer is out of time
    at that step and no other.
    """

    async def serve(stream: trio.SocketStream) -> None:
        async for _bytes in stream:
            if clock is not None:
                clock.jump(1)
            if says is not None:
                await stream.send_all(says)
                return

    async with _listening(serve) as port:
        yield port


@asynccontextmanager
async def open_resetting_port() -> AsyncGenerator[int]:
    """A port that resets each link once the first bytes have come."""

    async def serve(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    async with _listening(serve) as port:
        yield port
