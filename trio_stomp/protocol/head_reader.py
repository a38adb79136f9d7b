"""The head of a frame, line by line.

A line is judged by the byte at which it goes wrong, not by the chunk in which that byte came, so that an input gives
the same frames and the same error however it is cut. The cost is linear: each byte is looked at once when its chunk
comes and once when its line is complete.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from trio_stomp.errors import LimitExceeded, RemoteProtocolError
from trio_stomp.protocol.frames import HEADER_BYTES, MESSAGE_BYTES, WIDEST, Command
from trio_stomp.protocol.grammar import CR, LF, NUL, Rules, escapes_of, unescape
from trio_stomp.protocol.headers import Headers
from trio_stomp.protocol.limits import Limits
from trio_stomp.protocol.redaction import REDACTED, is_secret_header
from trio_stomp.protocol.tolerances import Tolerances

__all__ = ["Head", "HeadReader"]

_SHOWN: Final = 60


@dataclass(slots=True)
class Head:
    """The command and headers of a frame whose body is still to come, and their footprint in memory."""

    command: Command
    headers: Headers
    footprint: int


class HeadReader:
    """Reads command and header lines out of chunks.

    Args:
        commands: The commands the peer may send, by the text of the command line.
        limits: Bounds on lines and their number.
        tolerances: Deviations from the specification to accept.
        rules: How the lines of this session are read.

    Attributes:
        command: The command of the frame whose head is being read, or None.
        heartbeats: Ends of line read outside of frames.
        line: The part of the unfinished line that has come.
        room: Fewer bytes than this may be added to the line unseen, if there is no CR, LF or NUL among them.
    """

    __slots__ = (
        "_footprint",
        "_limits",
        "_pairs",
        "_scanned",
        "_tolerances",
        "command",
        "commands",
        "heartbeats",
        "line",
        "room",
        "rules",
    )

    def __init__(
        self, *, commands: Mapping[str, Command], limits: Limits, tolerances: Tolerances, rules: Rules
    ) -> None:
        self._limits = limits
        self.configure(commands=commands, tolerances=tolerances, rules=rules)
        self.heartbeats = 0
        self.command: Command | None = None
        self._pairs: list[tuple[str, str]] = []
        self._footprint = MESSAGE_BYTES
        self.line = bytearray()
        self._scanned = 0
        self.room = 0

    def configure(self, *, commands: Mapping[str, Command], tolerances: Tolerances, rules: Rules) -> None:
        """Read by other rules from the next line on."""
        self.commands = commands
        self._tolerances = tolerances
        self.rules = rules

    @property
    def inside(self) -> bool:
        """Whether the input so far ends inside a frame; half an end of line between frames is outside."""
        if self.command is not None or len(self.line) != 1:
            return self.command is not None or bool(self.line)
        return not (self.rules.cr_ends_line and self.line[0] == CR)

    def read(self, data: bytes, position: int) -> tuple[Head | None, int]:
        """Read lines from `position` up to the blank line that ends a head.

        Returns:
            The head, or None when the chunk ends before it does; and the position after what was read.

        Raises:
            RemoteProtocolError: The lines break the grammar.
            LimitExceeded: A line is too long, or there are too many.
        """
        while position < len(data):
            end = data.find(LF, position)
            self.line += data[position : end if end >= 0 else len(data)]
            self._check_line()
            if end < 0:
                break
            position = end + 1
            line = self._without_end(bytes(self.line))
            self.line.clear()
            self._scanned = 0
            self.room = 0
            if line:
                self._add(line)
                if len(self._pairs) < self._limits.header_count:
                    self.room = self._limits.header_line_bytes
            elif self.command is None:
                # STOMP 1.2, Augmented BNF: any number of EOLs between frames; each may be a heart-beat.
                self.heartbeats += 1
            else:
                return self._finish(), position
        return None, len(data)

    def _without_end(self, line: bytes) -> bytes:
        """A finished line without the CR of its end of line."""
        return line[:-1] if self.rules.cr_ends_line and line.endswith(b"\r") else line

    def _check_line(self) -> None:
        """Raise for the first byte after which the line can no longer be legal."""
        line, command, rules, limits = self.line, self.command, self.rules, self._limits
        size = len(line)
        held = 1 if rules.cr_ends_line and size and line[-1] == CR else 0
        limit = limits.command_bytes if command is None else limits.header_line_bytes
        # A line that may still turn out blank is no header yet.
        if command is not None and len(self._pairs) >= limits.header_count and self._has_content(held):
            raise LimitExceeded(
                f"{command.value} frame has more than {limits.header_count} headers (limit header_count)"
            )
        start, self._scanned = self._scanned, max(0, size - 1)
        faults: list[tuple[int, RemoteProtocolError]] = []
        nul = line.find(NUL, start)
        if nul >= 0 and not self._nul_tolerated():
            faults.append((nul, self._nul_error()))
        if rules.bare_cr_is_error:
            bare = line.find(CR, start)
            # A CR at the end is not bare yet in an unfinished line, and is the end of the line in a finished one.
            if 0 <= bare < size - 1:
                faults.append((bare + 1, RemoteProtocolError(f"CR inside a line: {self._shown()}")))
        if size - held > limit:
            kind, name = ("command", "command_bytes") if command is None else ("header", "header_line_bytes")
            # The byte at index `limit` is the first too many; a CR there waits for what follows it.
            waits = 1 if rules.cr_ends_line and line[limit] == CR else 0
            msg = f"{kind} line is longer than {limit} bytes (limit {name}): {self._shown()}"
            faults.append((limit + waits, LimitExceeded(msg)))
        if faults:
            raise min(faults, key=lambda fault: fault[0])[1]
        can_grow = size and line[-1] != CR and len(self._pairs) < limits.header_count
        self.room = limit - size if can_grow else 0

    def _has_content(self, held: int) -> bool:
        """Whether the unfinished line can no longer be blank; `held` of its bytes may belong to its end."""
        return len(self.line) > held

    def _nul_tolerated(self) -> bool:
        if self.command is Command.MESSAGE:
            return self._tolerances.nul_in_message_headers
        return self.command is Command.ERROR and self._tolerances.nul_in_error_headers

    def _nul_error(self) -> RemoteProtocolError:
        if self.command is None:
            return RemoteProtocolError(f"NUL where a command or an end of line should be: {self._shown()}")
        # The specification's own examples of 1.2 lack the blank line in two places: row all-FRM-13.
        return RemoteProtocolError(
            f"NUL in the headers of a {self.command.value} frame; is its blank line missing? {self._shown()}"
        )

    def _shown(self) -> str:
        """The line for an error message, cut short and without a passcode."""
        shown = bytes(self.line[:_SHOWN])
        if is_secret_header(shown.decode("latin-1")):
            return REDACTED
        return repr(shown) + ("..." if len(self.line) > _SHOWN else "")

    def _add(self, line: bytes) -> None:
        """Add one line that is not blank: the command, or a header."""
        if self.command is not None:
            self._pairs.append(self._header(line, self.command))
            self._footprint += HEADER_BYTES + (len(line) if line.isascii() else WIDEST * len(line))
            return
        text = line.decode("utf-8", "replace")
        command = self._command_named(text)
        if command is None:
            raise RemoteProtocolError(
                f"unknown command {text[:_SHOWN]!r}; expected one of {', '.join(sorted(self.commands.values()))}"
            )
        self.command = command

    def _command_named(self, text: str) -> Command | None:
        return self.commands.get(text)

    def _header(self, line: bytes, command: Command) -> tuple[str, str]:
        rules = self.rules
        try:
            text = line.decode("utf-8", "surrogateescape" if self._tolerances.invalid_utf8 else "strict")
        except UnicodeDecodeError as error:
            raise RemoteProtocolError(
                f"header of {command.value} is not UTF-8 at byte {error.start}: {line[:_SHOWN]!r}"
            ) from None
        # Rows 1x-FRM-11: the first colon separates; brokers leave further ones raw in values.
        name, colon, value = text.partition(":")
        if not colon and not self._tolerances.lines_without_colon:
            raise RemoteProtocolError(f"header line of {command.value} has no colon: {text[:_SHOWN]!r}")
        if not name and not self._tolerances.empty_header_names:
            raise RemoteProtocolError(f"header line of {command.value} has an empty name: {text[:_SHOWN]!r}")
        if rules.trim_values:
            # Only 0x20: a tab or a no-break space is part of the value. Row 10-HDR-PAD-4.
            value = value.strip(" ")
        if "\\" not in text:
            return name, value
        escapes = escapes_of(command, rules)
        return (
            unescape(name, escapes, keep_undefined=rules.literal_escapes),
            unescape(value, escapes, keep_undefined=rules.literal_escapes),
        )

    def _finish(self) -> Head:
        assert self.command is not None  # noqa: S101  # read() only comes here with one
        head = Head(self.command, Headers(self._pairs), self._footprint)
        self.command = None
        self._pairs = []
        self._footprint = MESSAGE_BYTES
        return head
