"""A program that is forked from a process with its imports ends as one that Python has started."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import suppress
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
    "has its signals": (
        "import signal\n"
        "print(signal.pthread_sigmask(signal.SIG_BLOCK, []))\n"
        "print([signal.getsignal(each) for each in sorted(signal.valid_signals())])"
    ),
    "has its files alone": "import os\nprint(os.umask(0), sorted(os.listdir('/dev/fd')))",
    "leaves a cycle": (
        "import json\n"
        "class Last:\n"
        "    def __del__(self, print=print): print('collected')\n"
        "json.last = Last()\n"
        "json.last.json = json"
    ),
}


@pytest.fixture(scope="module")
def python() -> Generator[WarmPython]:
    with WarmPython(imports=("json", "threading"), options=("-W", "error")) as started:
        yield started


def environment(**variables: str) -> dict[str, str]:
    return {**os.environ, **variables}


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
    (tmp_path / "module.py").write_text(
        "import sys, threading\n"
        "def last():\n"
        "    threading.main_thread().join()\n"
        "    print(sys.modules['__main__'].last is last)\n"
        "print(__name__, sys.argv[1:], flush=True)\n"
        "threading.Thread(target=last).start()\n"
        "sys.exit(4)\n",
        "utf-8",
    )

    with python.run("-m", "module", "more", folder=tmp_path) as program:
        assert program.wait(60) == 4
        assert program.output() == "__main__ ['more']\nTrue\n"


@pytest.mark.skipif(sys.platform == "win32", reason="its shell has no such redirections")
@pytest.mark.parametrize("closed", [[0], [1], [2], [0, 1, 2]])
def test_program_when_streams_are_closed_then_it_has_none(
    python: WarmPython, tmp_path: Path, closed: list[int]
) -> None:
    (tmp_path / "program.py").write_text(
        "import os, sys\n"
        "streams = sys.stdin, sys.stdout, sys.stderr\n"
        "with open(sys.argv[1], 'w') as seen:\n"
        "    print([each is None for each in streams], sys.__stdin__ is sys.stdin, seen.fileno(), file=seen)\n"
        "print('out')",
        "utf-8",
    )
    command = " ".join([shlex.quote(sys.executable), "program.py", "cold", *(f"{each}>&-" for each in closed)])
    subprocess.run(["/bin/sh", "-c", command], cwd=tmp_path, check=True, capture_output=True)

    with Path(os.devnull).open("r+b") as nothing:
        stdin, stdout, stderr = (None if each in closed else nothing.fileno() for each in range(3))
        with python.run_on((stdin, stdout, stderr), "program.py", "warm", folder=tmp_path) as program:
            assert program.wait(60) == 0

    assert (tmp_path / "warm").read_text() == (tmp_path / "cold").read_text()


def test_program_when_it_reads_lines_then_their_ends_are_as_they_came(python: WarmPython, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import sys\nsys.exit(ascii(sys.stdin.read()))", "utf-8")
    (tmp_path / "input").write_bytes(b"a\r\nb")

    with (tmp_path / "input").open() as file, (tmp_path / "errors").open("w") as errors:
        with python.run_on((file.fileno(), None, errors.fileno()), "program.py", folder=tmp_path) as program:
            program.wait(60)

    assert (tmp_path / "errors").read_text() == r"'a\r\nb'" + "\n"


def test_program_when_its_environment_is_for_the_interpreter_then_it_counts(python: WarmPython, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import sys\nsys.exit(sys.stderr.encoding)", "utf-8")

    with (tmp_path / "errors").open("w") as errors:
        streams = None, None, errors.fileno()
        latin = environment(PYTHONIOENCODING="iso8859-1")
        with python.run_on(streams, "program.py", folder=tmp_path, environment=latin) as program:
            program.wait(60)

    assert (tmp_path / "errors").read_text() == "iso8859-1\n"


def test_program_when_a_module_has_random_numbers_of_its_own_then_each_program_has_others(tmp_path: Path) -> None:
    (tmp_path / "numbers_.py").write_text("import random\nmine = random.Random()", "utf-8")
    (tmp_path / "program.py").write_text(
        "import numbers_, random\nprint(numbers_.mine.random(), random.random())", "utf-8"
    )
    outputs: list[str] = []

    with WarmPython(imports=["numbers_"], environment=environment(PYTHONPATH=str(tmp_path))) as python:
        for _ in range(2):
            with python.run("program.py", folder=tmp_path) as program:
                assert program.wait(60) == 0
                outputs += program.output().split()

    assert len(set(outputs)) == 4


@pytest.mark.skipif(sys.platform != "linux", reason="programs are started by themselves")
def test_program_when_another_one_is_running_then_refused(python: WarmPython, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("while True: pass", "utf-8")

    with python.run("program.py", folder=tmp_path), pytest.raises(RuntimeError, match="another program is running"):
        with python.run("program.py", folder=tmp_path):
            raise AssertionError


@pytest.mark.skipif(sys.platform != "linux", reason="programs are started by themselves")
def test_program_when_its_test_is_measured_then_so_is_it_by_the_name_of_the_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    coverage = pytest.importorskip("coverage")
    file = tmp_path / "program.py"
    file.write_text("import os, sys\nos.chdir('/')\nif len(sys.argv) > 1:\n    sys.exit(3)\nprint(1)", "utf-8")
    measuring = coverage.Coverage(data_file=str(tmp_path / "measured"), config_file=False, include=[str(file)])
    measuring.set_option("run:parallel", True)
    measuring.start()
    try:
        with WarmPython(imports=["json"]) as python:
            for test, arguments in {"first": ["more"], "second": []}.items():
                monkeypatch.setenv("TRIO_STOMP_TEST", test)
                with python.run(file.name, *arguments, folder=tmp_path) as program:
                    program.wait(60)
                    assert program.errors() == ""
    finally:
        measuring.stop()

    measured = coverage.CoverageData(basename=str(tmp_path / "combined"))
    for part in tmp_path.glob("measured.*"):
        one = coverage.CoverageData(basename=str(part))
        one.read()
        measured.update(one)
    assert {line: sorted(tests) for line, tests in measured.contexts_by_lineno(str(file)).items()} == {
        1: ["first", "second"],
        2: ["first", "second"],
        3: ["first", "second"],
        4: ["first"],
        5: ["second"],
    }


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
    mine = environment(MINE="1")
    mine.pop("HOME", None)
    with python.run_on(streams, "program.py", folder=tmp_path, environment=mine) as program:
        shown = b""
        while shown.count(b"\n") < 2:
            shown += os.read(ours, 1000)
        status = None
        while status is None:
            # Ctrl-C, for those whom it controls. One that comes just before `input` reads has no effect.
            os.write(ours, b"\x03")
            with suppress(TimeoutError):
                status = program.wait(0.2)
    os.close(ours)
    os.close(theirs)

    assert shown == b"True True\r\n1 False\r\n"
    assert status == -signal.SIGINT


@pytest.mark.skipif(sys.platform != "linux", reason="programs are started by themselves")
def test_imports_when_they_start_a_thread_then_refused(tmp_path: Path) -> None:
    (tmp_path / "threads.py").write_text(
        "import threading, time\nthreading.Thread(target=time.sleep, args=[60], daemon=True).start()", "utf-8"
    )
    (tmp_path / "program.py").touch()

    with WarmPython(imports=["threads"], environment=environment(PYTHONPATH=str(tmp_path))) as python:
        with pytest.raises(RuntimeError, match="the process that imports threads first has ended"):
            with python.run("program.py", folder=tmp_path):
                raise AssertionError
