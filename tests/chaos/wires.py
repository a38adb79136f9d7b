"""The wire between one client and the broker: a TCP proxy that does what networks do.

A wire belongs to one client and carries one connection after the other. What befalls a connection (a cut, half-open
ends) befalls the newest one only; what befalls the wire (a stall, slowness) concerns whatever it carries.

It also knows which messages the broker has sent on each connection: a message that is missing at the end was either
given to a client, which must answer for it, or is with the broker.

A wire has one port or more, and all lead to the same broker: hosts of one list, between which a client can move
without losing what the broker has. A port that is shut ends each new connection at once.
"""

from __future__ import annotations

import enum
import errno
import functools
import re
import socket
import struct
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

import trio

__all__ = ["Befalls", "Toward", "Trap", "Wire", "open_wire"]

_CHUNK_BYTES: Final = 32 * 1024
# What is left of a half-open connection is done away with after this: longer than any broker waits for heart-beats.
_GHOST_SECONDS: Final = 20.0
# How long a client may take to close a connection that was refused.
_REFUSED_SECONDS: Final = 1.0
# How many pieces a second a slow wire passes on.
_PIECES: Final = 4
# What CONNECT is answered with while a broker starts.
_REFUSAL: Final = b"ERROR\nmessage:not ready\ncontent-type:text/plain\n\nThe node is starting, try again later\n\0"
# The longest mark of a message, which may be cut between two pieces of what comes.
_MARK_BYTES: Final = 40


class Toward(enum.Enum):
    """A direction."""

    BROKER = "to the broker"
    CLIENT = "to the client"


class Befalls(enum.Enum):
    """What becomes of a connection."""

    RESET = "both ends are reset"
    END = "both ends see the end of the stream"
    SILENCE = "nothing passes any more"
    BROKER_GONE = "the broker's end is reset; nothing passes on the client's, which stays"
    CLIENT_GONE = "the client's end is reset; nothing passes on the broker's, which stays"
    DEAF_BROKER = "nothing passes to the broker any more"
    DEAF_CLIENT = "nothing passes to the client any more"


_DARK: Final[dict[Befalls, set[Toward]]] = {
    Befalls.RESET: set(),
    Befalls.END: set(),
    Befalls.SILENCE: {Toward.BROKER, Toward.CLIENT},
    Befalls.BROKER_GONE: {Toward.BROKER, Toward.CLIENT},
    Befalls.CLIENT_GONE: {Toward.BROKER, Toward.CLIENT},
    Befalls.DEAF_BROKER: {Toward.BROKER},
    Befalls.DEAF_CLIENT: {Toward.CLIENT},
}


class Trap:
    """A fault that strikes a connection after a number of bytes.

    Args:
        what: What befalls it.
        toward: The direction whose bytes are counted.
        after_bytes: How many still pass.

    Attributes:
        sprung: Set when it has.
    """

    def __init__(self, what: Befalls, toward: Toward, after_bytes: int) -> None:
        self.what = what
        self.toward = toward
        self.after_bytes = after_bytes
        self.sprung = trio.Event()


