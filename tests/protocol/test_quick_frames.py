"""The decoder's accelerator: the same frames, errors and heart-beats as without it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_stomp.errors import RemoteProtocolError
from trio_stomp.protocol.client_protocol import ClientProtocol
from trio_stomp.protocol.decoder import Decoder
from trio_stomp.protocol.events import ClientEvent, ReceiptsReceived
from trio_stomp.protocol.frames import Command, Frame, Role
from trio_stomp.protocol.grammar import rules_of
from trio_stomp.protocol.header_rules import commands_from
from trio_stomp.protocol.limits import Limits
from trio_stomp.protocol.quick_frames import QuickFrames, ReceiptRun
from trio_stomp.protocol.tolerances import STRICT, Tolerances
from trio_stomp.protocol.versions import Version


def receipt(receipt_id: str) -> bytes:
    return f"RECEIPT\nreceipt-id:{receipt_id}\n\n\0".encode()


def quick(limits: Limits | None = None, *, receipt_runs: bool = False) -> QuickFrames:
    return QuickFrames(
        commands=commands_from(Role.SERVER, Version.V1_2, longest_bytes=64),
        rules=rules_of(Version.V1_2, STRICT),
        limits=limits or Limits(),
        receipt_runs=receipt_runs,
    )


def decoded(data: bytes, tolerances: Tolerances = STRICT) -> tuple[list[Frame], RemoteProtocolError | None]:
    """What a decoder reads, which must not depend on the accelerator."""
    fast, plain = (
        Decoder(role=Role.CLIENT, version=Version.V1_2, tolerances=tolerances, accelerate=each)
        for each in (True, False)
    )
    frames = fast.receive_data(data)
    assert plain.receive_data(data) == frames
    assert (str(plain.error), type(plain.error)) == (str(fast.error), type(fast.error))
    assert fast.error is not None or plain.heartbeats == fast.heartbeats
    assert plain.pending is fast.pending
    return frames, fast.error


@pytest.mark.parametrize("unusual", [b"MESSAGE\nundefined:\\t\n\n\0", b"MESSAGE\na:b\nc:d\n\n\0"])
def test_take_when_it_stops_then_it_has_given_up_only_where_no_head_ends(unusual: bytes) -> None:
    """Called again behind one unusual frame, it takes the rest of the chunk."""
    usual = b"MESSAGE\na:b\n\n\0"
    taker, frames = quick(Limits(header_count=1)), list[Frame]()

    assert (taker.take(unusual + usual, 0, frames), taker.gave_up) == (0, False)
    assert (taker.take(unusual + usual, len(unusual), frames), taker.gave_up) == (len(unusual + usual), False)
    assert (taker.take(unusual, 0, frames), taker.gave_up) == (0, False)
    assert (taker.take(unusual.replace(b"\n", b"\r\n") + usual, 0, frames), taker.gave_up) == (0, True)
    assert len(frames) == 1


@pytest.mark.parametrize(("limit", "count"), [(12, 3), (11, 2)])
def test_head_when_it_is_as_long_as_the_limit_then_one_byte_more_is_left_to_the_decoder(limit: int, count: int) -> None:
    heads, frames = (b"MESSAGE\na:1", b"MESSAGE\nb:1", b"MESSAGE\nc:12"), list[Frame]()

    quick(Limits(header_line_bytes=limit)).take(b"".join(head + b"\n\n\0" for head in heads), 0, frames)

    assert len(frames) == count


@pytest.mark.parametrize(("header_count", "count"), [(3, 1), (2, 0)])
def test_head_when_it_has_as_many_headers_as_the_limit_then_one_more_is_left_to_the_decoder(
    header_count: int, count: int
) -> None:
    frames: list[Frame] = []

    quick(Limits(header_count=header_count)).take(b"MESSAGE\na:1\nb:2\nc:3\n\n\0", 0, frames)

    assert len(frames) == count


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
def test_head_when_it_is_whole_then_is_taken_with_the_headers_that_it_has(
    lines: str, pairs: tuple[tuple[str, str], ...]
) -> None:
    data = f"MESSAGE\n{lines}\nbody\0".encode()
    frames: list[Frame] = []

    assert quick().take(data * 3, 0, frames) == len(data) * 3

    assert [frame.headers.pairs for frame in frames] == [pairs] * 3
    assert decoded(data * 3) == (frames, None)


@pytest.mark.parametrize(
    "head",
    [
        b"MESSAGE\na",
        b"MESSAGE\na\nc:d:e",
        b"MESSAGE\n:1",
        b"MESSAGE\na:1\n:2",
        b"MESSAGE\na:1\na:2\n:3",
        b"MESSAGE\n:1\nb:\\c",
        b"MESSAGE\na:\\x",
        b"MESSAGE\na:b\r",
        b"MESSAGE\na:\0",
        b"MESSAGE\na:\xff",
        b"MESSAGE\na:\xff\\c",
        b"MESSAGE:\na:b",
        b"MESS\\cAGE\na:b",
        b"RECEIVE\na:\\c",
        b"",
    ],
)
def test_head_when_it_needs_a_closer_look_then_is_left_to_the_decoder(head: bytes) -> None:
    first = b"MESSAGE\na:1\n\nbody\0"
    frames: list[Frame] = []

    assert quick().take(first + head + b"\n\n\0", 0, frames) <= len(first) + 2

    assert len(frames) == 1
    decoded(first + head + b"\n\n\0" + first)


def test_head_when_an_undefined_escape_is_tolerated_then_is_kept() -> None:
    frames, _ = decoded(b"MESSAGE\ne:\\x\\c\n\n\0", Tolerances(undefined_escapes=True))

    assert frames[0].headers.pairs == (("e", "\\x:"),)


def test_head_when_its_body_goes_on_in_the_next_chunk_then_is_not_read_again() -> None:
    data = b"MESSAGE\na:1\ncontent-length:9\n\nbody"
    taker = quick()

    assert taker.take(data, 0, []) == len(data) - len(b"body")

    assert taker.head is not None
    assert taker.head.headers.pairs == (("a", "1"), ("content-length", "9"))


def runs_in(data: bytes, position: int = 0, limits: Limits | None = None) -> tuple[list[list[str]], int, int]:
    """The runs at the beginning, where the first other frame begins, and how many ends of line were passed over."""
    frames: list[Frame] = []
    taker = quick(limits, receipt_runs=True)
    end = taker.take(data, position, frames)
    return [frame.receipt_ids for frame in frames if isinstance(frame, ReceiptRun)], end, taker.ends_of_line


def test_run_when_receipts_follow_each_other_then_is_all_of_them() -> None:
    data = b"before" + receipt("r-1") + b"\n" + receipt("r-2") + receipt("ab$!~") + b"\n\nMESSAGE"
    frames: list[Frame] = []
    taker = quick(receipt_runs=True)

    assert data[taker.take(data, len(b"before"), frames) :] == b"MESSAGE"

    (run,) = frames
    assert isinstance(run, ReceiptRun)
    assert run.receipt_ids == ["r-1", "r-2", "ab$!~"]
    assert (run.command, dict(run.headers), run.body) == (Command.RECEIPT, {"receipt-id": "r-1"}, b"")
    assert taker.ends_of_line == 3


@pytest.mark.parametrize(
    "second",
    [
        receipt(""),
        receipt("a:b"),
        receipt("a\\c"),
        receipt("a b"),
        receipt("a\r"),
        receipt("ä"),
        receipt("x" * 201),
        receipt("1")[:-1],
        receipt("1")[:-1] + b"body\0",
        b"RECEIPT\nreceipt-id:1\nx:y\n\n\0",
        b"RECEIPT\n\n\0",
        b"ERROR\n\n\0",
        b"",
    ],
)
def test_run_when_a_frame_is_not_plain_then_ends_before_it(second: bytes) -> None:
    assert runs_in(second)[0] == []
    assert runs_in(receipt("1") + second)[0] == [["1"]]


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
def test_limits_when_a_run_could_pass_them_then_none_is_read(limits: Limits, fitting: bool) -> None:
    frames = Decoder(role=Role.CLIENT, version=Version.V1_2, limits=limits, receipt_runs=True).receive_data(
        receipt("1") + receipt("2")
    )
    assert any(isinstance(frame, ReceiptRun) for frame in frames) is fitting


def test_decoder_when_not_told_otherwise_then_gives_each_receipt_as_a_frame() -> None:
    frames = Decoder(role=Role.CLIENT, version=Version.V1_2).receive_data(receipt("1") + receipt("2"))

    assert [frame.headers["receipt-id"] for frame in frames] == ["1", "2"]


def test_ends_of_line_when_runs_and_other_frames_take_turns_then_each_is_counted_once() -> None:
    message = b"MESSAGE\nsubscription:s\nmessage-id:1\ndestination:/q\n\n\0"
    data = b"\n".join([receipt("1"), receipt("2"), message, message, receipt("3"), message, b""])
    at_once = Decoder(role=Role.CLIENT, version=Version.V1_2, receipt_runs=True)
    one_by_one = Decoder(role=Role.CLIENT, version=Version.V1_2, receipt_runs=True)

    at_once.receive_data(data)
    for byte in data:
        one_by_one.receive_data(bytes([byte]))

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
    one_by_one = [told for byte in stream for told in ids(cut.receive_data(bytes([byte])))]

    # Messages in a row are one event.
    assert [told for told in at_once if told != "MessagesReceived"] == [
        told for told in one_by_one if told != "MessagesReceived"
    ]
