"""``trio-stomp receive``, where PySpark is missing: it needs nothing of Spark."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest
import trio

from tests.cli.conftest import Cli, publish, wait_until_left
from tests.cli.exit_code import ExitCode
from tests.cli.processes import PATIENCE
from trio_stomp.testing import Broker, ThreadedBroker, run_broker_in_thread
from trio_stomp.types import Command

pytest.importorskip("fcntl", reason="spools are not for Windows")
pytest.importorskip("pyarrow", reason="pyarrow comes with the extra `spool`")

from trio_stomp.spark import ReceiverState, status
from trio_stomp.spark.intake_options import STREAM, destination_folder
from trio_stomp.spark.receiver import Report
from trio_stomp.spark.segments import list_spool, open_batches
from trio_stomp.spark.spool_store import SpoolLocation

# As where a package is not installed.
WITHOUT = "import sys; sys.modules[{!r}] = None; from trio_stomp.cli import main; main()"
COMMAND = (sys.executable, "-c", WITHOUT.format("pyspark"), "receive", "/queue/a")


def bodies_in(folder: Path) -> list[bytes]:
    store = SpoolLocation.of(str(folder)).open(destination_folder("/queue/a"), STREAM)
    segments = [each for found in list_spool(store).segments.values() for each in found]
    batches = [batch for each in segments for batch in open_batches(store, store.path(each.name), ["body"])]
    return [body for batch in batches for body in batch.to_pydict()["body"]]


def states_in(folder: Path) -> list[ReceiverState]:
    return [receiver.state for each in status(str(folder)).destinations for receiver in each.receivers]


def test_receive_when_nothing_comes_any_more_then_all_is_in_the_spool_and_acknowledged(
    cli: Cli, stomp_broker_thread: ThreadedBroker, tmp_path: Path
) -> None:
    publish(stomp_broker_thread, "one", "two")

    done = cli("receive", "/queue/a", "--spool", str(tmp_path), "-w", "0.2")

    assert (done.exit_code, done.stdout) == (0, f"2 messages received into {tmp_path}\n"), done.stderr
    assert bodies_in(tmp_path) == [b"one", b"two"]
    assert states_in(tmp_path) == [ReceiverState.ENDED]
    wait_until_left(stomp_broker_thread, 0)


def test_receive_when_the_spool_has_a_key_in_its_uri_then_it_is_not_shown(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run(_options: Mapping[str, str], *, report: Report, **_others: object) -> None:
        await trio.lowlevel.checkpoint()
        report.wrote("shard", 1)

    monkeypatch.setattr("trio_stomp.spark.run_receiver", run)

    done = cli("receive", "/queue/a", "--spool", "s3://bucket/spool?secret_key=s3cret")

    assert (done.exit_code, done.output) == (0, "1 message received into s3://bucket/spool\n")


def test_receive_when_there_were_enough_then_ends_and_leaves_the_rest(
    cli: Cli, stomp_broker_thread: ThreadedBroker, tmp_path: Path
) -> None:
    publish(stomp_broker_thread, "one", "two")

    done = cli("receive", "/queue/a", "--spool", str(tmp_path), "-n", "1", "-o", "segmentFormat=parquet")

    assert (done.exit_code, done.stdout) == (0, f"1 message received into {tmp_path}\n"), done.stderr
    assert bodies_in(tmp_path) == [b"one"]
    assert len(list(tmp_path.rglob("*.parquet"))) == 1
    wait_until_left(stomp_broker_thread, 1)


def test_receive_when_fewer_come_in_time_then_said_so(cli: Cli, tmp_path: Path) -> None:
    done = cli("receive", "/queue/a", "--spool", str(tmp_path), "-n", "2", "-w", "0.1")

    assert done.exit_code == ExitCode.TIMED_OUT
    assert "only 0 of 2 messages came in time" in done.stderr


@pytest.mark.parametrize(
    ("number", "options", "code"),
    [
        (signal.SIGTERM, (), ExitCode.OK),
        (signal.SIGINT, (), ExitCode.OK),
        (signal.SIGTERM, ("--count", "9"), ExitCode.TERMINATED),
        (signal.SIGINT, ("--timeout", "1h"), ExitCode.INTERRUPTED),
    ],
)
def test_receive_when_a_signal_comes_then_disconnects_in_order(
    stomp_broker_thread: ThreadedBroker, tmp_path: Path, number: signal.Signals, options: tuple[str, ...], code: int
) -> None:
    publish(stomp_broker_thread, "one")
    command = [*COMMAND, "--spool", str(tmp_path), "-u", stomp_broker_thread.url, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_until_left(stomp_broker_thread, 0)
        process.send_signal(number)
        output, errors = process.communicate(timeout=PATIENCE)

    assert (process.returncode, output, errors) == (code, f"1 message received into {tmp_path}\n", "")
    assert bodies_in(tmp_path) == [b"one"]
    assert states_in(tmp_path) == [ReceiverState.ENDED]
    assert stomp_broker_thread.call(lambda broker: broker.statistics().received[Command.DISCONNECT]) == 1


def test_receive_when_the_broker_is_gone_then_a_signal_ends_it(tmp_path: Path) -> None:
    with run_broker_in_thread() as broker:
        publish(broker, "one")
        command = [*COMMAND, "--spool", str(tmp_path), "-u", broker.url, "--outage", "100"]
        process = subprocess.Popen(command, stderr=subprocess.PIPE)
        wait_until_left(broker, 0)
    with process:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE)

    assert process.returncode == ExitCode.OK
    assert bodies_in(tmp_path) == [b"one"]
    assert states_in(tmp_path) == [ReceiverState.ENDED]


def test_receive_when_the_broker_is_gone_for_longer_than_the_outage_then_fails(
    cli: Cli, stomp_broker_thread: ThreadedBroker, tmp_path: Path
) -> None:
    publish(stomp_broker_thread, "one")

    def leave() -> None:
        wait_until_left(stomp_broker_thread, 0)
        stomp_broker_thread.call(Broker.stop_listening)
        stomp_broker_thread.call(Broker.drop_connections)

    leaving = threading.Thread(target=leave)
    leaving.start()
    done = cli("receive", "/queue/a", "--spool", str(tmp_path), "--outage", "0.3")
    leaving.join()

    assert (done.exit_code, done.stdout) == (ExitCode.LOST, f"1 message received into {tmp_path}\n")
    assert "give up" in done.stderr
    assert bodies_in(tmp_path) == [b"one"]
    assert states_in(tmp_path) == [ReceiverState.FAILED]


def test_receive_when_the_broker_was_never_there_then_fails_at_once(cli: Cli, tmp_path: Path) -> None:
    done = cli("receive", "/queue/a", "--spool", str(tmp_path), "-u", "stomp://127.0.0.1:1", "--outage", "1h")

    assert (done.exit_code, done.stdout) == (ExitCode.NOT_CONNECTED, f"0 messages received into {tmp_path}\n")
    assert states_in(tmp_path) == [ReceiverState.FAILED]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--spool", "/dev/null/spool"), "cannot "),
        (("--spool", "s3://a/b", "--spool-option", "nonsense=1"), "cannot open the spool s3://a/b"),
    ],
)
def test_receive_when_it_cannot_be_done_then_said_why(cli: Cli, arguments: tuple[str, ...], text: str) -> None:
    done = cli("receive", "/queue/a", *arguments)

    assert (done.exit_code, done.stdout) == (ExitCode.FAILED, "")
    assert text in done.stderr


@pytest.mark.parametrize("arguments", ["receive /queue/a --spool /s", "spool /s"])
def test_command_when_its_extra_is_missing_then_the_error_names_it(arguments: str) -> None:
    command = [sys.executable, "-c", WITHOUT.format("pyarrow"), *arguments.split()]

    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)

    assert (done.returncode, done.stdout) == (ExitCode.USAGE, "")
    assert done.stderr == (
        f"trio-stomp: {arguments.split(maxsplit=1)[0]} requires pyarrow. Run: pip install 'trio-stomp[cli,spool]'\n"
    )
