"""A body that its sender leaves in the middle: it ends the connection, and nothing is written behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import anyio.abc
import anyio.lowlevel
import pytest

import trio_stomp
from tests.kit.loops import REAL_LOOPS_OF_BROKER, on_loops

# Only a socket takes bytes at once, in the pass of the loop in which the writer is woken.
pytestmark = [pytest.mark.anyio, on_loops(*REAL_LOOPS_OF_BROKER)]


class Listening:
    """A peer that accepts one connection and keeps what it gets.

    Attributes:
        got: What came after CONNECT.
        ended: Set at the end of the link.
    """

    def __init__(self) -> None:
        self.got = b""
        self.ended = anyio.Event()

    async def serve(self, stream: anyio.abc.ByteStream) -> None:
        async with stream:
            data = b""
            while b"\0" not in data:
                data += await stream.receive()
            await stream.send(b"CONNECTED\nversion:1.2\n\n\0")
            try:
                while True:
                    self.got += await stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                self.ended.set()

    async def has(self, what: bytes) -> None:
        while what not in self.got:  # noqa: ASYNC110  # polls once for each pass of the loop
            await anyio.lowlevel.checkpoint()


async def test_frame_when_it_waits_behind_a_body_that_is_torn_then_it_is_never_written() -> None:
    peer = Listening()
    begun = anyio.Event()

    async def pieces() -> AsyncIterator[bytes]:  # noqa: ASYNC900  # a body
        yield b"abc"
        begun.set()
        await anyio.sleep_forever()

    async def send_body(client: trio_stomp.Client) -> None:
        await client.send("/queue/a", pieces(), content_length=100)

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as peers:
        peers.start_soon(listener.serve, peer.serve)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)  # noqa: S610  # no database
        with anyio.fail_after(30), pytest.raises(trio_stomp.ConnectionLost, match="ended in the middle of its frame"):
            async with (
                trio_stomp.connect(f"stomp://127.0.0.1:{port}", heart_beat=(0, 0)) as client,
                anyio.create_task_group() as senders,
            ):
                senders.start_soon(send_body, client)
                await begun.wait()
                await client.send("/queue/b", b"x" * 30)
                await peer.has(b"abc")
                senders.cancel_scope.cancel()
        with anyio.fail_after(30):
            await peer.ended.wait()
        peers.cancel_scope.cancel()
    assert peer.got.endswith(b"abc")
