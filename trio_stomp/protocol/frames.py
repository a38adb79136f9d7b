"""Commands, frames, and how much memory a frame takes. Spec: "STOMP Frames"."""

from __future__ import annotations

import enum
import sys
from typing import Final, Protocol

from trio_stomp.protocol.headers import Headers

__all__ = [
    "BODY_COMMANDS",
    "CLIENT_COMMANDS",
    "HEADER_BYTES",
    "MESSAGE_BYTES",
    "SERVER_COMMANDS",
    "UNESCAPED_COMMANDS",
    "WIDEST",
    "BodySink",
    "Command",
    "Frame",
    "Role",
    "SpooledFrame",
    "Word",
    "head_footprint",
]

# A frame in a log is cut to this many characters for each value, and this many bytes of the body.
_SHOWN: Final = 80


class Word(enum.StrEnum):
    """An enumeration of words that hash as text.

    `enum` computes hashes in Python, from the names of its members, and each frame is looked up in several tables.
    """

    __hash__ = str.__hash__


class Role(Word):
    """One of the two sides of a connection."""

    CLIENT = "client"
    SERVER = "server"

    @property
    def peer(self) -> Role:
        """The other side."""
        return Role.SERVER if self is Role.CLIENT else Role.CLIENT


class Command(Word):
    """The first line of a frame."""

    CONNECT = "CONNECT"
    STOMP = "STOMP"
    SEND = "SEND"
    SUBSCRIBE = "SUBSCRIBE"
    UNSUBSCRIBE = "UNSUBSCRIBE"
    ACK = "ACK"
    NACK = "NACK"
    BEGIN = "BEGIN"
    COMMIT = "COMMIT"
    ABORT = "ABORT"
    DISCONNECT = "DISCONNECT"
    CONNECTED = "CONNECTED"
    MESSAGE = "MESSAGE"
    RECEIPT = "RECEIPT"
    ERROR = "ERROR"


SERVER_COMMANDS: Final = frozenset({Command.CONNECTED, Command.MESSAGE, Command.RECEIPT, Command.ERROR})
CLIENT_COMMANDS: Final = frozenset(Command) - SERVER_COMMANDS

# STOMP 1.2, Body: "Only the SEND, MESSAGE, and ERROR frames MAY have a body."
BODY_COMMANDS: Final = frozenset({Command.SEND, Command.MESSAGE, Command.ERROR})

# STOMP 1.2, Value Encoding: CONNECT and CONNECTED are not escaped, for the sake of 1.0. STOMP is "handled in the same
# manner as" CONNECT, so it is read the same way here.
UNESCAPED_COMMANDS: Final = frozenset({Command.CONNECT, Command.STOMP, Command.CONNECTED})


_NO_HEADERS: Final = Headers()


class Frame:
    """One STOMP frame.

    Attributes:
        command: Its command.
        headers: Its headers, decoded.
        body: Its body, unchanged.
        footprint: How many bytes of memory it takes at most, as counted by the decoder; 0 for a frame made otherwise.
            Comparing ignores it.
    """

    __slots__ = ("body", "command", "footprint", "headers")
    __match_args__ = ("command", "headers", "body")

    def __init__(self, command: Command, headers: Headers = _NO_HEADERS, body: bytes = b"", footprint: int = 0) -> None:
        self.command: Final = command
        self.headers: Final = headers
        self.body: Final = body
        self.footprint: Final = footprint

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Frame):
            return NotImplemented
        return self.command == other.command and self.headers == other.headers and self.body == other.body

    def __hash__(self) -> int:
        return hash((self.command, self.headers, self.body))

    def __str__(self) -> str:
        """One line for a log: cut short, and never with a passcode."""
        shown = repr(self.headers.shown(of_connect=self.command in (Command.CONNECT, Command.STOMP)))
        if len(shown) > 4 * _SHOWN:
            shown = shown[: 4 * _SHOWN] + "..."
        if not self.body:
            return f"{self.command.value} {shown}"
        rest = "..." if len(self.body) > _SHOWN else ""
        return f"{self.command.value} {shown} {len(self.body)} bytes {self.body[:_SHOWN]!r}{rest}"

    def __repr__(self) -> str:
        return str(self)


class BodySink(Protocol):
    """Takes the body of one frame piece by piece, so that it is never in memory as a whole."""

    def write(self, piece: memoryview) -> None:
        """Add a piece, which is valid only during the call. Never waits and never raises."""

    def finish(self) -> None:
        """The body is complete."""


class SpooledFrame(Frame):
    """A frame whose body went into a sink; its own body is empty, and its footprint is that of its head.

    Attributes:
        sink: What has its body.
    """

    __slots__ = ("sink",)

    def __init__(self, command: Command, headers: Headers, sink: BodySink, footprint: int) -> None:
        super().__init__(command, headers, b"", footprint)
        self.sink: Final = sink

    def __str__(self) -> str:
        return f"{super().__str__()} {self.sink}"


# A bound on bytes of the wire is no bound on memory: a header line of four bytes becomes two strings and an entry of
# a dict, and one emoji makes Python keep a whole value at four bytes for each character. So a frame counts for the
# bytes it came as, and for the objects it became, as if it shared none with other frames. Most share the names and
# values that repeat, and take less. Measured with tracemalloc on CPython 3.11, which needs more than later versions;
# bytes of memory beyond those of the wire, for each MESSAGE in a deque (`tests/protocol/test_footprint.py`):
#
#                                                       measured    counted
#     3 headers, no body                              253 to 486      1,016
#     4 headers, no body                                     570      1,184
#     22 headers: the dict has just grown                  2,946      4,208
#     403 headers with names of 4 letters                 51,954     68,216
#     403 headers with the same name                      64,973     68,216
#     a value of 1,000 letters and a euro sign             2,000      4,349
#     a value of 1,000 letters and an emoji                4,004      4,352

# What each object takes beyond that in a free-threaded build of CPython.
_FREE_THREADED: Final = 16 if "free-threading" in sys.version else 0
# The Frame, its Headers, the objects of its body and of this very number, a place in a deque.
MESSAGE_BYTES: Final = 512 + 8 * _FREE_THREADED
# Two strings, an entry of a dict that may just have grown, and, where names repeat, a pair in a tuple.
HEADER_BYTES: Final = 168 + 3 * _FREE_THREADED
# Bytes of memory for one of the wire, in text that is not all ASCII.
WIDEST: Final = 4


def head_footprint(head: bytes, header_count: int) -> int:
    """The memory that a frame takes without its body.

    Args:
        head: The bytes of its head; any that are counted elsewhere may be left out.
        header_count: How many headers it has, repeats included.
    """
    size = len(head) if head.isascii() else WIDEST * len(head)
    return MESSAGE_BYTES + HEADER_BYTES * header_count + size
