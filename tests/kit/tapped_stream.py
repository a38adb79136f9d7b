"""A stream that records what passes, and cuts the link after any number of bytes."""

from __future__ import annotations

import anyio
import trio

from tests.kit.streams import ByteStream, KitBrokenError, KitStream, abort
from trio_stomp.protocol import Decoder, Role, settle
from trio_stomp.types import Command, Frame, Version

__all__ = ["TappedStream", "frames_of"]


class TappedStream(KitStream):
    """A client's end of a link, with a tap on it.

    Args:
        below: The stream that carries the bytes.
        cut_sent: After so many bytes of the client the link is gone; None is never.
        cut_received: After so many bytes to the client the link is gone; None is never.
        reset: The link ends with an error, not with an end of file.

    Attributes:
        sent: All bytes of the client that got through.
        received: All bytes that the client got.
        is_closed: Whether the client has closed it.
    """

    def __init__(
        self,
        below: ByteStream,
        *,
        cut_sent: int | None = None,
        cut_received: int | None = None,
        reset: bool = False,
    ) -> None:
        self._below = below
        self._cut_sent = cut_sent
        self._cut_received = cut_received
        self._reset = reset
        self._gone = anyio.Event()
        self.sent = bytearray()
        self.received = bytearray()
        self.is_closed = False

    async def _cut(self) -> None:
        self._gone.set()
        await abort(self._below)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        if self._gone.is_set():
            raise KitBrokenError
        left = len(data) if self._cut_sent is None else self._cut_sent - len(self.sent)
        passed = bytes(data)[: max(0, left)]
        if passed:
            await self._below.send_all(passed)
            self.sent += passed
        if len(passed) < len(data):
            await self._cut()
            raise KitBrokenError

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        if self._cut_received is not None:
            if len(self.received) >= self._cut_received:
                await self._cut()
                return self._end()
            max_bytes = min(max_bytes or 65536, self._cut_received - len(self.received))
        try:
            data = await self._below.receive_some(max_bytes)
        except (anyio.ClosedResourceError, trio.ClosedResourceError):
            # Closed by the cut of the other direction, under the hands of the reader.
            if not self._gone.is_set():
                raise
            return self._end()
        self.received += data
        return data

    def _end(self) -> bytes:
        if self._reset:
            raise KitBrokenError
        return b""

    async def aclose(self) -> None:
        self._gone.set()
        self.is_closed = True
        await self._below.aclose()


def frames_of(given: bytes | bytearray, role: Role = Role.SERVER) -> tuple[list[Frame], bool]:
    """Decode what was recorded, as `role` would have.

    Returns:
        The whole frames, and whether the bytes end inside another one.
    """
    decoder = Decoder(role=role)
    frames = decoder.receive_data(bytes(given))
    if frames and frames[0].command in (Command.CONNECT, Command.CONNECTED):
        version, _ = settle(frames[0], tuple(Version)) if role is Role.CLIENT else (Version.V1_2, None)
        decoder.set_version(version)
        frames += decoder.receive_data(b"")
    assert decoder.error is None, decoder.error
    return frames, decoder.pending
