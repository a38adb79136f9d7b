"""The registry of receipts of one connection: who waits for which RECEIPT.

Messages are not in it. They are awaited by the book of their client (`Unconfirmed`), which outlives a connection; a
connection that stands only asks that book too. So a message is in one place, whatever becomes of its link.

Each is answered exactly once: by its RECEIPT, by an ERROR that names it, by the end of the connection, or by the
cancellation of whoever waits. It is registered before its frame is written, so that no answer can come too early.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Protocol

import trio

from trio_stomp.errors import StompError
from trio_stomp.session.failures import renewed
from trio_stomp.session.unconfirmed import Unconfirmed

__all__ = ["Awaiting", "Receipt", "Receipts"]


class Awaiting(Protocol):
    """Who is told what became of a frame."""

    def confirmed(self) -> None:
        """Its RECEIPT came."""

    def refused(self, error: StompError) -> None:
        """An ERROR named it."""

    def lost(self, error: StompError) -> None:
        """The connection ended first."""


class Receipt:
    """One RECEIPT that a task awaits.

    Attributes:
        id: The id that its frame bears.
        was_refused: Whether an ERROR answered that names this very frame.
    """

    __slots__ = ("_answered", "_error", "_registry", "id", "was_refused")

    def __init__(self, receipt_id: str, registry: Receipts) -> None:
        self.id = receipt_id
        self.was_refused = False
        self._registry = registry
        self._answered = trio.Event()
        self._error: StompError | None = None

    def confirmed(self) -> None:
        """Its RECEIPT came."""
        self._answered.set()

    def refused(self, error: StompError) -> None:
        """An ERROR named it."""
        self.was_refused = True
        self.lost(error)

    def lost(self, error: StompError) -> None:
        """The connection ended first."""
        self._error = error
        self._answered.set()

    async def wait(self) -> None:
        """Wait for the answer.

        Raises:
            BrokerError: The broker answered with an ERROR for this frame.
            StompError: The connection ended first.

        Cancellation: the frame stays sent; its RECEIPT, if it comes, is dropped.
        """
        try:
            await self._answered.wait()
        finally:
            self._registry.forget(self.id)
        if self._error is not None:
            raise renewed(self._error)


class Receipts:
    """All receipts that are awaited on one connection.

    Args:
        on_expected: Called when one more is awaited: the reader may have to go on for it.
        messages: The messages that are awaited, on this connection as long as it stands.
    """

    def __init__(self, on_expected: Callable[[], None], messages: Unconfirmed) -> None:
        self._waiting: dict[str, Awaiting] = {}
        self._messages = messages
        self._on_expected = on_expected
        self._held = 0
        self._ended = False

    def __len__(self) -> int:
        return len(self._waiting) + (0 if self._ended else len(self._messages))

    def expect_for(self, awaiting: Awaiting) -> str:
        """Register who waits for the RECEIPT of the frame that is about to be written; returns the id to put on it."""
        receipt_id = self._messages.new_receipt_id()
        self._waiting[receipt_id] = awaiting
        self._on_expected()
        return receipt_id

    def expect(self) -> Receipt:
        """Register a receipt for a task to wait for."""
        receipt = Receipt(self._messages.new_receipt_id(), self)
        self._waiting[receipt.id] = receipt
        self._on_expected()
        return receipt

    @contextmanager
    def expected(self) -> Generator[Receipt]:
        """`expect` for the length of a block: a receipt whose frame was not sent after all is not left behind."""
        receipt = self.expect()
        try:
            yield receipt
        finally:
            self.forget(receipt.id)

    @contextmanager
    def held(self) -> Generator[None]:
        """Keep `wait_none` waiting for the length of a block: what a RECEIPT brings about is still to be sent."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1
            self._messages.fewer.unpark_all()

    def forget(self, receipt_id: str) -> None:
        """Drop a receipt: nobody waits for it any more."""
        self._take(receipt_id)

    def confirm(self, receipt_ids: Sequence[str]) -> int:
        """RECEIPTs came; returns how many of them nobody awaits (answered twice, or given up)."""
        # What comes behind the failure of a connection says nothing: see `Connection._error`.
        others = receipt_ids if self._ended else self._messages.confirm(receipt_ids)
        unexpected = 0
        for receipt_id in others:
            awaiting = self._take(receipt_id)
            if awaiting is None:
                unexpected += 1
            else:
                awaiting.confirmed()
        return unexpected

    def refuse(self, receipt_id: str, error: StompError) -> bool:
        """An ERROR came that names a receipt; returns whether anybody awaits that."""
        message = None if self._ended else self._messages.find(receipt_id)
        if message is not None:
            message.refused(error)
            return True
        awaiting = self._take(receipt_id)
        if awaiting is not None:
            awaiting.refused(error)
        return awaiting is not None

    def _take(self, receipt_id: str) -> Awaiting | None:
        awaiting = self._waiting.pop(receipt_id, None)
        if awaiting is not None and not self._waiting:
            self._messages.fewer.unpark_all()
        return awaiting

    def lose_all(self, error: StompError) -> bool:
        """The connection has ended: tell all who wait; returns whether anybody did."""
        anybody = len(self) > 0
        self._ended = True
        waiting, self._waiting = self._waiting, {}
        self._messages.fewer.unpark_all()
        for awaiting in waiting.values():
            awaiting.lost(error)
        self._messages.lose_all(error)
        return anybody

    async def wait_none(self) -> None:
        """Wait until nobody waits for a receipt, or the connection has ended.

        Cancellation: nothing changes.
        """
        while len(self) or (self._held and not self._ended):
            await self._messages.fewer.park()
