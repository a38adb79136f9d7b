"""From `connect` to the end of its block: the nursery of a client, and the exception that leaves the block.

Background tasks never raise (see `session.failures`), and the body is never canceled because a connection has ended.
The failure is raised by the next call that uses the connection. If there is no such call, leaving the block raises it.
An exception of the body leaves as that same object (see `trio_stomp.runtime.leaving`).
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import logging
import ssl
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Final, ParamSpec, TypeAlias

import anyio
import anyio.abc
import anyio.lowlevel

from trio_stomp.brokers import Profile, ProfileName
from trio_stomp.client.client import Client, Opened
from trio_stomp.client.docstrings import with_arguments_of
from trio_stomp.errors import ConnectionLost
from trio_stomp.protocol import Limits
from trio_stomp.runtime import (
    ByteStream,
    Stop,
    as_byte_stream,
    async_context,
    background,
    detached,
    enable_ki_protection,
    require_loop,
    with_usage,
)
from trio_stomp.session import (
    Credentials,
    HeaderInput,
    Hooks,
    Reconnect,
    Session,
    Settings,
    add_note,
    first_link,
    supervise,
)
from trio_stomp.transport import OWN_STREAM, Endpoint

if TYPE_CHECKING:
    import trio

__all__ = ["connect", "connect_stream", "open"]

logger: Final = logging.getLogger("trio_stomp")

P = ParamSpec("P")

# What runs the background tasks of a client: `background` or, in `open`, `detached`.
_Serves: TypeAlias = Callable[[Callable[[], Awaitable[None]]], AbstractAsyncContextManager[Stop]]
_serves: Final[ContextVar[_Serves]] = ContextVar("_serves", default=background)


def connect(
    urls: str | Sequence[str],
    *,
    login: str | None = None,
    passcode: str | None = None,
    credentials: Credentials | None = None,
    vhost: str | None = None,
    headers: HeaderInput | None = None,
    versions: Sequence[str] = ("1.0", "1.1", "1.2"),
    profile: Profile | ProfileName | None = None,
    heart_beat: tuple[float, float] = (10, 10),
    heart_beat_margin: float = 2.5,
    tls: ssl.SSLContext | bool = False,
    proxy: str | None = None,
    websocket_headers: HeaderInput | None = None,
    websocket_message_bytes: int | None = None,
    timeout: float | None = None,
    connect_timeout: float = 10,
    disconnect_timeout: float = 10,
    reconnect: Reconnect | bool | None = None,
    connect_attempt_delay: float | None = None,
    limits: Limits | None = None,
    outbox_bytes: int = 1024 * 1024,
    unconfirmed_messages: int = 100_000,
    unconfirmed_bytes: int = 64 * 1024 * 1024,
    hooks: Hooks | Sequence[Hooks] = (),
) -> AbstractAsyncContextManager[Client]:
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
        headers: More headers for CONNECT, such as ``client-id``.
        versions: STOMP versions to offer. ``["draft"]``, alone, is the early draft of STOMP 1.0, for a server that
            speaks nothing later: no `vhost`, no heart-beats, and only header names and values that the draft allows.
        profile: The broker, by name or as a Profile, if its ``server`` header does not identify it.
        heart_beat: Seconds between heart-beats, sent and received; 0 turns a direction off. Brokers count whole
            seconds, so offer at least 1.
        heart_beat_margin: Missed intervals after which the broker is considered dead. Brokers may let the first gap
            grow to two intervals.
        tls: TLS context, or True for Python's default context, as with ``stomps://``. Default: the URL decides. A
            connection that asks for TLS never falls back to plaintext.
        proxy: Proxy to connect through: ``socks5://user:passcode@host:port``, or ``http://`` for HTTP CONNECT. The
            proxy looks up host names. Requires the extra ``proxy``. Ignored for Unix sockets.
        websocket_headers: More headers for the HTTP request that opens a WebSocket, such as ``Authorization``.
        websocket_message_bytes: Longest WebSocket message to send; longer frames are split. Only for brokers that join
            them, as Spring does. Default: 8192 for Spring (Tomcat's buffer); elsewhere one message for each frame.
        timeout: Seconds that a call may wait for the broker's answer or for room to send; then it raises TimeoutError.
            Each call takes a `timeout` of its own instead. Default: no limit. It is not for what waits for other
            programs or for the end, because an idle queue is no fault: iteration, `Subscription.receive`,
            `receive_batch`, `messages` and `work`, `Client.wait_closed` and `state_changes`.
        connect_timeout: Seconds for each host: DNS, TCP, TLS and CONNECT together.
        disconnect_timeout: Seconds for a graceful shutdown: pending receipts, DISCONNECT and its RECEIPT.
        reconnect: Reconnect when the connection is lost, by this policy; True means ``Reconnect()``. Default: a loss
            closes the client.
        connect_attempt_delay: Seconds after which the next host of the list is tried as well; the first that connects
            is used. Default: one host after the other.
        limits: Bounds on what the broker may send. Default: `Limits()`.
        outbox_bytes: How many bytes may wait to be written before `send` and the other methods wait.
        unconfirmed_messages: How many sent messages may await their RECEIPT, across all tasks and publishers, before
            the next one waits.
        unconfirmed_bytes: How many bytes their bodies may have in total.
        hooks: Called for connections, sent messages, deliveries and acknowledgments; see `Hooks`.

    Yields:
        The connected Client.

    Raises:
        ConnectError: No host could be reached; it names the cause for each.
        AuthenticationError: A broker refused the credentials.
        ConnectionLost: On leaving: the connection was lost, and no call in the block has raised that. With
            ``reconnect=``, only if it was lost for good.
        BrokerError: On leaving: the broker has refused DISCONNECT, or a message that was sent without a receipt, and no
            call in the block has raised that.
        LocalProtocolError: Invalid option.
        RuntimeError: No event loop runs here.

    Cancellation: the connection is closed. An exception of the block is raised as that same object.

    Spec: Connecting; DISCONNECT.
    """
    # Each option has the name of its argument; a test compares the names and the defaults.
    options = dict(locals())
    manager = _Serving(partial(_dialed, options.pop("urls"), options), _serves.get())
    return with_usage(manager, "connect()", "async with trio_stomp.connect(...) as client:")


