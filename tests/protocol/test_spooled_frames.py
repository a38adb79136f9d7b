"""Bodies that go into a sink: what the sink gets is what `Frame.body` would have been, however the input is cut."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.costs import bytes_kept, expect_below, measures_memory
from trio_stomp import AckMode, Limits
from trio_stomp.protocol import ClientProtocol, Decoder, Role, SpooledFrame
from trio_stomp.types import Command, Frame, Headers, Version


class Sink:
    def __init__(self) -> None:
        self.body = b""
        self.is_complete = False

    def write(self, piece: memoryview) -> None:
        assert not self.is_complete
        self.body += bytes(piece)

    def finish(self) -> None:
        self.is_complete = True


class Spooler:
    """Opens a sink for each MESSAGE above a threshold, and notes what it was asked."""

    def __init__(self, threshold: int) -> None:
        self.threshold = threshold
        self.asked: list[tuple[str | None, int]] = []
        self.sinks: list[Sink] = []

    def open(self, headers: Headers, size: int) -> Sink | None:
        self.asked.append((headers.get("subscription"), size))
        if size <= self.threshold:
            return None
        self.sinks.append(Sink())
        return self.sinks[-1]


def decoder_with(spooler: Spooler | None, limits: Limits | None = None) -> Decoder:
    decoder = Decoder(role=Role.CLIENT, version=Version.V1_2, limits=limits)
    decoder.open_sink = None if spooler is None else spooler.open
    return decoder


def feed(decoder: Decoder, data: bytes, cuts: list[int]) -> list[Frame]:
    frames: list[Frame] = []
    edges = [0, *sorted(cuts), len(data)]
    for start, end in itertools.pairwise(edges):
        chunk = data[start:end]
        while True:
            more = decoder.receive_data(chunk)
            frames += more
            assert not any(isinstance(frame, SpooledFrame) for frame in more[:-1])
            if not more or not isinstance(more[-1], SpooledFrame):
                break
            chunk = b""
    return frames


def message(body: bytes, *, counted: bool = True, to: str = "s-1") -> bytes:
    length = b"content-length:%d\n" % len(body) if counted else b""
    return b"MESSAGE\nsubscription:%b\nmessage-id:1\ndestination:/q\n%b\n%b\0" % (to.encode(), length, body)


def whole(frame: Frame) -> tuple[Command, Headers, bytes]:
    if not isinstance(frame, SpooledFrame):
        return frame.command, frame.headers, frame.body
    assert frame.body == b""
    assert isinstance(frame.sink, Sink)
    assert frame.sink.is_complete
    return frame.command, frame.headers, frame.sink.body


@given(
    bodies=st.lists(st.tuples(st.binary(max_size=60), st.booleans()), min_size=1, max_size=4),
    threshold=st.integers(0, 40),
    data=st.data(),
)
def test_bodies_when_the_input_is_cut_anywhere_then_are_those_of_a_decoder_without_sinks(
    bodies: list[tuple[bytes, bool]], threshold: int, data: st.DataObject
) -> None:
    stream = b"\n".join(
        message(body if counted else body.replace(b"\0", b"0"), counted=counted) for body, counted in bodies
    )
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=20))

    spooled = feed(decoder_with(Spooler(threshold)), stream, cuts)
    plain = feed(decoder_with(None), stream, cuts)

    assert [whole(frame) for frame in spooled] == [whole(frame) for frame in plain]
    for frame in spooled:
        assert not isinstance(frame, SpooledFrame) or len(whole(frame)[2]) > threshold


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize(("size", "goes"), [(999, False), (1000, False), (1001, True)])
@pytest.mark.parametrize("step", [1, 7, 500, 990])
def test_body_when_longer_than_the_threshold_then_alone_is_spooled(
    step: int, size: int, *, goes: bool, counted: bool
) -> None:
    stream = message(b"x" * size, counted=counted)
    spooler = Spooler(1000)

    (frame,) = feed(decoder_with(spooler), stream, list(range(0, len(stream), step)))

    assert isinstance(frame, SpooledFrame) is goes
    assert whole(frame)[2] == b"x" * size
    assert len(spooler.sinks) == goes


def test_sink_when_all_bodies_are_whole_in_their_chunks_then_is_never_asked_for() -> None:
    spooler = Spooler(0)

    frames = feed(decoder_with(spooler), message(b"x" * 100) * 3, [])

    assert len(frames) == 3
    assert spooler.asked == []


def test_sink_when_the_frame_is_an_error_then_is_not_asked_for() -> None:
    spooler = Spooler(0)
    stream = b"ERROR\ncontent-length:100\n\n%b\0" % (b"x" * 100)

    (frame,) = feed(decoder_with(spooler), stream, [50])

    assert frame.body == b"x" * 100
    assert spooler.asked == []


@measures_memory
def test_memory_when_the_small_pieces_so_far_go_into_a_sink_then_are_no_longer_held() -> None:
    class Nowhere(Sink):
        def write(self, piece: memoryview) -> None:
            del piece

    decoder, sink = Decoder(role=Role.CLIENT, version=Version.V1_2), Nowhere()
    decoder.open_sink = lambda _, size: sink if size > 64 * 1024 else None
    data = message(b"x" * 66 * 1024, counted=False)[:-1]

    def read() -> None:
        for start in range(0, len(data), 1024):
            decoder.receive_data(data[start : start + 1024])

    expect_below(bytes_kept(read), 32 * 1024)
    decoder.receive_data(b"\0")
    assert sink.is_complete


def test_spooled_frame_when_other_frames_follow_in_its_chunk_then_ends_the_call() -> None:
    stream, spooler = message(b"x" * 100) + message(b"next"), Spooler(50)
    decoder = decoder_with(spooler)

    assert decoder.receive_data(stream[:80]) == []
    (first,) = decoder.receive_data(stream[80:])
    (second,) = decoder.receive_data(b"")

    assert whole(first)[2] == b"x" * 100
    assert second.body == b"next"
    assert first.footprint < 2000


def test_str_when_spooled_then_names_the_sink() -> None:
    frame = SpooledFrame(Command.MESSAGE, Headers({"a": "b"}), Sink(), 0)

    assert "Sink object" in str(frame)


def test_body_when_its_limit_is_exceeded_then_an_error_as_ever() -> None:
    decoder = decoder_with(Spooler(10), Limits(body_bytes=100))

    assert feed(decoder, message(b"x" * 101, counted=False), [80, 120, 160]) == []
    assert "limit body_bytes" in str(decoder.error)


@pytest.mark.parametrize(("named", "subscription"), [(b"subscription:a\n", "a"), (b"", "b")])
def test_client_protocol_when_a_message_names_its_destination_only_then_asks_for_the_newest_subscription_to_it(
    named: bytes, subscription: str
) -> None:
    asked: list[tuple[str | None, int]] = []
    protocol = ClientProtocol(versions=[Version.V1_0])
    protocol.connect(host="h")
    protocol.receive_data(b"CONNECTED\nsession:1\n\n\0")
    for id_ in ("a", "b"):
        protocol.subscribe(id_, "/q", AckMode.AUTO)

    def open_sink(subscription_id: str | None, size: int) -> Sink | None:
        asked.append((subscription_id, size))
        return None

    protocol.spool(open_sink)
    protocol.receive_data(b"MESSAGE\ndestination:/q\nmessage-id:1\n%bcontent-length:10\n\nabc" % named)

    assert asked == [(subscription, 10)]
