"""From `connect` to the end of its block: the nursery of a client, and the exception that leaves the block.

Background tasks never raise (see `session.failures`), and the body is never canceled because a connection has ended.
The failure is raised by the next call that uses the connection. If there is no such call, leaving the block raises it.
An exception of the body leaves as that same object (see `trio_stomp.nurseries`).
"""

from __future__ import annotations

import dataclasses
import logging
import ssl
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import anyio.abc
import trio

from trio_stomp.brokers import Profile, ProfileName
from trio_stomp.client.async_context import async_context
from trio_stomp.client.client import Client
from trio_stomp.nurseries import open_background_nursery
from trio_stomp.protocol import Limits
from trio_stomp.session import (
    ConnectOptions,
    Credentials,
    HeaderInput,
    Hooks,
    Link,
    Outage,
    Reconnect,
    Session,
    Settings,
    add_note,
    dial_again,
    dial_in_order,
    guarded,
    supervise,
)
from trio_stomp.transport import OWN_STREAM, Endpoint, as_trio_stream

__all__ = ["connect", "connect_stream"]

logger: Final = logging.getLogger("trio_stomp")


@async_context("connect()", "async with trio_stomp.connect(...) as client:")
async def connect(
    urls: str | Sequence[str],
    *,
    login: str | None = None,
    passcode: str | None = None,
    credentials: Credentials | None = None,
    vhost: str | None = None,
    versions: Sequence[str] = ("1.0", "1.1", "1.2"),
    heart_beat: tuple[float, float] = (10, 10),
    heart_beat_margin: float = 2.5,
    tls: ssl.SSLContext | bool = False,
    limits: Limits | None = None,
    profile: Profile | ProfileName | None = None,
    connect_timeout: float = 10,
    disconnect_timeout: float = 10,
    outbox_bytes: int = 1024 * 1024,
    reconnect: Reconnect | bool | None = None,
    stagger: float | None = None,
    unconfirmed_messages: int = 100_000,
    unconfirmed_bytes: int = 64 * 1024 * 1024,
    headers: HeaderInput | None = None,
    hooks: Hooks | Sequence[Hooks] = (),
    proxy: str | None = None,
    websocket_headers: HeaderInput | None = None,
    websocket_message_bytes: int | None = None,
) -> AsyncGenerator[Client]:
    """Connect to a broker for the length of an ``async with`` block.

    Leaving the block normally sends everything, awaits pending receipts and sends DISCONNECT. Leaving it with an
    exception or by cancellation closes the connection at once.

    Args:
        urls: ``stomp://user:passcode@host:port/vhost``, ``stomps://`` for TLS, ``ws://`` and ``wss://`` for WebSocket,
            ``stomp+unix:///path`` for a Unix socket, or a list of them to be tried in order.
        login: User name; overrides the one in the URL.
        passcode: Passcode; overrides the one in the URL. Never logged or shown.
        credentials: Async function that returns user name and passcode, called for each attempt to connect. If it
            raises, the attempt fails.
        vhost: Virtual host; overrides the one in the URL. Default ``/``, which is RabbitMQ's own default; other brokers
            ignore it.
        versions: STOMP versions to offer. ``["draft"]``, alone, is the early draft of STOMP 1.0, for a server that
            speaks nothing later: no `vhost`, no heart-beats, and only header names and values that the draft allows.
        heart_beat: Seconds between heart-beats, sent and received; 0 turns a direction off. Brokers count whole
            seconds, so offer at least 1.
        heart_beat_margin: Missed intervals after which the broker is considered dead. Brokers may let the first gap
            grow to two intervals.
        tls: TLS context, or True for Python's default context, as with ``stomps://``. A connection that asks for TLS
            never falls back to plaintext.
        limits: Bounds on what the broker may send. Default: `Limits()`.
        profile: The broker, by name or as a Profile, if its ``server`` header does not identify it.
        connect_timeout: Seconds for each host: DNS, TCP, TLS and CONNECT together.
        disconnect_timeout: Seconds for a graceful shutdown: pending receipts, DISCONNECT and its RECEIPT.
        outbox_bytes: How many bytes may wait to be written before `send` and the other methods wait.
        reconnect: Reconnect when the connection is lost, by this policy; True means ``Reconnect()``. Default: a loss
            closes the client.
        stagger: Seconds after which the next host of the list is tried as well; the first that connects is used.
            Default: one host after the other.
        unconfirmed_messages: How many sent messages may await their RECEIPT, across all tasks and publishers, before
            the next one waits.
        unconfirmed_bytes: How many bytes their bodies may have in total.
        headers: More headers for CONNECT, such as ``client-id``.
        hooks: Called for connections, sent messages, deliveries and acknowledgments; see `Hooks`.
        proxy: Proxy to connect through: ``socks5://user:passcode@host:port``, or ``http://`` for HTTP CONNECT. The
            proxy looks up host names. Requires the extra ``proxy``. Ignored for Unix sockets.
        websocket_headers: More headers for the HTTP request that opens a WebSocket, such as ``Authorization``.
        websocket_message_bytes: Longest WebSocket message to send; longer frames are split. Only for brokers that join
            them, as Spring does. Default: 8192 for Spring (Tomcat's buffer); elsewhere one message for each frame.

    Yields:
        The connected Client.

    Raises:
        ConnectError: No host could be reached; it names the cause for each.
        AuthenticationError: A broker refused the credentials.
        ConnectionLost: On leaving: the connection was lost, and no call in the block has raised that. With
            ``reconnect=``, only if it was lost for good.
        BrokerError: On leaving: the broker has refused a message that was sent without a receipt, and no call in the
            block has raised that.
        LocalProtocolError: Invalid option.
        RuntimeError: Not called from trio.

    Cancellation: the connection is closed. An exception of the block is raised as that same object.

    Spec: Connecting; DISCONNECT.
    """
    _require_trio()
    settings = Settings.of(
        urls,
        ConnectOptions(
            login=login,
            passcode=passcode,
            credentials=credentials,
            vhost=vhost,
            versions=versions,
            heart_beat=heart_beat,
            heart_beat_margin=heart_beat_margin,
            tls=tls,
            limits=limits,
            profile=profile,
            connect_timeout=connect_timeout,
            disconnect_timeout=disconnect_timeout,
            outbox_bytes=outbox_bytes,
            reconnect=reconnect,
            stagger=stagger,
            unconfirmed_messages=unconfirmed_messages,
            unconfirmed_bytes=unconfirmed_bytes,
            headers=headers,
            hooks=hooks,
            proxy=proxy,
            websocket_headers=websocket_headers,
            websocket_message_bytes=websocket_message_bytes,
        ),
    )
    policy = settings.reconnect
    if policy is not None and policy.retry_first:
        outage = Outage(policy, settings)
        link = await dial_again(outage)
        if outage.attempts > 1:
            logger.info("connected to %s at attempt %d", link.endpoint, outage.attempts)
    else:
        link = await dial_in_order(settings)
    async with _serve(link, settings) as client:
        yield client  # noqa: ASYNC119  # async_context is asynccontextmanager


