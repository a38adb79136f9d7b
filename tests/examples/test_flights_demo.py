"""The demo as it is started, with few rows: the embedded broker in its own process, and the real data."""

from __future__ import annotations

import subprocess
from pathlib import Path

import flights_demo
import pytest
from flights.records import DataMissing

import trio_stomp
from tests.examples.started import DEADLINE, command_of
from trio_stomp.testing import BrokerOptions, run_broker_in_thread


def test_demo_when_started_then_every_flight_is_accounted_for() -> None:
    command = command_of("flights_demo.py", "--rows", "600", "--workers", "2")
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert "ok   sent and confirmed: 600 of 600" in lines
    assert "ok   the table is equal to the aggregation of the file" in lines
    assert "ok   DISCONNECT on the three connections ended with: receipt, receipt, receipt" in lines
    assert not [line for line in lines if line.startswith("FAIL")]
    # As another program (awk) counts them in the first 600 rows.
    united = next(line for line in lines if line.startswith("│ UA"))
    assert united.replace("│", " ").split()[-4:] == ["123", "0", "7.9", "3"]


def test_main_when_it_has_a_table_of_its_own_then_it_uses_that(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "flights.csv"
    table.write_text(
        "carrier,flight,origin,dest,time_hour,dep_delay\n"
        "ZZ,1,EWR,IAH,2013-01-01T10:00:00Z,100\n"
        "ZZ,2,EWR,IAH,2013-01-01T11:00:00Z,NA\n",
        encoding="utf-8",
    )
    assert flights_demo.main(["--file", str(table), "--all"]) == 0
    shown = capsys.readouterr().out
    row = next(line for line in shown.splitlines() if line.startswith("│ ZZ"))
    assert row.replace("│", " ").split() == ["ZZ", "2", "1", "100.0", "1"]
    assert "2 of 2 flights, 1 of them late" in shown


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--url", "http://localhost"], "the broker URL has scheme 'http'"),
        (["--url", "stomp://guest:secret@127.0.0.1:1"], "could not connect: stomp://127.0.0.1:1"),
        (["--file", "no-such-table.csv"], "no-such-table.csv: the flight records cannot be read"),
    ],
)
def test_main_when_it_cannot_be_done_then_it_says_so_in_one_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert flights_demo.main(["--rows", "10", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("flights demo: ")
    assert said in line
    assert "secret" not in line


def test_main_when_the_login_is_refused_then_it_says_so_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    options = BrokerOptions(logins={"guest": "guest"})
    with run_broker_in_thread(options=options) as broker:
        url = broker.url.replace("guest:guest", "guest:secret")
        assert flights_demo.main(["--rows", "10", "--url", url]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("flights demo: could not connect")
    assert "secret" not in line


@pytest.mark.parametrize("arguments", [["--rows", "0"], ["--rows", "x"], ["--rows", "5", "--all"], ["--workers", "-1"]])
def test_parse_when_the_command_line_cannot_be_meant_then_it_leaves_with_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        flights_demo.parse(arguments)
    assert left.value.code == 2
    assert "usage:" in capsys.readouterr().err


def test_parse_when_nothing_is_said_then_it_is_january_on_the_embedded_broker() -> None:
    options = flights_demo.parse([])
    assert (options.url, options.file, options.rows) == (None, None, 27_004)
    assert flights_demo.parse(["--all"]).rows is None


def test_parse_when_called_twice_then_the_runs_have_queues_of_their_own() -> None:
    assert flights_demo.parse([]).plan.queue != flights_demo.parse([]).plan.queue


def test_explain_when_the_link_was_lost_then_status_is_1(capsys: pytest.CaptureFixture[str]) -> None:
    group = ExceptionGroup("", [ExceptionGroup("", [trio_stomp.ConnectionLost("gone")])])
    assert flights_demo.explain(group) == 1
    assert capsys.readouterr().err == "flights demo: gone\n"


def test_explain_when_interrupted_among_others_then_it_says_interrupted(capsys: pytest.CaptureFixture[str]) -> None:
    group = BaseExceptionGroup("", [trio_stomp.ConnectionLost("gone"), KeyboardInterrupt()])
    assert flights_demo.explain(group) == 130
    assert capsys.readouterr().err == "flights demo: interrupted\n"


def test_explain_when_it_is_a_mistake_of_ours_then_it_is_seen_whole() -> None:
    group = ExceptionGroup("", [DataMissing("x"), ZeroDivisionError("ours")])
    with pytest.RaisesGroup(DataMissing, ZeroDivisionError) as raised:
        flights_demo.explain(group)
    assert raised.value is group
