"""A stream on which a broker has accepted CONNECT."""

from __future__ import annotations

from dataclasses import dataclass

from trio_stomp.brokers import Profile
from trio_stomp.protocol import ClientEvent, ClientProtocol, Connected
from trio_stomp.runtime import ByteStream
from trio_stomp.transport import Endpoint

__all__ = ["Link"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A stream to a broker after CONNECT and CONNECTED.

    Attributes:
        stream: The stream.
        protocol: The protocol state.
        connected: The broker's CONNECTED.
        profile: The broker.
        endpoint: Its URL.
        early: Events that came in the same chunk after CONNECTED.
    """

    stream: ByteStream
    protocol: ClientProtocol
    connected: Connected
    profile: Profile
    endpoint: Endpoint
    early: tuple[ClientEvent, ...] = ()
