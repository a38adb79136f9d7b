"""Messages as JSON, one a line: what ``subscribe --json`` prints and ``send --json-lines`` reads."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from typing_extensions import TypeIs

from trio_stomp.cli.carried_headers import carried
from trio_stomp.cli.exit_codes import CommandFailed
from trio_stomp.client import Message, OutgoingMessage, resent_body
from trio_stomp.errors import DecodeFailed
from trio_stomp.protocol import text_encoding

__all__ = ["from_line", "to_line"]

_KEYS: Final = frozenset({"destination", "headers", "body", "body_base64"})


def to_line(message: Message) -> bytes:
    """A message as one line. A body that is no text in its charset is in base64, under a name that says so."""
    # The first of repeated headers is the one that counts, and the one that the mapping gives.
    line: dict[str, object] = {"destination": message.destination, "headers": dict(message.headers)}
    try:
        line["body"] = message.text
    except DecodeFailed:
        line["body_base64"] = base64.b64encode(message.body).decode("ascii")
    return json.dumps(line, ensure_ascii=False).encode() + b"\n"


def from_line(
    line: bytes,
    destination: str | None,
    headers: Sequence[tuple[str, str]],
    number: int,
    *,
    without: AbstractSet[str] = frozenset(),
) -> OutgoingMessage:
    """A line as a message to send.

    Args:
        line: ``{"destination": ..., "headers": {...}, "body": ...}``; all but the body may be left out.
        destination: Where to, whatever the line says.
        headers: More headers, in place of those of the line.
        number: Which line it is, for messages.
        without: Headers of the line to leave out.

    Raises:
        CommandFailed: It is no such line.
    """
    try:
        value: object = json.loads(line)
    except ValueError as error:
        raise _unusable(number, f"it is not JSON: {error}") from None
    if not _is_object(value):
        raise _unusable(number, f"expected an object, got a {type(value).__name__}")
    unknown = sorted(value.keys() - _KEYS)
    if unknown:
        raise _unusable(number, f"it has {unknown[0]!r}; known are {', '.join(sorted(_KEYS))}")
    target = destination if destination is not None else value.get("destination")
    if not isinstance(target, str):
        raise _unusable(number, 'it names no destination; give one as an argument, or as "destination" in the line')
    given = _headers(value.get("headers", {}), number)
    pairs = dict([*((name, text) for name, text in carried(given.items()) if name not in without), *headers])
    content_type = pairs.pop("content-type", given.get("content-type"))
    body = _body(value, number)
    if isinstance(body, str):
        try:
            body = resent_body(body.encode(text_encoding(content_type)), given)
        except (UnicodeEncodeError, LookupError) as error:
            raise _unusable(number, f"its body cannot be written in its charset: {error}") from None
    return OutgoingMessage(target, body, list(pairs.items()), content_type)


def _is_object(value: object) -> TypeIs[dict[str, object]]:
    # JSON has no other keys than text.
    return isinstance(value, dict)


def _headers(value: object, number: int) -> dict[str, str]:
    if not _is_object(value):
        raise _unusable(number, f"headers must be an object, got a {type(value).__name__}")
    pairs: dict[str, str] = {}
    for name, text in value.items():
        if not isinstance(text, str):
            raise _unusable(number, f"header {name!r} must be text, got a {type(text).__name__}: put it in quotes")
        pairs[name] = text
    return pairs


def _body(value: dict[str, object], number: int) -> str | bytes:
    if "body_base64" in value:
        encoded = value["body_base64"]
        if "body" in value or not isinstance(encoded, str):
            raise _unusable(number, "body_base64 must be text, and stand alone")
        try:
            return base64.b64decode(encoded, validate=True)
        except binascii.Error as error:
            raise _unusable(number, f"body_base64 is not base64: {error}") from None
    body = value.get("body", "")
    # What is no text in JSON is sent as the JSON that it is: the body of most programs.
    return body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)


def _unusable(number: int, why: str) -> CommandFailed:
    return CommandFailed(f"line {number} cannot be sent: {why}")
