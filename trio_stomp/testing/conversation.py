"""One client's session at the broker, sans-IO: octets in, octets out, and when to close.

A `broker_session` drives it: feeds it what the link brings, writes what `take_output` gives, and closes the link when
`closing` is set and all is written. Spec: "Connecting", "Standard Headers" (receipt), "ERROR".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from trio_stomp.errors import LimitExceeded, LocalProtocolError
from trio_stomp.protocol import (
    Command,
    ConnectRequested,
    DraftServerProtocol,
    Frame,
    FrameReceived,
    HeartBeatOffer,
    HeartBeatTerms,
    ServerProtocol,
    State,
    Version,
    Violation,
    encode_frame,
)
from trio_stomp.testing.broker_commands import Commands
from trio_stomp.testing.broker_state import Admission, BrokerState
from trio_stomp.testing.deliveries import Consumer
from trio_stomp.testing.destinations import StoredMessage
from trio_stomp.testing.refusals import Refusal

__all__ = ["Conversation", "Gate"]

_NO_HEART_BEAT = HeartBeatTerms(client_sends_ms=0, server_sends_ms=0)
Pairs = Sequence[tuple[str, str]]
# A body of this size is written by itself, without a copy of it for each session.
_LARGE_BYTES: Final = 64 * 1024


class Gate(Protocol):
    """Where fault injection may step in."""

    def answers_connect(self) -> bool:
        """Whether CONNECT gets an answer of the gate's own, which it then gives by itself."""
        ...

    def receipts(self, command: Command, receipt_id: str) -> Sequence[str]:
        """The receipts to send when this one is due; the gate may send more later."""
        ...


