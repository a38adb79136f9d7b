"""Heads of SEND frames in which nothing needs a second look, as in nearly all: made in a fraction of the time.

Plain is a head that is the same octets in each version of STOMP: it has no character that is escaped in any, and none
of its headers is set by the frame itself. That is found out by a few calls in C for all headers together. Whatever is
not plain goes through `ClientProtocol.send`, which escapes it, or says what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
        headers: More headers. Only a dict can be plain: what else is a mapping takes its time.

    Spec: SEND; Value Encoding; Header content-type.
    """
    start = _start(destination, content_type)
    if start is None or not headers:
        return start
    if not isinstance(headers, dict) or not _NOT_PLAIN.isdisjoint(headers):
        return None
    lines = _plain_lines(headers)
    return None if lines is None else b"\n".join((start, lines))


# A program sends to few different destinations, and many times to each.
@lru_cache(maxsize=256)
def _start(destination: str, content_type: str | None) -> bytes | None:
    """The head up to the headers of its sender, or None."""
    if content_type is not None and not is_mime_type(content_type):
        return None
    lines = _plain_lines(
        {"destination": destination} | ({} if content_type is None else {"content-type": content_type})
    )
    return None if lines is None else b"SEND\n" + lines


def _plain_lines(headers: dict[str, str]) -> bytes | None:
    """The lines of headers, without the end of the last one; None where one of them is not plain."""
    try:
        lines = "\n".join(map(":".join, headers.items())).encode()
    except (TypeError, UnicodeEncodeError):
        # Something that is no text, or no Unicode: there are better words for that elsewhere.
        return None
    # What is special is as often there as it was put there; one pass in C finds out.
    special = 2 * len(headers) - 1
    return lines if len(lines.translate(None, _SPECIAL)) == len(lines) - special else None
