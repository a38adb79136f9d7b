"""`connect` for synchronous code."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Unpack

import trio

from trio_stomp.blocking.lane import Finish, Lane
from trio_stomp.blocking.pump import Pump
from trio_stomp.blocking.sync_client import Client
from trio_stomp.blocking.trio_thread import Entered, open_trio_thread
from trio_stomp.client import Client as AsyncClient
from trio_stomp.client import CommonOptions
from trio_stomp.client import connect as async_connect

__all__ = ["connect"]

Credentials = Callable[[], tuple[str, str]]


@contextmanager
def connect(
    urls: str | Sequence[str], *, credentials: Credentials | None = None, **options: Unpack[CommonOptions]
) -> Generator[Client]:
    """Connect to a broker for the length of a ``with`` block.

    Leaving the block well sends everything, awaits pending receipts and says DISCONNECT. Leaving it by an exception,
    Ctrl-C included, closes the connection at once. Heart-beats go on in a thread of their own meanwhile.

    Args:
        urls: ``stomp://user:passcode@host:port/vhost``, ``stomps://`` for TLS, ``ws://`` and ``wss://`` for WebSocket,
            ``stomp+unix:///path`` for a Unix socket, or a list of them to be tried in order.
        credentials: Function that returns user and passcode; called for each attempt to connect, in another thread.
        **options: All others of `trio_stomp.ConnectOptions`.

    Yields:
        The Client, connected.

    Raises:
        ConnectError: No host could be connected to; it holds one reason for each.
        AuthenticationError: A broker refused the credentials.
        ConnectionLost: On leaving: the connection was lost and nothing in the block had noticed. With ``reconnect=``:
            only when it was lost for good.
        LocalProtocolError: An option cannot be meant.
        TypeError: There is no such option.
        StompError: On leaving: what failed of the calls that do not wait, where no later call has raised it.

    Spec: Connecting; DISCONNECT.
    """
    manager = _opening(urls, credentials, **options)
    with open_trio_thread() as thread:
        pump = Pump(thread)
        thread.serve(pump.run)
        lane = Lane(thread, pump, keeps_context="hooks" in options)
        with Entered(thread, manager) as inner:
            client = Client(lane, inner)
            with Finish(lane):
                yield client
        client.note_end()
        lane.raise_failure()


def _opening(
    urls: str | Sequence[str], credentials: Credentials | None, **options: Unpack[CommonOptions]
) -> AbstractAsyncContextManager[AsyncClient]:
    if credentials is None:
        return async_connect(urls, **options)

    async def asked() -> tuple[str, str]:
        return await trio.to_thread.run_sync(credentials, abandon_on_cancel=True)

    return async_connect(urls, credentials=asked, **options)
