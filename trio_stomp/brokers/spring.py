"""Spring's simple broker: the broker in memory of a Spring application with STOMP over WebSocket.

Seen with Spring Framework 6.1. An application that relays to a real broker (``enableStompBrokerRelay``) shows the
CONNECTED frame of that broker, and gets the profile of that broker.
"""

from __future__ import annotations

from typing import Final

from trio_stomp.brokers.dialect import Dialect
from trio_stomp.brokers.profile import Profile
from trio_stomp.protocol import Headers

__all__ = ["SPRING", "is_spring"]

# It has no temporary queues. A topic ends with its subscription.
_REPLIES: Final = "/topic/"


def _reply_destination(name: str) -> str:
    return _REPLIES + name


def is_spring(connected: Headers) -> bool:
    """Return whether a CONNECTED frame that came over a WebSocket is from Spring's simple broker.

    It has ``version``, ``heart-beat`` and, for an authenticated user, ``user-name``. All other tested brokers also send
    a ``server`` or ``session`` header.
    """
    return "server" not in connected and "session" not in connected


SPRING: Final = Profile(
    name="Spring's simple broker",
    dialect=Dialect(broker="Spring's simple broker"),
    # It ignores receipt, BEGIN, COMMIT, ABORT, ACK and NACK, and never sends an ack header.
    confirms=False,
    has_transactions=False,
    acknowledges=False,
    reply_destination=_reply_destination,
    # Tomcat's buffer for a message, the smallest of all servers for Spring. Spring itself joins the pieces of a
    # frame.
    websocket_message_bytes=8 * 1024,
    # It delivers everything else as text, with U+FFFD in place of invalid UTF-8.
    websocket_is_text=True,
    binary_content_type="application/octet-stream",
)
