"""Messages whose RECEIPT is awaited: what is known of each, and what is sent again when the link was lost.

They are kept in the order in which they were sent first. A new connection gets all of them again, in that order and
before anything new, each with the stable id that it had: a broker that finds duplicates by that id drops the second
copy, and where there is none, the receiver can. What the broker has confirmed is never sent again.

The book is the one place where such a message is: it is registered there under the id of its RECEIPT, which is the same
on every connection, and whoever takes it out (a RECEIPT, an ERROR, a loss, its sender's cancellation) settles it.
"""

from __future__ import annotations

import secrets
from typing import Final

import trio

from trio_stomp.client.failures import renewed
from trio_stomp.client.hooks import SendEnd
from trio_stomp.client.outgoing import Outgoing
from trio_stomp.client.window import Window
from trio_stomp.errors import Delivery, StompError, UnconfirmedMessage
from trio_stomp.protocol import ClientProtocol

__all__ = ["Publication", "Unconfirmed"]

# Members of an enumeration take five times as long to look up as names of a module, and each message asks for these.
_CONFIRMED: Final = Delivery.CONFIRMED
_UNKNOWN: Final = Delivery.UNKNOWN
# Receipt ids are plain letters, digits and hyphens: what every broker sends back unchanged.
_RECEIPT_ID: Final = "r-"


# The encoded head of a message in which nothing needs a second look, its body, and whether to say how long that is.
Plain = tuple[bytes, bytes, bool]


