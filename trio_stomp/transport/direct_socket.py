"""Plain sockets without Trio's streams around them: what lies on the way of each request and its answer.

A stream's ``send_all`` needs a task that waits in it, and its ``receive_some`` asks the system twice for each answer
that has not come yet. Neither matters where frames come and go in numbers; both do where one is waited for. Streams
that are more than a socket (TLS, WebSocket, what a user brings) are used as they are.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from typing import TypeGuard

import trio

__all__ = ["DirectRead", "DirectWrite", "direct_read", "direct_write"]

# Given octets, how many of them the operating system took at once.
DirectWrite = Callable[[bytes], int]
# Given how many octets at most, those that are there, after waiting for the first; none at the end.
DirectRead = Callable[[int], Awaitable[bytes | bytearray]]


def direct_write(stream: trio.abc.Stream) -> DirectWrite | None:
    """What writes to a stream without waiting; None where the stream is more than a plain socket.

    Args:
        stream: The stream, which nobody may be writing to when the function is called.
    """
    if not _is_plain(stream):
        return None
    socket = stream.socket

    def write(octets: bytes) -> int:
        try:
            # Trio's sockets never block. The number is asked for each time: once closed, it may be another file's.
            return os.write(socket.fileno(), octets)
        except OSError:
            # Full or broken: the writer is to wait, or to find out.
            return 0

    return write


def direct_read(stream: trio.abc.Stream) -> DirectRead:
    """What reads from a stream: its own ``receive_some``, but for a plain socket.

    Args:
        stream: The stream, which nobody else may read from.
    """
    if not _is_plain(stream):
        return stream.receive_some
    socket = stream.socket

    async def read(octets: int) -> bytes:
        while True:
            # Nearly always there is nothing yet, since all was taken the last time: so wait first, then ask.
            await trio.lowlevel.wait_readable(socket.fileno())
            try:
                return os.read(socket.fileno(), octets)
            except BlockingIOError:
                continue

    return read


def _is_plain(stream: trio.abc.Stream) -> TypeGuard[trio.SocketStream]:
    # A subclass may do anything with the octets. Windows reads and writes sockets by other means.
    return type(stream) is trio.SocketStream and sys.platform != "win32"
