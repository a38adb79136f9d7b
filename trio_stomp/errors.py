"""Every exception that trio_stomp raises.

::

    StompError
    ├── ConnectError                 no connection could be made; lists the cause for each host
    │   └── AuthenticationError      ... because the broker refused the credentials
    ├── ConnectionLost               the connection ended without a DISCONNECT from this side
    │   ├── HeartBeatTimeout         ... because the broker sent nothing for too long
    │   ├── PoisonMessage            ... each time that one message was sent; the client goes on without it
    │   └── PoisonSubscription       ... each time that one SUBSCRIBE was sent; the client goes on without it
    ├── ConnectionClosed             this client was closed by its own program
    ├── BrokerError                  the broker answered with an ERROR frame
    ├── ProtocolError
    │   ├── LocalProtocolError       this side asked for something STOMP does not allow
    │   └── RemoteProtocolError      the peer sent something STOMP does not allow
    │       └── LimitExceeded        ... or more of it than the limits allow
    ├── SubscriptionOverflow         a consumer fell behind past its hard limit
    ├── BodySpoolError               a large body could not be written to its temporary file
    ├── TransactionLost              the connection ended before COMMIT: nothing took effect
    ├── OutcomeUnknown               the connection, or the time, ended between a frame and its RECEIPT
    ├── SubscriptionEnded            the subscription was left, or has no more messages
    ├── OperationTimeout             a call took longer than its timeout; a TimeoutError too
    │   ├── RequestTimeout           ... which was a request: no reply came
    │   ├── CommitTimeout            ... after COMMIT was sent; an OutcomeUnknown too
    │   └── UnconfirmedTimeout       ... with messages unconfirmed; an UnconfirmedError too
    ├── UnconfirmedError             sent messages were not confirmed; each is listed
    ├── StaleMessage                 ack or nack after the subscription or connection is gone
    ├── DecodeError                  the decoder given as `decode=` failed
    └── NotSupportedError            this broker or this STOMP version cannot do that
        └── NotInVersionError        ... because this STOMP version lacks it; a LocalProtocolError too

A ``LocalProtocolError`` is a bug in the calling program, a ``RemoteProtocolError`` one in the peer. No message of
these exceptions contains a passcode.

Names end in ``Error``, or say what happened, such as ``ConnectionLost``.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from trio_stomp.printable import one_line

__all__ = [
    "AuthenticationError",
    "BodySpoolError",
    "BrokerError",
    "CommitTimeout",
    "ConnectError",
    "ConnectFailure",
    "ConnectionClosed",
    "ConnectionLost",
    "DecodeError",
    "DeliveryStatus",
    "HeartBeatTimeout",
    "LimitExceeded",
    "LocalProtocolError",
    "NotInVersionError",
    "NotSupportedError",
    "OperationTimeout",
    "OutcomeUnknown",
    "PoisonMessage",
    "PoisonSubscription",
    "ProtocolError",
    "RemoteProtocolError",
    "RequestTimeout",
    "StaleMessage",
    "StompError",
    "SubscriptionEnded",
    "SubscriptionOverflow",
    "TransactionLost",
    "UnconfirmedError",
    "UnconfirmedMessage",
    "UnconfirmedTimeout",
]

# An ERROR body may have many KiB; a log line wants its beginning only.
_DETAIL_CHARACTERS = 300

# How many messages the text of UnconfirmedError lists; its attribute holds them all.
_NAMED = 3


class StompError(Exception):
    """The root of all exceptions of this library."""


class ProtocolError(StompError):
    """One side broke the rules of STOMP."""


class LocalProtocolError(ProtocolError):
    """This side asked for something that STOMP does not allow; nothing was sent."""


class RemoteProtocolError(ProtocolError):
    """The peer sent something that STOMP does not allow; the connection cannot go on."""


class LimitExceeded(RemoteProtocolError):
    """The peer sent more than a configured limit allows; the connection cannot go on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectFailure:
    """Why connecting to one host failed.

    Attributes:
        address: The URL tried, without user and passcode.
        step: What failed: ``"dns"``, ``"tcp"``, ``"unix"``, ``"proxy"``, ``"tls"``, ``"websocket"``,
            ``"credentials"``, ``"connect"`` or ``"timeout"``.
        reason: What happened, with the hint.
        cause: The underlying exception, if any.
        refused: Whether the other side refused the credentials, or the virtual host for this user.
        hint: What to try next; empty if unknown.
        pending_step: With the step ``"timeout"``: the step that did not finish.
        addresses: One for each IP address tried, if the host name has several; the others are then about the one that
            tells most.
    """

    address: str
    step: str
    reason: str
    cause: BaseException | None = None
    refused: bool = False
    hint: str = ""
    pending_step: str | None = None
    addresses: tuple[ConnectFailure, ...] = ()

    def __str__(self) -> str:
        return f"{self.address}: {self.step}: {self.reason}"


