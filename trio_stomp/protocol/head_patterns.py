"""Heads that differ from an earlier one in a few values only: a part of the decoder's accelerator.

From message to message most lines of a head repeat, in the same order: often only the message-id, the ack id and a
timestamp are new. A pattern holds the bytes that repeat; the values between them are its fields. If a head follows a
pattern, only the fields are decoded, and the end of the head needs no search.

Patterns are learned from frames that `QuickFrames` has split. A head that nearly follows a pattern widens it: a line
that differs becomes a field. If heads have little in common nothing is gained, and learning pauses.

Gains in `make bench`: see `quick_frames`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trio_stomp.errors import RemoteProtocolError
from trio_stomp.protocol.frames import BODY_COMMANDS, WIDEST, Command, Frame, head_footprint
from trio_stomp.protocol.grammar import LF, NUL, Rules, escapes_of, unescape
from trio_stomp.protocol.headers import Headers
from trio_stomp.protocol.limits import Limits

__all__ = ["HeadPattern", "HeadPatterns"]

_CONTENT_LENGTH: Final = "content-length"
# Decoding more fields than this costs as much as splitting the head.
_MOST_FIELDS: Final = 10
# MESSAGEs of a few kinds, and RECEIPTs; each pattern that does not fit costs a comparison.
_MOST_PATTERNS: Final = 4
_MOST_HEAD_BYTES: Final = 2048
# Learning costs as much as decoding: after this many lessons it pauses for that many frames.
_LESSONS: Final = 64
_PAUSE_FRAMES: Final = 1024
# Patterns that this many frames in a row did not follow cost more than they gain, and are dropped.
_MOST_MISSES: Final = 64


class HeadPattern:
    """A head in which some values vary.

    Args:
        command: Its command.
        lines: The lines of one such head, including the command.
        headers: The headers that they encode, in the same order and without repeats.
        rules: How values are decoded.
        limits: Bounds on heads and bodies.
        varying: The indexes of the lines whose values vary.
    """

    __slots__ = (
        "_command",
        "_fields",
        "_footprint",
        "_headers",
        "_length",
        "_limits",
        "_lines",
        "_opening",
        "_rules",
        "_varying",
        "_wide",
    )

    def __init__(
        self,
        command: Command,
        lines: Sequence[bytes],
        headers: dict[str, str],
        rules: Rules,
        limits: Limits,
        varying: frozenset[int] = frozenset(),
    ) -> None:
        self._command = command
        self._lines = lines
        self._headers = headers
        self._rules = rules
        self._limits = limits
        self._varying = varying
        # The bytes that repeat, cut where values vary; each piece but the first begins with the end of a value's line.
        pieces = [b""]
        for index, line in enumerate(lines):
            if index in varying:
                name, colon, _ = line.partition(b":")
                pieces[-1] += name + colon
                pieces.append(b"\n")
            else:
                pieces[-1] += line + b"\n"
        self._opening, *pieces = (*pieces[:-1], pieces[-1] + b"\n")
        names = list(headers)
        self._fields = [
            (names[index - 1], piece, len(piece)) for index, piece in zip(sorted(varying), pieces, strict=True)
        ]
        # The bytes of each head are added to this.
        self._footprint = head_footprint(b"", len(headers))
        self._wide = not b"\n".join(lines).isascii()
        # None if the length varies, or only the end of the body tells.
        self._length = None if _CONTENT_LENGTH in (name for name, _, _ in self._fields) else self._given_length(headers)
        if command not in BODY_COMMANDS and _CONTENT_LENGTH not in headers:
            self._length = 0

    def __len__(self) -> int:
        """The number of values that vary."""
        return len(self._fields)

    def widened(self, lines: Sequence[bytes], headers: dict[str, str]) -> HeadPattern | None:
        """The pattern that another head follows too; None if it has another command or other names."""
        if lines[0] != self._lines[0] or list(headers) != list(self._headers):
            return None
        differing = [index for index, pair in enumerate(zip(self._lines, lines, strict=True)) if pair[0] != pair[1]]
        varying = self._varying.union(differing)
        return HeadPattern(self._command, lines, headers, self._rules, self._limits, varying)

    def take(self, data: bytes, position: int, frames: list[Frame]) -> tuple[int, int]:
        """Decode frames as long as their heads follow the pattern and they lie whole in the chunk.

        Args:
            data: The chunk.
            position: Where the first frame begins.
            frames: The decoded frames are added to these.

        Returns:
            Where the first other frame begins, and how many ends of line were passed over.
        """
        opening, fields, headers = self._opening, self._fields, self._headers
        command, length, limits, footprint = self._command, self._length, self._limits, self._footprint
        opening_bytes, total, ends = len(opening), len(data), 0
        while True:
            while position < total and data[position] == LF:
                position += 1
                ends += 1
            start = position + opening_bytes
            # A slice and a comparison take two thirds of the time of `startswith`.
            if data[position:start] != opening:
                return position, ends
            first = headers.copy()
            wide = self._wide
            try:
                for name, piece, piece_bytes in fields:
                    end = data.find(LF, start)
                    following = end + piece_bytes
                    if end < 0 or data[end:following] != piece:
                        return position, ends
                    text = data[start:end].decode()
                    start = following
                    if not text.isascii():
                        wide = True
                    first[name] = self._exact(text) if "\\" in text or "\r" in text or "\0" in text else text
                end = start + (self._size(data, start, first) if length is None else length)
            except (ValueError, RemoteProtocolError):
                return position, ends  # for the decoder to judge
            if not start <= end < total or data[end] != NUL or start - position > limits.header_line_bytes:
                return position, ends
            taken = footprint + end - position
            if wide:
                taken += (WIDEST - 1) * (start - position)
            frames.append(Frame(command, Headers((), first), data[start:end], taken))
            position = end + 1

    def _size(self, data: bytes, start: int, headers: dict[str, str]) -> int:
        """The length of the body; negative if it does not end in the chunk.

        Raises:
            ValueError: It is for the decoder to judge.
        """
        size = self._given_length(headers)
        if size is None:
            size = data.find(NUL, start) - start
        if size > self._limits.body_bytes or (size > 0 and self._command not in BODY_COMMANDS):
            raise ValueError
        return size

    @staticmethod
    def _given_length(headers: dict[str, str]) -> int | None:
        text = headers.get(_CONTENT_LENGTH)
        if text is None:
            return None
        length = int(text)
        # int() accepts more than digits.
        if str(length) != text:
            raise ValueError
        return length

    def _exact(self, text: str) -> str:
        """Decode a value that holds a backslash, or what no value may hold.

        Raises:
            ValueError: It holds a CR or a NUL.
            RemoteProtocolError: An escape in it is not defined.
        """
        if "\r" in text or "\0" in text:
            raise ValueError
        return unescape(text, escapes_of(self._command, self._rules), keep_undefined=self._rules.literal_escapes)


class HeadPatterns:
    """The few patterns learned on one connection, most recently used first.

    Args:
        rules: How values are decoded.
        limits: Bounds on heads and bodies.

    Attributes:
        known: The patterns.
    """

    __slots__ = ("_lessons", "_limits", "_misses", "_pause", "_rules", "known")

    def __init__(self, rules: Rules, limits: Limits) -> None:
        self._rules = rules
        self._limits = limits
        self.known: list[HeadPattern] = []
        self._lessons = _LESSONS
        self._misses = 0
        self._pause = 0

    def take(self, data: bytes, position: int, frames: list[Frame]) -> tuple[int, int]:
        """Decode frames as long as each follows one of the patterns; see `HeadPattern.take`."""
        ends, count = 0, len(frames)
        while position < len(data):
            for pattern in self.known:
                position, more = pattern.take(data, position, frames)
                ends += more
                if len(frames) != count:
                    count = len(frames)
                    self._misses = 0
                    if pattern is not self.known[0]:
                        self.known.remove(pattern)
                        self.known.insert(0, pattern)
                    break
            else:
                break
        return position, ends

    def learn(self, head: bytes, command: Command, headers: Headers) -> None:
        """Learn from a frame that followed no pattern.

        Args:
            head: Its head without the blank line; it holds no CR and no NUL.
            command: Its command.
            headers: Its headers.
        """
        self._misses += 1
        if self._misses > _MOST_MISSES:
            self.known.clear()
            self._misses = 0
        if self._pause:
            self._pause -= 1
            return
        first = headers.first()
        lines = head.split(b"\n")
        if len(head) > _MOST_HEAD_BYTES or len(lines) != len(first) + 1:
            return
        self._lessons -= 1
        new = HeadPattern(command, lines, first, self._rules, self._limits)
        for pattern in self.known:
            wider = pattern.widened(lines, first)
            if wider is not None:
                self.known.remove(pattern)
                new = wider
                break  # no other pattern has these names
        if len(new) <= _MOST_FIELDS:
            self.known.insert(0, new)
            del self.known[_MOST_PATTERNS:]
        if not self._lessons or len(new) > _MOST_FIELDS:
            self._pause, self._lessons = _PAUSE_FRAMES, _LESSONS