class Conversation:
    """A session.

    Args:
        session_id: Its id.
        state: What it shares with the others.
        gate: Where faults step in.
        wake: Called when there is output after there was none, or when `closing` is set.

    Attributes:
        ready: Whether it takes messages: it is connected, and its output is not too long.
        ack_ids: Whether its MESSAGE frames carry an ``ack`` header.
        own_ack_ids: Whether that differs from the message-id.
        closing: The last frame is in the output; no input is looked at any more.
        terms: The heart-beat agreed upon.
        admission: Who it is, once connected.
    """

    def __init__(self, *, session_id: str, state: BrokerState, gate: Gate, wake: Callable[[], None]) -> None:
        options = state.options
        self.session_id = session_id
        self._state = state
        self._options = options
        self._statistics = state.statistics
        self._gate = gate
        self._wake = wake
        if options.draft:
            self._protocol: ServerProtocol = DraftServerProtocol(limits=options.limits, individual_acks_in_1_0=True)
        else:
            self._protocol = ServerProtocol(
                versions=options.versions,
                limits=options.limits,
                require_host=options.require_host,
                individual_acks_in_1_0=True,
            )
        self._commands: Commands | None = None
        self._memory = state.memory
        # Output in the order of writing: large bodies with what goes before each, then the frames behind them.
        self._pieces: deque[bytes] = deque()
        self._output: list[bytes] = []
        self._output_bytes = 0
        self._outbox_bytes = options.outbox_bytes
        # What `take_output` gave last, and is being written.
        self._taken_bytes = 0
        self._waiting: dict[Consumer, None] = {}
        self._muted = False
        self._unanswered = False
        self._unfinished = 0
        self.ready = False
        self.closing = False
        self.ack_ids = self.own_ack_ids = False
        self.terms = _NO_HEART_BEAT
        self.admission: Admission | None = None

    @property
    def version(self) -> Version:
        """The version in force, once connected."""
        return self._protocol.version

    @property
    def connected(self) -> bool:
        """Whether it was let in and has not ended."""
        return self._commands is not None

    @property
    def commands(self) -> Commands | None:
        """Its subscriptions and transactions, while it is connected."""
        return self._commands

    # --- output -----------------------------------------------------------------------------------------------------

    @property
    def output_bytes(self) -> int:
        """How much waits to be written."""
        return self._output_bytes

    def take_output(self) -> bytes:
        """The next piece to be written: all there is, or up to a large body, or that body. `relieved` must follow."""
        if self._pieces:
            taken = self._pieces.popleft()
        else:
            taken = b"".join(self._output)
            self._output.clear()
        self._output_bytes -= len(taken)
        self._taken_bytes += len(taken)
        if self._output_bytes < self._outbox_bytes:
            self.ready = self._commands is not None and not self.closing and not self._muted
        return taken

    def mute(self) -> None:
        """The link takes no more octets: output is thrown away from now on. What still comes in is done all the same.

        Row 12-RECEIPT-4: frames received before a disconnect continue to be processed.
        """
        self._muted = True
        self.ready = False
        octets = self._output_bytes + self._taken_bytes
        self._output_bytes = self._taken_bytes = 0
        self._pieces.clear()
        self._output.clear()
        self._give_room(octets)

    def _give_room(self, octets: int) -> None:
        """Octets of output are gone; others may have waited for their room."""
        output = self._memory.output
        was_full = output.full
        output.used -= octets
        if was_full and not output.full:
            self._state.dispatch()

    def _append(self, octets: bytes, large: bytes = b"") -> None:
        """Add octets to the output, and behind them a large body, which is written by itself."""
        if self._muted:
            return
        if not self._output_bytes:
            self._wake()
        self._output.append(octets)
        size = len(octets)
        if large:
            size += len(large)
            self._pieces += (b"".join(self._output), large)
            self._output.clear()
        self._output_bytes += size
        output = self._memory.output
        output.used += size
        if self._output_bytes >= self._outbox_bytes:
            self.ready = False
        if output.used >= output.limit:
            self._state.output_full()

    def _send(self, command: Command, headers: Pairs, body: bytes = b"") -> None:
        self._statistics.sent[command] += 1
        if len(body) < _LARGE_BYTES:
            # As the real brokers do: some clients, as that of PHP, read a frame up to the end of line behind it.
            self._append(self._protocol.send_frame(command, headers, body) + b"\n")
            return
        # A large body is not copied for each of its readers.
        head = self._protocol.send_frame(command, headers)
        self._append(head.removesuffix(b"\n\0") + b"content-length:%d\n\n" % len(body), body)
        self._append(b"\0\n")

    def forget_input(self) -> None:
        """Of the frame that came in part nothing is kept."""
        self._set_unfinished(0)

    def send_bytes(self, octets: bytes) -> None:
        """Write octets as they are: for faults."""
        self._append(octets)

    def heart_beat(self) -> None:
        """Write a heart-beat, unless other octets wait to be written anyway."""
        if not self._output_bytes and not self.closing:
            self._append(self._protocol.heart_beat())

    def send_receipt(self, receipt_id: str) -> None:
        """Write a RECEIPT; none after the last frame.

        Spec: RECEIPT.
        """
        if not self._over:
            self._send(Command.RECEIPT, [("receipt-id", receipt_id)])

    def send_error(
        self, message: str, details: str = "", *, headers: Pairs = (), receipt_id: str | None = None, close: bool = True
    ) -> None:
        """Write an ERROR; with `close` it is the last frame. The session's messages go back.

        Spec: ERROR.
        """
        if self._over:
            return
        # A line end in a header is not for 1.0.
        pairs = [("message", " ".join(message.split())), ("content-type", "text/plain"), *headers]
        if receipt_id is not None and self._carries(("receipt-id", receipt_id)):
            pairs.append(("receipt-id", receipt_id))
        self._send(Command.ERROR, pairs, (details or message).encode())
        if close:
            self.close()

    @property
    def _over(self) -> bool:
        return self._protocol.state is State.CLOSED

    def close(self) -> None:
        """End the session: no frame follows in either direction, and what it held goes back."""
        self._protocol.close()
        self.end()
        self.closing = True
        self._wake()

    def end(self) -> None:
        """The session is over, for whatever reason: abort its transactions, give back its messages."""
        self.ready = False
        self._waiting.clear()
        self._set_unfinished(0)
        commands, self._commands = self._commands, None
        if commands is not None and self.admission is not None:
            commands.end()
            self.admission.namespace.end_session(self.session_id, self.admission.client_id)
        if self.admission is not None:
            self.admission.namespace.dirty.dispatch()

    def relieved(self) -> None:
        """What was taken is written: messages that waited for it may follow."""
        octets, self._taken_bytes = self._taken_bytes, 0
        self._give_room(octets)
        if self._waiting and self.ready and self.admission is not None:
            waiting, self._waiting = self._waiting, {}
            for consumer in waiting:
                consumer.wake()
            self.admission.namespace.dirty.dispatch()

    def wake_later(self, consumer: Consumer) -> None:
        """Wake a consumer when output was written."""
        self._waiting[consumer] = None

    def deliver(self, consumer: Consumer, message: StoredMessage, ack_id: str | None) -> None:
        """Write a MESSAGE.

        Spec: MESSAGE.
        """
        destination = consumer.destination
        if message.share is not None and consumer.source.pattern is not None:
            destination = message.share.destination
        pairs = [("message-id", message.message_id), ("destination", destination)]
        if consumer.subscription_id is not None:
            pairs.append(("subscription", consumer.subscription_id))
        if ack_id is not None:
            pairs.append(("ack", ack_id))
        if message.deliveries > 1:
            pairs += [("redelivered", "true"), ("delivery-count", str(message.deliveries))]
        # Behind ours, because the first of repeated headers counts.
        pairs += message.headers
        try:
            self._send(Command.MESSAGE, pairs, message.body)
        except LocalProtocolError:
            # A header that this version cannot carry, as a line end in 1.0: the message comes without it.
            self._send(Command.MESSAGE, [pair for pair in pairs if self._carries(pair)], message.body)

    def _carries(self, pair: tuple[str, str]) -> bool:
        try:
            encode_frame(Command.MESSAGE, [pair], version=self.version)
        except LocalProtocolError:
            return False
        return True

    # --- input ------------------------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """Take octets of the client, and do what their frames ask for."""
        self._statistics.received_bytes += len(data)
        if self._unanswered:
            return
        events = self._protocol.receive_data(data)
        if self._unfinished or self._protocol.pending:
            self._count_unfinished(len(data), complete=bool(events))
        while events:
            for event in events:
                if self.closing:
                    return
                if isinstance(event, FrameReceived):
                    self._execute(event.frame)
                elif isinstance(event, ConnectRequested):
                    self._connect(event)
                else:
                    self._violated(event)
            # Frames that came behind a CONNECT wait in the protocol until it is answered.
            events = self._protocol.receive_data(b"") if isinstance(events[-1], ConnectRequested) else []
        if self.admission is not None:
            self.admission.namespace.dirty.dispatch()

    def _count_unfinished(self, received: int, *, complete: bool) -> None:
        """Account for the frame that has come in part; past the limit, the session with the largest one ends."""
        if not self._protocol.pending:
            self._set_unfinished(0)
            return
        # Behind a complete frame, no more than the last octets can be part of another.
        self._set_unfinished(received if complete else self._unfinished + received)
        self._state.bound_unfinished()

    def _set_unfinished(self, octets: int) -> None:
        self._memory.unfinished.used += octets - self._unfinished
        self._unfinished = octets
        if octets:
            self._state.unfinished[self] = octets
        else:
            self._state.unfinished.pop(self, None)

    def _execute(self, frame: Frame) -> None:
        command, commands = frame.command, self._commands
        if commands is None:
            return
        self._statistics.received[command] += 1
        receipt = frame.headers.get("receipt")
        try:
            commands.handlers[command](frame)
            # STOMP 1.2, RECEIPT: sent "once a server has successfully processed a client frame".
            if receipt is not None:
                for receipt_id in self._gate.receipts(command, receipt):
                    self._send(Command.RECEIPT, [("receipt-id", receipt_id)])
        except Refusal as refusal:
            self._refuse(refusal, frame, receipt)
        except LocalProtocolError as error:
            self._refuse(Refusal("receipt refused", str(error)), frame, None)
        else:
            if command is Command.DISCONNECT:
                self.end()
                self.closing = True
                self._wake()

    def _refuse(self, refusal: Refusal, frame: Frame, receipt: str | None) -> None:
        # Row 1x-ERR-5: the ERROR shows the frame; str() of a frame never shows a passcode.
        self.send_error(
            refusal.message,
            f"{refusal.details}\n-----\n{frame}",
            headers=refusal.headers,
            receipt_id=receipt,
            # Rows 12-ERR-2, 11-SEND-6, 1x-SUB-4.
            close=not self._options.errors_leave_open,
        )

    def _violated(self, event: Violation) -> None:
        message = "limit exceeded" if isinstance(event.error, LimitExceeded) else "protocol error"
        details = str(event.error)
        receipt = None
        # Rows 12-NEG-4, 1x-NEG-5: an ERROR about the version lists those that are supported.
        headers = () if self._commands is not None else (("version", self._protocol.supported),)
        if event.frame is not None:
            details = f"{details}\n-----\n{event.frame}"
            receipt = event.frame.headers.get("receipt")
        self.send_error(message, details, headers=headers, receipt_id=receipt)

    def _connect(self, event: ConnectRequested) -> None:
        frame, options = event.frame, self._options
        self._statistics.received[frame.command] += 1
        if self._gate.answers_connect():
            self._unanswered = True
            return
        try:
            admission = self._state.admit(frame.headers, self.session_id)
        except Refusal as refusal:
            # Row 1x-CONN-3. Whatever a broker does after other errors, nobody goes on without a session.
            self.send_error(
                refusal.message, refusal.details, receipt_id=frame.headers.get("receipt"), headers=refusal.headers
            )
            return
        self.admission = admission
        self.ack_ids = event.version is Version.V1_2
        self.own_ack_ids = self.ack_ids and not options.ack_is_message_id
        self._commands = Commands(
            session_id=self.session_id,
            version=event.version,
            namespace=admission.namespace,
            sink=self,
            options=options,
            client_id=admission.client_id or admission.login,
            may_send=admission.login not in options.read_only,
        )
        self._greet(event)
        self.ready = not self._muted

    def _greet(self, event: ConnectRequested) -> None:
        offer = HeartBeatOffer.of_seconds(*self._options.heart_beat)
        headers = [("version", event.version.value), ("session", self.session_id)]
        if self._options.server is not None:
            headers.append(("server", self._options.server))
        if event.version is not Version.V1_0:
            headers.append(("heart-beat", str(offer)))
            self.terms = HeartBeatTerms.agree(client=event.offer, server=offer)
        self._send(Command.CONNECTED, headers)
