"""What every scenario works with: one broker, one version of STOMP, names that nobody else uses."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, TypeAlias, Unpack

import pytest
import trio

import trio_stomp
from tests.interop.broker_facts import Broker, Facts
from trio_stomp import Client, ConnectError, Message, Subscription
from trio_stomp.types import AckName, ConnectOptions

# What the fixture `destination` gives: it names a queue of the test alone.
Destination: TypeAlias = Callable[[str], str]
# Brokers and tests share two cores with others: "it never comes" must not be said too early ...
PATIENCE: Final = 10.0
# ... and "nothing more comes" costs this much each time that it is looked at.
QUIET: Final = 0.4


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """A broker, spoken to in one version.

    Attributes:
        broker: The broker.
        version: The only version that its clients offer.
        queues: The queues that were named, to look at after a failure.
    """

    broker: Broker
    version: str
    queues: list[str] = field(default_factory=list[str])

    @property
    def facts(self) -> Facts:
        """What the broker does its own way."""
        return self.broker.facts

    @property
    def modes(self) -> Sequence[AckName]:
        """The ack modes of the version in which messages are settled; the first is the plainest."""
        return ("client",) if self.version == "1.0" else ("client-individual", "client")

    def queue(self, prefix: str = "") -> str:
        """A queue that nobody else uses."""
        self.queues.append(f"/queue/{prefix}interop.{uuid.uuid4().hex}")
        return self.queues[-1]

    def topic(self) -> str:
        """A topic that nobody else uses."""
        return f"/topic/interop.{uuid.uuid4().hex}"

    def connect(
        self, *, user: str = "guest:guest", url: str | None = None, **options: Unpack[ConnectOptions]
    ) -> AbstractAsyncContextManager[Client]:
        """Connect in the version of this bench."""
        given: ConnectOptions = {"connect_timeout": PATIENCE, **self.broker.options(self.version), **options}
        return trio_stomp.connect(url or self.broker.url(user=user), **given)

    async def refused(self, url: str | None = None, **options: Unpack[ConnectOptions]) -> ConnectError:
        """Try to connect, which must fail; returns why it does."""
        with trio.fail_after(3 * PATIENCE), pytest.raises(ConnectError) as caught:
            async with self.connect(url=url, **options):
                pytest.fail("it has connected")
        return caught.value

    @asynccontextmanager
    async def pair(self) -> AsyncGenerator[tuple[Client, Client]]:
        """Two connected clients."""
        async with self.connect() as one, self.connect() as other:
            yield one, other

    async def fill(self, client: Client, destination: str, count: int) -> list[str]:
        """Send numbered messages and wait until they are stored; returns their bodies."""
        bodies = [str(number) for number in range(count)]
        for body in bodies[:-1]:
            await client.send(destination, body)
        # The last one's RECEIPT says that all are stored: each of these brokers takes one connection's frames in order.
        await client.send(destination, bodies[-1], receipt=True)
        return bodies

    async def left(self, client: Client, destination: str) -> list[str]:
        """What is left in a queue, taken out of it."""
        async with client.subscribe(destination, ack="auto", prefetch=1000) as subscription:
            return [message.text for message in await whatever_comes(subscription)]


async def take(subscription: Subscription, count: int) -> list[Message]:
    """Take so many messages, which must come."""
    messages: list[Message] = []
    with trio.fail_after(PATIENCE):
        while len(messages) < count:
            messages.append(await anext(subscription))
    return messages


async def whatever_comes(subscription: Subscription, quiet: float = QUIET) -> list[Message]:
    """Take messages until none has come for a while."""
    messages: list[Message] = []
    while True:
        with trio.move_on_after(quiet) as scope:
            messages.append(await anext(subscription))
        if scope.cancelled_caught:
            return messages
