"""The embedded broker: open it, connect to it, inspect it."""

from __future__ import annotations

import inspect
import itertools
import os
import ssl
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import anyio
import anyio.lowlevel

from trio_stomp.errors import LocalProtocolError
from trio_stomp.printable import one_line, wrong_header
from trio_stomp.protocol import JSON, Headers, json_body
from trio_stomp.runtime import (
    ByteStream,
    Nursery,
    as_byte_stream,
    async_context,
    called,
    current_time,
    loop_id,
    move_on_at,
    open_background_nursery,
)
from trio_stomp.testing.broker_options import BrokerOptions
from trio_stomp.testing.broker_session import LINK_ERRORS, BrokerSession
from trio_stomp.testing.broker_state import BrokerState, BrokerStatistics
from trio_stomp.testing.checks import require_number, require_type
from trio_stomp.testing.destinations import Queue
from trio_stomp.testing.fault_rules import DropLink, RefuseConnection
from trio_stomp.testing.faults import Faults
from trio_stomp.testing.listeners import Address, Listening
from trio_stomp.testing.memory import message_bytes
from trio_stomp.testing.memory_links import MemoryLink, open_memory_links
from trio_stomp.testing.signals import Signal
from trio_stomp.testing.tls_link import is_tls

if TYPE_CHECKING:
    import anyio.abc
    import trio

    from trio_stomp.testing.websocket_link import WebSocketLink

__all__ = ["Broker", "QueuedMessage", "open_broker"]

AnyStream: TypeAlias = "ByteStream | anyio.abc.ByteStream | trio.abc.Stream"

