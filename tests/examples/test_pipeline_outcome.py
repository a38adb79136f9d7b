from pathlib import Path

import pytest
from pipeline.alerts import AlertDesk
from pipeline.delay_hours import HourDelays, HourKey
from pipeline.outcome import Outcome, print_outcome, read_summary
from rich.console import Console

KEY: HourKey = ("2013-01-01T10:00:00Z", "UA", "EWR")
HOURS: dict[HourKey, HourDelays] = {KEY: HourDelays(flights=60, cancelled=10, delay_minutes=100, late=1)}
LINE = (
    '{"hour":"2013-01-01T10:00:00Z","carrier":"UA","origin":"EWR","flights":60,"cancelled":10,'
    '"delay_minutes":100,"late":1}\n'
)


def outcome(*alerts: int, made: dict[HourKey, HourDelays] | None = None, left_over: int = 0) -> Outcome:
    desk = AlertDesk(url="", queue="")
    for number in alerts:
        desk.arrivals.add(number)
    return Outcome(
        made=HOURS if made is None else made,
        expected=HOURS,
        desk=desk,
        late={7},
        left_over=left_over,
        starts=1,
        chaos=["driver killed at 15%"],
        resent=2,
        seconds=10.0,
    )


def test_summary_when_read_then_it_is_what_the_job_has_written(tmp_path: Path) -> None:
    (tmp_path / "part-0.json").write_text(LINE, "utf-8")
    (tmp_path / "_SUCCESS").touch()

    assert read_summary(tmp_path) == HOURS


def test_summary_when_it_is_something_else_then_said(tmp_path: Path) -> None:
    (tmp_path / "part-0.json").write_text('{"hour": 1}\n', "utf-8")

    with pytest.raises(ValueError, match="expected an hour of a carrier"):
        read_summary(tmp_path)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (outcome(7, made={}), "1 rows differ"),
        (outcome(), "late flights without an alert: 1"),
        (outcome(7, 8), "alerts for flights that were not late: 1"),
        (outcome(7, 7), "flights with two alerts: 1"),
        (outcome(7, left_over=3), "left in the queue: 3"),
    ],
)
def test_outcome_when_one_thing_is_wrong_then_that_check_fails(wrong: Outcome, said: str) -> None:
    failed = [text for good, text in wrong.checks() if not good]

    assert not wrong.is_good
    assert len(failed) == 1
    assert said in failed[0]


def test_outcome_when_all_is_well_then_printed_with_its_table(tmp_path: Path) -> None:
    console = Console(record=True, width=120)
    good = outcome(7)

    print_outcome(console, good, {"UA": "United Air Lines Inc."}, tmp_path / "plot.png")

    assert good.is_good
    shown = console.export_text()
    assert "UA United Air Lines Inc." in shown
    assert "ok   the 1 rows are equal to the aggregation of the file" in shown
    assert "driver killed at 15%" in shown


def test_plot_when_drawn_then_there_is_a_png(tmp_path: Path) -> None:
    from pipeline.plot import mean_delays, plot_delays  # noqa: PLC0415  # it imports matplotlib, which takes long

    plot_delays(HOURS, {}, tmp_path / "plot.png")

    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert mean_delays(HOURS, lambda key: key[1]) == {"UA": 2.0}
    assert mean_delays({KEY: HourDelays(flights=3)}, lambda key: key[1]) == {}