class ConnectError(StompError):
    """No connection could be made.

    Attributes:
        failures: One for each host tried, in that order.
    """

    def __init__(self, failures: Sequence[ConnectFailure]) -> None:
        self.failures = tuple(failures)
        super().__init__("could not connect: " + "; ".join(map(str, self.failures)))

    def __reduce__(self) -> tuple[type[ConnectError], tuple[tuple[ConnectFailure, ...]]]:
        """Copy and pickle by the failures; the text follows from them."""
        return type(self), (self.failures,)


class AuthenticationError(ConnectError):
    """The broker or the proxy refused the credentials, or the broker the virtual host for this user."""


class ConnectionLost(StompError):
    """The connection ended without a DISCONNECT from this side, or was given up for a host earlier in the list.

    Pending and later operations raise this. What was not confirmed may or may not have reached the broker.
    """


class HeartBeatTimeout(ConnectionLost):
    """The broker sent nothing for longer than the agreed heart-beat interval and its margin."""


class PoisonMessage(ConnectionLost):
    """The broker has closed the connection, without an ERROR, each time that this message was sent.

    Only with ``reconnect=``. The message is not sent again, and may or may not have arrived. The client goes on with
    all other messages.
    """


class PoisonSubscription(ConnectionLost):
    """The broker has closed the connection, without an ERROR, each time that this subscription was made.

    Only with ``reconnect=``. The client goes on with everything else.
    """


class ConnectionClosed(StompError):
    """This client was closed by its own program."""


class BrokerError(StompError):
    """The broker answered with an ERROR frame, whose text is shown on one line with control characters escaped.

    Attributes:
        message: The frame's ``message`` header, or a default if it has none.
        headers: The frame's headers.
        body: The frame's body: the broker's details.
        receipt_id: The receipt of the frame that failed, if the broker names it.
    """

    def __init__(self, *, message: str, headers: Mapping[str, str], body: bytes) -> None:
        self.message = message
        self.headers = headers
        self.body = body
        self.receipt_id = headers.get("receipt-id")
        detail = _without_frames(_without_quotation(body.decode("utf-8", "replace").strip()))
        if len(detail) > _DETAIL_CHARACTERS:
            detail = detail[:_DETAIL_CHARACTERS] + "..."
        super().__init__(one_line(f"{message}: {detail}" if detail and detail != message else message))

    def __reduce__(
        self,
    ) -> tuple[Callable[[str, Mapping[str, str], bytes], BrokerError], tuple[str, dict[str, str], bytes]]:
        """Copy and pickle by the three parts."""
        return _broker_error, (self.message, dict(self.headers), self.body)


_QUOTES: Final = "\n-----\n"


def _without_quotation(detail: str) -> str:
    """Leave out the frame that was refused, where it is quoted behind the reason; in STOMP's example it comes first."""
    reason, _, quoted = detail.partition(_QUOTES)
    return detail if _QUOTES in quoted else reason


def _without_frames(detail: str) -> str:
    """Replace the lines of a Java stack trace that name code of the broker, as ActiveMQ sends them, by their number."""
    lines = detail.split("\n")
    kept = [line for line in lines if not line.startswith(("\tat ", "\t... "))]
    folded = len(lines) - len(kept)
    return "\n".join(map(str.rstrip, kept)) + f" (and {folded} lines of a Java stack trace)" if folded else detail


def _broker_error(message: str, headers: Mapping[str, str], body: bytes) -> BrokerError:
    return BrokerError(message=message, headers=headers, body=body)


