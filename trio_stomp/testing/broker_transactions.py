"""The open transactions of one session: what they hold until COMMIT or ABORT. Spec: "BEGIN", "COMMIT", "ABORT"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from trio_stomp.protocol import Command
from trio_stomp.testing.deliveries import Consumer
from trio_stomp.testing.destinations import StoredMessage
from trio_stomp.testing.refusals import Refusal

__all__ = ["Claim", "Target", "Transaction", "Transactions"]


class Target(Protocol):
    """What a SEND goes to: a queue or a topic."""

    @property
    def name(self) -> str:
        """Its destination."""
        ...

    def room(self) -> int:
        """How many messages it can still take."""
        ...

    def publish(self, message: StoredMessage) -> None:
        """Take a message."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Deliveries that an ACK or NACK in a transaction settles at COMMIT."""

    command: Command
    consumer: Consumer
    messages: Sequence[StoredMessage]
    requeue: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """What one transaction has gathered."""

    sends: list[tuple[Target, StoredMessage]] = field(default_factory=list[tuple[Target, StoredMessage]])
    claims: list[Claim] = field(default_factory=list[Claim])

    def undo(self) -> None:
        """Forget the sends and give back the claims."""
        for claim in self.claims:
            claim.consumer.restore(claim.messages)

    def check_room(self) -> None:
        """Make sure that every send can take effect, so that all of them do or none.

        Raises:
            Refusal: A queue would overflow.
        """
        counts: dict[Target, int] = {}
        for target, _ in self.sends:
            counts[target] = counts.get(target, 0) + 1
        for target, count in counts.items():
            if count > target.room():
                raise Refusal("queue is full", f"{target.name} has no room for {count} messages (max_queue_length)")


class Transactions:
    """The open transactions of one session.

    Args:
        limit: How many frames one may hold.
    """

    def __init__(self, *, limit: int) -> None:
        self._limit = limit
        self._open: dict[str, Transaction] = {}

    def __len__(self) -> int:
        return len(self._open)

    def begin(self, name: str) -> None:
        """Open one.

        Raises:
            Refusal: The id is in use on this session: row 12-TX-2.
        """
        if name in self._open:
            raise Refusal("transaction exists", f"transaction {name!r} is open on this connection already")
        self._open[name] = Transaction()

    def add_send(self, name: str, target: Target, message: StoredMessage) -> None:
        """Keep a SEND for COMMIT.

        Raises:
            Refusal: There is no such transaction, or it is full.
        """
        self._with_room(name).sends.append((target, message))

    def add_claim(self, name: str, claim: Claim) -> None:
        """Keep an ACK or NACK for COMMIT.

        Raises:
            Refusal: There is no such transaction, or it is full; the claim is undone.
        """
        try:
            transaction = self._with_room(name)
        except Refusal:
            claim.consumer.restore(claim.messages)
            raise
        transaction.claims.append(claim)

    def _with_room(self, name: str) -> Transaction:
        transaction = self._open.get(name)
        if transaction is None:
            raise self._unknown(name)
        if len(transaction.sends) + len(transaction.claims) >= self._limit:
            raise Refusal("transaction is full", f"transaction {name!r} holds {self._limit} frames already")
        return transaction

    def end(self, name: str) -> Transaction:
        """Close one and return what it holds.

        Raises:
            Refusal: There is none of that name: row all-TX-7.
        """
        transaction = self._open.pop(name, None)
        if transaction is None:
            raise self._unknown(name)
        return transaction

    def abort_all(self) -> None:
        """Undo all that are open: rows 1x-TX-5 and 1x-TX-6."""
        while self._open:
            self._open.popitem()[1].undo()

    @staticmethod
    def _unknown(name: str) -> Refusal:
        return Refusal("no such transaction", f"no transaction {name!r} is open on this connection; send BEGIN first")
