"""What CONNECT and CONNECTED agree on: the version, by which they are then read again, and the name of the server.

Spec: "Connecting", "Protocol Negotiation".
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from trio_stomp.errors import RemoteProtocolError
from trio_stomp.protocol.frames import Command, Frame
from trio_stomp.protocol.headers import Headers
from trio_stomp.protocol.versions import Version, negotiate_as_client, negotiate_as_server

__all__ = ["ServerInfo", "settle"]


def settle(frame: Frame, versions: Collection[Version]) -> tuple[Version, Frame]:
    """Find the version of a session from its CONNECT, STOMP or CONNECTED frame.

    Args:
        frame: The frame, decoded by the rules of the handshake.
        versions: The versions this side offered, or supports.

    Returns:
        The version, and the frame as that version reads it: 1.0 trims values, the others don't.

    Raises:
        RemoteProtocolError: No version fits, or the frame has a body where its version has none.

    Spec: Protocol Negotiation.
    """
    if frame.command is Command.CONNECTED:
        version = negotiate_as_client(frame.headers.get("version"), versions)
    else:
        version = negotiate_as_server(frame.headers.get("accept-version"), versions)
    if version is Version.V1_0:
        trimmed = [(name, value.strip(" ")) for name, value in frame.headers.pairs]
        return version, Frame(frame.command, Headers(trimmed), frame.body)
    _check(frame, version)
    return version, frame


def _check(frame: Frame, version: Version) -> None:
    """Refuse what the rules of the handshake allow and those of 1.1 or 1.2 don't."""
    what = f"a {frame.command.value} frame of STOMP {version.value}"
    if frame.body:
        raise RemoteProtocolError(f"{what} has no body, got {len(frame.body)} bytes")
    if " " in (frame.headers.get("content-length") or ""):
        raise RemoteProtocolError(f"{what} has a content-length that is no number: spaces are not trimmed")
    if version is Version.V1_2 and any("\r" in name or "\r" in value for name, value in frame.headers.pairs):
        raise RemoteProtocolError(f"{what} has a CR inside a header line")


class ServerInfo(NamedTuple):
    """The ``server`` header of CONNECTED, parsed.

    Attributes:
        name: The name of the broker, such as ``RabbitMQ``.
        version: Its version, if given.
        comments: The comments that follow, split at spaces.
    """

    name: str
    version: str | None = None
    comments: tuple[str, ...] = ()

    @classmethod
    def parse(cls, value: str) -> ServerInfo:
        """Read the header's value: ``name ["/" version] *(" " comment)``.

        Raises:
            RemoteProtocolError: It breaks that grammar. That is no reason to end the session.

        Spec: CONNECTED Frame.
        """
        product, *comments = value.split(" ")
        name, slash, version = product.partition("/")
        if not name or (slash and not version) or "" in comments:
            raise RemoteProtocolError(
                f"server header must be name['/'version] and comments after single spaces, got {value[:80]!r}"
            )
        return cls(name=name, version=version or None, comments=tuple(comments))
