"""Chaos: kill the driver and cut the connections at certain points of the job."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import trio

from pipeline.faulty_proxy import FaultyProxy
from pipeline.job_runner import JobRunner

__all__ = ["Chaos"]

# The points, as shares of the flights in the table of departures.
_CUTS: Final = (0.05, 0.3, 0.55, 0.85)
_KILLS: Final = (0.15, 0.45, 0.7)
_EXECUTOR_KILLS: Final = (0.35,)
_LOOK_SECONDS: Final = 0.2
_CLUSTER: Final = Path(__file__).parents[2] / "scripts" / "spark-cluster"


@dataclass(slots=True)
class Chaos:
    """The faults of a run.

    Attributes:
        runner: The job.
        proxy: The proxy of all connections to the broker.
        kill_driver: Whether drivers are killed, and connections cut.
        kill_executor: Whether an executor of the cluster is killed.
        done: Descriptions of the faults so far.
    """

    runner: JobRunner
    proxy: FaultyProxy
    kill_driver: bool
    kill_executor: bool
    done: list[str] = field(default_factory=list[str])

    def _plan(self) -> Iterator[tuple[float, Callable[[], Awaitable[str]]]]:
        if self.kill_driver:
            yield from ((share, self._cut) for share in _CUTS)
            yield from ((share, self._kill) for share in _KILLS)
        if self.kill_executor:
            yield from ((share, self._kill_executor) for share in _EXECUTOR_KILLS)

    async def run(self) -> None:
        """Inject the faults, each at its time.

        Cancellation: the remaining faults are skipped.
        """
        for share, act in sorted(self._plan(), key=lambda item: item[0]):
            # Wait until the job has recovered from the previous fault.
            # The job reports periodically; there is no event to wait for.
            while self._share() < share or self.runner.report.stage != "flowing":  # noqa: ASYNC110
                await trio.sleep(_LOOK_SECONDS)
            share_now = self._share()
            self.done.append(f"{await act()} at {share_now:.0%}")

    def _share(self) -> float:
        return self.runner.report.departures / self.runner.settings.total

    async def _cut(self) -> str:
        await trio.lowlevel.checkpoint()
        return f"{self.proxy.cut_all()} connections cut"

    async def _kill(self) -> str:
        await trio.lowlevel.checkpoint()
        self.runner.kill()
        return "driver killed"

    @staticmethod
    async def _kill_executor() -> str:
        killed = await trio.run_process([str(_CLUSTER), "kill-executor"], capture_stdout=True)
        return killed.stdout.decode().strip()
