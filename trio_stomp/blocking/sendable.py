"""Which messages can surely be sent, so that nobody has to wait to hear that one cannot.

The rules of what a frame may carry are the encoder's and depend on the version in force. Here is only a sufficient
condition, cheap to check: what fulfils it goes out without waiting, and about anything else the encoder has its say
while the caller waits, as in the asynchronous client.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from trio_stomp.client import OutgoingMessage
from trio_stomp.protocol import is_mime_type

__all__ = ["surely_sendable"]

# Set by calls or by the encoder, or judged by a rule of their own.
_NOT_PLAIN: Final = frozenset({"destination", "receipt", "transaction", "content-length", "content-type"})


def surely_sendable(message: OutgoingMessage) -> OutgoingMessage | None:
    """The message as it may be sent later, with nothing in it that its owner could change; None when it is not sure."""
    body, content_type = message.body, message.content_type
    if type(body) is not bytes and not (type(body) is str and body.isascii()):
        return None
    if not _is_plain(message.destination):
        return None
    if content_type is not None and not (_is_plain(content_type) and is_mime_type(content_type)):
        return None
    if message.headers is None:
        return message
    headers = message.headers
    pairs = tuple(headers.items()) if isinstance(headers, Mapping) else tuple(headers)
    return OutgoingMessage(message.destination, body, pairs, content_type) if all(map(_is_sure, pairs)) else None


def _is_sure(pair: tuple[str, str]) -> bool:
    if type(pair) is not tuple or len(pair) != 2:  # noqa: PLR2004  # a name and a value
        return False
    name, value = pair
    return _is_plain(name) and _is_plain(value) and ":" not in name and name not in _NOT_PLAIN


def _is_plain(text: object) -> bool:
    """Whether every version can carry it: no line ends, no NUL, no surrogates, not empty."""
    return type(text) is str and text != "" and text.isprintable()
