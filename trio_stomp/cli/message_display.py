"""How a message is printed: its body, with or without its headers, or as a line of JSON."""

from __future__ import annotations

import enum

from trio_stomp.cli.message_lines import to_line
from trio_stomp.client import Message
from trio_stomp.errors import DecodeFailed
from trio_stomp.printable import harmless, one_line

__all__ = ["Layout", "displayed"]


class Layout(enum.Enum):
    """What is printed of a message.

    Attributes:
        BODY: The body, octet for octet, and a line feed where it does not end with one.
        FULL: The headers before it, as ``name: value``, and an empty line on each side.
        JSON: One line of JSON.
    """

    BODY = "body"
    FULL = "full"
    JSON = "json"

    @classmethod
    def of(cls, *, headers: bool, as_json: bool) -> Layout:
        """The layout that the flags of a command ask for."""
        if as_json:
            return cls.JSON
        return cls.FULL if headers else cls.BODY


def displayed(message: Message, layout: Layout, *, for_terminal: bool) -> bytes:
    """What to print of a message.

    Args:
        message: The message.
        layout: What of it.
        for_terminal: A terminal shows it: control characters are made visible, for it would obey them.
    """
    if layout is Layout.JSON:
        # JSON escapes the controls below a space; those above are as dangerous to a terminal.
        line = to_line(message)
        return (harmless(line.decode().rstrip("\n")) + "\n").encode() if for_terminal else line
    body = message.body
    if for_terminal:
        try:
            text = message.text
        except DecodeFailed:
            text = body.decode("utf-8", "backslashreplace")
        body = harmless(text).encode()
    if not body.endswith(b"\n"):
        body += b"\n"
    if layout is Layout.BODY:
        return body
    # A header value may hold line feeds since 1.1: each header is one line here.
    head = "".join(f"{one_line(name)}: {one_line(value)}\n" for name, value in message.headers.items())
    return head.encode() + b"\n" + body + b"\n"
