"""The session: what outlives a single connection.

Theory of operation. A client has one session for its whole life; in it, one connection follows the other, and without
``reconnect=`` the first is the only one. The session keeps what must survive a loss: the subscriptions, the messages
that are not confirmed, the counters, the state. Verbs ask it for the connection to use (`turn`) and wait while there is
none. A connection that ends asks it whether another one follows (`connection_ended`); if so, subscriptions fall silent
instead of failing, and unconfirmed messages stay in the book. The supervisor dials; `restoring` brings the new
connection to where the old one was before anybody may use it.

An ERROR may end a connection without naming the frame that it is about (RabbitMQ's never do). Sent again blindly, such
a frame would end every connection that follows. So the session then becomes careful: on the next connection,
subscriptions and unconfirmed messages go out one at a time, and the one that is alone on its way when an ERROR comes
again is refused.
"""

from __future__ import annotations

import logging
from typing import Final, Protocol

import trio

from trio_stomp.brokers import is_link_trouble
from trio_stomp.errors import BrokerError, ConnectionClosed, StompError
from trio_stomp.protocol import ClientProtocol
from trio_stomp.session.connection import CLOSED, Connection
from trio_stomp.session.failures import renewed
from trio_stomp.session.link import Link
from trio_stomp.session.outage import Outage
from trio_stomp.session.settings import Settings
from trio_stomp.session.state import ConnectionState, Phase, StateLog
from trio_stomp.session.statistics import Counters
from trio_stomp.session.subscription_state import Registration
from trio_stomp.session.turns import Turns
from trio_stomp.session.unconfirmed import Unconfirmed

__all__ = ["Session"]

logger: Final = logging.getLogger("trio_stomp")


class Suspect(Protocol):
    """What was alone on its way, so that an ERROR that names nothing must be about it."""

    def refused(self, error: StompError) -> None:
        """The broker does not take it."""


