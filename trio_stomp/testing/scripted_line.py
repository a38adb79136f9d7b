"""One connection of a scripted peer: what came over it, and how far the script has read."""

from __future__ import annotations

from collections import deque

import anyio

from trio_stomp.protocol import Decoder, Frame, Role, Version
from trio_stomp.runtime import ByteStream

__all__ = ["Line", "ScriptMismatchError"]

_READ_BYTES = 64 * 1024


class ScriptMismatchError(AssertionError):
    """The client did something else than the script says."""


class Line:
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
