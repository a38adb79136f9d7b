"""Dead letters: the headers under which a message that cannot be handled is put aside."""

from __future__ import annotations

from typing import Final

from trio_stomp.session import Message

__all__ = ["dead_letter_headers"]

# Made by the broker for one delivery, or of the client's own making, or with an effect that must not come twice: a
# message that has expired would expire again, and a user-id must be that of the sender.
_NOT_PASSED_ON: Final = frozenset(
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
        "persistent",
        "receipt",
        "receipt-id",
        "redelivered",
        "reply-to",
        "subscription",
        "transaction",
        "user-id",
        "x-delivery-count",
    }
)
# Artemis' own, duplicate detection among them: the second message with an id fails its transaction.
_INTERNAL: Final = "_AMQ_"

_LONGEST_CHARACTERS: Final = 500


def dead_letter_headers(message: Message, error: BaseException, attempts: int, now: float) -> list[tuple[str, str]]:
    """The headers of a dead letter: those of the message, and what it failed of.

    Args:
        message: The message.
        error: What its handler raised last.
        attempts: How often it was tried.
        now: Seconds since the epoch.
    """
    stable_id = message.settler.profile.stable_id_header
    cause = {
        "x-original-destination": message.destination,
        "x-original-message-id": message.stable_id or message.id,
        "x-error-type": f"{type(error).__module__}.{type(error).__qualname__}",
        "x-error-message": str(error),
        "x-attempts": str(attempts),
        # In milliseconds, as the `timestamp` header of all brokers.
        "x-failed-at": str(int(now * 1000)),
    }
    if "reply-to" in message.headers:
        cause["x-original-reply-to"] = message.headers["reply-to"]
    kept = [
        (name, value)
        for name, value in message.headers.items()
        if name not in _NOT_PASSED_ON and name not in cause and name != stable_id and not name.startswith(_INTERNAL)
    ]
    return [*kept, ("persistent", "true"), *((name, _one_line(value)) for name, value in cause.items())]


def _one_line(text: str) -> str:
    """A text that every version of STOMP can carry in a header: one line, no NUL, valid UTF-8, not too long."""
    line = " ".join(text.replace("\0", " ").split())
    if len(line) > _LONGEST_CHARACTERS:
        line = line[: _LONGEST_CHARACTERS - 3] + "..."
    return line.encode("utf-8", "replace").decode("utf-8")
