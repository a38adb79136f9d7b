"""What commands do about RECEIPTs that may never come: refuse to wait for them, or wait no longer than asked to."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import trio

from trio_stomp.cli.exit_codes import CommandFailed, ExitCode
from trio_stomp.client import Client, Phase, Publisher
from trio_stomp.nurseries import open_background_nursery

__all__ = ["open_patient_publisher", "require_receipts"]

# How many times the watch looks in one span of patience: so it ends late by a tenth at most.
_LOOKS: Final = 10


def require_receipts(client: Client) -> None:
    """Refuse to wait for what never comes.

    Raises:
        CommandFailed: The broker is known to send no RECEIPT.
    """
    if not client.profile.confirms:
        raise CommandFailed(f"{client.profile.name} sends no RECEIPT; use --no-receipt", ExitCode.USAGE)


@asynccontextmanager
async def open_patient_publisher(client: Client, max_in_flight: int, patience: float) -> AsyncGenerator[Publisher]:
    """A publisher for the length of a block, which fails when the broker confirms nothing.

    Args:
        client: The client.
        max_in_flight: How many messages may await their RECEIPT.
        patience: Seconds without a confirmation, while connected and with messages in flight, after which it fails.

    Raises:
        CommandFailed: The broker confirms nothing, or is known to send no RECEIPT.
        StompError: As `Client.publisher`.

    Cancellation: as `Client.publisher`.
    """
    require_receipts(client)
    watch = _Watch(client, patience)
    # The watch goes on while the publisher's block is left, and awaits what is still unconfirmed.
    async with open_background_nursery() as nursery, client.publisher(max_in_flight) as publisher:
        nursery.start_soon(watch.run, publisher, nursery.cancel_scope)
        yield publisher
    if watch.is_over:
        msg = (
            f"the broker has confirmed nothing for {patience:g} s (--patience), and what was sent may have arrived. If "
            "the broker sends no RECEIPT, use --no-receipt"
        )
        raise CommandFailed(msg, ExitCode.TIMED_OUT)


class _Watch:
    """Cancels a scope when the broker has confirmed nothing for so long.

    Attributes:
        is_over: Whether it has.
    """

    def __init__(self, client: Client, patience: float) -> None:
        self._client = client
        self._patience = patience
        self.is_over = False

    async def run(self, publisher: Publisher, scope: trio.CancelScope) -> None:
        """Look a few times in each span of patience."""
        confirmed, since = publisher.confirmed, trio.current_time()
        while trio.current_time() - since < self._patience:
            is_connected = self._client.state.phase is Phase.CONNECTED
            if publisher.confirmed != confirmed or not publisher.in_flight or not is_connected:
                confirmed, since = publisher.confirmed, trio.current_time()
            await trio.sleep(self._patience / _LOOKS)
        self.is_over = True
        scope.cancel()