class Publication:
    """One message whose RECEIPT is awaited.

    Args:
        book: Where it is going to be registered.
        destination: Where it is sent.
        content: What is sent.
        naming: The header that is to bear its stable id, if any is.
        window: Where it is counted, if anywhere.
        own_id: The stable id that its sender gave it, in a header of its own.

    Attributes:
        receipt_id: The id that its RECEIPT bears.
        destination: Where it is sent.
        delivery: What is known of it; UNKNOWN until the broker answers.
        error: Why it was not confirmed, once that is settled.
        octets: The length of its body.
        noticed: Whether somebody has seen it fail.
    """

    __slots__ = (
        "_book",
        "_content",
        "_ended",
        "_naming",
        "_own_id",
        "_settled",
        "delivery",
        "destination",
        "error",
        "is_watched",
        "noticed",
        "octets",
        "receipt_id",
        "window",
    )

    def __init__(
        self,
        book: Unconfirmed,
        destination: str,
        content: Plain | Outgoing,
        naming: str | None = None,
        window: Window | None = None,
        own_id: str | None = None,
    ) -> None:
        self.receipt_id = book.new_receipt_id()
        self.destination = destination
        self.window = window
        self.octets = len(content[1] if isinstance(content, tuple) else content.body)
        self.delivery = _UNKNOWN
        self.noticed = self.is_watched = False
        self.error: StompError | None = None
        self._book = book
        self._content = content
        self._naming = naming
        self._own_id = own_id
        self._ended: SendEnd | None = None
        self._settled: trio.Event | None = None

    @property
    def id(self) -> str:
        """Its stable id: the same each time that it is sent."""
        return self._own_id or self._book.stable_id(self.receipt_id)

    @property
    def is_settled(self) -> bool:
        """Whether nothing more will become of it."""
        return not self._book.is_open(self)

    def frame(self, protocol: ClientProtocol) -> bytes:
        """Its SEND, on a connection.

        Raises:
            LocalProtocolError: It cannot be represented there.
        """
        naming, content = self._naming, self._content
        if isinstance(content, tuple):
            head, body, content_length = content
            name = "" if naming is None else f"\n{naming}:{self.id}"
            own_lines = f"{name}\nreceipt:{self.receipt_id}".encode()
            return protocol.send_plain(head, body, own_lines, content_length=content_length)
        own = [("receipt", self.receipt_id)] if naming is None else [(naming, self.id), ("receipt", self.receipt_id)]
        return protocol.send(
            self.destination, content.body, headers=[*content.headers, *own], content_length=content.content_length
        )

    def show_its_name(self) -> None:
        """Have hooks see the header that bears its stable id, as one among the others."""
        if self._naming is not None and isinstance(self._content, Outgoing):
            self._content.headers.append((self._naming, self.id))
            self._naming = None

    def when_ended(self, ended: SendEnd) -> None:
        """Have hooks told what becomes of it."""
        self._ended = ended
        self.is_watched = True

    # --- what became of it ----------------------------------------------------------------------------------------

    def give_up(self) -> None:
        """Its sender waits no more: it is not sent again, and its RECEIPT is dropped."""
        if self._book.take(self):
            self._tell()

    def confirmed(self) -> None:
        """The broker has it."""
        self._book.confirm(self.receipt_id)

    def refused(self, error: StompError) -> None:
        """The broker does not take it."""
        if self._book.take(self):
            self.delivery = Delivery.REJECTED
            self._fail(error)

    def lost(self, error: StompError) -> None:
        """No connection will bring its RECEIPT."""
        if self._book.take(self):
            self._fail(error)

    def _fail(self, error: StompError) -> None:
        self.error = error
        self._tell()

    def never_sent(self, error: StompError) -> None:
        """It cannot be sent: nothing of it was registered."""
        if self._ended is not None:
            self._ended(None, error)

    def _tell(self) -> None:
        """What is rare once it is settled without the broker's yes."""
        if self.window is not None:
            self.window.failed_one(self)
        self.tell_watchers()

    def tell_watchers(self) -> None:
        """Tell the hooks, and wake the tasks that wait for it: once, for it is settled once."""
        if self._ended is not None:
            self._ended(self.delivery, self.error)
        if self._settled is not None:
            self._settled.set()

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
        if self.is_settled:
            await trio.lowlevel.checkpoint_if_cancelled()
            return
        if self._settled is None:
            self._settled = trio.Event()
            self.is_watched = True
        await self._settled.wait()

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
        fewer: Where tasks wait that need fewer of them to be awaited, be it for room or for the end.
    """

    def __init__(self, *, max_messages: int, max_octets: int) -> None:
        self._max_messages = max_messages
        self._max_octets = max_octets
        self._open: dict[str, Publication] = {}
        # Unique among all clients for ever, for the broker's memory of duplicates; short, for the wire.
        self._prefix: Final = secrets.token_hex(8)
        self._count = 0
        self.fewer = trio.lowlevel.ParkingLot()
        self._room_wanted = False
        self.outlives = False
        self.octets = 0
        self.resent = 0

    def __len__(self) -> int:
        return len(self._open)

    def new_receipt_id(self) -> str:
        """The id of the next RECEIPT, of whatever frame: no two of a client are the same."""
        self._count = count = self._count + 1
        return f"{_RECEIPT_ID}{count}"

    def stable_id(self, receipt_id: str) -> str:
        """The stable id of the message that awaits that RECEIPT."""
        return f"{self._prefix}-{receipt_id[len(_RECEIPT_ID) :]}"

    def has_room(self, octets: int) -> bool:
        """Whether one more message may be added."""
        return not self._open or (len(self._open) < self._max_messages and self.octets + octets <= self._max_octets)

    async def wait_for_room(self, octets: int) -> None:
        """Wait until one more message may be added.

        Cancellation: nothing changes.
        """
        while not self.has_room(octets):
            self._room_wanted = True
            await self.fewer.park()

    def add(self, publication: Publication) -> None:
        """Register a message that is about to be sent for the first time."""
        self._open[publication.receipt_id] = publication
        self.octets += publication.octets

    def confirm(self, receipt_id: str) -> bool:
        """A RECEIPT came; returns whether a message awaited it."""
        publication = self._open.pop(receipt_id, None)
        if publication is None:
            return False
        octets, window = publication.octets, publication.window
        self.octets -= octets
        publication.delivery = _CONFIRMED
        if window is not None:
            window.confirmed_one(octets)
        if publication.is_watched:
            publication.tell_watchers()
        if self._room_wanted or not self._open:
            self._wake()
        return True

    def take(self, publication: Publication) -> bool:
        """Take out a message that is not confirmed; returns False where it was settled before."""
        if self._open.pop(publication.receipt_id, None) is None:
            return False
        self.octets -= publication.octets
        self._wake()
        return True

    def _wake(self) -> None:
        self._room_wanted = False
        self.fewer.unpark_all()

    def find(self, receipt_id: str) -> Publication | None:
        """The message that awaits a RECEIPT."""
        return self._open.get(receipt_id)

    def open_ones(self) -> list[Publication]:
        """All that are not settled, in order."""
        return list(self._open.values())

    def is_open(self, publication: Publication) -> bool:
        """Whether it is not settled and nobody has given it up."""
        return publication.receipt_id in self._open

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
        while self._open:
            await self.fewer.park()
