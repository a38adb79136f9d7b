"""The tasks that serve a connection: reader, writer, heart-beat sender, watchdog, and the requeuing of late messages.

Each returns when the connection has ended. What a task raises ends the connection (see `failures.guarded`), so that
even a mistake in here cannot leave a program waiting forever.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import anyio

from trio_stomp.errors import HeartBeatTimeout
from trio_stomp.protocol import State, Version
from trio_stomp.session.outbox import LAST_WORDS_SECONDS

if TYPE_CHECKING:
    from trio_stomp.session.connection import Connection
    from trio_stomp.session.spool import Spooling

__all__ = ["SERVICES"]

logger: Final = logging.getLogger("trio_stomp")

# One read. Larger chunks carry more frames for each wake-up, the kernel has about 64 KiB ready under load, and as much
# of TLS may decrypt to a record more.
_CHUNK_BYTES: Final = 80 * 1024

# How long consumers may take to settle messages that came before invalid input. The broker redelivers the others.
_HAND_OUT_SECONDS: Final = 5.0
_HAND_OUT_STEP: Final = 0.02

# After this time, the log warns that the broker is alive and takes nothing. A busy one may be slow for seconds.
_STANDSTILL_SECONDS: Final = 30.0

# The watchdog was woken that late: nothing else ran in the meantime either.
_BLOCKED_SECONDS: Final = 1.0

# Send a heart-beat after this part of the agreed interval: ActiveMQ drops a client that is 40 % late.
_EARLY: Final = 2 / 3


async def read(connection: Connection) -> None:
    """Read chunks, decode them and deliver the events; pause while consumers are too slow."""
    receive_some, reading, receipts = connection.receive_some, connection.reading, connection.receipts
    try:
        while connection.failure is None:
            data = bytes(reading.unread or await receive_some(_CHUNK_BYTES))
            reading.unread = b""
            if not data:
                connection.fail(connection.lost(None))
                return
            spooling = connection.spooling
            if spooling is None:
                connection.received(data)
            else:
                await _route_spooled(connection, spooling, data)
            if receipts.has_woken_sender:
                receipts.has_woken_sender = False
                if connection.lends_reads:
                    await reading.offer()
            if connection.violation is not None:
                await _hand_out(connection)
                raise connection.violation
            if connection.gate.is_closed:
                await _hold(connection)
    finally:
        if connection.spooling is not None:
            connection.spooling.close()


async def read_once(connection: Connection) -> None:
    """Read a chunk in place of the reader, in a task that may (`Connection.may_read`).

    Cancellation: nothing was read.
    """
    reading = connection.reading
    data: bytes | bytearray = b""
    reading.take()
    try:
        data = await connection.receive_some(_CHUNK_BYTES)
        if connection.spooling is None and data:
            connection.received(bytes(data))
        else:
            reading.unread = data
    except (KeyboardInterrupt, SystemExit) as error:
        if data:
            # A hook has raised it, the rest of the chunk is lost, and a program that goes on must know.
            connection.fail(connection.lost(error))
        raise
    finally:
        reading.give_back()


async def _route_spooled(connection: Connection, spooling: Spooling, data: bytes) -> None:
    """Decode a chunk and deliver its events; write what belongs into files first.

    In pieces: a body that is complete in one is never offered to a file.
    """
    connection.last_read = connection.now()
    connection.counters.bytes_received += len(data)
    piece_bytes = connection.smallest_threshold
    for start in range(0, len(data), piece_bytes):
        events = connection.protocol.receive_data(data[start : start + piece_bytes])
        while spooling.is_due:
            await spooling.flush()
            if connection.ended.is_set():
                return
            # While we did not read, silence did not mean that the broker was dead.
            connection.last_read = connection.now()
            connection.route(events)
            events = connection.protocol.receive_data(b"")
        connection.route(events)
        if connection.violation is not None:
            return


async def _hand_out(connection: Connection) -> None:
    """Give consumers some time to settle the messages that came before a Violation."""
    with anyio.move_on_after(_HAND_OUT_SECONDS):
        while connection.failure is None and connection.holds_messages:  # noqa: ASYNC110  # settling is a hot path
            await anyio.sleep(_HAND_OUT_STEP)
        # Write their ACKs before the connection is closed.
        await connection.outbox.wait_empty()


async def _hold(connection: Connection) -> None:
    """Stop the reader while buffers exceed their limits, unless a task waits for the broker.

    At the hard limit, what the broker is sure to bring is worth a subscription. A reply is not: it depends on another
    program and may take long, and its timeout ends the wait.
    """
    gate, most = connection.gate, connection.settings.limits.undelivered_bytes
    while gate.is_closed and connection.failure is None:
        if connection.awaits_broker:
            if gate.held_bytes > most:
                _overflow(connection)
            return
        if connection.awaited_replies and gate.held_bytes <= most:
            return
        connection.counters.reads_paused += 1
        await gate.wait_change()
        # While we did not read, silence did not mean that the broker was dead.
        connection.last_read = connection.now()


def _overflow(connection: Connection) -> None:
    """Fail the subscription that holds most, so that the other ones and receipts are served."""
    worst = max(connection.inboxes.values(), key=lambda inbox: inbox.held_bytes)
    worst.overflow(
        f"it holds most of the {connection.gate.held_bytes} bytes that wait on its connection, where the limit "
        f"undelivered_bytes is {connection.settings.limits.undelivered_bytes}"
    )


async def write(connection: Connection) -> None:
    """Write everything in the outbox at once, again and again."""
    try:
        await _write_all(connection)
    except (anyio.BrokenResourceError, OSError):
        # The broker may have said why before it closed, and the reader may not have come to that.
        with anyio.move_on_after(LAST_WORDS_SECONDS):
            await connection.ended.wait()  # noqa: ASYNC120  # canceled, no task is left that wants the reason
        raise


async def _write_all(connection: Connection) -> None:
    stream, outbox, counters = connection.stream, connection.outbox, connection.counters
    writes_now, write_now = connection.writes_now, connection.write_now
    while connection.failure is None:
        data = await outbox.take()
        # A body that its sender left in the middle has ended the connection, and nothing may follow it.
        if connection.ended.is_set():
            return
        taken = write_now(data) if writes_now else 0
        if taken < len(data):
            # Canceled in the middle, this tears a frame; that happens only when the connection is closed.
            await stream.send_all(memoryview(data)[taken:])
        outbox.written()
        connection.last_write = connection.now()
        counters.bytes_sent += len(data)
        counters.writes += 1


async def send_heart_beats(connection: Connection) -> None:
    """Write an end of line whenever nothing else was written for two thirds of the agreed interval."""
    interval = connection.terms.client_sends_seconds * _EARLY
    if not interval or connection.protocol.version is Version.V1_0:
        return
    while connection.failure is None:
        await anyio.sleep_until(connection.last_write + interval)
        if connection.protocol.state is not State.CONNECTED:
            return
        # A write in progress sends bytes to the peer already, and a heart-beat must not come inside a frame.
        await connection.outbox.wait_empty()
        if connection.now() >= connection.last_write + interval:
            connection.counters.heart_beats_sent += 1
            connection.outbox.append(connection.protocol.heart_beat())
            await connection.outbox.wait_empty()  # the interval begins with this write


class _Standstill:
    """Warns in the log, once each time, that the broker has taken nothing for a while.

    Brokers do this to senders when their memory or disk is full, and keep sending heart-beats.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._progress = (0, 0)
        self._since = connection.now()

    def look(self) -> None:
        """Compare with the last time."""
        connection, now = self._connection, self._connection.now()
        unwritten, unconfirmed = connection.unwritten_bytes, len(connection.receipts)
        counters = connection.counters
        # A broker that reads heart-beats need not take messages.
        progress = (counters.writes - counters.heart_beats_sent, counters.receipts_received)
        if progress != self._progress or not (unwritten or unconfirmed):
            self._progress, self._since = progress, now
        elif now >= self._since + _STANDSTILL_SECONDS:
            logger.warning(
                "%s is alive, but has taken nothing for %.0f s: %d bytes are unwritten, and %d receipts have not come. "
                "Brokers stop senders when memory or disk is full, or a queue is at its limit; see the broker's log",
                connection.link.endpoint,
                now - self._since,
                unwritten,
                unconfirmed,
            )
            self._since = math.inf


