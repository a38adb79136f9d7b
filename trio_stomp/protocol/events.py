"""What the protocol tells the side that drives it."""

from __future__ import annotations

from dataclasses import dataclass

from trio_stomp.errors import BrokerError, RemoteProtocolError
from trio_stomp.protocol.frames import Frame
from trio_stomp.protocol.heartbeat_terms import HeartBeatOffer, HeartBeatTerms
from trio_stomp.protocol.read_only import read_only
from trio_stomp.protocol.versions import Version

__all__ = [
    "ClientEvent",
    "ConnectRequested",
    "Connected",
    "ErrorReceived",
    "FrameReceived",
    "MessagesReceived",
    "ReceiptsReceived",
    "ServerEvent",
    "Violation",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Connected:
    """To a client: the session stands.

    Attributes:
        frame: The CONNECTED frame.
        version: The version in force.
        server: The raw ``server`` header, where there is one.
        session: The ``session`` header, where there is one.
        terms: The heart-beat agreed upon.
    """

    frame: Frame
    version: Version
    server: str | None
    session: str | None
    terms: HeartBeatTerms


@read_only
class MessagesReceived:
    """To a client: MESSAGEs for one subscription, with nothing else between them.

    Attributes:
        frames: The MESSAGE frames, at least one.
        subscription_id: The subscription they are for, which may be one that has just ended; None where they name none
            and no destination matches.
    """

    frames: list[Frame]
    subscription_id: str | None


@read_only
class ReceiptsReceived:
    """To a client: RECEIPTs, with nothing else between them.

    Attributes:
        receipt_ids: The receipts that were asked for, or anything else: a server may answer twice, or wrongly.
    """

    receipt_ids: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorReceived:
    """To a client: an ERROR.

    Attributes:
        frame: The ERROR frame.
        fatal: Whether the session ended with it.
    """

    frame: Frame
    fatal: bool

    def as_exception(self) -> BrokerError:
        """The frame as the exception that carries it."""
        headers = self.frame.headers
        message = headers.get("message") or "the broker sent an ERROR without a message header"
        return BrokerError(message=message, headers=headers, body=self.frame.body)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectRequested:
    """To a server: a client wants a session.

    Attributes:
        frame: Its CONNECT or STOMP frame.
        version: The highest version that both speak.
        offer: What the client offers as heart-beat.
    """

    frame: Frame
    version: Version
    offer: HeartBeatOffer


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameReceived:
    """To a server: a frame of a connected client, with all headers that it must have.

    Attributes:
        frame: The frame.
    """

    frame: Frame


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """To both: the peer broke the rules. It is the last event of a session.

    Attributes:
        error: What it did.
        frame: The frame that did it, where one could be read.
    """

    error: RemoteProtocolError
    frame: Frame | None = None


ClientEvent = Connected | MessagesReceived | ReceiptsReceived | ErrorReceived | Violation
ServerEvent = ConnectRequested | FrameReceived | Violation
