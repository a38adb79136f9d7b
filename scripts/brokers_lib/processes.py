"""Background processes that outlive this one, found again by a file that holds pid and start time."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

# How long an orderly shutdown may take before the process is killed: a Java broker flushes its journal.
STOP_SECONDS = 40.0
POLL_SECONDS = 0.1


def _started_at(pid: int) -> str | None:
    """The kernel's start time of a process, which tells it from a later one with the same number."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The name, in parentheses, may hold spaces: count from its end. Field 3 is the state, field 22 the start.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in {"Z", "X"} else fields[19]


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """A background process, remembered in `pid_file`."""

    pid_file: Path

    def pid(self) -> int | None:
        """The number of the running process, or None where it does not run."""
        try:
            number, started = self.pid_file.read_text(encoding="utf-8").split()
        except (OSError, ValueError):
            return None
        return int(number) if _started_at(int(number)) == started else None

    def spawn(self, command: Sequence[str], *, environment: Mapping[str, str], folder: Path, output: Path) -> None:
        """Start the process in a session of its own, so that nothing sent to our terminal reaches it."""
        with output.open("ab") as log:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        # The process is meant to outlive us: without this the interpreter warns that it is still running.
        process.returncode = 0
        self.pid_file.write_text(f"{process.pid} {_started_at(process.pid)}\n", encoding="utf-8")

    def stop(self) -> bool:
        """End the process in order, or by force where that takes too long. Tells whether there was one."""
        pid = self.pid()
        if pid is None:
            self.pid_file.unlink(missing_ok=True)
            return False
        os.kill(pid, signal.SIGTERM)
        if not self._wait_gone(STOP_SECONDS):
            self.kill()
        self.pid_file.unlink(missing_ok=True)
        return True

    def kill(self) -> bool:
        """End the process at once, as a crash would. Tells whether there was one."""
        pid = self.pid()
        if pid is None:
            return False
        os.kill(pid, signal.SIGKILL)
        self._wait_gone(STOP_SECONDS)
        self.pid_file.unlink(missing_ok=True)
        return True

    def _wait_gone(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while self.pid() is not None:
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_SECONDS)
        return True


def resident_bytes(pid: int) -> int:
    """The memory that a process holds, 0 where it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    for line in status.splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0
