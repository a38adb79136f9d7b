"""Dead letters: messages that failed for good, sent elsewhere and acknowledged in one transaction.

Theory of operation. If the connection ends before the transaction is committed, the broker redelivers the message, its
handler fails again, and the letter is sent again. A broker that ends the connection because of the letter would repeat
that forever: it has too many headers with those that describe the failure, or its destination refuses it, and the
ERROR names no frame. So the third such end in a row is an error. A letter at which a connection has ended is sent
alone, and only after the next one has lasted for a while, because the other letters and a bad network look the same.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import BinaryIO, Final

import anyio

from trio_stomp.client.transaction import Transaction
from trio_stomp.errors import BrokerError, OutcomeUnknown, PoisonMessage, StaleMessage, StompError, TransactionLost
from trio_stomp.printable import one_line, safe_str
from trio_stomp.protocol import Version, is_mime_type
from trio_stomp.session import WHY_BROKERS_CLOSE, Message, add_note, renewed, resent_body, tracker_of

__all__ = ["DeadLetters", "FailureCounts", "OpenTransaction", "dead_letter_headers", "is_passed_on"]

logger: Final = logging.getLogger("trio_stomp")

OpenTransaction = Callable[[], AbstractAsyncContextManager[Transaction]]

# Failing messages are rare, so in practice this is enough for all of them; the bound is for the day when they are not.
_REMEMBERED: Final = 10_000

# Set by the broker for one delivery, or by the client, or with an effect that must not happen twice: an expired message
# would expire again and be lost, and a user-id must be the sender's own.
_OF_ONE_DELIVERY: Final = frozenset(
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
        "transaction",
        "user-id",
        "x-acquired-count",
        "x-delivery-count",
    }
)
# A dead letter is persistent, and no reply to it is expected.
_REPLACED: Final = frozenset({"persistent", "reply-to"})
# Prefix of Artemis' internal headers, such as duplicate detection: the second message with an id fails its transaction.
_INTERNAL: Final = "_AMQ_"

_LONGEST_CHARACTERS: Final = 500

# This number of lost connections in a row is an error.
_MOST_LOST: Final = 3
# How long the next connection must last: this, and three times as long for each of them.
_PAUSE_SECONDS: Final = 0.1
_LONGER: Final = 3.0


class FailureCounts:
    """Failures by message, for brokers that do not count deliveries; bounded."""

    def __init__(self) -> None:
        self._counts: OrderedDict[str, int] = OrderedDict()

    def of(self, message_id: str) -> int:
        """Return how many there were."""
        return self._counts.get(message_id, 0)

    def note(self, message_id: str, count: int) -> None:
        """Record how many there were."""
        self._counts[message_id] = count
        self._counts.move_to_end(message_id)
        if len(self._counts) > _REMEMBERED:
            self._counts.popitem(last=False)

    def forget(self, message_id: str) -> None:
        """Forget a message that is finished."""
        self._counts.pop(message_id, None)


def is_passed_on(name: str) -> bool:
    """Return whether a header of a message still holds when the message is sent to another destination."""
    return name not in _OF_ONE_DELIVERY and not name.startswith(_INTERNAL)


def dead_letter_headers(message: Message, error: BaseException, attempts: int, now: float) -> list[tuple[str, str]]:
    """Return the headers of a dead letter: those of the message, and the cause of its failure.

    Args:
        message: The failed message.
        error: The last error of its handler.
        attempts: How many attempts were made.
        now: Seconds since the epoch.
    """
    tracker = tracker_of(message)
    stable_id, version = tracker.profile.stable_id_header, tracker.connection.protocol.version
    cause = {
        "x-original-destination": message.destination,
        "x-original-message-id": message.stable_id or message.id,
        "x-error-type": f"{type(error).__module__}.{type(error).__qualname__}",
        "x-error-message": safe_str(error),
        "x-attempts": str(attempts),
        # In milliseconds, like the `timestamp` header of every broker.
        "x-failed-at": str(int(now * 1000)),
    }
    if "reply-to" in message.headers:
        cause["x-original-reply-to"] = message.headers["reply-to"]
    if message.content_type != _sendable_type(message):
        cause["x-original-content-type"] = message.content_type or ""
    kept = [
        (_sendable(name, version), _sendable(value, version))
        for name, value in message.headers.items()
        # A broker may pass on an empty name, but no frame of a client can have one.
        if name and is_passed_on(name) and name not in _REPLACED and name not in cause and name != stable_id
    ]
    return [*kept, ("persistent", "true"), *((name, _one_line(value)) for name, value in cause.items())]


def _sendable(text: str, version: Version) -> str:
    """Escape a name or value as in logs if no SEND can carry it; a message must not be poison because of its headers.

    Brokers pass on what this side may not send: see `Tolerances`.
    """
    is_text = text.encode("utf-8", "replace").decode("utf-8") == text
    return text if is_text and "\0" not in text and ("\r" not in text or version is Version.V1_2) else one_line(text)


def _sendable_type(message: Message) -> str | None:
    """Return the content-type of a message as a SEND can carry it; None if it is not a MIME type."""
    content_type = message.content_type
    if content_type is None or not is_mime_type(content_type):
        return None
    return _sendable(content_type, tracker_of(message).connection.protocol.version)


def _one_line(text: str) -> str:
    """Make a text fit for a header in every version of STOMP: one line, no NUL, valid UTF-8, bounded."""
    line = " ".join(text.replace("\0", " ").split())
    if len(line) > _LONGEST_CHARACTERS:
        line = line[: _LONGEST_CHARACTERS - 3] + "..."
    return line.encode("utf-8", "replace").decode("utf-8")


class DeadLetters:
    """The dead letters of one pool.

    Args:
        transaction: Opens a transaction.
    """

    def __init__(self, transaction: OpenTransaction) -> None:
        self._transaction = transaction
        # How often in a row connections have ended at the letter of a message.
        self._lost = FailureCounts()
        self._alone = anyio.Lock()

    async def send(self, message: Message, destination: str, error: Exception, attempts: int) -> None:
        """Send the dead letter of a message, unless its connection ends.

        Args:
            message: The message.
            destination: Where to.
            error: The last error of its handler.
            attempts: How many attempts were made.

        Raises:
            BrokerError: The broker refused it.
            PoisonMessage: The broker has closed the connection each time.

        Cancellation: the transaction is aborted.
        """
        # Without a stable id, a broker may give the message a new id with each delivery.
        content = b"" if message.is_spooled else message.body
        identity = message.stable_id or f"{message.destination} {message.body_size} {hash(content)}"
        lost = self._lost.of(identity)
        async with self._alone if lost or self._alone.locked() else nullcontext():
            if lost:
                await anyio.sleep(_PAUSE_SECONDS * _LONGER**lost)
            if message.is_stale:
                return
            try:
                await self._send(message, destination, error, attempts)
            except BrokerError as refused:
                add_note(refused, _unburied(message, destination))
                raise
            except StaleMessage as stale:
                _log_lost(message, stale)
            except (TransactionLost, OutcomeUnknown) as ended:
                _log_lost(message, ended)
                failure = _ended_by_peer(message)
                if failure is None:
                    self._lost.forget(identity)
                    return
                self._lost.note(identity, lost + 1)
                if lost + 1 >= _MOST_LOST:
                    raise _poison(message, destination, failure) from error
            else:
                self._lost.forget(identity)

    async def _send(self, message: Message, destination: str, error: Exception, attempts: int) -> None:
        headers = dead_letter_headers(message, error, attempts, time.time())
        # A JMS text message stays one.
        is_jms = tracker_of(message).profile.text_without_content_length
        body: bytes | str | BinaryIO = message.open_body() if message.is_spooled else message.body
        if is_jms and isinstance(body, bytes):
            body = resent_body(body, message.headers)
        async with self._transaction() as transaction:
            await transaction.send(destination, body, headers=headers, content_type=_sendable_type(message))
            await transaction.ack(message)


def _log_lost(message: Message, ended: StompError) -> None:
    if isinstance(ended, OutcomeUnknown):
        logger.warning("message %r may be redelivered although it was dead-lettered: %s", message.id, ended)
    else:
        logger.warning("message %r was not dead-lettered; the broker redelivers it: %s", message.id, ended)


def _ended_by_peer(message: Message) -> StompError | None:
    """Return the failure of the connection of a message if the broker has closed it, or has sent an ERROR."""
    connection = tracker_of(message).connection
    failure = connection.failure
    return failure if connection.was_closed or isinstance(failure, BrokerError) else None


def _unburied(message: Message, destination: str) -> str:
    return f"it is the dead letter of message {message.id!r} to {destination!r}; the message stays unsettled"


def _poison(message: Message, destination: str, failure: StompError) -> StompError:
    """Return the error for a dead letter that has ended several connections in a row."""
    if isinstance(failure, BrokerError):
        refused = renewed(failure)
        add_note(refused, _unburied(message, destination))
        return refused
    return PoisonMessage(
        f"the broker has closed the connection without an ERROR {_MOST_LOST} times in a row when it was sent the dead "
        f"letter of message {message.id!r} to {destination!r}, so the message stays unsettled: a body of "
        f"{message.body_size:,} bytes, {len(message.headers)} headers and those that work() adds. {WHY_BROKERS_CLOSE}. "
        f"The last time: {failure}"
    )
