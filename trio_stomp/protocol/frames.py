"""Commands and frames. Spec: "STOMP Frames"."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar

from typing_extensions import dataclass_transform

from trio_stomp.protocol.headers import Headers

__all__ = ["CLIENT_COMMANDS", "SERVER_COMMANDS", "Command", "Frame", "Role", "read_only"]

T = TypeVar("T")

# A frame in a log is cut to this many characters for each value, and this many octets of the body.
_SHOWN = 80


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def read_only(cls: type[T]) -> type[T]:
    """Make a value type that type checkers hold to be frozen and that is a plain slots class at run time.

    `frozen=True` writes each field through `object.__setattr__`: measured at 2.3 times the cost of making the object,
    and one or two are made for each message. The checkers refuse the assignment just the same. Nor are the fields
    keyword-only as elsewhere: naming them doubles the cost once more.
    """
    return dataclass(slots=True, unsafe_hash=True)(cls)


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


@read_only
class Frame:
    """One STOMP frame.

    Attributes:
        command: What it asks or tells.
        headers: Its headers, decoded.
        body: Its body: octets, unchanged.
    """

    command: Command
    headers: Headers = Headers()
    body: bytes = b""

    def __str__(self) -> str:
        """One line for a log: cut short, and never with a passcode."""
        shown = repr(self.headers)[len("Headers(") : -1]
        if len(shown) > 4 * _SHOWN:
            shown = shown[: 4 * _SHOWN] + "..."
        if not self.body:
            return f"{self.command.value} {shown}"
        rest = "..." if len(self.body) > _SHOWN else ""
        return f"{self.command.value} {shown} {len(self.body)} octets {self.body[:_SHOWN]!r}{rest}"

    if not TYPE_CHECKING:
        __repr__ = __str__
