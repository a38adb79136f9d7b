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
# In place of delimiters and of escaped backslashes while a head is unescaped.
_DELIMITER: Final = "\0"
_BACKSLASH: Final = "\1"
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
    text = head.decode()
    if b"\\" in marks and marks.translate(None, b"\\") in PLAIN:
        whole = _unescaped_at_once(text, commands, rules)
        if whole is not None:
            return whole
    lines = text.split("\n")
    command = commands[lines.pop(0)]
    entries = [line.split(":", 1) for line in lines]
    if b"\\" in marks:
        escapes, keep = escapes_of(command, rules), rules.literal_escapes
        for line, entry in zip(lines, entries, strict=True):
            if "\\" in line:
                entry[:] = [unescape(part, escapes, keep_undefined=keep) for part in entry]
    first: dict[str, str] = dict(entries)
    if "" in first:
        raise ValueError
    if len(first) == len(lines):
        return command, Headers((), first)
    return command, Headers([(name, value) for name, value in entries])


def _unescaped_at_once(text: str, commands: Mapping[str, Command], rules: Rules) -> tuple[Command, Headers] | None:
    """Read a head that has escapes and is plain otherwise; None where its lines have to be looked at by themselves."""
    command = commands[text.partition("\n")[0]]
    escapes = escapes_of(command, rules)
    if not escapes or _BACKSLASH in text:
        return None
    # The delimiters become one that no head holds, and escaped backslashes what this one does not hold. Each backslash
    # that is left then begins an escape, and each kind can be replaced for all lines at once.
    text = text.replace("\n", _DELIMITER).replace(":", _DELIMITER).replace("\\\\", _BACKSLASH)
    for escape, octet in escapes.items():
        text = text.replace(escape, octet)
    if "\\" in text:
        return None  # one that is not defined
    texts = text.replace(_BACKSLASH, "\\").split(_DELIMITER)
    first = dict(zip(texts[1::2], texts[2::2], strict=True))
    if len(first) * 2 + 1 != len(texts) or "" in first:
        return None
    return command, Headers((), first)


def repeated(head: bytes) -> Headers:
    """The headers of a plain head with repeats.

    Raises:
        ValueError: A name is empty.
    """
    texts = iter(head.decode().replace("\n", ":").split(":")[1:])
    headers = Headers(zip(texts, texts, strict=True))
    if "" in headers:
        raise ValueError
    return headers
