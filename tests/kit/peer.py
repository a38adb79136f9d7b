"""A broker that does what it is told: strict about what it gets, deterministic in what it sends.

It speaks through `ServerProtocol`, records every whole frame, keeps a `Ledger`, answers CONNECT and receipts by
itself, and leaves all else to the test, which calls its plain methods from anywhere: nothing of it waits but `serve`
and the `wait_...` methods.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import anyio

from tests.kit.ledger import Complaint, Ledger
from tests.kit.streams import BROKEN, ByteStream, Changes, abort
from trio_stomp.protocol import ALL_VERSIONS, NO_HEART_BEAT, HeartBeatOffer, ServerProtocol, State, Violation
from trio_stomp.types import Command, Frame, Version

__all__ = ["KNOWN", "RABBITMQ", "Peer", "PeerOptions", "Reaction"]

Reaction = Callable[[Frame], None]

# The `server` headers by which the client finds its profiles; UNKNOWN is no header at all.
KNOWN = "trio-stomp-testing/1"
RABBITMQ = "RabbitMQ/3.13"


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerOptions:
    """What sort of broker it is.

    Attributes:
        server: Its ``server`` header, which makes the client choose a profile.
        versions: What it speaks.
        heart_beat: What it offers; it sends its heart-beats only when told to.
        silent: Commands whose receipts it keeps back until `Peer.answer`.
    """

    server: str | None = KNOWN
    versions: tuple[Version, ...] = ALL_VERSIONS
    heart_beat: HeartBeatOffer = NO_HEART_BEAT
    silent: frozenset[Command] = frozenset()


class Peer:
    """The far end of a link.

    Attributes:
        frames: Every whole frame that came, in order.
        ledger: What they come to.
        on: What to do about a command instead of answering its receipt.
        silent: Commands whose receipts are kept back.
        kept_back: The receipts that were, in order.
        ended: Set when the link is gone.
    """

    def __init__(self, stream: ByteStream, options: PeerOptions | None = None) -> None:
        self._stream = stream
        self._options = options or PeerOptions()
        self._protocol = ServerProtocol(versions=self._options.versions)
        self._outgoing = bytearray()
        self._hangs_up = False
        self._changed = Changes()
        self._arrived = Changes()
        self.frames: list[Frame] = []
        self.ledger = Ledger()
        self.on: dict[Command, Reaction] = {}
        self.silent = set(self._options.silent)
        self.kept_back: list[str] = []
        self.ended = anyio.Event()

    # --- what came ------------------------------------------------------------------------------------------------

    @property
    def commands(self) -> list[Command]:
        """The commands of all frames that came."""
        return [frame.command for frame in self.frames]

    @property
    def torn(self) -> bool:
        """Whether the input ends inside a frame."""
        return self._protocol._decoder.pending

    def of(self, command: Command) -> list[Frame]:
        """All frames of one command."""
        return [frame for frame in self.frames if frame.command is command]

    async def wait_for(self, command: Command, count: int = 1) -> Frame:
        """Wait until so many frames of a command have come, and return that one.

        Raises:
            Complaint: The link ended first.
        """
        while len(self.of(command)) < count:
            if self.ended.is_set():
                raise Complaint(f"the link ended before {command} number {count}")
            await self._arrived.wait()
        return self.of(command)[count - 1]

    # --- what to send ---------------------------------------------------------------------------------------------

    def put(self, given: bytes) -> None:
        """Send bytes as they are."""
        self._outgoing += given
        self._changed.tell()

    def send(self, command: Command, headers: list[tuple[str, str]], body: bytes = b"") -> None:
        """Send a frame."""
        self.put(self._protocol.send_frame(command, headers, body))

    def deliver(self, subscription_id: str, body: bytes = b"", headers: list[tuple[str, str]] | None = None) -> str:
        """Send a MESSAGE to a subscription and enter it into the ledger; returns its message-id."""
        delivery = self.ledger.deliver(subscription_id, body)
        own = [("subscription", subscription_id), ("message-id", delivery.message_id), ("destination", "/q")]
        if self._protocol.version is Version.V1_2:
            own.append(("ack", delivery.ack_id))
        self.send(Command.MESSAGE, [*own, *(headers or [])], body)
        return delivery.message_id

    def answer(self, receipt_id: str) -> None:
        """Send a RECEIPT."""
        self.send(Command.RECEIPT, [("receipt-id", receipt_id)])

    def answer_kept_back(self) -> None:
        """Send all receipts that were kept back, in order."""
        for receipt_id in self.kept_back:
            self.answer(receipt_id)
        self.kept_back.clear()

    def error(self, message: str, headers: list[tuple[str, str]] | None = None, body: bytes = b"") -> None:
        """Send an ERROR; the link stays open until `hang_up`."""
        self.send(Command.ERROR, [("message", message), *(headers or [])], body)

    def refuse(self, subscribe: Frame, message: str, *, names: bool) -> None:
        """Refuse a SUBSCRIBE by an ERROR, which names it or not."""
        # What is refused is not there.
        del self.ledger.subscriptions[subscribe.headers["id"]]
        self.error(message, [("receipt-id", subscribe.headers["receipt"])] if names else [])

    def heart_beat(self) -> None:
        """Send one heart-beat."""
        self.put(self._protocol.heart_beat())

    def hang_up(self) -> None:
        """Close the link once all is sent."""
        self._hangs_up = True
        self._changed.tell()

    # --- serving --------------------------------------------------------------------------------------------------

    async def serve(self) -> None:
        """Serve the link until it is gone.

        Raises:
            Complaint: The client broke the rules.
        """
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._write)
                await self._read()
                group.cancel_scope.cancel()
        finally:
            self.ended.set()
            self.ledger.end()
            self._arrived.tell()
            await abort(self._stream)  # noqa: ASYNC102  # it waits for nothing

    async def _read(self) -> None:
        while True:  # noqa: ASYNC913  # each round waits for bytes, or for something to send
            try:
                data = bytes(await self._stream.receive_some())
            except BROKEN:
                return
            if not data:
                return
            for event in self._protocol.receive_data(data):
                if isinstance(event, Violation):
                    raise Complaint(f"the client broke the rules: {event.error}") from event.error
                self._take(event.frame)
            self._arrived.tell()

    async def _write(self) -> None:
        while True:  # noqa: ASYNC913  # each round waits for bytes, or for something to send
            while not self._outgoing and not self._hangs_up:
                await self._changed.wait()
            given = bytes(self._outgoing)
            self._outgoing.clear()
            try:
                await self._stream.send_all(given)
                if self._hangs_up and not self._outgoing:
                    await self._stream.aclose()
                    return
            except BROKEN:
                return

    def _take(self, frame: Frame) -> None:
        self.frames.append(frame)
        self.ledger.take(frame)
        reaction = self.on.get(frame.command)
        if reaction is not None:
            reaction(frame)
        elif frame.command in (Command.CONNECT, Command.STOMP):
            self.accept()
        else:
            self.confirm(frame)

    def accept(self) -> None:
        """Answer CONNECT."""
        headers = [("version", self._protocol.version.value), ("heart-beat", str(self._options.heart_beat))]
        if self._options.server is not None:
            headers.append(("server", self._options.server))
        self.send(Command.CONNECTED, headers)

    def confirm(self, frame: Frame) -> None:
        """Answer a frame's receipt, if it asks for one and its command is not to be kept back."""
        receipt_id = frame.headers.get("receipt")
        if receipt_id is None or self._protocol.state is State.CLOSED:
            return
        if frame.command in self.silent:
            self.kept_back.append(receipt_id)
        else:
            self.answer(receipt_id)
