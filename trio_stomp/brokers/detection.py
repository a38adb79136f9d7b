"""Which profile fits a broker, by what it says of itself."""

from __future__ import annotations

from typing import Final, Literal

from trio_stomp.brokers.activemq import ACTIVEMQ
from trio_stomp.brokers.artemis import ARTEMIS
from trio_stomp.brokers.embedded import EMBEDDED
from trio_stomp.brokers.profile import Profile
from trio_stomp.brokers.rabbitmq import RABBITMQ
from trio_stomp.errors import LocalProtocolError

__all__ = ["UNKNOWN", "ProfileName", "profile_for", "profile_named"]

UNKNOWN: Final = Profile()

ProfileName = Literal["rabbitmq", "activemq", "artemis", "unknown"]

_BY_NAME: Final = {"rabbitmq": RABBITMQ, "activemq": ACTIVEMQ, "artemis": ARTEMIS, "unknown": UNKNOWN}


def profile_for(server: str | None) -> Profile:
    """The profile of a broker by its ``server`` header; the one that assumes nothing where it is not known.

    Args:
        server: The header of CONNECTED, or None.
    """
    # Up to the slash or space: "ActiveMQ/6.1" and "ActiveMQ-Artemis/2.4 ..." begin alike.
    name = (server or "").partition("/")[0].partition(" ")[0]
    return next(
        (profile for profile in (RABBITMQ, ACTIVEMQ, ARTEMIS, EMBEDDED) if name in profile.server_names), UNKNOWN
    )


def profile_named(name: str) -> Profile:
    """The profile by the short name that users write: rabbitmq, activemq, artemis, unknown.

    Raises:
        LocalProtocolError: There is none of that name.
    """
    try:
        return _BY_NAME[name]
    except KeyError:
        msg = f"profile must be one of {', '.join(_BY_NAME)}; got {name!r}"
        raise LocalProtocolError(msg) from None