class _Connection:
    """One connection on a wire: two ends, and what is between them.

    Attributes:
        delivered: The numbers of the messages that the broker has sent on it, if the wire looks for them.
    """

    def __init__(self, wire: Wire, near: trio.SocketStream, far: trio.SocketStream) -> None:
        self.delivered: set[int] = set()
        self._tail = b""
        self._tail_up = b""
        self._wire = wire
        self._near = near
        self._far = far
        self._dark: set[Toward] = set()
        self._scope = trio.CancelScope()

    async def run(self) -> None:
        """Pass bytes on until both directions have ended."""
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._pass_on, Toward.BROKER, self._near, self._far)
                    nursery.start_soon(self._pass_on, Toward.CLIENT, self._far, self._near)
        finally:
            self._near.socket.close()
            self._far.socket.close()

    async def _pass_on(self, toward: Toward, source: trio.SocketStream, target: trio.SocketStream) -> None:
        try:
            while data := await source.receive_some(_CHUNK_BYTES):
                if toward is Toward.CLIENT:
                    self._note(data)
                elif self._wire.poison is not None and self._finds_poison(data):
                    self.befall(self._wire.at_poison)
                    return
                await self._wire.wait_released()
                await self._send(toward, bytes(data), target)
            if toward not in self._dark:
                await self._wire.wait_released()
                await target.send_eof()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            if not self._dark:
                self._reset(self._near, self._far)
                self._scope.cancel()
        # The other direction may have nobody left to end it.
        self._scope.deadline = min(self._scope.deadline, trio.current_time() + _GHOST_SECONDS)

    def _finds_poison(self, data: bytes | bytearray) -> bool:
        poison = self._wire.poison or b""
        text = self._tail_up + data
        self._tail_up = bytes(text[-len(poison) :])
        return poison in text

    def _note(self, data: bytes | bytearray) -> None:
        if self._wire.mark is not None:
            text = self._tail + data
            self.delivered.update(int(number) for number in self._wire.mark.findall(text))
            self._tail = text[-_MARK_BYTES:]

    async def _send(self, toward: Toward, data: bytes, target: trio.SocketStream) -> None:
        trap = self._wire.trap
        if trap is not None and trap.toward is toward and self._wire.newest is self:
            if trap.after_bytes >= len(data):
                trap.after_bytes -= len(data)
            else:
                if toward not in self._dark:
                    await self._wire.send(data[: trap.after_bytes], target)
                self._wire.trap = None
                self.befall(trap.what)
                trap.sprung.set()
                return
        if toward not in self._dark:
            await self._wire.send(data, target)

    def befall(self, what: Befalls) -> None:
        """Let something happen to this connection."""
        self._dark |= _DARK[what]
        if what is Befalls.RESET:
            self._reset(self._near, self._far)
        elif what is Befalls.BROKER_GONE:
            self._reset(self._far)
        elif what is Befalls.CLIENT_GONE:
            self._reset(self._near)
        if what in (Befalls.RESET, Befalls.END):
            self._scope.cancel()

    @staticmethod
    def _reset(*ends: trio.SocketStream) -> None:
        for end in ends:
            try:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            except OSError as error:
                if error.errno != errno.EBADF:
                    raise
            end.socket.close()


