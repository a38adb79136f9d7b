"""Run the Spark job in a process: start it, read its reports, kill it and restart it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import trio

from pipeline.settings import PASSCODE_VARIABLE, JobSettings

__all__ = ["JobFailed", "JobReport", "JobRunner"]

_JOB: Final = Path(__file__).parent.parent / "flights_job.py"
_READ_BYTES: Final = 65536


class JobFailed(Exception):
    """The job failed too often."""


@dataclass(slots=True)
class JobReport:
    """The last report of the job.

    Attributes:
        stage: ``starting``, ``started``, ``flowing``, ``done`` or ``failed``.
        departures: Rows in the table of departures.
        hours: Rows in the table of hours.
        reason: Why it failed, if known.
    """

    stage: str = "starting"
    departures: int = 0
    hours: int = 0
    reason: str = ""

    def hear(self, line: bytes) -> None:
        """Parse one line of output; ignore lines that are not reports."""
        try:
            said: object = json.loads(line)
        except ValueError:
            return
        match said:
            case {"stage": str(stage), "departures": int(departures), "hours": int(hours)}:
                self.stage, self.departures, self.hours = stage, departures, hours
            case {"stage": str(stage), "reason": str(reason)}:
                self.stage, self.reason = stage, reason
            case {"stage": str(stage)}:
                self.stage = stage
            case _:
                pass


@dataclass(slots=True)
class JobRunner:
    """Runs the job until it is done.

    Attributes:
        settings: The settings of the job.
        may_fail: The number of failures to tolerate, not counting `kill`.
        report: The last report.
        starts: The number of starts.
        kills: The number of kills.
    """

    settings: JobSettings
    may_fail: int
    report: JobReport = field(default_factory=JobReport)
    starts: int = 0
    kills: int = 0
    _process: trio.Process | None = None

    async def run(self) -> None:
        """Run the job until it is done, and restart it as needed.

        Raises:
            JobFailed: It failed too often.

        Cancellation: the job is killed.
        """
        failures = 0
        while self.report.stage != "done":
            kills = self.kills
            await self._run_once()
            if self.report.stage == "done":
                return
            failures += self.kills == kills
            if failures > self.may_fail:
                msg = f"the Spark job has failed: {self.report.reason or 'unknown reason'}; see {self._log}"
                raise JobFailed(msg)

    @property
    def _log(self) -> Path:
        return self.settings.folder / "job.log"

    async def _run_once(self) -> None:
        self.starts += 1
        self.report.stage = "starting"
        # The passcode is not an argument, because every user of the machine can see those.
        environment = {**os.environ, PASSCODE_VARIABLE: self.settings.passcode, "PYSPARK_PYTHON": sys.executable}
        with self._log.open("ab") as log:
            process = await trio.lowlevel.open_process(
                [sys.executable, str(_JOB), self.settings.to_json()],
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
                start_new_session=True,
            )
        self._process = process
        try:
            await self._listen(process)
            await process.wait()
        finally:
            self._process = None
            _kill_group(process.pid)
            with trio.CancelScope(shield=True):
                await process.wait()

    async def _listen(self, process: trio.Process) -> None:
        if process.stdout is None:
            raise AssertionError  # it was started with a pipe
        rest = b""
        async with process.stdout as output:
            async for data in output:
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self.report.hear(line)

    def kill(self) -> bool:
        """Kill the driver, its JVM and their children; returns whether there was one."""
        if self._process is None:
            return False
        self.kills += 1
        _kill_group(self._process.pid)
        return True


def _kill_group(leader: int) -> None:
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        # Everything has already ended.
        return
