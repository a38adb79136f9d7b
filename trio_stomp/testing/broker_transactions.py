"""The open transactions of one session. Spec: "BEGIN", "COMMIT", "ABORT".

Their messages are charged to the account of all queues from the SEND on. Destinations are kept by name: a queue that no
longer exists at COMMIT is created again.
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
    """Deliveries that an ACK or NACK settles; in a transaction, at COMMIT.

    Attributes:
        consumer: Their subscription.
        messages: The messages, in order.
        nack: What happens to NACKed messages; None for an ACK.
    """

    consumer: Consumer
    messages: Sequence[StoredMessage]
    nack: NackPolicy | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class Transaction:
    """An open transaction.

    Attributes:
        sends: Destinations and messages, in order.
        sizes: The memory of each message, by destination.
        claims: Deliveries to settle, in order.
        name_bytes: Its own memory, without the messages.
    """

    sends: list[tuple[str, StoredMessage]] = field(default_factory=list[tuple[str, StoredMessage]])
    sizes: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    claims: list[Claim] = field(default_factory=list[Claim])
    name_bytes: int = 0

    def undo(self) -> None:
        """Give back the claimed deliveries."""
        for claim in self.claims:
            claim.consumer.restore(claim.messages)


class Transactions:
    """The open transactions of one session.

    Args:
        limit: How many frames one transaction may hold.
        memory: The accounts that they and their messages are charged to.
    """

    def __init__(self, *, limit: int, memory: Memory) -> None:
        self._limit = limit
        self._memory = memory
        self._open: dict[str, Transaction] = {}

    def __len__(self) -> int:
        return len(self._open)

    def begin(self, name: str) -> None:
        """Open a transaction.

        Raises:
            Refusal: The id is in use in this session (row 12-TX-2), or there are too many.
        """
        if name in self._open:
            raise Refusal("transaction exists", f"transaction {name!r} is already open on this connection")
        size = _TRANSACTION_BYTES + text_bytes(name)
        self._memory.names.charge(size)
        self._open[name] = Transaction(name_bytes=size)

    def add_send(self, transaction: Transaction, destination: str, message: StoredMessage) -> None:
        """Keep a message for COMMIT, in a transaction that `with_room` has returned.

        Raises:
            Refusal: All queues and open transactions together are full.
        """
        self._memory.stored.charge(message.size)
        transaction.sends.append((destination, message))
        transaction.sizes.setdefault(destination, []).append(message.size)

    def with_room(self, name: str) -> Transaction:
        """The transaction of that name, with room for one more frame.

        Raises:
            Refusal: There is no such transaction, or it is full.
        """
        transaction = self._open.get(name)
        if transaction is None:
            raise self._unknown(name)
        if len(transaction.sends) + len(transaction.claims) >= self._limit:
            raise Refusal(
                "transaction is full", f"transaction {name!r} already holds {self._limit} frames (max_queue_length)"
            )
        return transaction

    def end(self, name: str) -> Transaction:
        """Close a transaction, stop charging for it, and return it.

        Raises:
            Refusal: There is no such transaction (row all-TX-7).
        """
        transaction = self._open.pop(name, None)
        if transaction is None:
            raise self._unknown(name)
        self._memory.stored.used -= sum(map(sum, transaction.sizes.values()))
        self._memory.names.used -= transaction.name_bytes
        return transaction

    def abort_all(self) -> None:
        """Abort all transactions: rows 1x-TX-5 and 1x-TX-6."""
        for name in list(self._open):
            self.end(name).undo()

    @staticmethod
    def _unknown(name: str) -> Refusal:
        return Refusal("no such transaction", f"transaction {name!r} is not open on this connection; send BEGIN first")
