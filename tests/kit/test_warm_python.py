"""A program that is forked from a process with its imports ends as one that Python has started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.kit.warm_python import WarmPython

PROGRAMS = {
    "prints": "import os, sys\nprint(__name__, sys.argv, sys.path[0], os.getcwd(), sys.stdin.read())",
    "exits": "raise SystemExit(3)",
    "exits with a message": "import sys\nprint('out')\nsys.exit('the end')",
    "fails": "def fail():\n    raise ValueError('mine')\nfail()",
    "warns": "import warnings\nwarnings.warn('mine')",
    "is interrupted": "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nwhile True: pass",
    "is killed": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
    "has a thread": "import threading, time\nthreading.Timer(0.01, print, ['late']).start()",
    "has a last word": "import atexit\natexit.register(print, 'last')\nprint('first')",
    "pickles": "import pickle\nclass Mine: pass\nprint(type(pickle.loads(pickle.dumps(Mine()))).__module__)",
    "imports its neighbor": "import neighbor\nprint(neighbor.__name__)",
    "leaves a file open": "file = open(__file__)\ndel file",
}


@pytest.fixture(scope="module")
def python() -> Generator[WarmPython]:
    with WarmPython(imports=("json", "threading"), options=("-W", "error")) as started:
        yield started


def without_traceback(errors: str) -> list[str]:
    """All lines but those that name the frames, of which the warm process has some of its own."""
    return [line for line in errors.splitlines() if not line.startswith("  ")]


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_program_when_it_is_warm_then_it_ends_as_a_cold_one(program: str, python: WarmPython, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(program, "utf-8")
    (tmp_path / "neighbor.py").touch()
    command = [sys.executable, "-W", "error", "program.py", "more"]
    cold = subprocess.run(
        command, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60
    )

    with python.run("program.py", "more", folder=tmp_path) as warm:
        status = warm.wait(60)
        output, errors = warm.output(), warm.errors()

    assert (status, output) == (cold.returncode, cold.stdout)
    assert without_traceback(errors) == without_traceback(cold.stderr)


def test_module_when_it_is_warm_then_it_is_the_main_one(python: WarmPython, tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text("import sys\nprint(__name__, sys.argv[1:])\nsys.exit(4)\n", "utf-8")

    with python.run("-m", "module", "more", folder=tmp_path) as program:
        assert program.wait(60) == 4
        assert program.output() == "__main__ ['more']\n"


def test_program_when_the_block_is_left_then_it_is_killed_and_the_next_one_runs(
    python: WarmPython, tmp_path: Path
) -> None:
    (tmp_path / "program.py").write_text("while True: pass", "utf-8")

    for _ in range(2):
        with python.run("program.py", folder=tmp_path) as program, pytest.raises(TimeoutError):
            program.wait(0.01)
        assert program.status == -signal.SIGKILL


@pytest.mark.skipif(sys.platform == "win32", reason="it has no such terminals")
def test_program_when_on_a_terminal_then_it_is_its_own_and_written_to_by_lines(
    python: WarmPython, tmp_path: Path
) -> None:
    import pty  # noqa: PLC0415  # not on Windows

    (tmp_path / "program.py").write_text(
        "import os, sys\n"
        "print(sys.stdin.isatty(), os.isatty(os.open('/dev/tty', os.O_RDWR)))\n"
        "print(os.environ['MINE'], 'HOME' in os.environ)\n"
        "input()",
        "utf-8",
    )
    ours, theirs = pty.openpty()

    streams = theirs, theirs, theirs
    with python.run_on(streams, "program.py", folder=tmp_path, environment={"MINE": "1"}) as program:
        shown = b""
        while shown.count(b"\n") < 2:
            shown += os.read(ours, 1000)
        # Ctrl-C, for those whom it controls.
        os.write(ours, b"\x03")
        status = program.wait(60)
    os.close(ours)
    os.close(theirs)

    assert shown == b"True True\r\n1 False\r\n"
    assert status == -signal.SIGINT