async def _dialed(urls: str | Sequence[str], options: Mapping[str, object]) -> Session:
    require_loop("trio_stomp.connect()")
    settings = Settings.of(urls, options)
    return Session(await first_link(settings), settings)


def _opens(
    connects: Callable[P, AbstractAsyncContextManager[Client]],
) -> Callable[P, Coroutine[object, object, Client]]:
    @functools.wraps(connects)
    @enable_ki_protection
    async def open(*args: P.args, **kwargs: P.kwargs) -> Client:  # noqa: A001  # it is used as trio_stomp.open()
        caller = sys._getframe(1)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # what awaits this
        place = f"{caller.f_code.co_filename}:{caller.f_lineno}"
        token = _serves.set(detached)
        try:
            manager = connects(*args, **kwargs)
        finally:
            _serves.reset(token)
        client = await manager.__aenter__()
        client._opened = Opened(manager, place)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # users must not touch it
        return client

    return open


open = _opens(connect)  # noqa: A001  # as above
open.__name__ = open.__qualname__ = "open"
vars(open)["__signature__"] = inspect.signature(connect).replace(return_annotation="Client")
open.__doc__ = """Connect to a broker until `Client.aclose`, where a program cannot keep an ``async with`` block open.

The arguments are those of `connect`, which is to be preferred: it closes the client whatever happens. Close
the client in the event loop in which it was opened, in any task.

Returns:
    The connected Client. It is an async context manager too: ``async with await trio_stomp.open(url) as
    client:``.

Raises:
    ConnectError: No host could be reached; it names the cause for each.
    AuthenticationError: A broker refused the credentials.
    LocalProtocolError: Invalid option.
    RuntimeError: No event loop runs here.

Warns:
    ResourceWarning: The client was dropped without `Client.aclose`; it names where it was opened.

Cancellation: what was opened is closed.

Spec: Connecting.
"""


@with_arguments_of(connect)
@async_context("connect_stream()", "async with trio_stomp.connect_stream(stream) as client:")
async def connect_stream(  # noqa: D417  # the decorator adds the others
    stream: trio.abc.Stream | anyio.abc.ByteStream | ByteStream,
    *,
    login: str | None = None,
    passcode: str | None = None,
    credentials: Credentials | None = None,
    vhost: str | None = None,
    headers: HeaderInput | None = None,
    versions: Sequence[str] = ("1.0", "1.1", "1.2"),
    profile: Profile | ProfileName | None = None,
    heart_beat: tuple[float, float] = (10, 10),
    heart_beat_margin: float = 2.5,
    timeout: float | None = None,
    connect_timeout: float = 10,
    disconnect_timeout: float = 10,
    limits: Limits | None = None,
    outbox_bytes: int = 1024 * 1024,
    unconfirmed_messages: int = 100_000,
    unconfirmed_bytes: int = 64 * 1024 * 1024,
    hooks: Hooks | Sequence[Hooks] = (),
) -> AsyncGenerator[Client]:
    """Connect over a stream that you opened; it is closed at the end.

    The options are those of `connect`, without the ones that choose a host or a transport.

    Args:
        stream: Any bidirectional byte stream with a STOMP broker at the other end: one of trio's or anyio's.
        connect_timeout: Seconds until the broker must have answered CONNECT.

    Yields:
        The connected Client.

    Raises:
        ConnectError: The broker did not accept the CONNECT.
        ConnectionLost: On leaving: the connection was lost, and no call in the block has raised that.
        BrokerError: On leaving: the broker has refused DISCONNECT or a message, as with `connect`.
        LocalProtocolError: Invalid option.
        RuntimeError: No event loop runs here.

    Cancellation: as `connect`.
    """
    # As in `connect`.
    options = dict(locals())
    require_loop("trio_stomp.connect_stream()")
    own = as_byte_stream(options.pop("stream"))

    async def brought(_endpoint: Endpoint) -> ByteStream:
        await anyio.lowlevel.checkpoint()
        return own

    async def dialed() -> Session:
        is_linked = False
        try:
            settings = dataclasses.replace(Settings.of(OWN_STREAM, options), open_stream=brought)
            session = Session(await first_link(settings), settings)
            is_linked = True
        finally:
            # Nothing else closes it after an invalid option, or a cancellation before the first step.
            if not is_linked:
                await anyio.aclose_forcefully(own)
        return session

    async with _Serving(dialed) as client:
        yield client  # noqa: ASYNC119  # async_context is asynccontextmanager