@async_context("connect_stream()", "async with trio_stomp.connect_stream(stream) as client:")
async def connect_stream(
    stream: trio.abc.Stream | anyio.abc.ByteStream,
    *,
    login: str | None = None,
    passcode: str | None = None,
    credentials: Credentials | None = None,
    vhost: str | None = None,
    versions: Sequence[str] = ("1.0", "1.1", "1.2"),
    heart_beat: tuple[float, float] = (10, 10),
    heart_beat_margin: float = 2.5,
    limits: Limits | None = None,
    profile: Profile | ProfileName | None = None,
    connect_timeout: float = 10,
    disconnect_timeout: float = 10,
    outbox_bytes: int = 1024 * 1024,
    unconfirmed_messages: int = 100_000,
    unconfirmed_bytes: int = 64 * 1024 * 1024,
    headers: HeaderInput | None = None,
    hooks: Hooks | Sequence[Hooks] = (),
) -> AsyncGenerator[Client]:
    """Connect over a stream that you opened; it is closed at the end.

    The options are those of `connect`, without the ones that choose a host or a transport.

    Args:
        stream: Any bidirectional byte stream with a STOMP broker at the other end: one of trio's or anyio's.
        login: User name; overrides the one in the URL.
        passcode: Passcode; overrides the one in the URL. Never logged or shown.
        credentials: Async function that returns user name and passcode. If it raises, the connection fails.
        vhost: Virtual host; overrides the one in the URL. Default ``/``, which is RabbitMQ's own default; other brokers
            ignore it.
        versions: STOMP versions to offer. ``["draft"]``, alone, is the early draft of STOMP 1.0, for a server that
            speaks nothing later: no `vhost`, no heart-beats, and only header names and values that the draft allows.
        heart_beat: Seconds between heart-beats, sent and received; 0 turns a direction off. Brokers count whole
            seconds, so offer at least 1.
        heart_beat_margin: Missed intervals after which the broker is considered dead. Brokers may let the first gap
            grow to two intervals.
        limits: Bounds on what the broker may send. Default: `Limits()`.
        profile: The broker, by name or as a Profile, if its ``server`` header does not identify it.
        connect_timeout: Seconds until the broker must have answered CONNECT.
        disconnect_timeout: Seconds for a graceful shutdown: pending receipts, DISCONNECT and its RECEIPT.
        outbox_bytes: How many bytes may wait to be written before `send` and the other methods wait.
        unconfirmed_messages: How many sent messages may await their RECEIPT, across all tasks and publishers, before
            the next one waits.
        unconfirmed_bytes: How many bytes their bodies may have in total.
        headers: More headers for CONNECT, such as ``client-id``.
        hooks: Called for connections, sent messages, deliveries and acknowledgments; see `Hooks`.

    Yields:
        The connected Client.

    Raises:
        ConnectError: The broker did not accept the CONNECT.
        ConnectionLost: On leaving: the connection was lost, and no call in the block has raised that.
        BrokerError: On leaving: the broker has refused a message that was sent without a receipt, as with `connect`.
        LocalProtocolError: Invalid option.
        RuntimeError: Not called from trio.

    Cancellation: as `connect`.
    """
    _require_trio()
    own = as_trio_stream(stream)

    async def brought(_endpoint: Endpoint) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        return own

    is_linked = False
    try:
        settings = Settings.of(
            OWN_STREAM,
            ConnectOptions(
                login=login,
                passcode=passcode,
                credentials=credentials,
                vhost=vhost,
                versions=versions,
                heart_beat=heart_beat,
                heart_beat_margin=heart_beat_margin,
                limits=limits,
                profile=profile,
                connect_timeout=connect_timeout,
                disconnect_timeout=disconnect_timeout,
                outbox_bytes=outbox_bytes,
                unconfirmed_messages=unconfirmed_messages,
                unconfirmed_bytes=unconfirmed_bytes,
                headers=headers,
                hooks=hooks,
            ),
        )
        settings = dataclasses.replace(settings, open_stream=brought)
        link = await dial_in_order(settings)
        is_linked = True
    finally:
        # Nothing else closes it after an invalid option, or a cancellation before the first step.
        if not is_linked:
            await trio.aclose_forcefully(own)
    async with _serve(link, settings) as client:
        yield client  # noqa: ASYNC119  # async_context is asynccontextmanager


