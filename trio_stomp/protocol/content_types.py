"""Whether a body is text, and in which encoding. Spec: "Header content-type"."""

from __future__ import annotations

import codecs
from email.message import Message as MimeHeaders
from functools import lru_cache

__all__ = ["charset_of", "is_mime_type", "text_of"]


# A program sends few different types, and each of them many times.
@lru_cache(maxsize=256)
def is_mime_type(content_type: str) -> bool:
    """Whether a value can be the MIME type that 1.2 demands: ``type/subtype``, parameters aside."""
    kind, slash, subtype = content_type.partition(";")[0].strip().partition("/")
    return bool(kind and slash and subtype) and " " not in kind + subtype


@lru_cache(maxsize=256)
def charset_of(content_type: str | None) -> str | None:
    """The encoding of a body of that type, or None where the body is binary.

    STOMP 1.2, Header content-type: no header means binary; ``text/*`` without a charset is UTF-8; any type with a
    charset is text in that charset. A charset that Python does not know makes the body binary.
    """
    if content_type is None:
        return None
    # The standard library's own reader of MIME parameters: quotes, case and comments included.
    headers = MimeHeaders()
    headers["content-type"] = content_type.replace("\r", " ").replace("\n", " ")
    charset = headers.get_content_charset()
    if not charset:
        return "utf-8" if headers.get_content_maintype() == "text" and is_mime_type(content_type) else None
    try:
        # Some of Python's codecs are none of text (hex, zlib): a look-up finds them, and str.encode refuses them.
        "".encode(charset)
        return codecs.lookup(charset).name
    except (LookupError, ValueError):
        return None


def text_of(body: bytes, content_type: str | None) -> str | None:
    """The body as text, or None where its type says that it is binary.

    Raises:
        UnicodeError: The body is not what its type says.

    Spec: Header content-type.
    """
    charset = charset_of(content_type)
    return None if charset is None else body.decode(charset)