class _Service:
    """What runs in the background of a client, and logs what a client that was not closed has never written.

    How much that is, is known when it has ended: before the client was dropped, because its event loop has ended, or
    after that.

    Attributes:
        is_in_use: Whether the program has the client.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self.is_in_use = False
        self._has_ended = self._was_abandoned = False

    async def run(self) -> None:
        """Serve the session until it is over, or this is canceled."""
        try:
            await supervise(self._session)
        except GeneratorExit:
            # The loop was closed without canceling its tasks, and wakes none of them any more.
            raise
        except anyio.get_cancelled_exc_class():
            self._end()
            raise
        finally:
            self._has_ended = True
            self._log_unwritten()

    def abandon(self, stop: Stop) -> None:
        """Stop it, because the client was dropped without being closed."""
        self._was_abandoned, self.is_in_use = True, False
        # Where a loop is closed before its tasks have ended, they never will.
        self._has_ended = not stop() or self._has_ended
        self._log_unwritten()

    def _end(self) -> None:
        """End the session, for tasks that still run, or run in another loop later: they must not wait for it."""
        if not self.is_in_use:
            self._session.close()
            return
        self._session.fail(
            ConnectionLost(
                f"the connection to {self._session.link.endpoint} was closed, because its task in the background was "
                "canceled, as at the end of an event loop"
            )
        )

    def _log_unwritten(self) -> None:
        if not (self._has_ended and self._was_abandoned):
            return
        self._was_abandoned = False  # log it once
        unwritten = self._session.connection.unwritten_bytes
        if unwritten:
            logger.warning(
                "the client of %s was not closed: %d bytes were never written; await its aclose()",
                self._session.link.endpoint,
                unwritten,
            )


class _Serving(AbstractAsyncContextManager[Client]):
    """The client of a session, and the task in the background that serves it.

    No async generator: the garbage collector hands those to the event loop, also where `open` has already warned.

    Args:
        dial: Makes the session.
        serves: Runs the task.
    """

    def __init__(self, dial: Callable[[], Awaitable[Session]], serves: _Serves = background) -> None:
        self._dial = dial
        self._serves = serves

    async def __aenter__(self) -> Client:
        self._session = session = await self._dial()
        service = _Service(session)
        self._background = self._serves(service.run)
        try:
            stop = await self._background.__aenter__()
        except BaseException:
            session.close()
            raise
        service.is_in_use = True
        return Client(session, partial(service.abandon, stop))

    async def __aexit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> bool | None:
        session, own = self._session, error
        session.require_own_loop()
        try:
            # A disconnect() that was canceled is not repeated: the program chose to lose what was not sent yet.
            if error is None:
                await session.leave_or_wait()  # noqa: ASYNC102  # within disconnect_timeout, unless canceled
        except BaseException as raised:  # noqa: ASYNC103, BLE001  # raised below, or by what runs in the background
            own = raised
        if isinstance(own, Exception):
            _note_unnoticed(session, own)
        session.close()
        is_hidden: bool | None = None
        if own is None:
            await self._background.__aexit__(None, None, None)  # noqa: ASYNC102  # it shields itself
        else:
            is_hidden = await self._background.__aexit__(type(own), own, own.__traceback__)  # noqa: ASYNC102  # it shields itself
        if own is None or is_hidden:
            session.raise_unseen()
        elif own is not error:
            try:
                raise own
            finally:
                # An exception that is reachable from its own traceback is garbage that only a collection frees.
                del own
        return is_hidden


def _note_unnoticed(session: Session, error: Exception) -> None:
    """Add a failure that the program has not seen to the exception of the body, as a note."""
    failure = session.unseen_failure()
    if failure is not None:
        add_note(error, f"the connection had failed, too: {failure}")
