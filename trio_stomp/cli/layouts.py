"""Layouts for printing messages: the body, the whole message, JSON, or a format string."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import click

from trio_stomp.cli.commands import flag, option
from trio_stomp.cli.messages import to_line
from trio_stomp.cli.options import json_option
from trio_stomp.cli.running import InvalidUsage
from trio_stomp.client import Message
from trio_stomp.errors import DecodeError
from trio_stomp.printable import harmless, one_line

__all__ = ["FIELDS", "Layout", "MessageFormat", "now"]


def _body(message: Message, *, raw: bool) -> bytes:
    if raw:
        return message.body
    try:
        text = message.text
    except DecodeError:
        text = message.body.decode("utf-8", "backslashreplace")
    return harmless(text).encode()


def _json(message: Message, *, raw: bool) -> bytes:
    line = to_line(message)
    # JSON escapes control characters below space only. What harmless() makes of the others is JSON, too.
    return (line if raw else harmless(line)).encode()


def now() -> str:
    """The time in UTC, as messages are printed and templates are filled in with it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


# The value of a field. A header may contain line feeds and tabs; shown as one line, it cannot look like two fields.
FIELDS: Final[Mapping[str, Callable[[Message], str | None]]] = {
    "base64": lambda message: base64.b64encode(message.body).decode("ascii"),
    "content_type": lambda message: message.content_type,
    "destination": lambda message: message.destination,
    "headers": lambda message: json.dumps(dict(message.headers), ensure_ascii=False),
    "id": lambda message: message.id,
    "redelivered": lambda message: str(message.redelivered).lower(),
    "size": lambda message: str(len(message.body)),
    "time": lambda _message: now(),
}
_HEADER: Final = "header:"
_BODIES: Final = {"body": _body, "json": _json}

_TOKEN: Final = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|(.?))|(\{\{|\}\})|\{([^{}]*)\}|([{}])", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t", "0": "\0", "e": "\x1b", "\\": "\\"}


@dataclass(frozen=True, slots=True)
class MessageFormat:
    r"""A format string, such as ``{id} {header:shop} {body}\n``.

    Attributes:
        parts: Text to print as it is, and the names of fields.
    """

    parts: tuple[tuple[bytes, str], ...]

    @classmethod
    def parse(cls, text: str) -> MessageFormat:
        """Read a format string."""
        parts: list[tuple[bytes, str]] = []
        literal, end = "", 0
        for token in _TOKEN.finditer(text):
            literal += text[end : token.start()]
            end = token.end()
            code, escape, brace, field, stray = token.groups()
            if code is not None:
                literal += chr(int(code, 16))
            elif escape is not None:
                if escape not in _ESCAPES:
                    expected = " ".join(f"\\{each}" for each in _ESCAPES)
                    raise click.BadParameter(f"unknown escape {token[0]!r}; expected one of {expected} \\xNN")
                literal += _ESCAPES[escape]
            elif brace is not None:
                literal += brace[0]
            elif stray is not None:
                raise click.BadParameter(f"a single {stray!r}; write it twice to print it")
            else:
                name = field.strip()
                if name not in FIELDS and name not in _BODIES and not name.startswith(_HEADER):
                    expected = ", ".join(sorted([*FIELDS, *_BODIES, f"{_HEADER}NAME"]))
                    raise click.BadParameter(f"unknown field {name!r}; expected one of {expected}")
                parts.append((literal.encode(errors="surrogateescape"), name))
                literal = ""
        parts.append(((literal + text[end:]).encode(errors="surrogateescape"), ""))
        return cls(tuple(parts))

    def show(self, message: Message, *, raw: bool) -> bytes:
        """Return the text for a message; see `Layout.show`."""
        return b"".join(literal + _field(name, message, raw=raw) for literal, name in self.parts)


def _field(name: str, message: Message, *, raw: bool) -> bytes:
    if not name:
        return b""
    if name in _BODIES:
        return _BODIES[name](message, raw=raw)
    header = name.removeprefix(_HEADER)
    text = FIELDS[name](message) if header == name else message.headers.get(header)
    return one_line(text or "").encode()


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How to print a message. Without options: the body, and a line feed if it does not end with one.

    With headers: these as ``name: value``, an empty line, the body, an empty line.
    """

    headers: bool = flag("Output", "Print the headers, too.", "-i")
    as_json: bool = json_option("Print lines of JSON, which send --json can read.")
    format: MessageFormat | None = option(
        None,
        "Output",
        r"Print this for each message, for example '{id} {header:shop} {body}\n'. "
        f"Fields: {', '.join(sorted([*FIELDS, *_BODIES]))}, header:NAME.",
        "-F",
        type=MessageFormat.parse,
        metavar="FORMAT",
    )
    timestamps: bool = flag("Output", "Print when each message came, in UTC, before it.")
    raw: bool = flag("Output", "Print control characters to a terminal as they are.")

    def check(self) -> None:
        """Refuse contradictory options."""
        if self.format is not None and (self.headers or self.as_json):
            raise InvalidUsage("--format excludes --headers and --json")
        if self.timestamps and (self.format is not None or self.as_json):
            raise InvalidUsage("--timestamps is for text; in a --format, write {time}")

    def show(self, message: Message, *, for_terminal: bool) -> bytes:
        """Return the bytes to print for a message.

        Args:
            message: The message.
            for_terminal: Make control characters visible instead of sending them to the terminal, unless `raw`.
        """
        raw = self.raw or not for_terminal
        if self.format is not None:
            return self.format.show(message, raw=raw)
        if self.as_json:
            return _json(message, raw=raw) + b"\n"
        body = _body(message, raw=raw)
        if not body.endswith(b"\n"):
            body += b"\n"
        came = f"{now()} ".encode() if self.timestamps else b""
        if not self.headers:
            return came + body
        # Since STOMP 1.1 a header value may contain line feeds; here each header is one line.
        head = "".join(f"{one_line(name)}: {one_line(value)}\n" for name, value in message.headers.items())
        return (came and came[:-1] + b"\n") + head.encode() + b"\n" + body + b"\n"
