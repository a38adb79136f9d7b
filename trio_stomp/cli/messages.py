"""What commands do with messages: receive, filter, print, and write and read them as JSON."""

from __future__ import annotations

import base64
import binascii
import enum
import json
import re
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from math import inf
from typing import Final

import trio
from typing_extensions import TypeIs

from trio_stomp.cli.running import CommandFailed, ExitCode
from trio_stomp.client import Message, OutgoingMessage, Subscription, resent_body
from trio_stomp.errors import DecodeFailed
from trio_stomp.printable import harmless, one_line
from trio_stomp.protocol import text_encoding

__all__ = ["Layout", "MessageFilter", "carried", "displayed", "from_line", "moved", "take_batch", "to_line"]


@dataclass(frozen=True, slots=True)
class MessageFilter:
    """Which messages are meant.

    Attributes:
        match: Headers with the value that each must have.
        grep: What must be found in the body.
    """

    match: tuple[tuple[str, str], ...] = ()
    grep: re.Pattern[bytes] | None = None

    @classmethod
    def of(cls, match: tuple[tuple[str, str], ...], grep: str | None) -> MessageFilter:
        """The filter that the arguments ask for.

        Raises:
            CommandFailed: `grep` is no regular expression.
        """
        try:
            return cls(match, None if grep is None else re.compile(grep.encode()))
        except re.error as error:
            raise CommandFailed(f"--grep is no regular expression: {error}", ExitCode.USAGE) from error

    def __bool__(self) -> bool:
        return bool(self.match) or self.grep is not None

    def chooses(self, message: Message) -> bool:
        """Whether that message is meant."""
        return all(message.headers.get(name) == value for name, value in self.match) and (
            self.grep is None or self.grep.search(message.body) is not None
        )


# Made by the broker for one delivery, or of the client's own making, or with an effect that must not come twice: a
# message that has expired would expire again, and be lost; a user-id must be that of the sender.
_LEFT_BEHIND: Final = frozenset(
    {
        "ack",
        "content-length",
        "content-type",
        "delivery-count",
        "destination",
        "expiration",
        "expires",
        "ingress-timestamp",
        "message-id",
        "receipt",
        "receipt-id",
        "redelivered",
        "subscription",
        "timestamp",
        "transaction",
        "user-id",
        "x-delivery-count",
    }
)
# Artemis' own, duplicate detection among them: it would drop the second message with an id without a word.
_INTERNAL: Final = "_AMQ_"


def carried(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The headers that go along; of repeated ones the first, which is the one that counts."""
    first: dict[str, str] = {}
    for name, value in headers:
        if name not in _LEFT_BEHIND and not name.startswith(_INTERNAL):
            first.setdefault(name, value)
    return list(first.items())


def moved(message: Message, destination: str, more: Iterable[tuple[str, str]] = ()) -> OutgoingMessage:
    """A message that came, as one to send elsewhere.

    Args:
        message: What came.
        destination: Where it goes.
        more: Headers to set, in place of those that it has.
    """
    given = dict(more)
    pairs = [*((name, value) for name, value in carried(message.headers.items()) if name not in given), *given.items()]
    content_type = None if "content-type" in given else message.content_type
    return OutgoingMessage(destination, resent_body(message.body, message.headers), pairs, content_type)


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


async def take_batch(
    subscription: Subscription, at_most: int, timeout: float | None, *, linger: float = 0
) -> list[Message]:
    """The next messages, or none when none came in time.

    Args:
        subscription: Where from.
        at_most: No more than this many.
        timeout: Seconds to wait for the first of them; None: for ever.
        linger: Seconds to wait for more, once there is one.

    Raises:
        StompError: As `Subscription.receive_batch`.

    Cancellation: no message was taken.
    """
    # The time that it lingers is not time that nothing comes.
    with trio.move_on_after(inf if timeout is None else timeout + linger):
        return await subscription.receive_batch(at_most, linger=linger)
    return []
