"""Which message or subscription it is that the broker closes the connection for, without an ERROR.

Theory of operation. A broker may close the connection instead of answering a message with an ERROR. Sent again, that
message would end every later connection too, and hold up all the others. A network that fails looks the same from here,
but it does not choose its message. So the session looks for repetition, with one message in flight. The same holds for
SUBSCRIBE, for example with an argument that the queue does not have.

After a close on which nothing was confirmed, unconfirmed messages are sent again carefully: the first one alone, and
twice as many each time that all of them were confirmed. A good link soon has them all, and a bad message is soon alone.
Subscriptions that were unanswered at a close are restored in the same way, after all others.

A close counts against a message if that was the only one in flight, and no other was confirmed meanwhile. The peer must
have closed the connection, or reset it: silence, a timeout of TCP, an ERROR, or an end from this side say nothing about
a message. The third such close in a row fails the message. A row ends with any other end of a connection, with an
attempt to connect that fails, and with a careful sending that succeeds. Before each careful sending the link must last
for a while, three times as long for each close that has counted, so that links that break at random do not count.

A message that takes long to be written, or that waits long for its RECEIPT, is more likely to be hit by chance. So
closes long after the sending, and closes with failed attempts in between, count too, but only the tenth is the last.

A subscription that has failed like that is refused: see `reconnecting`. When it is retried, one close is enough.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from trio_stomp.errors import PoisonMessage, PoisonSubscription, StompError
from trio_stomp.runtime import current_time
from trio_stomp.session.receipts import Publication, Receipts

if TYPE_CHECKING:
    from trio_stomp.session.connection import Connection
    from trio_stomp.session.subscription_state import Registration

__all__ = ["WHY_BROKERS_CLOSE", "Suspicion"]

logger: Final = logging.getLogger("trio_stomp")

# For the error about a message that a broker closes the connection for without an ERROR.
WHY_BROKERS_CLOSE: Final = (
    "Brokers do that when a frame is larger than they allow or has too many headers (RabbitMQ 4 by default: more than "
    "4 MiB, or more than 100 headers), or when the queue is full (RabbitMQ with the overflow reject-publish); see the "
    "broker's log"
)

_CLOSES: Final = 3
_CLOSES_IN_ALL: Final = 10
_SOON_SECONDS: Final = 10.0
_PAUSE_SECONDS: Final = 0.1
_LONGER: Final = 3.0


class _Sending(NamedTuple):
    """A message that is sent again.

    Attributes:
        headers: The number of its headers.
        began: Clock time.
        confirmed_before: How many messages of the session had been confirmed by then.
    """

    headers: int
    began: float
    confirmed_before: int


class Suspicion:
    """What the ends of connections tell about the messages and subscriptions of one session.

    Args:
        receipts: The book of the session.
        registrations: The open subscriptions.
        refuse: Called with a subscription that the broker has closed connections for, and the error.

    Attributes:
        is_careful: Whether to send unconfirmed messages a few at a time on the next connection.
    """

    def __init__(
        self,
        receipts: Receipts,
        registrations: Iterable[Registration],
        refuse: Callable[[Registration, StompError], None],
    ) -> None:
        self.is_careful = False
        self._receipts = receipts
        self._registrations = registrations
        self._refuse = refuse
        # What is in flight while messages are sent again; None if that is everything in the book.
        self._sent: dict[Publication, _Sending] | None = None
        self._blamed: Publication | Registration | None = None
        self._soon = 0
        self._closes = 0

    @property
    def pause(self) -> float:
        """How many seconds the next link must last before anything is sent on it carefully."""
        return _PAUSE_SECONDS * _LONGER**self._soon

    def attempt_failed(self) -> None:
        """An attempt to connect failed: closes may have the same reason."""
        self._soon = 0

    def connected(self) -> None:
        """A connection was made, on which nothing was sent yet."""
        self._sent = {}

    def sending(self, message: Publication, frame: bytes) -> None:
        """A message is about to be sent again; `frame` is its frame, at least up to the body."""
        if self._sent is None:
            raise AssertionError(message)
        headers = frame.count(b"\n", 0, frame.index(b"\n\n"))
        self._sent[message] = _Sending(headers, current_time(), self._receipts.confirmed)

    def settled(self) -> None:
        """Everything that was sent again so far is settled."""
        self._sent = {}

    def restored(self) -> None:
        """Everything was sent again, and confirmed if that was done carefully."""
        self._sent = None
        self.is_careful = False
        self._blame(None)

    def _blame(self, sent: Publication | Registration | None) -> None:
        if sent is None or sent is not self._blamed:
            self._blamed, self._soon, self._closes = sent, 0, 0

    def _closed_at(self, sent: Publication | Registration, since: float) -> bool:
        """Count a close against what was sent alone; return whether no other close is needed."""
        self._blame(sent)
        self._closes += 1
        self._soon += current_time() - since < _SOON_SECONDS
        return self._soon >= _CLOSES or self._closes >= _CLOSES_IN_ALL

    def connection_ended(self, connection: Connection, failure: StompError) -> bool:
        """Look for what ended a connection; fail it if it was that for the third time in a row.

        Returns:
            Whether the close counts against a subscription.
        """
        if not connection.was_closed:
            self._blame(None)
            return False
        sends = bool(self._receipts.messages) and self._sent != {}
        if sends:
            self.is_careful |= self._receipts.confirmed == connection.confirmed_before
        subscribing = [each for each in self._registrations if each.awaits_answer_on(connection)]
        if subscribing:
            return self._ended_at(subscribing, failure, is_alone=len(subscribing) == 1 and not sends)
        alone = self._alone(connection)
        if alone is None:
            self._blame(None)
            return False
        message, headers, since = alone
        self.is_careful = True
        if not self._closed_at(message, since):
            return False
        error = PoisonMessage(
            f"the broker has closed the connection without an ERROR {self._closes} times in a row after this message "
            f"was sent, so it is not sent again: receipt {self._receipts.receipt_of(message)} to "
            f"{message.destination!r}, a body of {message.body_bytes:,} bytes, {headers} headers. {WHY_BROKERS_CLOSE}. "
            f"The last time: {failure}"
        )
        logger.warning("message %s failed alone: %s", message.id, error)
        self._blame(None)
        self._receipts.lose(message, error)
        return False

    def _ended_at(self, subscribing: Sequence[Registration], failure: StompError, *, is_alone: bool) -> bool:
        """A connection was closed while the broker had not answered these subscriptions."""
        for registration in subscribing:
            registration.is_suspected = True
        guilty = next((each for each in subscribing if each.refusals is not None), None)
        if guilty is None:
            guilty = subscribing[0]
            if not is_alone or self._receipts.confirmed > guilty.confirmed_before:
                self._blame(None)
                return False
            if not self._closed_at(guilty, guilty.subscribed_at):
                return True
        self._blame(None)
        error = PoisonSubscription(
            f"the broker closes the connection without an ERROR each time that it is sent SUBSCRIBE for "
            f"{guilty.options.name}. Brokers do that when a header of it does not fit the queue, for example; see the "
            f"broker's log. The last time: {failure}"
        )
        self._refuse(guilty, error)
        return True

    def _alone(self, connection: Connection) -> tuple[Publication, int, float] | None:
        """Return the only message in flight, its number of headers, and when it was sent; None if there is none."""
        if self._sent is None:
            # Not sent carefully: its headers are not counted, and the last write may have been another frame.
            first = self._receipts.only_one()
            return None if first is None else (first, 0, connection.last_write)
        in_flight = [message for message in self._sent if not message.is_settled]
        if len(in_flight) != 1:
            return None
        sending = self._sent[in_flight[0]]
        if self._receipts.confirmed > sending.confirmed_before:
            return None
        return in_flight[0], sending.headers, sending.began
