"""The resilient worker as it is started: by itself, and told to stop."""

from __future__ import annotations

import signal
import subprocess

import pytest
import resilient_worker

from tests.examples.started import DEADLINE, command_of, lines_of
from trio_stomp.testing import run_broker_in_thread


@pytest.mark.slow
def test_worker_when_its_broker_is_stopped_now_and_then_then_every_order_is_handled() -> None:
    lines = lines_of("resilient_worker.py")

    assert "-- the broker is stopped" in lines
    assert any(line.startswith("lost to stomp://127.0.0.1:") for line in lines)
    assert lines[-1].startswith("300 orders confirmed, 300 handled, ")
    assert "; 0 reconnections" not in lines[-1]


def test_worker_when_given_a_broker_and_a_number_then_it_ends_by_itself(capsys: pytest.CaptureFixture[str]) -> None:
    with run_broker_in_thread() as broker:
        assert resilient_worker.main(["--url", broker.url, "--orders", "5"]) == 0

    assert "5 orders confirmed, 5 handled, 0 duplicates; 0 reconnections" in capsys.readouterr().out


@pytest.mark.parametrize("told", [signal.SIGINT, signal.SIGTERM])
def test_worker_when_told_to_stop_then_it_finishes_what_it_has_begun(told: signal.Signals) -> None:
    with run_broker_in_thread() as broker:
        command = command_of("resilient_worker.py", "--url", broker.url)
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        shown = [process.stdout.readline()]
        process.send_signal(told)
        rest, _ = process.communicate(timeout=DEADLINE)

    shown += rest.splitlines()
    assert process.returncode == 0
    assert shown[0].startswith("connected to ")
    assert "finishing" in shown
    confirmed, handled = (int(part.split()[0]) for part in shown[-1].split(", ")[:2])
    assert confirmed == handled
