"""Faults on demand: which rules meet which connections, and when.

`Faults.plan` keeps rules for connections to come, `Faults.now` puts them on those that are open.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

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

__all__ = ["Faults", "SessionFaults"]


@dataclass(slots=True)
class _ActiveReceiptFault:
    rule: ReceiptFault
    seen: int = 0
    held: list[str] = field(default_factory=list[str])

    def concerns(self, command: Command) -> bool:
        rule = self.rule
        if rule.command is not None and rule.command is not command:
            return False
        self.seen += 1
        return self.seen > rule.skip and (rule.count is None or self.seen <= rule.skip + rule.count)


class SessionFaults:
    """The faults of one session: the gate of its conversation, and those of its link.

    Args:
        later: Sends a receipt after so many seconds.

    Attributes:
        link: What its link does wrong.
        answer: How CONNECT is answered; None is as it should be.
    """

    def __init__(self, later: Callable[[float, str], None]) -> None:
        self._later = later
        self.link = LinkFaults()
        self.answer: AnswerConnect | None = None
        self._receipts: list[_ActiveReceiptFault] = []

    def apply(self, rule: Fault, link: FaultyLink) -> None:
        """Set a rule; bytes are counted from here on. A `DropLink` without counts is its session's business."""
        match rule:
            case AnswerConnect():
                self.answer = rule
            case SwallowReceipts() | DelayReceipts() | DuplicateReceipts() | ReverseReceipts():
                self._receipts.append(_ActiveReceiptFault(rule))
            case RefuseConnection():
                pass  # the broker's business, before there is a session
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
        """Whether CONNECT is not answered as it should be."""
        return self.answer is not None

    def receipts(self, command: Command, receipt_id: str) -> Sequence[str]:
        """The receipts to send when this one is due."""
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
                if len(active.held) < group:
                    return []
                held, active.held = active.held[::-1], []
                return held


class Faultable(Protocol):
    """A session that faults can be put on."""

    @property
    def session_id(self) -> str:
        """Its id."""
        ...

    def apply(self, rule: Fault) -> None:
        """Set a rule."""
        ...

    def resume(self) -> None:
        """Let a stalled, silent or slow link go on."""
        ...

    def send_bytes(self, data: bytes) -> None:
        """Write bytes."""
        ...

    def send_error(self, message: str, details: str, *, receipt_id: str | None, close: bool) -> None:
        """Write an ERROR."""
        ...


@dataclass(slots=True)
class _Plan:
    rules: tuple[Fault, ...]
    skip: int
    connections: int | None


class Faults:
    """The faults of a broker.

    Args:
        sessions: The sessions that are open.
    """

    def __init__(self, sessions: Callable[[], Sequence[Faultable]]) -> None:
        self._sessions = sessions
        self._plans: list[_Plan] = []

    def plan(self, *rules: Fault, connections: int | None = 1, skip: int = 0) -> None:
        """Keep rules for connections to come.

        Args:
            rules: What goes wrong with each of them.
            connections: With how many; None is all.
            skip: How many go well before.
        """
        self._plans.append(_Plan(rules, skip, connections))

    def clear(self) -> None:
        """Forget what is planned; open connections stay as they are."""
        self._plans.clear()

    def for_next_connection(self) -> list[Fault]:
        """The rules of the connection that has just come in: for the broker."""
        due: list[Fault] = []
        for plan in self._plans:
            if plan.skip:
                plan.skip -= 1
            elif plan.connections is None or plan.connections > 0:
                due += plan.rules
                plan.connections = None if plan.connections is None else plan.connections - 1
        return due

    def now(self, *rules: Fault, session_id: str | None = None) -> None:
        """Put rules on the sessions that are open, or on one of them."""
        for session in self._chosen(session_id):
            for rule in rules:
                session.apply(rule)

    def drop(self, *, session_id: str | None = None) -> None:
        """Break the links without warning."""
        self.now(DropLink(), session_id=session_id)

    def resume(self, *, session_id: str | None = None) -> None:
        """Let stalled, half-open and slow links go on; what a half-open one threw away stays lost."""
        for session in self._chosen(session_id):
            session.resume()

    def send_bytes(self, data: bytes, *, session_id: str | None = None) -> None:
        """Write bytes as they are, between two frames: garbage, or a frame of your own making."""
        for session in self._chosen(session_id):
            session.send_bytes(data)

    def send_error(
        self,
        message: str,
        details: str = "",
        *,
        receipt_id: str | None = None,
        close: bool = True,
        session_id: str | None = None,
    ) -> None:
        """Send an ERROR now; without `close` the sessions go on."""
        for session in self._chosen(session_id):
            session.send_error(message, details, receipt_id=receipt_id, close=close)

    def _chosen(self, session_id: str | None) -> list[Faultable]:
        return [session for session in self._sessions() if session_id in (None, session.session_id)]
