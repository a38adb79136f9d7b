"""Mistakes that type checkers must find. Read by mypy and pyright, and never run.

Each line is wrong, and silenced for that one error: if a checker ever takes it for right, it reports a silence that
silences nothing.
"""

from pathlib import Path

import trio

import trio_stomp
import trio_stomp.blocking


def not_async() -> tuple[str, str]:
    return "guest", "guest"


async def connections(client: trio_stomp.Client) -> None:
    # An option that does not exist.
    trio_stomp.connect("stomp://localhost", logn="guest")  # type: ignore[call-arg]
    # One number where two are needed: what to send and what to receive.
    trio_stomp.connect("stomp://localhost", heart_beat=10)  # type: ignore[arg-type]
    # A broker of which nothing is known has no name here.
    trio_stomp.connect("stomp://localhost", profile="RabbitMQ")  # type: ignore[arg-type]
    # A function that cannot be awaited.
    trio_stomp.connect("stomp://localhost", credentials=not_async)  # type: ignore[arg-type]
    # A string is a sequence of strings, so only this one is found: a number of versions.
    trio_stomp.connect("stomp://localhost", versions=1.2)  # type: ignore[arg-type]
    # No limit is given by its place.
    trio_stomp.Limits(64)  # type: ignore[call-arg]
    # Not async.
    with trio_stomp.connect("stomp://localhost"):  # type: ignore[attr-defined]
        pass
    # What was agreed upon cannot be changed.
    client.version = trio_stomp.types.Version.V1_2  # type: ignore[misc]
    await trio.lowlevel.checkpoint()


async def sends(client: trio_stomp.Client) -> None:
    # Numbers are not encoded: that would be a guess.
    await client.send("/queue/a", 5)  # type: ignore[arg-type]
    # JSON has an argument of its own.
    await client.send("/queue/a", {"order": 1})  # type: ignore[arg-type]
    # Headers are text.
    await client.send("/queue/a", b"", headers={"priority": 5})  # type: ignore[dict-item]
    # An option that does not exist.
    await client.send("/queue/a", b"", persistant=True)  # type: ignore[call-arg]
    # A time to live is a number of seconds.
    await client.send("/queue/a", b"", ttl="60")  # type: ignore[arg-type]
    # A time limit, too.
    await client.send("/queue/a", b"", timeout="60")  # type: ignore[arg-type]
    # Nothing but destination and body goes by its place.
    await client.send("/queue/a", b"", {})  # type: ignore[call-arg]
    # Sent is what was awaited.
    client.send("/queue/a", b"")  # type: ignore[unused-coroutine]


async def subscriptions(client: trio_stomp.Client) -> None:
    # A subscription is a block.
    async for _ in client.subscribe("/queue/a"):  # type: ignore[attr-defined]
        pass
    # A decoder of bytes is wanted, not one of numbers.
    client.subscribe("/queue/a", decode=hex)  # type: ignore[arg-type]
    # Words with a meaning are spelled as they are.
    client.subscribe("/queue/a", ack="individual")  # type: ignore[arg-type]
    client.subscribe("/queue/a", overflow="block")  # type: ignore[arg-type]
    client.subscribe("/queue/a", stream_offset="begin")  # type: ignore[arg-type]
    # An option that does not exist.
    client.subscribe("/queue/a", browser=True)  # type: ignore[call-arg]
    # What a queue is to be is not a mapping.
    client.subscribe("/queue/a", queue_arguments={"x-queue-type": "stream"})  # type: ignore[arg-type]
    # A prefetch is a number.
    async with client.subscribe("/queue/a", prefetch="100") as orders:  # type: ignore[arg-type]
        # Not async.
        for _ in orders:  # type: ignore[attr-defined]
            pass


async def messages(message: trio_stomp.Message) -> None:
    # Bytes are not text.
    _ = message.body + "!"  # type: ignore[operator]
    # What is in the JSON has to be looked at first.
    _ = message.json()["order"]  # type: ignore[index]
    # A message is as it came.
    message.body = b""  # type: ignore[misc]
    await message.ack(True)  # type: ignore[call-arg]
    # A header that may be missing.
    _ = message.content_type.upper()  # type: ignore[union-attr]


async def transactions(client: trio_stomp.Client) -> None:
    tx = client.transaction()
    # A transaction is a block.
    await tx.send("/queue/a", b"")  # type: ignore[attr-defined]
    async with client.transaction() as opened:
        # COMMIT confirms all of it at once.
        await opened.send("/queue/a", b"", receipt=True)  # type: ignore[call-arg]
        # Messages are acknowledged, not their ids.
        await opened.ack("m-1")  # type: ignore[arg-type]


async def without_a_block() -> None:
    # A client is opened, then used.
    trio_stomp.open("stomp://localhost").subscribe("/queue/a")  # type: ignore[attr-defined]
    # An option that does not exist.
    await trio_stomp.open("stomp://localhost", logn="guest")  # type: ignore[call-arg]
    # connect() is a block.
    await trio_stomp.connect("stomp://localhost")  # type: ignore[misc]


async def large_bodies(client: trio_stomp.Client, path: Path) -> None:
    with path.open() as text:
        # A file of text.
        await client.send("/queue/a", text)  # type: ignore[arg-type]
    # A size as people write it.
    client.subscribe("/queue/a", spool_threshold_bytes="1 MiB")  # type: ignore[arg-type]


async def handle_on_a_loop(message: object) -> None:
    await trio.lowlevel.checkpoint()


def synchronous_code(client: trio_stomp.blocking.Client, subscription: trio_stomp.blocking.Subscription) -> None:
    # An option that does not exist.
    client.send("/queue/a", b"", persist=True)  # type: ignore[call-arg]
    # Seconds, not text.
    client.send("/queue/a", b"", timeout="5 s")  # type: ignore[arg-type]
    # Time limits are given by name.
    client.disconnect(5)  # type: ignore[call-arg]
    # Nothing is awaited.
    _ = client.wait_closed().result()  # type: ignore[attr-defined]
    with client.transaction() as transaction:
        # COMMIT confirms all of it at once.
        transaction.send("/queue/a", b"", receipt=True)  # type: ignore[call-arg]
    with client.publisher() as publisher:
        # A publisher confirms everything.
        publisher.send("/queue/a", b"", receipt=True)  # type: ignore[call-arg]
    # The parts of a client are read.
    client.version = None  # type: ignore[assignment]
    # An async handler in a thread does nothing.
    subscription.work(handle_on_a_loop)  # type: ignore[arg-type]
