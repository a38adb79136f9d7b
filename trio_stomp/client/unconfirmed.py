"""Messages whose RECEIPT is awaited: what is known of each, and what is sent again when the link was lost.

They are kept in the order in which they were sent first. A new connection gets all of them again, in that order and
before anything new, each with the stable id that it had: a broker that finds duplicates by that id drops the second
copy, and where there is none, the receiver can. What the broker has confirmed is never sent again.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Final

import trio

from trio_stomp.client.connection import Connection
from trio_stomp.client.failures import renewed
from trio_stomp.client.hooks import SendEnd
from trio_stomp.client.outgoing import Outgoing
from trio_stomp.errors import Delivery, StompError, UnconfirmedMessage

__all__ = ["Publication", "Unconfirmed"]

# Members of an enumeration take five times as long to look up as names of a module, and each message asks for these.
_CONFIRMED: Final = Delivery.CONFIRMED
_UNKNOWN: Final = Delivery.UNKNOWN


class Publication:
    """One message whose RECEIPT is awaited.

    Attributes:
        id: Its stable id: the same each time that it is sent.
        destination: Where it is sent.
        delivery: What is known of it; UNKNOWN until the broker answers.
        error: Why it was not confirmed, once that is settled.
        octets: The length of its body.
        ended: What to call once that is settled, for hooks.
    """

    __slots__ = (
        "_book",
        "_connection",
        "_given_up",
        "_on_settled",
        "_outgoing",
        "_receipt_id",
        "_waiting",
        "delivery",
        "destination",
        "ended",
        "error",
        "id",
        "noticed",
        "octets",
    )

    def __init__(
        self,
        publication_id: str,
        destination: str,
        outgoing: Outgoing,
        book: Unconfirmed,
        on_settled: Callable[[Publication], None] | None,
    ) -> None:
        self.id = publication_id
        self.destination = destination
        self.delivery = _UNKNOWN
        self.error: StompError | None = None
        self.noticed = False
        self.octets = len(outgoing.body)
        self.ended: SendEnd | None = None
        self._outgoing = outgoing
        self._book = book
        self._on_settled = on_settled
        self._waiting: trio.Event | None = None
        self._connection: Connection | None = None
        self._receipt_id = ""
        self._given_up = False

    @property
    def is_settled(self) -> bool:
        """Whether nothing more will become of it."""
        return self.delivery is not Delivery.UNKNOWN or self.error is not None or self._given_up

    def post(self, connection: Connection, *, at_once: bool = False) -> None:
        """Put its frame into the outbox of a connection, under a receipt of that connection."""
        out, protocol = self._outgoing, connection.protocol
        receipt_id = connection.receipts.expect_for(self)
        self._connection, self._receipt_id = connection, receipt_id
        try:
            frame = protocol.send(
                self.destination,
                out.body,
                headers=[*out.headers, *out.own_headers, ("receipt", receipt_id)],
                content_length=out.content_length,
            )
        except StompError as error:
            connection.receipts.forget(receipt_id)
            self._end(None, error)
            raise
        if at_once:
            connection.post_at_once(frame)
        else:
            connection.post(frame)

    def give_up(self) -> None:
        """Its sender waits no more: it is not sent again, and its RECEIPT is dropped."""
        self._given_up = True
        self._book.remove(self)
        self._end(self.delivery, None)
        if self._waiting is not None:
            # A restoration that sends one by one may wait for it.
            self._waiting.set()
        if self._connection is not None:
            self._connection.receipts.forget(self._receipt_id)

    # --- what became of it ----------------------------------------------------------------------------------------

    def confirmed(self) -> None:
        """The broker has it."""
        self.delivery = _CONFIRMED
        self._settled()

    def refused(self, error: StompError) -> None:
        """The broker does not take it."""
        if self.is_settled:
            return
        self.delivery = Delivery.REJECTED
        self.error = error
        self._settled()

    def lost(self, error: StompError) -> None:
        """The connection ended; it is over unless another one is coming."""
        if not self._book.outlives and not self.is_settled:
            self.error = error
            self._settled()

    def _end(self, delivery: Delivery | None, error: StompError | None) -> None:
        """Tell the hooks, once."""
        if self.ended is not None:
            self.ended(delivery, error)
            self.ended = None

    def _settled(self) -> None:
        self._book.remove(self)
        self._end(self.delivery, self.error)
        if self._waiting is not None:
            self._waiting.set()
        if self._on_settled is not None:
            self._on_settled(self)

    async def wait(self) -> None:
        """Wait until the broker has confirmed it.

        Raises:
            BrokerError: The broker refused it.
            ConnectionLost: The link is gone for good; it may or may not have arrived.

        Cancellation: nothing changes; it may be waited for again.
        """
        await self.wait_settled()
        if self.error is not None:
            self.noticed = True
            raise renewed(self.error)

    async def wait_settled(self) -> None:
        """Wait until nothing more will become of it; `delivery` then tells what has.

        Cancellation: nothing changes.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        if not self.is_settled:
            if self._waiting is None:
                self._waiting = trio.Event()
            await self._waiting.wait()

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
        outlives: Whether another connection follows when this one ends.
        octets: The bodies of all.
        resent: How many frames were sent again, in all.
    """

    def __init__(self, *, max_messages: int, max_octets: int) -> None:
        self._max_messages = max_messages
        self._max_octets = max_octets
        self._open: dict[Publication, None] = {}
        self._waiting_for_room = trio.lowlevel.ParkingLot()
        self._waiting_for_none = trio.lowlevel.ParkingLot()
        # Unique among all clients for ever, for the broker's memory of duplicates; short, for the wire.
        self._prefix: Final = secrets.token_hex(8)
        self._count = 0
        self.outlives = False
        self.octets = 0
        self.resent = 0

    def __len__(self) -> int:
        return len(self._open)

    def new_id(self) -> str:
        """A stable id for the next publication."""
        self._count += 1
        return f"{self._prefix}-{self._count}"

    def has_room(self, octets: int) -> bool:
        """Whether one more message may be added."""
        return not self._open or (len(self._open) < self._max_messages and self.octets + octets <= self._max_octets)

    async def wait_for_room(self, octets: int) -> None:
        """Wait until one more message may be added.

        Cancellation: nothing changes.
        """
        while not self.has_room(octets):
            await self._waiting_for_room.park()

    def post(self, publication: Publication, connection: Connection, *, at_once: bool = False) -> None:
        """Send a publication for the first time; `at_once` where its sender waits for the answer."""
        publication.post(connection, at_once=at_once)
        self._open[publication] = None
        self.octets += publication.octets

    def remove(self, publication: Publication) -> None:
        """A publication is settled, or given up by whoever waited."""
        if publication in self._open:
            del self._open[publication]
            self.octets -= publication.octets
            if self._waiting_for_room:
                self._waiting_for_room.unpark_all()
            if not self._open and self._waiting_for_none:
                self._waiting_for_none.unpark_all()

    def open_ones(self) -> list[Publication]:
        """All that are not settled, in order."""
        return list(self._open)

    def is_open(self, publication: Publication) -> bool:
        """Whether it is not settled and nobody has given it up."""
        return publication in self._open

    def resend(self, publication: Publication, connection: Connection) -> None:
        """Send a publication again on a new connection."""
        self.resent += 1
        publication.post(connection)

    def fail_all(self, error: StompError) -> bool:
        """No connection follows any more; returns whether anything was unconfirmed."""
        publications = self.open_ones()
        self.outlives = False
        for publication in publications:
            publication.lost(error)
        return bool(publications)

    async def wait_none(self) -> None:
        """Wait until all are settled.

        Cancellation: nothing changes.
        """
        while self._open:
            await self._waiting_for_none.park()
