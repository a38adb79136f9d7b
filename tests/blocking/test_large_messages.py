"""Large bodies in synchronous code: out of a file, and into one."""

from __future__ import annotations

from array import array
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

import trio_stomp.blocking
from trio_stomp import LocalProtocolError
from trio_stomp.blocking import Client
from trio_stomp.testing import ThreadedBroker

BODY = array("I", range(400_000)).tobytes()


def test_file_when_sent_and_spooled_then_is_the_same(broker: ThreadedBroker, client: Client, tmp_path: Path) -> None:
    path = tmp_path / "film"
    path.write_bytes(BODY)
    with client.subscribe("/queue/a", spool_threshold_bytes=100_000) as subscription:
        client.send("/queue/a", path)
        with path.open("rb") as file:
            client.send("/queue/a", file, receipt=True)
        client.send("/queue/a", b"small")
        with client.transaction() as transaction:
            transaction.send("/queue/a", path, content_type="video/mp4")
        messages: list[trio_stomp.blocking.Message] = []
        for expected in (BODY, BODY, b"small", BODY):
            with next(subscription) as message:
                messages.append(message)
                assert b"".join(message.chunks()) == expected
                with message.open_body() as body:
                    assert body.read() == expected
                assert message.body_size == len(expected)
        assert [message.is_spooled for message in messages] == [True, True, False, True]
        # The end of its block has closed its file.
        with pytest.raises(ValueError, match="closed file"):
            next(messages[0].chunks())
        with pytest.raises(LocalProtocolError, match=r"chunks\(\) or open_body\(\)"):
            _ = messages[0].body
    client.send("/queue/b", b"", receipt=True)
    assert broker.call(lambda inner: inner.depth("/queue/a")) == 0


def test_send_when_there_is_no_such_file_then_the_error_of_the_system(client: Client, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        client.send("/queue/a", tmp_path / "missing")
    client.send("/queue/a", b"", receipt=True)


def test_async_iterable_when_sent_then_iterated_in_the_thread_of_the_client(client: Client) -> None:
    async def pieces() -> AsyncIterator[bytes]:  # noqa: ASYNC900  # what a program sends
        for piece in (b"one ", b"two ", b"three"):
            await trio.lowlevel.checkpoint()
            yield piece

    with client.subscribe("/queue/a") as subscription:
        client.send("/queue/a", pieces(), content_length=13, receipt=True)
        with next(subscription) as message:
            assert message.body == b"one two three"
