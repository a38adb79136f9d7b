"""Proxies on the way to a broker: what the user names. `tunnels` is what goes through them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from trio_stomp.errors import LocalProtocolError
from trio_stomp.transport.urls import UrlParts

__all__ = ["Proxy"]

_SCHEMES: Final = ("socks5", "http")

# RFC 1929: a length of one octet before each.
_LONGEST_OCTETS: Final = 255

_EXPECTED: Final = "expected socks5://[user:passcode@]host:port, or http:// for HTTP CONNECT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """A proxy.

    Attributes:
        scheme: ``socks5`` or ``http``.
        host: Its name or address.
        port: Its port.
        login: The user it knows.
        passcode: That user's passcode; never shown.
    """

    scheme: str
    host: str
    port: int
    login: str | None = None
    passcode: str | None = field(default=None, repr=False)

    @classmethod
    def parse(cls, url: object) -> Proxy:
        """Read a URL.

        Raises:
            LocalProtocolError: It is no such URL. The message never shows the URL, which may hold a passcode.
        """
        parts = UrlParts.of(url, "proxy URL", _EXPECTED)
        if parts.scheme not in _SCHEMES:
            raise LocalProtocolError(f"the proxy URL has scheme {parts.scheme!r}; {_EXPECTED}")
        # There is no port that proxies agree on.
        if not parts.host or parts.port is None:
            raise LocalProtocolError(f"the proxy URL must name host and port; {_EXPECTED}")
        if parts.path not in ("", "/") or parts.query or parts.has_fragment:
            raise LocalProtocolError(f"the proxy URL has more than host and port; {_EXPECTED}")
        login, passcode = parts.login, parts.passcode
        if parts.scheme == "http" and ":" in (login or ""):
            # Spec: RFC 7617, 2.
            raise LocalProtocolError("the user of an HTTP proxy cannot hold a colon; the proxy URL has one as %3A")
        if parts.scheme == "socks5" and not (_is_sendable(login) and _is_sendable(passcode)):
            msg = f"user and passcode of a SOCKS5 proxy are ASCII, of 1 to {_LONGEST_OCTETS} octets each"
            raise LocalProtocolError(msg)
        if parts.scheme == "socks5" and (login is None) != (passcode is None):
            raise LocalProtocolError("a SOCKS5 proxy wants user and passcode, or neither; the proxy URL has one alone")
        return cls(scheme=parts.scheme, host=parts.host, port=parts.port, login=login, passcode=passcode)

    def __str__(self) -> str:
        """The address without user and passcode, for messages."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


def _is_sendable(text: str | None) -> bool:
    return text is None or (text.isascii() and 0 < len(text) <= _LONGEST_OCTETS)
