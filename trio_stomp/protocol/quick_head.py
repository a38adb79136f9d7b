"""The structure of a head at one glance, for the decoder's quick way; the exact way, line by line, is `HeadReader`.

Whatever is not taken here is judged there. What is taken here, the exact way would have taken too and with the same
headers: the properties of the codec hold the two against each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from trio_stomp.protocol.frames import Command
from trio_stomp.protocol.grammar import Rules, escapes_of, unescape
from trio_stomp.protocol.headers import Headers

__all__ = ["PLAIN", "UNMARKED", "head_by_lines", "repeated"]

# The octets of a head without a meaning of their own; `head.translate(None, UNMARKED)` is its structure, in one C call.
UNMARKED: Final = bytes(set(range(256)) - set(b"\n:\\\r\0"))
# The structures of plain heads: an end of line and one colon for each header. Those with more headers go by lines.
PLAIN: Final = frozenset(b"\n:" * count for count in range(65))


def head_by_lines(head: bytes, marks: bytes, commands: Mapping[str, Command], rules: Rules) -> tuple[Command, Headers]:
    """Read a head that has escapes, or more than one colon in a line.

    Args:
        head: Its octets, without the blank line that ends it.
        marks: Its structure.
        commands: What the peer may send, by the text of the command line.
        rules: How its lines are read.

    Raises:
        KeyError: The command is unknown.
        ValueError: It is no UTF-8, or a line has no colon, or it is for the exact way to judge.
        RemoteProtocolError: An escape is not defined.
    """
    if b"\0" in marks or b"\r" in marks:
        raise ValueError
    lines = head.decode().split("\n")
    command = commands[lines.pop(0)]
    entries = [line.split(":", 1) for line in lines]
    if b"\\" in marks:
        escapes, keep = escapes_of(command, rules), rules.literal_escapes
        for line, entry in zip(lines, entries, strict=True):
            if "\\" in line:
                entry[:] = [unescape(part, escapes, keep_undefined=keep) for part in entry]
    first: dict[str, str] = dict(entries)
    if len(first) == len(lines):
        return command, Headers.adopt(first)
    return command, Headers([(name, value) for name, value in entries])


def repeated(head: bytes) -> Headers:
    """The headers of a plain head with repeats."""
    texts = iter(head.decode().replace("\n", ":").split(":")[1:])
    return Headers(zip(texts, texts, strict=True))
