"""The faults of one session: which receipts it sends, how it answers CONNECT, and what its link does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from trio_stomp.protocol import Command
from trio_stomp.testing.fault_rules import (
    AnswerConnect,
    DelayReceipts,
    DropLink,
    DuplicateReceipts,
    Fault,
    HalfOpen,
    LinkFault,
    ReceiptFault,
    RefuseConnection,
    ReverseReceipts,
    SlowWriting,
    StallReading,
    StallWriting,
    SwallowReceipts,
)
from trio_stomp.testing.faulty_link import FaultyLink, LinkFaults

__all__ = ["SessionFaults"]


@dataclass(slots=True)
class _ActiveReceiptFault:
    rule: ReceiptFault
    seen: int = 0
    held: list[str] = field(default_factory=list[str])

    @property
    def is_over(self) -> bool:
        """Whether it has met all receipts that it applies to."""
        return self.rule.count is not None and self.seen >= self.rule.skip + self.rule.count

    def concerns(self, command: Command) -> bool:
        rule = self.rule
        if rule.command is not None and rule.command is not command:
            return False
        self.seen += 1
        return self.seen > rule.skip and (rule.count is None or self.seen <= rule.skip + rule.count)


class SessionFaults:
    """The faults of one session and its link.

    Args:
        later: Sends a receipt after a number of seconds.

    Attributes:
        link: The faults of its link.
        answer: How to answer CONNECT; None is as usual.
    """

    def __init__(self, later: Callable[[float, str], None]) -> None:
        self._later = later
        self.link = LinkFaults()
        self.answer: AnswerConnect | None = None
        self._receipts: list[_ActiveReceiptFault] = []

    def apply(self, rule: Fault, link: FaultyLink) -> None:
        """Set a rule; bytes count from now on. The session itself applies a `DropLink` without counts."""
        match rule:
            case AnswerConnect():
                self.answer = rule
            case SwallowReceipts() | DelayReceipts() | DuplicateReceipts() | ReverseReceipts():
                self._receipts.append(_ActiveReceiptFault(rule))
            case RefuseConnection():
                pass  # the broker applies it, before there is a session
            case _:
                self._apply_to_link(rule, link)

    def _apply_to_link(self, rule: LinkFault, link: FaultyLink) -> None:
        faults = self.link
        match rule:
            case DropLink(after_sent_bytes=sent, after_received_bytes=received):
                if sent is not None:
                    faults.drop_at_sent = link.sent + sent
                if received is not None:
                    faults.drop_at_received = link.received + received
            case StallReading():
                faults.stall_reading_at = link.received + rule.after_bytes
            case StallWriting():
                faults.stall_writing_at = link.sent + rule.after_bytes
            case HalfOpen():
                faults.silent_at = link.received + rule.after_received_bytes
            case SlowWriting():
                faults.bytes_per_second = rule.bytes_per_second
        faults.notify()

    def answers_connect(self) -> bool:
        """Return whether CONNECT is answered in another way than usual."""
        return self.answer is not None

    def receipts(self, command: Command, receipt_id: str) -> Sequence[str]:
        """Return the receipts to send when this one is due."""
        due = [receipt_id]
        for active in self._receipts:
            if due and active.concerns(command):
                due = self._changed(active, due)
        return due

    def _changed(self, active: _ActiveReceiptFault, due: list[str]) -> list[str]:
        match active.rule:
            case SwallowReceipts():
                return []
            case DuplicateReceipts():
                return [receipt_id for receipt_id in due for _ in range(2)]
            case DelayReceipts(seconds=seconds):
                for receipt_id in due:
                    self._later(seconds, receipt_id)
                return []
            case ReverseReceipts(group=group):
                active.held += due
                if len(active.held) < group and not active.is_over:
                    return []
                held, active.held = active.held[::-1], []
                return held
