"""Heads of SEND frames in which nothing needs a second look, as in nearly all: made in a fraction of the time.

Plain is a head that is the same octets in each version of STOMP: it has no character that is escaped in any, and none
of its headers is set by the frame itself. That is found out by a few calls in C for all headers together. Whatever is
not plain goes through `ClientProtocol.send`, which escapes it, or says what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Final

from trio_stomp.protocol.content_types import is_mime_type

__all__ = ["plain_head"]

# The delimiters, and what is escaped or refused in some version.
_SPECIAL: Final = b":\n\r\\\0"
# What the frame sets itself, or has to be compared with something else. No name may be empty.
_NOT_PLAIN: Final = frozenset({"", "destination", "content-type", "content-length", "receipt", "transaction"})


def plain_head(
    destination: str, content_type: str | None, headers: Mapping[str, str] | Sequence[tuple[str, str]] | None
) -> bytes | None:
    """The head of a SEND up to its ``content-length``, without the end of the last line; None where it is not plain.

    Args:
        destination: Where to.
        content_type: MIME type of the body, or none.
        headers: More headers, as a dict, a list or a tuple; what else there is takes its time.

    Spec: SEND; Value Encoding; Header content-type.
    """
    start = _start(destination, content_type)
    if start is None or not headers:
        return start
    try:
        if isinstance(headers, dict):
            lines = _plain_lines(headers.items()) if _NOT_PLAIN.isdisjoint(headers) else None
        elif isinstance(headers, (list, tuple)):
            lines = _plain_lines(headers) if _NOT_PLAIN.isdisjoint(dict(headers)) else None
        else:
            return None
    except (TypeError, ValueError):
        # Something that is no text, or no Unicode, or no pair: there are better words for that elsewhere.
        return None
    return None if lines is None else b"\n".join((start, lines))


# A program sends to few different destinations, and many times to each.
@lru_cache(maxsize=256)
def _start(destination: str, content_type: str | None) -> bytes | None:
    """The head up to the headers of its sender, or None."""
    if content_type is not None and not is_mime_type(content_type):
        return None
    own = [("destination", destination)]
    if content_type is not None:
        own.append(("content-type", content_type))
    try:
        lines = _plain_lines(own)
    except (TypeError, ValueError):
        return None
    return None if lines is None else b"SEND\n" + lines


def _plain_lines(headers: Collection[tuple[str, str]]) -> bytes | None:
    """The lines of headers, without the end of the last one; None where one of them is not plain."""
    lines = "\n".join(map(":".join, headers)).encode()
    # What is special is as often there as it was put there; one pass in C finds out.
    special = 2 * len(headers) - 1
    return lines if len(lines.translate(None, _SPECIAL)) == len(lines) - special else None
