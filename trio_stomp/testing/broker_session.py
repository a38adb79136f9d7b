"""One connection of the embedded broker: its reader, its writer and its clock, around a `Conversation`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import anyio
import anyio.abc
import anyio.lowlevel

from trio_stomp.protocol import HeartBeatTerms, Version
from trio_stomp.runtime import ByteStream, clock
from trio_stomp.testing.broker_state import BrokerState
from trio_stomp.testing.conversation import Conversation, Stage
from trio_stomp.testing.fault_rules import DropLink, Fault, require_faults
from trio_stomp.testing.faulty_link import FaultyLink
from trio_stomp.testing.session_faults import SessionFaults
from trio_stomp.testing.signals import Signal

__all__ = ["LINK_ERRORS", "BrokerSession"]

_READ_BYTES = 64 * 1024
_WRITE_BYTES = 256 * 1024
# After two thirds of the agreed interval, so that a heart-beat may be a little late.
_BEATS_PER_INTERVAL = 1.5
# How long to wait for a peer that does not read the last frame.
_FLUSH_SECONDS = 5.0
# What a stream of another library raises may be what the system says.
LINK_ERRORS: Final = (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)


class BrokerSession:
    """One connection of the embedded broker; see `Broker.sessions`.

    Args:
        stream: Its stream.
        session_id: Its id.
        state: The state that all sessions share.
        changed: Called after each action.
    """

    def __init__(self, stream: ByteStream, *, session_id: str, state: BrokerState, changed: Callable[[], None]) -> None:
        self.session_id = session_id
        self._state = state
        self._changed = changed
        self._options = state.options
        self._faults = SessionFaults(self._send_receipt_later)
        self._link = FaultyLink(stream, self._faults.link)
        self._conversation = Conversation(
            session_id=session_id, state=state, gate=self._faults, wake=self._output_waits
        )
        self._everything = anyio.CancelScope()
        self._reading = anyio.CancelScope()
        self._nursery: anyio.abc.TaskGroup | None = None
        self._receipts_due = 0
        self._waking = Signal()
        self._written = Signal()
        self._connected = anyio.Event()
        # Asked for each chunk.
        self._now = clock()
        self._writing = False
        self._holding = False
        self._last_read = self._last_write = self._writing_since = 0.0

    # --- inspection -------------------------------------------------------------------------------------------------

    @property
    def connected(self) -> bool:
        """Whether CONNECTED was sent and the session has not ended."""
        return self._conversation.connected

    @property
    def version(self) -> Version:
        """The STOMP version, once connected."""
        return self._conversation.version

    @property
    def login(self) -> str | None:
        """Its user, once connected."""
        admission = self._conversation.admission
        return None if admission is None else admission.login

    @property
    def vhost(self) -> str | None:
        """Its virtual host, once connected; None if the broker has only one."""
        admission = self._conversation.admission
        return None if admission is None else admission.vhost

    @property
    def heart_beat(self) -> HeartBeatTerms:
        """The agreed heart-beat intervals."""
        return self._conversation.terms

    @property
    def subscriptions(self) -> tuple[str, ...]:
        """The destinations of its open subscriptions, the oldest first."""
        commands = self._conversation.commands
        return () if commands is None else tuple(consumer.destination for consumer in commands.consumers)

    @property
    def transactions(self) -> int:
        """Number of its open transactions."""
        commands = self._conversation.commands
        return 0 if commands is None else commands.transactions

    @property
    def output_bytes(self) -> int:
        """Number of bytes that wait to be written."""
        return self._conversation.output_bytes

    def stalled_for(self, seconds: float) -> bool:
        """Return whether its client has read nothing for this many seconds, although there is output."""
        return self._writing and self._now() - max(self._last_write, self._writing_since) >= seconds

    def drop(self) -> None:
        """End it at once, without an ERROR, because its client does not read."""
        self._everything.cancel()

    # --- faults -----------------------------------------------------------------------------------------------------

    def apply(self, rule: Fault) -> None:
        """Set a fault.

        Raises:
            TypeError: It is not a fault.
        """
        require_faults("apply()", [rule])
        if isinstance(rule, DropLink) and rule.after_sent_bytes is None and rule.after_received_bytes is None:
            self._everything.cancel()
        else:
            self._faults.apply(rule, self._link)

    def resume(self) -> None:
        """Let a stalled, half-open or slow link continue."""
        self._faults.link.resume()

    def send_bytes(self, data: bytes) -> None:
        """Write any bytes between two frames."""
        self._conversation.send_bytes(data)

    def send_error(self, message: str, details: str = "", *, receipt_id: str | None = None, close: bool = True) -> None:
        """Send an ERROR."""
        self._conversation.send_error(message, details, receipt_id=receipt_id, close=close)

    # --- life -------------------------------------------------------------------------------------------------------

    async def serve(self) -> None:
        """Serve the connection until it ends.

        Cancellation: the stream is closed at once, and unacknowledged messages are requeued.
        """
        self._last_read = self._last_write = self._now()
        is_flushed = False
        try:
            with self._everything:
                async with anyio.create_task_group() as nursery:
                    self._nursery = nursery
                    nursery.start_soon(self._write)
                    nursery.start_soon(self._keep_time)
                    await self._read()
                    is_flushed = await self._flush()
                    # Nothing is written any more: a heart-beat would meet the end that is being sent.
                    self._nursery = None
                    nursery.cancel_scope.cancel()
                if is_flushed:
                    self._conversation.mute()
                    await self._linger()
        finally:
            self._nursery = None
            self._conversation.end()
            self._conversation.mute()
            await anyio.aclose_forcefully(self._link)

    async def _read(self) -> None:
        conversation = self._conversation
        # If the session has ended meanwhile, this scope is canceled already.
        with self._reading:
            while conversation.stage is not Stage.CLOSING:
                await self._room_for_answers()
                try:
                    data = await self._link.receive_some(_READ_BYTES)
                except LINK_ERRORS:
                    data = b""
                if not data:
                    conversation.end()
                    return
                self._last_read = self._now()
                for _ in conversation.turns(data):
                    self._note_turn()
                    await self._room_for_answers()
                    await anyio.lowlevel.checkpoint()
                self._note_turn()

    def _note_turn(self) -> None:
        if self._conversation.connected:
            self._connected.set()
        else:
            self._answer_connect()
        self._changed()

    async def _room_for_answers(self) -> None:
        """Wait while the client does not read its answers, so that they cannot fill the memory."""
        while self._conversation.output_bytes >= self._options.outbox_bytes:
            self._holding = True
            await self._written.wait()
        self._holding = False

    def _answer_connect(self) -> None:
        """Answer CONNECT as a fault says, if there is one."""
        answer, conversation = self._faults.answer, self._conversation
        if answer is None or conversation.stage is Stage.CLOSING:
            return
        if answer.error is not None:
            conversation.send_error(answer.error)
            return
        if answer.data:
            conversation.send_bytes(answer.data)
        if answer.close:
            conversation.close()

    async def _flush(self) -> bool:
        """Write what is left; return whether that is done."""
        while self._receipts_due:
            await self._written.wait()
        with anyio.move_on_after(_FLUSH_SECONDS) as flushing:
            while self._conversation.output_bytes or self._writing:
                await self._written.wait()
        return not flushing.cancelled_caught

    async def _linger(self) -> None:
        """Give the client time to read what was written: rows 12-LING-1, 1x-LING-2."""
        with anyio.move_on_after(self._options.linger):
            try:
                if self._link.can_send_eof:
                    await self._link.send_eof()
                    while await self._link.receive_some(_READ_BYTES):
                        pass
                else:
                    await self._link.aclose()
            except LINK_ERRORS:
                pass

    # --- writing ----------------------------------------------------------------------------------------------------

    def _output_waits(self) -> None:
        self._waking.notify()
        if self._conversation.stage is Stage.CLOSING:
            self._reading.cancel()

    async def _write(self) -> None:
        conversation = self._conversation
        while True:
            if conversation.output_bytes:
                await anyio.lowlevel.checkpoint()
            else:
                await self._waking.wait()
            while conversation.output_bytes:
                self._writing = True
                self._writing_since = self._now()
                try:
                    await self._write_piece(conversation.take_output())
                except LINK_ERRORS:
                    # Continue: frames that the client sent before it closed are still read.
                    conversation.mute()
                self._writing = False
                self._last_write = self._now()
                conversation.relieved()
                self._written.notify()
                self._changed()

    async def _write_piece(self, data: bytes) -> None:
        if len(data) <= _WRITE_BYTES:
            await self._link.send_all(data)
        else:
            # TLS copies all its input, and progress is visible only between two calls.
            with memoryview(data) as view:
                for start in range(0, len(data), _WRITE_BYTES):
                    await self._link.send_all(view[start : start + _WRITE_BYTES])
                    self._last_write = self._now()
        self._state.statistics.sent_bytes += len(data)

    def _send_receipt_later(self, seconds: float, receipt_id: str) -> None:
        if self._nursery is not None:
            self._receipts_due += 1
            self._nursery.start_soon(self._late_receipt, seconds, receipt_id)

    async def _late_receipt(self, seconds: float, receipt_id: str) -> None:
        await anyio.sleep(seconds)
        self._conversation.send_receipt(receipt_id)
        self._receipts_due -= 1
        self._written.notify()

    # --- time -------------------------------------------------------------------------------------------------------

    async def _keep_time(self) -> None:
        with anyio.move_on_after(self._options.connect_timeout):
            await self._connected.wait()
        if not self._connected.is_set():
            if self._faults.answer is None and not self._link.resting:
                self._conversation.send_error(
                    "no CONNECT frame", f"nothing came within {self._options.connect_timeout} seconds"
                )
            return
        terms = self._conversation.terms
        beat_every = terms.server_sends_seconds / _BEATS_PER_INTERVAL
        dead_after = terms.client_sends_seconds * self._options.heart_beat_grace
        last_beat = 0.0
        while beat_every or dead_after:
            now = self._now()
            if self._link.resting or self._holding:
                self._last_read = now  # our own doing, not the client's silence
            next_beat = max(self._last_write, last_beat) + beat_every if beat_every else float("inf")
            if now >= next_beat:
                self._conversation.heart_beat()
                last_beat, next_beat = now, now + beat_every
            death = self._last_read + dead_after if dead_after else float("inf")
            if now >= death:
                self._conversation.send_error("heart-beat missing", f"no byte came for {dead_after} seconds")
                return
            await anyio.sleep_until(min(next_beat, death))
