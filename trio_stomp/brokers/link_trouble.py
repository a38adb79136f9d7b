"""ERRORs that are about the link, and about no frame: the broker has heard nothing for too long."""

from __future__ import annotations

from typing import Final

from trio_stomp.brokers.wording import Phrase, says_any

__all__ = ["is_link_trouble"]

# Seen on the wire.
_LINK: Final[tuple[Phrase, ...]] = (
    ("did not receive data ", " within"),  # Artemis: "AMQ229014: Did not receive data from ... within the 2000ms"
    ("heart-beat",),  # the embedded broker: "heart-beat missing"
    ("heartbeat",),
    ("connection ttl",),
)


def is_link_trouble(message: str, body: bytes) -> bool:
    """Whether an ERROR ends a connection because the link is bad, so that it says nothing of what was sent on it."""
    return says_any(_LINK, message, body)
