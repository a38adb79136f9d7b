"""Transactions, for synchronous code."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import AbstractAsyncContextManager, contextmanager
from functools import partial

from trio_stomp.blocking.link import Finish, Link
from trio_stomp.blocking.message import Message, delivered
from trio_stomp.bridge import Entered, Lane
from trio_stomp.brokers import QueueArguments, send_options
from trio_stomp.client import HeaderInput, OutgoingMessage, Settlement, TransactionState
from trio_stomp.client import Transaction as AsyncTransaction
from trio_stomp.session import IN_MEMORY, BodyFile, Session, checked

__all__ = ["Transaction", "open_transaction"]


class Transaction:
    """Sends and acknowledgments that take effect together."""

    _lane: Lane
    _inner: AsyncTransaction
    _session: Session

    def __init__(self, *_args: object, **_options: object) -> None:
        raise TypeError("a Transaction cannot be constructed: use with client.transaction() as transaction")

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
        """Send a message when the transaction is committed; the arguments are those of `Client.send`.

        Raises:
            NotSupportedError: The broker has no such option.
            TransactionLost: The connection is lost; nothing in the transaction takes effect.
            LocalProtocolError: The transaction is over, or a header is invalid.

        Spec: SEND; BEGIN.
        """
        options = send_options(persistent, ttl, priority, delay, group, dedup_id, queue_arguments)
        if not isinstance(body, IN_MEMORY):
            self._lane.call(
                lambda: self._inner.send(
                    destination, body, headers=headers, content_type=content_type, **(options or {})
                )
            )
            return
        message = OutgoingMessage(destination, body, headers, content_type, options)
        copied = checked(self._session, message) if self._inner.state is TransactionState.OPEN else None
        if copied is not None:
            self._lane.post(partial(self._inner.send_many, (copied,)), len(message.body))
        else:
            self._lane.call(partial(self._inner.send_many, (message,)))

    def send_many(self, messages: Iterable[OutgoingMessage]) -> None:
        """Send messages when the transaction is committed: `send` for many, in one call.

        Raises:
            TransactionLost: The connection is lost; nothing in the transaction takes effect.
            LocalProtocolError: The transaction is over, or a header is invalid.

        Spec: SEND; BEGIN.
        """
        self._lane.call(partial(self._inner.send_many, tuple(messages)))

    def ack(self, message: Message) -> None:
        """Acknowledge a message when the transaction is committed; if it is not, the message is open again.

        Raises:
            TransactionLost: The connection is lost; nothing in the transaction takes effect.
            LocalProtocolError: The transaction is over, or the message is settled or of another connection.
            StaleMessage: The message's subscription or connection is gone.

        Spec: ACK.
        """
        taken = delivered(message)
        settle = partial(self._inner.ack, taken.inner)
        if self._inner.state is TransactionState.OPEN and taken.can_be_settled:
            taken.claim(self._lane.post(settle), Settlement.IN_TRANSACTION)
        else:
            self._lane.call(settle)

    def nack(self, message: Message, *, requeue: bool | None = None) -> None:
        """Refuse a message when the transaction is committed; if it is not, the message is open again.

        Args:
            message: The message.
            requeue: As for `Message.nack`.

        Raises:
            NotSupportedError: The broker takes no NACK in transactions, or would lose the message.
            TransactionLost: The connection is lost; nothing in the transaction takes effect.
            LocalProtocolError: The transaction is over, or the message is settled or of another connection.
            StaleMessage: The message's subscription or connection is gone.

        Spec: NACK.
        """
        self._lane.call(partial(self._inner.nack, delivered(message).inner, requeue=requeue))

    def commit(self) -> None:
        """COMMIT, and wait until the broker has confirmed it. Leaving the block does it.

        Raises:
            TransactionLost: The connection was lost before COMMIT; nothing in the transaction takes effect.
            OutcomeUnknown: The connection was lost between COMMIT and its RECEIPT; either everything took effect, or
                nothing.
            BrokerError: The broker refused the COMMIT.

        Spec: COMMIT.
        """
        self._lane.call(self._inner.commit)

    def abort(self) -> None:
        """ABORT: nothing of the transaction takes effect, its messages are open again.

        Spec: ABORT.
        """

        async def abort() -> None:  # noqa: ASYNC124  # runs in the trio thread
            self._inner.abort()

        self._lane.call(abort)


class _OpenTransaction(Transaction):
    """The Transaction that the library constructs."""

    def __init__(self, lane: Lane, inner: AsyncTransaction, session: Session) -> None:
        self._lane = lane
        self._inner = inner
        self._session = session


@contextmanager
def open_transaction(link: Link, manager: AbstractAsyncContextManager[AsyncTransaction]) -> Generator[Transaction]:
    """Keep a transaction for the length of a block: COMMIT when it completes, ABORT when it raises."""
    link.lane.catch_up()
    lane = link.lane.branch()
    with Entered(lane.bridge, manager) as inner, Finish(lane, raises=True):
        yield _OpenTransaction(lane, inner, link.session)
