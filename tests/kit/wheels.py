"""The wheel, as a release would build it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.architecture.source_tree import ROOT

__all__ = ["build_wheel"]


def build_wheel(folder: Path) -> Path:
    """Build the wheel of this checkout into an empty folder."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built
