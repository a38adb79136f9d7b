"""Messages as a client gets them, with exactly the headers that a test wants."""

from __future__ import annotations

from collections.abc import Mapping

import trio

import trio_stomp
from trio_stomp import Message
from trio_stomp.protocol import encode_frame
from trio_stomp.testing import ScriptedPeer, open_scripted_peer
from trio_stomp.types import Command

__all__ = ["delivered"]


async def delivered(headers: Mapping[str, str] | None = None, body: bytes = b"") -> Message:
    """A message that a peer sends byte for byte as asked, but for what every MESSAGE must have."""
    async with open_scripted_peer(listen=False) as peer, trio.open_nursery() as nursery:
        stream = peer.connect_stream()
        nursery.start_soon(_deliver, peer, headers or {}, body)
        async with (
            trio_stomp.connect_stream(stream, heart_beat=(0, 0)) as client,
            client.subscribe("/queue/a", ack="auto") as messages,
        ):
            message = await anext(messages)
    return message


async def _deliver(peer: ScriptedPeer, headers: Mapping[str, str], body: bytes) -> None:
    await peer.accept_connect()
    subscribe = await peer.expect(Command.SUBSCRIBE)
    own = {"subscription": subscribe.headers["id"], "message-id": "m-1", "destination": "/queue/a"}
    pairs = list({**own, **headers}.items())
    await peer.send_bytes(encode_frame(Command.MESSAGE, pairs, body, version=peer.version, add_content_length=False))
    await peer.expect(Command.UNSUBSCRIBE)
    await peer.expect_disconnect()
