"""What kind of problem an ERROR reports. STOMP has no error codes, so this depends on the text.

The text comes from the peer, up to 64 KiB of it in a header. So phrases are searched with `str.find`, one after the
other, which is linear for any text, unlike a regular expression with ``.*`` between two words.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

__all__ = ["is_authentication_refusal", "is_final_refusal", "is_link_trouble", "is_vhost_refusal"]

# Words in this order, with anything between them; in lower case.
Phrase = tuple[str, ...]

# Seen on the wire, or read in the source of the broker.
_VHOST: Final[tuple[Phrase, ...]] = (
    ("virtual host ", " access denied"),  # RabbitMQ, also if there is none of that name
    ("no such virtual host",),  # the embedded broker
    ("host is unknown",),  # CoilMQ: "Virtual hosting is not supported or host is unknown"
)
_AUTHENTICATION: Final[tuple[Phrase, ...]] = (
    ("access refused",),  # RabbitMQ: "Access refused for user 'guest'"; the embedded broker
    ("virtual host ", " access denied"),  # RabbitMQ
    ("user name [", "] or password is invalid"),  # ActiveMQ Classic, Artemis
    ("username or password",),
    ("not authorized",),
    ("not authorised",),
    ("authentication failed",),
    ("security error occurred",),
    ("login account is not valid",),  # HornetQ: "The login account is not valid."
    ("invalid login",),  # stompserver (Ruby)
)
# stomp-broker-js, when its `connect` hook refuses: message and body, and no other word. Others may say it and go on.
_REFUSED_BY_HOOK: Final = "connection error"
_VERSION: Final[tuple[Phrase, ...]] = (
    ("version mismatch",),  # RabbitMQ
    ("supported ", "versions are"),  # ActiveMQ Classic: "supported versions are: [1.2, 1.1, 1.0]"; the specification
    ("no common version",),  # the embedded broker
)
_LINK: Final[tuple[Phrase, ...]] = (
    ("did not receive data ", " within"),  # Artemis: "AMQ229014: Did not receive data from ... within the 2000ms"
    ("heart-beat",),  # the embedded broker: "heart-beat missing"
    ("heartbeat",),
    ("connection ttl",),
)

# The body may be a long stack trace; the reason is at its start.
_BODY_BYTES: Final = 500


def is_authentication_refusal(message: str, body: bytes) -> bool:
    """Return whether an ERROR instead of CONNECTED refuses the credentials, or the virtual host for this user."""
    by_hook = message.lower() == _REFUSED_BY_HOOK and body.lower() == _REFUSED_BY_HOOK.encode()
    return by_hook or _says_any(_AUTHENTICATION, message, body)


def is_vhost_refusal(message: str, body: bytes) -> bool:
    """Return whether an ERROR instead of CONNECTED refuses the virtual host in the ``host`` header."""
    return _says_any(_VHOST, message, body)


def is_final_refusal(message: str, body: bytes) -> bool:
    """Return whether the same CONNECT will be refused again: credentials, virtual host, or no common version."""
    return is_authentication_refusal(message, body) or _says_any((*_VHOST, *_VERSION), message, body)


def is_link_trouble(message: str, body: bytes) -> bool:
    """Return whether an ERROR ends a connection for lack of heart-beats, and so is not about a frame."""
    return _says_any(_LINK, message, body)


def _says_any(phrases: Iterable[Phrase], message: str, body: bytes) -> bool:
    text = f"{message}\n{body[:_BODY_BYTES].decode('utf-8', 'replace')}".lower()
    return any(_says(phrase, text) for phrase in phrases)


def _says(phrase: Phrase, text: str) -> bool:
    position = 0
    for words in phrase:
        found = text.find(words, position)
        if found < 0:
            return False
        position = found + len(words)
    return True
