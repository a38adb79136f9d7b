"""What a message costs the client, in counts: a guard against becoming slow little by little.

A bound that is passed is no bug. It says that each message of each user has become dearer, and asks whether that was
meant; then the bound is set anew.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import memory_stream_pair

import trio_stomp
from tests.kit.costs import count_calls
from trio_stomp import Client
from trio_stomp.testing import run_broker_in_thread
from trio_stomp.types import AckName

MESSAGES = 640
BODY = b"x" * 200
HEADERS = {"a": "1", "b": "2", "c": "3", "persistent": "true"}
# These counts hold what Trio does too, and differ a little between versions of Python and of Trio.
SLACK = 1.2


def message(number: int) -> bytes:
    return (
        b"MESSAGE\nsubscription:s-1\nmessage-id:m-%d\ndestination:/queue/a\nack:a-%d\ncontent-type:text/plain\n"
        b"priority:4\ncontent-length:%d\n\n%b\0" % (number, number, len(BODY), BODY)
    )


@asynccontextmanager
async def connected(answer: bytes = b"") -> AsyncGenerator[Client]:
    """A client of a peer that says `answer` to a SUBSCRIBE, and else only listens."""
    ours, theirs = memory_stream_pair()

    async def serve() -> None:
        await theirs.send_all(b"CONNECTED\nversion:1.2\nheart-beat:0,0\n\n\0")
        async for data in theirs:
            if b"SUBSCRIBE\n" in data and answer:
                for at in range(0, len(answer), 65_536):
                    await theirs.send_all(answer[at : at + 65_536])
            ids = [part.split(b"\n")[0] for part in bytes(data).split(b"\nreceipt:")[1:]]
            await theirs.send_all(b"".join(b"RECEIPT\nreceipt-id:%b\n\n\0" % id_ for id_ in ids))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)  # noqa: ASYNC113  # memory streams hold what is written before it runs
        async with trio_stomp.connect_stream(ours, disconnect_timeout=1) as client:
            yield client
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(("ack", "most"), [("auto", 32), ("client-individual", 56)])
async def test_calls_when_messages_are_received_then_are_no_more_than_they_were(ack: AckName, most: float) -> None:
    stream = b"".join(message(number) for number in range(MESSAGES))
    async with connected(stream) as client, client.subscribe("/queue/a", ack=ack, prefetch=MESSAGES, id="s-1") as inbox:
        with count_calls() as calls:
            taken = 0
            async for each in inbox:
                taken += 1
                if ack != "auto":
                    await each.ack()
                if taken == MESSAGES:
                    break
    assert calls.count / MESSAGES < most * SLACK


async def test_calls_when_messages_are_sent_then_are_no_more_than_they_were() -> None:
    async with connected() as client:
        with count_calls() as calls:
            for number in range(MESSAGES):
                await client.send("/queue/a", BODY, headers=HEADERS | {"n": str(number)}, content_type="text/plain")

    assert calls.count / MESSAGES < 27 * SLACK


class Passes(trio.abc.Instrument):
    """Counts the passes of the scheduler, each with a system call to look for events."""

    def __init__(self) -> None:
        self.count = 0

    def before_io_wait(self, timeout: float) -> None:
        self.count += 1


def test_passes_when_each_receipt_is_awaited_then_one_wakes_the_sender_and_one_the_reader() -> None:
    passes = Passes()

    async def send(port: int) -> None:
        async with trio_stomp.connect(f"stomp://127.0.0.1:{port}", heart_beat=(0, 0)) as client:
            trio.lowlevel.add_instrument(passes)
            for _ in range(MESSAGES):
                await client.send("/queue/a", BODY, receipt=True)
            trio.lowlevel.remove_instrument(passes)

    with run_broker_in_thread() as broker:
        trio.run(send, broker.port)

    assert 1.5 < passes.count / MESSAGES < 2 * SLACK


async def test_calls_when_messages_are_published_then_are_no_more_than_they_were() -> None:
    async with connected() as client:
        with count_calls() as calls:
            async with client.publisher() as publisher:
                for _ in range(MESSAGES):
                    await publisher.send("/queue/a", BODY, headers=HEADERS, content_type="text/plain")

    assert calls.count / MESSAGES < 46 * SLACK


def test_calls_when_each_receipt_is_awaited_then_are_no_more_than_they_were() -> None:
    counted: list[float] = []

    async def send(port: int) -> None:
        async with trio_stomp.connect(f"stomp://127.0.0.1:{port}", heart_beat=(0, 0)) as client:
            with count_calls() as calls:
                for _ in range(MESSAGES):
                    await client.send("/queue/a", BODY, headers=HEADERS, content_type="text/plain", receipt=True)
            counted.append(calls.count / MESSAGES)

    # The broker is in another thread, whose calls are not counted. If it answers at once, a pass less is needed.
    with run_broker_in_thread() as broker:
        trio.run(send, broker.port)

    assert counted[0] < 182 * SLACK
