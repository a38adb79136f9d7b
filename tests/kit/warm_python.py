"""Programs that start at once: each in a process of its own, forked from one that has imported what they import.

A program runs as ``python FILE`` or ``python -m MODULE`` would run it: as ``__main__``, at the top of its process. So
the interpreter itself decides how it ends: tracebacks, the exit status, death by SIGINT after Ctrl-C, threads that are
waited for, what is flushed and finalized. The one difference is that its imports find these modules loaded, which is
most of the work of a short program. Its standard streams are opened as Python opens them, on a terminal too. Where the
system is not Linux, which has all that this takes, each program is started by itself. So is one whose environment would
have the interpreter start in another way.

Where coverage.py measures the process that starts a program, it measures the program too, under the name of the test:
see scripts/mutants.py.

This file is also the program of that first process, so it imports nothing but the standard library.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import random
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType, TracebackType
from typing import IO, Final, Self, TextIO, TypedDict

__all__ = ["WarmProgram", "WarmPython"]

# More than any message below has.
_MESSAGE_BYTES: Final = 64 * 1024

_FORKS: Final = sys.platform == "linux"

# Closes standard streams, makes a terminal the one that prompts read from, and becomes the program.
_STARTER: Final = """
import fcntl, os, sys, termios
for number in sys.argv[1]:
    os.close(int(number))
