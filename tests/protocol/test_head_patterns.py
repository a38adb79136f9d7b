"""Heads that follow those before: read as the exact way reads them, and by the pattern where they can be."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trio_stomp.errors import RemoteProtocolError
from trio_stomp.protocol.decoder import Decoder
from trio_stomp.protocol.frames import Command, Frame, Role
from trio_stomp.protocol.grammar import rules_of
from trio_stomp.protocol.head_patterns import HeadPattern, HeadPatterns
from trio_stomp.protocol.headers import Headers
from trio_stomp.protocol.limits import Limits
from trio_stomp.protocol.tolerances import STRICT, Tolerances
from trio_stomp.protocol.versions import Version

LIMITS = Limits(body_bytes=50)
FIRST = {"message-id": "1", "destination": "/q", "content-length": "1"}


def head_of(headers: dict[str, str], command: str = "MESSAGE") -> bytes:
    return "\n".join([command, *(f"{name}:{value}" for name, value in headers.items())]).encode()


def frame_of(headers: dict[str, str], body: bytes = b"x", command: str = "MESSAGE") -> bytes:
    return head_of(headers, command) + b"\n\n" + body + b"\0"


def patterns(*known: dict[str, str], limits: Limits = LIMITS) -> HeadPatterns:
    """What was learned from MESSAGEs with these headers, in this order."""
    learned = HeadPatterns(rules_of(Version.V1_2, STRICT), limits)
    for headers in known:
        learned.learn(head_of(headers), Command.MESSAGE, Headers(headers))
    return learned


def taken(learned: HeadPatterns, data: bytes) -> tuple[list[Frame], int]:
    """The frames that follow a pattern, and where the first one begins that does not."""
    frames: list[Frame] = []
    position, _ = learned.take(data, 0, frames)
    return frames, position


def test_frames_when_only_known_values_vary_then_are_read_by_the_pattern() -> None:
    learned = patterns(FIRST, FIRST | {"message-id": "2"})
    data = b"".join(frame_of(FIRST | {"message-id": value}) for value in ("3", "", "a:b", "ä b\t", "\\c\\\\"))

    frames, position = taken(learned, data)

    assert [frame.headers["message-id"] for frame in frames] == ["3", "", "a:b", "ä b\t", ":\\"]
    assert [list(frame.headers) for frame in frames] == [list(FIRST)] * 5
    assert {frame.body for frame in frames} == {b"x"}
    assert position == len(data)


def test_frames_when_the_length_varies_then_bodies_are_cut_by_it() -> None:
    learned = patterns(FIRST, FIRST | {"content-length": "3"})
    data = frame_of(FIRST | {"content-length": "0"}, b"") + frame_of(FIRST | {"content-length": "12"}, b"\0" * 12)

    assert [frame.body for frame in taken(learned, data)[0]] == [b"", b"\0" * 12]


def test_frames_when_no_length_is_given_then_bodies_end_at_the_first_nul() -> None:
    learned = patterns({"a": "1"})

    frames, position = taken(learned, frame_of({"a": "1"}, b"one") + frame_of({"a": "1"}, b"") + b"MESSAGE\na:1\n\nope")

    assert [frame.body for frame in frames] == [b"one", b""]
    assert position == len(frame_of({"a": "1"}, b"one")) + len(frame_of({"a": "1"}, b""))


def test_ends_of_line_when_between_frames_then_are_passed_over_and_counted() -> None:
    frames: list[Frame] = []
    data = b"\n\n" + frame_of(FIRST) + b"\n" + frame_of(FIRST) + b"\n"

    assert patterns(FIRST).take(data, 0, frames) == (len(data), 4)
    assert len(frames) == 2


@pytest.mark.parametrize(
    "data",
    [
        frame_of(FIRST | {"destination": "/r"}),
        frame_of({"message-id": "1", "content-length": "1"}),
        frame_of(FIRST, command="ERROR"),
        frame_of(FIRST | {"message-id": "\\x"}),
        frame_of(FIRST | {"message-id": "a\rb"}),
        frame_of(FIRST | {"message-id": "a\0b"}),
        frame_of(FIRST).replace(b"message-id:1", b"message-id:\xff"),
        frame_of(FIRST | {"message-id": "a" * 99}),
        frame_of(FIRST, b"xy"),
        frame_of(FIRST)[:-1],
        head_of(FIRST),
        b"MESSAGE\nmessage-id:",
        b"\n",
        b"",
    ],
)
def test_frame_when_it_is_not_as_the_pattern_has_it_then_is_left_to_the_exact_way(data: bytes) -> None:
    learned = patterns(FIRST, FIRST | {"message-id": "2"}, limits=Limits(header_line_bytes=100))
    data = frame_of(FIRST) + data

    frames, position = taken(learned, data)

    assert len(frames) == 1
    assert data[position:].lstrip(b"\n") == data[len(frame_of(FIRST)) :].lstrip(b"\n")


@pytest.mark.parametrize("length", ["", "x", "-1", "+1", "01", " 1", "1_0", "٣", "51", "9" * 5000])
def test_length_when_it_is_no_plain_number_or_too_long_then_is_left_to_the_exact_way(length: str) -> None:
    learned = patterns(FIRST, FIRST | {"content-length": "3"})

    assert taken(learned, frame_of(FIRST | {"content-length": length}, b"x" * 51)) == ([], 0)


@pytest.mark.parametrize("length", ["+1", "01", " 1", "1_0", "٣"])
def test_length_when_it_has_more_than_its_digits_and_fits_the_body_then_is_left_to_the_exact_way(length: str) -> None:
    learned = patterns(FIRST, FIRST | {"content-length": "3"})

    assert taken(learned, frame_of(FIRST | {"content-length": length}, b"x" * int(length))) == ([], 0)


def test_body_when_the_command_has_none_then_is_left_to_the_exact_way() -> None:
    learned = HeadPatterns(rules_of(Version.V1_2, STRICT), LIMITS)
    learned.learn(b"RECEIPT\nreceipt-id:1", Command.RECEIPT, Headers({"receipt-id": "1"}))

    assert taken(learned, b"RECEIPT\nreceipt-id:1\n\nbody\0") == ([], 0)
    assert len(taken(learned, b"RECEIPT\nreceipt-id:1\n\n\0")[0]) == 1


def test_patterns_when_frames_of_several_kinds_take_turns_then_each_is_read_by_its_own() -> None:
    kinds = [{name: "1", "content-length": "1"} for name in ("a", "b", "c", "d")]
    data = b"".join(frame_of(headers) for headers in kinds * 5)

    frames, position = taken(patterns(*kinds), data)

    assert [next(iter(frame.headers)) for frame in frames] == ["a", "b", "c", "d"] * 5
    assert position == len(data)


def test_patterns_when_one_was_followed_then_it_is_the_first_to_be_tried() -> None:
    kinds = [{name: "1", "content-length": "1"} for name in ("a", "b", "c")]
    learned = patterns(*kinds)
    third, second, first = learned.known

    taken(learned, frame_of(kinds[1]))

    assert learned.known == [second, third, first]


def test_patterns_when_there_are_too_many_kinds_then_the_oldest_are_forgotten() -> None:
    kinds = [{name: "1"} for name in "abcdef"]
    learned = patterns(*kinds)

    assert [len(taken(learned, frame_of(headers))[0]) for headers in kinds] == [0, 0, 1, 1, 1, 1]


def test_head_when_it_is_repeated_or_long_then_nothing_is_learned() -> None:
    learned = patterns()
    learned.learn(b"MESSAGE\na:1\na:2", Command.MESSAGE, Headers([("a", "1"), ("a", "2")]))
    learned.learn(head_of({"a": "x" * 3000}), Command.MESSAGE, Headers({"a": "x" * 3000}))

    assert taken(learned, b"MESSAGE\na:1\na:2\n\n\0") == ([], 0)
    assert taken(learned, frame_of({"a": "x" * 3000})) == ([], 0)


@pytest.mark.parametrize(("size", "count"), [(2048, 1), (2049, 0)])
def test_head_when_it_is_as_long_as_can_be_learned_then_one_byte_more_is_too_long(size: int, count: int) -> None:
    headers = {"a": "x" * (size - len(b"MESSAGE\na:"))}
    assert len(head_of(headers)) == size

    assert len(taken(patterns(headers), frame_of(headers))[0]) == count


@pytest.mark.parametrize(("fields", "count"), [(10, 1), (11, 0)])
def test_head_when_as_many_values_vary_as_can_be_learned_then_one_more_is_too_many(fields: int, count: int) -> None:
    one, two, three = ({f"h{index}": value for index in range(fields)} for value in "123")
    learned = patterns(one, two)

    assert len(taken(learned, frame_of(three))[0]) == count
    # After one that varies too much, learning pauses.
    learned.learn(head_of(FIRST), Command.MESSAGE, Headers(FIRST))
    assert len(taken(learned, frame_of(FIRST))[0]) == count


@pytest.mark.parametrize(("limit", "count"), [(60, 1), (59, 0)])
def test_head_when_it_is_as_long_as_the_limit_then_one_byte_more_is_left_to_the_exact_way(
    limit: int, count: int
) -> None:
    learned = patterns(FIRST, FIRST | {"message-id": "2"}, limits=Limits(header_line_bytes=limit))
    head = head_of(FIRST | {"message-id": ""}) + b"\n\n"

    # Wherever the frame is in its chunk.
    assert len(taken(learned, 3 * frame_of(FIRST | {"message-id": "x" * (60 - len(head))}))[0]) == 3 * count


def test_body_when_its_length_varies_then_is_read_up_to_the_limit() -> None:
    learned = patterns(FIRST, FIRST | {"content-length": "3"})

    assert len(taken(learned, frame_of(FIRST | {"content-length": "50"}, b"x" * 50))[0]) == 1


@pytest.mark.parametrize(("body", "count"), [(b"", 1), (b"x", 0)])
def test_length_when_the_command_has_no_body_then_only_zero_is_read(body: bytes, count: int) -> None:
    learned = HeadPatterns(rules_of(Version.V1_2, STRICT), LIMITS)
    for length in ("0", "1"):
        headers = {"receipt-id": "1", "content-length": length}
        learned.learn(head_of(headers, "RECEIPT"), Command.RECEIPT, Headers(headers))

    frame = frame_of({"receipt-id": "1", "content-length": str(len(body))}, body, "RECEIPT")
    assert len(taken(learned, frame)[0]) == count


def test_patterns_when_64_frames_in_a_row_follow_none_then_the_next_such_frame_ends_them() -> None:
    learned, other = patterns(), Headers({"a": "x" * 3000})
    # Then the count begins anew.
    for _ in range(2):
        learned.learn(head_of(FIRST), Command.MESSAGE, Headers(FIRST))
        for _ in range(63):
            learned.learn(head_of(dict(other)), Command.MESSAGE, other)
        assert len(learned.known) == 1

        learned.learn(head_of(dict(other)), Command.MESSAGE, other)
        assert learned.known == []


def test_patterns_when_one_was_followed_then_64_more_frames_may_follow_none() -> None:
    learned, other = patterns(FIRST), Headers({"a": "x" * 3000})
    for _ in range(60):
        learned.learn(head_of(dict(other)), Command.MESSAGE, other)
    taken(learned, frame_of(FIRST))

    for _ in range(64):
        assert len(learned.known) == 1
        learned.learn(head_of(dict(other)), Command.MESSAGE, other)
    assert len(learned.known) == 1
    learned.learn(head_of(dict(other)), Command.MESSAGE, other)
    assert learned.known == []


def test_learning_when_heads_have_little_in_common_then_pauses() -> None:
    wide = [{f"h{index}": f"{number}" for index in range(20)} for number in range(2)]
    learned = patterns(*wide)

    for _ in range(1024):
        learned.learn(head_of(FIRST), Command.MESSAGE, Headers(FIRST))
        assert taken(learned, frame_of(FIRST)) == ([], 0)
    learned.learn(head_of(FIRST), Command.MESSAGE, Headers(FIRST))
    assert len(taken(learned, frame_of(FIRST))[0]) == 1


@pytest.mark.parametrize(("lessons", "count"), [(63, 1), (64, 0)])
def test_learning_when_64_heads_have_other_names_each_then_pauses(lessons: int, count: int) -> None:
    learned = patterns(*({f"h{number}": "1"} for number in range(lessons)))

    learned.learn(head_of(FIRST), Command.MESSAGE, Headers(FIRST))

    assert len(taken(learned, frame_of(FIRST))[0]) == count


def test_patterns_when_no_frame_follows_them_any_more_then_are_forgotten() -> None:
    learned = patterns(FIRST)
    wide = [{f"h{index}": f"{number}" for index in range(20)} for number in range(70)]

    for headers in wide[:60]:
        learned.learn(head_of(headers), Command.MESSAGE, Headers(headers))
    assert len(taken(learned, frame_of(FIRST))[0]) == 1
    for headers in wide[:60]:
        learned.learn(head_of(headers), Command.MESSAGE, Headers(headers))
    assert len(learned.known) == 1
    for headers in wide[60:]:
        learned.learn(head_of(headers), Command.MESSAGE, Headers(headers))

    assert learned.known == []
    # They can be learned again.
    for _ in range(1100):
        if not taken(learned, frame_of(FIRST))[0]:
            learned.learn(head_of(FIRST), Command.MESSAGE, Headers(FIRST))
    assert len(taken(learned, frame_of(FIRST))[0]) == 1


def test_pattern_when_another_command_or_name_comes_then_is_not_widened() -> None:
    pattern = HeadPattern(Command.MESSAGE, [b"MESSAGE", b"a:1"], {"a": "1"}, rules_of(Version.V1_2, STRICT), LIMITS)

    assert pattern.widened([b"ERROR", b"a:1"], {"a": "1"}) is None
    assert pattern.widened([b"MESSAGE", b"b:1"], {"b": "1"}) is None
    wider = pattern.widened([b"MESSAGE", b"a:2"], {"a": "2"})
    assert wider is not None
    assert (len(pattern), len(wider)) == (0, 1)


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
    tolerances = STRICT
    if lenient:
        tolerances = Tolerances(
            undefined_escapes=True, invalid_utf8=True, nul_in_message_headers=True, cr_escape_in_1_1=True
        )
    whole, cut = (Decoder(role=Role.CLIENT, version=version, limits=limits, tolerances=tolerances) for _ in range(2))

    at_once = whole.receive_data(stream)
    one_by_one = [frame for byte in stream for frame in cut.receive_data(bytes([byte]))]

    assert at_once == one_by_one
    # What is shown of the bytes after the fault depends on how many have come.
    assert str(whole.error).partition(" b'")[0] == str(cut.error).partition(" b'")[0]
    assert type(whole.error) is type(cut.error)
    assert isinstance(whole.error, RemoteProtocolError) or whole.heartbeats == cut.heartbeats
