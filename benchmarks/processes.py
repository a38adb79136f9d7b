"""The processor time of Spark's processes and of a broker."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ["BROKER", "JVM", "PLANNER", "RECEIVER", "TASKS", "Processes"]

JVM: Final = "the JVM"
PLANNER: Final = "the planner"
RECEIVER: Final = "the receiver"
TASKS: Final = "Python of the tasks"
BROKER: Final = "the broker"

# What the command lines have in them. The JVM starts the others. Spark calls the planner in the main thread of its
# process; a single receiver runs in the other threads of that process.
_COMMANDS: Final = {
    b"pyspark.daemon": TASKS,
    b"python_streaming_source_runner": PLANNER,
    b"receiver_process": RECEIVER,
    b"java": JVM,
}


class Processes:
    """Measures the processor time for each row of the processes that this one has started, and of a broker.

    Args:
        broker: The id of the broker's process; 0: it is not looked at.
    """

    def __init__(self, broker: int = 0) -> None:
        self._broker = broker
        self._at: tuple[int, dict[str, float]] | None = None

    def begin(self, rows: int = 0) -> None:
        """Start measuring after this many rows. Later calls change nothing."""
        if self._at is None:
            self._at = rows, self._seconds()

    def for_each(self, rows: int) -> dict[str, float]:
        """Return the seconds for each row since `begin`, by kind of process; empty if there are no more rows now."""
        before, used = self._at or (rows, {})
        if rows == before:
            return {}
        now = self._seconds()
        return {kind: (seconds - used[kind]) / (rows - before) for kind, seconds in now.items()}

    def _seconds(self) -> dict[str, float]:
        parents: dict[int, int] = {}
        seconds: dict[int, float] = {}
        for pid, parent, taken in _running():
            parents[pid] = parent
            seconds[pid] = taken
        used: dict[str, float] = dict.fromkeys((JVM, RECEIVER, TASKS, PLANNER), 0.0)
        if self._broker:
            used[BROKER] = seconds.get(self._broker, 0.0)
        for pid, taken in seconds.items():
            ancestor = parents[pid]
            while ancestor in parents and ancestor != os.getpid():
                ancestor = parents[ancestor]
            if ancestor == os.getpid() and (kind := _kind(pid)):
                planning = min(taken, _of_main_thread(pid)) if kind == PLANNER else 0.0
                used[PLANNER] += planning
                used[RECEIVER if kind == PLANNER else kind] += taken - planning
        return used


def _running() -> Iterator[tuple[int, int, float]]:
    """Each process, its parent, and the seconds that it and those of its children have used that are over."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text("ascii", "replace").rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        # ppid, and utime to cstime of proc(5).
        yield int(stat.parent.name), int(fields[1]), sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _of_main_thread(pid: int) -> float:
    """The seconds that the main thread of a process has used."""
    try:
        fields = Path(f"/proc/{pid}/task/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
    except OSError:
        return 0.0  # the process has just ended
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def _kind(pid: int) -> str | None:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return None
    return next((kind for part, kind in _COMMANDS.items() if part in command), None)
