"""Standard streams that are closed, full or of the wrong kind: one line, and no traceback."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest

from tests.cli.exit_code import ExitCode
from tests.cli.processes import PATIENCE, start
from tests.kit.warm_python import WarmPython
from trio_stomp.testing import ThreadedBroker

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no stream can be closed there")

INPUT, OUTPUT, ERRORS = range(3)


@dataclass(frozen=True, slots=True)
class Done:
    """How a command has ended, and what it has written to those streams that were not replaced."""

    status: int
    output: str
    errors: str


class Run(Protocol):
    """Runs a command with some of its standard streams replaced by other files, or closed (None)."""

    def __call__(self, replaced: Mapping[int, int | None], *arguments: str) -> Done: ...


@pytest.fixture
def run(
    warm_python: WarmPython, stomp_broker_thread: ThreadedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Run:
    monkeypatch.setenv("TRIO_STOMP_URL", stomp_broker_thread.url)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))

    def run(replaced: Mapping[int, int | None], *arguments: str) -> Done:
        with (
            Path(os.devnull).open("rb") as nothing,
            tempfile.TemporaryFile() as output,
            tempfile.TemporaryFile() as errors,
        ):
            files: dict[int, int | None] = {INPUT: nothing.fileno(), OUTPUT: output.fileno(), ERRORS: errors.fileno()}
            files.update(replaced)
            with start(warm_python, (files[INPUT], files[OUTPUT], files[ERRORS]), *arguments) as process:
                status = process.wait(PATIENCE)
            output.seek(0)
            errors.seek(0)
            done = Done(status, output.read().decode(), errors.read().decode())
        assert "Traceback" not in done.errors
        assert "Exception ignored" not in done.errors
        return done

    return run


@pytest.mark.parametrize("arguments", [("send", "/queue/a"), ("send", "/queue/a", "--lines"), ("request", "/queue/a")])
@pytest.mark.parametrize(("is_open", "why"), [(False, "is closed"), (True, "cannot be read")])
def test_command_when_it_cannot_read_its_input_then_says_so(
    run: Run,
    why: str,
    arguments: tuple[str, ...],
    stomp_broker_thread: ThreadedBroker,
    tmp_path: Path,
    *,
    is_open: bool,
) -> None:
    with (tmp_path / "out").open("wb") as to_write:
        done = run({INPUT: to_write.fileno() if is_open else None}, *arguments)

    assert done.status == ExitCode.USAGE
    assert f"standard input {why}" in done.errors
    assert stomp_broker_thread.call(lambda broker: broker.depth("/queue/a")) == 0


@pytest.mark.parametrize("closed", [[INPUT], [OUTPUT], [ERRORS], [INPUT, OUTPUT, ERRORS]])
def test_send_when_it_needs_no_stream_then_none_has_to_be_open(
    run: Run, closed: list[int], stomp_broker_thread: ThreadedBroker
) -> None:
    done = run(dict.fromkeys(closed), "send", "/queue/a", "x")

    assert done == Done(0, "", "")
    assert stomp_broker_thread.call(lambda broker: broker.depth("/queue/a")) == 1


@pytest.mark.parametrize(
    "arguments",
    [("subscribe", "/queue/a", "--count", "1"), ("ping", "--count", "1"), ("request", "/queue/a", "x"), ("top",)],
)
def test_command_when_its_output_is_closed_then_does_not_connect(
    run: Run, arguments: tuple[str, ...], stomp_broker_thread: ThreadedBroker
) -> None:
    done = run({OUTPUT: None}, *arguments)

    assert done.status == ExitCode.USAGE
    assert "standard output is closed" in done.errors
    assert stomp_broker_thread.call(lambda broker: broker.statistics().connections) == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="it stands for a disk without room")
@pytest.mark.parametrize(
    "arguments", [("subscribe", "/queue/a", "--count", "1"), ("--help",), ("broker", "--port", "0")]
)
def test_command_when_its_output_has_no_room_then_says_so(
    run: Run, arguments: tuple[str, ...], stomp_broker_thread: ThreadedBroker
) -> None:
    stomp_broker_thread.call(lambda broker: broker.publish("/queue/a", "x"))

    with Path("/dev/full").open("wb") as full:
        done = run({OUTPUT: full.fileno()}, *arguments)

    assert done.status == ExitCode.FAILED
    assert "the output cannot be written: No space left on device" in done.errors


@pytest.mark.parametrize("arguments", [("doctor", "--vhost", "zwö"), ("context", "show", "a")])
def test_command_when_its_output_cannot_have_a_character_then_it_is_escaped(
    run: Run, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    added = run({}, "context", "add", "a", "-u", "stomp://a", "--vhost", "zwö")
    # Another than UTF-8, as on Windows. click takes ASCII for a mistake, and writes UTF-8.
    monkeypatch.setenv("PYTHONIOENCODING", "iso8859-5")

    done = run({}, *arguments)

    assert added.status == 0
    assert "zw\\xf6" in done.output
    assert done.errors == ""
