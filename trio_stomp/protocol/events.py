"""The events that the protocol returns."""

from __future__ import annotations

from typing import NamedTuple

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


class Connected(NamedTuple):
    """For a client: the session is connected.

    Attributes:
        frame: The CONNECTED frame.
        version: The STOMP version.
        server: The raw ``server`` header, if any.
        session: The ``session`` header, if any.
        terms: The agreed heart-beat.
    """

    frame: Frame
    version: Version
    server: str | None
    session: str | None
    terms: HeartBeatTerms


@read_only
class MessagesReceived:
    """For a client: consecutive MESSAGEs of one subscription.

    Attributes:
        frames: The MESSAGE frames, at least one.
        subscription_id: Their subscription, which may have just ended; None if they name none and no destination
            matches.
    """

    frames: list[Frame]
    subscription_id: str | None


@read_only
class ReceiptsReceived:
    """For a client: consecutive RECEIPTs.

    Attributes:
        receipt_ids: Their ids. Not every one need have been requested: a server may answer twice, or wrongly.
    """

    receipt_ids: list[str]


class ErrorReceived(NamedTuple):
    """For a client: an ERROR.

    Attributes:
        frame: The ERROR frame.
        fatal: Whether the session ended with it.
    """

    frame: Frame
    fatal: bool

    def as_exception(self) -> BrokerError:
        """Return the exception for this ERROR."""
        headers = self.frame.headers
        message = headers.get("message") or "the broker sent an ERROR without a message header"
        return BrokerError(message=message, headers=headers, body=self.frame.body)


class ConnectRequested(NamedTuple):
    """For a server: a client wants to connect.

    Attributes:
        frame: Its CONNECT or STOMP frame.
        version: The highest version that both support.
        offer: The heart-beat that the client offers.
    """

    frame: Frame
    version: Version
    offer: HeartBeatOffer


@read_only
class FrameReceived:
    """For a server: a frame of a connected client, with all required headers.

    Attributes:
        frame: The frame.
    """

    frame: Frame


class Violation(NamedTuple):
    """For both: the peer broke the rules. This is the last event of a session.

    Attributes:
        error: What the peer did wrong.
        frame: The frame in question, if it could be decoded.
    """

    error: RemoteProtocolError
    frame: Frame | None = None


ClientEvent = Connected | MessagesReceived | ReceiptsReceived | ErrorReceived | Violation
ServerEvent = ConnectRequested | FrameReceived | Violation
