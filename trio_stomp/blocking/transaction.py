"""Transactions, for synchronous code."""

# What the classes of this package hand each other is hidden from users alone.
# pyright: reportPrivateUsage=false
# ruff: noqa: SLF001

from __future__ import annotations

from collections.abc import AsyncIterable, Generator, Iterable
from contextlib import AbstractAsyncContextManager
from functools import partial
from math import inf
from typing import TypeVar, Unpack

from trio_stomp.blocking.calls import Calls, entered
from trio_stomp.blocking.message import Message, taken
from trio_stomp.blocking.verbs import Shown, blocks, documented, like
from trio_stomp.brokers import SendOptions
from trio_stomp.client import HeaderInput, OutgoingMessage, Settlement, TransactionState
from trio_stomp.client import Transaction as AsyncTransaction
from trio_stomp.runtime import sync_context
from trio_stomp.session import IN_MEMORY, BodyFile, EncodeValue, checked, message_of, size_of

__all__ = ["Transaction", "open_transaction"]


# The type of `json=`.
J = TypeVar("J")


class Transaction:
    """Messages and acknowledgments that take effect together, or not at all; see `Client.transaction`."""

    def __init__(self, calls: Calls | None = None, inner: AsyncTransaction | None = None) -> None:
        if not isinstance(calls, Calls) or inner is None:
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
        destination: str | OutgoingMessage,
        body: bytes | str | BodyFile | AsyncIterable[bytes] | None = None,
        *,
        json: J | None = None,
        encode: EncodeValue[J] | None = None,
        headers: HeaderInput | None = None,
        content_type: str | None = None,
        content_length: int | None = None,
        timeout: float | None = None,
        **options: Unpack[SendOptions],
    ) -> None:
        """Send a message as part of the transaction. It is delivered when the transaction is committed."""
        calls, inner = self._calls, self._inner
        if content_length is not None or (body is not None and not isinstance(body, IN_MEMORY)):
            send = partial(
                inner.send, json=json, encode=encode, content_type=content_type, content_length=content_length
            )
            calls.call(
                lambda left: send(destination, body, headers=headers, timeout=left, **options), timeout, name="send"
            )
            return
        message = message_of(destination, body, headers, content_type, options, json, encode)
        copied = checked(calls.link.session, message) if inner.state is TransactionState.OPEN else None
        if copied is not None:
            calls.post(partial(inner.send_many, (copied,), timeout=inf), size_of(message.body), timeout)
        else:
            calls.call(lambda left: inner.send_many((message,), timeout=left), timeout, name="send")

    @documented(AsyncTransaction.send_many)
    def send_many(self, messages: Iterable[OutgoingMessage], *, timeout: float | None = None) -> None:
        """Send many messages in one call, which is faster than a call of `send` for each."""
        listed = tuple(messages)
        self._calls.call(lambda left: self._inner.send_many(listed, timeout=left), timeout, name="send_many")

    @documented(AsyncTransaction.ack)
    def ack(self, message: Message, *, timeout: float | None = None) -> None:
        """Acknowledge a message when the transaction is committed. If it is aborted, the message is unsettled again."""
        settle = partial(self._inner.ack, taken(message)._inner)
        if self._inner.state is TransactionState.OPEN and message._can_be_settled:
            posted = self._calls.post(partial(settle, timeout=inf), timeout=timeout)
            message._claim(posted, Settlement.IN_TRANSACTION)
        else:
            self._calls.call(lambda left: settle(timeout=left), timeout, name="ack")

    @documented(AsyncTransaction.nack)
    def nack(self, message: Message, *, requeue: bool | None = None, timeout: float | None = None) -> None:
        """Refuse a message when the transaction is committed. If it is aborted, the message is unsettled again."""
        nack = partial(self._inner.nack, taken(message)._inner, requeue=requeue)
        self._calls.call(lambda left: nack(timeout=left), timeout, name="nack")

    commit = blocks(AsyncTransaction.commit)

    @documented(AsyncTransaction.abort)
    def abort(self) -> None:
        """Abort: nothing in the transaction takes effect, and its messages are unsettled again."""

        async def abort() -> None:  # noqa: ASYNC124  # runs in the loop's thread
            self._inner.abort()

        self._calls.call(lambda _: abort())


@sync_context("transaction()", "with client.transaction() as transaction:")
def open_transaction(
    calls: Calls, manager: AbstractAsyncContextManager[AsyncTransaction], timeout: float | None
) -> Generator[Transaction]:
    """Keep a transaction for the length of a block: COMMIT when it completes, ABORT when it raises."""
    own = calls.branch()
    calls.catch_up(timeout)
    with entered(own, manager, timeout, own.take_failure) as inner:
        yield Transaction(own, inner)
