"""The examples as they are started: each by one command, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

__all__ = ["DEADLINE", "ROOT", "command_of", "lines_of"]

ROOT = Path(__file__).resolve().parents[2]
# Each is done in seconds; this is for a machine that has much else to do.
DEADLINE = 120.0


def command_of(example: str, *arguments: str) -> list[str]:
    """The command that runs an example, where a warning is an error."""
    return [sys.executable, "-W", "error", str(ROOT / "examples" / example), *arguments]


def lines_of(example: str, *arguments: str) -> list[str]:
    """What an example prints; it must end well, in time."""
    done = subprocess.run(
        command_of(example, *arguments), capture_output=True, text=True, timeout=DEADLINE, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()
