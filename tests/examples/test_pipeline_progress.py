"""What the pipeline prints while it runs: where the flights are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import trio
from pipeline.alerts import AlertDesk
from pipeline.chaos import Chaos
from pipeline.delay_hours import HourDelays, HourKey
from pipeline.faulty_proxy import FaultyProxy
from pipeline.job_runner import JobRunner
from pipeline.outcome import Outcome, print_outcome
from pipeline.progress import Whereabouts, show_progress
from pipeline.replay import Replay
from rich.console import Console
from trio.testing import MockClock

from tests.examples.job_settings import SETTINGS
from tests.spark.receiving import write
from trio_stomp.spark.segments import mark_spool
from trio_stomp.spark.spool_store import SpoolLocation

TOTAL = 336_776
COLUMNS = 80


@pytest.mark.parametrize(
    ("confirmed", "waiting", "written", "expected"),
    [
        (0, 0, 0, (10, 0, 0, 0)),
        (6, 3, 1, (4, 2, 3, 1)),
        # What the query has read since it last said so is in the spool and in the table.
        (10, 8, 7, (0, 0, 3, 7)),
        # Copies.
        (6, 9, 0, (4, 0, 6, 0)),
        # The last message is no flight.
        (10, 0, 11, (0, 0, 0, 10)),
        # A confirmation is late.
        (2, 1, 4, (8, 0, 0, 2)),
    ],
)
def test_flights_when_counted_then_each_in_one_place(
    confirmed: int, waiting: int, written: int, expected: tuple[int, int, int, int]
) -> None:
    found = Whereabouts.of(total=10, confirmed=confirmed, waiting=waiting, written=written)

    assert (found.unsent, found.queue, found.spool, found.table) == expected
    assert sum(expected) == 10


class Running:
    """The parts of a run, as far as they are shown."""

    def __init__(self, folder: Path) -> None:
        settings = replace(SETTINGS, folder=folder, total=TOTAL)
        self.runner = JobRunner(settings=settings, may_fail=0)
        self.replay = Replay(url="", queue="")
        self.desk = AlertDesk(url="", queue="")
        self.chaos = Chaos(runner=self.runner, proxy=FaultyProxy(1), kill_driver=False, kill_executor=False)
        self.spool = SpoolLocation.of(str(settings.spool)).open("queue-a", "stream")

    async def shown(self, console: Console, seconds: float) -> list[str]:
        with trio.move_on_after(seconds):
            await show_progress(console, self.replay, self.runner, self.desk, self.chaos)
        return console.export_text().splitlines()


@pytest.fixture
def running(tmp_path: Path) -> Running:
    return Running(tmp_path)


async def test_lines_when_flights_are_everywhere_then_told_how_many_where(
    running: Running, autojump_clock: MockClock
) -> None:
    mark_spool(running.spool, "/queue/a")
    write(running.spool, "shard", 1, [str(number) for number in range(2000)])
    running.replay.confirmed = 300_000
    running.runner.report.hear(b'{"stage": "flowing", "departures": 290000, "hours": 12345}')
    running.chaos.done.append("driver killed at 15%")

    lines = await running.shown(Console(record=True, width=COLUMNS), 1)

    assert lines == [
        "   time  job        unsent    queue    spool    table    hours   alerts",
        "         driver killed at 15%",
        "    0 s  flowing    36,776    8,000    2,000  290,000   12,345        0",
    ]


async def test_lines_when_time_passes_then_one_every_five_seconds_and_faults_once(
    running: Running, autojump_clock: MockClock
) -> None:
    running.chaos.done.append("5 connections cut at 5%")

    lines = await running.shown(Console(record=True, width=COLUMNS), 11)

    assert [line[:8].strip() for line in lines] == ["time", "", "0 s", "5 s", "10 s"]


async def test_bars_when_on_a_narrow_terminal_then_each_fits_its_line(
    running: Running, autojump_clock: MockClock
) -> None:
    running.replay.confirmed = TOTAL
    running.runner.report.hear(f'{{"stage": "flowing", "departures": {TOTAL + 1}, "hours": 12345}}'.encode())
    running.chaos.done.append("driver killed at 15%")

    lines = await running.shown(Console(record=True, width=COLUMNS, force_terminal=True), 1)

    assert any("driver killed at 15%" in line for line in lines)
    # The longest one.
    (table,) = {line for line in lines if line.startswith("in the table (flowing)")}
    assert f"{TOTAL}/{TOTAL}" in table
    assert len(table) <= COLUMNS


def test_outcome_when_printed_on_a_narrow_terminal_then_its_table_fits(tmp_path: Path) -> None:
    delays = HourDelays(flights=123_456, cancelled=12_345, delay_minutes=123_456_789, late=99_999)
    hours: dict[HourKey, HourDelays] = {("2013-01-01T10:00:00Z", "EV", "EWR"): delays}
    outcome = Outcome(
        made=hours,
        expected=hours,
        desk=AlertDesk(url="", queue=""),
        late=set(),
        left_over=0,
        starts=1,
        chaos=[f"driver killed at {share}%" for share in range(10, 80)],
        resent=2,
        seconds=10.0,
    )
    console = Console(record=True, width=COLUMNS)

    print_outcome(console, outcome, {"EV": "ExpressJet Airlines Inc. and all of its subsidiaries"}, tmp_path / "p.png")

    lines = console.export_text().splitlines()
    assert max(len(line) for line in lines if not line.startswith("plot: ")) <= COLUMNS
