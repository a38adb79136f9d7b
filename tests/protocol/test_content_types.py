from __future__ import annotations

import time
from contextlib import suppress
from encodings.aliases import aliases

import pytest

from trio_stomp.protocol import charset_of, is_mime_type, is_utf_8_text, text_encoding, text_of


@pytest.mark.parametrize(
    ("content_type", "charset"),
    [
        ("text/plain", "utf-8"),
        ("TEXT/HTML; format=flowed", "utf-8"),
        ('application/xml; Charset="UTF-8"', "utf-8"),
        ("text/plain;charset=latin1", "iso8859-1"),
        ("te xt/plain", None),
        ("text/plain;charset=cp1259", None),
        ("text/plain;charset=cp936", "gbk"),
        ("text/plain;charset=zlib", None),
        ("text/plain;charset=undefined", None),
        ("text/plain;charset=a\0b", None),
        ("text/plain;\r\ncharset=utf-16", "utf-16"),
        ('text/plain;a="b;charset=utf-16";charset=Shift_JIS', "shift_jis"),
        ('text/plain;a="\\";charset=utf-16', "utf-8"),
        ('text/plain;a="\\\\";charset=utf-16', "utf-16"),
        ('text/plain;charset="utf\\-16"', "utf-16"),
        ('text/plain;charset="ut\\f-16"', "utf-16"),
        ('text/plain;charset=""', "utf-8"),
        ('text/plain;charset="', None),
        ("text/plain;charset=utf-16;charset=utf-8", "utf-16"),
        ("text/plain; charset = windows-1252 ", "cp1252"),
        ("text/plain;charset=punycode", None),
        ("text/plain;charset=utf-7", None),
        ("text/plain;charset=unicode_escape", None),
        ("text/plain;charset=ütf-8", None),
        ("text/plain;a=" + "b" * (1024 - len("text/plain;a=")), "utf-8"),
        ("text/plain;a=" + "b" * (1025 - len("text/plain;a=")), None),
    ],
)
def test_charset_when_the_type_names_text_then_is_its_codec(content_type: str, charset: str | None) -> None:
    """Rows 1x-CTYPE-3 to 1x-CTYPE-6."""
    assert charset_of(content_type) == charset


# By the names that Python gives to their codecs, which are labels of them too.
SUPPORTED = """
    ascii big5 big5hkscs cp037 cp1140 cp1250 cp1251 cp1252 cp1253 cp1254 cp1255 cp1256 cp1257 cp1258 cp437 cp500 cp850
    cp852 cp855 cp857 cp858 cp862 cp864 cp866 cp874 cp932 cp949 cp950 euc_jp euc_kr gb18030 gb2312 gbk iso2022_jp
    iso2022_kr iso8859_2 iso8859_3 iso8859_4 iso8859_5 iso8859_6 iso8859_7 iso8859_8 iso8859_9 iso8859_10 iso8859_11
    iso8859_13 iso8859_14 iso8859_15 iso8859_16 koi8_r koi8_u latin_1 mac_roman shift_jis tis_620 utf_16 utf_16_be
    utf_16_le utf_32 utf_32_be utf_32_le utf_8 utf_8_sig
"""


def test_charset_when_it_is_a_supported_one_then_its_codec_is_found_and_no_other() -> None:
    supported = set(SUPPORTED.split())
    assert {label for label in supported if charset_of(f"text/plain;charset={label}") is None} == set()
    others = set(aliases.values()) - supported
    assert {label for label in others if charset_of(f"text/plain;charset={label}") is not None} == set()


@pytest.mark.parametrize(
    ("value", "legal"),
    [
        ("text/plain", True),
        ("application/x-a+b; c=d", True),
        ("plain", False),
        ("/", False),
        ("a/", False),
        ("a/b c", False),
    ],
)
def test_mime_type_when_checked_then_needs_type_and_subtype(value: str, legal: bool) -> None:
    """Rows 12-CTYPE-2, 11-CTYPE-2."""
    assert is_mime_type(value) is legal


def test_text_when_the_body_is_not_what_its_type_says_then_raises() -> None:
    with pytest.raises(UnicodeDecodeError):
        text_of(b"\xff", "text/plain")


def test_every_supported_charset_when_decoded_then_takes_linear_time() -> None:
    units = (b"a", b"\xff", b"\xe9", b"\x81\x40", b"\x1b$B\x1b(B", b"\x1b", b"\x81\x30" * 2, b"\0", b"\xd8\0", b"~{")

    def seconds(data: bytes, charset: str) -> float:
        started = time.thread_time()
        with suppress(UnicodeError):
            data.decode(charset)
        return time.thread_time() - started

    labels = {*aliases, *aliases.values()}
    charsets = {charset for label in labels if (charset := charset_of(f"text/plain;charset={label}")) is not None}
    for charset in sorted(charsets):
        for unit in units:
            whole = unit * (256 * 1024 // len(unit))
            # Quadratic ones take more than a second for it; the slowest of the others ten milliseconds.
            assert min(seconds(whole, charset) for _ in range(2)) < 0.2, f"{charset} {unit!r}"


def test_charset_when_it_is_not_supported_then_the_error_shows_40_characters_of_it() -> None:
    assert not is_utf_8_text(f"text/plain;charset={'x' * 50}")
    with pytest.raises(LookupError, match=f"charset '{'x' * 40}' is not supported"):
        text_encoding(f"text/plain;charset={'x' * 50}")


@pytest.mark.parametrize(
    ("content_type", "encoding"),
    [
        (None, "utf-8"),
        ("application/octet-stream", "utf-8"),
        ("text/plain", "utf-8"),
        ("application/json;charset=UTF8", "utf-8"),
        ("text/plain;charset=latin-1", "iso8859-1"),
    ],
)
def test_text_when_it_is_sent_with_a_type_then_is_encoded_as_that_says_and_in_utf_8_otherwise(
    content_type: str | None, encoding: str
) -> None:
    assert text_encoding(content_type) == encoding
    assert is_utf_8_text(content_type) is (encoding == "utf-8")
