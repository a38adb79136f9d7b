"""Large bodies on asyncio: out of a file, and into one."""

from __future__ import annotations

from array import array
from pathlib import Path

import pytest

import trio_stomp
from tests.kit.on_asyncio import on_asyncio
from trio_stomp import LocalProtocolError
from trio_stomp.testing import ThreadedBroker

BODY = array("I", range(400_000)).tobytes()


@on_asyncio
async def test_file_when_sent_and_spooled_then_is_the_same(broker: ThreadedBroker, tmp_path: Path) -> None:
    path = tmp_path / "film"
    path.write_bytes(BODY)
    async with (
        trio_stomp.connect(broker.url) as client,
        client.subscribe("/queue/a", spool_threshold_bytes=100_000) as subscription,
    ):
        await client.send("/queue/a", path)
        with path.open("rb") as file:
            await client.send("/queue/a", file, receipt=True)
        await client.send("/queue/a", b"small")
        async with client.transaction() as transaction:
            await transaction.send("/queue/a", path, content_type="video/mp4")
        messages: list[trio_stomp.Message] = []
        for expected in (BODY, BODY, b"small", BODY):
            async with await anext(subscription) as message:
                messages.append(message)
                assert b"".join([chunk async for chunk in message.chunks()]) == expected
                with message.open_body() as body:
                    assert body.read() == expected
                assert message.body_size == len(expected)
        assert [message.is_spooled for message in messages] == [True, True, False, True]
        # The end of its block has closed its file.
        with pytest.raises(ValueError, match="closed file"):
            await anext(messages[0].chunks())
        with pytest.raises(LocalProtocolError, match=r"chunks\(\) or open_body\(\)"):
            _ = messages[0].body
    assert broker.call(lambda inner: inner.depth("/queue/a")) == 0


@on_asyncio
async def test_send_when_there_is_no_such_file_then_the_error_of_the_system(
    broker: ThreadedBroker, tmp_path: Path
) -> None:
    async with trio_stomp.connect(broker.url) as client:
        with pytest.raises(FileNotFoundError):
            await client.send("/queue/a", tmp_path / "missing")
        await client.send("/queue/a", b"", receipt=True)
