"""ERRORs that are about the link, and about no frame: the broker has heard nothing for too long."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["is_link_trouble"]

# Seen on the wire; STOMP has no codes for this.
_LINK: Final = re.compile(
    r"did not receive data .* within"  # Artemis: "AMQ229014: Did not receive data from ... within the 2000ms"
    r"|heart-?beat"  # the embedded broker: "heart-beat missing"
    r"|connection ttl",
    re.IGNORECASE | re.DOTALL,
)


def is_link_trouble(message: str, body: bytes) -> bool:
    """Whether an ERROR ends a connection because the link is bad, so that it says nothing of what was sent on it."""
    return _LINK.search(f"{message}\n{body[:500].decode('utf-8', 'replace')}") is not None
