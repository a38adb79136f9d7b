from __future__ import annotations

import re

import pytest

from tests.kit.chunks import fed
from tests.kit.costs import bytes_kept, expect_below, measures_memory
from trio_stomp import Limits
from trio_stomp.errors import LimitExceeded, RemoteProtocolError
from trio_stomp.protocol import Decoder, Role, Tolerances
from trio_stomp.types import Command, Frame, Version

V1_0, V1_1, V1_2 = Version.V1_0, Version.V1_1, Version.V1_2
EACH_SIZE = pytest.mark.parametrize("size", [1, 2, 7, 10_000_000])


def client(version: Version | None = V1_2, limits: Limits | None = None) -> Decoder:
    return Decoder(role=Role.CLIENT, version=version, limits=limits)


def error_of(decoder: Decoder) -> RemoteProtocolError:
    assert decoder.error is not None
    return decoder.error


@EACH_SIZE
@pytest.mark.parametrize("count", [3, 5000, 100_000])
def test_body_when_it_comes_in_pieces_then_is_joined(count: int, size: int) -> None:
    body = bytes(range(1, 256)) * (count // 255) + b"x" * (count % 255)
    decoder = client()

    (first, second) = fed(decoder, b"ERROR\n\n%b\0ERROR\ncontent-length:%d\n\n%b\0" % (body, count, body), size)

    assert first.body == second.body == body


def test_body_when_large_and_small_pieces_alternate_then_is_joined_in_order() -> None:
    pieces = [b"a" * 5000, b"b", b"c", b"d" * 5000, b"e", b"f" * 6000]
    decoder = client()

    frames = [frame for piece in [b"ERROR\n\n", *pieces, b"\0"] for frame in decoder.receive_data(piece)]

    assert frames == [Frame(command=Command.ERROR, body=b"".join(pieces))]


@EACH_SIZE
@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"RECEIPT\n\nx\0", "a RECEIPT frame has no body"),
        (b"RECEIPT\ncontent-length:1\n\n", "a RECEIPT frame has no body"),
        (b"ERROR\ncontent-length:1\n\nab", "does not end with a NUL after the 1 bytes .* found b'b"),
        (b"ERROR\ncontent-length:-1\n\n", "content-length of ERROR must be a number of bytes, got '-1'"),
        (b"ERROR\ncontent-length:1_0\n\n", "must be a number"),
        (b"ERROR\ncontent-length: 1\n\n", "must be a number"),
        ("ERROR\ncontent-length:\u0663\n\n".encode(), "must be a number"),
        (b"ERROR\na\n\n\0", "no colon"),
        (b"ERROR\n:a\n\n\0", "empty name"),
        (b"ERROR\na:\\t\n\n\0", "undefined escape"),
        (b"ERROR\na:\xff\n\n\0", "not UTF-8 at byte 2"),
        (b"NOPE\n\n\0", "unknown command 'NOPE'; expected one of CONNECTED, ERROR, MESSAGE, RECEIPT"),
        (b"SEND\n\n\0", "unknown command"),
        (b"\xff\n", "unknown command"),
        (b"ERROR\na:b\rc", "CR inside a line"),
        (b"\rE", "CR inside a line"),
        (b"\0", "NUL where a command or an end of line should be"),
        (b"ERROR\na:b\n\0", "NUL in the headers of a ERROR frame; is its blank line missing"),
    ],
)
def test_stream_when_it_breaks_the_grammar_then_ends_after_the_frames_before(data: bytes, told: str, size: int) -> None:
    decoder = client()

    frames = fed(decoder, b"ERROR\n\nfirst\0\n" + data + b"\0ERROR\n\nafter\0", size)

    assert [frame.body for frame in frames] == [b"first"]
    assert not isinstance(error_of(decoder), LimitExceeded)
    with pytest.raises(RemoteProtocolError, match=told):
        raise error_of(decoder)
    assert not decoder.pending
    assert decoder.receive_data(b"ERROR\n\n\0") == []


@EACH_SIZE
@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"ERROR\n\n12345", "body of ERROR is longer than 4 bytes (limit body_bytes)"),
        (b"ERROR\ncontent-length:5\n\n", "limit body_bytes"),
        (b"ERROR\ncontent-length:999999999999999999999999999999\n\n", "limit body_bytes"),
        (b"RECEIPT\nx:y\n\n\0" * 2 + b"R" * 17, "command line is longer than 16 bytes (limit command_bytes)"),
    ],
)
def test_stream_when_it_passes_a_limit_then_ends_with_limit_exceeded(data: bytes, told: str, size: int) -> None:
    decoder = client(limits=Limits(command_bytes=16, body_bytes=4))

    fed(decoder, data, size)

    with pytest.raises(LimitExceeded, match=re.escape(told)):
        raise error_of(decoder)


