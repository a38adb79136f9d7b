"""What the demo shows: bars in a terminal, lines elsewhere, and a verdict that can be bad."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
import trio
import trio.testing
from flights.delays import CarrierDelays
from flights.display import Verdict, print_table, print_verdict, show_progress
from flights.ledger import Ledger
from flights.pipeline import Goodbye
from flights.records import DelayReport, Flight
from rich.console import Console

from trio_stomp import DisconnectResult

EXPECTED = {"UA": CarrierDelays(flights=1, delay_minutes=90, late=1)}
FLIGHT = Flight(id=1, carrier="UA", number=1, origin="EWR", destination="IAH", hour="", delay=90)
REPORT = DelayReport(id=1, carrier="UA", delay=90)


def finished_ledger() -> Ledger:
    ledger = Ledger(10)
    ledger.sent = 1
    ledger.confirm([FLIGHT])
    ledger.handle(REPORT, routed=True)
    ledger.count_late(REPORT)
    ledger.all_sent()
    return ledger


def verdict(ledger: Ledger, *, result: DisconnectResult = DisconnectResult.RECEIPT, left_over: int = 0) -> Verdict:
    goodbye = Goodbye(server="Some/1.0", results=(DisconnectResult.RECEIPT, result), left_over=left_over)
    return Verdict(ledger=ledger, expected=EXPECTED, goodbye=goodbye, seconds=2.0)


def said(verdict: Verdict) -> str:
    out = io.StringIO()
    print_verdict(Console(file=out), verdict)
    return out.getvalue()


@pytest.mark.parametrize("terminal", [True, False])
async def test_show_progress_when_the_ledger_is_finished_then_the_last_state_stays(
    autojump_clock: trio.testing.MockClock, terminal: bool
) -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=100)
    ledger = Ledger(10)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(show_progress, console, ledger, 1)
        await trio.sleep(5)
        ledger.sent = 1
        ledger.confirm([FLIGHT])
        ledger.handle(REPORT, routed=False)
        ledger.all_sent()
    text = out.getvalue()
    if terminal:
        assert "0/1" in text
        assert "1/1" in text
    else:
        # At the start, every two seconds, and at the end.
        assert [line.split()[0] for line in text.splitlines()] == ["0.0", "2.0", "4.0", "5.0"]
        assert "sent 1  confirmed 1  handled 1 of 1" in text.splitlines()[-1]


def test_print_table_when_a_carrier_never_left_then_it_has_no_mean() -> None:
    out = io.StringIO()
    delays = {**EXPECTED, "HA": CarrierDelays(flights=2, cancelled=2)}
    print_table(Console(file=out, width=100), delays, {"UA": "United"})
    rows = [line.replace("│", " ").split() for line in out.getvalue().splitlines() if line.startswith("│")]
    assert rows == [["UA", "United", "1", "0", "90.0", "1"], ["HA", "2", "2", "0"]]


def test_verdict_when_all_is_accounted_for_then_it_is_good() -> None:
    good = verdict(finished_ledger())
    assert good.is_good
    assert "FAIL" not in said(good)
    assert "1 of 1 flights, 1 of them late, over Some/1.0 in 2.0 s: 0 flights/s, 2 messages/s" in said(good)


def _lose(ledger: Ledger) -> None:
    ledger.handled.ids.clear()


def _double(ledger: Ledger) -> None:
    ledger.handle(REPORT, routed=False)


def _meet_stranger(ledger: Ledger) -> None:
    ledger.handled.add(99)


def _forget_to_confirm(ledger: Ledger) -> None:
    ledger.confirmed.ids.clear()


def _miscount(ledger: Ledger) -> None:
    ledger.delays["UA"].delay_minutes += 1


@pytest.mark.parametrize(
    ("spoil", "line"),
    [
        (_lose, "FAIL lost: 1 (flights 1)"),
        (_double, "FAIL duplicated: 1 (flights 1)"),
        (_meet_stranger, "FAIL received but never sent: 1 (flights 99)"),
        (_forget_to_confirm, "FAIL sent and confirmed: 0 of 1"),
        (_miscount, "FAIL the table is DIFFERENT from the aggregation of the file"),
    ],
)
def test_verdict_when_one_thing_is_amiss_then_it_is_bad_and_says_what(
    spoil: Callable[[Ledger], None], line: str
) -> None:
    ledger = finished_ledger()
    spoil(ledger)
    bad = verdict(ledger)
    assert not bad.is_good
    assert line in said(bad).splitlines()


def test_verdict_when_it_ended_badly_at_the_broker_then_it_is_bad_and_says_what() -> None:
    left = verdict(finished_ledger(), left_over=3)
    assert not left.is_good
    assert "FAIL left in the queues: 3" in said(left).splitlines()
    cut = verdict(finished_ledger(), result=DisconnectResult.TIMEOUT)
    assert not cut.is_good
    assert "FAIL DISCONNECT on the three connections ended with: receipt, timeout" in said(cut).splitlines()


def test_verdict_when_many_are_lost_then_only_the_first_are_named() -> None:
    ledger = finished_ledger()
    ledger.confirmed.ids.update(range(2, 20))
    assert "FAIL lost: 18 (flights 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ...)" in said(verdict(ledger)).splitlines()
