"""Make untrusted text safe to print.

Messages, headers and errors contain text that others chose. A terminal obeys its control characters: they move the
cursor, set its title, or type answers for the user. A line feed in it looks like another log record. Exceptions, log
records and the command line pass such text through one of these functions; `Message.body` and headers stay unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final

__all__ = ["harmless", "name_of", "one_line", "safe_repr", "safe_str", "shown", "without_arguments", "wrong_header"]

_SPACE: Final = 0x20
# An argument in the wrong place may be a body of any size.
_LONGEST_SHOWN: Final = 80


def _escaped(characters: Iterable[int]) -> dict[int, str]:
    # JSON output has the first kind escaped already, and stays valid JSON with the others escaped as JSON does.
    return {each: f"\\x{each:02x}" if each < _SPACE else f"\\u{each:04x}" for each in characters}


_CONTROLS: Final = _escaped(
    [
        *(each for each in range(_SPACE) if chr(each) not in "\t\n"),  # C0, including escape and bell
        *range(0x7F, 0xA0),  # DEL and C1, which includes the control sequence introducer
        *(0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)),  # change the direction of text
        *(0x2028, 0x2029),  # line and paragraph separators
    ]
)
_CONTROLS_AND_ENDS: Final = {**_CONTROLS, ord("\n"): "\\n", ord("\t"): "\\t"}


def harmless(text: str) -> str:
    """Escape control characters; keep line feeds and tabs."""
    return _without_surrogates(text.translate(_CONTROLS))


def one_line(text: str) -> str:
    """Escape control characters, line feeds and tabs, so that the text stays on one line."""
    return _without_surrogates(text.translate(_CONTROLS_AND_ENDS))


def _without_surrogates(text: str) -> str:
    # They represent invalid UTF-8, and cannot be encoded. A table of all 2048 would take 0.7 ms of each start.
    return text.encode(errors="backslashreplace").decode()


def safe_str(value: object) -> str:
    """`str` of an exception or object of the user's, which may raise instead."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001  # user code: what it breaks must not depend on how it is shown
        return f"<{type(value).__name__}, whose str() fails>"


def safe_repr(value: object) -> str:
    """`repr` of an exception or object of the user's, which may raise instead."""
    try:
        return repr(value)
    except Exception:  # noqa: BLE001  # as in `safe_str`
        return f"<{type(value).__name__}, whose repr() fails>"


def shown(value: object) -> str:
    """A value that a program has passed, as errors show it."""
    text = safe_repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}... of type {type(value).__name__}"


def without_arguments(location: str) -> str:
    """A path as it is, or a URI without its arguments, among which there may be keys."""
    return location if location.startswith("/") else location.partition("?")[0]


def wrong_header(name: object, value: object) -> str:
    """What errors say of a header whose name or value is not text; the value may be secret, and is not shown."""
    kind, wrong = ("value", value) if isinstance(name, str) else ("name", name)
    # str() would make the texts "None" and "b'...'" of these.
    advice = "use .decode()" if isinstance(wrong, bytes) else "leave the header out" if wrong is None else "use str()"
    return f"header {name!r}: name and value must be str, got a {kind} of type {type(wrong).__name__}; {advice}"


def name_of(function: object) -> str:
    """The name of a function, method, partial or callable object of the user's."""
    if isinstance(function, partial):
        return name_of(function.func)
    name = getattr(function, "__qualname__", None)
    return name if isinstance(name, str) else safe_repr(function)
