"""What decoding costs: bytes looked at, and memory held, against bytes received; no clock."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest

from tests.conformance.counting import Watched
from tests.kit.costs import expect_below, measures_memory
from trio_stomp import Limits
from trio_stomp.errors import LimitExceeded
from trio_stomp.protocol import Decoder, DraftDecoder, Role, Tolerances
from trio_stomp.types import Version

pytestmark = pytest.mark.slow

KIB, MIB = 1024, 1024 * 1024
# Each byte is looked for as the end of a line, of a head and of a frame, looked through for what is not allowed, and
# copied out of the chunk and out of its line: ten looks are enough for all of it.
LOOKS = 10
WIDE = Limits(header_line_bytes=4 * MIB, header_count=1 << 20, body_bytes=4 * MIB)

HEAD = b"MESSAGE\nsubscription:1\nmessage-id:1\ndestination:/q\n"
SHORT = HEAD + b"content-length:5\n\nhello\0\n"


def filled(unit: bytes, size: int) -> bytes:
    return (unit * (size // len(unit) + 1))[:size]


STREAMS: dict[str, Callable[[int], bytes]] = {
    "small frames": lambda size: SHORT * (size // len(SHORT)),
    "small frames with CRLF": lambda size: filled(SHORT.replace(b"\n", b"\r\n"), size),
    "small frames with CRLF, and one with LF behind them": lambda size: (
        SHORT.replace(b"\n", b"\r\n") * (size // len(SHORT)) + SHORT
    ),
    "small frames with escapes": lambda size: filled(HEAD + b"a\\c:b\\n\n\nx\0", size),
    "tiny frames": lambda size: filled(b"ERROR\n\n\0", size),
    "one long value": lambda size: HEAD + b"k:" + b"v" * size + b"\n\n\0",
    "one long value, never ending": lambda size: HEAD + b"k:" + b"v" * size,
    "one value of carriage returns": lambda size: HEAD + b"k:" + b"\r" * size,
    "many headers": lambda size: HEAD + filled(b"abc:d\n", size),
    "many repeats": lambda size: HEAD + b"a:b\n" * (size // 4) + b"\n\0",
    "an uncounted body": lambda size: HEAD + b"\n" + b"x" * size + b"\0",
    "an uncounted body of line feeds": lambda size: HEAD + b"\n" + b"\n" * size + b"\0",
    "a counted body": lambda size: HEAD + b"content-length:%d\n\n" % size + b"x" * size + b"\0",
    "a counted body of NULs": lambda size: HEAD + b"content-length:%d\n\n" % size + b"\0" * size + b"\0",
    "a body that never ends": lambda size: HEAD + b"content-length:%d\n\n" % (2 * size) + b"\n\0" * (size // 2),
    "heart-beats": lambda size: b"\n" * size,
    "heart-beats with CRLF": lambda size: b"\r\n" * (size // 2),
    "blank lines of spaces": lambda size: b"ERROR\na:b\n" + b" " * size,
    "an unknown command": lambda size: b"M" * size,
    "NULs": lambda size: b"\0" * size,
}


def looks(name: str, decoder: Decoder, size: int, chunk: int) -> float:
    """Bytes looked at for each byte received."""
    data = STREAMS[name](size)
    watched = Watched(decoder)
    watched.feed(data, chunk)
    return watched.counter.octets / len(data)


DECODERS: dict[str, Callable[[], Decoder]] = {
    "1.2": lambda: Decoder(role=Role.CLIENT, version=Version.V1_2, limits=WIDE),
    "1.1": lambda: Decoder(role=Role.CLIENT, version=Version.V1_1, limits=WIDE),
    "1.0": lambda: Decoder(role=Role.CLIENT, version=Version.V1_0, limits=WIDE),
    "draft": lambda: DraftDecoder(role=Role.CLIENT, limits=WIDE),
    "tolerant": lambda: Decoder(
        role=Role.CLIENT,
        version=Version.V1_2,
        limits=WIDE,
        tolerances=Tolerances(nul_in_error_headers=True, nul_in_message_headers=True),
    ),
    "few headers": lambda: DraftDecoder(role=Role.CLIENT, limits=Limits(header_line_bytes=4 * MIB, header_count=1)),
}


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("kind", DECODERS)
@pytest.mark.parametrize(("chunk", "size"), [(1, 2 * KIB), (7, 4 * KIB), (1000, 32 * KIB), (128 * KIB, 96 * KIB)])
def test_cost_when_the_stream_grows_then_grows_in_proportion(name: str, kind: str, chunk: int, size: int) -> None:
    # A cost that grew with the square would be hundreds of looks for each byte already at the smallest of these.
    assert looks(name, DECODERS[kind](), size, chunk) < LOOKS
    assert looks(name, DECODERS[kind](), size, size + KIB) < LOOKS


def test_counter_when_a_stream_is_read_then_counts_every_octet_of_it() -> None:
    assert looks("one long value", DECODERS["1.2"](), 2 * KIB, 100) >= 1


@pytest.mark.slow
@pytest.mark.parametrize("chunk", [1, 100, 64 * KIB, 2 * MIB])
@pytest.mark.parametrize(
    "name", ["one long value", "a counted body", "an uncounted body", "small frames", "many headers"]
)
def test_cost_when_a_mebibyte_comes_in_any_chunks_then_is_no_higher(name: str, chunk: int) -> None:
    assert looks(name, DECODERS["1.2"](), MIB, chunk) < LOOKS


@pytest.mark.parametrize("chunk", [1, 100, 4096, 64 * KIB])
@pytest.mark.parametrize("name", ["an uncounted body", "a counted body", "one long value"])
@measures_memory
def test_memory_when_a_frame_is_gathered_then_is_a_few_times_its_size(name: str, chunk: int) -> None:
    size = 64 * KIB if chunk == 1 else MIB
    data = STREAMS[name](size)
    decoder = DECODERS["1.2"]()
    tracemalloc.start()
    try:
        frames = [frame for at in range(0, len(data), chunk) for frame in decoder.receive_data(data[at : at + chunk])]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert len(frames) == 1
    expect_below(peak, 4 * size + 64 * KIB)


@pytest.mark.parametrize("chunk", [1, 64 * KIB])
@pytest.mark.parametrize(
    "endless", [b"a", b"a:b\n", b"ERROR\n\n" + b"x" * 100, b"ERROR\ncontent-length:99999999999\n\n"]
)
def test_memory_when_a_stream_never_ends_a_frame_then_stops_at_the_limits(endless: bytes, chunk: int) -> None:
    """Rows 1x-CONF-1, all-LIM-5, all-LIM-6."""
    limits = Limits(command_bytes=64, header_line_bytes=KIB, header_count=64, body_bytes=KIB)
    decoder = Decoder(role=Role.CLIENT, version=Version.V1_2, limits=limits)
    data = (b"ERROR\n" if b"ERROR" not in endless else b"") + endless * (256 * KIB // len(endless))
    taken = 0
    while decoder.error is None:
        decoder.receive_data(data[taken : taken + chunk])
        taken += chunk

    assert isinstance(decoder.error, LimitExceeded)
    assert taken <= max(66 * KIB, chunk)
    assert not decoder._body
    assert not decoder._tail
    assert not decoder._data
