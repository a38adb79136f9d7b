"""Where the simulation is put under the client: the place that opens connections, its stream, its random ids
and its time of day.

Everything here touches what is not promised, so that a change of the client's insides is a change of this file.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace

import anyio
import anyio.abc
import pytest
from anyio.lowlevel import checkpoint

from tests.simulation.network import End, Link, Pipe, Wrote
from trio_stomp import Client, Message
from trio_stomp.client.client import session_of
from trio_stomp.runtime import ByteStream
from trio_stomp.session import dialing
from trio_stomp.session.acks import tracker_of
from trio_stomp.testing import Broker
from trio_stomp.testing.conversation import Conversation
from trio_stomp.transport import StepFailed
from trio_stomp.transport.tcp import Address, tcp_failure

__all__ = ["ClientEnd", "link_of_client", "link_of_message", "serve", "under"]


class ClientEnd(End, ByteStream):
    """An end as a stream of the client's."""

    def __init__(self, link: Link, incoming: Pipe, outgoing: Pipe, wrote: Wrote) -> None:
        super().__init__(link, incoming, outgoing, wrote)
        self.writes_now = self.lends_reads = link.writes_at_once


class _BrokerEnd(End, ByteStream):
    """An end as a stream of the embedded broker's."""


def serve(link: Link, wrote: Wrote, broker: Broker, sessions: anyio.abc.TaskGroup) -> ClientEnd:
    """Begin to serve a link at a broker, and return the end of the client."""
    sessions.start_soon(broker.serve_stream, _BrokerEnd(link, link.from_client, link.to_client))
    return ClientEnd(link, link.to_client, link.from_client, wrote)


@contextmanager
def under(
    opened: Callable[[str], Awaitable[ClientEnd]],
    chance: random.Random,
    refused: Callable[[str], None],
) -> Generator[None]:
    """Put a network under the client for the length of a block.

    Args:
        opened: Opens a stream to the host of that name, or raises OSError.
        chance: Where random ids come from.
        refused: Called with the text of each ERROR that a broker sends.
    """

    async def look_up(host: str, port: int) -> list[Address]:
        await checkpoint()
        return [Address(socket.AF_INET, (host, port))]

    async def open_tcp(
        addresses: Sequence[Address], failed: dict[Address, StepFailed]
    ) -> tuple[Address, ClientEnd] | None:
        for address in addresses:
            try:
                return address, await opened(str(address))
            except OSError as error:
                failed[address] = tcp_failure(error)
        return None

    send_error = Conversation.send_error

    def noted_error(conversation: Conversation, message: str, details: str = "", **more: object) -> None:
        refused(f"{message}: {details}")
        send_error(conversation, message, details, **more)  # type: ignore[arg-type]  # as they came

    with pytest.MonkeyPatch.context() as patch:
        for module in ("trio_stomp.session.receipts", "trio_stomp.client.request"):
            patch.setattr(f"{module}.os", SimpleNamespace(urandom=chance.randbytes))
        for module in ("trio_stomp.session.send", "trio_stomp.client.dead_letters"):
            patch.setattr(f"{module}.time", SimpleNamespace(time=anyio.current_time))
        patch.setattr(dialing, "look_up", look_up)
        patch.setattr(dialing, "open_tcp", open_tcp)
        patch.setattr(Conversation, "send_error", noted_error)
        yield


def link_of_client(client: Client) -> Link:
    """The link of a client's newest connection."""
    return _link(session_of(client).connection.stream)


def link_of_message(message: Message) -> Link:
    """The link that a message came by."""
    return _link(tracker_of(message).connection.stream)


def _link(stream: ByteStream) -> Link:
    assert isinstance(stream, ClientEnd)
    return stream.link
