"""The settings of the pipeline: which flights its watermark may drop."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest
from pipeline.settings import SENTINEL_HOUR, JobSettings

FIRST = datetime.fromisoformat("2013-01-01T05:00:00+00:00")
LAST = datetime.fromisoformat("2014-01-01T05:00:00+00:00")


def lateness(receivers: int) -> timedelta:
    settings = JobSettings(
        url="stomp://127.0.0.1:1",
        login="",
        passcode="",
        vhost="",
        queue="/queue/a",
        alerts="/queue/b",
        folder=Path("/nowhere"),
        total=5,
        late_minutes=60,
        master="local[2]",
        rate=100,
        receivers=receivers,
    )
    number, unit = settings.lateness.split()
    assert unit == "days"
    return timedelta(days=int(number))


@pytest.mark.parametrize("receivers", [0, 1, 4])
def test_lateness_when_the_last_message_arrives_then_all_windows_close(receivers: int) -> None:
    assert datetime.fromisoformat(SENTINEL_HOUR) - lateness(receivers) > LAST


def test_lateness_when_receivers_keep_no_order_then_no_flight_of_the_year_is_too_late() -> None:
    assert lateness(4) > LAST - FIRST
