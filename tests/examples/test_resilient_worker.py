"""The resilient worker as it is started: by itself, and told to stop."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
import resilient_worker

from trio_stomp.testing import run_broker_in_thread

ROOT = Path(__file__).resolve().parents[2]
COMMAND = (sys.executable, "-W", "error", str(ROOT / "examples" / "resilient_worker.py"))
# Done in a few seconds; this is for a machine that has much else to do.
DEADLINE = 120.0


@pytest.mark.slow
def test_worker_when_its_broker_is_stopped_now_and_then_then_every_order_is_handled() -> None:
    done = subprocess.run(COMMAND, capture_output=True, text=True, timeout=DEADLINE, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
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
        process = subprocess.Popen([*COMMAND, "--url", broker.url], stdout=subprocess.PIPE, text=True)
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
