"""A body of 16 MiB, or what the broker takes, from a file to a file, through the real brokers, with little memory."""

from __future__ import annotations

import hashlib
import tracemalloc
from pathlib import Path

import trio

from tests.interop.bench import Bench

MIB = 1024 * 1024
# Much more than the client may hold. Artemis takes four times as long for twice as much.
SIZE = 16 * MIB
PIECE = b"".join(number.to_bytes(4) for number in range(MIB // 4))


async def test_large_body_when_sent_from_a_file_and_spooled_then_is_the_same_and_takes_little_memory(
    newest: Bench, tmp_path: Path
) -> None:
    path, queue = tmp_path / "film", newest.queue()
    size = SIZE if newest.facts.frame_bytes is None else newest.facts.frame_bytes - MIB
    expected = hashlib.sha256()
    with path.open("wb") as file:
        for number in range(size // MIB):
            piece = number.to_bytes(4) + PIECE[4:]
            expected.update(piece)
            file.write(piece)
    async with newest.connect() as client:
        tracemalloc.start()
        try:
            with trio.fail_after(120):
                await client.send(queue, path, content_type="application/octet-stream", receipt=True)
                async with client.subscribe(queue, spool_threshold_bytes=MIB, prefetch=1) as subscription:
                    message = await anext(subscription)
                    received = hashlib.sha256()
                    async for chunk in message.chunks():
                        received.update(chunk)
                    await message.ack(receipt=True)
            _, peak_bytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

        assert message.is_spooled
        assert message.body_size == size
        assert received.digest() == expected.digest()
        assert peak_bytes < 4 * MIB
        assert await newest.left(client, queue) == []
