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
from trio_stomp.session import Session, checked

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
        """Where it is."""
        if self._aborted is not None and not self._aborted.done:
            return TransactionState.ABORTED
        return self._inner.state

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
        """Send messages when the transaction is committed: `send` for many, in one call.

        Raises:
            TransactionLost: The link is gone; nothing of the transaction takes effect.
            LocalProtocolError: The transaction is over, or a header cannot be represented.

        Cancellation: some were put into the transaction; leaving the block aborts it.

        Spec: SEND; BEGIN.
        """
        await self._crossing.in_turn(partial(self._inner.send_many, tuple(messages)))

    async def ack(self, message: Message) -> None:
        """Acknowledge a message when the transaction is committed; if it is not, the message is open again.

        Raises:
            TransactionLost: The link is gone; nothing of the transaction takes effect.
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
        await self._crossing.in_turn(partial(self._inner.nack, delivered(message).inner, requeue=requeue))

    async def commit(self) -> None:
        """COMMIT, and wait until the broker has confirmed it. Leaving the block does it.

        Raises:
            TransactionLost: The link was gone before COMMIT: nothing of the transaction takes effect.
            OutcomeUnknown: The link went between COMMIT and its RECEIPT: all of it took effect, or nothing.
            BrokerError: The broker refused the COMMIT.

        Cancellation: before COMMIT is sent, the transaction is aborted; after that, `state` is UNKNOWN.

        Spec: COMMIT.
        """
        await self._crossing.in_turn(self._inner.commit)

    def abort(self) -> None:
        """ABORT: nothing of the transaction takes effect, its messages are open again. Never waits.

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
    """Keep a transaction for the length of a block: COMMIT when it ends well, ABORT when it raises."""
    await crossing.catch_up()
    own = crossing.branch()
    async with own.entered(manager, raises=True) as inner:
        yield _OpenTransaction(own, inner, session)
