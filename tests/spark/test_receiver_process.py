"""A receiver in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.spark.receiving import Makes, numbers_in, opened, publish, wait_until_disconnected, wait_until_left
from tests.spark.test_receiver import PATIENCE, Told
from trio_stomp.spark import receiver_process
from trio_stomp.spark.intake_options import destination_folder
from trio_stomp.spark.receiver import ReceiverOptions
from trio_stomp.spark.receiver_process import ReceiverFailed, ReceiverProcess
from trio_stomp.spark.spool_store import SpoolStore
from trio_stomp.spark.stream_options import StreamOptions
from trio_stomp.testing import ThreadedBroker

Start = Makes[tuple[ReceiverProcess, Told]]


@pytest.fixture
def start(connection: dict[str, str], tmp_path: Path) -> Generator[Start]:
    processes: list[ReceiverProcess] = []

    def begin(**given: str) -> tuple[ReceiverProcess, Told]:
        needed = {"subscribe": "/queue/a", "spoolLocation": str(tmp_path)}
        intake = StreamOptions.read({**connection, **needed, **given}).intake
        told = Told()
        options = ReceiverOptions(intake=intake, use="stream", idle=0.1)
        processes.append(ReceiverProcess(options, told, told.failed))
        return processes[-1], told

    yield begin
    for process in processes:
        process.stop()
    assert all(process.join(PATIENCE) for process in processes)


@pytest.fixture
def store(tmp_path: Path) -> SpoolStore:
    return opened(tmp_path, destination_folder("/queue/a"), "stream")


def test_messages_when_received_by_a_process_then_in_the_spool_and_acknowledged(
    threaded_broker: ThreadedBroker, start: Start, store: SpoolStore
) -> None:
    publish(threaded_broker, range(50))

    process, told = start()
    told.wait(lambda told: told.last == 50)
    told.wait(lambda told: told.idles > 0)
    wait_until_left(threaded_broker, 0)
    process.stop()
    process.stop()

    assert process.join(PATIENCE)
    assert numbers_in(store) == list(range(50))
    assert not told.failures


def test_process_when_it_fails_then_its_words_are_told_and_no_passcode(start: Start) -> None:
    _, told = start(password="hunter2")

    failure = told.failure()

    assert told.failures == [failure]
    assert isinstance(failure, ReceiverFailed)
    assert str(failure).startswith("a receiver process has ended with status 1: AuthenticationError: ")
    assert "wrong passcode" in str(failure)
    assert "hunter2" not in str(failure)


def test_process_when_killed_then_that_is_told(start: Start) -> None:
    process, told = start()
    told.wait(lambda told: told.last == 0)

    os.kill(process.pid, signal.SIGKILL)

    assert str(told.failure()) == (
        "a receiver process was killed by signal 9 (SIGKILL), perhaps because memory ran out"
    )


DYING = """
import os, sys
sys.stdin.readline()
sys.stdout.write('{"failed": "the bro')
sys.stdout.flush()
os.kill(os.getpid(), 9)
"""


def test_process_when_killed_while_it_says_something_then_that_is_told(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiver_process, "_COMMAND", (sys.executable, "-c", DYING))

    _, told = start()

    assert str(told.failure()).startswith("a receiver process was killed by signal 9 (SIGKILL), it said ")


def test_process_when_the_one_who_started_it_is_killed_then_it_ends_too(
    threaded_broker: ThreadedBroker, connection: dict[str, str], tmp_path: Path
) -> None:
    script = f"""
import time
from tests.spark.test_receiver import Told
from trio_stomp.spark.receiver import ReceiverOptions
from trio_stomp.spark.receiver_process import ReceiverProcess
from trio_stomp.spark.stream_options import StreamOptions
options = StreamOptions.read({{**{connection!r}, "subscribe": "/queue/a", "spoolLocation": {str(tmp_path)!r}}})
told = Told()
options = ReceiverOptions(intake=options.intake, use="stream", idle=0.1)
process = ReceiverProcess(options, told, told.failed)
told.wait(lambda told: told.idles > 0)
print("ready", flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"ready\n"
        assert threaded_broker.call(lambda broker: len(broker.sessions)) == 1
        parent.kill()

    wait_until_disconnected(threaded_broker)


def test_process_when_it_is_not_told_what_to_do_then_it_says_so() -> None:
    command = [sys.executable, "-c", "import sys; from trio_stomp.spark.receiver_process import main; sys.exit(main())"]

    done = subprocess.run(command, input=b"gAROLg==\n", capture_output=True, timeout=PATIENCE, check=False)

    assert (done.returncode, b"was not told" in done.stdout) == (1, True)
