from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from tests.cli.conftest import Pipe
from trio_stomp import OutgoingMessage
from trio_stomp.cli.message_input import LineInput, WholeInput
from trio_stomp.cli.running import CommandFailed, ExitCode


def numbered(line: bytes, number: int) -> OutgoingMessage:
    return OutgoingMessage(f"/queue/{number}", line)


async def all_of(batches: AsyncIterator[list[OutgoingMessage]]) -> list[OutgoingMessage]:
    return [message async for batch in batches for message in batch]


async def test_files_when_read_whole_then_each_is_a_message(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    for number, path in enumerate(paths):
        path.write_bytes(b"%d\n\xff" % number)

    messages = await all_of(WholeInput(paths, lambda body: OutgoingMessage("/queue/a", body)))

    assert [message.body for message in messages] == [b"0\n\xff", b"1\n\xff"]


async def test_files_when_read_by_lines_then_lines_keep_their_numbers(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one\r\n\nthree")
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "b").write_bytes(b"four\n")

    messages = await all_of(LineInput([tmp_path / "a", tmp_path / "empty", tmp_path / "b"], numbered))

    assert messages == [
        OutgoingMessage("/queue/1", b"one"),
        OutgoingMessage("/queue/3", b"three"),
        OutgoingMessage("/queue/4", b"four"),
    ]


async def test_lines_when_longer_than_a_read_then_whole(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 200_000 + b"\ny")

    messages = await all_of(LineInput([tmp_path / "a"], numbered))

    assert [len(message.body) for message in messages] == [200_000, 1]


async def test_lines_when_they_come_one_by_one_then_not_held_back(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = pipe
    monkeypatch.setattr("sys.stdin", type("Stdin", (), {"buffer": reader}))
    batches = LineInput([Path("-")], numbered)
    writer.write(b"one\ntw")
    with trio.fail_after(60):
        first = await anext(batches)
        writer.write(b"o\n")
        second = await anext(batches)
        with trio.move_on_after(0.05) as scope:
            await anext(batches)
    # Lets the thread go that still reads.
    writer.close()

    assert [message.body for message in first + second] == [b"one", b"two"]
    assert scope.cancelled_caught


async def test_file_when_it_cannot_be_read_then_said_so(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="cannot be read: No such file") as caught:
        await all_of(LineInput([tmp_path / "none"], numbered))

    assert caught.value.code is ExitCode.USAGE
