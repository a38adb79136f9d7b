"""The server's side of a session, sans-IO: bytes to events, answers to bytes. Spec: "Server Frames"."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from trio_stomp.errors import LocalProtocolError, RemoteProtocolError
from trio_stomp.protocol.decoder import Decoder
from trio_stomp.protocol.encoder import encode_frame, encode_heart_beat
from trio_stomp.protocol.events import ConnectRequested, FrameReceived, ServerEvent, Violation
from trio_stomp.protocol.frames import Command, Frame, Role
from trio_stomp.protocol.handshake import settle
from trio_stomp.protocol.header_rules import missing_header
from trio_stomp.protocol.heartbeat_terms import HeartBeatOffer
from trio_stomp.protocol.limits import Limits
from trio_stomp.protocol.transitions import Session, State
from trio_stomp.protocol.versions import ALL_VERSIONS, Version

__all__ = ["ServerProtocol"]


class ServerProtocol:
    """One session, from the server's side.

    Args:
        versions: The versions this server supports.
        limits: Bounds on what the client may send.
        require_host: Refuse a CONNECT of 1.1 or 1.2 without ``host``. Row 1x-CONN-16: the rule binds clients, and
            brokers accept it, so it is off.
        individual_acks_in_1_0: Accept ``ack:client-individual`` in 1.0 too, as RabbitMQ, ActiveMQ Classic and Artemis
            do.

    Attributes:
        version: The STOMP version; before CONNECT, the highest that this server supports.
    """

    def __init__(
        self,
        *,
        versions: Collection[Version] = ALL_VERSIONS,
        limits: Limits | None = None,
        require_host: bool = False,
        individual_acks_in_1_0: bool = False,
    ) -> None:
        if not versions:
            raise LocalProtocolError("at least one version of STOMP must be supported")
        self._versions = tuple(sorted(versions))
        self._violated = False
        # Frames behind a CONNECT that is not answered yet: how the input is cut must make no difference.
        self._pending: list[Frame] = []
        self._require_host = require_host
        self._individual_acks_in_1_0 = individual_acks_in_1_0
        self._decoder = self._new_decoder(limits)
        self._session = Session(Role.SERVER)
        self.version: Version = self._versions[-1]

    def _new_decoder(self, limits: Limits | None) -> Decoder:
        return Decoder(role=Role.SERVER, limits=limits)

    @property
    def state(self) -> State:
        """The state of the session."""
        return self._session.state

    @property
    def pending(self) -> bool:
        """Whether the input so far ends inside a frame."""
        return self._decoder.pending

    @property
    def supported(self) -> str:
        """The versions this server supports, as for the ``version`` header of an ERROR."""
        return ",".join(self._versions)

    def send_frame(
        self,
        command: Command,
        headers: Sequence[tuple[str, str]],
        body: bytes = b"",
        *,
        content_length: bool = True,
    ) -> bytes:
        """Encode CONNECTED, MESSAGE, RECEIPT or ERROR.

        Raises:
            LocalProtocolError: The frame may not be sent now, or is invalid in the STOMP version.

        Spec: Server Frames.
        """
        frame = self.encode(command, headers, body, content_length=content_length)
        self._session.step(Role.SERVER, command)
        return frame

    def encode(
        self,
        command: Command,
        headers: Sequence[tuple[str, str]],
        body: bytes = b"",
        *,
        content_length: bool = True,
    ) -> bytes:
        """Encode a frame as `send_frame` does, whether or not it may be sent now.

        Raises:
            LocalProtocolError: The frame is invalid in the STOMP version.
        """
        return encode_frame(command, headers, body, version=self.version, add_content_length=content_length)

    def heart_beat(self) -> bytes:
        """Encode a heart-beat.

        Spec: Heart-beating.
        """
        return encode_heart_beat(self.version)

    def close(self) -> None:
        """End the session: ignore further input, and drop an unfinished frame."""
        self._session.close()
        self._pending = []
        self._decoder = self._new_decoder(None)

    def receive_data(self, data: bytes) -> list[ServerEvent]:
        """Return the events in the client's bytes.

        Args:
            data: The next bytes of the stream.

        Returns:
            The events, in order. A Violation is the last one; after it, the session can only send an ERROR. Frames
            after a DISCONNECT are violations too. Nothing follows a ConnectRequested until it is answered. Then call
            this again without bytes, for frames that the client sent after CONNECT without waiting.

        Spec: Client Frames.
        """
        events: list[ServerEvent] = []
        if self.state is State.CLOSED or self._violated:
            return events
        frames = [*self._pending, *self._decoder.receive_data(data)]
        self._pending = []
        for number, frame in enumerate(frames):
            if self._session.state is State.CONNECTING:
                self._pending = frames[number:]
                return events
            try:
                events.append(self._event(frame))
            except RemoteProtocolError as error:
                self._violated = True
                events.append(Violation(error=error, frame=frame))
                return events
        if self._decoder.error is not None:
            self._violated = True
            events.append(Violation(error=self._decoder.error))
        return events

    def _event(self, frame: Frame) -> ServerEvent:
        self._session.step(Role.CLIENT, frame.command)
        if frame.command in (Command.CONNECT, Command.STOMP):
            return self._connect(frame)
        missing = missing_header(frame, self.version)
        if missing == "ack" and self._individual_acks_in_1_0 and frame.headers.get("ack") == "client-individual":
            missing = None
        self._require(missing)
        return FrameReceived(frame=frame)

    def _connect(self, frame: Frame) -> ConnectRequested:
        frame = self._agree(frame)
        missing = missing_header(frame, self.version)
        if missing != "host" or self._require_host:
            self._require(missing)
        return ConnectRequested(
            frame=frame, version=self.version, offer=HeartBeatOffer.parse(frame.headers.get("heart-beat"))
        )

    def _agree(self, frame: Frame) -> Frame:
        """Settle the version; return the CONNECT as that version reads it."""
        self.version, frame = settle(frame, self._versions)
        self._decoder.set_version(self.version)
        return frame

    def _require(self, missing: str | None) -> None:
        if missing is not None:
            raise RemoteProtocolError(
                f"the frame must have the header {missing} in STOMP {self.version.value}, with a value it allows"
            )
