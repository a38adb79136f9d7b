"""A link that takes no memory: to a server that takes what comes, and makes one large message as it is read."""

from __future__ import annotations

from typing import Final

import trio

__all__ = ["LargeLink"]

_PIECE: Final = bytes(64 * 1024)


class LargeLink(trio.abc.Stream):
    """The client's end. Receipts are answered; a SUBSCRIBE is, with one MESSAGE to the subscription ``s``.

    Args:
        body_bytes: The length of its body, which consists of NULs.

    Attributes:
        taken_bytes: How many bytes the client has written.
    """

    def __init__(self, body_bytes: int = 0) -> None:
        self.taken_bytes = 0
        self._body_bytes = body_bytes
        self._left = 0
        self._input = b"CONNECTED\nversion:1.2\nheart-beat:0,0\n\n\0"
        self._changed = trio.Event()

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await trio.lowlevel.checkpoint()
        sent = bytes(data)
        self.taken_bytes += len(sent)
        for part in sent.split(b"\nreceipt:")[1:]:
            self._input += b"RECEIPT\nreceipt-id:%b\n\n\0" % part.split(b"\n")[0]
        if sent.startswith(b"SUBSCRIBE"):
            head = b"MESSAGE\nsubscription:s\nmessage-id:1\ndestination:/q\ncontent-length:%d\n\n"
            self._input += head % self._body_bytes
            self._left = self._body_bytes + 1
        self._changed.set()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.lowlevel.checkpoint()
        while not self._input and not self._left:
            self._changed = trio.Event()
            await self._changed.wait()
        if not self._input:
            # The NUL at the end is one more of the body.
            self._input = _PIECE[: self._left]
            self._left -= len(self._input)
        data, self._input = self._input[:max_bytes], b"" if max_bytes is None else self._input[max_bytes:]
        return data

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()
