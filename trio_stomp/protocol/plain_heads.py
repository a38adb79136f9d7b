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
    pairs: Collection[tuple[str, str]]
    try:
        if isinstance(headers, dict):
            fine, pairs = _NOT_PLAIN.isdisjoint(headers), headers.items()
        elif isinstance(headers, (list, tuple)):
            fine, pairs = _NOT_PLAIN.isdisjoint(dict(headers)), headers
        else:
            return None
        lines = "\n".join(map(":".join, pairs)).encode()
    except (TypeError, ValueError):
        # Something that is no text, or no Unicode, or no pair: there are better words for that elsewhere.
        return None
    # Joining has brought two special characters for each header, less one; one pass in C tells whether that is all.
    if not fine or len(lines.translate(None, _SPECIAL)) != len(lines) - 2 * len(headers) + 1:
        return None
    return b"\n".join((start, lines))


# A program sends to few different destinations, and many times to each.
@lru_cache(maxsize=256)
def _start(destination: str, content_type: str | None) -> bytes | None:
    """The head up to the headers of its sender, or None."""
    if content_type is not None and not is_mime_type(content_type):
        return None
    values = [destination] if content_type is None else [destination, content_type]
    try:
        octets = "".join(values).encode()
    except (TypeError, ValueError):
        return None
    if octets.translate(None, _SPECIAL) != octets:
        return None
    return "\ncontent-type:".join((f"SEND\ndestination:{destination}", *values[1:])).encode()
