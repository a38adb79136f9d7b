"""One message for everybody who listens, and one message for exactly one of many: a topic and a queue.

    python examples/fan_out.py                                         an embedded broker
    python examples/fan_out.py --url stomp://guest:guest@localhost     a broker of your own

A topic gives each subscription a copy of what is sent while it stands. A queue keeps what is sent, and gives each
message to one of its consumers: start more of them, and the work is shared.
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
HEADLINES = ("coffee is up", "tea is down")
PACKERS = 3
PARCELS = 12
SECONDS_TO_PACK = 0.02


async def read_news(url: str, topic: str, name: str, *, task_status: trio.TaskStatus) -> None:  # noqa: ASYNC114  # it is started in this module alone
    """Read every headline."""
    # Nothing is lost with a headline that is not acknowledged, so nothing is: that saves the ACK.
    async with trio_stomp.connect(url) as client, client.subscribe(topic, ack="auto") as news:
        task_status.started()
        for _ in HEADLINES:
            headline = await anext(news)
            print(f"{name} reads: {headline.text}")


async def publish_to_all(url: str, topic: str) -> None:
    """Publish headlines once all readers have subscribed: a topic keeps nothing for those who come later."""
    async with trio_stomp.connect(url) as client, trio.open_nursery() as nursery:
        for name in READERS:
            await nursery.start(read_news, url, topic, name)
        for headline in HEADLINES:
            await client.send(topic, headline, receipt=True)


class Warehouse:
    """Several packers, each of whom has a connection of its own, as if it were a process of its own."""

    def __init__(self, queue: str) -> None:
        self._queue = queue
        self._packed = Counter[str]()
        self._finished = trio.Event()

    async def pack(self, url: str, name: str) -> None:
        """Take parcel after parcel."""
        # With a prefetch of one nobody hoards parcels that another one could pack meanwhile.
        async with trio_stomp.connect(url) as client, client.subscribe(self._queue, prefetch=1) as parcels:
            async for parcel in parcels:
                async with parcel:
                    await trio.sleep(SECONDS_TO_PACK)
                    print(f"{name} packs {parcel.text}")
                    self._packed[parcel.text] += 1
                if len(self._packed) == PARCELS:
                    self._finished.set()

    async def share(self, url: str) -> None:
        """Have all parcels packed, each once."""
        async with trio_stomp.connect(url) as client, trio.open_nursery() as nursery:
            for number in range(PACKERS):
                nursery.start_soon(self.pack, url, f"packer {number + 1}")
            # A queue keeps what comes before its consumers do.
            async with client.publisher() as publisher:
                for number in range(PARCELS):
                    await publisher.send(self._queue, f"parcel {number + 1}")
            await self._finished.wait()
            nursery.cancel_scope.cancel()
        print(f"{self._packed.total()} parcels packed, {len(self._packed)} different ones")


async def run(url: str) -> None:
    """Show both, with names that no other run uses."""
    run_id = uuid.uuid4().hex[:8]
    await publish_to_all(url, f"/topic/fan-out-{run_id}")
    await Warehouse(f"/queue/fan-out-{run_id}").share(url)


async def run_by_itself() -> None:
    """Run with an embedded broker."""
    async with open_broker() as broker:
        await run(broker.url)


def main(arguments: list[str] | None = None) -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="a broker of your own; default: an embedded one")
    url: str | None = parser.parse_args(arguments).url
    trio.run(run_by_itself if url is None else functools.partial(run, url))


if __name__ == "__main__":
    main()
