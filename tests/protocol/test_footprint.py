"""What a decoded frame is counted as, against what it takes: measured, for the shapes that take most for their size."""

from __future__ import annotations

import copy
import sys
from collections import deque
from collections.abc import Callable

import pytest

from tests.kit.costs import bytes_kept, expect_below, measures_memory
from trio_stomp.protocol import Decoder, Role
from trio_stomp.types import Frame, Version

FRAMES = 40


# What a message and a header count for; objects are larger in a free-threaded build.
MESSAGE, HEADER = (640, 216) if "free-threading" in sys.version else (512, 168)


def frame(number: int, headers: bytes = b"", body: bytes = b"") -> bytes:
    return b"MESSAGE\nsubscription:s\nmessage-id:%d\ndestination:d\n%b\n%b\0" % (number, headers, body)


def tiny_headers(count: int) -> Callable[[int], bytes]:
    """Names that no two messages in a row have in common, so that nothing is shared."""
    return lambda number: frame(number, b"".join(b"n%d:vv\n" % (each + number % 7 * count) for each in range(count)))


SHAPES: dict[str, Callable[[int], bytes]] = {
    "no body": frame,
    "short body": lambda number: frame(number, body=b"12345"),
    "long body": lambda number: frame(number, b"content-length:5000\n", b"x" * 5000),
    # The counts around which a dict grows.
    **{f"{count} headers": tiny_headers(count) for count in (1, 2, 3, 7, 8, 18, 19, 40, 82, 168, 170, 400)},
    "repeated headers": lambda number: frame(number, b"ab:cd\n" * 400),
    "one-letter names beyond Latin-1": lambda number: frame(
        number, b"".join(b"%b:\n" % chr(256 + each).encode() for each in range(400))
    ),
    "long value": lambda number: frame(number, b"h:%b\n" % (b"v" * 5000)),
    "long value, Latin-1": lambda number: frame(number, "h:{}\n".format("é" * 1000).encode()),
    "long value, euro sign": lambda number: frame(number, "h:{}€\n".format("a" * 1000).encode()),
    "long value, emoji": lambda number: frame(number, "h:{}😀\n".format("a" * 1000).encode()),
    "varying long value, emoji": lambda number: frame(number, "h:{}{}😀\n".format("a" * 1000, number).encode()),
    "escapes": lambda number: frame(number, b"h:%b\n" % (rb"\c\n" * 500)),
}


def decoded(data: bytes, chunk_bytes: int) -> deque[Frame]:
    decoder = Decoder(role=Role.CLIENT, version=Version.V1_2)
    frames: deque[Frame] = deque()
    for start in range(0, len(data), chunk_bytes):
        frames.extend(decoder.receive_data(data[start : start + chunk_bytes]))
    return frames


# Whole chunks go the quick ways, small ones line by line.
@pytest.mark.parametrize("chunk_bytes", [65_536, 50])
@pytest.mark.parametrize("shape", SHAPES)
@measures_memory
def test_footprint_when_frames_are_kept_then_covers_the_memory_that_they_take(shape: str, chunk_bytes: int) -> None:
    data = b"".join(SHAPES[shape](number) for number in range(FRAMES))
    frames = decoded(data, chunk_bytes)
    assert len(frames) == FRAMES
    counted = sum(each.footprint for each in frames)
    taken = bytes_kept(lambda: decoded(data, chunk_bytes))
    expect_below(taken, counted + 1)
    # Nor is it far off, for a limit that counts too much would stop a healthy program. Text that is not ASCII is
    # counted as the widest there is.
    assert counted <= (5 if data.isascii() else 20) * taken


def test_footprint_when_a_frame_is_copied_or_compared_then_kept_and_of_no_matter() -> None:
    (one,) = decoded(frame(1), 65_536)
    (other,) = decoded(frame(1), 5)
    assert one == other
    assert copy.copy(one).footprint == one.footprint > 0


def test_footprint_when_values_vary_then_only_heads_that_are_not_ascii_are_counted_as_the_widest() -> None:
    given = [frame(number, f"h:{value}\n".encode()) for number, value in enumerate("abcéd")]
    # The first two are split, and make the pattern that the others follow.
    *_, before, wide, after = decoded(b"".join(given), 65_536)
    objects, heads = MESSAGE + 4 * HEADER, [len(each) - len(b"\0") for each in given]
    assert [before.footprint, after.footprint] == [objects + heads[2], objects + heads[4]]
    assert wide.footprint == objects + 4 * heads[3]


@pytest.mark.parametrize("value", ["d", "é"])
def test_footprint_when_a_frame_is_read_in_each_way_then_is_its_bytes_and_a_sum_for_each_object(value: str) -> None:
    lines = [b"subscription:s", b"message-id:1", f"destination:{value}".encode()]
    head = b"\n".join([b"MESSAGE", *lines])
    data = head + b"\n\nbody\0"
    widest = 1 if head.isascii() else 4
    objects = MESSAGE + 3 * HEADER

    (line_by_line,) = decoded(data, 5)
    split, by_pattern = decoded(data * 2, 65_536)

    assert line_by_line.footprint == objects + sum(len(line) * (1 if line.isascii() else 4) for line in lines) + 4
    assert split.footprint == objects + len(head) * widest + 4
    assert by_pattern.footprint == objects + len(head + b"\n\n") * widest + 4
