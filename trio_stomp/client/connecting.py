"""From `connect` to the end of its block: the nursery of a connection, and what leaves it.

The error policy in one place. The services of a connection never raise (see `services.guarded`), and the body is never
cancelled for the connection's sake: what ended the connection is raised to whoever uses it, and if nobody did, to
whoever leaves the block. An exception of the body leaves as that same object (see `trio_stomp.nurseries`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Unpack

import anyio.abc
import trio

from trio_stomp.client.client import Client
from trio_stomp.errors import LocalProtocolError
from trio_stomp.nurseries import open_background_nursery
from trio_stomp.session import ConnectOptions, Link, Outage, Session, Settings, dial_in_order, guarded, leave, supervise
from trio_stomp.transport import Endpoint, as_trio_stream

__all__ = ["connect", "connect_stream"]


@asynccontextmanager
async def connect(urls: str | Sequence[str], **options: Unpack[ConnectOptions]) -> AsyncGenerator[Client]:
    """Connect to a broker for the length of an ``async with`` block.

    Leaving the block well sends everything, awaits pending receipts and says DISCONNECT. Leaving it by an exception or
    cancellation closes the connection at once.

    Args:
        urls: ``stomp://user:passcode@host:port/vhost``, ``stomps://`` for TLS, ``ws://`` and ``wss://`` for WebSocket,
            ``stomp+unix:///path`` for a Unix socket, or a list of them to be tried in order.
        **options: See `ConnectOptions`.

    Yields:
        The Client, connected.

    Raises:
        ConnectError: No host could be connected to; it holds one reason for each.
        AuthenticationError: A broker refused the credentials.
        ConnectionLost: On leaving: the connection was lost and nothing in the block had noticed. With ``reconnect=``:
            only when it was lost for good.
        LocalProtocolError: An option cannot be meant.
        TypeError: There is no such option.

    Cancellation: what was opened is closed. An exception of the block leaves as that same object.

    Spec: Connecting; DISCONNECT.
    """
    settings = Settings.of(urls, options)
    policy = settings.reconnect
    if policy is not None and policy.retry_first:
        link = await Outage(policy, settings).dial(None, lambda _phase, _cause, _attempt: None)
    else:
        link = await dial_in_order(settings)
    async with _serve(link, settings) as client:
        yield client


@asynccontextmanager
async def connect_stream(
    stream: trio.abc.Stream | anyio.abc.ByteStream, **options: Unpack[ConnectOptions]
) -> AsyncGenerator[Client]:
    """`connect` over a stream that you bring; it is closed in the end.

    Args:
        stream: Any two-way stream of octets with a STOMP broker behind it: one of trio's, or a byte stream of
            anyio's.
        **options: See `ConnectOptions`.

    Yields:
        The Client, connected.

    Raises:
        ConnectError: The broker behind the stream did not take the CONNECT.
        ConnectionLost: On leaving: the connection was lost and nothing in the block had noticed.
        LocalProtocolError: An option cannot be meant.
        TypeError: There is no such option.

    Cancellation: as `connect`.
    """
    settings = Settings.of("stomp://stream", options)
    if settings.reconnect is not None:
        msg = "connect_stream() has only the one stream and cannot reconnect; use connect(), or leave out reconnect="
        raise LocalProtocolError(msg)

    async def brought(_endpoint: Endpoint) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        return as_trio_stream(stream)

    settings = dataclasses.replace(settings, open_stream=brought)
    link = await dial_in_order(settings)
    async with _serve(link, settings) as client:
        yield client


@asynccontextmanager
async def _serve(link: Link, settings: Settings) -> AsyncGenerator[Client]:
    session = Session(link, settings)
    async with open_background_nursery() as nursery:
        nursery.start_soon(guarded, supervise, session)
        try:
            yield Client(session)
            # A disconnect() that was cancelled is not said again: what it had not sent yet is lost by intent.
            if session.failure is None and not session.closing:
                await leave(session, settings.disconnect_timeout)
        except Exception as error:
            _note_unnoticed(session, error)
            raise
        finally:
            session.close()
    if session.failure is not None and not session.was_noticed:
        raise session.raisable(session.failure)


def _note_unnoticed(session: Session, error: Exception) -> None:
    """The body's exception leaves as itself; a loss that nobody noticed goes with it as a note."""
    if session.failure is not None and not session.was_noticed:
        error.add_note(f"besides, the connection had failed: {session.failure}")
