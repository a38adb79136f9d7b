"""STOMP over a raw socket, lenient and unhurried: what arrives is shown as it came, nothing is decoded for you."""

import itertools
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

# Long enough for a loaded machine to answer, short enough that "nothing came" is not a long wait.
PATIENCE = 5.0
QUIET = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """A frame as it came: header lines in order, neither unescaped nor merged."""

    command: str
    lines: tuple[str, ...]
    body: bytes

    def get(self, name: str) -> str | None:
        """The first value of a header."""
        return next(iter(self.all(name)), None)

    def all(self, name: str) -> list[str]:
        """Every value of a header, in order."""
        return [value for key, _, value in (line.partition(":") for line in self.lines) if key == name]

    def __str__(self) -> str:
        """One line for a report, cut where it is long."""
        text = " ".join([self.command, *self.lines])
        body = self.body.decode("utf-8", "backslashreplace").replace("\n", "\\n").replace("\r", "\\r")
        text = text.replace("\r", "\\r")
        return text[:220] + (f" | {body[:80]}" if body else "")


_names = itertools.count(1)


def fresh(kind: str = "q") -> str:
    """A name that no run has used."""
    return f"probe.{kind}.{time.time_ns():x}.{next(_names)}"


@dataclass(slots=True, kw_only=True)
class Link:
    """One connection to a broker."""

    socket: socket.socket
    buffer: bytes = b""
    closed: bool = False
    # Everything between frames: end-of-line and heart-beats.
    between: bytes = b""
    pending: list[Frame] = field(default_factory=list[Frame])
    arrivals: list[tuple[float, bytes]] = field(default_factory=list[tuple[float, bytes]])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def write(self, octets: bytes) -> None:
        """Send bytes as they are; that the other side has closed shows when reading."""
        try:
            self.socket.sendall(octets)
        except OSError:
            self.closed = True

    def send(self, command: str, headers: Mapping[str, str] | None = None, body: bytes = b"") -> None:
        """Send a frame, its headers unescaped."""
        lines = "".join(f"{name}:{value}\n" for name, value in (headers or {}).items())
        self.write(f"{command}\n{lines}\n".encode() + body + b"\0")

    def _more(self, deadline: float) -> bool:
        """Wait for bytes until the deadline. False where there were none."""
        if self.closed:
            return False
        self.socket.settimeout(max(deadline - time.monotonic(), 0.001))
        try:
            octets = self.socket.recv(65536)
        except TimeoutError:
            return False
        except OSError:
            octets = b""
        if not octets:
            self.closed = True
            return False
        self.arrivals.append((time.monotonic(), octets))
        self.buffer += octets
        return True

    def _next(self) -> Frame | None:
        """Take a complete frame out of the buffer."""
        start = len(self.buffer) - len(self.buffer.lstrip(b"\r\n"))
        self.between, self.buffer = self.between + self.buffer[:start], self.buffer[start:]
        head, separator, rest = self.buffer.partition(b"\n\n")
        # A frame without headers has only one end-of-line before its blank line, and so has no exception here.
        if not separator:
            return None
        command, *lines = head.decode("utf-8", "surrogateescape").split("\n")
        lengths = [line[15:] for line in lines if line.startswith("content-length:")]
        size = int(lengths[0]) if lengths and lengths[0].isdecimal() else rest.find(b"\0")
        if size < 0 or len(rest) <= size:
            return None
        self.buffer = rest[size + 1 :]
        return Frame(command=command, lines=tuple(lines), body=rest[:size])

    def read(self, seconds: float = PATIENCE) -> Frame | None:
        """The next frame, or None where none came in time or the connection ended."""
        if self.pending:
            return self.pending.pop(0)
        deadline = time.monotonic() + seconds
        while (frame := self._next()) is None:
            if not self._more(deadline):
                return None
        return frame

    def until(self, command: str, seconds: float = PATIENCE) -> Frame | None:
        """The next frame with that command; others before it are dropped."""
        deadline = time.monotonic() + seconds
        while frame := self.read(deadline - time.monotonic()):
            if frame.command == command:
                return frame
        return None

    def gather(self, seconds: float = QUIET) -> list[Frame]:
        """All frames that come until none has come for a while."""
        frames: list[Frame] = []
        while frame := self.read(seconds):
            frames.append(frame)
        return frames

    def ends(self, seconds: float = QUIET) -> bool:
        """Whether the broker closes the connection within that time."""
        deadline = time.monotonic() + seconds
        while self._more(deadline):
            pass
        return self.closed

    def ask(
        self, command: str, headers: Mapping[str, str] | None = None, body: bytes = b"", *, seconds: float = PATIENCE
    ) -> Frame | None:
        """Send a frame with a receipt and return its RECEIPT, or the ERROR that came instead.

        Other frames that came first, such as a MESSAGE, are kept for the next read.
        """
        receipt = fresh("r")
        self.send(command, {**(headers or {}), "receipt": receipt}, body)
        deadline = time.monotonic() + seconds
        kept: list[Frame] = []
        answer: Frame | None = None
        while frame := self.read(deadline - time.monotonic()):
            if frame.command == "ERROR" or (frame.command == "RECEIPT" and frame.get("receipt-id") == receipt):
                answer = frame
                break
            kept.append(frame)
        self.pending = kept + self.pending
        return answer


def dial(host: str, port: int) -> Link:
    """Open a connection and say nothing."""
    return Link(socket=socket.create_connection((host, port), PATIENCE))


def connect(host: str, port: int, version: str | None = "1.2", **headers: str) -> Link:
    """Open a connection and log in as guest; header names have `_` for `-`.

    Raises:
        ConnectionError: The broker did not answer with CONNECTED; what it said is in the message.
    """
    link = dial(host, port)
    wanted = {"host": "/", "login": "guest", "passcode": "guest"}
    if version:
        wanted["accept-version"] = version
    link.send("CONNECT", wanted | {name.replace("_", "-"): value for name, value in headers.items()})
    frame = link.read()
    if frame is None or frame.command != "CONNECTED":
        link.socket.close()
        raise ConnectionError(f"expected CONNECTED, got {frame}")
    return link
