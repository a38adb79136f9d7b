"""Messages whose RECEIPT is awaited: what is known of each, and what is sent again when the link was lost.

They are kept in the order in which they were sent first. A new connection gets all of them again, in that order and
before anything new, each with the stable id that it had: a broker that finds duplicates by that id drops the second
copy, and where there is none, the receiver can. What the broker has confirmed is never sent again.

The book is the one place where such a message is: it is registered there under the id of its RECEIPT, which is the same
on every connection, and whoever takes it out (a RECEIPT, an ERROR, a loss, its sender's cancellation) settles it.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable, Sequence
from typing import Final

import trio

from trio_stomp.errors import Delivery, StompError, UnconfirmedMessage
from trio_stomp.protocol import ClientProtocol
from trio_stomp.session.failures import renewed
from trio_stomp.session.hooks import SendEnd
from trio_stomp.session.turns import Turns
from trio_stomp.session.window import Window

__all__ = ["Encode", "Publication", "Unconfirmed"]

# Makes the SEND of a message for one connection.
Encode = Callable[[ClientProtocol], bytes]

# Members of an enumeration take five times as long to look up as names of a module, and each message asks for these.
_CONFIRMED: Final = Delivery.CONFIRMED
_UNKNOWN: Final = Delivery.UNKNOWN


class Publication:
    """One message whose RECEIPT is awaited: it is registered by being made.

    Most that is said here is for the rare ways; the usual one is that it is made, sent, and found by `confirm`.

    Args:
        book: Where it is registered.
        receipt_id: The id of its RECEIPT, as the book has made it.
        destination: Where it is sent.
        octets: The length of its body.
        content: Its SEND, where that is the same on each connection; else what it is made of.
        window: Where it is counted, if anywhere.

    Attributes:
        receipt_id: The id that its RECEIPT bears.
        destination: Where it is sent.
        delivery: What is known of it; UNKNOWN until the broker answers.
        error: Why it was not confirmed, once that is settled.
        octets: The length of its body.
        content: What is sent; None once nothing more will become of it.
        window: Where it is counted.
        ended: The hooks of its sending.
        sleeping: The tasks that wait until nothing more will become of it, if any does.
    """

    __slots__ = (
        "_book",
        "_own_id",
        "content",
        "delivery",
        "destination",
        "ended",
        "error",
        "octets",
        "receipt_id",
        "sleeping",
        "window",
    )

    def __init__(
        self,
        book: Unconfirmed,
        receipt_id: str,
        destination: str,
        octets: int,
        content: bytes | Encode,
        window: Window[Publication] | None = None,
    ) -> None:
        self.receipt_id = receipt_id
        self.destination = destination
        self.octets = octets
        self.content: bytes | Encode | None = content
        self.window = window
        self.delivery = _UNKNOWN
        self.error: StompError | None = None
        self._book = book
        self._own_id: str | None = None
        self.ended: SendEnd | None = None
        self.sleeping: list[trio.lowlevel.Task] | None = None
        book.open[receipt_id] = self
        book.octets += octets
        if window is not None:
            window.in_flight += 1
            window.octets += octets

    @property
    def id(self) -> str:
        """Its stable id: the same each time that it is sent."""
        return self._own_id or f"{self._book.prefix}{self.receipt_id}"

    @property
    def is_settled(self) -> bool:
        """Whether nothing more will become of it."""
        return self.content is None

    def frame(self, protocol: ClientProtocol) -> bytes:
        """Its SEND, on a connection.

        Raises:
            LocalProtocolError: It cannot be represented there.
        """
        content = self.content
        if content is None:
            return b""  # it was settled meanwhile
        return content if isinstance(content, bytes) else content(protocol)

    def is_known(self, own_id: str | None, ended: SendEnd | None) -> None:
        """Its sender has given it a stable id; hooks are to be told what becomes of it."""
        self._own_id = own_id
        self.ended = ended

    # --- what became of it ----------------------------------------------------------------------------------------

    def give_up(self) -> None:
        """Its sender waits no more: it is not sent again, and its RECEIPT is dropped."""
        if self.content is not None and self._book.take(self):
            self._end(None)

    def refused(self, error: StompError) -> None:
        """The broker does not take it."""
        if self._book.take(self):
            self.delivery = Delivery.REJECTED
            self._end(error)

    def lost(self, error: StompError) -> None:
        """No connection will bring its RECEIPT."""
        if self._book.take(self):
            self._end(error)

    def _end(self, error: StompError | None) -> None:
        self.error = error
        if self.window is not None:
            self.window.failed_one(self, self.octets)
        self.content = None
        self.tell()

    def tell(self) -> None:
        """Tell the hooks, and wake the tasks that wait for it: once, for it is settled once."""
        if self.ended is not None:
            self.ended(self.delivery, self.error)
        sleeping, self.sleeping = self.sleeping, None
        for task in sleeping or ():
            trio.lowlevel.reschedule(task)

    async def wait(self) -> None:
        """Wait until the broker has confirmed it.

        Raises:
            BrokerError: The broker refused it.
            ConnectionLost: The link is gone for good; it may or may not have arrived.

        Cancellation: nothing changes; it may be waited for again.
        """
        # Not by `wait_settled`: each coroutine in between is gone through with each answer.
        if self.content is not None:
            await trio.lowlevel.wait_task_rescheduled(self._when_woken())
        else:
            await trio.lowlevel.checkpoint_if_cancelled()
        if self.error is not None:
            if self.window is not None:
                self.window.failure_seen(self)
            raise renewed(self.error)

    async def wait_settled(self) -> None:
        """Wait until nothing more will become of it; `delivery` then tells what has.

        Cancellation: nothing changes.
        """
        if self.content is not None:
            await trio.lowlevel.wait_task_rescheduled(self._when_woken())
        else:
            await trio.lowlevel.checkpoint_if_cancelled()

    def _when_woken(self) -> Callable[[object], trio.lowlevel.Abort]:
        """Have this task woken once it is settled: what an Event does, without one for each message.

        Returns:
            What to do where the task is cancelled first.
        """
        task = trio.lowlevel.current_task()
        sleeping = self.sleeping = self.sleeping or []
        sleeping.append(task)

        def abort(_raise_cancel: object) -> trio.lowlevel.Abort:
            sleeping.remove(task)
            return trio.lowlevel.Abort.SUCCEEDED

        return abort

    def unconfirmed(self) -> UnconfirmedMessage:
        """What an error says of it."""
        reason = "its RECEIPT had not come" if self.error is None else str(self.error)
        return UnconfirmedMessage(id=self.id, destination=self.destination, delivery=self.delivery, reason=reason)

    def __repr__(self) -> str:
        return f"<Publication {self.id} to {self.destination!r}: {self.delivery.value}>"


class Unconfirmed:
    """The book of all publications of one client that are not settled, in the order of sending.

    Args:
        max_messages: No more than this many.
        max_octets: No more than this many octets of bodies; a single larger one is let through by itself.

    Attributes:
        open: All of them, by the id of their RECEIPT.
        order: Where callers queue for room; it is held from before `wait_for_room` until the message is added.
        prefix: What makes a stable id of a receipt id.
        outlives: Whether another connection follows when this one ends.
        octets: The bodies of all.
        confirmed: How many the broker has confirmed, in all.
        resent: How many frames were sent again, in all.
        fewer: Where tasks wait that need fewer of them to be awaited, be it for room or for the end.
    """

    def __init__(self, *, max_messages: int, max_octets: int) -> None:
        self._max_messages = max_messages
        self._max_octets = max_octets
        self.open: dict[str, Publication] = {}
        self.order = Turns()
        self._numbers = itertools.count(1)
        # Unique among all clients for ever, for the broker's memory of duplicates; short, for the wire.
        self.prefix: Final = f"{secrets.token_hex(8)}-"
        self.fewer = trio.lowlevel.ParkingLot()
        self._room_wanted = False
        self.outlives = False
        self.octets = 0
        self.confirmed = 0
        self.resent = 0

    def __len__(self) -> int:
        return len(self.open)

    def new_receipt_id(self) -> str:
        """The id of the next RECEIPT, of whatever frame: no two of a client are the same."""
        # Plain letters, digits and hyphens: what every broker sends back unchanged.
        return f"r-{next(self._numbers)}"

    def has_room(self, octets: int) -> bool:
        """Whether there is room for one more message; while `order` is taken, it is for the holder."""
        return not self.open or (len(self.open) < self._max_messages and self.octets + octets <= self._max_octets)

    async def wait_for_room(self, octets: int) -> None:
        """Wait, as the holder of `order`, until one more message may be added.

        Cancellation: nothing changes.
        """
        while not self.has_room(octets):
            self._room_wanted = True
            await self.fewer.park()

    def confirm(self, receipt_ids: Sequence[str]) -> Sequence[str]:
        """RECEIPTs came; returns those that no message awaited."""
        take, others = self.open.pop, list[str]()
        # Nearly always all are of one publisher: it is told of them together.
        window: Window[Publication] | None = None
        count, octets = 0, 0
        for receipt_id in receipt_ids:
            publication = take(receipt_id, None)
            if publication is None:
                others.append(receipt_id)
                continue
            if publication.window is not window:
                self._confirmed(window, count, octets)
                window, count, octets = publication.window, 0, 0
            count += 1
            octets += publication.octets
            publication.delivery = _CONFIRMED
            publication.content = None
            if publication.sleeping is not None or publication.ended is not None:
                publication.tell()
        self._confirmed(window, count, octets)
        self.confirmed += len(receipt_ids) - len(others)
        if self._room_wanted or not self.open:
            self._wake()
        return others

    def _confirmed(self, window: Window[Publication] | None, count: int, octets: int) -> None:
        self.octets -= octets
        if window is not None:
            window.confirmed_some(count, octets)

    def take(self, publication: Publication) -> bool:
        """Take out a message that is not confirmed; returns False where it was settled before."""
        if self.open.pop(publication.receipt_id, None) is None:
            return False
        self.octets -= publication.octets
        self._wake()
        return True

    def _wake(self) -> None:
        self._room_wanted = False
        self.fewer.unpark_all()

    def find(self, receipt_id: str) -> Publication | None:
        """The message that awaits a RECEIPT."""
        return self.open.get(receipt_id)

    def open_ones(self) -> list[Publication]:
        """All that are not settled, in order."""
        return list(self.open.values())

    def is_open(self, publication: Publication) -> bool:
        """Whether it is not settled and nobody has given it up."""
        return publication.receipt_id in self.open

    def lose_all(self, error: StompError) -> bool:
        """The connection has ended: all are lost with it where none follows; returns whether there are any."""
        publications = self.open_ones()
        if not self.outlives:
            for publication in publications:
                publication.lost(error)
        return bool(publications)

    async def wait_none(self) -> None:
        """Wait until all are settled.

        Cancellation: nothing changes.
        """
        while self.open:
            await self.fewer.park()
