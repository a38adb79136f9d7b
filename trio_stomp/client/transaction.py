"""Transactions: BEGIN, COMMIT with receipt, ABORT when the block raises."""

from __future__ import annotations

import enum
import logging
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from math import inf
from typing import Final, TypeVar

from trio_stomp.brokers import QueueArguments, require_whole, send_options
from trio_stomp.errors import (
    CommitTimeout,
    DeliveryStatus,
    LocalProtocolError,
    NotSupportedError,
    OutcomeUnknown,
    StompError,
    TransactionLost,
)
from trio_stomp.protocol import Command
from trio_stomp.runtime import awaited, called, iterated
from trio_stomp.session import (
    IN_MEMORY,
    BodyFile,
    BodySource,
    Connection,
    EncodeValue,
    HeaderInput,
    Limit,
    Message,
    OutgoingMessage,
    Parts,
    Receipt,
    Session,
    TransactedAcks,
    checked_seconds,
    completed,
    limit_of,
    note_torn,
    open_source,
    own_header,
    parts_of,
    post,
    post_source,
)

__all__ = ["Transaction", "TransactionState", "open_transaction", "run_transaction"]

logger: Final = logging.getLogger("trio_stomp")

# The type of `json=`.
J = TypeVar("J")
T = TypeVar("T")
B = TypeVar("B")

# Puts a SEND into the outbox, as `post` does.
Put = Callable[[Connection, Parts[B], bytes], None]


class TransactionState(enum.Enum):
    """The state of a transaction.

    Attributes:
        OPEN: It accepts messages and acknowledgments.
        COMMITTED: The broker has confirmed COMMIT.
        ABORTED: Nothing in it takes effect.
        UNKNOWN: COMMIT was sent, but before its RECEIPT came, the connection was lost, the time limit was reached, or
            the caller was canceled.
    """

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


# Members of an enumeration take five times as long to look up as names of a module.
_OPEN: Final = TransactionState.OPEN

# Every verb requires the state OPEN. COMMIT leads to UNKNOWN, and the broker's answer to one of the other two.
_NEXT: Final[Mapping[TransactionState, frozenset[TransactionState]]] = {
    TransactionState.OPEN: frozenset({TransactionState.UNKNOWN, TransactionState.ABORTED}),
    TransactionState.UNKNOWN: frozenset({TransactionState.COMMITTED, TransactionState.ABORTED}),
    TransactionState.COMMITTED: frozenset(),
    TransactionState.ABORTED: frozenset(),
}


