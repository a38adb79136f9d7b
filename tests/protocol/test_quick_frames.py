"""The decoder's accelerator: the same frames, errors and heart-beats as without it."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.kit.chunks import fed
from trio_stomp import Limits
from trio_stomp.errors import RemoteProtocolError
from trio_stomp.protocol import ClientEvent, ClientProtocol, Decoder, ReceiptsReceived, Role, Tolerances
from trio_stomp.protocol.grammar import rules_of
from trio_stomp.protocol.head_patterns import HeadPatterns
from trio_stomp.types import Command, Frame, Headers, Version

LIMITS = Limits(header_line_bytes=60, body_bytes=50)
FIRST = {"message-id": "1", "destination": "/q", "content-length": "1"}


def receipt(receipt_id: str) -> bytes:
    return f"RECEIPT\nreceipt-id:{receipt_id}\n\n\0".encode()


def head_of(headers: dict[str, str], command: str = "MESSAGE") -> bytes:
    return "\n".join([command, *(f"{name}:{value}" for name, value in headers.items())]).encode()


def frame_of(headers: dict[str, str], body: bytes = b"x", command: str = "MESSAGE") -> bytes:
    return head_of(headers, command) + b"\n\n" + body + b"\0"


def decoded(data: bytes) -> tuple[list[Frame], RemoteProtocolError | None]:
    """What a decoder reads, which must not depend on the accelerator."""
    fast, plain = (
        Decoder(role=Role.CLIENT, version=Version.V1_2, limits=LIMITS, accelerate=each) for each in (True, False)
    )
    frames = fast.receive_data(data)
    assert plain.receive_data(data) == frames
    assert (str(plain.error), type(plain.error)) == (str(fast.error), type(fast.error))
    assert fast.error is not None or plain.heartbeats == fast.heartbeats
    assert plain.pending is fast.pending
    return frames, fast.error


@pytest.mark.parametrize(
    ("lines", "pairs"),
    [
        ("", ()),
        ("a:b\nc:d\n", (("a", "b"), ("c", "d"))),
        ("a:\n", (("a", ""),)),
        ("ä:ö\n", (("ä", "ö"),)),
        ("a:1\nb:2\na:3\n", (("a", "1"), ("b", "2"), ("a", "3"))),
        ("e:f:g\n", (("e", "f:g"),)),
        ("a\\cb:c\\\\d\ne:f:g\na\\cb:2\n", (("a:b", "c\\d"), ("e", "f:g"), ("a:b", "2"))),
        ("a\\\\\\cb:\\\\n\\n\\\\\\\\c\1\nc:\\r\\\\\n", (("a\\:b", "\\n\n\\\\c\1"), ("c", "\r\\"))),
    ],
)
def test_head_when_it_is_whole_then_has_the_same_headers_each_time(
    lines: str, pairs: tuple[tuple[str, str], ...]
) -> None:
    frames, error = decoded(f"MESSAGE\n{lines}\nbody\0".encode() * 3)

    assert [frame.headers.pairs for frame in frames] == [pairs] * 3
    assert error is None


ODD_HEADS = (
    *(b"MESSAGE\na", b"MESSAGE\na\nc:d:e", b"MESSAGE\n:1", b"MESSAGE\na:1\n:2", b"MESSAGE\na:1\na:2\n:3"),
    *(b"MESSAGE\n:1\nb:\\c", b"MESSAGE\na:\\x", b"MESSAGE\na:b\r", b"MESSAGE\na:\0", b"MESSAGE\na:\xff"),
    *(b"MESSAGE\na:\xff\\c", b"MESSAGE:\na:b", b"MESS\\cAGE\na:b", b"RECEIVE\na:\\c", b""),
)
# Heads that follow these are read by patterns: the first varies in its message-id and its length.
LEARNED = b"".join(
    [
        *(frame_of(FIRST), frame_of(FIRST | {"message-id": "2"}), frame_of(FIRST | {"content-length": "3"}, b"xyz")),
        *(frame_of({"a": "1"}), frame_of({"a": "1"}), receipt("1"), receipt("1")),
    ]
)


@pytest.mark.parametrize(
    "data",
    [
        *(frame_of(FIRST | {"message-id": value}) for value in ("", "a:b", "ä b\t", "\\c\\\\", "\\x", "a\rb", "a\0b")),
        # As long as the limit, and longer.
        *(frame_of(FIRST | {"message-id": "a" * size}) for size in (49, 50, 99)),
        *(frame_of(FIRST | {"content-length": str(size)}, b"\0" * size) for size in (0, 12, 50, 51)),
        *(
            frame_of(FIRST | {"content-length": length})
            for length in ("", "x", "-1", "+1", "01", " 1", "9" * 30, "9" * 5000)
        ),
        *(frame_of(FIRST | {"content-length": length}, b"x" * int(length)) for length in ("1_0", "٣")),
        frame_of(FIRST | {"destination": "/r"}),
        frame_of({"message-id": "1", "content-length": "1"}),
        frame_of(FIRST, command="ERROR"),
        frame_of(FIRST).replace(b"message-id:1", b"message-id:\xff"),
        frame_of(FIRST, b"xy"),
        frame_of(FIRST)[:-1],
        head_of(FIRST),
        b"MESSAGE\nmessage-id:",
        frame_of({"a": "1"}, b"one") + frame_of({"a": "1"}, b"") + b"MESSAGE\na:1\n\nopen",
        b"\n\n" + frame_of(FIRST) + b"\n" + frame_of({"a": "1"}) + b"\n" + receipt("1") + b"\n",
        b"RECEIPT\nreceipt-id:1\n\nbody\0",
        *(head + b"\n\n\0" for head in ODD_HEADS),
    ],
    ids=lambda data: repr(data)[:80],
)
def test_frame_when_it_follows_learned_ones_and_is_not_like_them_then_is_read_as_the_exact_way_reads_it(
    data: bytes,
) -> None:
    decoded(LEARNED + data + frame_of(FIRST))
    decoded(frame_of(FIRST) + data + frame_of(FIRST))


def test_frames_when_several_kinds_take_turns_then_each_is_read_as_the_exact_way_reads_it() -> None:
    kinds = [{name: "1", "content-length": "1"} for name in ("a", "b", "c", "d", "e")]

    frames, _ = decoded(b"".join(frame_of(headers) for headers in kinds * 5))

    assert [next(iter(frame.headers)) for frame in frames] == ["a", "b", "c", "d", "e"] * 5


# --- learning: it must not cost more than it gains --------------------------------------------------------------------


def patterns(*known: dict[str, str]) -> HeadPatterns:
    """What was learned from MESSAGEs with these headers, in this order."""
    learned = HeadPatterns(rules_of(Version.V1_2, Tolerances()), Limits())
    learn(learned, *known)
    return learned


def learn(learned: HeadPatterns, *known: dict[str, str]) -> None:
    for headers in known:
        learned.learn(head_of(headers), Command.MESSAGE, Headers(headers))


def follows(learned: HeadPatterns, headers: dict[str, str]) -> bool:
    frames: list[Frame] = []
    learned.take(frame_of(headers), 0, frames)
    return len(frames) == 1


def test_patterns_when_there_are_too_many_kinds_then_those_that_were_not_followed_for_longest_are_forgotten() -> None:
    kinds = [{name: "1"} for name in "abcdefg"]
    learned = patterns(*kinds[:4])
    assert follows(learned, kinds[0])

    learn(learned, *kinds[4:])

    assert [follows(learned, headers) for headers in kinds] == [True, False, False, False, True, True, True]


@pytest.mark.parametrize(("size", "is_learned"), [(2048, True), (2049, False)])
def test_head_when_it_is_as_long_as_can_be_learned_then_one_byte_more_is_too_long(size: int, is_learned: bool) -> None:
    headers = {"a": "x" * (size - len(b"MESSAGE\na:"))}
    assert len(head_of(headers)) == size

    assert follows(patterns(headers), headers) is is_learned


@pytest.mark.parametrize(("fields", "is_learned"), [(10, True), (11, False)])
def test_head_when_as_many_values_vary_as_can_be_learned_then_one_more_is_too_many_and_learning_pauses(
    fields: int, is_learned: bool
) -> None:
    one, two, three = ({f"h{index}": value for index in range(fields)} for value in "123")
    learned = patterns(one, two)

    assert follows(learned, three) is is_learned
    learn(learned, FIRST)
    assert follows(learned, FIRST) is is_learned


@pytest.mark.parametrize(("lessons", "is_learned"), [(63, True), (64, False)])
def test_learning_when_64_heads_have_other_names_each_then_pauses(lessons: int, is_learned: bool) -> None:
    learned = patterns(*({f"h{number}": "1"} for number in range(lessons)))

    learn(learned, FIRST)

    assert follows(learned, FIRST) is is_learned


def test_learning_when_it_pauses_then_for_1024_frames() -> None:
    learned = patterns(*({f"h{index}": f"{number}" for index in range(20)} for number in range(2)))

    for _ in range(1024):
        learn(learned, FIRST)
        assert not follows(learned, FIRST)
    learn(learned, FIRST)
    assert follows(learned, FIRST)


def test_patterns_when_64_frames_in_a_row_follow_none_then_the_next_such_frame_ends_them() -> None:
    other = {"a": "x" * 3000}
    learned = patterns(FIRST)
    learn(learned, *[other] * 60)
    assert follows(learned, FIRST)
    # The count begins again with each that follows, and after the end; then FIRST itself is the first to be counted.
    for count in (64, 63):
        learn(learned, *[other] * count)
        assert len(learned.known) == 1
        learn(learned, other)
        assert learned.known == []
        learn(learned, FIRST)


NASTY = st.sampled_from(
    ["1", "", "a:b", "\\c", "\\\\", "\\n\\r", "\\x", "\\", "a\r", "\r", "a\0", "ä€", "\t\x7f\x1f", "\u2028"]
)
HEADERS = st.lists(st.tuples(st.sampled_from("abcdef"), NASTY), min_size=1, max_size=4)


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """Frames that are much like each other, with ends of line between them."""
    base = [("destination", "/q"), *draw(HEADERS)]
    stream = b""
    for _ in range(draw(st.integers(2, 6))):
        entries = list(base)
        for index in draw(st.sets(st.integers(1, len(base) - 1), max_size=2)):
            entries[index] = (entries[index][0], draw(NASTY))
        body = draw(st.sampled_from([b"", b"x", b"\n\n", b"a\0b", b"body"]))
        if draw(st.booleans()):
            entries.append(("content-length", draw(st.sampled_from([str(len(body))] * 4 + ["2", "x", "03"]))))
        lines = "".join(f"{name}:{value}\n" for name, value in entries)
        stream += f"MESSAGE\n{lines}\n".encode() + body + b"\0" + b"\n" * draw(st.integers(0, 2))
    return stream


@given(
    stream=streams(),
    version=st.sampled_from([Version.V1_1, Version.V1_2]),
    lenient=st.booleans(),
    limits=st.sampled_from([Limits(), Limits(header_line_bytes=16, header_count=3, body_bytes=3)]),
)
@example(stream=frame_of(FIRST) * 3, version=Version.V1_2, lenient=False, limits=Limits())
def test_stream_when_read_by_patterns_then_gives_what_octet_by_octet_gives(
    stream: bytes, version: Version, *, lenient: bool, limits: Limits
) -> None:
    tolerances = Tolerances()
    if lenient:
        tolerances = Tolerances(
            undefined_escapes=True, invalid_utf8=True, nul_in_message_headers=True, cr_escape_in_1_1=True
        )
    whole, cut = (Decoder(role=Role.CLIENT, version=version, limits=limits, tolerances=tolerances) for _ in range(2))

    at_once = whole.receive_data(stream)
    one_by_one = fed(cut, stream, 1)

    assert at_once == one_by_one
    # What is shown of the bytes after the fault depends on how many have come.
    assert str(whole.error).partition(" b'")[0] == str(cut.error).partition(" b'")[0]
    assert type(whole.error) is type(cut.error)
    assert isinstance(whole.error, RemoteProtocolError) or whole.heartbeats == cut.heartbeats


# --- RECEIPTs in a row ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "fitting"),
    [
        (Limits(), True),
        (Limits(header_line_bytes=210), False),
        (Limits(header_line_bytes=211), True),
        (Limits(header_count=0), False),
        (Limits(header_count=1), True),
        (Limits(command_bytes=6), False),
        (Limits(command_bytes=7), True),
    ],
)
def test_run_when_its_receipts_pass_a_limit_then_is_refused(limits: Limits, fitting: bool) -> None:
    decoder = Decoder(role=Role.CLIENT, version=Version.V1_2, limits=limits, receipt_runs=True)

    frames = decoder.receive_data(receipt("x" * 200) * 2)

    assert (bool(frames), decoder.error is None) == (fitting, fitting)


def test_ends_of_line_when_runs_and_other_frames_take_turns_then_each_is_counted_once() -> None:
    message = b"MESSAGE\nsubscription:s\nmessage-id:1\ndestination:/q\n\n\0"
    data = b"\n".join([receipt("1"), receipt("2"), message, message, receipt("3"), message, b""])
    at_once = Decoder(role=Role.CLIENT, version=Version.V1_2, receipt_runs=True)
    one_by_one = Decoder(role=Role.CLIENT, version=Version.V1_2, receipt_runs=True)

    at_once.receive_data(data)
    fed(one_by_one, data, 1)

    assert at_once.heartbeats == one_by_one.heartbeats == 6


PIECES = st.sampled_from(
    [
        *(receipt(receipt_id) for receipt_id in ("r-1", "r-22", "", "a:b", "\\c", "\\x", "ä", " ", "x" * 300)),
        b"\n",
        b"RECEIPT\nreceipt-id:1\nreceipt-id:2\n\n\0",
        b"RECEIPT\r\nreceipt-id:1\r\n\r\n\0",
        b"RECEIPT\n\n\0",
        b"RECEIPT\nreceipt-id:1\n\nbody\0",
        b"MESSAGE\nsubscription:s\nmessage-id:1\ndestination:/q\n\nbody\0",
        b"ERROR\nmessage:no\n\n\0",
    ]
)


def ids(events: list[ClientEvent]) -> list[str]:
    """All receipts that were told of, and the other events by their types."""
    shown: list[str] = []
    for event in events:
        shown += event.receipt_ids if isinstance(event, ReceiptsReceived) else [type(event).__name__]
    return shown


@given(pieces=st.lists(PIECES, max_size=8), version=st.sampled_from(["1.0", "1.1", "1.2"]))
def test_stream_when_it_holds_runs_then_tells_what_octet_by_octet_tells(pieces: list[bytes], version: str) -> None:
    whole, cut = ClientProtocol(), ClientProtocol()
    for protocol in (whole, cut):
        protocol.connect(host="h")
        protocol.receive_data(f"CONNECTED\nversion:{version}\n\n\0".encode())
    stream = b"".join(pieces)

    at_once = ids(whole.receive_data(stream))
    one_by_one = ids(fed(cut, stream, 1))

    # Messages in a row are one event.
    assert [told for told in at_once if told != "MessagesReceived"] == [
        told for told in one_by_one if told != "MessagesReceived"
    ]
