"""How RabbitMQ numbers what it delivers, and what it says of a delivery that met an UNSUBSCRIBE.

Each MESSAGE has a ``message-id`` of three parts: ``T_<subscription>@@<session>@@<number>``. The numbers count all
deliveries of the connection, whatever their subscription. A delivery that is on its way when UNSUBSCRIBE is handled is
not sent: an ERROR "Subscription not found" takes its place, its number is used up, and its message stays locked until
the connection ends or somebody refuses it by that number. Seen with 3.10.8: an ACK followed by UNSUBSCRIBE on a queue
that holds more messages does it nearly every time. A NACK needs an open subscription in its id, and any will do.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["delivery_id", "delivery_number", "outlives_subscribers", "swallowed_for"]

_SWALLOWED: Final = re.compile(rb"There is no current subscription with tag 'T_(.*)'\.\s*", re.DOTALL)

# Erlang counts on without bound; more digits than these are no count, and int() refuses thousands of them.
_LONGEST_NUMBER_DIGITS: Final = 20

# Queues that stay when nobody subscribes to them any more; those behind topics and exchanges go with their subscriber.
_QUEUES: Final = ("/queue/", "/amq/queue/")


def swallowed_for(body: bytes) -> str | None:
    """The id of the left subscription for which a message came too late, by the body of an ERROR; None for others."""
    found = _SWALLOWED.fullmatch(body)
    return None if found is None else found[1].decode("utf-8", "replace")


def delivery_number(message_id: str) -> int | None:
    """The number of a delivery on its connection, by its ``message-id``."""
    _, separator, number = message_id.rpartition("@@")
    if not separator or len(number) > _LONGEST_NUMBER_DIGITS or not (number.isascii() and number.isdigit()):
        return None
    return int(number)


def delivery_id(subscription_id: str, session: str, number: int) -> str:
    """The ``message-id`` under which a delivery can be settled through an open subscription."""
    return f"T_{subscription_id}@@{session}@@{number}"


def outlives_subscribers(destination: str) -> bool:
    """Whether messages of a destination are still there when its last subscriber has left."""
    return destination.startswith(_QUEUES)
