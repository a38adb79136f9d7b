"""Ports that speak TLS, in memory."""

from __future__ import annotations

import datetime as dt
import ssl
from dataclasses import dataclass
from typing import Self

import trio
import trustme

from tests.cli.fake_network import Port

__all__ = ["Authority"]

HOST = "broker.test"


@dataclass(frozen=True)
class Authority:
    """One that signs certificates.

    Attributes:
        ca: It.
    """

    ca: trustme.CA

    @classmethod
    def new(cls) -> Self:
        return cls(trustme.CA(organization_name="test authority"))

    def trusted(self) -> ssl.SSLContext:
        """The context of a client that trusts it."""
        context = ssl.create_default_context()
        self.ca.configure_trust(context)  # pyright: ignore[reportUnknownMemberType]  # pyOpenSSL is not installed
        return context

    def context(self, host: str = HOST, *, expired: bool = False) -> ssl.SSLContext:
        """The context of a server with a certificate for that host."""
        until = dt.datetime(2001, 1, 1, tzinfo=dt.UTC) if expired else None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.ca.issue_cert(host, not_after=until).configure_cert(context)  # pyright: ignore[reportUnknownMemberType]  # pyOpenSSL is not installed
        return context

    def port(self, inner: Port, context: ssl.SSLContext | None = None) -> Port:
        """What answers behind TLS."""
        shown = context or self.context()

        async def serve(stream: trio.abc.Stream) -> None:
            try:
                await inner(trio.SSLStream(stream, shown, server_side=True, https_compatible=True))
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                await trio.aclose_forcefully(stream)

        return serve
