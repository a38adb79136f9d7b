"""Type checkers see in the public API what is meant, and find the mistakes that it is typed against."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT / "tests" / "typing" / "cases"

pytestmark = pytest.mark.slow


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False, timeout=240
    )


def test_cases_when_read_by_mypy_then_it_agrees() -> None:
    pytest.importorskip("mypy", reason="mypy comes with `make check`")

    done = run("mypy", "--no-error-summary", CASES)

    assert done.returncode == 0, done.stdout + done.stderr


def test_cases_when_read_by_pyright_then_it_agrees() -> None:
    pytest.importorskip("pyright", reason="pyright comes with `make check`")

    done = run("pyright", "--pythonpath", sys.executable, CASES)

    assert done.returncode == 0, done.stdout + done.stderr


def test_wrong_use_when_not_silenced_then_mypy_finds_it(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="mypy comes with `make check`")
    lines = (CASES / "wrong_uses.py").read_text("utf-8").splitlines()
    wrong = {number for number, line in enumerate(lines, start=1) if "# type: ignore" in line}
    bare = tmp_path / "bare.py"
    bare.write_text("\n".join(line.partition("  # type: ignore")[0] for line in lines) + "\n", "utf-8")

    done = run("mypy", "--no-error-summary", bare)

    found = {int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line}
    assert found == wrong
