"""Transactions, for asyncio code."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

from trio_stomp.asyncio.crossing import Crossing
from trio_stomp.asyncio.message import Message, delivered
from trio_stomp.bridge import Posted
from trio_stomp.brokers import QueueArguments, send_options
from trio_stomp.client import HeaderInput, OutgoingMessage, Settlement, TransactionState
from trio_stomp.client import Transaction as TrioTransaction
from trio_stomp.errors import LocalProtocolError
from trio_stomp.session import IN_MEMORY, BodyFile, Session, checked

__all__ = ["Transaction", "open_transaction"]


class Transaction:
    """Sends and acknowledgments that take effect together.

    Attributes:
        id: Its id on the connection.
    """

    _crossing: Crossing
    _inner: TrioTransaction
    _session: Session
    _aborted: Posted | None
    id: str

    def __init__(self, *_args: object, **_options: object) -> None:
        raise TypeError("a Transaction cannot be constructed: use async with client.transaction() as transaction")

    @property
    def state(self) -> TransactionState:
        """Whether it is open, committed or aborted."""
        if self._aborted is not None and not self._aborted.done:
            return TransactionState.ABORTED
        return self._inner.state

    async def send(
        self,
        destination: str,
        body: bytes | str | BodyFile,
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
        """Send a message as part of the transaction. It is delivered when the transaction is committed.

        The arguments are those of `Client.send`.

        Raises:
            NotSupportedError: The broker does not support an option.
            TransactionLost: The connection is lost; nothing in the transaction takes effect.
            LocalProtocolError: The transaction is over, or a header is invalid.

        Cancellation: the frame was sent as a whole or not at all; leaving the block aborts the transaction. In the
        middle of a file, the connection ends.

        Spec: SEND; BEGIN.
        """
        options = send_options(persistent, ttl, priority, delay, group, dedup_id, queue_arguments)
        if not isinstance(body, IN_MEMORY):
            await self._crossing.in_turn(
                lambda: self._inner.send(
                    destination, body, headers=headers, content_type=content_type, **(options or {})
                )
            )
            return
        message = OutgoingMessage(destination, body, headers, content_type, options)
        crossing = self._crossing
        if crossing.must_wait(len(body)):
            await crossing.wait(len(body))
        copied = checked(self._session, message) if self.state is TransactionState.OPEN else None
        if copied is not None:
            crossing.lane.add(partial(self._inner.send_many, (copied,)), len(body))
        else:
            await crossing.in_turn(partial(self._inner.send_many, (message,)))

    async def send_many(self, messages: Iterable[OutgoingMessage]) -> None:
        """Send many messages in one call, which is faster than a call of `send` for each.

        Raises:
            TransactionLost: The connection is lost; nothing in the transaction takes effect.
            LocalProtocolError: The transaction is over, or a header is invalid.

        Cancellation: the first of them may have been sent; leaving the block aborts the transaction.

        Spec: SEND; BEGIN.
        """
        await self._crossing.in_turn(partial(self._inner.send_many, tuple(messages)))

    async def ack(self, message: Message) -> None:
        """Acknowledge a message when the transaction is committed. If it is aborted, the message is unsettled again.

        Raises:
            TransactionLost: The connection is lost; nothing in the transaction takes effect.
            LocalProtocolError: The transaction is over, or the message is settled or of another connection.
            StaleMessage: The message's subscription or connection is gone.

        Cancellation: as `send`.

        Spec: ACK.
        """
        taken, crossing = delivered(message), self._crossing
        if crossing.must_wait():
            await crossing.wait()
        settle = partial(self._inner.ack, taken.inner)
        if self.state is TransactionState.OPEN and taken.can_be_settled:
            taken.claim(crossing.lane.add(settle), Settlement.IN_TRANSACTION)
        else:
            await crossing.in_turn(settle)

    async def nack(self, message: Message, *, requeue: bool | None = None) -> None:
        """Refuse a message when the transaction is committed. If it is aborted, the message is unsettled again.

        Args:
            message: The message.
            requeue: As in `Message.nack`.

        Raises:
            NotSupportedError: The broker does not support NACK in transactions, or would lose the message.
            TransactionLost: The connection is lost; nothing in the transaction takes effect.
            LocalProtocolError: The transaction is over, or the message is settled or of another connection.
            StaleMessage: The message's subscription or connection is gone.

        Cancellation: as `send`.

        Spec: NACK.
        """
        await self._crossing.in_turn(partial(self._inner.nack, delivered(message).inner, requeue=requeue))

    async def commit(self) -> None:
        """Commit, and wait until the broker has confirmed it. Leaving the block does the same.

        Raises:
            TransactionLost: The connection was lost before COMMIT; nothing in the transaction takes effect.
            OutcomeUnknown: The connection was lost between COMMIT and its RECEIPT; either everything took effect, or
                nothing.
            BrokerError: The broker refused the COMMIT.

        Cancellation: before COMMIT is sent, the transaction is aborted; after that, `state` is UNKNOWN.

        Spec: COMMIT.
        """
        await self._crossing.in_turn(self._inner.commit)

    def abort(self) -> None:
        """Abort: nothing in the transaction takes effect, and its messages are unsettled again. Never waits.

        Spec: ABORT.
        """
        if self.state is not TransactionState.OPEN:
            raise LocalProtocolError(f"transaction {self.id!r} is {self.state.value}; begin another one")
        self._aborted = self._crossing.lane.add(self._abort)

    async def _abort(self) -> None:  # noqa: ASYNC124  # runs in the trio thread
        self._inner.abort()


class _OpenTransaction(Transaction):
    """The Transaction that the library constructs."""

    def __init__(self, crossing: Crossing, inner: TrioTransaction, session: Session) -> None:
        self._crossing = crossing
        self._inner = inner
        self._session = session
        self._aborted = None
        self.id = inner.id


@asynccontextmanager
async def open_transaction(
    crossing: Crossing, session: Session, manager: AbstractAsyncContextManager[TrioTransaction]
) -> AsyncGenerator[Transaction]:
    """Keep a transaction for the length of a block: COMMIT when it ends normally, ABORT when it raises."""
    await crossing.catch_up()
    own = crossing.branch()
    async with own.entered(manager, raises=True) as inner:
        yield _OpenTransaction(own, inner, session)
