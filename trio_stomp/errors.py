"""Every exception that trio_stomp raises. Of ours this module imports `printable` alone.

::

    StompError
    ├── ConnectError                 no connection could be made; one cause per host tried
    │   └── AuthenticationError      ... because the broker refused the credentials
    ├── ConnectionLost               the link went without a DISCONNECT of ours
    │   └── HeartBeatTimeout         ... because the broker fell silent
    ├── ConnectionClosed             you closed this client; it takes no more work
    ├── BrokerError                  the broker answered with an ERROR frame
    ├── ProtocolError
    │   ├── LocalProtocolError       your side asked for something STOMP does not allow
    │   └── RemoteProtocolError      the peer sent something STOMP does not allow
    │       └── LimitExceeded        ... or more of it than the limits allow
    ├── SubscriptionOverflow         a consumer fell behind past its hard limit
    ├── TransactionLost              the link went before COMMIT: nothing of it took effect
    ├── OutcomeUnknown               the link went between a frame and its RECEIPT
    ├── RequestTimeout               no reply came within the time that a request gives
    ├── NotConfirmed                 messages of a publisher were not confirmed; it names each of them
    ├── StaleMessage                 ack or nack of a message whose subscription or link is gone
    ├── DecodeFailed                 the body of a message is not what `decode=` can read
    └── NotSupported                 this broker or this STOMP version cannot do that

Whose fault it is is in the type: ``LocalProtocolError`` is a bug in the calling program,
``RemoteProtocolError`` one in the peer. No message of these exceptions holds a passcode.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from trio_stomp.printable import one_line

__all__ = [
    "AuthenticationError",
    "BrokerError",
    "ConnectError",
    "ConnectFailure",
    "ConnectionClosed",
    "ConnectionLost",
    "DecodeFailed",
    "Delivery",
    "HeartBeatTimeout",
    "LimitExceeded",
    "LocalProtocolError",
    "NotConfirmed",
    "NotSupported",
    "OutcomeUnknown",
    "ProtocolError",
    "RemoteProtocolError",
    "RequestTimeout",
    "StaleMessage",
    "StompError",
    "SubscriptionOverflow",
    "TransactionLost",
    "UnconfirmedMessage",
]

# An ERROR body may be a Java stack trace of many KiB; a log line wants its beginning only.
_DETAIL_CHARACTERS = 300

# How many unconfirmed messages the text of NotConfirmed names; its attribute names all.
_NAMED = 3


class StompError(Exception):
    """The root of all exceptions of this library."""


class ProtocolError(StompError):
    """One of the two sides broke the rules of STOMP."""


class LocalProtocolError(ProtocolError):
    """This side asked for something that STOMP does not allow; nothing was sent."""


class RemoteProtocolError(ProtocolError):
    """The peer sent something that STOMP does not allow; the connection cannot go on."""


class LimitExceeded(RemoteProtocolError):
    """The peer sent more than a configured limit allows; the connection cannot go on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectFailure:
    """Why one address could not be connected to.

    Attributes:
        address: The URL tried, without user and passcode.
        step: What failed: ``"dns"``, ``"tcp"``, ``"unix"``, ``"proxy"``, ``"tls"``, ``"websocket"``,
            ``"credentials"``, ``"connect"`` or ``"timeout"``.
        reason: What was seen, and the hint.
        cause: The underlying exception, where there was one.
        refused: Whether the other side refused the credentials.
        hint: What to try next; empty where nothing is known.
        pending_step: With the step ``"timeout"``: the step that did not finish.
    """

    address: str
    step: str
    reason: str
    cause: BaseException | None = None
    refused: bool = False
    hint: str = ""
    pending_step: str | None = None

    def __str__(self) -> str:
        return f"{self.address}: {self.step}: {self.reason}"


class ConnectError(StompError):
    """No connection could be made.

    Attributes:
        failures: One cause for each host tried, in the order of trying.
    """

    def __init__(self, failures: Sequence[ConnectFailure]) -> None:
        self.failures = tuple(failures)
        super().__init__("could not connect: " + "; ".join(map(str, self.failures)))

    def __reduce__(self) -> tuple[type[ConnectError], tuple[tuple[ConnectFailure, ...]]]:
        """Copied and pickled by its failures, which its text is made of."""
        return type(self), (self.failures,)


