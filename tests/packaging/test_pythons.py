"""`scripts/pythons.py`: which interpreters it finds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.source_tree import ROOT

sys.path.append(str(ROOT / "scripts"))

from pythons import interpreter, oldest_interpreter  # found only now


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without Python: a folder `usr` and a folder `local` on the PATH, and nothing of pyenv."""
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    monkeypatch.setenv("PATH", os.pathsep.join(str(tmp_path / each) for each in ("local", "usr")))
    return tmp_path


def install(python: Path, says: str) -> Path:
    python.parent.mkdir(parents=True, exist_ok=True)
    python.write_text(f"#!/bin/sh\n{says}\n", encoding="utf-8")
    python.chmod(0o755)
    return python


def test_interpreters_when_several_patch_releases_are_installed_then_the_oldest_is_the_lowest(machine: Path) -> None:
    newest = install(machine / "pyenv" / "versions" / "3.11.10" / "bin" / "python3", "echo 3.11.10")
    install(machine / "local" / "python3.11", "echo 3.11.7")
    oldest = install(machine / "usr" / "python3.11", "echo 3.11.2")

    assert (interpreter("3.11"), oldest_interpreter("3.11")) == (newest, oldest)


def test_interpreters_when_one_is_installed_then_it_is_the_lowest_too(machine: Path) -> None:
    only = install(machine / "usr" / "python3.11", "echo 3.11.2")

    assert (interpreter("3.11"), oldest_interpreter("3.11")) == (only, only)


@pytest.mark.parametrize("says", ["echo not switched on >&2; exit 127", "echo 3.12.1"])
def test_interpreters_when_a_shim_stands_for_none_of_the_version_then_is_passed_over(machine: Path, says: str) -> None:
    install(machine / "local" / "python3.11", says)
    assert (interpreter("3.11"), oldest_interpreter("3.11")) == (None, None)

    real = install(machine / "usr" / "python3.11", "echo 3.11.2")
    assert (interpreter("3.11"), oldest_interpreter("3.11")) == (real, real)


def test_lowest_when_no_interpreter_is_installed_then_says_so_and_fails(machine: Path) -> None:
    script = ROOT / "scripts" / "pythons.py"
    done = subprocess.run([sys.executable, script, "--lowest"], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (1, "3.11: not installed, not run\n")
