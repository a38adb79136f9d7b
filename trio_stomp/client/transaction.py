"""Transactions: BEGIN, COMMIT with receipt, ABORT when the block raises."""

from __future__ import annotations

import enum
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from trio_stomp.brokers import QueueArguments, SendOptions, send_options
from trio_stomp.errors import (
    LocalProtocolError,
    NotSupportedError,
    OutcomeUnknown,
    StompError,
    TransactionLost,
)
from trio_stomp.protocol import Command
from trio_stomp.session import (
    Connection,
    HeaderInput,
    Message,
    OutgoingMessage,
    Receipt,
    Session,
    Stage,
    TransactedAcks,
    own_header,
    post,
)

__all__ = ["Transaction", "TransactionState", "open_transaction", "run_transaction"]

logger: Final = logging.getLogger("trio_stomp")

T = TypeVar("T")


class TransactionState(enum.Enum):
    """Where a transaction is.

    Attributes:
        OPEN: It takes sends and acknowledgments.
        COMMITTED: The broker has confirmed its COMMIT.
        ABORTED: Nothing of it takes effect.
        UNKNOWN: COMMIT was sent, and the link went, or the caller was cancelled, before its RECEIPT came.
    """

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


# Members of an enumeration take five times as long to look up as names of a module.
_OPEN: Final = TransactionState.OPEN

# Every verb needs the state OPEN. COMMIT leads to UNKNOWN, and its answer from there.
_NEXT: Final[Mapping[TransactionState, frozenset[TransactionState]]] = {
    TransactionState.OPEN: frozenset({TransactionState.UNKNOWN, TransactionState.ABORTED}),
    TransactionState.UNKNOWN: frozenset({TransactionState.COMMITTED, TransactionState.ABORTED}),
    TransactionState.COMMITTED: frozenset(),
    TransactionState.ABORTED: frozenset(),
}


