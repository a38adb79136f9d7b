from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from trio_stomp.errors import LimitExceeded, RemoteProtocolError
from trio_stomp.protocol.frames import Command, Role
from trio_stomp.protocol.grammar import HANDSHAKE_RULES, Rules, rules_of
from trio_stomp.protocol.head_reader import Head, HeadReader
from trio_stomp.protocol.header_rules import commands_from
from trio_stomp.protocol.headers import Headers
from trio_stomp.protocol.limits import Limits
from trio_stomp.protocol.tolerances import STRICT
from trio_stomp.protocol.versions import Version

V1_0, V1_1, V1_2 = (rules_of(version, STRICT) for version in Version)


def reader(rules: Rules, limits: Limits | None = None) -> HeadReader:
    return HeadReader(
        commands=commands_from(Role.SERVER, Version.V1_2, longest_bytes=64),
        limits=limits if limits is not None else Limits(),
        tolerances=STRICT,
        rules=rules,
    )


def heads(rules: Rules, data: bytes, size: int, limits: Limits | None = None) -> Iterator[Head]:
    """Every head in `data`, read in chunks of `size`."""
    read = reader(rules, limits)
    for start in range(0, len(data), size):
        chunk = data[start : start + size]
        position = 0
        while position < len(chunk):
            head, position = read.read(chunk, position)
            if head is not None:
                yield head


@pytest.mark.parametrize("size", [1, 3, 100])
@pytest.mark.parametrize(
    ("rules", "data", "pairs"),
    [
        (V1_2, b"ERROR\na:b\n\n", [("a", "b")]),
        (V1_2, b"ERROR\r\na:\\r\\c\r\nc\\n: d \r\n\r\n", [("a", "\r:"), ("c\n", " d ")]),
        (V1_1, b"ERROR\na:b\r\n\n", [("a", "b\r")]),
        (V1_0, b"ERROR\r\na: b:\\c \r\n\r\n", [("a", "b:\\c")]),
        (V1_0, b"ERROR\na: \tX \n\n", [("a", "\tX")]),
        (HANDSHAKE_RULES, b"ERROR\r\na:\\c\\t\n\n", [("a", ":\\t")]),
        (V1_2, b"ERROR\n\n", []),
    ],
)
def test_head_when_read_by_some_rules_then_is_the_same_however_it_is_cut(
    rules: Rules, data: bytes, pairs: list[tuple[str, str]], size: int
) -> None:
    (head,) = heads(rules, data, size)

    assert (head.command, head.headers) == (Command.ERROR, Headers(pairs))


def test_head_when_it_ends_then_leaves_the_rest_of_the_chunk() -> None:
    head, position = reader(V1_2).read(b"\nERROR\n\nbody\0", 0)

    assert head is not None
    assert (head.command, head.headers) == (Command.ERROR, Headers())
    assert position == len(b"\nERROR\n\n")


def test_commands_of_the_handshake_when_escaped_then_stay_as_they_are() -> None:
    (head,) = heads(V1_2, b"CONNECTED\na\\c:b\\t\n\n", 100)

    assert head.headers.pairs == (("a\\c", "b\\t"),)


def test_reader_when_between_frames_then_counts_the_ends_of_line() -> None:
    read = reader(V1_2)

    assert read.read(b"\n\r\n\n", 0) == (None, 4)
    assert read.heartbeats == 3
    assert read.command is None
    assert not read.line


@pytest.mark.parametrize(
    ("rules", "data", "started", "inside"),
    [
        (V1_2, b"", False, False),
        (V1_2, b"\r", True, False),
        (V1_1, b"\r", True, True),
        (V1_2, b"E", True, True),
        (V1_2, b"ERROR\n", True, True),
        (V1_2, b"ERROR\n\r", True, True),
        (V1_2, b"ERROR\n\n", False, False),
    ],
)
def test_reader_when_its_input_ends_then_knows_whether_it_is_inside_a_frame(
    rules: Rules, data: bytes, started: bool, inside: bool
) -> None:
    read = reader(rules)
    read.read(data, 0)

    assert (read.command is not None or bool(read.line), read.inside) == (started, inside)


