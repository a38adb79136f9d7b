"""The bytes that all contestants are given are frames, and no two are alike."""

from __future__ import annotations

import pytest

from benchmarks.contestants.codec_cases import DECODED, cut, frames_of
from benchmarks.payload import BODY, message
from trio_stomp.protocol import Decoder, Role
from trio_stomp.types import Command, Version

CASES = [case for case in DECODED if case != "16 MiB"]


@pytest.mark.parametrize("case", CASES)
def test_frames_of_when_cut_then_a_strict_decoder_finds_each(case: str) -> None:
    decoder = Decoder(role=Role.CLIENT, version=Version.V1_2)
    frames = frames_of(case)

    decoded = [frame for chunk in cut(case, frames) for frame in decoder.receive_data(chunk)]

    assert decoder.error is None
    assert len(decoded) == len(frames)
    assert {frame.command for frame in decoded} == {Command.MESSAGE}
    assert len(set(frames)) == len(frames)


def test_message_when_made_then_it_has_seven_headers_and_the_length_of_the_others() -> None:
    (frame,) = Decoder(role=Role.CLIENT, version=Version.V1_2).receive_data(message(1, b"s", b"/queue/a"))

    assert len(frame.headers) == 7
    assert frame.body == BODY
    assert len(message(1, b"s", b"/queue/a")) == len(message(99_999, b"s", b"/queue/a"))
