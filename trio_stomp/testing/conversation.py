"""One client's session at the broker, sans-IO: bytes in, bytes out, and when to close.

`BrokerSession` drives it: it passes on what the link receives, writes what `take_output` returns, and closes the link
once the stage is `CLOSING` and all output is written. Spec: "Connecting", "Standard Headers" (receipt), "ERROR".
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol

from trio_stomp.errors import LimitExceeded, LocalProtocolError
from trio_stomp.protocol import (
    NO_HEART_BEAT,
    Command,
    ConnectRequested,
    DraftServerProtocol,
    Frame,
    FrameReceived,
    HeartBeatOffer,
    ServerProtocol,
    State,
    Version,
    Violation,
)
from trio_stomp.testing.broker_commands import Commands
from trio_stomp.testing.broker_state import Admission, BrokerState
from trio_stomp.testing.deliveries import Consumer
from trio_stomp.testing.destinations import TURN, StoredMessage
from trio_stomp.testing.refusals import Refusal

__all__ = ["Conversation", "Gate", "Stage"]

Pairs = Sequence[tuple[str, str]]
# A body of this size is written by itself, because several sessions may share it.
_LARGE_BYTES: Final = 64 * 1024
# The shortest frames have some thirty bytes: at most a few hundred of them, which take some milliseconds.
_TURN_BYTES: Final = 8 * 1024


class Gate(Protocol):
    """The faults of a session."""

    def answers_connect(self) -> bool:
        """Whether a fault answers CONNECT in place of the conversation."""
        ...

    def receipts(self, command: Command, receipt_id: str) -> Sequence[str]:
        """The receipts to send in place of this one; a fault may send more later."""
        ...


class Stage(enum.Enum):
    """The stages of a session. It never returns to an earlier one."""

    OPENING = "waits for CONNECT"
    UNANSWERED = "ignores its input, because a fault has answered CONNECT"
    CONNECTED = "executes frames"
    ENDED = "ignores its input, and may still send an ERROR"
    CLOSING = "has its last frame in the output"


# Looked up for each frame; as attributes of the enum they cost more.
_CONNECTED: Final = Stage.CONNECTED
_CLOSING: Final = Stage.CLOSING


class Conversation:
    """A session.

    Args:
        session_id: The id of the session.
        state: What all sessions share.
        gate: The faults of the session.
        wake: Called when there is output after there was none, and at the stage `CLOSING`.

    Attributes:
        stage: The stage of the session.
        ready: Whether it takes messages: it is connected, and its output is not too long.
        ack_ids: Whether its MESSAGE frames have an ``ack`` header.
        own_ack_ids: Whether that differs from the message-id.
        terms: The negotiated heart-beat.
        admission: The user and virtual host, once connected.
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
        # Output in order: first large bodies with what goes before each, then the frames behind them.
        self._pieces: deque[bytes] = deque()
        self._output: list[bytes] = []
        self._output_bytes = 0
        self._outbox_bytes = options.outbox_bytes
        # Taken, and not written yet.
        self._taken_bytes = 0
        self._waiting: dict[Consumer, None] = {}
        self._muted = False
        self._unfinished = 0
        self.stage = Stage.OPENING
        self.ready = False
        self.ack_ids = self.own_ack_ids = False
        self.terms = NO_HEART_BEAT.agree(server=NO_HEART_BEAT)
        self.admission: Admission | None = None

    @property
    def version(self) -> Version:
        """The STOMP version, once connected."""
        return self._protocol.version

    @property
    def connected(self) -> bool:
        """Whether CONNECTED was sent and the session has not ended."""
        return self.stage is _CONNECTED

    @property
    def commands(self) -> Commands | None:
        """Its subscriptions and transactions, while it is connected."""
        return self._commands

    # --- output -----------------------------------------------------------------------------------------------------

    @property
    def output_bytes(self) -> int:
        """The number of bytes that wait to be written."""
        return self._output_bytes

    def take_output(self) -> bytes:
        """Take the next piece to write; call `relieved` once it is written."""
        if self._pieces:
            taken = self._pieces.popleft()
        else:
            taken = b"".join(self._output)
            self._output.clear()
        self._output_bytes -= len(taken)
        self._taken_bytes += len(taken)
        if self._output_bytes < self._outbox_bytes:
            self.ready = self.stage is _CONNECTED and not self._muted
        return taken

    def mute(self) -> None:
        """Discard output from now on, because the link is broken.

        Row 12-RECEIPT-4: frames received before that are still executed.
        """
        self._muted = True
        self.ready = False
        size = self._output_bytes + self._taken_bytes
        self._output_bytes = self._taken_bytes = 0
        self._pieces.clear()
        self._output.clear()
        self._give_room(size)

    def _give_room(self, size: int) -> None:
        """Stop charging for output, and deliver what has waited for room."""
        output = self._memory.output
        was_full = output.full
        output.used -= size
        if was_full and not output.full:
            self._state.dispatch()

    def _append(self, data: bytes, large: bytes = b"") -> None:
        """Add bytes to the output, and behind them a large body."""
        if self._muted:
            return
        if not self._output_bytes:
            self._wake()
        self._output.append(data)
        size = len(data)
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
        # In the draft, a head without its body would have the length 0.
        if len(body) < _LARGE_BYTES or self._options.draft:
            # As real brokers do: some clients (PHP's) read a frame up to the end of line behind it.
            self._append(self._protocol.send_frame(command, headers, body) + b"\n")
            return
        # Without a copy of the body.
        head = self._protocol.send_frame(command, headers)
        self._append(head.removesuffix(b"\n\0") + b"content-length:%d\n\n" % len(body), body)
        self._append(b"\0\n")

    def forget_input(self) -> None:
        """Stop charging for a frame that was received in part."""
        self._set_unfinished(0)

    def send_bytes(self, data: bytes) -> None:
        """Send raw bytes, for faults."""
        self._append(data)

    def heart_beat(self) -> None:
        """Send a heart-beat, unless there is other output."""
        if not self._output_bytes and self.stage is not _CLOSING:
            self._append(self._protocol.heart_beat())

    def send_receipt(self, receipt_id: str) -> None:
        """Send a delayed RECEIPT, unless the last frame was sent.

        Spec: RECEIPT.
        """
        if not self._over:
            self._send(Command.RECEIPT, [("receipt-id", receipt_id)])

    def send_error(
        self, message: str, details: str = "", *, headers: Pairs = (), receipt_id: str | None = None, close: bool = True
    ) -> None:
        """Send an ERROR, which ends the session unless `close` is false.

        Spec: ERROR.
        """
        if self._over:
            return
        # Without line ends, which 1.0 cannot send in a header.
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
        """End the session: no frame follows in either direction."""
        self._protocol.close()
        self._finish()

    def _finish(self) -> None:
        self.end()
        self.stage = _CLOSING
        self._wake()

    def end(self) -> None:
        """Abort the transactions of the session and give back its messages. It executes no further frames."""
        if self.stage is not _CLOSING:
            self.stage = Stage.ENDED
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
        """Note that what was taken is written, and deliver what has waited for that."""
        size, self._taken_bytes = self._taken_bytes, 0
        self._give_room(size)
        if self._waiting and self.ready and self.admission is not None:
            waiting, self._waiting = self._waiting, {}
            for consumer in waiting:
                consumer.wake()
            self.admission.namespace.dirty.dispatch()

    def wake_later(self, consumer: Consumer) -> None:
        """Wake a consumer once output is written."""
        self._waiting[consumer] = None

    def deliver(self, consumer: Consumer, message: StoredMessage, ack_id: str | None) -> None:
        """Send a MESSAGE.

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
        # The sender's last, because the first of repeated headers counts.
        pairs += message.headers
        try:
            self._send(Command.MESSAGE, pairs, message.body)
        except LocalProtocolError:
            # Without the headers that this version cannot encode: a line end in 1.0, for example.
            self._send(Command.MESSAGE, [pair for pair in pairs if self._carries(pair)], message.body)

    def _carries(self, pair: tuple[str, str]) -> bool:
        try:
            self._protocol.encode(Command.MESSAGE, [pair])
        except LocalProtocolError:
            return False
        return True

    # --- input ------------------------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """Take bytes of the client and execute its frames."""
        for _ in self.turns(data):
            pass

    def turns(self, data: bytes) -> Iterator[None]:
        """Take bytes of the client and execute its frames. Between two turns, others should be served.

        The end of a turn depends on its bytes, which bound its frames, and on the work of the queues.
        """
        self._statistics.received_bytes += len(data)
        for start in range(0, len(data), _TURN_BYTES):
            if start:
                yield
            if self.stage is Stage.UNANSWERED:
                return
            yield from self._execute_in_turns(data[start : start + _TURN_BYTES])

    def _execute_in_turns(self, data: bytes) -> Iterator[None]:
        events = self._protocol.receive_data(data)
        if self._unfinished or self._protocol.pending:
            self._count_unfinished(len(data), complete=bool(events))
        dirty = None if self.admission is None else self.admission.namespace.dirty
        end = 0 if dirty is None else dirty.work + TURN
        while events:
            for event in events:
                if self.stage is _CLOSING:
                    return
                if isinstance(event, FrameReceived):
                    self._execute(event.frame)
                elif isinstance(event, ConnectRequested):
                    self._connect(event)
                else:
                    self._violated(event)
                if dirty is not None and dirty.work >= end:
                    dirty.dispatch()
                    yield
                    end = dirty.work + TURN
            # Frames behind a CONNECT wait in the protocol until it is answered.
            events = self._protocol.receive_data(b"") if isinstance(events[-1], ConnectRequested) else []
        if self.admission is not None:
            self.admission.namespace.dirty.dispatch()

    def _count_unfinished(self, received: int, *, complete: bool) -> None:
        """Charge for the frame received in part."""
        if not self._protocol.pending:
            self._set_unfinished(0)
            return
        # Behind a complete frame, only bytes of this chunk can be part of another.
        self._set_unfinished(received if complete else self._unfinished + received)
        self._state.bound_unfinished()

    def _set_unfinished(self, size: int) -> None:
        self._memory.unfinished.used += size - self._unfinished
        self._unfinished = size
        if size:
            self._state.unfinished[self] = size
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
                self._finish()

    def _refuse(self, refusal: Refusal, frame: Frame, receipt: str | None) -> None:
        # Row 1x-ERR-5: the ERROR shows the frame, without its passcode.
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
        headers = () if self.connected else (("version", self._protocol.supported),)
        if event.frame is not None:
            details = f"{details}\n-----\n{event.frame}"
            receipt = event.frame.headers.get("receipt")
        self.send_error(message, details, headers=headers, receipt_id=receipt)

    def _connect(self, event: ConnectRequested) -> None:
        frame, options = event.frame, self._options
        self._statistics.received[frame.command] += 1
        if self._gate.answers_connect():
            self.stage = Stage.UNANSWERED
            return
        try:
            admission = self._state.admit(frame.headers, self.session_id)
        except Refusal as refusal:
            # Row 1x-CONN-3. This ends the connection even with `errors_leave_open`.
            self.send_error(
                refusal.message, refusal.details, receipt_id=frame.headers.get("receipt"), headers=refusal.headers
            )
            return
        self.admission = admission
        self.ack_ids = event.version is Version.V1_2
        same = options.ack_is_message_id
        self.own_ack_ids = self.ack_ids and not (
            admission.namespace.imitation.ack_is_message_id if same is None else same
        )
        self._commands = Commands(
            session_id=self.session_id,
            version=event.version,
            namespace=admission.namespace,
            sink=self,
            options=options,
            client_id=admission.client_id or admission.login,
            may_send=admission.login not in options.read_only,
        )
        self.stage = _CONNECTED
        self._greet(event)
        self.ready = not self._muted

    def _greet(self, event: ConnectRequested) -> None:
        offer = HeartBeatOffer.of_seconds(*self._options.heart_beat)
        headers = [("version", event.version.value), ("session", self.session_id)]
        if self._options.server is not None:
            headers.append(("server", self._options.server))
        if event.version is not Version.V1_0:
            headers.append(("heart-beat", str(offer)))
            self.terms = event.offer.agree(server=offer)
        self._send(Command.CONNECTED, headers)
