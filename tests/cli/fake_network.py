"""A network in memory: hosts with addresses, and what answers at their ports."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import trio

from trio_stomp.testing import open_memory_links

__all__ = ["FakeNetwork", "Port", "says", "silent"]

Hosts = dict[str, Sequence[str] | Exception | None]
Port = Callable[[trio.abc.Stream], Awaitable[None]]


async def silent(stream: trio.abc.Stream) -> None:
    """Take everything and say nothing."""
    async for _ in stream:
        pass


def says(octets: bytes) -> Port:
    """Answer the first octets with these, and close."""

    async def answer(stream: trio.abc.Stream) -> None:
        await stream.receive_some()
        await stream.send_all(octets)
        await stream.aclose()

    return answer


@dataclass
class FakeNetwork:
    """What the doctor sees of the world.

    Attributes:
        nursery: Where the ports run.
        ports: By address and port: what answers there, the error of connecting, or None for no answer at all.
        hosts: By name: the addresses, or the error of looking it up, or None for no answer at all.
        opened: What was connected to.
    """

    nursery: trio.Nursery
    ports: Mapping[tuple[str, int], Port | OSError | None]
    hosts: Hosts = field(default_factory=Hosts)
    opened: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])

    async def resolve(self, host: str, port: int) -> list[str]:
        await trio.lowlevel.checkpoint()
        found = self.hosts[host]
        if isinstance(found, Exception):
            raise found
        if found is None:
            await trio.sleep_forever()
        return list(found)

    async def open(self, address: str, port: int) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        self.opened.append((address, port))
        found = self.ports.get((address, port), ConnectionRefusedError(111, "Connection refused"))
        if isinstance(found, OSError):
            raise found
        if found is None:
            await trio.sleep_forever()
        ours, theirs = open_memory_links()
        self.nursery.start_soon(found, theirs)
        return ours
