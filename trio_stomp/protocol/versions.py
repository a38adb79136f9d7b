"""The versions of STOMP, and their negotiation. Spec: "Protocol Negotiation"."""

from __future__ import annotations

import enum
from collections.abc import Collection

from trio_stomp.errors import RemoteProtocolError

__all__ = ["ALL_VERSIONS", "Version", "negotiate_as_client", "negotiate_as_server"]


class Version(enum.StrEnum):
    """A version of STOMP. Later versions compare as greater."""

    V1_0 = "1.0"
    V1_1 = "1.1"
    V1_2 = "1.2"


ALL_VERSIONS: tuple[Version, ...] = tuple(Version)


def _named(text: str, among: Collection[Version]) -> Version | None:
    return next((version for version in among if version.value == text), None)


def _listed(versions: Collection[Version]) -> str:
    return ",".join(sorted(versions)) or "none"


def negotiate_as_server(accept_version: str | None, supported: Collection[Version]) -> Version:
    """Choose the version of a session from a client's ``accept-version`` header.

    Args:
        accept_version: The header's value; None if the client sent none.
        supported: The versions this server supports.

    Returns:
        The highest version that both support.

    Raises:
        RemoteProtocolError: There is no common version.

    Spec: Protocol Negotiation (1.1, 1.2).
    """
    # STOMP 1.2, Protocol Negotiation: a client that sends no accept-version speaks 1.0 only.
    asked = [Version.V1_0.value] if accept_version is None else accept_version.split(",")
    # The specification has no spaces in the list; some clients write them.
    common = [version for item in asked if (version := _named(item.strip(" "), supported)) is not None]
    if not common:
        shown = "no accept-version (so 1.0)" if accept_version is None else f"accept-version {accept_version!r}"
        raise RemoteProtocolError(f"no common version: the client sent {shown}; supported: {_listed(supported)}")
    return max(common)


def negotiate_as_client(version: str | None, offered: Collection[Version]) -> Version:
    """Read the version of a session from the ``version`` header of CONNECTED.

    Args:
        version: The header's value; None if the server sent none, which means 1.0.
        offered: The versions in this client's ``accept-version``.

    Returns:
        The STOMP version.

    Raises:
        RemoteProtocolError: The server chose a version that was not offered.

    Spec: CONNECTED Frame; Protocol Negotiation.
    """
    found = _named(Version.V1_0.value if version is None else version, offered)
    if found is None:
        shown = "no version (so 1.0)" if version is None else f"version {version!r}"
        raise RemoteProtocolError(f"CONNECTED has {shown}, but the client offered only {_listed(offered)}")
    return found
