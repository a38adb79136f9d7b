"""A confirmed send, from another thread."""

from __future__ import annotations

from collections.abc import Sized
from functools import partial

from trio_stomp.bridge.calls import Call
from trio_stomp.bridge.lane import Lane
from trio_stomp.brokers import SendOptions
from trio_stomp.errors import ConnectionClosed, Delivery, StompError
from trio_stomp.session import (
    HeaderInput,
    Publication,
    Session,
    mark_raised,
    renewed,
    send_confirmed,
    send_confirmed_at_once,
)

__all__ = ["ConfirmedSend"]


class ConfirmedSend(Call[None]):
    """A send that is over when the broker has confirmed it, after everything that was added to a lane before.

    Where it can be written at once, it needs no task in the trio thread. That saves a sixth of its time and of its
    processor time.

    Args:
        lane: The lane.
        session: As in `send_confirmed`, like the other parameters.
        destination: The destination.
        body: The body.
        headers: The headers of the sender.
        content_type: MIME type of the body.
        options: Options of the broker.
    """

    def __init__(
        self,
        lane: Lane,
        session: Session,
        destination: str,
        body: Sized,
        headers: HeaderInput | None,
        content_type: str | None,
        options: SendOptions | None,
    ) -> None:
        message = (session, destination, body, headers, content_type, options)
        super().__init__(lane.in_turn(partial(send_confirmed, *message)))
        self._lane = lane
        self._book = session.receipts
        self._send = partial(send_confirmed_at_once, *message, self._settled)
        self._publication: Publication | None = None

    def begin_at_once(self) -> bool:
        """Write it, if nothing goes before it."""
        if not self._lane.is_empty:
            return False
        earlier = self._lane.take_failure()
        if earlier is not None:
            raise earlier
        self._publication = self._send()
        return self._publication is not None

    def cancel(self) -> None:
        """Do not wait for the RECEIPT any more, and do not send the message again."""
        if self._publication is None:
            super().cancel()
        else:
            self._book.give_up(self._publication)

    def _settled(self, delivery: Delivery | None, error: StompError | None) -> None:
        if self.outcome.done():
            return
        if error is not None:
            mark_raised(error)
            self.outcome.set_exception(renewed(error))
        elif delivery is Delivery.CONFIRMED:
            self.outcome.set_result(None)
        else:
            self.outcome.set_exception(ConnectionClosed("the call was interrupted"))
