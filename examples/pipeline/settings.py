"""What a run of the pipeline is told."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

__all__ = ["PASSCODE_VARIABLE", "SENTINEL_HOUR", "SENTINEL_ID", "JobSettings"]

# The job's environment, which only its own user can read.
PASSCODE_VARIABLE: Final = "FLIGHTS_PIPELINE_PASSCODE"

# The last message of a replay is no flight: its hour, far behind the year, closes the windows of all others.
SENTINEL_ID: Final = 0
SENTINEL_HOUR: Final = "2014-12-31T00:00:00Z"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSettings:
    """What the Spark job is told; it runs in a process of its own, and is started anew when that dies.

    Attributes:
        url: The broker, without user and passcode.
        login: The user.
        passcode: Its passcode; it reaches the job by its environment.
        vhost: The virtual host; nothing for the broker's own default.
        queue: Where the flights are.
        alerts: Where late flights go on to.
        folder: Where everything of the run is kept: spool, checkpoints, tables.
        total: How many flights there are.
        late_minutes: How late is late.
        master: The Spark master.
        rate: How many flights a batch may have.
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

    @property
    def spool(self) -> Path:
        """Where the source keeps what it has received."""
        return self.folder / "spool"

    @property
    def departures(self) -> Path:
        """The table of flights, as they came."""
        return self.folder / "departures"

    @property
    def hours(self) -> Path:
        """The table of delays by hour, carrier and airport."""
        return self.folder / "hours"

    @property
    def summary(self) -> Path:
        """The same as JSON, written when all is done."""
        return self.folder / "summary"

    def to_json(self) -> str:
        """All of it but the passcode, for the job's command line."""
        values = {**dataclasses.asdict(self), "folder": str(self.folder)}
        del values["passcode"]
        return json.dumps(values)

    @classmethod
    def of_json(cls, text: str, passcode: str) -> JobSettings:
        """What `to_json` has made.

        Raises:
            ValueError: It is something else.
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
                )
            case _:
                msg = "expected the settings of the job as JSON; flights_pipeline.py starts it with them"
                raise ValueError(msg)

    def checkpoint(self, query: str) -> Path:
        """Where a query keeps how far it has come."""
        return self.folder / "checkpoints" / query
