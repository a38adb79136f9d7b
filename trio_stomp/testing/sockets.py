"""Listening sockets, on either event loop."""

from __future__ import annotations

import errno
import logging
import socket
import sys
from typing import Final

import anyio

from trio_stomp.runtime import ByteStream, socket_stream

__all__ = ["Listener", "open_tcp_listeners", "open_unix_listener"]

_log: Final = logging.getLogger("trio_stomp.testing")

# What a listener lets wait to be accepted: more than any test opens at once.
_BACKLOG: Final = 1024
# Of file descriptors or memory, there are none left. Some connection may end soon.
_NOTHING_LEFT: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS)
_PAUSE_SECONDS: Final = 0.1


class Listener:
    """A socket that accepts connections.

    Args:
        sock: A listening socket, which belongs to it from then on.
    """

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)  # noqa: FBT003  # its only form
        self._socket = sock

    @property
    def port(self) -> int:
        """The port of a TCP socket."""
        return int(self._socket.getsockname()[1])

    async def accept(self) -> ByteStream:
        """Wait for the next connection.

        Cancellation: a connection that was just accepted is closed; others still wait.
        """
        while True:
            await _wait_readable(self._socket)
            try:
                sock = self._socket.accept()[0]
            except BlockingIOError:
                continue
            except OSError as error:
                if error.errno in _NOTHING_LEFT:
                    _log.warning("cannot accept a connection now: %s", error)
                    await anyio.sleep(_PAUSE_SECONDS)
                # Otherwise it was lost before it was accepted.
                continue
            try:
                return await _stream_of(sock)
            except OSError:
                # It was lost since. Some systems refuse to set options of such a socket.
                continue

    def close(self) -> None:
        """Close the socket. No task may be waiting in `accept`."""
        self._socket.close()


async def _wait_readable(sock: socket.socket) -> None:
    # The older name is that of anyio before 4.7, and deprecated since.
    wait = "wait_readable" if hasattr(anyio, "wait_readable") else "wait_socket_readable"
    await getattr(anyio, wait)(sock)


async def _stream_of(sock: socket.socket) -> ByteStream:
    sock.setblocking(False)  # noqa: FBT003  # its only form
    return await socket_stream(sock)


async def open_tcp_listeners(host: str, port: int) -> list[Listener]:
    """Listen on each address of a host.

    Args:
        host: Its name or address.
        port: The port; 0 chooses a free one.

    Raises:
        OSError: The host is unknown, or the port is not available.

    Cancellation: nothing is open.
    """
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    listeners: list[Listener] = []
    try:
        for family, _, _, _, address in found:
            listeners.append(_open(family, address))
    except OSError:
        for listener in listeners:
            listener.close()
        raise
    return listeners


def open_unix_listener(path: str) -> Listener:
    """Listen on a Unix socket.

    Raises:
        OSError: The path is not available, or the platform has no Unix sockets.
    """
    if not hasattr(socket, "AF_UNIX"):
        raise OSError("this platform has no Unix sockets")
    return _open(socket.AF_UNIX, path)


def _open(family: int, address: tuple[str | int, ...] | str) -> Listener:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        if not isinstance(address, str):
            # A port can be used again at once. On Windows, that is always so, and the option means another thing.
            if sys.platform == "win32":
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
            else:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(address)
        sock.listen(_BACKLOG)
    except OSError:
        sock.close()
        raise
    return Listener(sock)
