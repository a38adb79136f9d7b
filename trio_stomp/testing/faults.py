"""Fault injection: which rules apply to which connections, and when.

`Faults.plan` sets rules for future connections, `Faults.now` for open ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from trio_stomp.protocol import Command
from trio_stomp.testing.checks import require_type, require_whole
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
    require_faults,
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
                if len(active.held) < group:
                    return []
                held, active.held = active.held[::-1], []
                return held


class Faultable(Protocol):
    """A session that faults can be applied to."""

    @property
    def session_id(self) -> str:
        """Its id."""
        ...

    def apply(self, rule: Fault) -> None:
        """Set a rule."""
        ...

    def resume(self) -> None:
        """Let a stalled, silent or slow link continue."""
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
    """The faults of a broker: `Broker.faults`.

    Args:
        sessions: Returns the open sessions.
    """

    def __init__(self, sessions: Callable[[], Sequence[Faultable]]) -> None:
        self._sessions = sessions
        self._plans: list[_Plan] = []

    def plan(self, *rules: Fault, connections: int | None = 1, skip: int = 0) -> None:
        """Set rules for future connections.

        Args:
            rules: The faults of each of them.
            connections: To how many connections the rules apply. None: all.
            skip: How many connections come first without faults.

        Raises:
            TypeError: A rule is not a fault, or a number is not an int.
            ValueError: A number is negative.
        """
        require_faults("plan()", rules)
        require_whole("connections", connections, or_none=True)
        require_whole("skip", skip)
        self._plans.append(_Plan(rules, skip, connections))

    def clear(self) -> None:
        """Remove all plans. Open connections keep their faults."""
        self._plans.clear()

    def for_next_connection(self) -> list[Fault]:
        """Return the rules for a new connection; the broker calls this."""
        due: list[Fault] = []
        for plan in self._plans:
            if plan.skip:
                plan.skip -= 1
            elif plan.connections is None or plan.connections > 0:
                due += plan.rules
                plan.connections = None if plan.connections is None else plan.connections - 1
        return due

    def now(self, *rules: Fault, session_id: str | None = None) -> None:
        """Apply rules to all open sessions, or to one of them. Later connections do not get them: see `plan`.

        Raises:
            TypeError: A rule is not a fault.
            ValueError: A rule is RefuseConnection, which comes too late for an open session.
        """
        require_faults("now()", rules)
        if any(isinstance(rule, RefuseConnection) for rule in rules):
            raise ValueError("now() is for open connections, which cannot be refused; write plan(RefuseConnection())")
        for session in self._chosen(session_id):
            for rule in rules:
                session.apply(rule)

    def drop(self, *, session_id: str | None = None) -> None:
        """Break all connections, or one of them, without warning."""
        self.now(DropLink(), session_id=session_id)

    def resume(self, *, session_id: str | None = None) -> None:
        """Let stalled, half-open and slow connections continue. Bytes that a half-open one has dropped stay lost."""
        for session in self._chosen(session_id):
            session.resume()

    def send_bytes(self, data: bytes, *, session_id: str | None = None) -> None:
        """Write any bytes between two frames: garbage, or a frame that you have encoded.

        Raises:
            TypeError: The data is not bytes.
        """
        require_type("data", data, bytes, "bytes")
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
        """Send an ERROR now, and end the sessions unless `close` is False."""
        for session in self._chosen(session_id):
            session.send_error(message, details, receipt_id=receipt_id, close=close)

    def _chosen(self, session_id: str | None) -> list[Faultable]:
        return [session for session in self._sessions() if session_id in (None, session.session_id)]
