"""What can go wrong with a connection: rules as frozen data, which can be combined."""

from __future__ import annotations

from dataclasses import dataclass

from trio_stomp.protocol import Command

__all__ = [
    "AnswerConnect",
    "DelayReceipts",
    "DropLink",
    "DuplicateReceipts",
    "Fault",
    "HalfOpen",
    "LinkFault",
    "ReceiptFault",
    "ReceiptRule",
    "RefuseConnection",
    "ReverseReceipts",
    "SlowWriting",
    "StallReading",
    "StallWriting",
    "SwallowReceipts",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RefuseConnection:
    """The broker closes the link at once, without a word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerConnect:
    """CONNECT is not answered with CONNECTED. Without arguments it is not answered at all.

    Attributes:
        error: The ``message`` of an ERROR to answer with.
        data: Bytes to answer with, as they are.
        close: Close the link then (an ERROR always does).
    """

    error: str | None = None
    data: bytes = b""
    close: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DropLink:
    """The link breaks without warning: at once, or when so many bytes have passed since the rule was set.

    Attributes:
        after_sent_bytes: Bytes to the client that still get through.
        after_received_bytes: Bytes of the client that still get through, and take effect.
    """

    after_sent_bytes: int | None = None
    after_received_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StallReading:
    """The broker stops reading after so many bytes, so that the client's writes wait in the end."""

    after_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StallWriting:
    """The broker stops writing after so many bytes, possibly within a frame; it goes on reading."""

    after_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HalfOpen:
    """The link stays open, but after so many received bytes the broker ignores its input and says nothing."""

    after_received_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowWriting:
    """The broker writes no faster than this."""

    bytes_per_second: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptRule:
    """Which receipts a rule concerns: what all rules about receipts have in common.

    Attributes:
        command: Those of this command only; None is all.
        skip: How many go by first.
        count: How many it concerns then; None is all that follow.
    """

    command: Command | None = None
    skip: int = 0
    count: int | None = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SwallowReceipts(ReceiptRule):
    """Receipts are never sent, although their frames take effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayReceipts(ReceiptRule):
    """Receipts are sent so many seconds (of trio's clock) late."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DuplicateReceipts(ReceiptRule):
    """Receipts are sent twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReverseReceipts(ReceiptRule):
    """Receipts are held back until there are `group` of them, and sent in reverse order."""

    group: int = 2
    count: int | None = None


LinkFault = DropLink | StallReading | StallWriting | HalfOpen | SlowWriting
ReceiptFault = SwallowReceipts | DelayReceipts | DuplicateReceipts | ReverseReceipts
Fault = RefuseConnection | AnswerConnect | LinkFault | ReceiptFault
