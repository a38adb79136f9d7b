"""Text of a peer, made fit for a terminal or a log.

Messages, headers and errors hold text that others chose. A terminal obeys the control characters in it: they move the
cursor, set its title, or type answers for the user. A line end in it looks like another record of a log. So exceptions,
log records and the command pass such text through one of these functions; `Message.body` and headers stay as they came.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

__all__ = ["harmless", "one_line"]

_SPACE: Final = 0x20


def _escaped(characters: Iterable[int]) -> dict[int, str]:
    # JSON has the first kind escaped already, so that it stays JSON when the others are escaped in its own way.
    return {each: f"\\x{each:02x}" if each < _SPACE else f"\\u{each:04x}" for each in characters}


_CONTROLS: Final = _escaped(
    [
        *(each for each in range(_SPACE) if chr(each) not in "\t\n"),  # C0, with the escape character and the bell
        *range(0x7F, 0xA0),  # DEL, and C1: one of them is a whole control sequence introducer
        *(0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)),  # what turns the direction of text
        *(0x2028, 0x2029),  # ends of line and of paragraph
        *range(0xD800, 0xE000),  # surrogates stand for octets that are no UTF-8, and cannot be written
    ]
)
_CONTROLS_AND_ENDS: Final = {**_CONTROLS, ord("\n"): "\\n", ord("\t"): "\\t"}


def harmless(text: str) -> str:
    """Text whose control characters are shown and not obeyed; line feeds and tabs stay."""
    return text.translate(_CONTROLS)


def one_line(text: str) -> str:
    """The same, on one line: what a peer chose must not look like another line of a command or of a log."""
    return text.translate(_CONTROLS_AND_ENDS)
