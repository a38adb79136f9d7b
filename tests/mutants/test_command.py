"""`scripts/mutants`, run over a small project whose tests are known to miss something."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

SOURCE = """\
NAMES = ("a", "b")

class Window:
    tested: int = 5
    untested: int = 5

def wide(by: int = 7) -> int:
    return by + 1

def unused() -> int:
    return 11
"""

TESTS = """\
import pytest
from trio_stomp.session import window

@pytest.mark.parametrize("name", window.NAMES)
def test_a_name_that_is_a_parameter(name):
    assert name

def test_a_size():
    assert window.Window.tested == 5

def test_a_sum():
    assert window.wide() > 7
"""


@pytest.mark.slow
def test_mutants_when_tests_miss_some_then_these_are_named_and_the_rest_is_killed(tmp_path: Path) -> None:
    room = tmp_path / "trio_stomp" / "session"
    room.mkdir(parents=True)
    for folder in (room.parent, room):
        (folder / "__init__.py").touch()
    (room / "window.py").write_text(SOURCE, encoding="utf-8")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_window.py").write_text(TESTS, encoding="utf-8")
    run = (
        "import sys, pathlib; from mutants_lib.cli import main; "
        f"sys.exit(main(sys.argv[1:], pathlib.Path({str(tmp_path)!r})))"
    )

    done = subprocess.run(
        [sys.executable, "-c", run, "--tests", "tests", "--goal", "30", "--jobs", "2"],
        env=os.environ | {"PYTHONPATH": str(ROOT / "scripts"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    survivors = set(re.findall(r"^    \+ (.*)", done.stdout.partition("survivors:")[2], re.MULTILINE))
    # Another name of a test is no failure of it.
    assert survivors == {
        "NAMES = ('aXX', \"b\")",
        "NAMES = (\"a\", 'bXX')",
        "untested: int = 6",
        "def wide(by: int = 8) -> int:",
        "return by + 2",
        "return None",
        "return 12",
    }
