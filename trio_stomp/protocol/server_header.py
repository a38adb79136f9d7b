"""The ``server`` header of CONNECTED. Spec: "CONNECTED Frame", the grammar of `server`."""

from __future__ import annotations

from dataclasses import dataclass

from trio_stomp.errors import RemoteProtocolError

__all__ = ["ServerInfo"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerInfo:
    """What a broker says of itself.

    Attributes:
        name: Its name, as in ``RabbitMQ``.
        version: Its version, where it tells.
        comments: What follows, by words.
    """

    name: str
    version: str | None = None
    comments: tuple[str, ...] = ()

    @classmethod
    def parse(cls, value: str) -> ServerInfo:
        """Read the header's value: ``name ["/" version] *(" " comment)``.

        Raises:
            RemoteProtocolError: It breaks that grammar. The session need not end for it.

        Spec: CONNECTED Frame.
        """
        product, *comments = value.split(" ")
        name, slash, version = product.partition("/")
        if not name or (slash and not version) or "" in comments:
            msg = f"server header must be name['/'version] and comments after single spaces, got {value[:80]!r}"
            raise RemoteProtocolError(msg)
        return cls(name=name, version=version or None, comments=tuple(comments))