if os.isatty(0):
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
"""

# The file descriptors of standard input, output and error output; None for one that is closed.
_Streams = tuple[int | None, int | None, int | None]


class _Order(TypedDict):
    """What a program is started with."""

    arguments: list[str]
    folder: str
    environment: dict[str, str] | None
    # Those of its standard streams that are not closed.
    streams: list[int]
    # How coverage.py is to measure it, and under which name.
    coverage: str | None
    test: str


class WarmProgram:
    """A program that was started.

    Attributes:
        pid: Its process.
        status: How it ended, as `subprocess` counts; None until `wait` has returned.
    """

    def __init__(self, pid: int, wait: Callable[[float | None], int]) -> None:
        self.pid = pid
        self.status: int | None = None
        self._wait = wait
        # Where `run` lets it write its standard output and its errors.
        self.kept: tuple[IO[bytes], IO[bytes]] | None = None

    def output(self) -> str:
        """What it has written to its standard output, if `run` has started it."""
        assert self.kept is not None
        return _text_of(self.kept[0])

    def errors(self) -> str:
        """What it has written to its standard error output, if `run` has started it."""
        assert self.kept is not None
        return _text_of(self.kept[1])

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal; nothing happens if it has ended."""
        # It is not reaped before its status is known, so no other process can have its number.
        if self.status is None:
            os.kill(self.pid, number)

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended.

        Raises:
            TimeoutError: It has not in time.
        """
        if self.status is None:
            self.status = self._wait(timeout)
        return self.status


class WarmPython:
    """The process that programs are forked from; runs one of them at a time.

    Args:
        options: The interpreter's, such as ``("-W", "error")``.
        imports: The modules to import first; they may start no threads.
        environment: The environment variables of this process and of its programs.
    """

    def __init__(
        self, *, imports: Sequence[str], options: Sequence[str] = (), environment: Mapping[str, str] | None = None
    ) -> None:
        self._imports = imports
        self._options = options
        self._environment = dict(os.environ if environment is None else environment)
        self._is_running = False
        if not _FORKS:
            return
        unmeasured = {name: value for name, value in self._environment.items() if not name.startswith("COVERAGE_")}
        measuring = [] if _coverage() is None else ["coverage"]
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, *options, __file__, str(theirs.fileno()), *imports, *measuring],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=unmeasured,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        if _FORKS:
            # It ends as it finds the socket closed.
            self._control.close()
            self._process.wait()

    @contextmanager
    def run(self, *arguments: str, folder: Path) -> Generator[WarmProgram]:
        """Start a program in a folder; it is killed at the end of the block if it still runs.

        Args:
            arguments: The name of its file, or ``-m`` and that of its module, and what comes behind.
            folder: Its working directory.
        """
        with (
            Path(os.devnull).open("rb") as nothing,
            tempfile.TemporaryFile() as output,
            tempfile.TemporaryFile() as errors,
            self.run_on((nothing.fileno(), output.fileno(), errors.fileno()), *arguments, folder=folder) as program,
        ):
            program.kept = output, errors
            yield program

    @contextmanager
    def run_on(
        self, streams: _Streams, *arguments: str, folder: Path, environment: Mapping[str, str] | None = None
    ) -> Generator[WarmProgram]:
        """Start a program whose standard streams are the caller's; it is killed as by `run`.

        Args:
            streams: Their file descriptors; None for one that is closed. A terminal becomes the one that controls the
                program.
            arguments: As those of `run`.
            folder: Its working directory.
            environment: Its environment variables, instead of those of the process that it is forked from.
        """
        start = self._forked if _FORKS and self._starts_alike(environment) else self._by_itself
        with start(streams, arguments, folder, environment) as program:
            try:
                yield program
            finally:
                program.send_signal(signal.SIGKILL if _FORKS else signal.SIGTERM)
                program.wait()

    def _starts_alike(self, environment: Mapping[str, str] | None) -> bool:
        """Whether the interpreter finds what it reads at its start as the first process has found it."""
        return environment is None or all(
            environment.get(name) == self._environment.get(name)
            for name in {*environment, *self._environment}
            if name.startswith(("PYTHON", "LC_", "LANG"))
        )

    @contextmanager
    def _forked(
        self, streams: _Streams, arguments: Sequence[str], folder: Path, environment: Mapping[str, str] | None
    ) -> Generator[WarmProgram]:
        if self._is_running:
            raise RuntimeError("another program is running: use another WarmPython")
        order = _Order(
            arguments=list(arguments),
            folder=str(folder),
            environment=None if environment is None else dict(environment),
            streams=[number for number, file in enumerate(streams) if file is not None],
            coverage=_coverage(),
            test=os.environ.get("TRIO_STOMP_TEST", ""),
        )
        message = json.dumps(order).encode()
        assert len(message) <= _MESSAGE_BYTES
        started = b""
        with suppress(ConnectionError):
            socket.send_fds(self._control, [message], [file for file in streams if file is not None])
            self._control.settimeout(None)
            started = self._control.recv(_MESSAGE_BYTES)
        if not started:
            raise RuntimeError(f"the process that imports {', '.join(self._imports)} first has ended")
        self._is_running = True

        def wait(timeout: float | None) -> int:
            self._control.settimeout(timeout)
            return int(self._control.recv(_MESSAGE_BYTES))

        try:
            yield WarmProgram(int(started), wait)
        finally:
            self._is_running = False
            self._control.send(b"reap")

    @contextmanager
    def _by_itself(
        self, streams: _Streams, arguments: Sequence[str], folder: Path, environment: Mapping[str, str] | None
    ) -> Generator[WarmProgram]:
        closed = "".join(str(number) for number, file in enumerate(streams) if file is None)
        is_terminal = streams[0] is not None and os.isatty(streams[0])
        command = [*self._options, *arguments]
        if closed or is_terminal:
            command = ["-c", _STARTER, closed, *command]
        stdin, stdout, stderr = (subprocess.DEVNULL if file is None else file for file in streams)
        process = subprocess.Popen(
            [sys.executable, *command],
            cwd=folder,
            env=self._environment if environment is None else environment,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=is_terminal,
        )

        def wait(timeout: float | None) -> int:
            try:
                return process.wait(timeout)
            except subprocess.TimeoutExpired as error:
                raise TimeoutError from error

        yield WarmProgram(process.pid, wait)


def _text_of(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


def _coverage() -> str | None:
    """How coverage.py measures this process, if it does."""
    if "coverage" not in sys.modules:
        return None
    from coverage import Coverage  # noqa: PLC0415  # not installed wherever the tests run

    measuring = Coverage.current()
    return None if measuring is None else measuring.config.serialize()


def _next_program(control: socket.socket) -> list[str]:
    """Serve until the other end is closed; returns in each forked process, with the arguments of its program."""
    # Those of modules; the functions of `random` are seeded anew in each process.
    generators: list[random.Random] = [each for each in gc.get_objects() if issubclass(type(each), random.Random)]
    # A program has nothing to collect among these modules.
    gc.collect()
    gc.freeze()
    while True:
        message, files, _, _ = socket.recv_fds(control, _MESSAGE_BYTES, 3)
        if not message:
            sys.exit()
        pid = os.fork()
        if not pid:
            control.close()
            order: _Order = json.loads(message)
            _open_streams(dict(zip(order["streams"], files, strict=True)))
            if order["environment"] is not None:
                os.environ.clear()
                os.environ.update(order["environment"])
            os.chdir(order["folder"])
            for generator in generators:
                generator.seed()
            if order["coverage"] is not None:
                _measure(order["coverage"], order["test"])
            return order["arguments"]
        for file in files:
            os.close(file)
        control.send(b"%d" % pid)
        # It is not reaped before the other end has stopped sending it signals.
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        if ended is not None:
            status = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
            control.send(b"%d" % status)
        control.recv(_MESSAGE_BYTES)
        os.waitpid(pid, 0)


def _open_streams(files: Mapping[int, int]) -> None:
    """Open the standard streams anew: how they are buffered depends on what they are.

    Args:
        files: What to open in place of the file descriptors 0, 1 and 2; those that are missing are closed.
    """
    for number in range(3):
        if number in files:
            os.dup2(files[number], number)
            os.close(files[number])
        else:
            os.close(number)
    if os.isatty(0):
        import fcntl  # noqa: PLC0415  # not on every system
        import termios  # noqa: PLC0415  # nor is this

        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        before: TextIO = getattr(sys, f"__{name}__")
        stream = None
        if number in files:
            # The buffer of standard error output is never more than a line.
            buffering = 1 if number == 2 else -1
            stream = open(  # noqa: SIM115  # it stays open
                number, mode, buffering, before.encoding, before.errors, newline="\n", closefd=False
            )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _measure(configuration: str, test: str) -> None:
    """Let coverage.py measure this process until it ends."""
    import coverage  # noqa: PLC0415  # not installed wherever the tests run

    os.environ["COVERAGE_PROCESS_CONFIG"] = configuration
    measuring = coverage.process_startup()
    del os.environ["COVERAGE_PROCESS_CONFIG"]
    if measuring is not None:
        measuring.switch_context(test)


def _run(arguments: list[str]) -> None:
    """Run a program as Python runs it, in a new module ``__main__``."""
    main = ModuleType("__main__")
    vars(main)["__builtins__"] = __builtins__
    sys.modules["__main__"] = main
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path.insert(0, str(Path.cwd()))
        runpy._run_module_as_main(arguments[1])  # type: ignore[attr-defined]  # what `python -m` itself calls
        return
    sys.argv = arguments
    path = Path(arguments[0]).absolute()
    vars(main)["__file__"] = str(path)
    sys.path.insert(0, str(path.parent))
    # Without the future statements of this file.
    exec(compile(path.read_bytes(), path, "exec", dont_inherit=True), vars(main))  # noqa: S102  # that is its purpose


if __name__ == "__main__":
    # Ctrl-C in a terminal reaches all its processes; this one ends as the tests do. In a program, which gets it once it
    # is ready, it is not lost meanwhile.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    # What a program imports is not to be found beside this file.
    del sys.path[0]
    for module in sys.argv[2:]:
        importlib.import_module(module)
    # A lock that another thread holds would stay locked in the programs. Python 3.12 warns, even of threads of C.
    if len(list(Path("/proc/self/task").iterdir())) > 1:
        sys.exit(f"{__file__}: no process may fork while threads run, as after import {', '.join(sys.argv[2:])}")
    with socket.socket(fileno=int(sys.argv[1])) as control_:
        arguments_ = _next_program(control_)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    _run(arguments_)