class Session:
    """The connections of one client, one after the other.

    Args:
        link: The first link, connected.
        settings: The options of the client.

    Attributes:
        connection: The newest connection, which may have ended.
        failure: What ended the session for good, or None.
        noticed: Whether that was raised to anybody.
        closing: Whether this side has begun to leave.
        registrations: The open subscriptions, in the order of subscribing.
        unconfirmed: The messages whose RECEIPT is awaited.
        careful: Whether the next connection is restored step by step.
        suspect: What is on its way alone in such a restoration.
        dialing: The scope in which the next link is dialed.
        outage: The attempts to connect again, and when to give up; None without ``reconnect=``.
        moving_to: The link that follows the present connection, which is being left for it.
        ended: Set when the session is over.
    """

    def __init__(self, link: Link, settings: Settings) -> None:
        self.settings = settings
        self.policy = settings.reconnect
        self.outage = None if settings.reconnect is None else Outage(settings.reconnect, settings)
        self.counters = Counters()
        self.states = StateLog()
        self.registrations: dict[Registration, None] = {}
        self.unconfirmed = Unconfirmed(
            max_messages=settings.unconfirmed_messages, max_octets=settings.unconfirmed_octets
        )
        self.failure: StompError | None = None
        self.noticed = False
        self.closing = False
        self.careful = False
        self.suspect: Suspect | None = None
        self.dialing: trio.CancelScope | None = None
        self.moving_to: Link | None = None
        self.ended = trio.Event()
        self._over = False
        self._order = Turns()
        self._confirmed_before = 0
        self._changed = trio.lowlevel.ParkingLot()
        self.connection = Connection(link, settings, self)
        self._usable: Connection | None = None
        self.restored()
        self.connection.route(link.early)

    @property
    def link(self) -> Link:
        """The newest link."""
        return self.connection.link

    @property
    def protocol(self) -> ClientProtocol:
        """Its protocol state."""
        return self.connection.protocol

    @property
    def farewell(self) -> StompError:
        """What the newest connection ends with once DISCONNECT was exchanged."""
        return self.connection.farewell

    # --- verbs ----------------------------------------------------------------------------------------------------

    async def turn(self, confirmed_octets: int | None = None) -> Connection:
        """Wait for this caller's turn to send, and for a connection to do it on.

        Callers go in the order in which they came. Only a message that is to be confirmed, and has to wait for room
        among the unconfirmed ones, gives up its place: a broker may confirm nothing until it is told something else.
        They queue for that room in the order in which they came; a publisher queues as one.

        Args:
            confirmed_octets: The length of a body that is to be confirmed: there must be room for it in the book.

        Raises:
            StompError: The session is over.

        Cancellation: nothing was sent.
        """
        connection = self.at_once(confirmed_octets)
        if connection is not None:
            return connection
        connection = await self._next_turn()
        book = self.unconfirmed
        if confirmed_octets is None or (not book.order.taken and book.has_room(confirmed_octets)):
            return connection
        async with book.order:
            await book.wait_for_room(confirmed_octets)
            return await self._next_turn()

    def at_once(self, confirmed_octets: int | None = None) -> Connection | None:
        """The connection to send on, where it is this caller's turn now; else `turn` is to be awaited."""
        connection, book = self._usable, self.unconfirmed
        if (
            connection is not None
            and not self._order.taken
            and (confirmed_octets is None or (not book.order.taken and book.has_room(confirmed_octets)))
            and connection.goes_at_once()
        ):
            return connection
        return None

    async def _next_turn(self) -> Connection:
        async with self._order:
            while True:
                connection = await self._wait_usable()
                try:
                    await connection.turn()
                except StompError:
                    if self.failure is None and not self.closing:
                        continue  # another one follows
                    raise
                if connection is self._usable:
                    return connection

    async def _wait_usable(self) -> Connection:
        while self._usable is None:
            self.check()
            await self._changed.park()
        return self._usable

    def check(self) -> None:
        """Raise when the session is over.

        Raises:
            StompError: What ended it.
            ConnectionClosed: The client was closed by its own program.
        """
        if self.failure is not None:
            raise self.raisable(self.failure)
        if self.closing:
            raise ConnectionClosed(CLOSED)

    def raisable(self, failure: StompError) -> StompError:
        """The failure as a new exception, now that somebody gets to see it."""
        self.noticed = True
        return renewed(failure)

    def was_raised(self, error: StompError) -> None:
        """A consumer got to see `error`, which may be what ended the session."""
        if error is self.failure:
            self.noticed = True

    # --- subscriptions --------------------------------------------------------------------------------------------

    async def subscribe(self, registration: Registration) -> None:
        """Make a subscription stand, on this connection or the next.

        Raises:
            BrokerError: The broker refused it.

        Cancellation: it may or may not stand at the broker; `unsubscribe` ends it.
        """
        self.registrations[registration] = None
        while True:
            connection = await self.turn()
            if registration.connection is not connection and not registration.is_over:
                try:
                    await registration.open_on(connection)
                except StompError:
                    # Lost, or refused by an ERROR that may be about anything: the next connection tells.
                    if connection.is_stale and self.failure is None:
                        continue
                    raise
            registration.raise_refusal()
            return

    def unsubscribe(self, registration: Registration) -> None:
        """Leave a subscription; never waits."""
        self.registrations.pop(registration, None)
        registration.close()

    # --- one connection after the other ---------------------------------------------------------------------------

    def connection_ended(self, failure: StompError, *, attributed: bool) -> bool:
        """The connection has ended; returns whether another one follows.

        Args:
            failure: What ended it.
            attributed: Whether that is known to be about something that was told of it.
        """
        self._usable = None
        if isinstance(failure, BrokerError) and not attributed and not is_link_trouble(failure.message, failure.body):
            self.careful = True
            if self.suspect is not None:
                self.suspect.refused(failure)
        self.suspect = None
        if not self._goes_on_after(failure):
            # While leaving with nothing unconfirmed, a loss is what leaving was about to bring.
            left = self.policy is not None and self.closing
            self._end(ConnectionClosed(CLOSED) if left else failure)
            self.noticed = self.noticed or left
            return False
        self.unconfirmed.outlives = True
        self.note(Phase.LOST, failure)
        return True

    def _goes_on_after(self, failure: StompError) -> bool:
        if self.outage is None or self._over:
            return False
        # What this program closed stays closed.
        if isinstance(failure, ConnectionClosed) or self.outage.lost(
            failure, self.connection.opened_at, progressed=self._has_progressed()
        ):
            return False
        return not self.closing or len(self.unconfirmed) > 0

    def _has_progressed(self) -> bool:
        """Whether the newest connection has brought anybody further."""
        confirmed = self.unconfirmed.confirmed > self._confirmed_before
        return confirmed or any(registration.has_progressed for registration in self.registrations)

    def install(self, link: Link) -> None:
        """Go on with a new link; it is used once it is restored."""
        self._confirmed_before = self.unconfirmed.confirmed
        self.moving_to = None
        self.counters.reconnections += 1
        self.connection = Connection(link, self.settings, self)
        self.connection.route(link.early)

    def restored(self) -> None:
        """The newest connection is where the one before was: it may be used."""
        self.careful = False
        self._usable = self.connection
        self.note(Phase.CONNECTED)
        self._changed.unpark_all()

    def move_to(self, link: Link, *, away_from: Connection) -> bool:
        """Begin no new work on a connection; it is left in good order, and `link` follows it.

        Returns:
            False when that connection is not in use, so that there is nothing to move.
        """
        if self.closing or self._usable is not away_from:
            return False
        self.moving_to = link
        self._usable = None
        away_from.move(link.endpoint)
        return True

    def note(self, phase: Phase, cause: StompError | None = None, *, attempt: int = 0, endpoint: bool = True) -> None:
        """Enter a change of state."""
        self.states.add(
            ConnectionState(
                phase=phase,
                endpoint=str(self.link.endpoint) if endpoint else None,
                cause=cause,
                attempt=attempt,
                since=trio.current_time(),
            )
        )

    # --- end ------------------------------------------------------------------------------------------------------

    def leave(self) -> None:
        """This side has begun to leave: nothing new is taken."""
        self.closing = True
        self._changed.unpark_all()

    def fail(self, failure: StompError, *, noticed: bool = False) -> None:
        """End the session for good: whoever waits on it is woken with `failure`."""
        self._over = True
        if self.connection.failure is None:
            self.connection.fail(failure, noticed=noticed)
        elif self.failure is None:
            self._end(failure)
            self.noticed = self.unconfirmed.lose_all(failure) or self.noticed or noticed

    def close(self) -> None:
        """End the session at once, because its program leaves."""
        self.fail(ConnectionClosed(CLOSED), noticed=True)

    @property
    def was_noticed(self) -> bool:
        """Whether what ended it was raised to anybody."""
        return self.noticed or self.connection.noticed

    def _end(self, failure: StompError) -> None:
        self.failure = failure
        self._over = True
        self._usable = None
        self.unconfirmed.outlives = False
        logger.info("the client of %s has ended: %s", self.link.endpoint, failure)
        for registration in self.registrations:
            registration.fail(failure)
        closed = isinstance(failure, ConnectionClosed)
        self.note(Phase.CLOSED, None if closed else failure)
        if self.dialing is not None:
            self.dialing.cancel()
        self._changed.unpark_all()
        self.ended.set()
