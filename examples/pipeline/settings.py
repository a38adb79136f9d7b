"""The settings of a run of the pipeline."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

__all__ = ["PASSCODE_VARIABLE", "SENTINEL_HOUR", "SENTINEL_ID", "JobSettings"]

# An environment variable of the job, which only its user can read.
PASSCODE_VARIABLE: Final = "FLIGHTS_PIPELINE_PASSCODE"

# The last message of a replay is not a flight: its hour, long after the year, closes all windows.
SENTINEL_ID: Final = 0
SENTINEL_HOUR: Final = "2016-12-31T00:00:00Z"

# How far a flight may be behind the newest one. With one receiver, only redelivered flights are: prefetch and the
# sender's window amount to three days. Several receivers keep no order. The replay is thousands of times as fast as the
# year was, so a receiver that pauses for a second is weeks behind the others; then only the sentinel closes windows.
_LATENESS: Final = "14 days"
_LATENESS_WITHOUT_ORDER: Final = "700 days"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSettings:
    """The settings of the Spark job, which runs in its own process and is restarted when that dies.

    Attributes:
        url: The broker, without user and passcode.
        login: The user.
        passcode: Its passcode, passed to the job in the environment.
        vhost: The virtual host; empty for the broker's default.
        queue: The queue of the flights.
        alerts: The queue of late flights.
        folder: The folder for all files of the run: spool, checkpoints, tables.
        total: The number of flights.
        late_minutes: Flights with a longer delay are late.
        master: The Spark master.
        rate: The maximum number of flights in a batch.
        receivers: The number of receivers on executors; 0: one in the driver.
    """

    url: str
    login: str
    passcode: str = field(repr=False)
    vhost: str
    queue: str
    alerts: str
    folder: Path
    total: int
    late_minutes: int
    master: str
    rate: int
    receivers: int = 0

    @property
    def lateness(self) -> str:
        """How far a flight may be behind the newest one."""
        return _LATENESS_WITHOUT_ORDER if self.receivers > 1 else _LATENESS

    @property
    def spool(self) -> Path:
        """The spool of the source."""
        return self.folder / "spool"

    @property
    def departures(self) -> Path:
        """The table of flights, in order of arrival."""
        return self.folder / "departures"

    @property
    def hours(self) -> Path:
        """The table of delays by hour, carrier and airport."""
        return self.folder / "hours"

    @property
    def summary(self) -> Path:
        """The same as JSON, written at the end."""
        return self.folder / "summary"

    def to_json(self) -> str:
        """All settings except the passcode, for the job's command line."""
        values = {**dataclasses.asdict(self), "folder": str(self.folder)}
        del values["passcode"]
        return json.dumps(values)

    @classmethod
    def of_json(cls, text: str, passcode: str) -> JobSettings:
        """Parse the output of `to_json`.

        Raises:
            ValueError: The text is not such output.
        """
        match json.loads(text):
            case {
                "url": str(url),
                "login": str(login),
                "vhost": str(vhost),
                "queue": str(queue),
                "alerts": str(alerts),
                "folder": str(folder),
                "total": int(total),
                "late_minutes": int(late_minutes),
                "master": str(master),
                "rate": int(rate),
                "receivers": int(receivers),
            }:
                return cls(
                    url=url,
                    login=login,
                    passcode=passcode,
                    vhost=vhost,
                    queue=queue,
                    alerts=alerts,
                    folder=Path(folder),
                    total=total,
                    late_minutes=late_minutes,
                    master=master,
                    rate=rate,
                    receivers=receivers,
                )
            case _:
                msg = "expected the settings of the job as JSON; flights_pipeline.py starts it with them"
                raise ValueError(msg)

    def checkpoint(self, query: str) -> Path:
        """The checkpoint folder of a query."""
        return self.folder / "checkpoints" / query
