"""What is told to a contestant, and how it counts."""

from __future__ import annotations

import json
import sys

import pytest

from benchmarks.order import Meter, Order


def test_order_when_told_to_another_process_then_it_arrives_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    order = Order(scenario="receive", port=7, destination="/queue/a", seconds=0.5, limit=3)

    monkeypatch.setattr(sys, "argv", ["script", order.as_argument()])

    assert Order.from_argument() == order


def test_order_when_told_to_an_older_commit_then_only_what_was_chosen_is_said() -> None:
    order = Order(scenario="receive", port=7, destination="/queue/a")

    said = json.loads(order.as_argument(whole=False))

    assert said["port"] == 7
    assert "body_bytes" not in said


def counted(order: Order, *, step: int = 4, most: int = 100_000) -> Meter:
    meter = Meter(order, step=step)
    while meter.count < most:
        meter.count += 1
        if meter.count >= meter.goal and meter.lap():
            return meter
    raise AssertionError


def test_meter_when_there_is_a_limit_then_it_ends_exactly_there() -> None:
    meter = counted(Order(scenario="receive", warm_up=0, seconds=60, limit=10))

    assert meter.count == 10
    assert meter.result["total"] == 10
    assert meter.result["rate"] > 0


def test_meter_when_the_time_is_over_then_it_ends_at_the_next_step() -> None:
    meter = counted(Order(scenario="receive", warm_up=0, seconds=0), step=4)

    assert meter.count == 5


def test_meter_when_unconfirmed_messages_are_settled_later_then_that_is_the_end() -> None:
    meter = counted(Order(scenario="send", warm_up=0, seconds=60, limit=10))
    at_once = meter.result["rate"]
    assert meter.unsettled

    meter.settled()

    assert 0 < meter.result["rate"] < at_once
    assert not Meter(Order(scenario="send")).unsettled