_TURNED_AWAY_AT_ONCE = 100
_TURN_AWAY_SECONDS = 1.0
_CHUNK_BYTES = 64 * 1024
# How much of what the broker holds the text of a TimeoutError shows.
_SHOWN_NAMES = 10
_SHOWN_NAME = 80
_OTHER_LOOP = (
    "this broker belongs to another event loop: use it in the loop in which it was opened, or run it in a thread, with "
    "run_broker_in_thread() or the fixture stomp_broker_thread"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedMessage:
    """A message that waits at the broker.

    Attributes:
        message_id: Its id.
        headers: Those headers of its SEND that are delivered.
        body: Its body.
        deliveries: How often it was delivered and returned.
    """

    message_id: str
    headers: Headers
    body: bytes
    deliveries: int


class Broker:
    """A STOMP broker in this process. Get one from `open_broker`.

    Args:
        nursery: Where its sessions run.
        options: Its settings.
        address: Where to listen, and with which transport.

    Attributes:
        options: Its settings.
        faults: Faults to inject.
    """

    def __init__(self, nursery: Nursery, *, options: BrokerOptions, address: Address) -> None:
        require_type("options", options, BrokerOptions, "BrokerOptions such as BrokerOptions(prefetch=1)")
        self.options = options
        self._loop = loop_id()()
        self._nursery = nursery
        self._listening = Listening(nursery, address, self.serve_websocket if address.websocket else self.serve_stream)
        self._state = BrokerState(options, output_full=self._note_full_output, more_to_do=self._note_more_to_do)
        self._output_full = anyio.Event()
        self._more_to_do = anyio.Event()
        self._sessions: dict[str, BrokerSession] = {}
        self._numbers = itertools.count(1)
        # Told why, and given time to read it, the oldest first.
        self._turned_away: OrderedDict[anyio.CancelScope, None] = OrderedDict()
        self._changed = Signal()
        self.faults = Faults(lambda: self.sessions)
        nursery.start_soon(self._state.schedule.run, self._deliver_due)
        nursery.start_soon(self._deliver_the_rest)
        nursery.start_soon(self._drop_stalled)

    # --- address ----------------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """The URL to connect to, with a valid user: ``stomp://guest:guest@127.0.0.1:54321``, for example.

        A broker without a socket returns a URL that does not work, for clients that need one besides the stream.
        """
        logins = self.options.logins
        login, passcode = next(iter(logins.items())) if logins else ("guest", "guest")
        return self._listening.address.url(login, passcode)

    @property
    def port(self) -> int:
        """The port that it listens on. It stays the same after `stop_listening` and `start_listening`.

        Raises:
            RuntimeError: It was opened without a socket, or on a Unix socket.
        """
        return self._listening.port

    # --- connections ------------------------------------------------------------------------------------------------

    async def start_listening(self) -> None:
        """Open the socket again after `stop_listening`. Does nothing if it is open.

        Raises:
            RuntimeError: The broker was opened without a socket.
            OSError: The port or path is not available.

        Cancellation: it may or may not listen.
        """
        await self._listening.start()

    async def stop_listening(self) -> None:
        """Close the socket, so that the system refuses new connections. Open connections stay open.

        Cancellation: it has stopped, or stops at once.
        """
        await self._listening.stop()

    def connect_stream(self) -> MemoryLink:
        """Connect without a socket: return the client's end of a connection in memory, for tests with a mock clock.

        Raises:
            RuntimeError: The caller runs in another event loop.
        """
        self._require_own_loop()
        ours, theirs = open_memory_links()
        self._nursery.start_soon(self.serve_stream, ours)
        return theirs

    async def serve_websocket(self, stream: AnyStream) -> None:
        """Serve one client over WebSocket until its session ends. Requires the extra ``websocket``.

        A web page of another origin is refused with status 403, unless `BrokerOptions.websocket_origins` allows it.

        Cancellation: the stream is closed at once, and unacknowledged messages are requeued.
        """
        link = _websocket_link()(
            as_byte_stream(stream),
            tls=is_tls(stream),
            host=self._listening.address.host,
            origins=self.options.websocket_origins,
        )
        await self._serve(link)

    async def serve_stream(self, stream: AnyStream) -> None:
        """Serve one client on any stream until its session ends.

        Args:
            stream: A byte stream of anyio or, under ``trio.run``, one of trio.

        Cancellation: the stream is closed at once, and unacknowledged messages are requeued.
        """
        await self._serve(as_byte_stream(stream))

    def _require_own_loop(self) -> None:
        if loop_id()() != self._loop:
            raise RuntimeError(_OTHER_LOOP)

    async def _serve(self, stream: ByteStream) -> None:
        statistics = self._state.statistics
        statistics.connections += 1
        rules = self.faults.for_next_connection()
        if any(isinstance(rule, RefuseConnection) for rule in rules):
            await anyio.aclose_forcefully(stream)
            return
        if len(self._sessions) >= self.options.max_connections:
            await self._turn_away(stream)
            return
        session = BrokerSession(
            stream, session_id=f"session-{next(self._numbers)}", state=self._state, changed=self._changed.notify
        )
        for rule in rules:
            session.apply(rule)
        self._sessions[session.session_id] = session
        statistics.open_connections += 1
        try:
            await session.serve()
        except LINK_ERRORS:
            pass  # of this connection alone: the broker goes on
        finally:
            statistics.open_connections -= 1
            del self._sessions[session.session_id]
            self._changed.notify()

    async def _turn_away(self, stream: ByteStream) -> None:
        """Refuse a connection beyond the limit with an ERROR."""
        limit = self.options.max_connections
        refusal = (
            b"ERROR\nmessage:too many connections\ncontent-type:text/plain\n\n"
            b"%d connections are open, the limit is %d (max_connections)\0\n" % (len(self._sessions), limit)
        )
        scope = anyio.CancelScope(deadline=current_time() + _TURN_AWAY_SECONDS)
        try:
            with scope:
                await stream.send_all(refusal)
                self._turned_away[scope] = None
                if len(self._turned_away) > _TURNED_AWAY_AT_ONCE:
                    self._turned_away.popitem(last=False)[0].cancel()
                # A socket that is closed with its CONNECT unread is reset, and the client may lose the ERROR.
                if stream.can_send_eof:
                    await stream.send_eof()
                    while await stream.receive_some(_CHUNK_BYTES):
                        pass
                else:
                    await stream.receive_some(_CHUNK_BYTES)
                    await stream.aclose()
        except LINK_ERRORS:
            pass  # the client has closed it
        finally:
            self._turned_away.pop(scope, None)
            await anyio.aclose_forcefully(stream)

    def _deliver_due(self) -> None:
        self._state.dispatch()
        self._changed.notify()

    def _note_more_to_do(self) -> None:
        self._more_to_do.set()

    async def _deliver_the_rest(self) -> None:
        """Deliver in turns what one turn has left, so that the sessions are served between."""
        while True:
            await self._more_to_do.wait()
            self._more_to_do = anyio.Event()
            self._deliver_due()

    def _note_full_output(self) -> None:
        self._output_full.set()

    async def _drop_stalled(self) -> None:
        """Disconnect clients that do not read while all others wait for memory that their output uses."""
        output = self._state.memory.output
        while True:
            await self._output_full.wait()
            self._output_full = anyio.Event()
            while output.full:
                await anyio.sleep(self.options.stall_timeout)
                if output.full:
                    for session in self.sessions:
                        if session.stalled_for(self.options.stall_timeout):
                            session.drop()

    def drop_connections(self) -> None:
        """Break all connections without warning."""
        self.faults.now(DropLink())

    # --- inspection -------------------------------------------------------------------------------------------------

    @property
    def sessions(self) -> Sequence[BrokerSession]:
        """The open connections, the oldest first."""
        return tuple(self._sessions.values())

    def statistics(self) -> BrokerStatistics:
        """Return the counters since the start."""
        return self._state.statistics.snapshot()

    def depth(self, destination: str, *, vhost: str | None = None) -> int:
        """Return how many messages wait in a queue, or in all subscriptions to a topic; 0 if it does not exist."""
        return sum(queue.depth for queue in self._queues(destination, vhost))

    def unacknowledged(self, destination: str, *, vhost: str | None = None) -> int:
        """Return how many messages of a destination are delivered and not acknowledged yet."""
        return sum(queue.in_flight for queue in self._queues(destination, vhost))

    def consumers(self, destination: str, *, vhost: str | None = None) -> int:
        """Return how many subscriptions a destination has."""
        return sum(queue.takers for queue in self._queues(destination, vhost))

    def messages(self, destination: str, *, vhost: str | None = None) -> tuple[QueuedMessage, ...]:
        """Return the messages that wait, in order, without those that are delivered and not acknowledged yet."""
        return tuple(
            QueuedMessage(
                message_id=message.message_id,
                headers=Headers(message.headers),
                body=message.body,
                deliveries=message.deliveries,
            )
            for queue in self._queues(destination, vhost)
            for message in queue.waiting()
        )

    def _queues(self, destination: str, vhost: str | None) -> list[Queue]:
        _require_name(destination)
        namespace = self._state.namespace(vhost)
        return namespace.all_queues(namespace.full_name(destination))

    async def wait_until(self, condition: Callable[[], bool], *, timeout: float = 10) -> None:
        """Wait until a condition on this broker is true, such as ``lambda: broker.depth("/queue/a") == 3``.

        The condition is checked after each action of the broker.

        Args:
            condition: The condition.
            timeout: Seconds (of the event loop's clock) to wait at most; ``math.inf`` is no limit.

        Raises:
            TimeoutError: The condition is still false then. The text says what the broker holds.
            RuntimeError: The caller runs in another event loop.
            TypeError: The condition is async, or the timeout is no number.
            ValueError: The timeout is negative.

        Cancellation: nothing changes.
        """
        require_number("timeout", timeout, zero=True)
        self._require_own_loop()
        with move_on_at(current_time() + timeout):
            await anyio.lowlevel.checkpoint()
            while not _holds(condition):
                await self._changed.wait()
            return
        if not _holds(condition):
            raise TimeoutError(f"the condition is still false after {timeout:g} s. {self._contents()}")

    def _contents(self) -> str:
        """What the broker holds, in a line or two."""
        vhosts = [None] if self.options.vhosts is None else sorted(self.options.vhosts)
        held = [(vhost, name) for vhost in vhosts for name in self._state.namespace(vhost).names]
        listed = [
            f"{'' if vhost is None else f'{vhost} '}{name[:_SHOWN_NAME]}: depth {self.depth(name, vhost=vhost)}, "
            f"unacknowledged {self.unacknowledged(name, vhost=vhost)}, consumers {self.consumers(name, vhost=vhost)}"
            for vhost, name in held[:_SHOWN_NAMES]
        ]
        if len(held) > _SHOWN_NAMES:
            listed.append(f"and {len(held) - _SHOWN_NAMES} more destinations")
        return one_line(f"The broker has {len(self._sessions)} connections; {'; '.join(listed) or 'no destinations'}")

    # --- publishing -------------------------------------------------------------------------------------------------

    def publish(
        self,
        destination: str,
        body: bytes | str | None = None,
        headers: Mapping[str, str] | Sequence[tuple[str, str]] = (),
        *,
        json: object = None,
        vhost: str | None = None,
    ) -> None:
        """Put a message into a queue or topic, as if a client had sent it.

        Args:
            destination: The queue or topic.
            body: The body; ``str`` is encoded in UTF-8.
            headers: Its headers.
            json: A value to encode in place of `body`, as `Client.send` does; the content-type is then
                ``application/json``, unless the headers have another one.
            vhost: The virtual host; None is the only one, or the first by name.

        Raises:
            Refusal: The destination is invalid, or the queue is full.
            LocalProtocolError: The body is neither bytes nor str, the value cannot be encoded, or the headers are no
                mapping or pairs of str.
            TypeError: Both `body` and `json` were given, or the destination is no str.
        """
        _require_name(destination)
        namespace = self._state.namespace(vhost)
        pairs = _pairs(headers)
        if json is None:
            data = _body(body)
        elif body is not None:
            raise TypeError("publish() was given a body and json=; leave out one")
        else:
            data = _json_body(json)
            if all(name != "content-type" for name, _ in pairs):
                pairs.append(("content-type", JSON))
        given = Headers(pairs)
        size, plan = message_bytes(pairs, data), namespace.plan(given)
        namespace.publish(namespace.full_name(destination), namespace.new_message(given, data, size, plan))
        namespace.dirty.dispatch()
        self._changed.notify()


def _require_name(destination: object) -> None:
    require_type("destination", destination, str, "a str such as '/queue/orders'")


def _holds(condition: Callable[[], object]) -> object:
    result = called(condition)
    if inspect.iscoroutine(result):
        result.close()
        raise TypeError(
            "the condition of wait_until() must be a function that is not async: its result was a coroutine, which is "
            "always true"
        )
    return result


def _body(body: object) -> bytes:
    if isinstance(body, str):
        return body.encode()
    if not isinstance(body, (bytes, bytearray)):
        raise LocalProtocolError(
            f"a body must be bytes or str, got a value of type {type(body).__name__}; pass json= to publish JSON, or "
            "encode it"
        )
    return bytes(body)


def _json_body(value: object) -> bytes:
    try:
        return json_body(value)
    except (TypeError, ValueError, RecursionError) as error:
        msg = f"json= cannot be encoded: {error}; encode it, and pass the bytes as the body"
        raise LocalProtocolError(msg) from error


def _pairs(headers: Mapping[str, str] | Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    checked: list[tuple[str, str]] = []
    try:
        pairs: list[tuple[object, object]] = list(headers.items() if isinstance(headers, Mapping) else headers)
        for name, value in pairs:
            if not isinstance(name, str) or not isinstance(value, str):
                raise LocalProtocolError(wrong_header(name, value))
            checked.append((name, value))
    except (TypeError, ValueError) as error:
        raise LocalProtocolError(
            "headers must be a mapping such as {'type': 'order'}, or a list of pairs such as [('type', 'order')], got "
            f"a value of type {type(headers).__name__}: {error}"
        ) from None
    return checked


def _websocket_link() -> type[WebSocketLink]:
    try:
        from trio_stomp.testing.websocket_link import WebSocketLink  # noqa: PLC0415  # what it imports is an extra
    except ModuleNotFoundError as error:
        msg = f"a broker with websocket=True requires {error.name}. Run: pip install 'trio-stomp[websocket]'"
        raise ModuleNotFoundError(msg, name=error.name) from None
    return WebSocketLink


@async_context("open_broker()", "async with open_broker() as broker:")
async def open_broker(
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    listen: bool = True,
    tls: ssl.SSLContext | None = None,
    websocket: bool = False,
    unix_socket: str | os.PathLike[str] | None = None,
    options: BrokerOptions | None = None,
) -> AsyncGenerator[Broker]:
    """Run a STOMP broker in this process, for the length of an ``async with`` block.

    Args:
        host: The address to listen on.
        port: The port to listen on; 0 chooses a free one.
        listen: Open a socket. Without one, clients connect with `Broker.connect_stream`.
        tls: TLS context of the server, for the socket.
        websocket: Speak STOMP over WebSocket on the socket, at any path. Requires the extra ``websocket``.
        unix_socket: Listen at this path instead of host and port. The broker removes the socket when it ends.
        options: The settings. Default: `BrokerOptions()`.

    Yields:
        The broker.

    Raises:
        OSError: The port or path is not available.
        TypeError: The options are no BrokerOptions, or the TLS context is something else.
        ValueError: A Unix socket cannot have TLS or WebSocket, or the TLS context is that of a client.
        ModuleNotFoundError: The extra ``websocket`` is not installed.

    The broker runs in the event loop of the block: trio, asyncio or a loop like uvloop. On asyncio, the block may be
    entered in one task and left in another, as fixtures of pytest-asyncio do.

    Cancellation: all sessions end and all streams are closed, as whenever the block is left.
    """
    address = Address(listen=listen, host=host, port=port, tls=tls, websocket=websocket, unix_socket=unix_socket)
    if websocket:
        # If the extra is missing, raise now and not at the first connection.
        _websocket_link()
    async with open_background_nursery() as nursery:
        broker = Broker(nursery, options=BrokerOptions() if options is None else options, address=address)
        if listen:
            await broker.start_listening()
        yield broker
