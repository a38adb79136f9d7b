from __future__ import annotations

import pytest

from trio_stomp.errors import RemoteProtocolError
from trio_stomp.protocol.frames import Command
from trio_stomp.protocol.grammar import rules_of
from trio_stomp.protocol.headers import Headers
from trio_stomp.protocol.quick_head import PLAIN, UNMARKED, head_by_lines, repeated
from trio_stomp.protocol.tolerances import STRICT, Tolerances
from trio_stomp.protocol.versions import Version

COMMANDS = {"MESSAGE": Command.MESSAGE}
RULES = rules_of(Version.V1_2, STRICT)


def marks_of(head: bytes) -> bytes:
    return head.translate(None, UNMARKED)


def read(head: bytes, tolerances: Tolerances = STRICT) -> Headers:
    _, headers = head_by_lines(head, marks_of(head), COMMANDS, rules_of(Version.V1_2, tolerances))
    return headers


@pytest.mark.parametrize(
    ("head", "plain"),
    [
        (b"MESSAGE", True),
        (b"MESSAGE\na:b\nc:d", True),
        (b"MESSAGE\na:\nc:d", True),
        ("MESSAGE\nä:ö".encode(), True),
        (b"MESSAGE\na\nc:d:e", False),
        (b"MESSAGE\na:b:c", False),
        (b"MESSAGE\na", False),
        (b"MESSAGE:\na:b", False),
        (b"MESSAGE\na:\\c", False),
        (b"MESSAGE\na:b\r", False),
        (b"MESSAGE\na:\0", False),
    ],
)
def test_structure_when_each_line_has_one_colon_and_nothing_else_then_is_plain(head: bytes, plain: bool) -> None:
    assert (marks_of(head) in PLAIN) is plain


def test_lines_when_they_hold_escapes_colons_and_repeats_then_give_the_headers() -> None:
    assert read(b"MESSAGE\na\\cb:c\\\\d\ne:f:g\na\\cb:2").pairs == (("a:b", "c\\d"), ("e", "f:g"), ("a:b", "2"))
    assert read(b"MESSAGE\ne:f:g").pairs == (("e", "f:g"),)
    assert read(b"MESSAGE\ne:\\x", Tolerances(undefined_escapes=True)).pairs == (("e", "\\x"),)


@pytest.mark.parametrize("head", [b"MESSAGE\na", b"MESSAGE\na:\0", b"MESSAGE\na:b\r", b"MESSAGE\na:\xff\\c"])
def test_lines_when_the_exact_way_must_judge_then_refused(head: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # its text is seen by nobody
        read(head)


def test_lines_when_the_command_is_unknown_then_refused() -> None:
    with pytest.raises(KeyError):
        read(b"RECEIVE\na:\\c")


def test_lines_when_an_escape_is_undefined_then_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="undefined escape"):
        read(b"MESSAGE\na:\\x")


@pytest.mark.parametrize("head", [b"MESSAGE\n:1", b"MESSAGE\na:1\n:2", b"MESSAGE\na:1\na:2\n:3"])
def test_headers_when_a_name_is_empty_then_refused(head: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # its text is seen by nobody
        repeated(head)
    with pytest.raises(ValueError):  # noqa: PT011  # its text is seen by nobody
        read(head + b"\nb:\\c")


def test_headers_when_a_plain_head_repeats_them_then_are_all_kept() -> None:
    assert repeated(b"MESSAGE\na:1\nb:2\na:3").pairs == (("a", "1"), ("b", "2"), ("a", "3"))


@pytest.mark.parametrize("kept", ["\1", "", "\1\1"])
def test_lines_when_plain_but_for_escapes_then_read_like_those_that_are_not(kept: str) -> None:
    lines = b"a\\\\\\cb:\\\\n\\n\\\\\\\\c" + kept.encode() + b"\nc:\\r\\\\"
    expected = (("a\\:b", "\\n\n\\\\c" + kept), ("c", "\r\\"))
    assert read(b"MESSAGE\n" + lines).pairs == expected
    # Another colon in a line, or a repeated name, and the head goes line by line.
    assert read(b"MESSAGE\n" + lines + b"\nd:1:2").pairs == (*expected, ("d", "1:2"))
    assert read(b"MESSAGE\n" + lines + b"\nc:2").pairs == (*expected, ("c", "2"))


def test_lines_when_the_frame_is_one_that_is_never_escaped_then_backslashes_are_kept() -> None:
    head = b"CONNECTED\na:\\c\\\\"
    _, headers = head_by_lines(head, marks_of(head), {"CONNECTED": Command.CONNECTED}, RULES)
    assert headers.pairs == (("a", "\\c\\\\"),)
