"""Fault injection: which rules apply to which connections, and when.

`Faults.plan` sets rules for future connections, `Faults.now` for open ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trio_stomp.testing.broker_session import BrokerSession
from trio_stomp.testing.checks import require_type, require_whole
from trio_stomp.testing.fault_rules import DropLink, Fault, RefuseConnection, require_faults

__all__ = ["Faults"]


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

    def __init__(self, sessions: Callable[[], Sequence[BrokerSession]]) -> None:
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
        """Send an ERROR now, and end the sessions unless `close` is False.

        Raises:
            TypeError: An argument is no text.
        """
        require_type("message", message, str, "a str")
        require_type("details", details, str, "a str")
        require_type("receipt_id", receipt_id, str | None, "a str or None")
        for session in self._chosen(session_id):
            session.send_error(message, details, receipt_id=receipt_id, close=close)

    def _chosen(self, session_id: str | None) -> list[BrokerSession]:
        return [session for session in self._sessions() if session_id in (None, session.session_id)]