async def _sleep_until(connection: Connection, due: float) -> None:
    """Sleep, then read what the kernel already holds; if the program has blocked the event loop meanwhile, warn."""
    await anyio.sleep_until(due)
    late = connection.now() - due
    if late > _BLOCKED_SECONDS:
        logger.warning(
            "the program has blocked its event loop for at least %.1f s, and meanwhile %s got no heart-beat; move what "
            "blocks into a thread, for example with anyio.to_thread.run_sync()",
            late,
            connection.link.endpoint,
        )
    # However late: a block that ends just after the time was up has kept the reader from what came before.
    await connection.let_reader_run()


async def watch(connection: Connection) -> None:
    """End the connection when the broker has sent nothing for the agreed interval and its margin."""
    interval = connection.terms.server_sends_seconds
    if not interval:
        return
    patience = interval * connection.settings.heart_beat_margin
    standstill = _Standstill(connection)
    while connection.failure is None:
        standstill.look()
        # If the reader has rested, the last read may be long ago.
        await _sleep_until(connection, max(connection.last_read + patience, connection.now()))
        if connection.reader_rests:
            # We do not read, so we cannot know; the reader restarts the clock when it continues.
            await _sleep_until(connection, connection.now() + patience)
        elif connection.now() >= connection.last_read + patience:
            msg = (
                f"{connection.link.endpoint} sent nothing for {patience:g} s (heart-beat {interval:g} s, "
                f"margin {connection.settings.heart_beat_margin:g})"
            )
            raise HeartBeatTimeout(msg)


async def requeue_late_messages(connection: Connection) -> None:
    """Serve a connection: requeue messages that crossed an UNSUBSCRIBE.

    Cancellation: what was not refused stays locked until the connection ends.
    """
    await connection.unsubscribing.run(connection)


SERVICES: Final[tuple[Callable[[Connection], Awaitable[None]], ...]] = (
    read,
    write,
    send_heart_beats,
    watch,
    requeue_late_messages,
)
