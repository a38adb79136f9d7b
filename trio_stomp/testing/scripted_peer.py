"""A scripted server: a test plays the server's end of a connection, frame by frame.

Use it when a whole broker would do too much by itself. It sends only what the script sends, and raises at the first
byte that the script does not expect.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import TypeVar

import anyio
import anyio.lowlevel

from trio_stomp.protocol import (
    Command,
    Decoder,
    Frame,
    HeartBeatOffer,
    Role,
    Version,
    encode_frame,
    encode_heart_beat,
)
from trio_stomp.runtime import ByteStream, async_context
from trio_stomp.testing.checks import require_command
from trio_stomp.testing.listeners import NO_HOST
from trio_stomp.testing.memory_links import MemoryLink, open_memory_links
from trio_stomp.testing.signals import Signal
from trio_stomp.testing.sockets import Listener, open_tcp_listeners

__all__ = ["ScriptMismatchError", "ScriptedPeer", "open_scripted_peer"]

T = TypeVar("T")

_READ_BYTES = 64 * 1024


class ScriptMismatchError(AssertionError):
    """The client did something else than the script says."""


class _Line:
    """One connection.

    Args:
        stream: The bytes.

    Attributes:
        version: The version that frames are sent and read in.
        received: All that has been received.
        frames: All frames of it.
        unread: Those that the script has not read yet.
        ended: Whether the client has closed the link.
    """

    def __init__(self, stream: ByteStream) -> None:
        self.stream = stream
        self.decoder = Decoder(role=Role.SERVER)
        self.version = Version.V1_2
        self.received = bytearray()
        self.frames: list[Frame] = []
        self.unread: deque[Frame] = deque()
        self.ended = False

    async def receive(self) -> None:
        """Take the next bytes, or see the end.

        Raises:
            ScriptMismatchError: They are no STOMP, or end within a frame.

        Cancellation: nothing is lost.
        """
        try:
            data = await self.stream.receive_some(_READ_BYTES)
        except anyio.BrokenResourceError:
            data = b""
        if data:
            self.received += data
            self.decode(bytes(data))
        elif self.decoder.pending:
            raise ScriptMismatchError(
                f"the client closed the link within a frame; the last bytes: {self.received[-80:]!r}"
            )
        else:
            self.ended = True

    def decode(self, data: bytes) -> None:
        """Turn bytes into frames; frames behind CONNECT wait until the version is set.

        Raises:
            ScriptMismatchError: They are no STOMP.
        """
        frames = self.decoder.receive_data(data)
        self.frames += frames
        self.unread += frames
        if self.decoder.error is not None:
            raise ScriptMismatchError(f"the client sent no STOMP: {self.decoder.error}") from self.decoder.error

    def use(self, version: Version) -> None:
        """From here on the session has this version."""
        self.version = version
        self.decoder.set_version(version)
        self.decode(b"")


class ScriptedPeer:
    """The server's end of a connection. Get one from `open_scripted_peer`.

    All methods use the newest connection. The first connection is accepted by the first method that is called.

    Args:
        listener: Where clients connect; None is in memory.
        patience: Seconds (of the event loop's clock) that an expectation waits.
    """

    def __init__(self, listener: Listener | None, *, patience: float) -> None:
        self._listener = listener
        self._patience = patience
        self._lines: list[_Line] = []
        # Connected in memory, and not accepted yet.
        self._waiting: deque[MemoryLink] = deque()
        self._connected = Signal()

    # --- connections ------------------------------------------------------------------------------------------------

    @property
    def port(self) -> int:
        """The port it listens on.

        Raises:
            RuntimeError: It was opened without a socket.
        """
        if self._listener is None:
            raise RuntimeError("this peer was opened without a socket; use connect_stream()")
        return self._listener.port

    @property
    def url(self) -> str:
        """The URL to connect to; without a socket, one that does not work, for clients that need one for a stream."""
        where = f"{NO_HOST}:61613" if self._listener is None else f"127.0.0.1:{self.port}"
        return f"stomp://guest:guest@{where}"

    def connect_stream(self) -> MemoryLink:
        """Connect in memory; return the client's end.

        Raises:
            RuntimeError: The peer listens on a socket.
        """
        if self._listener is not None:
            raise RuntimeError("this peer listens on a socket; connect to its url")
        ours, theirs = open_memory_links()
        self._waiting.append(ours)
        self._connected.notify()
        return theirs

    async def accept(self) -> None:
        """Wait for the next connection, which the other methods then use.

        Raises:
            ScriptMismatchError: None came.

        Cancellation: a connection that was already accepted is closed together with the peer.
        """
        await self._patiently("a connection", self._accept)

    async def _accept(self) -> None:
        if self._listener is not None:
            self._lines.append(_Line(await self._listener.accept()))
            return
        await anyio.lowlevel.checkpoint()
        while not self._waiting:
            await self._connected.wait()
        self._lines.append(_Line(self._waiting.popleft()))

    async def _line(self) -> _Line:
        if not self._lines:
            await self.accept()
        return self._lines[-1]

    async def _patiently(self, what: str, wait: Callable[[], Awaitable[T]]) -> T:
        try:
            with anyio.fail_after(self._patience):
                return await wait()
        except TimeoutError:
            raise ScriptMismatchError(f"expected {what}, but nothing came within {self._patience} seconds") from None

    # --- what the client has sent -------------------------------------------------------------------------------------

    @property
    def received(self) -> tuple[Frame, ...]:
        """All frames received on this connection, whether or not the script has read them."""
        return tuple(self._lines[-1].frames) if self._lines else ()

    @property
    def received_bytes(self) -> bytes:
        """All bytes received on this connection."""
        return bytes(self._lines[-1].received) if self._lines else b""

    @property
    def heart_beats(self) -> int:
        """Number of heart-beats (line ends outside of frames) received on this connection."""
        return self._lines[-1].decoder.heartbeats if self._lines else 0

    @property
    def version(self) -> Version:
        """The STOMP version in which frames are sent and decoded; 1.2 until it is set."""
        return self._lines[-1].version if self._lines else Version.V1_2

    # --- expectations -------------------------------------------------------------------------------------------------

    async def next_frame(self) -> Frame:
        """Wait for the next frame of the client, and return it.

        Raises:
            ScriptMismatchError: None came, or the link ended.

        Cancellation: no frame is lost.
        """
        return await self._patiently("a frame", self._next_frame)

    async def _next_frame(self) -> Frame:
        line = await self._line()
        await anyio.lowlevel.checkpoint()
        while not line.unread:
            if line.ended:
                raise ScriptMismatchError("expected a frame, but the client has closed the link")
            await line.receive()
        return line.unread.popleft()

    async def expect(self, command: Command, *, body: bytes | None = None, **headers: str) -> Frame:
        """Wait for the next frame of the client, and check that it is this one.

        Args:
            command: Its command.
            body: Its body; None is any.
            headers: Headers that it must have, with ``_`` for ``_`` or ``-``: ``message_id="m-1"``.

        Returns:
            The frame.

        Raises:
            ScriptMismatchError: Something else came, or nothing.
            TypeError: The command is no Command.

        Cancellation: no frame is lost.
        """
        require_command("command", command)
        frame = await self._patiently(f"a {command.value} frame", self._next_frame)
        if frame.command is not command:
            raise ScriptMismatchError(f"expected a {command.value} frame, got {frame}")
        for name, value in headers.items():
            header = name if name in frame.headers else name.replace("_", "-")
            if frame.headers.get(header) != value:
                raise ScriptMismatchError(f"expected header {header}:{value}, got {frame}")
        if body is not None and frame.body != body:
            raise ScriptMismatchError(f"expected the body {body!r}, got {frame.body!r} in {frame}")
        return frame

    async def expect_eof(self) -> None:
        """Wait until the client closes the connection, and check that it sends nothing before.

        Raises:
            ScriptMismatchError: It sent something else, or left the link open.

        Cancellation: no frame is lost.
        """
        await self._patiently("the end of the link", self._to_the_end)

    async def _to_the_end(self) -> None:
        line = await self._line()
        await anyio.lowlevel.checkpoint()
        while not line.ended and not line.unread:
            await line.receive()
        if line.unread:
            raise ScriptMismatchError(f"expected the end of the link, got {line.unread[0]}")

    async def expect_silence(self, seconds: float) -> None:
        """Check that the client sends nothing for a number of seconds, and keeps the connection open.

        Raises:
            ScriptMismatchError: It sent something, or closed the link.

        Cancellation: no frame is lost.
        """
        line = await self._line()
        before = len(line.received)
        if not line.unread:
            with anyio.move_on_after(seconds):
                await line.receive()
                what = "the end of the link" if line.ended else f"{bytes(line.received[before:])!r}"
                raise ScriptMismatchError(f"expected {seconds} seconds of silence, got {what}")
            return
        raise ScriptMismatchError(f"expected {seconds} seconds of silence, got {line.unread[0]}")

    async def expect_heart_beat(self, *, within: float) -> None:
        """Check that the client sends a heart-beat, and no frame, within a number of seconds.

        Raises:
            ScriptMismatchError: It did not.

        Cancellation: no frame is lost.
        """
        line = await self._line()
        before = line.decoder.heartbeats
        with anyio.move_on_after(within):
            while line.decoder.heartbeats == before and not line.unread and not line.ended:
                await line.receive()
        if line.unread or line.ended or line.decoder.heartbeats == before:
            what = line.unread[0] if line.unread else "the end of the link" if line.ended else "nothing"
            raise ScriptMismatchError(f"expected a heart-beat within {within} seconds, got {what}")

    # --- what the script sends ----------------------------------------------------------------------------------------

    async def send_bytes(self, data: bytes) -> None:
        """Send bytes as they are.

        Cancellation: an unknown part of them has been sent.
        """
        line = await self._line()
        await line.stream.send_all(data)

    async def send(self, command: Command, headers: Mapping[str, str], body: bytes = b"") -> None:
        """Send a frame, encoded for the version of the connection, whether or not it is legal now.

        Raises:
            LocalProtocolError: The frame cannot be represented; use `send_bytes`.
            TypeError: The command is no Command.

        Cancellation: an unknown part of it has been sent.
        """
        require_command("command", command)
        line = await self._line()
        await self.send_bytes(encode_frame(command, tuple(headers.items()), body, version=line.version))

    async def confirm(self, frame: Frame) -> None:
        """Send the RECEIPT that a frame requests.

        Raises:
            ScriptMismatchError: It asks for none.

        Cancellation: an unknown part of it has been sent.
        """
        receipt = frame.headers.get("receipt")
        if receipt is None:
            raise ScriptMismatchError(f"expected a frame with a receipt header, got {frame}")
        await self.send(Command.RECEIPT, {"receipt-id": receipt})

    async def send_heart_beat(self) -> None:
        """Send a heart-beat.

        Cancellation: it has been sent, or not.
        """
        line = await self._line()
        await self.send_bytes(encode_heart_beat(line.version))

    # --- whole scenes -------------------------------------------------------------------------------------------------

    async def accept_connect(
        self,
        *,
        version: str = "1.2",
        heart_beat: tuple[float, float] = (0.0, 0.0),
        server: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Frame:
        """Expect CONNECT (or STOMP), and answer CONNECTED.

        Args:
            version: The version to choose; the client must have offered it.
            heart_beat: What to offer, in seconds.
            server: The ``server`` header.
            headers: Further headers of CONNECTED.

        Returns:
            The client's frame.

        Raises:
            ScriptMismatchError: Something else came, or the version was not offered.

        Cancellation: CONNECTED may have been sent in part.
        """
        frame = await self._patiently("a CONNECT frame", self._next_frame)
        if frame.command not in (Command.CONNECT, Command.STOMP):
            raise ScriptMismatchError(f"expected a CONNECT frame, got {frame}")
        self.use_version(version)
        offered = frame.headers.get("accept-version", Version.V1_0.value) or ""
        if version not in offered.split(","):
            raise ScriptMismatchError(f"expected an offer of version {version}, got {frame}")
        answer = {"version": version, "heart-beat": str(HeartBeatOffer.of_seconds(*heart_beat))}
        if server is not None:
            answer["server"] = server
        await self.send(Command.CONNECTED, answer | dict(headers or {}))
        return frame

    def use_version(self, version: str) -> None:
        """Set the version for the frames that follow, if `accept_connect` was not used.

        Raises:
            ScriptMismatchError: No connection has been accepted.
        """
        if not self._lines:
            raise ScriptMismatchError("no connection has been accepted, so it has no version")
        self._lines[-1].use(Version(version))

    async def expect_disconnect(self) -> None:
        """Expect DISCONNECT, confirm it, expect that the client closes the link, and close it.

        Raises:
            ScriptMismatchError: The client did something else.

        Cancellation: a part of this may have happened.
        """
        frame = await self.expect(Command.DISCONNECT)
        await self.confirm(frame)
        await self.expect_eof()
        await self.aclose()

    async def send_eof(self) -> None:
        """Close the sending side, and continue to receive.

        Cancellation: nothing has happened, or all.
        """
        line = await self._line()
        await line.stream.send_eof()

    async def aclose(self) -> None:
        """Close the connection.

        Cancellation: it is closed all the same.
        """
        line = await self._line()
        await line.stream.aclose()

    async def close_all(self) -> None:
        """Close all connections and the socket: for `open_scripted_peer`.

        Cancellation: they are closed all the same.
        """
        while self._waiting:
            self._waiting.popleft().close()
        if self._listener is not None:
            self._listener.close()
        for line in self._lines:
            await anyio.aclose_forcefully(line.stream)


@async_context("open_scripted_peer()", "async with open_scripted_peer() as peer:")
async def open_scripted_peer(
    *, listen: bool = False, port: int = 0, patience: float = 5.0
) -> AsyncGenerator[ScriptedPeer]:
    """Play a STOMP server, for the length of an ``async with`` block.

    Args:
        listen: Open a socket on 127.0.0.1. Without one, clients connect with `ScriptedPeer.connect_stream`.
        port: The port; 0 chooses a free one.
        patience: Seconds (of the event loop's clock) that an expectation waits before it fails.

    Yields:
        The peer.

    Raises:
        OSError: The port is not available.

    Cancellation: all connections are closed, as whenever the block is left.
    """
    listener = None
    if listen:
        (listener,) = await open_tcp_listeners("127.0.0.1", port)
    peer = ScriptedPeer(listener, patience=patience)
    try:
        yield peer
    finally:
        # Nothing in it waits; the shield is for the checkpoints.
        with anyio.move_on_after(1, shield=True):
            await peer.close_all()
