"""Standard streams that are closed, full or of the wrong kind: one line, and no traceback."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.exit_code import ExitCode
from trio_stomp.testing import ThreadedBroker

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="its shell has no such redirections")


def run(redirection: str, *arguments: str, broker: ThreadedBroker, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run ``trio-stomp`` with redirected streams."""
    command = shlex.join([sys.executable, "-m", "trio_stomp.cli", *arguments])
    environment = {**os.environ, "TRIO_STOMP_URL": broker.url, "XDG_CONFIG_HOME": str(folder)}
    done = subprocess.run(
        ["/bin/sh", "-c", f"{command} {redirection}"], env=environment, capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    return done


@pytest.mark.parametrize("arguments", [("send", "/queue/a"), ("send", "/queue/a", "--lines"), ("request", "/queue/a")])
@pytest.mark.parametrize(("redirection", "why"), [("<&-", "is closed"), ("0>out", "cannot be read")])
def test_command_when_it_cannot_read_its_input_then_says_so(
    redirection: str, why: str, arguments: tuple[str, ...], stomp_broker_thread: ThreadedBroker, tmp_path: Path
) -> None:
    redirected = redirection.replace("out", shlex.quote(str(tmp_path / "out")))
    done = run(redirected, *arguments, broker=stomp_broker_thread, folder=tmp_path)

    assert done.returncode == ExitCode.USAGE
    assert f"standard input {why}" in done.stderr
    assert stomp_broker_thread.call(lambda broker: broker.depth("/queue/a")) == 0


@pytest.mark.parametrize("redirection", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_send_when_it_needs_no_stream_then_none_has_to_be_open(
    redirection: str, stomp_broker_thread: ThreadedBroker, tmp_path: Path
) -> None:
    done = run(redirection, "send", "/queue/a", "x", broker=stomp_broker_thread, folder=tmp_path)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert stomp_broker_thread.call(lambda broker: broker.depth("/queue/a")) == 1


@pytest.mark.parametrize(
    "arguments",
    [("subscribe", "/queue/a", "--count", "1"), ("ping", "--count", "1"), ("request", "/queue/a", "x"), ("top",)],
)
def test_command_when_its_output_is_closed_then_does_not_connect(
    arguments: tuple[str, ...], stomp_broker_thread: ThreadedBroker, tmp_path: Path
) -> None:
    done = run(">&-", *arguments, broker=stomp_broker_thread, folder=tmp_path)

    assert done.returncode == ExitCode.USAGE
    assert "standard output is closed" in done.stderr
    assert stomp_broker_thread.call(lambda broker: broker.statistics().connections) == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="it stands for a disk without room")
@pytest.mark.parametrize(
    "arguments", [("subscribe", "/queue/a", "--count", "1"), ("--help",), ("broker", "--port", "0")]
)
def test_command_when_its_output_has_no_room_then_says_so(
    arguments: tuple[str, ...], stomp_broker_thread: ThreadedBroker, tmp_path: Path
) -> None:
    stomp_broker_thread.call(lambda broker: broker.publish("/queue/a", "x"))

    done = run("> /dev/full", *arguments, broker=stomp_broker_thread, folder=tmp_path)

    assert done.returncode == ExitCode.FAILED
    assert "the output cannot be written: No space left on device" in done.stderr


@pytest.mark.parametrize("arguments", [("doctor", "--vhost", "zwö"), ("context", "show", "a")])
def test_command_when_its_output_cannot_have_a_character_then_it_is_escaped(
    arguments: tuple[str, ...], stomp_broker_thread: ThreadedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    added = run(
        "", "context", "add", "a", "-u", "stomp://a", "--vhost", "zwö", broker=stomp_broker_thread, folder=tmp_path
    )
    # Another than UTF-8, as on Windows. click takes ASCII for a mistake, and writes UTF-8.
    monkeypatch.setenv("PYTHONIOENCODING", "iso8859-5")

    done = run("| cat", *arguments, broker=stomp_broker_thread, folder=tmp_path)

    assert added.returncode == 0
    assert "zw\\xf6" in done.stdout
    assert done.stderr == ""
