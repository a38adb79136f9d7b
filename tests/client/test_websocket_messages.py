"""Which bytes go into which WebSocket message."""

from __future__ import annotations

import random

import pytest

from trio_stomp.protocol import encode_frame
from trio_stomp.transport.websocket_messages import SMALLEST_MESSAGE_BYTES, fragments, pieces, stomp_frames
from trio_stomp.types import Command, Version

LONG = b"SEND\ndestination:/queue/a\ncontent-length:5\n\na\0b\0c\0"
SHORT = b"SEND\ndestination:/queue/a\n\ntext\0"


@pytest.mark.parametrize(
    ("data", "frames"),
    [
        (b"", []),
        (b"\n", [b"\n"]),
        (SHORT, [SHORT]),
        (LONG, [LONG]),
        (b"\n" + SHORT + LONG + b"\n\n" + LONG, [b"\n", SHORT, LONG, b"\n", b"\n", LONG]),
        # The first of repeated headers counts.
        (
            b"SEND\ncontent-length:1\ncontent-length:9\n\n\0\0\n",
            [b"SEND\ncontent-length:1\ncontent-length:9\n\n\0\0", b"\n"],
        ),
        # What looks like a header in the body is none.
        (b"SEND\na:b\n\ncontent-length:9\n\n\0\n", [b"SEND\na:b\n\ncontent-length:9\n\n\0", b"\n"]),
    ],
)
def test_frames_when_they_were_joined_then_each_is_found(data: bytes, frames: list[bytes]) -> None:
    assert list(stomp_frames(data)) == frames


@pytest.mark.parametrize("data", [SHORT[:-1], LONG[:-1], b"SEND\n", b"SEND\ncontent-length:1\n\nab\0"])
def test_frames_when_one_is_not_whole_then_it_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"not found|does not end with NUL"):
        list(stomp_frames(data))


@pytest.mark.parametrize("version", list(Version))
def test_frames_when_encoded_by_this_library_then_each_comes_out_as_it_went_in(version: Version) -> None:
    chance = random.Random(0)  # noqa: S311  # chance for a test
    alphabet = ["a", ":", "\\", "é", "content-length:1", *([] if version is Version.V1_0 else ["\n"])]
    encoded: list[bytes] = []
    for _ in range(200):
        headers = [("destination", "/queue/a"), ("x", "".join(chance.choices(alphabet, k=chance.randrange(30))))]
        encoded.append(encode_frame(Command.SEND, headers, chance.randbytes(chance.randrange(40)), version=version))
    assert list(stomp_frames(b"".join(encoded))) == encoded


@pytest.mark.parametrize("size", [0, 1, 15_999, 16_000, 16_001, 64_000, 100_000, 200_000])
@pytest.mark.parametrize("filling", ["x", "é", "€", "😀", b"\xff"])
def test_fragments_when_a_frame_is_long_then_each_is_less_than_64_kib(filling: str | bytes, size: int) -> None:
    filled = filling.encode() if isinstance(filling, str) else filling
    frame = b"SEND\n\n" + filled * size + b"\0"
    found = fragments(frame)
    assert {type(piece) for piece in found} == {type(filling) if size else str}
    encoded = [piece.encode() if isinstance(piece, str) else piece for piece in found]
    assert b"".join(encoded) == frame
    assert max(map(len, encoded)) < 65_536


@pytest.mark.parametrize("frame", [SHORT, ("€ü😀a" * 500).encode(), b"\xff\x80" * 999, b"\x80" * 999, b"x"])
@pytest.mark.parametrize("most", [SMALLEST_MESSAGE_BYTES, 5, 6, 7, 64, 8192, None])
def test_pieces_when_a_frame_is_split_then_none_is_longer_and_text_stays_text(frame: bytes, most: int | None) -> None:
    found = pieces(frame, most)

    assert b"".join(found) == frame
    assert all(0 < len(piece) <= (most or len(frame)) for piece in found)
    try:
        frame.decode()
    except UnicodeDecodeError:
        return
    assert "".join(piece.decode() for piece in found) == frame.decode()
