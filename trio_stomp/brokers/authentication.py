"""What a broker means by the ERROR that it sends instead of CONNECTED."""

from __future__ import annotations

from typing import Final

from trio_stomp.brokers.wording import Phrase, says_any

__all__ = ["is_authentication_refusal", "is_vhost_refusal"]

_VHOST: Final[tuple[Phrase, ...]] = (
    ("virtual host",),  # RabbitMQ: "Virtual host '/' access denied"; the embedded broker
    ("host is unknown",),  # CoilMQ: "Virtual hosting is not supported or host is unknown"
)

# Seen on the wire.
_AUTHENTICATION: Final[tuple[Phrase, ...]] = (
    ("access refused",),  # RabbitMQ: "Access refused for user 'guest'"; the embedded broker
    ("virtual host ", " access denied"),  # RabbitMQ
    ("user name [", "] or password is invalid"),  # ActiveMQ Classic, Artemis
    ("username or password",),
    ("not authorized",),
    ("not authorised",),
    ("authentication failed",),
    ("security error occurred",),
)


def is_authentication_refusal(message: str, body: bytes) -> bool:
    """Whether an ERROR in place of CONNECTED refuses the credentials, or the virtual host for them."""
    return says_any(_AUTHENTICATION, message, body)


def is_vhost_refusal(message: str, body: bytes) -> bool:
    """Whether an ERROR in place of CONNECTED refuses the virtual host that ``host`` names."""
    return says_any(_VHOST, message, body)
