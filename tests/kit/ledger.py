"""What a broker would know of a session: which messages stand, who holds which delivery, what is in a transaction.

It is kept frame by frame and pure: no I/O, no clock. A frame that no broker could make sense of (an ACK of what is
settled, an UNSUBSCRIBE of nothing, a COMMIT without its BEGIN) raises `Complaint`, which fails the test at once.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from trio_stomp import AckMode
from trio_stomp.types import Command, Frame, Headers

__all__ = ["Complaint", "Delivery", "Fate", "Ledger"]


class Complaint(AssertionError):
    """The client has done what no broker could accept."""


class Fate(enum.Enum):
    """Where a delivered message is, as the broker sees it.

    OUT: with the consumer. PENDING: settled in a transaction that is open. RETURNED: back in the queue, to be delivered
    again.
    """

    OUT = "out"
    PENDING = "pending"
    ACKED = "acked"
    NACKED = "nacked"
    RETURNED = "returned"


@dataclass(slots=True)
class Delivery:
    """One MESSAGE that was sent: its ids, the subscription it went to, and its fate."""

    message_id: str
    subscription_id: str
    body: bytes
    fate: Fate = Fate.OUT

    @property
    def ack_id(self) -> str:
        """The value of its 1.2 ``ack`` header: not the message-id, so that a mix-up is seen."""
        return f"ack-{self.message_id}"


@dataclass(slots=True)
class _Transaction:
    sends: list[bytes] = field(default_factory=list[bytes])
    settled: list[tuple[Delivery, Fate]] = field(default_factory=list[tuple[Delivery, Fate]])


class Ledger:
    """The book of one session.

    Attributes:
        arrived: The bodies of all SENDs that are in effect, in order.
        deliveries: All messages sent to the client, by message-id.
        subscriptions: The open ones and their modes.
    """

    def __init__(self) -> None:
        self.arrived: list[bytes] = []
        self.deliveries: dict[str, Delivery] = {}
        self.subscriptions: dict[str, AckMode] = {}
        self._open: dict[str, _Transaction] = {}

    def deliver(self, subscription_id: str, body: bytes) -> Delivery:
        """Enter a message that is being sent to a subscription."""
        delivery = Delivery(f"m-{len(self.deliveries) + 1}", subscription_id, body)
        self.deliveries[delivery.message_id] = delivery
        return delivery

    def take(self, frame: Frame) -> None:
        """Enter a frame of the client.

        Raises:
            Complaint: No broker could make sense of it.
        """
        headers = frame.headers
        if frame.command is Command.SEND:
            self._send(frame)
        elif frame.command in (Command.ACK, Command.NACK):
            self._settle(frame)
        elif frame.command is Command.SUBSCRIBE:
            self._subscribe(headers)
        elif frame.command is Command.UNSUBSCRIBE:
            self._unsubscribe(headers)
        elif frame.command is Command.BEGIN:
            if headers["transaction"] in self._open:
                raise Complaint(f"BEGIN of a transaction that is open: {frame}")
            self._open[headers["transaction"]] = _Transaction()
        elif frame.command in (Command.COMMIT, Command.ABORT):
            self._end_transaction(frame)

    def end(self) -> None:
        """The link is gone: open transactions come to nothing, and what was out goes back."""
        for name in list(self._open):
            self._abort(name)
        for delivery in self.deliveries.values():
            if delivery.fate is Fate.OUT:
                delivery.fate = Fate.RETURNED

    # --- frames ---------------------------------------------------------------------------------------------------

    def _transaction(self, frame: Frame) -> _Transaction | None:
        name = frame.headers.get("transaction")
        if name is None:
            return None
        if name not in self._open:
            raise Complaint(f"no transaction {name!r} is open: {frame}")
        return self._open[name]

    def _send(self, frame: Frame) -> None:
        transaction = self._transaction(frame)
        (self.arrived if transaction is None else transaction.sends).append(frame.body)

    def _subscribe(self, headers: Headers) -> None:
        if headers["id"] in self.subscriptions:
            raise Complaint(f"SUBSCRIBE with an id that is in use: {headers}")
        self.subscriptions[headers["id"]] = AckMode.of(headers.get("ack") or "auto")

    def _unsubscribe(self, headers: Headers) -> None:
        if self.subscriptions.pop(headers["id"], None) is None:
            raise Complaint(f"UNSUBSCRIBE of no subscription: {headers}")
        for delivery in self.deliveries.values():
            if delivery.subscription_id == headers["id"] and delivery.fate is Fate.OUT:
                delivery.fate = Fate.RETURNED

    def _settle(self, frame: Frame) -> None:
        named = self._named(frame.headers)
        mode = self.subscriptions.get(named.subscription_id)
        if mode is None or mode is AckMode.AUTO:
            raise Complaint(f"{frame} for a subscription that is gone or in auto mode")
        if named.fate is not Fate.OUT:
            raise Complaint(f"{frame} for a message that is {named.fate.value} already")
        meant = Fate.ACKED if frame.command is Command.ACK else Fate.NACKED
        settled = self._up_to(named) if mode is AckMode.CLIENT and meant is Fate.ACKED else [named]
        transaction = self._transaction(frame)
        for delivery in settled:
            if transaction is None:
                delivery.fate = meant
            else:
                delivery.fate = Fate.PENDING
                transaction.settled.append((delivery, meant))

    def _named(self, headers: Headers) -> Delivery:
        """The delivery that an ACK names, by whichever header its version has for that."""
        ack_id, message_id = headers.get("id"), headers.get("message-id")
        for delivery in self.deliveries.values():
            if ack_id == delivery.ack_id or (ack_id is None and message_id == delivery.message_id):
                return delivery
        raise Complaint(f"no message was ever delivered that {headers} names")

    def _up_to(self, last: Delivery) -> list[Delivery]:
        found: list[Delivery] = []
        for delivery in self.deliveries.values():
            if delivery.subscription_id == last.subscription_id and delivery.fate is Fate.OUT:
                found.append(delivery)
            if delivery is last:
                break
        return found

    def _end_transaction(self, frame: Frame) -> None:
        name = frame.headers["transaction"]
        if name not in self._open:
            raise Complaint(f"{frame} of a transaction that is not open")
        if frame.command is Command.ABORT:
            self._abort(name)
            return
        transaction = self._open.pop(name)
        self.arrived += transaction.sends
        for delivery, meant in transaction.settled:
            delivery.fate = meant

    def _abort(self, name: str) -> None:
        for delivery, _ in self._open.pop(name).settled:
            delivery.fate = Fate.OUT if delivery.subscription_id in self.subscriptions else Fate.RETURNED
