"""Programs that start at once: each in a process of its own, forked from one that has imported what they import.

A program runs as ``python FILE`` or ``python -m MODULE`` would run it: as ``__main__``, at the top of its process. So
the interpreter itself decides how it ends: tracebacks, the exit status, death by SIGINT after Ctrl-C, threads that are
waited for, what is flushed and finalized. The one difference is that its imports find these modules loaded, which is
most of the work of a short program. Its standard streams are opened as Python opens them, on a terminal too, but they
may not be closed. Where the system is not Linux, which has all that this takes, each program is
started by itself.

This file is also the program of that first process, so it imports nothing but the standard library.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, TracebackType
from typing import IO, Final, Self, TextIO

__all__ = ["WarmProgram", "WarmPython"]

# More than any message below has.
_MESSAGE_BYTES: Final = 64 * 1024

_FORKS: Final = sys.platform == "linux"

# Makes the terminal the one that prompts read from, and becomes the program.
_AT_A_TERMINAL: Final = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""

# The file descriptors of standard input, output and error output.
_Streams = tuple[int, int, int]


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
        imports: The modules to import first.
        environment: The environment variables of this process and of its programs.
    """

    def __init__(
        self, *, imports: Sequence[str], options: Sequence[str] = (), environment: Mapping[str, str] | None = None
    ) -> None:
        self._imports = imports
        self._options = options
        self._environment = environment
        if not _FORKS:
            return
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, *options, __file__, str(theirs.fileno()), *imports],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=environment,
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
            streams: Their file descriptors. A terminal becomes the one that controls the program.
            arguments: As those of `run`.
            folder: Its working directory.
            environment: Its environment variables, instead of those of the process that it is forked from.
        """
        start = self._forked if _FORKS else self._by_itself
        with start(streams, arguments, folder, environment) as program:
            try:
                yield program
            finally:
                program.send_signal(signal.SIGKILL if _FORKS else signal.SIGTERM)
                program.wait()

    @contextmanager
    def _forked(
        self, streams: _Streams, arguments: Sequence[str], folder: Path, environment: Mapping[str, str] | None
    ) -> Generator[WarmProgram]:
        order = json.dumps([str(folder), None if environment is None else dict(environment), *arguments]).encode()
        assert len(order) <= _MESSAGE_BYTES
        socket.send_fds(self._control, [order], streams)
        self._control.settimeout(None)
        started = self._control.recv(_MESSAGE_BYTES)
        if not started:
            raise RuntimeError(f"the process that imports {', '.join(self._imports)} first has ended")

        def wait(timeout: float | None) -> int:
            self._control.settimeout(timeout)
            return int(self._control.recv(_MESSAGE_BYTES))

        try:
            yield WarmProgram(int(started), wait)
        finally:
            self._control.send(b"reap")

    @contextmanager
    def _by_itself(
        self, streams: _Streams, arguments: Sequence[str], folder: Path, environment: Mapping[str, str] | None
    ) -> Generator[WarmProgram]:
        is_terminal = os.isatty(streams[0])
        command = [*self._options, *arguments]
        process = subprocess.Popen(
            [sys.executable, "-c", _AT_A_TERMINAL, *command] if is_terminal else [sys.executable, *command],
            cwd=folder,
            env=self._environment if environment is None else environment,
            stdin=streams[0],
            stdout=streams[1],
            stderr=streams[2],
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


def _next_program(control: socket.socket) -> list[str]:
    """Serve until the other end is closed; returns in each forked process, with the arguments of its program."""
    while True:
        order, files, _, _ = socket.recv_fds(control, _MESSAGE_BYTES, 3)
        if not order:
            sys.exit()
        pid = os.fork()
        if not pid:
            control.close()
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for number, file in enumerate(files):
                os.dup2(file, number)
                os.close(file)
            _open_streams()
            folder, environment, *arguments = json.loads(order)
            if environment is not None:
                os.environ.clear()
                os.environ.update(environment)
            os.chdir(folder)
            return list(map(str, arguments))
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


def _open_streams() -> None:
    """Open the standard streams anew: how they are buffered depends on what they are."""
    if os.isatty(0):
        import fcntl  # noqa: PLC0415  # not on every system
        import termios  # noqa: PLC0415  # nor is this

        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        before: TextIO = getattr(sys, f"__{name}__")
        # The buffer of standard error output is never more than a line.
        stream = open(  # noqa: SIM115  # it stays open
            number, mode, 1 if number == 2 else -1, encoding=before.encoding, errors=before.errors, closefd=False
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _run_file(name: str) -> None:
    path = Path(name).absolute()
    main = ModuleType("__main__")
    vars(main).update(__file__=str(path), __builtins__=__builtins__)
    sys.modules["__main__"] = main
    sys.path.insert(0, str(path.parent))
    # Without the future statements of this file.
    exec(compile(path.read_bytes(), path, "exec", dont_inherit=True), vars(main))  # noqa: S102  # that is its purpose


if __name__ == "__main__":
    # What a program imports is not to be found beside this file.
    del sys.path[0]
    for module in sys.argv[2:]:
        importlib.import_module(module)
    # Ctrl-C in a terminal reaches all its processes; this one ends as the tests do.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A program has nothing to collect among these modules.
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as control_:
        sys.argv = _next_program(control_)
    if sys.argv[0] == "-m":
        del sys.argv[0]
        sys.path.insert(0, str(Path.cwd()))
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        _run_file(sys.argv[0])
