"""Transactions, for synchronous code."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import AbstractAsyncContextManager, contextmanager
from functools import partial

from trio_stomp.blocking.lane import Finish, Lane
from trio_stomp.blocking.sendable import Judge
from trio_stomp.blocking.sync_message import Message
from trio_stomp.blocking.trio_thread import Entered
from trio_stomp.brokers import QueueArguments, send_options
from trio_stomp.client import HeaderInput, OutgoingMessage, Settlement, TransactionState
from trio_stomp.client import Transaction as AsyncTransaction

__all__ = ["Transaction", "open_transaction"]


class Transaction:
    """Sends and acknowledgments that take effect together."""

    def __init__(self, lane: Lane, inner: AsyncTransaction, judge: Judge) -> None:
        self._lane = lane
        self._inner = inner
        self._judge = judge

    @property
    def id(self) -> str:
        """Its id on the connection."""
        return self._inner.id

    @property
    def state(self) -> TransactionState:
        """Where it is."""
        return self._inner.state

    def send(
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

        Spec: SEND; BEGIN.
        """
        options = send_options(persistent, ttl, priority, delay, group, dedup_id, queue_arguments)
        message = OutgoingMessage(destination, body, headers, content_type, options)
        sendable = self._judge.sure(message) if self._inner.state is TransactionState.OPEN else None
        if sendable is not None:
            self._lane.post(partial(self._inner.send_many, (sendable,)), len(message.body))
        else:
            self._lane.call(partial(self._inner.send_many, (message,)))
            self._judge.learn(message)

    def send_many(self, messages: Iterable[OutgoingMessage]) -> None:
        """Send messages when the transaction is committed: `send` for many, in one call.

        Raises:
            TransactionLost: The link is gone; nothing of the transaction takes effect.
            LocalProtocolError: The transaction is over, or a header cannot be represented.

        Spec: SEND; BEGIN.
        """
        self._lane.call(partial(self._inner.send_many, tuple(messages)))

    def ack(self, message: Message) -> None:
        """Acknowledge a message when the transaction is committed; if it is not, the message is open again.

        Raises:
            TransactionLost: The link is gone; nothing of the transaction takes effect.
            LocalProtocolError: The transaction is over, or the message is settled or of another connection.
            StaleMessage: The message's subscription or connection is gone.

        Spec: ACK.
        """
        if self._inner.state is TransactionState.OPEN and message.can_be_settled:
            message.claim(self._lane.post(partial(self._inner.ack, message.inner)), Settlement.IN_TRANSACTION)
        else:
            self._lane.call(lambda: self._inner.ack(message.inner))

    def nack(self, message: Message, *, requeue: bool | None = None) -> None:
        """Refuse a message when the transaction is committed; if it is not, the message is open again.

        Args:
            message: The message.
            requeue: As for `Message.nack`.

        Raises:
            NotSupportedError: The broker takes no NACK in transactions, or would lose the message.
            TransactionLost: The link is gone; nothing of the transaction takes effect.
            LocalProtocolError: The transaction is over, or the message is settled or of another connection.
            StaleMessage: The message's subscription or connection is gone.

        Spec: NACK.
        """
        self._lane.call(lambda: self._inner.nack(message.inner, requeue=requeue))

    def commit(self) -> None:
        """COMMIT, and wait until the broker has confirmed it. Leaving the block does it.

        Raises:
            TransactionLost: The link was gone before COMMIT: nothing of the transaction takes effect.
            OutcomeUnknown: The link went between COMMIT and its RECEIPT: all of it took effect, or nothing.
            BrokerError: The broker refused the COMMIT.

        Spec: COMMIT.
        """
        self._lane.call(self._inner.commit)

    def abort(self) -> None:
        """ABORT: nothing of the transaction takes effect, its messages are open again.

        Spec: ABORT.
        """

        async def abort() -> None:  # noqa: ASYNC124  # what is done in the thread of trio is awaited there
            self._inner.abort()

        self._lane.call(abort)


@contextmanager
def open_transaction(
    lane: Lane, manager: AbstractAsyncContextManager[AsyncTransaction], judge: Judge
) -> Generator[Transaction]:
    """Keep a transaction for the length of a block: COMMIT when it ends well, ABORT when it raises."""
    lane.catch_up()
    own = lane.branch()
    with Entered(lane.thread, manager) as inner, Finish(own, raises=True):
        yield Transaction(own, inner, judge)
