"""Knocking: CONNECT on an open stream, and whatever comes back, told apart without judging it."""

from __future__ import annotations

import enum
import ssl
from dataclasses import dataclass
from typing import Final

import trio

from trio_stomp.brokers import profile_for
from trio_stomp.cli.doctor_target import Target
from trio_stomp.protocol import ClientEvent, ClientProtocol, Connected, ErrorReceived, Violation

__all__ = ["Answer", "Kind", "knock"]

_CHUNK_OCTETS: Final = 16 * 1024


class Kind(enum.Enum):
    """What came back.

    Attributes:
        CONNECTED: A CONNECTED frame.
        REFUSED: An ERROR frame.
        STRANGE: Octets that are no STOMP.
        CLOSED: The end of the connection, without a word.
        BROKEN: An error of the connection.
        SILENT: Nothing, for as long as anybody would wait.
    """

    CONNECTED = enum.auto()
    REFUSED = enum.auto()
    STRANGE = enum.auto()
    CLOSED = enum.auto()
    BROKEN = enum.auto()
    SILENT = enum.auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back.

    Attributes:
        kind: What it is.
        seconds: How long it took.
        protocol: The session, which goes on after CONNECTED.
        connected: The event, where it is CONNECTED.
        refusal: The event, where it is an ERROR.
        seen: The first octets.
        error: What broke.
    """

    kind: Kind
    seconds: float
    protocol: ClientProtocol
    connected: Connected | None = None
    refusal: ErrorReceived | None = None
    seen: bytes = b""
    error: Exception | None = None


async def knock(stream: trio.abc.Stream, target: Target, *, with_credentials: bool = True) -> Answer:
    """Send CONNECT, and wait for the answer.

    Args:
        stream: Where to; it stays open.
        target: What to say.
        with_credentials: Say who we are. A mere look at what listens there does not.

    Cancellation: CONNECT may have been sent in part.
    """
    profile = target.profile
    protocol = ClientProtocol(
        versions=target.versions,
        tolerances_for=lambda server: (profile or profile_for(server)).tolerances,
    )
    headers = list(target.headers)
    if with_credentials:
        headers += _credentials(target)
    octets = protocol.connect(host=target.host_header, offer=target.offer, headers=headers)
    started = trio.current_time()

    def answer(kind: Kind, *, event: ClientEvent | None = None, error: Exception | None = None) -> Answer:
        return Answer(
            kind=kind,
            seconds=trio.current_time() - started,
            protocol=protocol,
            connected=event if isinstance(event, Connected) else None,
            refusal=event if isinstance(event, ErrorReceived) else None,
            seen=seen,
            error=error,
        )

    seen = b""
    with trio.move_on_after(target.timeout):
        try:
            await stream.send_all(octets)
            while data := bytes(await stream.receive_some(_CHUNK_OCTETS)):
                seen = (seen + data)[:_CHUNK_OCTETS]
                events = protocol.receive_data(data)
                if events:
                    return answer(_kind(events[0]), event=events[0])
        except trio.BrokenResourceError as error:
            cause = error.__cause__
            return answer(Kind.BROKEN, error=cause if isinstance(cause, ssl.SSLError | OSError) else error)
        return answer(Kind.STRANGE if seen else Kind.CLOSED)
    return answer(Kind.STRANGE if seen.strip() else Kind.SILENT)


def _credentials(target: Target) -> list[tuple[str, str]]:
    doubled = target.profile is not None and target.profile.unescapes_connect
    return [
        (name, value.replace("\\", "\\\\") if doubled else value)
        for name, value in (("login", target.login), ("passcode", target.passcode))
        if value is not None
    ]


def _kind(event: ClientEvent) -> Kind:
    if isinstance(event, Connected):
        return Kind.CONNECTED
    if isinstance(event, ErrorReceived):
        return Kind.REFUSED
    if isinstance(event, Violation):
        return Kind.STRANGE
    # A MESSAGE or RECEIPT before CONNECTED is a Violation already.
    raise AssertionError(event)
