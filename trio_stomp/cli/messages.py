"""Functions on messages: receive and filter them, write them as JSON and read them."""

from __future__ import annotations

import base64
import json
import re
import warnings
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from math import inf
from typing import Final

import anyio
import click

from trio_stomp.cli.commands import option
from trio_stomp.cli.options import COUNT, PAIRS, Pairs
from trio_stomp.cli.running import CommandFailed, ExitCode
from trio_stomp.cli.saved_contexts import is_object
from trio_stomp.client import Message, OutgoingMessage, Subscription, is_passed_on, resent_body
from trio_stomp.errors import DecodeError
from trio_stomp.protocol import text_encoding

__all__ = ["Filter", "blocked_by", "from_line", "moved", "require_all", "room", "take_batch", "to_line"]


def regex_of(text: str) -> re.Pattern[bytes]:
    """Read a regular expression for bodies."""
    try:
        with warnings.catch_warnings():
            # Python warns of what a later version may read differently.
            warnings.simplefilter("ignore", FutureWarning)
            return re.compile(text.encode(errors="surrogateescape"))
    except (re.error, OverflowError, RecursionError) as error:
        raise click.BadParameter(f"invalid regular expression: {error}") from error


@dataclass(frozen=True, kw_only=True)
class Filter:
    """Which messages to choose, and how many others may be held meanwhile."""

    match: Pairs = option((), "Selection", "Only messages with this header.", "-m", **PAIRS)
    grep: re.Pattern[bytes] | None = option(
        None, "Selection", "Only messages whose body matches.", "-g", type=regex_of, metavar="REGEX"
    )
    prefetch: int = option(1000, "Subscription", "Messages in transit or held, at most.", type=COUNT)

    @property
    def is_selective(self) -> bool:
        """Whether some messages may not pass."""
        return bool(self.match) or self.grep is not None

    def chooses(self, message: Message) -> bool:
        """Return whether a message passes the filter."""
        return all(message.headers.get(name) == value for name, value in self.match) and (
            self.grep is None or self.grep.search(message.body) is not None
        )


def _carried(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the headers to send again; of repeated headers only the first, which is the valid one."""
    first: dict[str, str] = {}
    for name, value in headers:
        if is_passed_on(name) and name != "timestamp":  # the broker that gets it sets its own
            first.setdefault(name, value)
    return list(first.items())


def moved(message: Message, destination: str, more: Iterable[tuple[str, str]] = ()) -> OutgoingMessage:
    """Return a received message as one to send, with headers to set or replace."""
    given = dict(more)
    pairs = [*((name, value) for name, value in _carried(message.headers.items()) if name not in given), *given.items()]
    content_type = None if "content-type" in given else message.content_type
    body = resent_body(message.body, message.headers)
    return OutgoingMessage(destination, body, headers=pairs, content_type=content_type)


_KEYS: Final = frozenset({"destination", "headers", "body", "body_base64"})


def to_line(message: Message) -> str:
    """Return a message as one line of JSON; a body that is not text goes into ``body_base64``."""
    # Of repeated headers, the mapping has the first, which is the valid one.
    line: dict[str, object] = {"destination": message.destination, "headers": dict(message.headers)}
    try:
        line["body"] = message.text
    except DecodeError:
        line["body_base64"] = base64.b64encode(message.body).decode("ascii")
    return json.dumps(line, ensure_ascii=False)


def from_line(
    line: bytes,
    destination: str | None,
    headers: Sequence[tuple[str, str]],
    *,
    without: AbstractSet[str] = frozenset(),
) -> OutgoingMessage:
    """Return a message to send, made from a line of JSON.

    The destination and the headers that are given override those of the line, which needs none. Its headers that are in
    `without` are left out.

    Raises:
        CommandFailed: It is no message.
    """
    try:
        value: object = json.loads(line)
    except ValueError as error:
        raise CommandFailed(f"it is not JSON: {error}") from None
    except RecursionError:
        raise CommandFailed("it is nested too deeply") from None
    if not is_object(value):
        raise CommandFailed(f"expected an object, got a {type(value).__name__}")
    unknown = sorted(value.keys() - _KEYS)
    if unknown:
        raise CommandFailed(f"unknown key {unknown[0]!r}; expected {', '.join(sorted(_KEYS))}")
    target = destination if destination is not None else value.get("destination")
    if not isinstance(target, str):
        raise CommandFailed('no destination; pass one as an argument, or as "destination" in the line')
    given = _headers(value.get("headers", {}))
    pairs = dict([*((name, text) for name, text in _carried(given.items()) if name not in without), *headers])
    is_json = not isinstance(value.get("body", ""), str)
    default_type = "application/json" if is_json else None
    content_type = pairs.pop("content-type", given.get("content-type", default_type))
    body = _body(value)
    if isinstance(body, str):
        try:
            body = resent_body(body.encode(text_encoding(content_type)), given)
        except (UnicodeEncodeError, LookupError) as error:
            raise CommandFailed(f"its body cannot be written in its charset: {error}") from None
    return OutgoingMessage(target, body, headers=list(pairs.items()), content_type=content_type)


def _headers(value: object) -> dict[str, str]:
    if not is_object(value):
        raise CommandFailed(f"headers must be an object, got a {type(value).__name__}")
    pairs: dict[str, str] = {}
    for name, text in value.items():
        if not isinstance(text, str):
            raise CommandFailed(f"header {name!r} must be a string, got {type(text).__name__}: put it in quotes")
        pairs[name] = text
    return pairs


def _body(value: dict[str, object]) -> str | bytes:
    if "body_base64" in value:
        encoded = value["body_base64"]
        if "body" in value or not isinstance(encoded, str):
            raise CommandFailed("body_base64 must be a string, without a body beside it")
        try:
            return base64.b64decode(encoded, validate=True)
        except ValueError as error:
            raise CommandFailed(f"body_base64 is not base64: {error}") from None
    body = value.get("body", "")
    try:
        # Any value that is not a string is sent as JSON.
        return body if isinstance(body, str) else json.dumps(body, ensure_ascii=False, allow_nan=False)
    except ValueError:
        raise CommandFailed("its body has a number that JSON does not have: NaN or Infinity") from None


async def take_batch(
    subscription: Subscription, at_most: int, timeout: float | None, *, linger: float = 0
) -> list[Message]:
    """Return the next messages, after `linger` seconds from the first; none if none are wanted or none arrived in time.

    Cancellation: no message was taken.
    """
    if at_most <= 0:
        return []
    # Lingering starts after the first message, so it does not count.
    with anyio.move_on_after(inf if timeout is None else timeout + linger):
        return await subscription.receive_batch(at_most, linger=linger)
    return []


def room(at_most: int, wanted: int | None, done: int) -> int:
    """Return how many messages to take: not more than are still wanted; None: all that come."""
    return at_most if wanted is None else min(at_most, wanted - done)


def require_all(done: int, wanted: int | None, noun: str = "messages") -> None:
    """Fail if there were fewer than were asked for."""
    if wanted is not None and done < wanted:
        raise CommandFailed(f"only {done} of {wanted} {noun} came in time", ExitCode.TIMED_OUT)


def blocked_by(held: int) -> CommandFailed:
    """The error when messages that are not selected fill the prefetch."""
    return CommandFailed(f"{held} messages that are not selected block the others; raise --prefetch")
