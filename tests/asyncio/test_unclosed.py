"""Clients that the program leaves open, each in a program of its own."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import textwrap
import threading
import time
import tracemalloc
from pathlib import Path
from typing import Final

import pytest

import trio_stomp.asyncio
from trio_stomp.client import Endpoint
from trio_stomp.testing import SwallowReceipts, ThreadedBroker

QUEUE: Final = "/queue/a"
HEAD: Final = """
import asyncio, os, sys, threading
import trio_stomp.asyncio
url, QUEUE = sys.argv[1:]
"""


def warning(broker: ThreadedBroker) -> str:
    url = Endpoint.parse(broker.url)
    return f"the client of {url} was not closed; await its aclose(), or use async with trio_stomp.asyncio.connect()"


def run(
    broker: ThreadedBroker, program: str, *, options: tuple[str, ...] = ("-W", "always"), status: int = 0
) -> list[str]:
    """Run a program whose `url` is the broker's; returns what it prints as errors, once it has ended by itself."""
    done = subprocess.run(
        [sys.executable, *options, "-c", HEAD + textwrap.dedent(program), broker.url, QUEUE],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == status, done.stderr
    return done.stderr.splitlines()


def bodies(broker: ThreadedBroker) -> list[str]:
    return [message.body.decode() for message in broker.call(lambda inner: inner.messages(QUEUE))]


def test_exit_when_a_client_is_open_then_warned_of_and_its_messages_are_sent(broker: ThreadedBroker) -> None:
    said = run(
        broker,
        """
        async def main():
            global client
            client = await trio_stomp.asyncio.open(url)
            for number in range(1000):
                await client.send(QUEUE, str(number))

        asyncio.run(main())
        sys.exit(3)
        """,
        status=3,
    )

    # Python 3.13 calls the place at which the interpreter exits "<sys>:0", earlier ones "sys:1".
    assert said[0].partition(": ")[2] == f"ResourceWarning: {warning(broker)}"
    assert "Traceback" not in "".join(said)
    assert bodies(broker) == [str(number) for number in range(1000)]


async def open_and_drop(url: str) -> None:
    client: trio_stomp.asyncio.Client | None = await trio_stomp.asyncio.open(url)
    assert client is not None
    await client.send(QUEUE, "sent")
    client = None
    while any(thread.name == "trio_stomp" for thread in threading.enumerate()):  # noqa: ASYNC110  # the end of a thread
        await asyncio.sleep(0.01)


def test_client_when_dropped_then_warned_of_and_its_thread_ends(broker: ThreadedBroker) -> None:
    tracemalloc.start(20)
    try:
        with pytest.warns(ResourceWarning, match=re.escape(warning(broker))) as caught:
            asyncio.run(open_and_drop(broker.url))
        opened = tracemalloc.get_object_traceback(caught[0].source)
    finally:
        tracemalloc.stop()

    assert bodies(broker) == ["sent"]
    assert Path(caught[0].filename) == Path(__file__)
    # Python shows this, where memory is traced.
    assert opened is not None
    assert __file__ in {frame.filename for frame in opened}


def test_client_when_closed_then_not_warned_of(broker: ThreadedBroker) -> None:
    said = run(
        broker,
        """
        async def main():
            client = await trio_stomp.asyncio.open(url)
            await client.aclose()
            async with trio_stomp.asyncio.connect(url):
                pass

        asyncio.run(main())
        """,
    )

    assert said == []


def test_exit_when_the_loop_of_a_daemon_thread_uses_the_client_then_it_prints_nothing(broker: ThreadedBroker) -> None:
    said = run(
        broker,
        """
        waits = threading.Event()

        async def consume():
            async with trio_stomp.asyncio.connect(url) as client, client.subscribe(QUEUE) as subscription:
                waits.set()
                await anext(subscription)

        threading.Thread(target=asyncio.run, args=[consume()], daemon=True).start()
        waits.wait(60)
        """,
    )

    assert said == []


@pytest.mark.slow
def test_exit_when_the_broker_does_not_confirm_then_not_waited_for_long(broker: ThreadedBroker) -> None:
    broker.call(lambda inner: inner.faults.plan(SwallowReceipts()))
    begun = time.monotonic()

    said = run(
        broker,
        """
        async def main():
            global client
            client = await trio_stomp.asyncio.open(url, disconnect_timeout=500)
            await client.send(QUEUE, "sent")

        asyncio.run(main())
        """,
    )

    assert warning(broker) in said[0]
    assert bodies(broker) == ["sent"]
    assert time.monotonic() - begun < 50


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork()")
def test_client_when_a_forked_process_ends_then_only_the_process_that_opened_it_warns(broker: ThreadedBroker) -> None:
    said = run(
        broker,
        """
        async def main():
            global client
            client = await trio_stomp.asyncio.open(url)

        asyncio.run(main())
        if (child := os.fork()) == 0:
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
        """,
        options=("-W", "always", "-W", "ignore::DeprecationWarning"),
    )

    assert len([line for line in said if warning(broker) in line]) == 1