class Transaction:
    """Messages and acknowledgments that take effect together, or not at all; see `Client.transaction`.

    Attributes:
        id: Its id on the connection.
    """

    # The arguments are the library's own.
    def __init__(self, connection: Connection | None = None, transaction_id: str = "") -> None:
        if not isinstance(connection, Connection):
            raise TypeError("a Transaction cannot be constructed: use async with client.transaction() as transaction")
        self.id = transaction_id
        self._state: TransactionState = _OPEN
        self._connection = connection
        self._own = own_header("transaction", transaction_id)
        self._acks = TransactedAcks(connection, transaction_id)
        self._receipts: list[Receipt] = []

    def __repr__(self) -> str:
        return f"<Transaction {self.id!r}: {self._state.value}>"

    @property
    def state(self) -> TransactionState:
        """Whether it is open, committed or aborted."""
        return self._state

    async def send(
        self,
        destination: str | OutgoingMessage,
        body: bytes | str | BodyFile | AsyncIterable[bytes] | None = None,
        *,
        json: J | None = None,
        encode: EncodeValue[J] | None = None,
        headers: HeaderInput | None = None,
        content_type: str | None = None,
        content_length: int | None = None,
        persistent: bool = False,
        ttl: float | None = None,
        priority: int | None = None,
        delay: float | None = None,
        group: str | None = None,
        dedup_id: str | None = None,
        queue_arguments: QueueArguments | None = None,
        timeout: float | None = None,
    ) -> None:
        """Send a message as part of the transaction. It is delivered when the transaction is committed.

        The arguments are those of `Client.send`; `timeout` is for the wait for room, and for a file.

        Raises:
            NotSupportedError: The broker does not support an option.
            TransactionLost: The connection is lost; nothing in the transaction takes effect.
            TypeError: Neither `body` nor `json` was given, or both.
            LocalProtocolError: The transaction is over, or a header is invalid.
            OSError: The file cannot be read; if that was in the middle of it, the connection has ended.
            OperationTimeout: There was no room in time. Nothing was sent, and the transaction is still open.

        Cancellation: the frame was sent as a whole or not at all; leaving the block aborts the transaction. In the
        middle of a file or an async iterable, the connection ends. The same is true at the `timeout`.

        Spec: SEND; BEGIN.
        """
        options = send_options(persistent, ttl, priority, delay, group, dedup_id, queue_arguments)
        seconds = self._connection.settings.timeout if timeout is None else checked_seconds(timeout)
        if body is None or json is not None or encode is not None or type(destination) is not str:
            destination, body, headers, content_type, options = completed(
                destination, body, headers, content_type, options, json, encode
            )
        if content_length is not None or not isinstance(body, IN_MEMORY):
            async with self._within(seconds, "send()") as limit, open_source(body, content_length) as source:
                await self._turn()
                receipt = self._put((destination, source, headers, content_type, options), _post_source)
                is_written = False
                try:
                    is_written = await source.write()
                finally:
                    note_torn(limit, source)
                    if receipt is not None and not is_written:
                        self._receipts.remove(receipt)
                        self._connection.receipts.forget(receipt.id)
                if not is_written:
                    # The connection has ended, and this raises why.
                    await self._turn()
            return
        if not self._goes_at_once():
            async with self._within(seconds, "send()"):
                await self._turn()
        self._put((destination, body, headers, content_type, options))

    async def send_many(self, messages: Iterable[OutgoingMessage], *, timeout: float | None = None) -> None:
        """Send many messages in one call, which is faster than a call of `send` for each.

        Args:
            messages: The messages, in the order in which to send them.
            timeout: Seconds that the whole call may wait for room. Default: that of `connect`.

        Raises:
            NotSupportedError: The broker does not support an option.
            TransactionLost: The connection is lost; nothing in the transaction takes effect.
            LocalProtocolError: The transaction is over, or a header is invalid.
            OperationTimeout: There was no room in time. Its `sent` says how many are part of the transaction, which is
                still open.

        Cancellation: the first of them may have been sent; leaving the block aborts the transaction. The same is true
        at the `timeout`.

        Spec: SEND; BEGIN.
        """
        seconds = self._limit(timeout)
        sent = 0
        async with self._within(seconds, "send_many()") as limit:
            await self._turn()
            try:
                for message in iterated(messages):
                    if seconds == 0:
                        self._connection.rested()
                    if not self._goes_at_once():
                        await self._turn()
                    self._put(parts_of(message))
                    sent += 1
            finally:
                limit.sent, limit.outcome = sent, f"messages sent: {sent}; the transaction is still open"

    def _put(self, message: Parts[B], put: Put[B] = post) -> Receipt | None:
        connection = self._connection
        if not connection.profile.commit_receipt_is_early:
            put(connection, message, self._own)
            return None
        # Here the RECEIPT of COMMIT does not mean that messages are stored: wait for the RECEIPT of each.
        receipt = connection.receipts.expect()
        try:
            own = self._own + own_header("receipt", receipt.id)
            put(connection, message, own)
            self._receipts.append(receipt)
            return receipt
        finally:
            # A message that was not sent gets no RECEIPT.
            if self._receipts[-1:] != [receipt]:
                connection.receipts.forget(receipt.id)

    async def ack(self, message: Message, *, timeout: float | None = None) -> None:
        """Acknowledge a message when the transaction is committed. If it is aborted, the message is unsettled again.

        Args:
            message: The message.
            timeout: Seconds to wait for room at most. Default: that of `connect`.

        Raises:
            TransactionLost: The connection is lost; nothing in the transaction takes effect.
            LocalProtocolError: The transaction is over, or the message is settled or of another connection.
            StaleMessage: The message's subscription or connection is gone.
            OperationTimeout: There was no room in time. Nothing was sent, and the transaction is still open.

        Cancellation: as `send`. The same is true at the `timeout`.

        Spec: ACK.
        """
        await self._settle(message, Command.ACK, timeout)

    async def nack(self, message: Message, *, requeue: bool | None = None, timeout: float | None = None) -> None:
        """Refuse a message when the transaction is committed. If it is aborted, the message is unsettled again.

        Args:
            message: The message.
            requeue: As in `Message.nack`.
            timeout: Seconds to wait for room at most. Default: that of `connect`.

        Raises:
            NotSupportedError: The broker does not support NACK in transactions, or would lose the message.
            TransactionLost: The connection is lost; nothing in the transaction takes effect.
            LocalProtocolError: The transaction is over, or the message is settled or of another connection.
            StaleMessage: The message's subscription or connection is gone.
            OperationTimeout: There was no room in time. Nothing was sent, and the transaction is still open.

        Cancellation: as `send`. The same is true at the `timeout`.

        Spec: NACK.
        """
        await self._settle(message, Command.NACK, timeout, requeue=requeue)

    async def _settle(
        self, message: Message, command: Command, timeout: float | None, *, requeue: bool | None = None
    ) -> None:
        seconds = self._limit(timeout)
        if not self._goes_at_once():
            async with self._within(seconds, f"{command.value.lower()}() of message {message.id!r}"):
                await self._turn()
        self._acks.settle(message, command, requeue=requeue)

    def _limit(self, timeout: float | None) -> float | None:
        return limit_of(timeout, self._connection.settings.timeout)

    def _within(self, seconds: float | None, call: str) -> Limit:
        outcome = "nothing was sent, and the transaction is still open"
        return Limit(seconds, f"{call} in transaction {self.id!r}", self._connection, outcome)

    def _goes_at_once(self) -> bool:
        return self._state is _OPEN and self._connection.goes_at_once()

    async def _turn(self) -> None:
        self._require_open()
        try:
            await self._connection.turn()
        except StompError as error:
            if self._connection.is_closing:
                raise
            msg = f"transaction {self.id!r} was not committed, nothing in it takes effect: {error.__cause__ or error}"
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

    # --- commit and abort -----------------------------------------------------------------------------------------

    async def commit(self, *, timeout: float | None = None) -> None:
        """Commit, and wait until the broker has confirmed it. Leaving the block does the same.

        Args:
            timeout: Seconds to wait at most. Default: that of `connect`.

        Raises:
            TransactionLost: The connection was lost before COMMIT; nothing in the transaction takes effect.
            OutcomeUnknown: The connection was lost between COMMIT and its RECEIPT; either everything took effect, or
                nothing.
            BrokerError: The broker refused the COMMIT.
            CommitTimeout: COMMIT was sent, and its RECEIPT has not come in time; either everything took effect, or
                nothing.
            OperationTimeout: There was no room in time to send COMMIT, and the transaction is still open.

        Cancellation: before COMMIT is sent, the transaction is aborted when the block is left; after that, `state` is
        UNKNOWN. The same is true at the `timeout`.

        Spec: COMMIT.
        """
        seconds = self._limit(timeout)
        async with Limit(seconds, f"commit() of transaction {self.id!r}", self._connection) as limit:
            limit.outcome = "COMMIT was not sent, and nothing in the transaction has taken effect"
            await self._turn()
            # DISCONNECT must not be sent between the RECEIPT of COMMIT and the ACKs that follow it.
            with self._connection.receipts.held():
                await self._commit(limit)

    async def _commit(self, limit: Limit) -> None:
        connection = self._connection
        receipt = connection.receipts.expect()
        connection.post(connection.protocol.end(Command.COMMIT, self.id, headers=[("receipt", receipt.id)]))
        self._enter(TransactionState.UNKNOWN)
        limit.kind = CommitTimeout
        limit.outcome = "the broker has not confirmed COMMIT: either everything in it took effect, or nothing"
        is_confirmed = False
        try:
            await receipt.wait()
            for sent in self._receipts:
                await sent.wait()
            is_confirmed = True
        except StompError as error:
            if receipt.was_refused:
                self._undo()
                raise
            msg = f"the connection ended after COMMIT of transaction {self.id!r} and before its RECEIPT: {error}"
            raise OutcomeUnknown(msg) from error
        finally:
            self._forget_receipts()
            if not is_confirmed:
                self._acks.give_up()
        self._enter(TransactionState.COMMITTED)
        self._acks.commit()

    def abort(self) -> None:
        """Abort: nothing in the transaction takes effect, and its messages are unsettled again. Never waits.

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


def _post_source(connection: Connection, message: Parts[BodySource], own: bytes) -> None:
    ended = post_source(connection, message, own)
    if ended is not None:
        ended(DeliveryStatus.SENT, None)


@asynccontextmanager
async def open_transaction(session: Session, transaction_id: str, seconds: float | None) -> AsyncGenerator[Transaction]:
    """Open a transaction for the length of a block: COMMIT when the block completes, ABORT when it raises.

    Args:
        session: The session.
        transaction_id: Its id.
        seconds: The time limit of entering the block, and of leaving it.
    """
    async with Limit(seconds, "transaction()", session):
        connection = await session.turn()
    if not connection.profile.has_transactions:
        msg = f"{connection.profile.name} has no transactions; it would deliver each message as it is sent"
        raise NotSupportedError(msg)
    connection.post(connection.protocol.begin(transaction_id))
    transaction = Transaction(connection, transaction_id)
    try:
        yield transaction
        if transaction.state is TransactionState.OPEN:
            await transaction.commit(timeout=inf if seconds is None else seconds)
    finally:
        # The block raised or was canceled, or COMMIT was never sent. The exception propagates unchanged.
        if transaction.state is TransactionState.OPEN:
            transaction.abort()


async def run_transaction(
    session: Session,
    new_id: Callable[[], str],
    work: Callable[[Transaction], Awaitable[T]],
    attempts: int,
    seconds: float | None,
) -> T:
    """Run `work` in a transaction, and again if the connection was lost before COMMIT; see `Client.run_transaction`."""
    require_whole("attempts", attempts)
    for left in reversed(range(attempts)):
        try:
            async with open_transaction(session, new_id(), seconds) as transaction:
                return await awaited(called(work, transaction))
        except TransactionLost as error:
            # After the session has ended, there is no connection to run it on.
            if not left or session.failure is not None:
                raise
            logger.info("running a transaction again: %s", error)
    raise AssertionError  # the last round returns or raises
