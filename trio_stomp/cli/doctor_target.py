"""What the doctor is to connect to, and as whom."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from typing import Final

from trio_stomp.brokers import Profile, profile_named
from trio_stomp.cli.link_options import LinkOptions
from trio_stomp.client import Endpoint
from trio_stomp.protocol import ALL_VERSIONS, HeartBeatOffer, Version

__all__ = ["Target"]

# Often enough that the first heart-beat of a broker comes while somebody waits; RabbitMQ goes no lower.
_HEART_BEAT: Final = (1.0, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One broker, and how to knock.

    Attributes:
        host: Name or address.
        port: TCP port.
        tls: Whether TLS is asked for.
        login: The user.
        passcode: Its passcode.
        vhost: The virtual host that the user named.
        context: The context for TLS; None: Python's default.
        versions: The versions to offer.
        offer: The heart-beat to offer.
        profile: The broker that the user named.
        headers: More headers of CONNECT.
        timeout: Seconds for each step.
    """

    host: str
    port: int
    tls: bool = False
    login: str | None = None
    passcode: str | None = field(default=None, repr=False)
    vhost: str | None = None
    context: ssl.SSLContext | None = None
    versions: tuple[Version, ...] = ALL_VERSIONS
    offer: HeartBeatOffer = field(default_factory=lambda: HeartBeatOffer.of_seconds(*_HEART_BEAT))
    profile: Profile | None = None
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    timeout: float = 10.0

    @classmethod
    def of(cls, endpoint: Endpoint, options: LinkOptions, passcode: str | None) -> Target:
        """What a URL says, with the options that go before it.

        Args:
            endpoint: The URL.
            options: The options of the command.
            passcode: The passcode, where the URL does not hold it.

        Raises:
            CommandFailed: A file of the options cannot be used.
        """
        return cls(
            host=endpoint.host,
            port=endpoint.port,
            tls=endpoint.tls,
            login=options.login or endpoint.login,
            passcode=endpoint.passcode if passcode is None else passcode,
            vhost=options.vhost or endpoint.vhost,
            context=options.tls(),
            versions=tuple(map(Version, options.stomp_version)) or ALL_VERSIONS,
            offer=HeartBeatOffer.of_seconds(*(options.heart_beat or _HEART_BEAT)),
            profile=None if options.profile is None else profile_named(options.profile),
            headers=options.connect_header,
            timeout=options.connect_timeout,
        )

    @property
    def address(self) -> str:
        """Host and port, for people."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def host_header(self) -> str:
        """The ``host`` header, as `connect` sends it."""
        return self.vhost or "/"
