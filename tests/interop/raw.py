"""STOMP over a bare socket, for what the client itself would hide: frames as they come, and how a connection ends."""

from __future__ import annotations

import socket
import time
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from tests.interop.bench import PATIENCE
from tests.interop.broker_facts import Broker

__all__ = ["CLOSED", "OPEN", "Link", "Raw", "linked"]

# "Nothing comes" costs this much.
_QUIET: Final = 0.7

# How an exchange ends: the connection is open and nothing more comes, or it is closed.
OPEN: Final = "open"
CLOSED: Final = "closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Raw:
    """A frame as it came, its headers not unescaped; of repeated ones the first."""

    command: str
    headers: dict[str, str]
    body: bytes


class Link:
    """A connection to a broker: a bare socket."""

    def __init__(self, broker: Broker) -> None:
        self._socket = socket.create_connection(("127.0.0.1", broker.ports["stomp"]), PATIENCE)
        self._came = b""

    def close(self) -> None:
        """Close the socket, without DISCONNECT."""
        self._socket.close()

    def send(self, command: str, *headers: str, body: bytes = b"") -> None:
        """Send a frame. That the broker has closed meanwhile is seen when reading."""
        self._socket.settimeout(PATIENCE)
        with suppress(OSError):
            self._socket.sendall("\n".join([command, *headers, "", ""]).encode() + body + b"\0")

    def frame(self, patience: float = PATIENCE) -> Raw | str:
        """Read a frame; otherwise, tell whether the connection is open."""
        deadline = time.monotonic() + patience
        while (found := self._whole()) is None:
            self._socket.settimeout(max(0.001, deadline - time.monotonic()))
            try:
                came = self._socket.recv(65_536)
            except TimeoutError:
                return OPEN
            except OSError:
                return CLOSED
            if not came:
                return CLOSED
            self._came += came
        return found

    def message(self) -> Raw:
        """Read a frame that must be a MESSAGE."""
        found = self.frame()
        assert isinstance(found, Raw)
        assert found.command == "MESSAGE"
        return found

    def rest(self) -> list[Raw | str]:
        """Read what must come, then all that still comes, and how it ends."""
        found = [self.frame()]
        while isinstance(found[-1], Raw):
            found.append(self.frame(_QUIET))
        return found

    def expect(self, *outline: str) -> None:
        """Read exactly this: commands, of an ERROR its message too, and how it ends."""
        found: list[str] = []
        while len(found) < len(outline):
            # A busy broker may be long in answering, and nothing is waited for only where nothing is to come.
            came = self.frame(_QUIET if outline[len(found)] == OPEN else PATIENCE)
            if isinstance(came, str):
                found.append(came)
                break
            found.append(f"ERROR {came.headers['message']}" if came.command == "ERROR" else came.command)
        assert found == list(outline)

    def _whole(self) -> Raw | None:
        head, separator, rest = self._came.lstrip(b"\n").partition(b"\n\n")
        if not separator:
            return None
        command, *lines = head.decode().split("\n")
        headers: dict[str, str] = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers.setdefault(name, value)
        size = int(headers["content-length"]) if "content-length" in headers else rest.find(b"\0")
        if not 0 <= size < len(rest):
            return None
        self._came = rest[size + 1 :]
        return Raw(command=command, headers=headers, body=rest[:size])


@contextmanager
def linked(broker: Broker, *headers: str, version: str = "1.2", vhost: str = "/") -> Generator[Link]:
    """Connect as guest, and see CONNECTED."""
    with closing(Link(broker)) as link:
        link.send("CONNECT", f"accept-version:{version}", f"host:{vhost}", "login:guest", "passcode:guest", *headers)
        connected = link.frame()
        assert isinstance(connected, Raw)
        assert connected.command == "CONNECTED"
        yield link