class AuthenticationError(ConnectError):
    """The broker refused the credentials or the virtual host."""


class ConnectionLost(StompError):
    """The link went away without a DISCONNECT of this program, or was left for a host earlier in the list.

    Operations that were waiting, and all later ones, raise this. What had not been confirmed may or may not have
    reached the broker.
    """


class HeartBeatTimeout(ConnectionLost):
    """The broker sent nothing for longer than the agreed heart-beat interval and its margin."""


class ConnectionClosed(StompError):
    """This client was closed by its own program, and takes no more work."""


class BrokerError(StompError):
    """The broker answered with an ERROR frame. The broker's words are on one line in the text, with controls escaped.

    Attributes:
        message: The frame's ``message`` header, or a stand-in where it has none.
        headers: The frame's headers.
        body: The frame's body: the broker's details.
        receipt_id: The receipt of the frame that failed, where the broker names it.
    """

    def __init__(self, *, message: str, headers: Mapping[str, str], body: bytes) -> None:
        self.message = message
        self.headers = headers
        self.body = body
        self.receipt_id = headers.get("receipt-id")
        detail = body.decode("utf-8", "replace").strip()
        if len(detail) > _DETAIL_CHARACTERS:
            detail = detail[:_DETAIL_CHARACTERS] + "..."
        super().__init__(one_line(f"{message}: {detail}" if detail and detail != message else message))

    def __reduce__(
        self,
    ) -> tuple[Callable[[str, Mapping[str, str], bytes], BrokerError], tuple[str, dict[str, str], bytes]]:
        """Copied and pickled by its three parts."""
        return _broker_error, (self.message, dict(self.headers), self.body)


def _broker_error(message: str, headers: Mapping[str, str], body: bytes) -> BrokerError:
    return BrokerError(message=message, headers=headers, body=body)


class SubscriptionOverflow(StompError):
    """A consumer did not keep up and its subscription passed the limit of undelivered messages or octets."""


class TransactionLost(StompError):
    """The connection ended before COMMIT: nothing of this transaction took effect."""


class OutcomeUnknown(StompError):
    """The connection ended after a frame was sent and before its RECEIPT: it may or may not have taken effect."""


class RequestTimeout(StompError, TimeoutError):
    """No reply came within the time that a request gives; it may still be answered, in vain."""


class Delivery(enum.Enum):
    """What is known of a message that was sent.

    Attributes:
        SENT: It was handed to the link, whole; whether it arrived is not known, and was not asked for.
        CONFIRMED: The broker has said that it has it.
        REJECTED: The broker has said that it does not take it.
        UNKNOWN: It may or may not have arrived: its RECEIPT was asked for and did not come.
    """

    SENT = "sent"
    CONFIRMED = "confirmed"
    REJECTED = "rejected"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnconfirmedMessage:
    """A message that was sent and not confirmed.

    Attributes:
        id: Its stable id, as `Publication.id`.
        destination: Where it was sent.
        delivery: `Delivery.REJECTED` or `Delivery.UNKNOWN`.
        reason: What was seen, for people.
    """

    id: str
    destination: str
    delivery: Delivery
    reason: str

    def __str__(self) -> str:
        return f"{self.id} to {self.destination}: {self.delivery.value}: {self.reason}"


class NotConfirmed(StompError):
    """Messages were sent whose arrival the broker has not confirmed.

    Attributes:
        messages: Each of them, in the order of sending.
    """

    def __init__(self, messages: Sequence[UnconfirmedMessage]) -> None:
        self.messages = tuple(messages)
        named = "; ".join(map(str, self.messages[:_NAMED]))
        more = f"; and {len(self.messages) - _NAMED} more, in .messages" if len(self.messages) > _NAMED else ""
        super().__init__(f"{len(self.messages)} messages were not confirmed: {named}{more}")

    def __reduce__(self) -> tuple[type[NotConfirmed], tuple[tuple[UnconfirmedMessage, ...]]]:
        """Copied and pickled by its messages, which its text is made of."""
        return type(self), (self.messages,)


class StaleMessage(StompError):
    """This message can no longer be acknowledged: its subscription or its connection is gone."""


class DecodeFailed(StompError, ValueError):
    """The body of a message cannot be decoded; what the decoder raised is the cause."""


class NotSupported(StompError):
    """The broker, or the version of STOMP in force, cannot do what was asked; nothing was sent."""
