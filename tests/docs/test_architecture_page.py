"""The page about the architecture: its figures are those of the code, and the files it names exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")


def test_figures_when_compared_with_the_code_then_are_up_to_date() -> None:
    done = subprocess.run([sys.executable, "scripts/architecture.py", "--check"], cwd=ROOT, check=False)

    assert done.returncode == 0, "docs/architecture.md is out of date: run .venv/bin/python scripts/architecture.py"


def test_files_when_named_then_exist() -> None:
    named = set(re.findall(r"`(\w+/\w+\.py)`", PAGE))

    assert {"session/session.py", "client/client.py"} <= named
    assert [
        name for name in sorted(named) if not (ROOT / "trio_stomp" / name).exists() and not (ROOT / name).exists()
    ] == []
