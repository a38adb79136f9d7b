"""The decoder's accelerator: frames that lie whole in one chunk, decoded many at a time.

`Decoder` is complete without this module, and gives the same frames and the same errors: `Decoder(accelerate=False)`
switches it off, and the conformance vectors and properties run both ways. There is one seam, `QuickFrames.take`. It
decodes as many frames as it can and stops in front of the first that needs a closer look; the decoder reads that one
line by line and raises its errors. So nothing here explains what is wrong with a frame.

Three methods are tried, the cheapest first. What each gains in `make bench`, in CPU time with the pure package,
measured against the same program without that method:

- RECEIPTs in a row, as a broker sends them to a publisher: one regular expression reads them all. `send, 256 receipts
  on their way` gains 1.4 times; a RECEIPT costs a fifteenth.
- Heads like earlier ones (`head_patterns`): "decode, small" 2.1 times, "escapes" and "64 KiB" 1.3 times.
- Any other head, split by a few calls in C: the decoder without this module is 11 times slower on "decode, small", 8
  times on "20 headers", 5 times on "escapes" and "64 KiB".

The seam hands over a batch rather than a frame: one call for each frame costs "decode, small" more than 5 %.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from trio_stomp.errors import RemoteProtocolError
from trio_stomp.protocol.frames import BODY_COMMANDS, Command, Frame, head_footprint
from trio_stomp.protocol.grammar import LF, NUL, Rules, escapes_of, unescape
from trio_stomp.protocol.head_patterns import HeadPatterns
from trio_stomp.protocol.head_reader import Head
from trio_stomp.protocol.headers import Headers
from trio_stomp.protocol.limits import Limits

__all__ = ["QuickFrames", "ReceiptRun"]

# The bytes without a meaning of their own; `head.translate(None, _UNMARKED)` is its structure, by one C call.
_UNMARKED: Final = bytes(set(range(256)) - set(b"\n:\\\r\0"))
# The structures of plain heads: an end of line and one colon for each header. Longer ones are split line by line.
_PLAIN: Final = frozenset(b"\n:" * count for count in range(65))

# Ids of visible ASCII without what separates or escapes: all that this library makes, and more. The ends of line that
# brokers put behind a NUL are part of the run. The inner quantifiers are possessive: nothing is tried twice. The outer
# one is not, because CPython before 3.11.5 would then end in the middle of a RECEIPT (gh-106052).
_RECEIPTS: Final = re.compile(rb"(?:RECEIPT\nreceipt-id:[!-9;-\[\]-~]{1,200}+\n\n\0\n*+)+")
_RECEIPT_ID: Final = re.compile(r":([^\n]*)")
_RECEIPT_LINES: Final = 3
_RECEIPT_LINE_BYTES: Final = len("receipt-id:") + 200


class ReceiptRun(Frame):
    """Consecutive RECEIPT frames without other headers, as one frame; its own headers are those of the first.

    Attributes:
        receipt_ids: The ids of all, in order.
    """

    __slots__ = ("receipt_ids",)

    def __init__(self, receipt_ids: list[str]) -> None:
        super().__init__(Command.RECEIPT, Headers({"receipt-id": receipt_ids[0]}))
        self.receipt_ids: Final = receipt_ids


class QuickFrames:
    """Decodes frames of STOMP 1.1 and 1.2 that lie whole in a chunk.

    Args:
        commands: The commands the peer may send, by the text of the command line.
        rules: How the lines of this session are read.
        limits: Bounds on heads and bodies.
        receipt_runs: Return consecutive RECEIPTs as one `ReceiptRun`.

    Attributes:
        ends_of_line: How many ends of line the last `take` passed over outside of frames.
        head: The head that the last `take` stopped behind, where it could read that and not the body: the body goes on
            in the next chunk, or breaks a rule.
        gave_up: Whether the last `take` searched in vain. To call it again for each frame of the same chunk would make
            the cost grow with the square of the chunk.
    """

    __slots__ = ("_commands", "_limits", "_patterns", "_receipt_runs", "_rules", "ends_of_line", "gave_up", "head")

    def __init__(self, *, commands: Mapping[str, Command], rules: Rules, limits: Limits, receipt_runs: bool) -> None:
        self._commands = commands
        self._rules = rules
        self._limits = limits
        self._patterns = HeadPatterns(rules, limits)
        # No run may pass a limit that its frames would not pass one by one.
        self._receipt_runs = (
            receipt_runs
            and limits.command_bytes >= len(Command.RECEIPT)
            and limits.header_line_bytes >= _RECEIPT_LINE_BYTES
            and limits.header_count > 0
        )

    def take(self, data: bytes, position: int, frames: list[Frame]) -> int:
        """Decode the frames from a position on, as long as each lies whole in the chunk and is usual.

        Args:
            data: The chunk.
            position: Where the first frame begins.
            frames: The decoded frames are added to these.

        Returns:
            Where it stopped: before the first frame that it did not take, or behind the head of that frame if `head` is
            set.

        Spec: STOMP Frames; Augmented BNF.
        """
        self.ends_of_line = 0
        self.head: Head | None = None
        self.gave_up = False
        commands, limits, total = self._commands, self._limits, len(data)
        while True:
            position = self._take_known(data, position, frames)
            if position == total:
                return position
            blank = data.find(b"\n\n", position)
            if blank < 0 or blank - position > limits.header_line_bytes:
                self.gave_up = True
                return position
            head = data[position:blank]
            marks = head.translate(None, _UNMARKED)
            start = blank + 2
            try:
                if marks in _PLAIN:
                    # One split for all lines takes two thirds of the time of one for each line.
                    texts = iter(head.decode().replace("\n", ":").split(":"))
                    command = commands[next(texts)]
                    first = dict(zip(texts, texts))  # noqa: B905  # plain heads pair up; the check costs as much again
                    unique = len(first) * 2 == len(marks) and "" not in first
                    headers = Headers((), first) if unique else self._by_lines(head, marks)[1]
                else:
                    command, headers = self._by_lines(head, marks)
                length = headers.get("content-length")
                end = data.find(NUL, start) if length is None else start + int(length)
            except (KeyError, ValueError, RemoteProtocolError):
                # An unknown command, no UTF-8, a line without colon, an undefined escape. A NUL among the marks: this
                # head ends in CR LF, and the blank line that was found belongs to a later frame.
                self.gave_up = b"\0" in marks
                return position
            if len(marks) > 2 * limits.header_count:
                return position
            size = end - start
            footprint = head_footprint(head, marks.count(b"\n"))
            if (
                not 0 <= size <= limits.body_bytes
                or end >= total
                or data[end] != NUL
                or (size and command not in BODY_COMMANDS)
                # int() accepts more than digits.
                or (length is not None and length != str(size))
            ):
                self.head = Head(command, headers, footprint)
                return start
            frames.append(Frame(command, headers, data[start:end], footprint + size))
            self._patterns.learn(head, command, headers)
            position = end + 1

    def _take_known(self, data: bytes, position: int, frames: list[Frame]) -> int:
        """Decode RECEIPTs in a row, and frames whose heads follow a pattern; pass over ends of line."""
        ends = 0
        found = _RECEIPTS.match(data, position) if self._receipt_runs else None
        if found is not None:
            receipt_ids: list[str] = _RECEIPT_ID.findall(found[0].decode("ascii"))
            frames.append(ReceiptRun(receipt_ids))
            ends = found[0].count(b"\n") - _RECEIPT_LINES * len(receipt_ids)
            position = found.end()
        if self._patterns.known:
            position, more = self._patterns.take(data, position, frames)
            ends += more
        while position < len(data) and data[position] == LF:
            position += 1
            ends += 1
        self.ends_of_line += ends
        return position

    def _by_lines(self, head: bytes, marks: bytes) -> tuple[Command, Headers]:
        """Read a head that has escapes, repeats, or more than one colon in a line.

        Raises:
            KeyError: The command is unknown.
            ValueError: It is not UTF-8, a line has no colon or no name, or it holds a CR or NUL.
            RemoteProtocolError: An escape is not defined.
        """
        if b"\0" in marks or b"\r" in marks:
            raise ValueError
        lines = head.decode().split("\n")
        command = self._commands[lines.pop(0)]
        pairs = [line.split(":", 1) for line in lines]
        if b"\\" in marks:
            escapes, keep = escapes_of(command, self._rules), self._rules.literal_escapes
            for line, pair in zip(lines, pairs, strict=True):
                if "\\" in line:
                    pair[:] = [unescape(part, escapes, keep_undefined=keep) for part in pair]
        first: dict[str, str] = dict(pairs)
        if "" in first:
            raise ValueError
        if len(first) == len(lines):
            return command, Headers((), first)
        return command, Headers([(name, value) for name, value in pairs])
