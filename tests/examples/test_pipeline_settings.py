"""The settings of the pipeline: which flights its watermark may drop."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from pipeline.settings import SENTINEL_HOUR

from tests.examples.job_settings import SETTINGS

FIRST = datetime.fromisoformat("2013-01-01T05:00:00+00:00")
LAST = datetime.fromisoformat("2014-01-01T05:00:00+00:00")


def lateness(receivers: int) -> timedelta:
    number, unit = replace(SETTINGS, receivers=receivers).lateness.split()
    assert unit == "days"
    return timedelta(days=int(number))


@pytest.mark.parametrize("receivers", [0, 1, 4])
def test_lateness_when_the_last_message_arrives_then_all_windows_close(receivers: int) -> None:
    assert datetime.fromisoformat(SENTINEL_HOUR) - lateness(receivers) > LAST


def test_lateness_when_receivers_keep_no_order_then_no_flight_of_the_year_is_too_late() -> None:
    assert lateness(4) > LAST - FIRST
