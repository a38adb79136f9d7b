"""The faults that can be injected into a connection. They can be combined."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trio_stomp.printable import shown
from trio_stomp.protocol import Command
from trio_stomp.testing.checks import require_command, require_number, require_type, require_whole

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
    "require_faults",
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

    def __post_init__(self) -> None:
        require_type("error", self.error, str | None, "a str or None")
        require_type("data", self.data, bytes, "bytes")
        require_type("close", self.close, bool, "True or False")


@dataclass(frozen=True, slots=True, kw_only=True)
class DropLink:
    """The connection breaks without warning: at once, or after a number of bytes since the rule was set.

    Attributes:
        after_sent_bytes: Number of bytes to the client that still arrive.
        after_received_bytes: Number of bytes from the client that still arrive and take effect.
    """

    after_sent_bytes: int | None = None
    after_received_bytes: int | None = None

    def __post_init__(self) -> None:
        require_whole("after_sent_bytes", self.after_sent_bytes, or_none=True)
        require_whole("after_received_bytes", self.after_received_bytes, or_none=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class StallReading:
    """The broker stops reading after this many bytes, so that at some point the client cannot write."""

    after_bytes: int = 0

    def __post_init__(self) -> None:
        require_whole("after_bytes", self.after_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class StallWriting:
    """The broker stops writing after this many bytes, possibly within a frame, but continues to read."""

    after_bytes: int = 0

    def __post_init__(self) -> None:
        require_whole("after_bytes", self.after_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class HalfOpen:
    """The connection stays open, but after this many bytes the broker ignores its input and sends nothing."""

    after_received_bytes: int = 0

    def __post_init__(self) -> None:
        require_whole("after_received_bytes", self.after_received_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowWriting:
    """The broker writes slowly."""

    bytes_per_second: float

    def __post_init__(self) -> None:
        require_number("bytes_per_second", self.bytes_per_second, "number")


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

    def __post_init__(self) -> None:
        if self.command is not None:
            require_command("command", self.command)
        require_whole("skip", self.skip)
        require_whole("count", self.count, 1, or_none=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class SwallowReceipts(ReceiptRule):
    """The broker never sends the next receipt, or the next `count`, although the frames take effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayReceipts(ReceiptRule):
    """The broker sends the next receipt late, or the next `count`, by `seconds` of the event loop's clock."""

    seconds: float

    def __post_init__(self) -> None:
        # Not super(): `slots=True` makes another class, which Python before 3.14 does not find from here.
        ReceiptRule.__post_init__(self)
        require_number("seconds", self.seconds, zero=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class DuplicateReceipts(ReceiptRule):
    """The broker sends the next receipt twice, or the next `count`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReverseReceipts(ReceiptRule):
    """The broker collects `group` receipts, or what is left of `count`, and sends them in reverse order."""

    group: int = 2
    count: int | None = None

    def __post_init__(self) -> None:
        ReceiptRule.__post_init__(self)
        require_whole("group", self.group, 1)


LinkFault = DropLink | StallReading | StallWriting | HalfOpen | SlowWriting
ReceiptFault = SwallowReceipts | DelayReceipts | DuplicateReceipts | ReverseReceipts
Fault = RefuseConnection | AnswerConnect | LinkFault | ReceiptFault


def require_faults(call: str, rules: Iterable[object]) -> None:
    """Refuse what is not a fault: it would do nothing, and the test would pass.

    Raises:
        TypeError: One of them is not a fault.
    """
    for rule in rules:
        if not isinstance(rule, Fault):
            got = shown(rule)
            if isinstance(rule, type) and issubclass(rule, Fault):
                got = f"the class {rule.__name__}; write {rule.__name__}()"
            elif isinstance(rule, list | tuple):
                got = f"several in one argument: {got}; pass each as an argument of its own"
            raise TypeError(f"{call} takes faults such as DropLink(), got {got}")