class Transaction:
    """Sends and acknowledgments that take effect together.

    Attributes:
        id: Its id on the connection.
    """

    def __init__(self, connection: Connection, transaction_id: str) -> None:
        self.id = transaction_id
        self._state: TransactionState = _OPEN
        self._connection = connection
        self._own = own_header("transaction", transaction_id)
        self._acks = TransactedAcks(connection, transaction_id)
        self._receipts: list[Receipt] = []

    @property
    def state(self) -> TransactionState:
        """Where it is."""
        return self._state

    async def send(
        self,
        destination: str,
        body: bytes | str,
        *,
        headers: HeaderInput | None = None,
        content_type: str | None = None,
        persistent: bool = False,
        ttl: float | None = None,
        priority: int | None = None,
        delay: float | None = None,
        group: str | None = None,
        dedup_id: str | None = None,
        queue_arguments: QueueArguments | None = None,
    ) -> None:
        """Send a message when the transaction is committed; the arguments are those of `Client.send`.

        Raises:
            NotSupportedError: The broker has no such option.
            TransactionLost: The link is gone; nothing of the transaction takes effect.
            LocalProtocolError: The transaction is over, or a header cannot be represented.

        Cancellation: the frame was put into the transaction whole or not at all; leaving the block aborts it.

        Spec: SEND; BEGIN.
        """
        options = send_options(persistent, ttl, priority, delay, group, dedup_id, queue_arguments)
        if not self._goes_at_once():
            await self._turn()
        self._put(destination, body, headers, content_type, options)

    async def send_many(self, messages: Iterable[OutgoingMessage]) -> None:
        """Send messages when the transaction is committed: `send` for many, in one call.

        Raises:
            TransactionLost: The link is gone; nothing of the transaction takes effect.
            LocalProtocolError: The transaction is over, or a header cannot be represented.

        Cancellation: some were put into the transaction; leaving the block aborts it.

        Spec: SEND; BEGIN.
        """
        await self._turn()
        for message in messages:
            if not self._goes_at_once():
                await self._turn()
            self._put(message.destination, message.body, message.headers, message.content_type, message.options)

    def _put(
        self,
        destination: str,
        body: bytes | str,
        headers: HeaderInput | None,
        content_type: str | None,
        options: SendOptions | None,
    ) -> None:
        connection = self._connection
        if not connection.profile.commit_receipt_is_early:
            post(connection, destination, body, headers, content_type, options, self._own)
            return
        # Its RECEIPT comes after the one of COMMIT, and only it says that the message is stored.
        receipt = connection.receipts.expect()
        try:
            own = self._own + own_header("receipt", receipt.id)
            post(connection, destination, body, headers, content_type, options, own)
            self._receipts.append(receipt)
        finally:
            # What was not sent is not confirmed either.
            if self._receipts[-1:] != [receipt]:
                connection.receipts.forget(receipt.id)

    async def ack(self, message: Message) -> None:
        """Acknowledge a message when the transaction is committed; if it is not, the message is open again.

        Raises:
            TransactionLost: The link is gone; nothing of the transaction takes effect.
            LocalProtocolError: The transaction is over, or the message is settled or of another connection.
            StaleMessage: The message's subscription or connection is gone.

        Cancellation: as `send`.

        Spec: ACK.
        """
        await self._settle(message, Command.ACK)

    async def nack(self, message: Message, *, requeue: bool | None = None) -> None:
        """Refuse a message when the transaction is committed; if it is not, the message is open again.

        Args:
            message: The message.
            requeue: As for `Message.nack`.

        Raises:
            NotSupportedError: The broker takes no NACK in transactions, or would lose the message.
            TransactionLost: The link is gone; nothing of the transaction takes effect.
            LocalProtocolError: The transaction is over, or the message is settled or of another connection.
            StaleMessage: The message's subscription or connection is gone.

        Cancellation: as `send`.

        Spec: NACK.
        """
        await self._settle(message, Command.NACK, requeue=requeue)

    async def _settle(self, message: Message, command: Command, *, requeue: bool | None = None) -> None:
        await self._turn()
        self._acks.settle(message, command, requeue=requeue)

    def _goes_at_once(self) -> bool:
        return self._state is _OPEN and self._connection.goes_at_once()

    async def _turn(self) -> None:
        self._require_open()
        try:
            await self._connection.turn()
        except StompError as error:
            if self._connection.stage is Stage.CLOSING:
                raise
            msg = f"transaction {self.id!r} was not committed, nothing of it takes effect: {error.__cause__ or error}"
            raise TransactionLost(msg) from error
        self._require_open()

    def _require_open(self) -> None:
        if self._state is not _OPEN:
            msg = f"transaction {self.id!r} is {self._state.value}; begin another one"
            raise LocalProtocolError(msg)

    def _enter(self, state: TransactionState) -> None:
        if state not in _NEXT[self._state]:
            raise AssertionError(f"{self._state} -> {state}")
        self._state = state

    # --- beginning and end ----------------------------------------------------------------------------------------

    async def commit(self) -> None:
        """COMMIT, and wait until the broker has confirmed it. Leaving the block does it.

        Raises:
            TransactionLost: The link was gone before COMMIT: nothing of the transaction takes effect.
            OutcomeUnknown: The link went between COMMIT and its RECEIPT: all of it took effect, or nothing.
            BrokerError: The broker refused the COMMIT.

        Cancellation: before COMMIT is sent, the transaction is aborted; after that, `state` is UNKNOWN.

        Spec: COMMIT.
        """
        await self._turn()
        # So that DISCONNECT does not come between the RECEIPT of COMMIT and the ACKs that follow it.
        with self._connection.receipts.held():
            await self._commit()

    async def _commit(self) -> None:
        connection = self._connection
        receipt = connection.receipts.expect()
        connection.post(connection.protocol.end(Command.COMMIT, self.id, headers=[("receipt", receipt.id)]))
        self._enter(TransactionState.UNKNOWN)
        try:
            await receipt.wait()
            for sent in self._receipts:
                await sent.wait()
        except StompError as error:
            if receipt.was_refused:
                self._undo()
                raise
            msg = f"the connection ended after COMMIT of transaction {self.id!r} and before its RECEIPT: {error}"
            raise OutcomeUnknown(msg) from error
        finally:
            self._forget_receipts()
        self._enter(TransactionState.COMMITTED)
        self._acks.commit()

    def abort(self) -> None:
        """ABORT: nothing of the transaction takes effect, its messages are open again. Never waits.

        Spec: ABORT.
        """
        self._require_open()
        connection = self._connection
        self._forget_receipts()
        if connection.takes_frames:
            connection.post(connection.protocol.end(Command.ABORT, self.id))
        self._undo()

    def _undo(self) -> None:
        self._enter(TransactionState.ABORTED)
        self._acks.abort()

    def _forget_receipts(self) -> None:
        for receipt in self._receipts:
            self._connection.receipts.forget(receipt.id)


@asynccontextmanager
async def open_transaction(session: Session, transaction_id: str) -> AsyncGenerator[Transaction]:
    """Keep a transaction for the length of a block: COMMIT when it ends well, ABORT when it raises."""
    connection = await session.turn()
    if not connection.profile.has_transactions:
        msg = f"{connection.profile.name} has no transactions; it would deliver each message as it is sent"
        raise NotSupportedError(msg)
    connection.post(connection.protocol.begin(transaction_id))
    transaction = Transaction(connection, transaction_id)
    try:
        yield transaction
        if transaction.state is TransactionState.OPEN:
            await transaction.commit()
    finally:
        # The block raised, or was cancelled, or COMMIT never left: the body's exception goes its way untouched.
        if transaction.state is TransactionState.OPEN:
            transaction.abort()


async def run_transaction(
    session: Session, new_id: Callable[[], str], work: Callable[[Transaction], Awaitable[T]], attempts: int
) -> T:
    """Run `work` in a transaction, again as a whole where the link was lost before COMMIT."""
    if attempts < 1:
        msg = f"attempts must be at least 1, got {attempts!r}"
        raise LocalProtocolError(msg)
    for left in reversed(range(attempts)):
        try:
            async with open_transaction(session, new_id()) as transaction:
                return await work(transaction)
        except TransactionLost as error:
            # Without another connection to come, there is nothing to run it on.
            if not left or session.failure is not None:
                raise
            logger.info("running a transaction again: %s", error)
    raise AssertionError  # the last round returns or raises
