"""What a crash leaves in a queue, whichever broker it is."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import trio

import trio_stomp

__all__ = ["IS_WHOLE", "Drained", "Target", "combinations"]

# Whether all combinations of faults run, which takes longer than CI has.
IS_WHOLE = os.environ.get("TRIO_STOMP_CRASHES") == "all"

T = TypeVar("T")


def combinations(each_day: list[T], others: list[T]) -> list[T]:
    """The combinations of faults that are tried: those for each day, and all others where that is wanted."""
    return [*each_day, *(each for each in others if IS_WHOLE and each not in each_day)]


# Artemis may pause for seconds in the middle of a queue whose sender was killed. A marker behind everything else would
# not do: what is not persistent overtakes what is.
PATIENCE = 20.0
# For copies, when everything is there once.
SHORT = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """What was in a queue.

    Attributes:
        bodies: All of it, in order.
        kept: What a consumer keeps that drops what bears the id of a message it has seen.
    """

    bodies: list[str]
    kept: list[str]

    @property
    def copies(self) -> int:
        """How many messages were there more than once."""
        return len(self.bodies) - len(self.kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A broker.

    Attributes:
        name: Its short name.
        address: Host and port.
        drops_duplicates: It drops a message that bears the id of an earlier one.
    """

    name: str
    address: str
    drops_duplicates: bool

    @property
    def url(self) -> str:
        """With a user who may."""
        return f"stomp://guest:guest@{self.address}"

    @property
    def options(self) -> dict[str, str]:
        """The options that reach it from Spark."""
        return {"brokers": self.address, "login": "guest", "password": "guest"}

    def new_queue(self) -> str:
        """A queue that no other test has; the name is one that the interop tests clean up."""
        return f"/queue/interop.crash{uuid.uuid4().hex[:12]}"

    def fill(self, queue: str, bodies: Iterable[str], *, ids: bool = True) -> None:
        """Put messages into a queue, with ids by which copies are known, or without."""
        trio.run(partial(self._fill, queue, list(bodies), ids=ids))

    async def _fill(self, queue: str, bodies: list[str], *, ids: bool) -> None:
        async with trio_stomp.connect(self.url) as client, client.publisher() as publisher:
            for body in bodies:
                identity = client.profile.stable_id(f"{queue}-{body}") if ids else ()
                await publisher.send(queue, body, headers=[*identity, ("persistent", "true")])

    def drain(self, queue: str, expected: set[str]) -> Drained:
        """Take everything out of a queue.

        Args:
            queue: Which one.
            expected: What should be in it; it is given up only when nothing has come for a long time.
        """
        return trio.run(self._drain, queue, expected)

    async def _drain(self, queue: str, expected: set[str]) -> Drained:
        bodies: list[str] = []
        kept: list[str] = []
        seen: set[str] = set()
        async with trio_stomp.connect(self.url) as client, client.subscribe(queue, prefetch=1000) as rest:
            while batch := await self._next(rest, SHORT if expected <= set(kept) else PATIENCE):
                for message in batch:
                    await message.ack()
                    bodies.append(message.text)
                    own = message.headers.get(client.profile.stable_id_header)
                    if own is None or own not in seen:
                        kept.append(message.text)
                    if own is not None:
                        seen.add(own)
        return Drained(bodies=bodies, kept=kept)

    @staticmethod
    async def _next(rest: trio_stomp.Subscription, seconds: float) -> list[trio_stomp.Message]:
        with trio.move_on_after(seconds):
            return await rest.receive_batch(1000)
        return []
