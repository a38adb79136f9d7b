"""What is secret, and how it is kept out of errors and logs, where text of the other side may quote it.

A broker or a gateway may answer CONNECT with the frame that it could not use, passcode included. Error trackers keep
what an exception shows, so the text is masked before it becomes one. Text may spell a secret otherwise than CONNECT
does: escaped as in STOMP, percent-encoded, in JSON, in base64.

A passcode can also be a word of the text: "guest", "password". To mask that word wherever it occurs would make
the text unreadable, and give away the passcode, because the texts of brokers are public. So a passcode that equals the
login, that has fewer than four characters or that is a word with which brokers refuse a login is masked only behind a
name such as ``passcode:``.
"""

from __future__ import annotations

import base64
import binascii
import functools
import json
import re
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import quote, quote_plus

__all__ = ["REDACTED", "Secrets", "is_secret_header"]

REDACTED: Final = "[redacted]"

_NAMES: Final = (
    r"pass(?!enger|ive|age|ing|ed)|pwd|secret|token|auth(?!or(?!i[sz]))|credential|cookie|signature|jwt|bearer"
    r"|(?<!routing)(?<!routing.)(?<!partition)(?<!partition.)key"
)
_SECRET_NAME: Final = re.compile(_NAMES, re.IGNORECASE)
# What a client sends to connect, beside secrets. A header that is not listed may be a secret of a gateway.
_PLAIN_IN_CONNECT: Final = frozenset(
    {
        *(
            "accept-version",
            "client-id",
            "client-type",
            "content-length",
            "content-type",
            "heart-beat",
            "host",
            "login",
        ),
        *("origin", "receipt", "request-id", "user-agent", "username", "version"),
    }
)

# Headers of an ERROR that are not text: they are matched, or say how to read the frame.
_NOT_TEXT: Final = frozenset({"content-length", "content-type", "receipt-id", "subscription", "version"})
_WORDS_OF_BROKERS: Final = frozenset(
    {
        *("access", "account", "authentication", "authorised", "authorized", "bad", "broker", "client", "connect"),
        *("connection", "current", "denied", "error", "failed", "frame", "header", "heart-beat", "heartbeat", "host"),
        *("invalid", "login", "message", "name", "passcode", "password", "queue", "refused", "security", "server"),
        *(
            "session",
            "subscription",
            "supported",
            "topic",
            "unknown",
            "user",
            "username",
            "valid",
            "version",
            "virtual",
        ),
    }
)
_SHORTEST: Final = 4
# Shorter ones, and those of letters alone, may be parts of other words.
_UNMISTAKABLE: Final = 8
# A name and what separates it from its value. Bounded, so that the search stays linear.
_BEHIND_A_NAME: Final = rf"""(?i:{_NAMES})[\w.-]{{0,30}}(?:["']?\s{{0,3}}[:=,]\s{{0,3}}["'(\[]{{0,2}}|\s["'(\[])"""
_NOT_AFTER: Final = r"(?<![^\W_])"
_NOT_BEFORE: Final = r"(?![^\W_])"
# How text that quotes a part of what came goes on behind it.
_CUT: Final = ("'...", '"...', "...", "'", '"')


def is_secret_header(name: str, *, of_connect: bool = False) -> bool:
    """Return whether the value of a header must not be shown.

    Args:
        name: The name of the header.
        of_connect: Whether it is sent to connect, in CONNECT or in the HTTP request of a WebSocket. There every name
            that is not known to be harmless is taken for a secret.
    """
    return _SECRET_NAME.search(name) is not None or (of_connect and name.lower() not in _PLAIN_IN_CONNECT)


