"""What a message takes along when it is sent again: moved to another destination, or out of a file."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from trio_stomp.client import Message, OutgoingMessage, resent_body

__all__ = ["carried", "moved"]

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
