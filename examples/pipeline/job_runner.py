"""The Spark job as a process: started, listened to, killed, and started again."""

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
_READ_OCTETS: Final = 65536


class JobFailed(Exception):
    """The job ended before its time, more often than it may."""


@dataclass(slots=True)
class JobReport:
    """What the job has said last.

    Attributes:
        stage: ``starting``, ``started``, ``flowing``, ``done`` or ``failed``.
        departures: Rows in the table of departures.
        hours: Rows in the table of hours.
        reason: Why it failed, where it could say so.
    """

    stage: str = "starting"
    departures: int = 0
    hours: int = 0
    reason: str = ""

    def hear(self, line: bytes) -> None:
        """Take one line of its output; what is no report is somebody else's."""
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
        settings: What it is told.
        may_fail: How many times it may end without being done, beyond those that `kill` ended.
        report: What it has said last.
        starts: How many times it was started.
        kills: How many times it was killed.
    """

    settings: JobSettings
    may_fail: int
    report: JobReport = field(default_factory=JobReport)
    starts: int = 0
    kills: int = 0
    _process: trio.Process | None = None

    async def run(self) -> None:
        """Run the job, again and again where it has to be, until it is done.

        Raises:
            JobFailed: It ended too often without being done.

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
                msg = f"the Spark job has failed: {self.report.reason or 'it did not say why'}; see {self._log}"
                raise JobFailed(msg)

    @property
    def _log(self) -> Path:
        return self.settings.folder / "job.log"

    async def _run_once(self) -> None:
        self.starts += 1
        self.report.stage = "starting"
        # The passcode is no argument: those can be seen by every user of the machine.
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
            async for octets in output:
                *lines, rest = (rest + octets).split(b"\n")
                for line in lines:
                    self.report.hear(line)

    def kill(self) -> bool:
        """Kill the driver, its JVM and all that belongs to them, at once; returns whether there was one."""
        if self._process is None:
            return False
        self.kills += 1
        _kill_group(self._process.pid)
        return True


def _kill_group(leader: int) -> None:
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        # All of it has ended by itself.
        return
