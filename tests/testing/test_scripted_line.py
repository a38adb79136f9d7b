import pytest

from trio_stomp.testing import ScriptMismatchError, open_memory_links
from trio_stomp.testing.scripted_line import Line
from trio_stomp.types import Command, Version


async def test_line_when_frames_come_in_pieces_then_gathers_them_and_their_bytes() -> None:
    ours, theirs = open_memory_links()
    line = Line(ours)
    line.use(Version.V1_2)

    for piece in (b"SEND\ndestin", b"ation:d\n\n\0BEG"):
        await theirs.send_all(piece)
        await line.receive()

    assert [frame.command for frame in line.frames] == [Command.SEND]
    assert list(line.unread) == line.frames
    assert line.received == b"SEND\ndestination:d\n\n\0BEG"
    assert not line.ended


async def test_line_when_closed_between_frames_then_has_ended() -> None:
    ours, theirs = open_memory_links()
    line = Line(ours)
    await theirs.aclose()

    await line.receive()

    assert line.ended


async def test_line_when_closed_within_a_frame_then_mismatch() -> None:
    ours, theirs = open_memory_links()
    line = Line(ours)
    await theirs.send_all(b"CONN")
    await theirs.aclose()
    await line.receive()

    with pytest.raises(ScriptMismatchError, match=r"within a frame; the last bytes: .*CONN"):
        await line.receive()


def test_line_when_bytes_are_no_stomp_then_mismatch_has_the_reason() -> None:
    line = Line(open_memory_links()[0])

    with pytest.raises(ScriptMismatchError, match="no STOMP") as caught:
        line.decode(b"GET / HTTP/1.1\r\n")

    assert caught.value.__cause__ is line.decoder.error
