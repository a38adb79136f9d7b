"""The folder to copy: its program runs, and so do its tests, as they stand and where they are copied to."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.examples.started import DEADLINE, ROOT, lines_of

FOLDER = ROOT / "examples" / "tested_service"


def test_service_when_run_by_itself_then_it_answers_an_order() -> None:
    assert lines_of("tested_service/invoicing.py") == ['{"item":"coffee","price":4.2}']


def test_its_tests_when_the_folder_is_copied_then_they_run_there(tmp_path: Path) -> None:
    copied = tmp_path / "service"
    shutil.copytree(FOLDER, copied, ignore=shutil.ignore_patterns("__pycache__"))
    # pytest's own variables would make the pytest inside think it belongs to the one outside; so would coverage's.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV"))}

    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:asyncio", "-q"],
        cwd=copied,
        env={**inherited, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 passed" in done.stdout
