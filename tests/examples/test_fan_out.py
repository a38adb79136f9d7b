"""A topic and a queue: everybody reads each headline, and each parcel is packed by one."""

from __future__ import annotations

import fan_out
import pytest

from tests.examples.started import lines_of
from trio_stomp.testing import run_broker_in_thread

HEADLINES_READ = sorted(f"{name} reads: {headline}" for name in fan_out.READERS for headline in fan_out.HEADLINES)
PACKED = "12 parcels packed, 12 different ones"


def test_fan_out_when_run_by_itself_then_everybody_gets_the_news_and_one_each_parcel() -> None:
    lines = lines_of("fan_out.py")

    assert sorted(line for line in lines if " reads: " in line) == HEADLINES_READ
    packed = [line.partition(" packs ")[2] for line in lines if " packs " in line]
    assert sorted(packed) == sorted(f"parcel {number}" for number in range(1, fan_out.PARCELS + 1))
    assert lines[-1] == PACKED


def test_fan_out_when_given_a_broker_then_it_leaves_nothing_there(capsys: pytest.CaptureFixture[str]) -> None:
    with run_broker_in_thread() as broker:
        fan_out.main(["--url", broker.url])

        statistics = broker.call(lambda inner: inner.statistics())

    assert capsys.readouterr().out.splitlines()[-1] == PACKED
    assert statistics.connections == len(fan_out.READERS) + fan_out.PACKERS + 2