@EACH_SIZE
@pytest.mark.parametrize(
    ("version", "data", "told"),
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
def test_line_when_several_things_are_wrong_with_it_then_the_first_wrong_byte_decides(
    version: Version, data: bytes, told: str, size: int
) -> None:
    decoder = client(version, Limits(command_bytes=5, header_line_bytes=4, header_count=2))

    assert fed(decoder, data, size) == []

    assert told in str(error_of(decoder))


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (b"a:".ljust(59, b"x"), repr(b"a:".ljust(59, b"x") + b"\0")),
        (b"a:".ljust(60, b"x"), repr(b"a:".ljust(60, b"x")) + "..."),
        (b"a" * 1000, repr(b"a" * 60) + "..."),
        (b"Passcode:s3cret", "[redacted]"),
    ],
    ids=["60 bytes", "61 bytes", "long", "secret"],
)
def test_error_when_it_shows_a_line_then_60_bytes_of_it_and_no_passcode(line: bytes, shown: str) -> None:
    decoder = client()

    decoder.receive_data(b"MESSAGE\n" + line + b"\0")

    assert str(error_of(decoder)) == f"NUL in the headers of a MESSAGE frame; is its blank line missing? {shown}"


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        (b"ERR\r", b"O"),
        (b"ERROR\na:b\r", b"c"),
        (b"ERROR\na:b", b"\0"),
        (b"R" * 16, b"R"),
        (b"ERROR\n" + b"a" * 49, b"a"),
        (b"ERROR\na:1\nb:2\nc:3\n\r", b"d"),
    ],
)
def test_line_when_it_comes_byte_by_byte_then_fails_at_the_first_byte_that_cannot_follow(
    good: bytes, bad: bytes
) -> None:
    decoder = client(limits=Limits(command_bytes=16, header_line_bytes=49, header_count=3))

    fed(decoder, good, 1)
    assert decoder.error is None
    decoder.receive_data(bad)

    assert decoder.error is not None


@EACH_SIZE
def test_content_length_when_it_has_many_zeros_then_is_still_read(size: int) -> None:
    (frame,) = fed(client(), b"ERROR\ncontent-length:" + b"0" * 5000 + b"2\n\na\0\0", size)

    assert frame.body == b"a\0"


@pytest.mark.parametrize(("version", "pending"), [(V1_2, False), (V1_1, True), (V1_0, False)])
def test_pending_when_the_input_ends_with_a_cr_then_a_frame_is_open_only_where_that_is_no_end_of_line(
    version: Version, pending: bool
) -> None:
    decoder = client(version)
    decoder.receive_data(b"\r")

    assert decoder.pending is pending


def test_handshake_when_its_frame_has_come_then_what_follows_waits_for_the_version() -> None:
    decoder = client(None)

    (connected,) = decoder.receive_data(b"CONNECTED\r\nversion:1.1\r\n\r\n\0\nRECEIPT\na:b\r\n\n\0REC")
    assert connected.headers == {"version": "1.1"}
    assert decoder.receive_data(b"EIPT\n\n\0") == []

    decoder.set_version(V1_1)
    first, second = decoder.receive_data(b"")

    assert first.headers == {"a": "b\r"}
    assert second == Frame(command=Command.RECEIPT)


def test_handshake_when_it_fails_with_errors_then_all_are_read() -> None:
    frames = client(None).receive_data(b"ERROR\nmessage:\\c\\q\n\n\0\nERROR\n\nmore\0")

    assert [frame.headers.get("message") for frame in frames] == [":\\q", None]


def test_content_length_when_no_version_is_agreed_on_then_only_spaces_are_padding() -> None:
    decoder = client(None)
    decoder.receive_data(b"CONNECTED\ncontent-length: X0\n\n\0")
    assert "content-length of CONNECTED must be a number of bytes, got 'X0'" in str(error_of(decoder))


def test_tolerances_when_set_with_the_version_then_hold_for_what_follows() -> None:
    decoder = client(None)
    decoder.receive_data(b"CONNECTED\nversion:1.2\n\n\0")
    decoder.set_version(V1_2, Tolerances(undefined_escapes=True))

    (frame,) = decoder.receive_data(b"ERROR\nmessage:\\t\\c\n\n\0")

    assert frame.headers == {"message": "\\t:"}


def counted_message(number: int, length: str, body: bytes) -> bytes:
    head = f"MESSAGE\nsubscription:s\nmessage-id:{number}\ndestination:/q\ncontent-length:{length}\n\n"
    return head.encode() + body + b"\0"


def after_counted_messages(count: int) -> Decoder:
    """A decoder that has read as many, of several lengths, so that the length is one of the values that vary."""
    decoder = client()
    for number in range(count):
        (frame,) = decoder.receive_data(counted_message(number, str(number + 1), b"x" * (number + 1)))
        assert len(frame.body) == number + 1
    return decoder


@pytest.mark.parametrize("length", ["+1", "-0", "1_", " 1", "1 ", "\u0661", "0x1", "1.0", ""])
@pytest.mark.parametrize("frames_before", [0, 1, 5])
def test_content_length_when_no_plain_number_then_refused_however_many_plain_ones_came_before(
    frames_before: int, length: str
) -> None:
    """A head that follows a learned pattern is judged like the first of its kind."""
    decoder = after_counted_messages(frames_before)

    assert decoder.receive_data(counted_message(99, length, b"x")) == []

    assert "content-length of MESSAGE must be a number" in str(error_of(decoder))


@pytest.mark.parametrize("frames_before", [0, 5])
def test_content_length_when_it_begins_with_zeros_then_its_header_is_kept_as_it_came(frames_before: int) -> None:
    decoder = after_counted_messages(frames_before)

    (frame,) = decoder.receive_data(counted_message(99, "002", b"\0x"))

    assert (frame.body, frame.headers["content-length"]) == (b"\0x", "002")


@measures_memory
def test_decoder_when_an_error_ends_it_then_keeps_nothing_of_the_body_or_of_what_follows() -> None:
    size = 8 * 1024 * 1024
    decoder = client()
    decoder.receive_data(b"MESSAGE\nsubscription:s\nmessage-id:1\ndestination:/q\ncontent-length:%d\n\n" % size)

    def feed_and_fail() -> Decoder:
        for _ in range(7):
            decoder.receive_data(b"x" * (size // 8))
        # The last byte is where the NUL should be.
        decoder.receive_data(b"x" * (size // 8 + 1))
        decoder.receive_data(b"x" * (size // 16))
        return decoder

    expect_below(bytes_kept(feed_and_fail), size // 100)
    assert "does not end with a NUL" in str(error_of(decoder))
