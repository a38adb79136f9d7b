"""Choosing the profile of a broker, by its CONNECTED frame or by name."""

from __future__ import annotations

from typing import Final, Literal

from trio_stomp.brokers.activemq import ACTIVEMQ
from trio_stomp.brokers.artemis import ARTEMIS
from trio_stomp.brokers.embedded import EMBEDDED
from trio_stomp.brokers.profile import Profile
from trio_stomp.brokers.rabbitmq import RABBITMQ, by_version
from trio_stomp.brokers.spring import SPRING, is_spring
from trio_stomp.errors import LocalProtocolError
from trio_stomp.protocol import Headers, Tolerances

__all__ = ["GENERIC", "ProfileName", "profile_for", "profile_named", "profile_of"]

# For an unknown broker only the specification counts; a server that does not need the tolerance is not affected.
GENERIC: Final = Profile(tolerances=Tolerances(messages_without_id=True))

ProfileName = Literal["rabbitmq", "activemq", "artemis", "spring", "generic"]

_BY_NAME: Final[dict[str, Profile]] = {
    "rabbitmq": RABBITMQ,
    "activemq": ACTIVEMQ,
    "artemis": ARTEMIS,
    "spring": SPRING,
    "generic": GENERIC,
}


def profile_for(server: str | None) -> Profile:
    """Return the profile of a broker by its ``server`` header; the generic one if it is unknown.

    Args:
        server: The header of CONNECTED, or None.
    """
    # Up to the slash or space: "ActiveMQ/6.1" and "ActiveMQ-Artemis/2.4 ..." begin alike.
    name = (server or "").partition("/")[0].partition(" ")[0]
    named = (profile for profile in (RABBITMQ, ACTIVEMQ, ARTEMIS, EMBEDDED) if name in profile.server_names)
    return by_version(next(named, GENERIC), server)


def profile_of(connected: Headers, *, over_websocket: bool) -> Profile:
    """Return the profile of a broker by its CONNECTED frame.

    Args:
        connected: The headers of CONNECTED.
        over_websocket: Whether it came over a WebSocket, the only way to reach Spring's simple broker.
    """
    if over_websocket and is_spring(connected):
        return SPRING
    return profile_for(connected.get("server"))


def profile_named(name: str) -> Profile:
    """Return the profile by its short name; see `ProfileName`.

    Raises:
        LocalProtocolError: There is no such profile.
    """
    try:
        return _BY_NAME[name]
    except KeyError:
        msg = f"profile must be one of {', '.join(_BY_NAME)}; got {name!r}"
        raise LocalProtocolError(msg) from None
