"""Programs that start at once: each in a process of its own, forked from one that has imported what they import.

A program runs as ``python FILE`` or ``python -m MODULE`` would run it: as ``__main__``, at the top of its process. So
the interpreter itself decides how it ends: tracebacks, the exit status, death by SIGINT after Ctrl-C, threads that are
waited for, what is flushed and finalized. The one difference is that its imports find these modules loaded, which is
most of the work of a short program. Where the system is not Linux, which has all that this takes, each program is
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
from typing import IO, Final, Self

__all__ = ["WarmProgram", "WarmPython"]

# More than any message below has.
_MESSAGE_BYTES: Final = 64 * 1024

_FORKS: Final = sys.platform == "linux"


class WarmProgram:
    """A program that was started.

    Attributes:
        pid: Its process.
        status: How it ended, as `subprocess` counts; None until `wait` has returned.
    """

    def __init__(self, pid: int, wait: Callable[[float | None], int], output: IO[bytes], errors: IO[bytes]) -> None:
        self.pid = pid
        self.status: int | None = None
        self._wait = wait
        self._output = output
        self._errors = errors

    def output(self) -> str:
        """What it has written to its standard output."""
        return _text_of(self._output)

    def errors(self) -> str:
        """What it has written to its standard error output."""
        return _text_of(self._errors)

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
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            start = self._forked if _FORKS else self._by_itself
            with start(folder, arguments, output, errors) as program:
                try:
                    yield program
                finally:
                    program.send_signal(signal.SIGKILL if _FORKS else signal.SIGTERM)
                    program.wait()

    @contextmanager
    def _forked(
        self, folder: Path, arguments: Sequence[str], output: IO[bytes], errors: IO[bytes]
    ) -> Generator[WarmProgram]:
        order = json.dumps([str(folder), *arguments]).encode()
        socket.send_fds(self._control, [order], [output.fileno(), errors.fileno()])
        self._control.settimeout(None)
        started = self._control.recv(_MESSAGE_BYTES)
        if not started:
            raise RuntimeError(f"the process that imports {', '.join(self._imports)} first has ended")

        def wait(timeout: float | None) -> int:
            self._control.settimeout(timeout)
            return int(self._control.recv(_MESSAGE_BYTES))

        try:
            yield WarmProgram(int(started), wait, output, errors)
        finally:
            self._control.send(b"reap")

    @contextmanager
    def _by_itself(
        self, folder: Path, arguments: Sequence[str], output: IO[bytes], errors: IO[bytes]
    ) -> Generator[WarmProgram]:
        process = subprocess.Popen(
            [sys.executable, *self._options, *arguments],
            cwd=folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
        )

        def wait(timeout: float | None) -> int:
            try:
                return process.wait(timeout)
            except subprocess.TimeoutExpired as error:
                raise TimeoutError from error

        yield WarmProgram(process.pid, wait, output, errors)


def _text_of(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


def _next_program(control: socket.socket) -> list[str]:
    """Serve until the other end is closed; returns in each forked process, with the arguments of its program."""
    while True:
        order, files, _, _ = socket.recv_fds(control, _MESSAGE_BYTES, 2)
        if not order:
            sys.exit()
        pid = os.fork()
        if not pid:
            control.close()
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for number, file in enumerate(files, start=1):
                os.dup2(file, number)
                os.close(file)
            arguments: list[str] = json.loads(order)
            os.chdir(arguments.pop(0))
            return arguments
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
