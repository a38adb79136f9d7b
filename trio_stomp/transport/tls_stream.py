"""A TLS client over any stream of bytes, on every event loop that anyio supports.

Theory of operation. OpenSSL works on two buffers in memory and never sees the network: this class moves ciphertext
between those buffers and the stream below. It has no task of its own. Two tasks may use it at a time, one that receives
and one that sends.

*Reading.* Only one task at a time reads from the stream below, nearly always the one that receives. It takes one
chunk and decrypts all records in it at once. A sender reads only if OpenSSL needs input to go on, which happens in a
renegotiation (TLS 1.2); if another task reads already, it waits for that task's chunk. A chunk is in OpenSSL's buffer
as soon as it is read, so a canceled task loses nothing.

*Writing.* Only the task that holds `_sending` takes ciphertext from OpenSSL's buffer, and it goes on until that
buffer is empty. So the order on the wire is the order of encryption, for the bytes of both tasks. A write that was cut
off ends all sending: an unknown part of a record has been sent, and nothing can follow it.

*Writing at once.* `write_now` encrypts a short piece and hands the record to the stream below. What that does not take
goes back into OpenSSL's buffer, ahead of everything else. The data counts as written then, except for its last byte: so
the caller comes with `send_all`, which writes the rest of the record and leaves out that byte.

*Answers.* Receiving may leave something to send. If a task is sending, that task sends it too, and the receiver does
not wait: a peer may refuse to read while it sends, as brokers do in an alarm. If no task is sending, it depends. An
answer to a KeyUpdate stays in the buffer and leaves with the next data or with close_notify. Spec: RFC 8446, 4.6.3:
it must be sent before the next application data, and not earlier. A renegotiation, or a certificate that is asked for
after the handshake, is sent at once, since the peer waits for it.

*Memory.* OpenSSL's input buffer holds one chunk at most, its output buffer one piece of the data to send and
`_ANSWER_BYTES` of answers.

trio.SSLStream and anyio's TLSStream decrypt one record per call. With a record for each message, that made receiving
over TLS four to eight times as expensive as without it.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from contextlib import suppress
from enum import Enum, auto
from types import TracebackType
from typing import Final, TypeVarTuple

import anyio
import anyio.lowlevel

from trio_stomp.runtime import ByteStream
from trio_stomp.transport.diagnosis import HINT_BYTES

__all__ = ["TlsStream"]

Arguments = TypeVarTuple("Arguments")

# Ciphertext to take at once from the stream below.
_CHUNK_BYTES: Final = 64 * 1024

# Spec: RFC 8446, 5.1: a record has at most 2^14 bytes of data.
_RECORD_BYTES: Final = 16 * 1024

# All the data that one chunk can bring, since the first of its records may have begun in an earlier one.
_MOST_BYTES: Final = _CHUNK_BYTES + _RECORD_BYTES

# Data to encrypt before it is written: 16 records.
_PIECE_BYTES: Final = 256 * 1024

# Answers that may wait to be sent: those to about 600 KeyUpdates. Then receiving waits too.
_ANSWER_BYTES: Final = 16 * 1024

# Time to tell the peer why its handshake was refused.
_ALERT_SECONDS: Final = 1.0


class _Stage(Enum):
    NEW = auto()
    OPEN = auto()
    CLOSED = auto()


class _Turn:
    """What one task at a time may do; to ask costs less than a lock of anyio.

    Attributes:
        is_taken: Whether a task does it.
    """

    __slots__ = ("_released", "is_taken")

    def __init__(self) -> None:
        self.is_taken = False
        self._released: anyio.Event | None = None

    def __enter__(self) -> None:
        self.is_taken = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.is_taken = False
        if self._released is not None:
            # All who wait wake up and look again, so a cancellation cannot lose a wake-up.
            self._released.set()
            self._released = None

    async def next_release(self) -> None:
        """Wait until the task that does it is done. Then another one may have begun."""
        if self._released is None:
            self._released = anyio.Event()
        await self._released.wait()


class TlsStream(ByteStream):
    """The client's side of a TLS connection. Await `do_handshake` first.

    Args:
        transport: What carries the connection. It is closed with it.
        context: Certificates, versions and ciphers.
        server_hostname: The name that the server's certificate must have, which is also sent to the server.

    Attributes:
        transport: The stream below.
        ssl_object: OpenSSL's side, for questions such as ``getpeercert()`` and ``cipher()``.
        first_bytes: The first bytes that the peer sent, up to `HINT_BYTES`: what it speaks if that is not TLS.
    """

    def __init__(self, transport: ByteStream, context: ssl.SSLContext, *, server_hostname: str | None = None) -> None:
        self.transport = transport
        self.writes_now = transport.writes_now
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self.ssl_object = context.wrap_bio(self._incoming, self._outgoing, server_hostname=server_hostname)
        self.first_bytes = b""
        self._asks_certificate_later = context.post_handshake_auth
        self._answers_wait = False
        self._stage = _Stage.NEW
        self._failure: ssl.SSLError | None = None
        # Tasks of the caller: a second one that does the same is an error.
        self._receiver = anyio.ResourceGuard("receiving from")
        self._sender = anyio.ResourceGuard("sending to")
        # The stream below: the other task waits.
        self._reading = _Turn()
        self._sending = _Turn()
        # Whether OpenSSL may have input that it has not decrypted.
        self._has_input = False
        # Decrypted, and not received yet.
        self._data = b""
        self._is_at_end = False
        # Whether a write was cut off, or is under way.
        self._is_torn = False
        # Whether `write_now` has encrypted the first byte of the next data already.
        self._is_ahead = False
        # How much of a record that `write_now` has begun is not written yet.
        self._left_over = 0

    # --- handshake ------------------------------------------------------------------------------------------------

    async def do_handshake(self) -> None:
        """Agree on keys, and verify the peer's certificate.

        Raises:
            anyio.BrokenResourceError: It failed; the cause is an `ssl.SSLError`, or the error of the stream below.

        Cancellation: the handshake is not done. Close the stream.
        """
        with self._receiver, self._sender, self._sending:
            self._refuse(_Stage.NEW)
            try:
                await self._complete(self.ssl_object.do_handshake)
            except anyio.BrokenResourceError:
                await self._send_alert()  # noqa: ASYNC120  # canceled, no task wants the reason
                raise
            await self._flush()
            self._answers_wait = self.ssl_object.version() == "TLSv1.3" and not self._asks_certificate_later
            # A receiver that has to answer may tear a record when it is canceled, as senders often are.
            self.lends_reads = self.transport.lends_reads and self._answers_wait
            self._stage = _Stage.OPEN

    async def _send_alert(self) -> None:
        """Tell the peer why, if OpenSSL has words for it and the peer listens."""
        if not self._is_torn:
            with anyio.move_on_after(_ALERT_SECONDS), suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                await self._flush()

    async def _complete(self, step: Callable[[*Arguments], object], *arguments: *Arguments) -> None:
        """Repeat a step of OpenSSL's until it needs nothing more from the peer. The caller holds `_sending`."""
        while True:  # noqa: ASYNC913  # ends, or waits for the stream below
            try:
                step(*arguments)
            except ssl.SSLWantReadError:
                if self._outgoing.pending:
                    # Then look again: another task may have brought the input in the meantime.
                    await self._flush()
                else:
                    await self._read_chunk()
                    self._raise_failure()
            except ssl.SSLError as error:
                self._failure = error
                self._raise_failure()
            else:
                return

    # --- receiving ------------------------------------------------------------------------------------------------

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Receive at least one byte; empty means that the peer has sent close_notify.

        Args:
            max_bytes: The most to receive. Default: everything that has come.

        Raises:
            anyio.BrokenResourceError: The connection broke. The cause is an `ssl.SSLEOFError` where the stream below
                ended without close_notify, an `ssl.SSLError` for an alert and for bytes that are not TLS.
            anyio.ClosedResourceError: It is closed.
            anyio.BusyResourceError: Another task is receiving.

        Cancellation: nothing has been received. In a renegotiation, nothing may be sent after that.
        """
        most = _MOST_BYTES if max_bytes is None else max_bytes
        if most < 1:
            raise ValueError("max_bytes must be at least 1")
        with self._receiver:
            self._refuse(_Stage.OPEN)
            if self._has_input or self._data or self._is_at_end:
                # What follows may not wait for anything.
                await anyio.lowlevel.checkpoint()
            while True:  # noqa: ASYNC913  # ends, or waits for the stream below
                if self._has_input and not self._data:
                    self._decrypt(most)
                if self._outgoing.pending and self._failure is None:
                    await self._answer()
                if self._data:
                    data, self._data = self._data[:most], self._data[most:]
                    return data
                if self._is_at_end:
                    return b""
                self._raise_failure()
                if not self._has_input:
                    await self._read_chunk()

    def _decrypt(self, most: int) -> None:
        """Take data out of all records that are there, up to `most` bytes."""
        read, incoming, pending = self.ssl_object.read, self._incoming, self.ssl_object.pending
        parts: list[bytes] = []
        self._has_input = False
        try:
            # To ask costs a tenth of the exception that tells that nothing is left.
            while incoming.pending or pending():
                if not most:
                    self._has_input = True
                    break
                part = read(min(most, _RECORD_BYTES))
                if not part:
                    self._is_at_end = True
                    break
                parts.append(part)
                most -= len(part)
        except ssl.SSLWantReadError:
            # The rest of a record has not come, or it held no data.
            pass
        except ssl.SSLZeroReturnError:
            self._is_at_end = True
        except ssl.SSLError as error:
            # Raised when what came before it has been received.
            self._failure = error
        self._data = parts[0] if len(parts) == 1 else b"".join(parts)

    async def _read_chunk(self) -> None:
        """Give OpenSSL one more chunk, or wait until another task has done so or was canceled."""
        if self._reading.is_taken:
            await self._reading.next_release()
            return
        with self._reading:
            chunk = await self.transport.receive_some(_CHUNK_BYTES)
        if self._stage is _Stage.NEW:
            self.first_bytes += chunk[: HINT_BYTES - len(self.first_bytes)]
        if chunk:
            self._incoming.write(chunk)
            self._has_input = True
        else:
            # OpenSSL's own verdict depends on OP_IGNORE_UNEXPECTED_EOF, which some versions of Python set.
            self._failure = _truncated()

    async def _answer(self) -> None:
        """Send what OpenSSL has to say by itself, unless it may wait or another task sends it."""
        may_wait = self._answers_wait or self._sending.is_taken
        if self._is_ahead or (may_wait and self._outgoing.pending <= _ANSWER_BYTES):
            return
        # A write that failed ends sending, not receiving: the peer may have said why before.
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self._turn_to_send()
            with self._sending:
                if self._is_torn:
                    # It can never be sent.
                    self._outgoing.read()
                await self._flush()

    # --- sending --------------------------------------------------------------------------------------------------

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt and send bytes.

        Raises:
            anyio.BrokenResourceError: The connection broke, or an earlier call was canceled in the middle.
            anyio.ClosedResourceError: It is closed.
            anyio.BusyResourceError: Another task is sending.

        Cancellation: nothing has been sent, or an unknown part; in the second case nothing more can be sent.
        """
        with self._sender:
            self._refuse(_Stage.OPEN)
            # Canceled already: raise before a record is under way.
            await anyio.lowlevel.checkpoint_if_cancelled()
            await self._turn_to_send()
            with self._sending:
                self._raise_failure()
                self._refuse_torn()
                rest = memoryview(data)
                if self._is_ahead:
                    rest, self._is_ahead = rest[1:], False
                    await self._flush()
                while rest:
                    piece, rest = rest[:_PIECE_BYTES], rest[_PIECE_BYTES:]
                    await self._complete(self.ssl_object.write, piece)
                    await self._flush()
                    # The next piece may have to wait for the peer first.
                    self._is_torn = bool(rest)

    def write_now(self, data: bytes, /) -> int:
        """Encrypt and write a short piece of data at once; see "writing at once" above."""
        if (
            len(data) > _RECORD_BYTES
            or self._stage is not _Stage.OPEN
            or self._sending.is_taken
            or self._is_torn
            or self._is_ahead
            or self._failure is not None
        ):
            return 0
        try:
            taken = self.ssl_object.write(data)
        except ssl.SSLError:
            # A renegotiation needs input first, or it is broken: `send_all` begins with the same data.
            return 0
        ciphertext = self._outgoing.read()
        written = self.transport.write_now(ciphertext)
        if written < len(ciphertext):
            self._outgoing.write(ciphertext[written:])
            self._is_ahead = True
            self._left_over = len(ciphertext) - written
            taken -= 1
        return taken

    @property
    def unwritten_bytes(self) -> int:
        """How much has been taken that is not written yet, at least: the stream below may hold some of it."""
        return max(self._left_over, self.transport.unwritten_bytes)

    async def _turn_to_send(self) -> None:
        while self._sending.is_taken:
            await self._sending.next_release()

    async def _flush(self) -> None:
        """Write all ciphertext. The caller holds `_sending`, and has seen that nothing is torn."""
        was_torn, self._is_torn = self._is_torn, True
        while ciphertext := self._outgoing.read():
            await self.transport.send_all(ciphertext)
        self._is_torn = was_torn
        self._left_over = 0

    # --- closing --------------------------------------------------------------------------------------------------

    async def wait_writable(self) -> None:
        """Wait until the stream below can probably take some bytes without waiting.

        Cancellation: nothing has happened.
        """
        await self.transport.wait_writable()

    def abandon(self) -> None:
        """Close the socket in a forked process and send nothing."""
        self.transport.abandon()

    async def aclose(self) -> None:
        """Send close_notify, without waiting for the peer's, and close the stream below.

        While another task is sending, there is no close_notify.

        Cancellation: the stream below is closed all the same.
        """
        was_open, self._stage = self._stage is _Stage.OPEN, _Stage.CLOSED
        try:
            if was_open and not self._sending.is_taken and not self._is_torn:
                await self._say_goodbye()
        finally:
            # A stream closes also when canceled, so this needs no shield.
            await self.transport.aclose()  # noqa: ASYNC102  # see above

    async def _say_goodbye(self) -> None:
        with suppress(ssl.SSLError):
            # It writes close_notify, and then looks for the peer's, which may not have come.
            self.ssl_object.unwrap()
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError), self._sending:
            await self._flush()

    # --- what is wrong --------------------------------------------------------------------------------------------

    def _refuse(self, wanted: _Stage) -> None:
        if self._stage is wanted:
            return
        if self._stage is _Stage.CLOSED:
            raise anyio.ClosedResourceError("this TLS stream is closed")
        raise RuntimeError("do_handshake() comes first, and once")

    def _refuse_torn(self) -> None:
        if self._is_torn:
            raise anyio.BrokenResourceError("an earlier write was cut off, so nothing can follow it")

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise anyio.BrokenResourceError(str(self._failure)) from self._failure


def _truncated() -> ssl.SSLEOFError:
    return ssl.SSLEOFError(ssl.SSL_ERROR_EOF, "the connection ended without close_notify")