class SubscriptionOverflow(StompError):
    """A consumer did not keep up, and its subscription exceeded a limit on undelivered messages."""


class SubscriptionEnded(StompError):
    """There are no more messages: the subscription was left, or all messages of a queue were browsed."""


class BodySpoolError(StompError):
    """A body could not be written to its temporary file, so its subscription ended; the OSError is the cause."""


class TransactionLost(StompError):
    """The connection ended before COMMIT; nothing in this transaction took effect."""


class OutcomeUnknown(StompError):
    """A frame was sent, and its RECEIPT had not come when the connection, or the time, ended.

    It may or may not have taken effect.
    """


class DeliveryStatus(enum.Enum):
    """The outcome of sending a message.

    Attributes:
        SENT: It was queued for writing as a whole; no receipt was requested.
        CONFIRMED: The broker has confirmed it.
        REJECTED: The broker has refused it.
        UNKNOWN: It may or may not have arrived: a receipt was requested and did not come.
    """

    SENT = "sent"
    CONFIRMED = "confirmed"
    REJECTED = "rejected"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnconfirmedMessage:
    """A message that was sent but not confirmed.

    Attributes:
        id: Its stable id, as `Publication.id`. Without ``reconnect=``, Artemis was not told that of a single send.
        destination: Its destination.
        delivery: `DeliveryStatus.REJECTED` or `DeliveryStatus.UNKNOWN`.
        reason: What happened, for people.
    """

    id: str
    destination: str
    delivery: DeliveryStatus
    reason: str

    def __str__(self) -> str:
        return f"{self.id} to {self.destination}: {self.delivery.value}: {self.reason}"


class UnconfirmedError(StompError):
    """The broker has not confirmed messages that were sent.

    Attributes:
        messages: All of them, in the order of sending.
    """

    def __init__(self, messages: Sequence[UnconfirmedMessage]) -> None:
        self.messages = tuple(messages)
        named = "; ".join(map(str, self.messages[:_NAMED]))
        more = f"; and {len(self.messages) - _NAMED} more, in .messages" if len(self.messages) > _NAMED else ""
        counted = "1 message was" if len(self.messages) == 1 else f"{len(self.messages)} messages were"
        super().__init__(f"{counted} not confirmed: {named}{more}")

    def __reduce__(self) -> tuple[object, ...]:
        """Copy and pickle by the messages; the text follows from them."""
        return type(self), (self.messages,)


class OperationTimeout(StompError, TimeoutError):
    """A call took longer than its ``timeout``. It has ended as if canceled, and the connection stays usable.

    The text says what is known of the outcome.

    Attributes:
        messages: Those that the call has sent and the broker has not confirmed: each may or may not have arrived.
        sent: How many messages the call has sent, each as a whole.
    """

    def __init__(self, text: str, *, messages: Sequence[UnconfirmedMessage] = (), sent: int = 0) -> None:
        self.messages = tuple(messages)
        self.sent = sent
        # Not super(): an UnconfirmedError makes its text itself.
        TimeoutError.__init__(self, text)

    def __reduce__(self) -> tuple[object, ...]:
        """Copy and pickle by the text and the attributes."""
        return type(self), (str(self),), dict(vars(self))


class RequestTimeout(OperationTimeout):
    """No reply to a request came within its timeout; a later reply is discarded."""


class CommitTimeout(OperationTimeout, OutcomeUnknown):
    """COMMIT was sent, and its RECEIPT did not come in time: either everything took effect, or nothing."""


class UnconfirmedTimeout(OperationTimeout, UnconfirmedError):
    """The broker has not confirmed all messages in time. They are not sent again; `messages` lists them."""


class StaleMessage(StompError):
    """This message can no longer be acknowledged: its subscription or connection is gone."""


class DecodeError(StompError, ValueError):
    """The body of a message cannot be decoded; the decoder's exception is the cause."""


class NotSupportedError(StompError):
    """The broker, or the STOMP version in use, does not support this; nothing was sent."""


class NotInVersionError(LocalProtocolError, NotSupportedError):
    """The STOMP version in use lacks this command or ack mode, so no broker supports it; nothing was sent."""