class Wire:
    """The wire of one client.

    Args:
        broker: Host and port of the broker.
        listeners: Where the client connects to.
        mark: Finds the numbers of messages in what the broker sends; None: they are not looked for.

    Attributes:
        mark: The same.
        ports: Their ports.
        newest: The newest connection, which may have ended.
        trap: What is going to befall it.
        poison: Bytes at which each connection ends before the broker has them, or None.
        at_poison: How it ends then.
        refuses: Whether CONNECT is answered with an ERROR.
        following: What is going to befall the connections after it, one each, from their first byte on.
        connections: How many it has carried.
        open: How many it carries now.
    """

    def __init__(
        self,
        broker: tuple[str, int],
        listeners: Sequence[trio.SocketListener],
        mark: re.Pattern[bytes] | None = None,
    ) -> None:
        self._broker = broker
        self.mark = mark
        self.ports = tuple(int(listener.socket.getsockname()[1]) for listener in listeners)
        self._shut: set[int] = set()
        self.newest: _Connection | None = None
        self.trap: Trap | None = None
        self.poison: bytes | None = None
        self.at_poison = Befalls.RESET
        self.refuses = False
        self.following: list[Trap] = []
        self.connections = 0
        self.open = 0
        self._held: trio.Event | None = None
        self._bytes_per_second: int | None = None

    @property
    def port(self) -> int:
        """The port of its first listener."""
        return self.ports[0]

    @property
    def url(self) -> str:
        """The URL of a broker behind its first listener."""
        return f"stomp://guest:guest@127.0.0.1:{self.port}"

    async def serve(self, port: int, near: trio.SocketStream) -> None:
        """Carry a connection. Where the broker takes none, or the port is shut, the client sees it end at once."""
        if port in self._shut:
            await trio.aclose_forcefully(near)
            return
        if self.refuses:
            await _refuse(near)
            return
        try:
            far = await trio.open_tcp_stream(*self._broker)
        except OSError:
            await trio.aclose_forcefully(near)
            return
        assert isinstance(far, trio.SocketStream)
        self.connections += 1
        self.newest = connection = _Connection(self, near, far)
        # A trap whose connection was lost to something else waits for this one: whoever set it waits for it to spring.
        if self.following and self.trap is None:
            self.trap = self.following.pop(0)
        self.open += 1
        try:
            await connection.run()
        finally:
            self.open -= 1

    # --- what befalls ---------------------------------------------------------------------------------------------

    def set_trap(self, trap: Trap) -> None:
        """Let something befall the newest connection once so many bytes have passed."""
        self.trap = trap

    def spring(self) -> None:
        """Let it happen now, however few bytes have passed."""
        trap, self.trap = self.trap, None
        if trap is not None:
            self.befall(trap.what)
            trap.sprung.set()

    def befall(self, what: Befalls) -> None:
        """Let something happen to the newest connection."""
        if self.newest is not None:
            self.newest.befall(what)

    def shut(self, port: int) -> None:
        """Let no connection in at a port; those that are in stay."""
        self._shut.add(port)

    def reopen(self, port: int) -> None:
        """Let connections in again at a port."""
        self._shut.discard(port)

    def hold(self) -> None:
        """Pass nothing on until `release`; what comes waits."""
        self._held = trio.Event()

    def release(self) -> None:
        """Pass on again, beginning with what has waited."""
        if self._held is not None:
            self._held.set()
            self._held = None

    def slow_down(self, bytes_per_second: int | None) -> None:
        """Pass on no more than this; None: as fast as can be."""
        self._bytes_per_second = bytes_per_second

    # --- for its connections ----------------------------------------------------------------------------------------

    async def wait_released(self) -> None:
        """Wait while it is held."""
        while self._held is not None:
            await self._held.wait()

    async def send(self, data: bytes, target: trio.SocketStream) -> None:
        """Write, as slowly as this wire is now."""
        while data and self._bytes_per_second is not None:
            piece = max(1, self._bytes_per_second // _PIECES)
            await target.send_all(data[:piece])
            data = data[piece:]
            await trio.sleep(1 / _PIECES)
        await target.send_all(data)


async def _refuse(near: trio.SocketStream) -> None:
    with suppress(trio.BrokenResourceError):
        await near.receive_some()
        await near.send_all(_REFUSAL)
        await near.send_eof()
        with trio.move_on_after(_REFUSED_SECONDS):
            await near.receive_some()
    await trio.aclose_forcefully(near)


@asynccontextmanager
async def open_wire(
    host: str, port: int, *, ports: int = 1, mark: re.Pattern[bytes] | None = None
) -> AsyncGenerator[Wire]:
    """A wire with the given number of ports to one port of a broker, for the length of a block.

    Args:
        host: Where the broker listens.
        port: And on which port.
        ports: How many ports lead to it.
        mark: Finds the number of a message in what the broker sends, as its first group.
    """
    async with trio.open_nursery() as nursery:
        listeners = [(await trio.open_tcp_listeners(0, host="127.0.0.1"))[0] for _ in range(ports)]
        wire = Wire((host, port), listeners, mark)
        for port_of_listener, listener in zip(wire.ports, listeners, strict=True):
            await nursery.start(trio.serve_listeners, functools.partial(wire.serve, port_of_listener), [listener])
        yield wire
        nursery.cancel_scope.cancel()
