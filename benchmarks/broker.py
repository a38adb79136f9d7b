"""The embedded broker as a process: prints its URL, and drops all connections at each line that it reads."""

from __future__ import annotations

import sys

import trio

from trio_stomp.testing import open_broker

__all__ = ["main"]


async def main() -> None:
    """Serve until standard input ends, as it does when the contestant is gone."""
    async with open_broker() as broker:
        print(broker.url, flush=True)
        while await trio.to_thread.run_sync(sys.stdin.readline):
            broker.drop_connections()


if __name__ == "__main__":
    trio.run(main)
