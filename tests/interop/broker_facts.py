"""The real brokers, and what each is expected to do where they differ: an expectation with the broker's name."""

from __future__ import annotations

import enum
import json
import os
import ssl
import subprocess
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final, TypedDict

from trio_stomp.types import ConnectOptions, ProfileName

__all__ = [
    "BROKERS",
    "SCRIPT",
    "SPRING",
    "Broker",
    "Facts",
    "Nacked",
    "brokers_of",
    "excused",
    "running_brokers",
    "running_spring",
]

SCRIPT: Final = Path(__file__).parents[2] / "scripts" / "brokers"


class Nacked(enum.Enum):
    """What is seen of a NACKed message."""

    REQUEUED = "requeued"
    DEAD_LETTERED = "dead-lettered"
    REFUSED_HERE = "refused by this client, because the broker would drop it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """How one broker behaves.

    Attributes:
        profile: The name of its profile.
        server: How its ``server`` header begins.
        nacked_transient: What becomes of a message that was not sent as persistent.
        nacked_persistent: What becomes of one that was.
        selects: It knows the ``selector`` header.
        refuses_vhosts: It has virtual hosts, and refuses an unknown one.
        says_redelivered: It marks a message that it delivers again.
        ends_session_on_forbidden: A forbidden SEND ends the session; elsewhere it fails alone.
        names_itself_in_1_0: CONNECTED has a ``server`` header even in 1.0; without one the profile has to be named.
        header_names: A header name that it carries unchanged and that has to be escaped on the wire, or None.
        frame_bytes: The longest frame that it takes, or None where no such bound was met.
        websocket_bytes: The longest WebSocket message that it takes, or None where no such bound was met.
        websocket_says_bye: Over a WebSocket, DISCONNECT gets its RECEIPT.
    """

    profile: ProfileName
    server: str
    nacked_transient: Nacked
    nacked_persistent: Nacked
    selects: bool
    refuses_vhosts: bool
    says_redelivered: bool
    ends_session_on_forbidden: bool
    names_itself_in_1_0: bool
    header_names: str | None
    frame_bytes: int | None
    websocket_bytes: int | None
    websocket_says_bye: bool


_RABBITMQ: Final = Facts(
    profile="rabbitmq",
    server="RabbitMQ/3.",
    nacked_transient=Nacked.REQUEUED,
    nacked_persistent=Nacked.REQUEUED,
    selects=False,
    refuses_vhosts=True,
    says_redelivered=True,
    ends_session_on_forbidden=True,
    names_itself_in_1_0=True,
    header_names="a:b\\c",
    frame_bytes=None,
    websocket_bytes=None,
    websocket_says_bye=False,
)

# By the name that `scripts/brokers` has for it.
BROKERS: Final[dict[str, Facts]] = {
    "rabbitmq": _RABBITMQ,
    "rabbitmq4": replace(_RABBITMQ, server="RabbitMQ/4.", frame_bytes=4_194_304, websocket_says_bye=True),
    "activemq": Facts(
        profile="activemq",
        server="ActiveMQ/",
        nacked_transient=Nacked.REFUSED_HERE,
        nacked_persistent=Nacked.DEAD_LETTERED,
        selects=True,
        refuses_vhosts=False,
        says_redelivered=True,
        ends_session_on_forbidden=False,
        names_itself_in_1_0=True,
        # It neither decodes nor encodes header names.
        header_names=None,
        frame_bytes=None,
        websocket_bytes=65_536,
        websocket_says_bye=True,
    ),
    "artemis": Facts(
        profile="artemis",
        server="ActiveMQ-Artemis/",
        nacked_transient=Nacked.REFUSED_HERE,
        nacked_persistent=Nacked.REFUSED_HERE,
        selects=True,
        refuses_vhosts=False,
        # Seen with 2.44: the delivery count is not raised when a consumer closes with messages it never acknowledged.
        says_redelivered=False,
        ends_session_on_forbidden=True,
        names_itself_in_1_0=False,
        header_names="a:b\\c",
        frame_bytes=None,
        websocket_bytes=None,
        websocket_says_bye=True,
    ),
}


# Spring's simple broker has so little of what the others have that its tests are its own.
SPRING: Final = "spring"


class Tls(TypedDict):
    """Where the certificates are."""

    ca: str
    other_ca: str
    client_cert: str
    client_key: str


class Described(TypedDict):
    """What ``scripts/brokers env`` prints of one broker."""

    running: bool
    pid: int | None
    unavailable: str | None
    ports: dict[str, int]
    urls: dict[str, str]
    tls: Tls
    jms_responder: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """One broker that runs.

    Attributes:
        id: Its name in `scripts/brokers`.
        name: The name of its profile, which both RabbitMQs share.
        started: Whether `scripts/brokers` started it, and not docker compose.
        ports: Its ports by what they speak.
        facts: What to expect of it.
        tls: Where the certificates are.
        jms_responder: The command of a JMS service that answers the requests of a queue, but for that queue.
    """

    id: str
    name: ProfileName
    started: bool
    ports: dict[str, int]
    facts: Facts
    tls: Tls
    jms_responder: list[str]

    def url(self, port: str = "stomp", user: str = "guest:guest") -> str:
        """The URL of one of its ports."""
        scheme = {"stomp+ssl": "stomps", "mtls": "stomps", "ws": "ws", "wss": "wss"}.get(port, "stomp")
        path = "/ws" if scheme in ("ws", "wss") else ""
        return f"{scheme}://{user}@127.0.0.1:{self.ports[port]}{path}"

    def options(self, version: str) -> ConnectOptions:
        """What a user has to say to connect in that version."""
        options: ConnectOptions = {"versions": [version]}
        if version == "1.0" and not self.facts.names_itself_in_1_0:
            options["profile"] = self.name
        return options

    def context(self, *, ca: str | None = None, certificate: bool = False) -> ssl.SSLContext:
        """A TLS context that trusts the test authority, or another one."""
        context = ssl.create_default_context(cafile=ca or self.tls["ca"])
        if certificate:
            context.load_cert_chain(self.tls["client_cert"], self.tls["client_key"])
        return context


def brokers_of(*profiles: ProfileName) -> list[str]:
    """The brokers that have one of these profiles."""
    return [name for name, facts in BROKERS.items() if facts.profile in profiles]


def _described(*names: str) -> dict[str, Described]:
    printed = subprocess.run([SCRIPT, "env", *names], check=True, capture_output=True, text=True).stdout
    described: dict[str, Described] = json.loads(printed)
    return described


def _running(*names: str) -> dict[str, Described]:
    return {name: each for name, each in _described(*names).items() if each["running"]}


@cache
def excused(name: str) -> str | None:
    """Why a broker cannot run on this machine, as `scripts/brokers` says; None where it can, and in CI."""
    return None if os.environ.get("CI") else _described(name)[name]["unavailable"]


def running_brokers() -> dict[str, Broker]:
    """Ask ``scripts/brokers`` which brokers run, and where."""
    return {
        name: Broker(
            id=name,
            name=BROKERS[name].profile,
            started=each["pid"] is not None,
            ports=each["ports"],
            facts=BROKERS[name],
            tls=each["tls"],
            jms_responder=each["jms_responder"],
        )
        for name, each in _running(*BROKERS).items()
    }


def running_spring() -> str | None:
    """Ask ``scripts/brokers`` for the URL of Spring's simple broker; None where it does not run."""
    running = _running(SPRING)
    return running[SPRING]["urls"]["ws"] if SPRING in running else None
