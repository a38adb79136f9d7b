"""Reading and writing plain sockets without trio's stream layer, to shorten round trips.

``send_all`` of a stream needs a task that waits in it, and ``receive_some`` makes two system calls for data that is not
there yet. Neither matters for bulk traffic; both matter for a single request and its reply. All other streams (TLS,
WebSocket, streams from the user) are used unchanged.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from typing import TypeGuard

import trio

from trio_stomp.transport.readers import Readers

__all__ = ["DirectRead", "DirectWrite", "direct_read", "direct_write"]

# Write bytes; returns how many the operating system accepted at once.
DirectWrite = Callable[[bytes], int]
# Wait for bytes and return at most this many; empty at the end of the stream.
DirectRead = Callable[[int], Awaitable[bytes | bytearray]]


def direct_write(stream: trio.abc.Stream) -> DirectWrite | None:
    """A function that writes to a stream without waiting; None unless the stream is a plain socket.

    Args:
        stream: The stream; no other task may be writing to it when the function is called.
    """
    if not _is_plain(stream):
        return None
    socket = stream.socket

    def write(data: bytes) -> int:
        try:
            # Sockets of trio never block. fileno() each time: after closing, the number may belong to another file.
            return os.write(socket.fileno(), data)
        except OSError:
            # Full or broken: the writer task will wait, or see the error.
            return 0

    return write


def direct_read(stream: trio.abc.Stream) -> DirectRead:
    """A function that reads from a stream; faster than ``receive_some`` on a plain socket.

    Args:
        stream: The stream; no other task may read from it.
    """
    if not _is_plain(stream):
        return stream.receive_some
    socket, readers, reader = stream.socket, Readers.of_this_run(), object()

    async def read(max_bytes: int) -> bytes:
        while True:
            # Usually nothing is there, because the last read took everything: so wait first.
            await trio.lowlevel.wait_readable(socket.fileno())
            if not readers.may_read(reader):
                await readers.turn()
            try:
                data = os.read(socket.fileno(), max_bytes)
            except BlockingIOError:
                continue
            readers.count(reader, len(data))
            return data

    return read


def _is_plain(stream: trio.abc.Stream) -> TypeGuard[trio.SocketStream]:
    # A subclass may transform the bytes. Windows does not read and write sockets like files.
    return type(stream) is trio.SocketStream and sys.platform != "win32"
