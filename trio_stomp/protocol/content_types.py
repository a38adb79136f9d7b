"""Whether a body is text, and in which encoding; and bodies of JSON. Spec: "Header content-type".

A content-type is written by the sender of a message, who may be hostile. So it is parsed in one pass, up to a length,
by the grammar of RFC 2045 and nothing more; the standard library's parser (`email.message`) takes seconds for some
values of 64 KiB. Only codecs of text that decode in linear time are used: punycode and idna are not linear, utf-7 and
unicode_escape hide other text, and a lookup by arbitrary name imports modules and remembers each miss.
"""

from __future__ import annotations

import codecs
import json
from encodings import normalize_encoding
from encodings.aliases import aliases
from functools import lru_cache
from typing import Final, NamedTuple

__all__ = ["JSON", "charset_of", "is_mime_type", "is_utf_8_text", "json_body", "text_encoding", "text_of"]

JSON: Final = "application/json"

# RFC 4288, 4.2 allows 127 characters for each half of the type; real parameters are shorter than that.
_LONGEST: Final = 1024
_SHOWN: Final = 40

# By the names of their modules. Each was measured to be linear, for input that it accepts and input that it refuses.
_WINDOWS_AND_DOS: Final = (*range(1250, 1259), 37, 437, 500, 850, 852, 855, 857, 858, 862, 864, 866, 874)
_EAST_ASIAN_AND_EURO: Final = (932, 949, 950, 1140)
_LINEAR: Final = frozenset(
    {
        *("ascii", "latin_1", "koi8_r", "koi8_u", "tis_620", "mac_roman"),
        *("utf_8", "utf_8_sig", "utf_16", "utf_16_le", "utf_16_be", "utf_32", "utf_32_le", "utf_32_be"),
        *("shift_jis", "euc_jp", "iso2022_jp", "gb2312", "gbk", "gb18030", "big5", "big5hkscs", "euc_kr", "iso2022_kr"),
        *(f"iso8859_{part}" for part in (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 14, 15, 16)),
        *(f"cp{page:03}" for page in (*_WINDOWS_AND_DOS, *_EAST_ASIAN_AND_EURO)),
    }
)


class _Encoding(NamedTuple):
    """The encoding of a body according to its content-type.

    Attributes:
        name: The name of the codec; None if the body is binary, or its charset is not supported.
        problem: Why the charset is not supported.
    """

    name: str | None = None
    problem: str = ""


_BINARY: Final = _Encoding()


# A program sends few different types, many times each.
@lru_cache(maxsize=256)
def is_mime_type(content_type: str) -> bool:
    """Whether a value can be the MIME type that 1.2 demands: ``type/subtype``, parameters aside."""
    kind, slash, subtype = content_type.partition(";")[0].strip().partition("/")
    return bool(kind and slash and subtype) and " " not in kind + subtype


def charset_of(content_type: str | None) -> str | None:
    """The encoding of a body of that type, or None if the body is binary.

    STOMP 1.2, Header content-type: no header means binary; ``text/*`` without a charset is UTF-8; any type with a
    charset is text in that charset. A charset that is not supported makes the body binary.
    """
    return _encoding(content_type).name


# Called for every text that is sent with a content-type.
@lru_cache(maxsize=256)
def is_utf_8_text(content_type: str | None) -> bool:
    """Whether text of that type is UTF-8: the type names that charset, or none."""
    encoding = _encoding(content_type)
    return encoding.name == "utf-8" or encoding is _BINARY


def text_encoding(content_type: str | None) -> str:
    """The encoding of a body that is text, whatever its type: the charset, or UTF-8 if the type names none.

    Raises:
        LookupError: The type names a charset that is not supported.
    """
    encoding = _encoding(content_type)
    if encoding.problem:
        raise LookupError(encoding.problem)
    return encoding.name or "utf-8"


def text_of(body: bytes, content_type: str | None) -> str | None:
    """The body as text, or None if it is binary according to its type.

    Raises:
        UnicodeError: The body is not in the encoding of its type.

    Spec: Header content-type.
    """
    charset = charset_of(content_type)
    return None if charset is None else body.decode(charset)


def json_body(value: object) -> bytes:
    """Encode a value as a body of the type `JSON`: in UTF-8, and in the shortest form.

    Raises:
        TypeError: JSON has no such values.
        ValueError: JSON has no such number, or the value contains itself.
        RecursionError: It is nested too deep.
    """
    # Strictly: Python would write NaN, which is not JSON.
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _encoding(content_type: str | None) -> _Encoding:
    if content_type is None:
        return _BINARY
    if len(content_type) > _LONGEST:
        # Not cached: a peer must not fill memory with long keys.
        return _Encoding(problem=f"a content-type of {len(content_type)} characters is not read (limit {_LONGEST})")
    return _encoding_of_type(content_type)


@lru_cache(maxsize=256)
def _encoding_of_type(content_type: str) -> _Encoding:
    kind, *parameters = _parts(content_type)
    # The first of repeated parameters counts, as everywhere in this library.
    charset = next((value for name, value in map(_parameter, parameters) if name == "charset"), "")
    if not charset:
        is_text = kind.strip().lower().startswith("text/") and is_mime_type(kind)
        return _Encoding(name="utf-8") if is_text else _BINARY
    label = normalize_encoding(charset).lower() if charset.isascii() else ""
    module = aliases.get(label, label)
    if module not in _LINEAR:
        return _Encoding(problem=f"charset {charset[:_SHOWN]!r} is not supported")
    return _Encoding(name=codecs.lookup(module).name)


def _parts(content_type: str) -> list[str]:
    """The type and its parameters: a content-type split at the semicolons outside of quoted strings."""
    parts: list[str] = []
    start = 0
    quoted = escaped = False
    for position, character in enumerate(content_type):
        if escaped:
            escaped = False
        elif quoted and character == "\\":
            escaped = True
        elif character == '"':
            quoted = not quoted
        elif character == ";" and not quoted:
            parts.append(content_type[start:position])
            start = position + 1
    parts.append(content_type[start:])
    return parts


def _parameter(part: str) -> tuple[str, str]:
    """Name, in lower case, and value. Spec: RFC 2045, 5.1, with white space around both as most software takes it."""
    name, _, value = part.partition("=")
    value = value.strip()
    if len(value) > 1 and value[0] == value[-1] == '"':
        # A quoted pair is the character behind its backslash; no charset has a backslash in its name.
        value = value[1:-1].replace("\\", "").strip()
    return name.strip().lower(), value
