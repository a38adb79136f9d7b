"""Whether Artemis holds a message that it gives to nobody: its own counters say so.

docs/brokers.md, "How messages can be lost": now and then, when a connection breaks, a message stays "in delivery"
although no consumer is there. That is the one failure for which a test may be run again. A message that this library
had lost would not be counted so: it would have been acknowledged, or given back when the connection ended.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

import trio

import trio_stomp
from trio_stomp import Client

__all__ = ["HeldByBroker", "counters", "held"]

_MANAGEMENT: Final = "activemq.management"
_PATIENCE: Final = 10.0
# Consumers that are gone give back what they had within a moment; it is watched for five seconds.
_LOOKS: Final = 20
_LOOK_SECONDS: Final = 0.25


class HeldByBroker(AssertionError):
    """A test failed, and the broker counts a message as in delivery that no consumer is there for."""


async def counters(client: Client, queue: str) -> dict[str, int]:
    """What Artemis counts for a queue; nothing where it does not know the queue."""
    found: dict[str, int] = {}
    for name in ("MessageCount", "DeliveringCount", "ConsumerCount"):
        asked = {"_AMQ_ResourceName": f"queue.{queue.removeprefix('/queue/')}", "_AMQ_Attribute": name}
        reply = await client.request(_MANAGEMENT, b"", headers=asked, timeout=_PATIENCE)
        if reply.headers["_AMQ_OperationSucceeded"] != "true":
            return {}
        (value,) = json.loads(reply.text)
        found[name] = int(value)
    return found


async def held(url: str, queues: Iterable[str]) -> dict[str, dict[str, int]]:
    """The queues in which a message is in delivery while no consumer is there, and stays so.

    Args:
        url: The broker, with a user who may manage it.
        queues: Queues that are not in use any more.
    """
    found: dict[str, dict[str, int]] = {}
    async with trio_stomp.connect(url) as client:
        for queue in queues:
            counted = await counters(client, queue)
            for _ in range(_LOOKS):
                if not counted.get("DeliveringCount"):
                    break
                await trio.sleep(_LOOK_SECONDS)
                counted = await counters(client, queue)
            if counted.get("DeliveringCount") and not counted["ConsumerCount"]:
                found[queue] = counted
    return found
