"""The open transactions of one session: what they hold until COMMIT or ABORT. Spec: "BEGIN", "COMMIT", "ABORT".

Their messages are charged to the account of all queues from the SEND on. Destinations are held by name: a queue that is
gone at COMMIT comes into being again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from trio_stomp.testing.broker_options import NackPolicy
from trio_stomp.testing.deliveries import Consumer
from trio_stomp.testing.destinations import StoredMessage
from trio_stomp.testing.memory import Memory, text_bytes
from trio_stomp.testing.refusals import Refusal

__all__ = ["Claim", "Transaction", "Transactions"]

# Measured with CPython 3.11.
_TRANSACTION_BYTES: Final = 640


@dataclass(slots=True, eq=False)
class Claim:
    """Deliveries that an ACK or NACK settles, in a transaction at COMMIT.

    Attributes:
        consumer: The subscription that holds them.
        messages: The messages delivered, in order.
        nack: What becomes of them when they are NACKed; None for an ACK.
    """

    consumer: Consumer
    messages: Sequence[StoredMessage]
    nack: NackPolicy | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class Transaction:
    """What one transaction has gathered.

    Attributes:
        sends: Messages, and where they go.
        sizes: What the messages to each destination take in memory.
        claims: Deliveries that it settles.
        name_bytes: What it takes itself.
    """

    sends: list[tuple[str, StoredMessage]] = field(default_factory=list[tuple[str, StoredMessage]])
    sizes: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    claims: list[Claim] = field(default_factory=list[Claim])
    name_bytes: int = 0

    def undo(self) -> None:
        """Forget the sends and give back the claims."""
        by_consumer: dict[Consumer, list[StoredMessage]] = {}
        for claim in self.claims:
            by_consumer.setdefault(claim.consumer, []).extend(claim.messages)
        for consumer, messages in by_consumer.items():
            consumer.restore(messages)


class Transactions:
    """The open transactions of one session.

    Args:
        limit: How many frames one may hold.
        memory: What they and their messages are charged to.
    """

    def __init__(self, *, limit: int, memory: Memory | None = None) -> None:
        self._limit = limit
        self._memory = Memory() if memory is None else memory
        self._open: dict[str, Transaction] = {}

    def __len__(self) -> int:
        return len(self._open)

    def begin(self, name: str) -> None:
        """Open one.

        Raises:
            Refusal: The id is in use on this session (row 12-TX-2), or there are too many.
        """
        if name in self._open:
            raise Refusal("transaction exists", f"transaction {name!r} is open on this connection already")
        size = _TRANSACTION_BYTES + text_bytes(name)
        self._memory.names.charge(size)
        self._open[name] = Transaction(name_bytes=size)

    def add_send(self, transaction: Transaction, destination: str, message: StoredMessage) -> None:
        """Keep a SEND for COMMIT, in a transaction that has room for it.

        Raises:
            Refusal: All queues and open transactions together are full.
        """
        self._memory.stored.charge(message.size)
        transaction.sends.append((destination, message))
        transaction.sizes.setdefault(destination, []).append(message.size)

    def with_room(self, name: str) -> Transaction:
        """The transaction of that name, which can hold one frame more.

        Raises:
            Refusal: There is no such transaction, or it is full.
        """
        transaction = self._open.get(name)
        if transaction is None:
            raise self._unknown(name)
        if len(transaction.sends) + len(transaction.claims) >= self._limit:
            raise Refusal(
                "transaction is full", f"transaction {name!r} holds {self._limit} frames already (max_queue_length)"
            )
        return transaction

    def end(self, name: str) -> Transaction:
        """Close one and return what it holds; its messages are charged no more.

        Raises:
            Refusal: There is none of that name: row all-TX-7.
        """
        transaction = self._open.pop(name, None)
        if transaction is None:
            raise self._unknown(name)
        self._memory.stored.used -= sum(map(sum, transaction.sizes.values()))
        self._memory.names.used -= transaction.name_bytes
        return transaction

    def abort_all(self) -> None:
        """Undo all that are open: rows 1x-TX-5 and 1x-TX-6."""
        while self._open:
            self.end(next(reversed(self._open))).undo()

    @staticmethod
    def _unknown(name: str) -> Refusal:
        return Refusal("no such transaction", f"no transaction {name!r} is open on this connection; send BEGIN first")
