"""Broker URLs: ``stomp://user:passcode@host:port/vhost`` and ``stomps://`` for TLS."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

from trio_stomp.errors import LocalProtocolError

__all__ = ["Endpoint"]

# 61613 is the port of STOMP at every broker; 61614 is what RabbitMQ and ActiveMQ document for STOMP over TLS.
_DEFAULT_PORTS: Final = {"stomp": 61613, "stomps": 61614}


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One broker address.

    Attributes:
        host: Name or address.
        port: TCP port.
        tls: Whether the URL asks for TLS.
        login: The user named in the URL.
        passcode: The passcode in the URL; never shown.
        vhost: The virtual host named by the path.
    """

    host: str
    port: int
    tls: bool
    login: str | None = None
    passcode: str | None = field(default=None, repr=False)
    vhost: str | None = None

    @classmethod
    def parse(cls, url: str) -> Endpoint:
        """Read a URL.

        The path is the virtual host: ``/test`` is ``test`` and ``/%2Ftest`` is ``/test``, as in AMQP URLs. Special
        characters of user and passcode are percent-encoded.

        Raises:
            LocalProtocolError: It is no such URL. The message never shows the URL, which may hold a passcode.
        """
        expected = "expected stomp://[user:passcode@]host[:port][/vhost], or stomps:// for TLS"
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            # urlsplit's own message quotes what it could not read: a passcode with a raw "/" or "[" may be in it.
            msg = f"the broker URL cannot be read ({expected}); are special characters percent-encoded?"
            raise LocalProtocolError(msg) from None
        if parts.scheme not in _DEFAULT_PORTS:
            msg = f"the broker URL has scheme {parts.scheme!r}; {expected}"
            raise LocalProtocolError(msg)
        if not parts.hostname:
            msg = f"the broker URL names no host; {expected}"
            raise LocalProtocolError(msg)
        if parts.query or parts.fragment:
            msg = f"the broker URL has a '?' or '#' part; {expected}; options are arguments of connect()"
            raise LocalProtocolError(msg)
        vhost = unquote(parts.path.removeprefix("/"))
        return cls(
            host=parts.hostname,
            port=_DEFAULT_PORTS[parts.scheme] if port is None else port,
            tls=parts.scheme == "stomps",
            login=None if parts.username is None else unquote(parts.username),
            passcode=None if parts.password is None else unquote(parts.password),
            vhost=vhost or None,
        )

    def __str__(self) -> str:
        """The address without user and passcode, for messages."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'stomps' if self.tls else 'stomp'}://{host}:{self.port}"
