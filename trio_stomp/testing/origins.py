"""The web pages that may use a broker over WebSocket: browsers let every page connect, so the server has to choose.

Spec: RFC 6455, 10.2 "Origin Considerations"; RFC 6454, 4 "Origin of a URI" and 7 "The HTTP Origin Header Field".
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

__all__ = ["ANY_ORIGIN", "NO_ORIGIN", "Origin", "is_welcome"]

# In the option: every page; and pages without an origin of their own, such as files and sandboxed frames.
ANY_ORIGIN: Final = "*"
NO_ORIGIN: Final = "null"

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_SPELLING: Final = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<host>[^][\s/?#@:\\]+|\[[0-9a-f:.]+])(?::(?P<port>[0-9]{1,5}))?", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a page.

    Attributes:
        scheme: ``http`` or ``https``, for example.
        host: Its host in lower case; an IP address in its usual spelling.
        port: Its port; None where the scheme has no default.
    """

    scheme: str
    host: str
    port: int | None

    @classmethod
    def parse(cls, text: str) -> Origin | None:
        """Read an origin such as ``http://localhost:3000``; None if the text is not an origin."""
        found = _SPELLING.fullmatch(text)
        if found is None:
            return None
        scheme, port = found["scheme"].lower(), found["port"]
        return cls(scheme, _usual(found["host"]), _DEFAULT_PORTS.get(scheme) if port is None else int(port))


def _usual(host: str) -> str:
    address = _address(host)
    return host.lower() if address is None else str(address)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None


def is_welcome(given: Collection[str], *, host: str, listens_on: str, tls: bool, allowed: Collection[str]) -> bool:
    """Whether an opening handshake may come from where it says.

    Args:
        given: Its ``Origin`` headers; programs that are no browsers send none.
        host: Its ``Host`` header.
        listens_on: The host that the broker listens on.
        tls: Whether it came over TLS.
        allowed: The origins that are allowed besides the broker's own.
    """
    if not given or ANY_ORIGIN in allowed:
        return True
    # A second header is no browser's.
    text = next(iter(given)) if len(given) == 1 else ""
    if text == NO_ORIGIN:
        return NO_ORIGIN in allowed
    origin = Origin.parse(text)
    if origin is None:
        return False
    own = Origin.parse(f"{'https' if tls else 'http'}://{host}")
    return (origin == own and _is_own(origin.host, listens_on)) or origin in map(Origin.parse, allowed)


def _is_own(host: str, listens_on: str) -> bool:
    """Whether no other site can have that name. DNS rebinding: a page's own name may lead to this machine."""
    return host in {"localhost", _usual(listens_on)} or _address(host) is not None
