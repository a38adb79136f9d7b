"""The faults that can be injected into a connection. They can be combined."""

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
    """The broker closes the connection at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerConnect:
    """The broker does not answer CONNECT with CONNECTED; without arguments, it does not answer at all.

    Attributes:
        error: The ``message`` header of an ERROR to answer with.
        data: Bytes to answer with.
        close: Close the connection after the answer (always done after an ERROR).
    """

    error: str | None = None
    data: bytes = b""
    close: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DropLink:
    """The connection breaks without warning: at once, or after a number of bytes since the rule was set.

    Attributes:
        after_sent_bytes: Number of bytes to the client that still arrive.
        after_received_bytes: Number of bytes from the client that still arrive and take effect.
    """

    after_sent_bytes: int | None = None
    after_received_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StallReading:
    """The broker stops reading after this many bytes, so that at some point the client cannot write."""

    after_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StallWriting:
    """The broker stops writing after this many bytes, possibly within a frame, but continues to read."""

    after_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HalfOpen:
    """The connection stays open, but after this many bytes the broker ignores its input and sends nothing."""

    after_received_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowWriting:
    """The broker writes slowly."""

    bytes_per_second: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptRule:
    """Which receipts a rule applies to; the base class of all rules about receipts.

    Attributes:
        command: Only receipts for this command. None: for all.
        skip: How many receipts come first without a fault.
        count: How many receipts the rule then applies to. None: all.
    """

    command: Command | None = None
    skip: int = 0
    count: int | None = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SwallowReceipts(ReceiptRule):
    """The broker never sends the next receipt, or the next `count`, although the frames take effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayReceipts(ReceiptRule):
    """The broker sends the next receipt late, or the next `count`, by `seconds` of the event loop's clock."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DuplicateReceipts(ReceiptRule):
    """The broker sends the next receipt twice, or the next `count`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReverseReceipts(ReceiptRule):
    """The broker collects `group` receipts, and sends them in reverse order."""

    group: int = 2
    count: int | None = None


LinkFault = DropLink | StallReading | StallWriting | HalfOpen | SlowWriting
ReceiptFault = SwallowReceipts | DelayReceipts | DuplicateReceipts | ReverseReceipts
Fault = RefuseConnection | AnswerConnect | LinkFault | ReceiptFault