def _require_trio() -> None:
    if not trio.lowlevel.in_trio_run():
        raise RuntimeError(
            "trio_stomp.connect() runs on trio, and trio is not running here. Start your program with trio.run(main) "
            "instead of asyncio.run(main()), or use trio_stomp.asyncio.connect() from asyncio code and "
            "trio_stomp.blocking.connect() from synchronous code"
        )


@asynccontextmanager
async def _serve(link: Link, settings: Settings) -> AsyncGenerator[Client]:
    session = Session(link, settings)
    # Shielded: a body that shields its last steps from a cancellation, as `work` does, still needs the connection.
    background = trio.CancelScope(shield=True)
    async with open_background_nursery() as nursery:
        nursery.start_soon(_supervise_in, background, session)
        try:
            yield Client(session)
            # A disconnect() that was canceled is not repeated: the program chose to lose what was not sent yet.
            if not session.is_leaving:
                await session.leave()
        except Exception as error:
            _note_unnoticed(session, error)
            raise
        finally:
            session.close()
            background.cancel()
    session.raise_unseen()


async def _supervise_in(scope: trio.CancelScope, session: Session) -> None:
    with scope:
        await guarded(supervise, session)


def _note_unnoticed(session: Session, error: Exception) -> None:
    """Add a failure that the program has not seen to the exception of the body, as a note."""
    failure = session.unseen_failure()
    if failure is not None:
        add_note(error, f"the connection had failed, too: {failure}")
