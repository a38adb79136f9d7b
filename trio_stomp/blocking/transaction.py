"""Transactions, for synchronous code."""

from __future__ import annotations

from collections.abc import AsyncIterable, Generator, Iterable
from contextlib import AbstractAsyncContextManager, contextmanager
from functools import partial
from typing import Unpack

from trio_stomp.blocking.link import Calls, entered
from trio_stomp.blocking.message import Message, taken
from trio_stomp.blocking.verbs import Shown, blocks, documented, given, like
from trio_stomp.brokers import SendOptions
from trio_stomp.client import HeaderInput, OutgoingMessage, Settlement, TransactionState
from trio_stomp.client import Transaction as AsyncTransaction
from trio_stomp.session import IN_MEMORY, BodyFile, checked

__all__ = ["Transaction", "open_transaction"]


class Transaction:
    """Messages and acknowledgments that take effect together, or not at all; see `Client.transaction`."""

    def __init__(self, calls: Calls | None = None, inner: AsyncTransaction | None = None) -> None:
        if calls is None or inner is None:
            raise TypeError("a Transaction cannot be constructed: use with client.transaction() as transaction")
        self._calls = calls
        self._inner = inner

    def __repr__(self) -> str:
        return repr(self._inner)

    id = Shown[str](AsyncTransaction, "id")
    state = Shown[TransactionState](AsyncTransaction, "state")

    @like(AsyncTransaction.send)
    def send(
        self,
        destination: str,
        body: bytes | str | BodyFile | AsyncIterable[bytes],
        *,
        headers: HeaderInput | None = None,
        content_type: str | None = None,
        content_length: int | None = None,
        **options: Unpack[SendOptions],
    ) -> None:
        """Send a message as part of the transaction. It is delivered when the transaction is committed."""
        if content_length is not None or not isinstance(body, IN_MEMORY):
            self._calls.call(
                lambda: self._inner.send(
                    destination,
                    body,
                    headers=headers,
                    content_type=content_type,
                    content_length=content_length,
                    **options,
                )
            )
            return
        message = OutgoingMessage(destination, body, headers, content_type, given(options))
        copied = checked(self._calls.link.session, message) if self._inner.state is TransactionState.OPEN else None
        if copied is not None:
            self._calls.post(partial(self._inner.send_many, (copied,)), len(message.body))
        else:
            self._calls.call(partial(self._inner.send_many, (message,)))

    @documented(AsyncTransaction.send_many)
    def send_many(self, messages: Iterable[OutgoingMessage]) -> None:
        """Send many messages in one call, which is faster than a call of `send` for each."""
        self._calls.call(partial(self._inner.send_many, tuple(messages)))

    @documented(AsyncTransaction.ack)
    def ack(self, message: Message) -> None:
        """Acknowledge a message when the transaction is committed. If it is aborted, the message is unsettled again."""
        settle = partial(self._inner.ack, taken(message)._inner)  # noqa: SLF001
        if self._inner.state is TransactionState.OPEN and message._can_be_settled:  # noqa: SLF001
            message._claim(self._calls.post(settle), Settlement.IN_TRANSACTION)  # noqa: SLF001
        else:
            self._calls.call(settle)

    @documented(AsyncTransaction.nack)
    def nack(self, message: Message, *, requeue: bool | None = None) -> None:
        """Refuse a message when the transaction is committed. If it is aborted, the message is unsettled again."""
        self._calls.call(partial(self._inner.nack, taken(message)._inner, requeue=requeue))  # noqa: SLF001

    commit = blocks(AsyncTransaction.commit)

    @documented(AsyncTransaction.abort)
    def abort(self) -> None:
        """Abort: nothing in the transaction takes effect, and its messages are unsettled again."""

        async def abort() -> None:  # noqa: ASYNC124  # runs in the loop's thread
            self._inner.abort()

        self._calls.call(abort)


@contextmanager
def open_transaction(calls: Calls, manager: AbstractAsyncContextManager[AsyncTransaction]) -> Generator[Transaction]:
    """Keep a transaction for the length of a block: COMMIT when it completes, ABORT when it raises."""
    own = calls.branch()
    calls.catch_up()
    with entered(own, manager, own.take_failure) as inner:
        yield Transaction(own, inner)