@pytest.mark.parametrize("size", [1, 2, 100])
@pytest.mark.parametrize(
    ("rules", "data", "told"),
    [
        (V1_2, b"ERROR\na\n", "no colon"),
        (V1_2, b"ERROR\n:a\n", "empty name"),
        (V1_2, b"ERROR\na:\xff\n", "not UTF-8 at byte 2"),
        (V1_2, b"ERROR\na:\\t\n", "undefined escape"),
        (V1_2, b"NOPE\n", "unknown command 'NOPE'; expected one of CONNECTED, ERROR, MESSAGE, RECEIPT"),
        (V1_2, b"\xff\n", "unknown command"),
        (V1_2, b"ERROR\na:b\rc", "CR inside a line"),
        (V1_2, b"\rE", "CR inside a line"),
        (V1_2, b"\0", "NUL where a command or an end of line should be"),
        (V1_2, b"ERROR\na:b\n\0", "NUL in the headers of a ERROR frame; is its blank line missing"),
        (V1_1, b"ERROR\r\n", "unknown command"),
        (V1_1, b"ERROR\n\r\n", "no colon"),
    ],
)
def test_lines_when_they_break_the_grammar_then_say_how(rules: Rules, data: bytes, told: str, size: int) -> None:
    with pytest.raises(RemoteProtocolError, match=told) as caught:
        list(heads(rules, data, size))
    assert not isinstance(caught.value, LimitExceeded)


@pytest.mark.parametrize("size", [1, 2, 100])
@pytest.mark.parametrize(
    ("rules", "data", "told"),
    [
        (V1_2, b"ERRORR", "command line is longer than 5 bytes (limit command_bytes)"),
        (V1_2, b"ERROR\nabcde", "header line is longer than 4 bytes (limit header_line_bytes)"),
        (V1_2, b"ERROR\na:bc\rd\n", "CR inside a line"),
        (V1_2, b"ERROR\na:bc\r\r\n", "CR inside a line"),
        (V1_0, b"ERROR\na:bc\rd\0", "header line is longer"),
        (V1_0, b"ERROR\na:bc\r\r", "header line is longer"),
        (V1_1, b"ERROR\na:bc\r", "header line is longer"),
        (V1_2, b"ERROR\nab\0cde", "NUL in the headers"),
        (V1_2, b"ERROR\nabcde\0", "header line is longer"),
        (V1_2, b"ERROR\nabcde\rf", "header line is longer"),
        (V1_2, b"ERROR\na:b\nc:d\ne", "more than 2 headers"),
        (V1_2, b"ERROR\na:b\nc:d\n\0", "more than 2 headers"),
    ],
)
def test_lines_when_they_pass_a_limit_then_fail_at_the_first_octet_too_many(
    rules: Rules, data: bytes, told: str, size: int
) -> None:
    limits = Limits(command_bytes=5, header_line_bytes=4, header_count=2)

    with pytest.raises(RemoteProtocolError, match=re.escape(told)):
        list(heads(rules, data, size, limits))


@pytest.mark.parametrize("size", [1, 2, 100])
@pytest.mark.parametrize("rules", [V1_0, V1_2])
def test_lines_when_exactly_at_the_limits_then_pass(rules: Rules, size: int) -> None:
    limits = Limits(command_bytes=5, header_line_bytes=4, header_count=2)

    (head,) = heads(rules, b"ERROR\r\na:bc\r\nd:ef\r\n\r\n", size, limits)

    assert head.headers == {"a": "bc", "d": "ef"}


def test_error_when_the_line_may_hold_a_passcode_then_does_not_show_it() -> None:
    with pytest.raises(RemoteProtocolError, match=r"\[redacted\]") as caught:
        list(heads(V1_2, b"ERROR\nPasscode:s3cret\0", 100))
    assert "s3cret" not in str(caught.value)


def test_error_when_the_line_is_long_then_shows_its_beginning() -> None:
    with pytest.raises(RemoteProtocolError, match=r"a+'\.\.\.$") as caught:
        list(heads(V1_2, b"ERROR\n" + b"a" * 1000 + b"\0", 2000))
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("beyond", [0, 1])
def test_error_when_it_shows_the_line_then_60_bytes_of_it(beyond: int) -> None:
    line = b"a:".ljust(59 + beyond, b"x") + b"\0"

    with pytest.raises(RemoteProtocolError) as caught:
        reader(V1_2).read(b"MESSAGE\n" + line, 0)

    assert str(caught.value).endswith(f"missing? {line[:60]!r}" + ("..." if beyond else ""))


def test_error_when_the_line_may_hold_a_passcode_then_shows_none_of_it() -> None:
    with pytest.raises(RemoteProtocolError, match=r"missing\? \[redacted\]$"):
        reader(V1_2).read(b"MESSAGE\nPassCode:secret\0", 0)
