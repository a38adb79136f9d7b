"""Which messages can surely be sent, so that nobody has to wait to hear that one cannot.

The rules of what a frame may carry are the encoder's. They depend on the version in force and, for what brokers add, on
the broker. Here is only a sufficient condition, cheap to check: what fulfills it goes out without waiting, and about
anything else the encoder has its say while the caller waits, as in the asynchronous client.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Final

from trio_stomp.brokers import Profile
from trio_stomp.client import Client as AsyncClient
from trio_stomp.client import HeaderInput, OutgoingMessage, Phase
from trio_stomp.protocol import is_mime_type, is_utf_8_text

__all__ = ["Judge", "surely_sendable"]

# Set by calls or by the encoder, or judged by a rule of their own.
_NOT_PLAIN: Final = frozenset({"destination", "receipt", "transaction", "content-length", "content-type"})

# Programs use a handful of sets of options. One that makes a new one for each message must not fill the memory.
_REMEMBERED: Final = 256


class Judge:
    """Says of messages whether they can surely be sent now.

    Args:
        client: Who is to send them.
    """

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self._known: set[Hashable] = set()

    def sure(self, message: OutgoingMessage) -> OutgoingMessage | None:
        """The message as it may be sent later, with nothing in it that its owner could change; None: not sure.

        What brokers add (``persistent=True``) is sure once a message with the very same options was sent.
        """
        client = self._client
        if client.state.phase is not Phase.CONNECTED:
            return None
        sendable = surely_sendable(message, client.profile)
        if sendable is None or not sendable.options or _features(sendable) in self._known:
            return sendable
        return None

    def learn(self, message: OutgoingMessage) -> None:
        """A message was sent that was not sure."""
        if message.options:
            sendable = surely_sendable(message, self._client.profile)
            features = None if sendable is None else _features(sendable)
            if features is not None:
                if len(self._known) >= _REMEMBERED:
                    self._known.clear()
                self._known.add(features)


def _features(message: OutgoingMessage) -> Hashable:
    """What decides about the options of a message: they themselves, and the headers that they may collide with."""
    names = tuple(name for name, _ in _pairs(message.headers))
    features = (*(message.options or {}).items(), names)
    try:
        hash(features)
    except TypeError:
        return None
    return features


def surely_sendable(message: OutgoingMessage, profile: Profile) -> OutgoingMessage | None:
    """A copy of the message that nobody else can change, when it is sure but for its options; else None."""
    if not _is_sure_body(message, profile) or not _is_plain(message.destination):
        return None
    if message.content_type is not None and not (
        _is_plain(message.content_type) and is_mime_type(message.content_type)
    ):
        return None
    headers, options = message.headers, message.options
    if headers is None and not options:
        return message
    pairs = _pairs(headers)
    if not all(map(_is_sure, pairs)):
        return None
    return OutgoingMessage(
        message.destination, message.body, pairs, message.content_type, options.copy() if options else None
    )


def _pairs(headers: HeaderInput | None) -> tuple[tuple[str, str], ...]:
    if headers is None:
        return ()
    return tuple(headers.items()) if isinstance(headers, Mapping) else tuple(headers)


def _is_sure_body(message: OutgoingMessage, profile: Profile) -> bool:
    body = message.body
    if type(body) is bytes:
        return not profile.bodies_are_text or body.isascii()
    if type(body) is not str or not body.isascii():
        return False
    return is_utf_8_text(message.content_type)


def _is_sure(pair: tuple[str, str]) -> bool:
    if type(pair) is not tuple or len(pair) != 2:  # noqa: PLR2004  # a name and a value
        return False
    name, value = pair
    return _is_plain(name) and _is_plain(value) and ":" not in name and name not in _NOT_PLAIN


def _is_plain(text: object) -> bool:
    """Whether every version can carry it: no line ends, no NUL, no surrogates, not empty."""
    return type(text) is str and text != "" and text.isprintable()
