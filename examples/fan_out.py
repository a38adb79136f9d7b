"""Publish to every subscriber of a topic, and share a queue among consumers.

    python examples/fan_out.py                                         an embedded broker
    python examples/fan_out.py --url stomp://guest:guest@localhost     your own broker

A topic sends a copy of each message to every current subscription. A queue stores messages, and sends each to one of
its consumers.
"""

from __future__ import annotations

import argparse
import functools
import uuid
from collections import Counter

import trio

import trio_stomp
from trio_stomp.testing import open_broker

READERS = ("Ann", "Bob", "Cleo")
HEADLINES = ("coffee is ready", "tea is sold out")
PACKERS = 3
PARCELS = 12
SECONDS_TO_PACK = 0.02


async def read_news(url: str, topic: str, name: str, *, task_status: trio.TaskStatus) -> None:  # noqa: ASYNC114  # it is started in this module alone
    """Read every headline."""
    # An unhandled headline is no loss, so the subscription needs no acknowledgments.
    async with trio_stomp.connect(url) as client, client.subscribe(topic, ack="auto") as news:
        task_status.started()
        for _ in HEADLINES:
            headline = await anext(news)
            print(f"{name} reads: {headline.text}")


async def publish_to_all(url: str, topic: str) -> None:
    """Publish headlines once all readers have subscribed, because a topic stores nothing."""
    async with trio_stomp.connect(url) as client, trio.open_nursery() as nursery:
        for name in READERS:
            await nursery.start(read_news, url, topic, name)
        for headline in HEADLINES:
            await client.send(topic, headline, receipt=True)


class Warehouse:
    """Several packers, each with its own connection, like separate processes."""

    def __init__(self, queue: str) -> None:
        self._queue = queue
        self._packed = Counter[str]()
        self._finished = trio.Event()

    async def pack(self, url: str, name: str) -> None:
        """Pack parcels."""
        # With a prefetch of 1, no packer holds parcels that another could pack.
        async with trio_stomp.connect(url) as client, client.subscribe(self._queue, prefetch=1) as parcels:
            async for parcel in parcels:
                async with parcel:
                    await trio.sleep(SECONDS_TO_PACK)
                    print(f"{name} packs {parcel.text}")
                    self._packed[parcel.text] += 1
                if len(self._packed) == PARCELS:
                    self._finished.set()

    async def share(self, url: str) -> None:
        """Have every parcel packed once."""
        async with trio_stomp.connect(url) as client, trio.open_nursery() as nursery:
            for number in range(PACKERS):
                nursery.start_soon(self.pack, url, f"packer {number + 1}")
            # A queue stores messages until consumers arrive.
            async with client.publisher() as publisher:
                for number in range(PARCELS):
                    await publisher.send(self._queue, f"parcel {number + 1}")
            await self._finished.wait()
            nursery.cancel_scope.cancel()
        print(f"{self._packed.total()} parcels packed, {len(self._packed)} different ones")


async def run(url: str) -> None:
    """Run both parts, with unique destinations."""
    run_id = uuid.uuid4().hex[:8]
    await publish_to_all(url, f"/topic/fan-out-{run_id}")
    await Warehouse(f"/queue/fan-out-{run_id}").share(url)


async def run_by_itself() -> None:
    """Run with an embedded broker."""
    async with open_broker() as broker:
        await run(broker.url)


def main(arguments: list[str] | None = None) -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="your own broker; default: an embedded one")
    url: str | None = parser.parse_args(arguments).url
    trio.run(run_by_itself if url is None else functools.partial(run, url))


if __name__ == "__main__":
    main()
