"""`connect` and `open`, for asyncio code."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from functools import partial

from trio_stomp.asyncio.client import Client, OpenClient
from trio_stomp.asyncio.crossing import Home, enter, stop
from trio_stomp.bridge import Bridge, Entered, Lane
from trio_stomp.brokers import Profile, ProfileName
from trio_stomp.client import Credentials, HeaderInput, Hooks, Reconnect, async_context
from trio_stomp.client import connect as trio_connect
from trio_stomp.protocol import Limits

__all__ = ["connect", "open"]


@async_context("connect()", "async with trio_stomp.asyncio.connect(...) as client:")
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

    Trio runs in a thread of its own, so heart-beats continue while the event loop is blocked.

    Leaving the block normally sends everything, awaits pending receipts and sends DISCONNECT. Leaving it with an
    exception or by cancellation closes the connection at once.

    Args:
        urls: ``stomp://user:passcode@host:port/vhost``, ``stomps://`` for TLS, ``ws://`` and ``wss://`` for WebSocket,
            ``stomp+unix:///path`` for a Unix socket, or a list of them to be tried in order.
        login: User name; overrides the one in the URL.
        passcode: Passcode; overrides the one in the URL. Never logged or shown.
        credentials: Async function that returns user name and passcode, called for each attempt to connect, in the
            event loop of this task. If it raises, the attempt fails.
        vhost: Virtual host; overrides the one in the URL. Default ``/``, which is RabbitMQ's own default; other brokers
            ignore it.
        versions: STOMP versions to offer.
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
        LocalProtocolError: Invalid option.
        StompError: On leaving: the failure of a call that did not wait, if no later call has raised it.

    Cancellation: the connection is closed. An exception of the block is raised as that same object.

    Spec: Connecting; DISCONNECT.
    """
    client = await open(
        urls,
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
    )
    async with client:
        yield client  # noqa: ASYNC119  # async_context is asynccontextmanager


async def open(  # noqa: A001  # it is used as trio_stomp.asyncio.open()
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
) -> Client:
    """Connect to a broker, until `Client.aclose`; for frameworks that have a hook for the start and one for the end.

    The arguments are those of `connect`.

    Returns:
        The connected Client.

    Raises:
        ConnectError: No host could be reached; it names the cause for each.
        AuthenticationError: A broker refused the credentials.
        LocalProtocolError: Invalid option.
        RuntimeError: asyncio is not running.

    Cancellation: what was opened is closed.

    Spec: Connecting.
    """
    _require_asyncio()
    manager = trio_connect(
        urls,
        login=login,
        passcode=passcode,
        credentials=None if credentials is None else _at_home(credentials),
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
    )
    bridge = Bridge()
    opened = False
    try:
        bridge.start()
        lane = Lane(bridge, keeps_context=bool(hooks))
        held = Entered(bridge, manager)
        await enter(bridge, held)
        opened = True
    finally:
        if not opened:
            await stop(bridge)  # noqa: ASYNC102  # asyncio has no scopes; the bridge ends this within its grace period
    return OpenClient(lane, held)


def _require_asyncio() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise RuntimeError(
            "trio_stomp.asyncio runs on asyncio, and asyncio is not running here. Use trio_stomp.connect() in code on "
            "trio, and trio_stomp.blocking.connect() in synchronous code"
        ) from None


def _at_home(credentials: Credentials) -> Callable[[], Awaitable[tuple[str, str]]]:
    return partial(Home().run, credentials)