class Secrets:
    """The secrets of one connection.

    Args:
        headers: What was sent to connect.
    """

    def __init__(self, headers: Iterable[tuple[str, str]] = ()) -> None:
        pairs = list(headers)
        self._login = next((value for name, value in pairs if name in ("login", "username")), "")
        self._values = {
            part for name, value in pairs if is_secret_header(name, of_connect=True) for part in _parts(value)
        }

    def masked(self, text: str) -> str:
        """Mask the secrets in a text."""
        if not self._values:
            return text
        behind_a_name, anywhere = self._patterns
        text = behind_a_name.sub(rf"\1{REDACTED}", text)
        return text if anywhere is None else anywhere.sub(REDACTED, text)

    def masked_quotation(self, text: str) -> str:
        """Mask the secrets in a text that may end in the middle of one."""
        text = self.masked(text)
        for spelling in self._long_spellings if self._values else ():
            if spelling[:_SHORTEST] not in text:
                continue
            for size in range(len(spelling) - 1, _SHORTEST - 1, -1):
                start = spelling[:size]
                text = text.removesuffix(start) + REDACTED if text.endswith(start) else text
                for end in _CUT:
                    text = text.replace(start + end, REDACTED + end)
        return text

    def masked_bytes(self, body: bytes) -> bytes:
        """Mask the secrets in a body."""
        if not self._values:
            return body
        return self.masked(body.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def masked_headers(self, pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """Mask the secrets in the headers of an ERROR."""
        return [(self.masked(name), self._masked_value(name, value)) for name, value in pairs]

    def __bool__(self) -> bool:
        return bool(self._values)

    def __repr__(self) -> str:
        return f"<{len(self._values)} secrets>"

    def _masked_value(self, name: str, value: str) -> str:
        if name in _NOT_TEXT:
            return value
        return REDACTED if is_secret_header(name) else self.masked(value)

    @functools.cached_property
    def _patterns(self) -> tuple[re.Pattern[str], re.Pattern[str] | None]:
        """Secrets behind a name, and anywhere."""
        spellings = {each for value in self._values for each in _spellings(value)}
        every = "|".join(map(re.escape, sorted(spellings, key=len, reverse=True)))
        anywhere = [_bounded(each) for each in self._long_spellings]
        return (
            re.compile(f"({_BEHIND_A_NAME})(?:{every}){_NOT_BEFORE}"),
            re.compile("|".join(anywhere)) if anywhere else None,
        )

    @functools.cached_property
    def _long_spellings(self) -> list[str]:
        """What is masked wherever it occurs, the longest first."""
        found: set[str] = set()
        for value in self._values:
            is_a_word = value == self._login or value.lower() in _WORDS_OF_BROKERS
            found |= {each for each in _spellings(value) if not (is_a_word and each == value)}
            found |= {each for text in (value, f"{self._login}:{value}") for each in _in_base64(text)}
        return sorted((each for each in found if len(each) >= _SHORTEST), key=len, reverse=True)


def _parts(value: str) -> Iterator[str]:
    """The secrets in the value of a header: all of it, and what follows a scheme such as "Bearer"."""
    if not value:
        return
    yield value
    # CONNECT has each backslash of a passcode twice, for a broker that decodes it.
    if "\\\\" in value:
        yield value.replace("\\\\", "\\")
    scheme, _, credentials = value.partition(" ")
    if scheme.isalpha() and credentials and " " not in credentials:
        yield credentials
        if scheme.lower() == "basic":
            try:
                yield base64.b64decode(credentials, validate=True).decode().partition(":")[2]
            except (binascii.Error, UnicodeDecodeError):
                return


def _spellings(value: str) -> set[str]:
    import html  # noqa: PLC0415  # most programs mask nothing, and it brings a table of all entities

    escaped = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    encoded = {quote(value, errors="replace"), quote(value, "", errors="replace"), quote_plus(value, errors="replace")}
    found = {
        value,
        escaped,
        escaped.replace(":", "\\c"),
        *encoded,
        *(re.sub("%..", lambda found: found[0].lower(), each) for each in encoded),
        *(json.dumps(value, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)),
        repr(value)[1:-1],
        html.escape(value),
    }
    return found - {""}


def _in_base64(text: str) -> set[str]:
    data = text.encode("utf-8", "surrogateescape")
    return {each(data).decode("ascii").rstrip("=") for each in (base64.b64encode, base64.urlsafe_b64encode)}


def _bounded(spelling: str) -> str:
    pattern = re.escape(spelling)
    if len(spelling) >= _UNMISTAKABLE and not spelling.isalpha():
        return pattern
    return f"{_NOT_AFTER}{pattern}{_NOT_BEFORE}"
