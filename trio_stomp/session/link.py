"""One link to a broker after its handshake: what dialing makes and a connection lives on."""

from __future__ import annotations

from dataclasses import dataclass

import trio

from trio_stomp.brokers import Profile
from trio_stomp.protocol import ClientEvent, ClientProtocol, Connected
from trio_stomp.transport import Endpoint

__all__ = ["Link"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A stream whose session is connected.

    Attributes:
        stream: The octets.
        protocol: The session on it.
        connected: The broker's CONNECTED.
        profile: How that broker behaves.
        endpoint: Where it is.
        early: What came in the same chunk behind CONNECTED.
    """

    stream: trio.abc.Stream
    protocol: ClientProtocol
    connected: Connected
    profile: Profile
    endpoint: Endpoint
    early: tuple[ClientEvent, ...] = ()
