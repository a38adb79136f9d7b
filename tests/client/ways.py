"""Each way in which a client sends a message. All take the arguments of `Client.send`."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final, Protocol

import pytest

from trio_stomp import Client, OutgoingMessage, RequestTimeout

__all__ = ["EACH_VERB", "EACH_WAY", "Send", "confirmed", "plain"]


class Send(Protocol):
    def __call__(self, client: Client, /, *args: object, **options: object) -> Awaitable[None]: ...


async def plain(client: Client, /, *args: object, **options: object) -> None:
    await client.send(*args, **options)  # type: ignore[arg-type]  # any of them


async def confirmed(client: Client, /, *args: object, **options: object) -> None:
    await client.send(*args, receipt=True, **options)  # type: ignore[arg-type]  # any of them


async def in_bulk(client: Client, /, *args: object, **options: object) -> None:
    await client.send_many([OutgoingMessage(*args, **options)])  # type: ignore[arg-type]  # any of them


async def in_bulk_and_confirmed(client: Client, /, *args: object, **options: object) -> None:
    await client.send_many([OutgoingMessage(*args, **options)], receipt=True)  # type: ignore[arg-type]  # any of them


async def published(client: Client, /, *args: object, **options: object) -> None:
    async with client.publisher() as publisher:
        await publisher.send(*args, **options)  # type: ignore[arg-type]  # any of them


async def transacted(client: Client, /, *args: object, **options: object) -> None:
    async with client.transaction() as transaction:
        await transaction.send(*args, **options)  # type: ignore[arg-type]  # any of them


async def requested(client: Client, /, *args: object, **options: object) -> None:
    """Send a request that nobody answers."""
    with pytest.raises(RequestTimeout):
        await client.request(*args, timeout=30, **options)  # type: ignore[arg-type]  # any of them


EACH_WAY: Final = (plain, confirmed, in_bulk, in_bulk_and_confirmed, published, transacted, requested)
# Those that take an `OutgoingMessage` as well.
EACH_VERB: Final = pytest.mark.parametrize("send", [plain, confirmed, published, transacted, requested])
