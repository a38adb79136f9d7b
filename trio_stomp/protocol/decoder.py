"""Bytes to frames, incrementally.

Theory of operation. A frame is a head (command and header lines up to a blank line) and a body that ends after
``content-length`` bytes or, without that header, at the first NUL. The head is read line by line by `HeadReader`, the
body is gathered in the pieces in which it came and joined once. The cost is linear: no byte is looked at more than a
fixed number of times, however the input is cut. The pieces of a large body may go into a sink instead; its frame is the
last one of its call, so that the caller can deal with the sink before anything else happens.

That is all there is to decoding. Frames that lie whole within one chunk take a shortcut, `QuickFrames.take`, which
leaves what it does not handle to the above; `accelerate=False` switches it off, and gives the same frames and errors.

An error ends the decoder: the frames before it are delivered, and nothing after it.
Spec: "STOMP Frames", "Augmented BNF", "Header content-length", "Size Limits".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from trio_stomp.errors import LimitExceeded, RemoteProtocolError
from trio_stomp.protocol.frames import (
    BODY_COMMANDS,
    UNESCAPED_COMMANDS,
    BodySink,
    Command,
    Frame,
    Role,
    SpooledFrame,
)
from trio_stomp.protocol.grammar import CR, HANDSHAKE_RULES, LF, NUL, Rules, rules_of
from trio_stomp.protocol.head_reader import Head, HeadReader
from trio_stomp.protocol.header_rules import commands_from
from trio_stomp.protocol.headers import Headers
from trio_stomp.protocol.limits import Limits
from trio_stomp.protocol.quick_frames import QuickFrames
from trio_stomp.protocol.tolerances import STRICT, Tolerances
from trio_stomp.protocol.versions import Version

__all__ = ["Decoder"]

# Twenty digits say any number of bytes that a 64-bit machine can hold; int() of thousands of digits is an attack.
_LENGTH_DIGITS: Final = 20
_UNCOUNTED: Final = -1
_SMALL_PIECE_BYTES: Final = 4096


class Decoder:
    """Turns chunks of bytes into frames.

    Args:
        role: The side that receives: a client decodes the frames of servers.
        version: The STOMP version, or None for a session that starts with its handshake; then call `set_version`
            after the first frame.
        limits: Bounds on what is accepted.
        tolerances: Deviations from the specification to accept.
        receipt_runs: Return consecutive plain RECEIPTs as one `ReceiptRun`, where they lie in one chunk.
        accelerate: Use the shortcut for frames that are complete in one chunk; it only affects the speed.

    Attributes:
        error: The error that ended the decoder, or None.
        open_sink: Called with the headers of a MESSAGE whose body did not come in one chunk, and with the size of that
            body, or of its part so far if it has no ``content-length``. Returns a sink for the body, or None.
    """

    __slots__ = (
        "_accelerate",
        "_body",
        "_body_bytes",
        "_data",
        "_due",
        "_head",
        "_length",
        "_limits",
        "_position",
        "_quick",
        "_reader",
        "_receipt_runs",
        "_role",
        "_sink",
        "_tail",
        "_tolerances",
        "_version",
        "_waiting",
        "error",
        "open_sink",
    )

    def __init__(
        self,
        *,
        role: Role,
        version: Version | None = None,
        limits: Limits | None = None,
        tolerances: Tolerances = STRICT,
        receipt_runs: bool = False,
        accelerate: bool = True,
    ) -> None:
        self._role = role
        self._limits = limits if limits is not None else Limits()
        self._tolerances = tolerances
        self._receipt_runs = receipt_runs
        self._accelerate = accelerate
        self.error: RemoteProtocolError | None = None
        self._data = b""
        self._position = 0
        # A frame whose head is complete and whose body is not: its pieces so far, and how many bytes are due.
        self._head: Head | None = None
        self._length = _UNCOUNTED  # until the first head
        self._body: list[bytes | bytearray | memoryview] = []
        # The last of its pieces, to which further small ones are added.
        self._tail = bytearray()
        self._body_bytes = 0
        # How many bytes of a counted body are due. A shorter chunk can only be a piece of it.
        self._due = 0
        self.open_sink: Callable[[Headers, int], BodySink | None] | None = None
        self._sink: BodySink | None = None
        self._version = version
        # After the first frame of a session: what follows cannot be read before the version is known.
        self._waiting = False
        self._reader = self._new_reader()
        self._quick = self._accelerator()

    def _commands(self) -> dict[str, Command]:
        return commands_from(self._role.peer, self._version, longest_bytes=self._limits.command_bytes)

    def _rules(self) -> Rules:
        return HANDSHAKE_RULES if self._version is None else rules_of(self._version, self._tolerances)

    def _new_reader(self) -> HeadReader:
        return HeadReader(
            commands=self._commands(), limits=self._limits, tolerances=self._tolerances, rules=self._rules()
        )

    def _accelerator(self) -> QuickFrames | None:
        """The shortcut, where there is one: not for the handshake, and not for 1.0, whose padding is trimmed."""
        if not self._accelerate or self._version is None or self._version is Version.V1_0:
            return None
        return QuickFrames(
            commands=self._reader.commands,
            rules=self._reader.rules,
            limits=self._limits,
            receipt_runs=self._receipt_runs,
        )

    def set_version(self, version: Version, tolerances: Tolerances = STRICT) -> None:
        """End the handshake: read what follows by the rules of `version` and with `tolerances`."""
        self._version = version
        self._tolerances = tolerances
        self._waiting = False
        self._reader.configure(commands=self._commands(), tolerances=tolerances, rules=self._rules())
        self._quick = self._accelerator()

    @property
    def pending(self) -> bool:
        """Whether the input so far ends inside a frame."""
        return self.error is None and (self._head is not None or self._reader.inside)

    @property
    def error_in_command(self) -> bool:
        """Whether `error` came where a command should have been."""
        return self.error is not None and self._head is None and self._reader.command is None

    @property
    def heartbeats(self) -> int:
        """Number of line ends outside of frames, including those after a NUL."""
        return self._reader.heartbeats

    def receive_data(self, data: bytes) -> list[Frame]:
        """Add a chunk and return the frames it completes.

        In a handshake it returns after the first frame; call `set_version`, then `receive_data(b"")` for the rest.
        When the input breaks the grammar or a limit, `error` is set, and the frames before the fault are returned.

        Args:
            data: The next bytes of the stream, of any number.

        Returns:
            The frames completed, in order.

        Spec: STOMP Frames.
        """
        size, reader = len(data), self._reader
        # Small chunks mostly end nothing and break nothing. Both cases are written out here, where each of them would
        # be a method of its own, because a call takes as long as all the rest: a third of "small, byte by byte".
        if size < self._due:
            self._due -= size
            if size < _SMALL_PIECE_BYTES:
                self._tail += data
            else:
                self._gather(data)
            return []
        if self.error is not None:
            return []
        if size < reader.room and LF not in data and CR not in data and NUL not in data:
            reader.room -= size
            reader.line += data
            return []
        if self._due:
            self._body_bytes = self._length - self._due
            self._due = 0
        self._data = self._data[self._position :] + data if self._position < len(self._data) else data
        self._position = 0
        frames: list[Frame] = []
        try:
            self._decode(frames)
        except RemoteProtocolError as error:
            # Without its traceback, whose frames would hold the chunk for as long as the error is kept.
            self.error = error.with_traceback(None)
            self._data = b""
            self._body.clear()
            self._tail = bytearray()
            self._sink = None
        return frames

    def _decode(self, frames: list[Frame]) -> None:
        quick, reader = self._quick, self._reader
        while not self._waiting:
            # At the beginning of a frame.
            if quick is not None and self._head is None and reader.command is None and not reader.line:
                self._position = quick.take(self._data, self._position, frames)
                reader.heartbeats += quick.ends_of_line
                if quick.head is not None:
                    self._begin_body(quick.head)
                if self._position == len(self._data):
                    return
                if quick.gave_up:
                    quick = None
            frame = self._next_frame()
            if frame is None:
                return
            frames.append(frame)
            if isinstance(frame, SpooledFrame):
                return
            self._waiting = self._version is None and frame.command in UNESCAPED_COMMANDS

    def _next_frame(self) -> Frame | None:
        head = self._head
        if head is None:
            head, self._position = self._reader.read(self._data, self._position)
            if head is None:
                return None
            self._begin_body(head)
        body = self._take_body(head)
        if body is None:
            return None
        if self._sink is None:
            return Frame(head.command, head.headers, body, head.footprint + len(body))
        sink, self._sink = self._sink, None
        sink.finish()
        return SpooledFrame(head.command, head.headers, sink, head.footprint)

    def _begin_body(self, head: Head) -> None:
        self._head = head
        value = head.headers.get("content-length")
        if value is None:
            self._length = _UNCOUNTED
            return
        if self._version is None:
            # Padding is that of 1.0 until the version is known; `settle` refuses it in the others.
            value = value.strip(" ")
        # Only ASCII digits: str.isdigit alone would take others, and int() signs, spaces and underscores.
        if not (value.isascii() and value.isdigit()):
            raise RemoteProtocolError(
                f"content-length of {head.command.value} must be a number of bytes, got {value[:40]!r}"
            )
        digits = value.lstrip("0")
        self._length = int(digits or "0") if len(digits) <= _LENGTH_DIGITS else 10**_LENGTH_DIGITS
        self._check_body_bytes(head, self._length)

    def _check_body_bytes(self, head: Head, size: int) -> None:
        if size and head.command not in BODY_COMMANDS and not self._reader.rules.body_anywhere:
            raise RemoteProtocolError(f"a {head.command.value} frame has no body, but bytes follow its head")
        if size > self._limits.body_bytes:
            raise LimitExceeded(
                f"body of {head.command.value} is longer than {self._limits.body_bytes} bytes (limit body_bytes)"
            )

    def _take_body(self, head: Head) -> bytes | None:
        """Take what the chunk holds of the body; return it when it is complete, its NUL included.

        The result is empty if the body is in the sink.
        """
        return self._uncounted_body(head) if self._length == _UNCOUNTED else self._counted_body(head)

    def _uncounted_body(self, head: Head) -> bytes | None:
        data, start = self._data, self._position
        nul = data.find(NUL, start)
        end = nul if nul >= 0 else len(data)
        size = self._body_bytes + end - start
        self._check_body_bytes(head, size)
        if nul < 0:
            self._keep(head, start, end, size)
            return None
        return self._finish(head, start, end, size)

    def _counted_body(self, head: Head) -> bytes | None:
        data, start = self._data, self._position
        end = start + self._length - self._body_bytes
        if end >= len(data):
            self._keep(head, start, len(data), self._length)
            return None
        if data[end] != NUL:
            raise RemoteProtocolError(
                f"{head.command.value} frame does not end with a NUL after the {self._length} bytes of its "
                f"content-length: found {data[end : end + 20]!r}"
            )
        return self._finish(head, start, end, self._length)

    def _keep(self, head: Head, start: int, end: int, known: int) -> None:
        """Store a piece of a body that did not come in one chunk, and of which `known` bytes have come or are due."""
        if self._sink is None and self.open_sink is not None:
            self._ask_for_sink(head, known, self.open_sink)
        piece = memoryview(self._data)[start:end]
        if self._sink is not None:
            self._sink.write(piece)
        else:
            self._gather(piece)
        self._body_bytes += end - start
        self._position = len(self._data)
        if self.open_sink is None and self._length != _UNCOUNTED:
            self._due = self._length - self._body_bytes

    def _gather(self, piece: bytes | memoryview) -> None:
        """Store a piece in memory.

        A large one stays in its chunk until the body is joined, so that its bytes are copied once. Small ones are
        joined at once: a body that came in chunks of one byte would take forty times its size.
        """
        if len(piece) < _SMALL_PIECE_BYTES:
            self._tail += piece
            return
        if self._tail:
            self._body.append(self._tail)
            self._tail = bytearray()
        self._body.append(piece)

    def _ask_for_sink(self, head: Head, known: int, open_sink: Callable[[Headers, int], BodySink | None]) -> None:
        sink = open_sink(head.headers, known) if head.command is Command.MESSAGE else None
        if sink is not None:
            for piece in (*self._body, self._tail):
                sink.write(memoryview(piece))
            self._body.clear()
            self._tail = bytearray()
            self._sink = sink

    def _finish(self, head: Head, start: int, end: int, size: int) -> bytes:
        self._head = None
        if self._body_bytes or self._sink is not None:
            self._keep(head, start, end, size)
            body = b"".join((*self._body, self._tail))
            self._body.clear()
            self._tail = bytearray()
            self._body_bytes = 0
        else:
            body = self._data[start:end]
        self._position = end + 1
        return body
