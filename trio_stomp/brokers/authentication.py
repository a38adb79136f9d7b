"""What a broker means by the ERROR that it sends instead of CONNECTED."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["is_authentication_refusal"]

# Seen on the wire; STOMP has no codes for this.
_AUTHENTICATION: Final = re.compile(
    r"access refused"  # RabbitMQ: "Access refused for user 'guest'"; the embedded broker
    r"|virtual host .* access denied"  # RabbitMQ
    r"|user name \[.*\] or password is invalid"  # ActiveMQ Classic, Artemis
    r"|username or password"
    r"|not authori[sz]ed|authentication failed|security error occurred",
    re.IGNORECASE | re.DOTALL,
)


def is_authentication_refusal(message: str, body: bytes) -> bool:
    """Whether an ERROR in place of CONNECTED refuses the credentials, or the virtual host for them."""
    # The body may be a long stack trace; what it is about stands at its beginning.
    return _AUTHENTICATION.search(f"{message}\n{body[:500].decode('utf-8', 'replace')}") is not None
