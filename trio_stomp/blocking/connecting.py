"""`connect` and `open`, for synchronous code."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Literal

import trio

from trio_stomp.blocking.client import Client, OpenClient
from trio_stomp.brokers import Profile, ProfileName
from trio_stomp.client import Client as AsyncClient
from trio_stomp.client import HeaderInput, Hooks, Reconnect
from trio_stomp.client import connect as async_connect
from trio_stomp.errors import LocalProtocolError
from trio_stomp.protocol import Limits

__all__ = ["connect", "open"]

Credentials = Callable[[], tuple[str, str]]


@contextmanager
def connect(
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
) -> Generator[Client]:
    """Connect to a broker for the length of a ``with`` block.

    Leaving the block normally sends everything, awaits pending receipts and sends DISCONNECT. Leaving it with an
    exception, Ctrl-C included, closes the connection at once. Heart-beats go on in a thread of their own meanwhile.

    Args:
        urls: ``stomp://user:passcode@host:port/vhost``, ``stomps://`` for TLS, ``ws://`` and ``wss://`` for WebSocket,
            ``stomp+unix:///path`` for a Unix socket, or a list of them to be tried in order.
        login: User name; overrides the one in the URL.
        passcode: Passcode; overrides the one in the URL. Never logged or shown.
        credentials: Function that returns user name and passcode, called in a thread for each attempt to connect. If it
            raises, the attempt fails.
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

    Spec: Connecting; DISCONNECT.
    """
    with open(
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
    ) as client:
        yield client


def open(  # noqa: A001, D417  # it is used as trio_stomp.blocking.open(), and `connect` lists the arguments
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
    after_fork: Literal["refuse", "reopen"] = "refuse",
) -> Client:
    """Connect to a broker, until `Client.close`; for programs that have no block to put the connection into.

    A client that is still open when the interpreter exits is closed then, for at most two seconds. A process that ends
    without that, by ``os._exit`` or a signal, loses what was not written yet; so do the children that `multiprocessing`
    forks, if they do not call `Client.close`.

    Args:
        urls: As for `connect`, like all arguments up to `websocket_message_bytes`.
        after_fork: What the client does in a process that ``os.fork()`` has made of this one: ``refuse`` raises
            ConnectionClosed, and ``reopen`` connects once more when the client is first used there. Subscriptions,
            publishers and transactions stay with the process that opened them. The process that opened the client goes
            on with it in any case.

    Returns:
        The connected Client.

    Raises:
        ConnectError: No host could be reached; it names the cause for each.
        AuthenticationError: A broker refused the credentials.
        LocalProtocolError: Invalid option.

    Spec: Connecting.
    """
    if after_fork not in ("refuse", "reopen"):
        raise LocalProtocolError(f"after_fork must be 'refuse' or 'reopen', got {after_fork!r}")

    def dial() -> AbstractAsyncContextManager[AsyncClient]:
        return async_connect(
            urls,
            login=login,
            passcode=passcode,
            credentials=None if credentials is None else _in_thread(credentials),
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

    return OpenClient(dial, has_hooks=bool(hooks), reopens_after_fork=after_fork == "reopen")


def _in_thread(credentials: Credentials) -> Callable[[], Awaitable[tuple[str, str]]]:
    async def asked() -> tuple[str, str]:
        return await trio.to_thread.run_sync(credentials, abandon_on_cancel=True)

    return asked
