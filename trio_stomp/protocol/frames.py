"""Commands and frames. Spec: "STOMP Frames"."""

from __future__ import annotations

import enum
from typing import Final

from trio_stomp.protocol.headers import Headers

__all__ = ["CLIENT_COMMANDS", "SERVER_COMMANDS", "Command", "Frame", "Role"]

# A frame in a log is cut to this many characters for each value, and this many octets of the body.
_SHOWN = 80


class Word(enum.StrEnum):
    """Members that are their text and nothing else, as keys of tables too.

    An enumeration computes hashes in Python, from the names of its members; each frame is looked up in several tables.
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

    Written out rather than made by `dataclass`: one is made for each message, and the compiled package then makes it in
    a sixth of the time.

    Attributes:
        command: What it asks or tells.
        headers: Its headers, decoded.
        body: Its body: octets, unchanged.
        footprint: How many octets of memory it takes at most, where a decoder has made it; else 0. It tells nothing of
            what the frame says, so equal frames may differ in it.
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

    def __reduce__(self) -> tuple[type[Frame], tuple[Command, Headers, bytes, int]]:
        # A compiled class has no other way to be copied and pickled.
        return Frame, (self.command, self.headers, self.body, self.footprint)

    def __str__(self) -> str:
        """One line for a log: cut short, and never with a passcode."""
        shown = repr(self.headers)[len("Headers(") : -1]
        if len(shown) > 4 * _SHOWN:
            shown = shown[: 4 * _SHOWN] + "..."
        if not self.body:
            return f"{self.command.value} {shown}"
        rest = "..." if len(self.body) > _SHOWN else ""
        return f"{self.command.value} {shown} {len(self.body)} octets {self.body[:_SHOWN]!r}{rest}"

    def __repr__(self) -> str:
        return str(self)
