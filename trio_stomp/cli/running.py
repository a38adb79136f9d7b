"""Running a command: signals, errors and closed pipes become messages and exit codes here."""

from __future__ import annotations

import enum
import errno
import os
import signal
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from types import FrameType
from typing import Final

import anyio
import click

from trio_stomp import errors
from trio_stomp.brokers import is_vhost_refusal
from trio_stomp.printable import one_line
from trio_stomp.runtime import current_time, open_background_nursery
from trio_stomp.transport import for_command_line

__all__ = [
    "AsyncCommand",
    "CommandFailed",
    "ExitCode",
    "InvalidUsage",
    "Stop",
    "ending",
    "is_closed_output",
    "is_unwritable_output",
    "report",
    "run",
    "terminable",
]


class ExitCode(enum.IntEnum):
    """The exit statuses; from 128 on, they are those of shells for signals."""

    OK = 0
    # The broker refused something, or the input is invalid.
    FAILED = 1
    # Invalid arguments; nothing was sent. click uses it for arguments that it cannot parse.
    USAGE = 2
    NOT_CONNECTED = 3
    # The broker refused the login or the virtual host.
    REFUSED = 4
    # The connection was lost.
    LOST = 5
    TIMED_OUT = 6
    # The broker did not confirm something, which may or may not have arrived.
    NOT_CONFIRMED = 7
    INTERRUPTED = 130
    # The reader of the output, such as ``head``, closed it.
    PIPE_CLOSED = 141
    TERMINATED = 143


class CommandFailed(Exception):
    """The command cannot continue; `code` is its exit status."""

    def __init__(self, message: str, code: ExitCode = ExitCode.FAILED) -> None:
        self.code = code
        super().__init__(message)


class InvalidUsage(CommandFailed):
    """The arguments, or what they name, cannot be used; nothing was sent."""

    def __init__(self, message: str) -> None:
        super().__init__(message, ExitCode.USAGE)


# The first match is used, so subclasses come first.
_BY_KIND: Final[tuple[tuple[type[errors.StompError], ExitCode], ...]] = (
    (errors.AuthenticationError, ExitCode.REFUSED),
    (errors.ConnectError, ExitCode.NOT_CONNECTED),
    (errors.ConnectionLost, ExitCode.LOST),
    (errors.TransactionLost, ExitCode.LOST),
    (errors.UnconfirmedError, ExitCode.NOT_CONFIRMED),
    (errors.OutcomeUnknown, ExitCode.NOT_CONFIRMED),
    (errors.OperationTimeout, ExitCode.TIMED_OUT),
    (errors.LocalProtocolError, ExitCode.USAGE),
    (errors.NotSupportedError, ExitCode.USAGE),
)


def _exit_code_of(error: errors.StompError | CommandFailed) -> ExitCode:
    if isinstance(error, CommandFailed):
        return error.code
    if isinstance(error, errors.ConnectError) and any(_is_about_vhost(each.cause) for each in error.failures):
        return ExitCode.REFUSED
    return next((code for kind, code in _BY_KIND if isinstance(error, kind)), ExitCode.FAILED)


def _is_about_vhost(cause: BaseException | None) -> bool:
    return isinstance(cause, errors.BrokerError) and is_vhost_refusal(cause.message, cause.body)


_CODES: Final = {signal.SIGINT: ExitCode.INTERRUPTED, signal.SIGTERM: ExitCode.TERMINATED}


class Stop:
    """How signals stop a command: the first one in order, the second at once.

    Attributes:
        signal: The first signal received.
        code: The exit status after that signal. A server, which only ends by a signal, sets it to OK.
        everything: The block that the second signal cancels, or the first outside of `work`.
    """

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self.code: ExitCode | None = None
        self.everything = anyio.CancelScope()
        self._work: anyio.CancelScope | None = None
        self._settling: anyio.CancelScope | None = None
        self._grace = 0.0

    @contextmanager
    def work(self) -> Generator[None]:
        """The block that the first signal cancels; the code around it then ends as after finished work."""
        with anyio.CancelScope() as scope:
            self._work = scope
            try:
                yield
            finally:
                self._work = None

    @asynccontextmanager
    async def settling(self, seconds: float) -> AsyncGenerator[None]:
        """A block inside of `work` that the first signal gives some seconds to end, and that the second cancels.

        Cancellation: the block goes on, as said above.
        """
        with anyio.CancelScope(shield=True) as scope:  # noqa: ASYNC100  # the checkpoints are in the block
            self._settling, self._grace = scope, seconds
            if self.signal is not None:
                # It came after the last checkpoint of the work, which has not seen it yet.
                scope.deadline = current_time() + seconds
            try:
                yield
            finally:
                self._settling = None
        if scope.cancelled_caught:
            # The signal has canceled the work around it, too, and this raises.
            await anyio.lowlevel.checkpoint()

    def request(self, number: signal.Signals) -> None:
        """Handle a signal."""
        first = self.signal is None
        if first:
            self.signal = number
        (self._work if first and self._work is not None else self.everything).cancel()
        if self._settling is not None:
            self._settling.deadline = current_time() + (self._grace if first else 0)

    async def listen(self, signals: AsyncIterator[int]) -> None:
        """Handle signals until canceled."""
        async for number in signals:
            self.request(signal.Signals(number))


# Returns the exit status; None means OK.
AsyncCommand = Callable[[Stop], Awaitable[ExitCode | None]]


def run(command: AsyncCommand) -> None:
    """Run a command on trio, and exit with its status unless that is 0. What it raises is for `ending`."""
    code = anyio.run(_supervise, command, backend="trio")
    if code is not ExitCode.OK:
        sys.exit(code)


async def _supervise(command: AsyncCommand) -> ExitCode:
    stop = Stop()
    code = ExitCode.OK
    with anyio.open_signal_receiver(*_CODES) as signals:
        async with open_background_nursery() as nursery:
            nursery.start_soon(stop.listen, signals)
            with stop.everything:
                code = await command(stop) or ExitCode.OK
    if stop.signal is None:
        return code
    return _CODES[stop.signal] if stop.code is None else stop.code


@contextmanager
def ending() -> Generator[None]:
    """Turn errors, interruption and closed pipes into messages and exit statuses, for every command in this one place.

    Raises:
        SystemExit: The block raised.
    """
    try:
        try:
            yield
        except click.ClickException as error:
            error.show()
            sys.exit(error.exit_code)
        except (click.Abort, KeyboardInterrupt):
            sys.exit(ExitCode.INTERRUPTED)
        except (errors.StompError, CommandFailed) as error:
            for text in (error, *getattr(error, "__notes__", ())):
                report(str(text))
            sys.exit(_exit_code_of(error))
    except OSError as error:
        if is_closed_output(error):
            _forget_output()
            sys.exit(ExitCode.PIPE_CLOSED)
        if not is_unwritable_output(error):
            raise
        report(f"the output cannot be written: {error.strerror}")
        _forget_output()
        sys.exit(ExitCode.FAILED)


# What writing to a file may fail with, such as a full disk. Connections never raise such an error.
_UNWRITABLE: Final = {errno.ENOSPC, errno.EFBIG, errno.EIO, getattr(errno, "EDQUOT", errno.ENOSPC)}


def is_closed_output(error: OSError) -> bool:
    """Whether the reader of standard output or standard error has closed it. Connections never raise such an error."""
    if isinstance(error, BrokenPipeError):
        return True
    # The C library of Windows calls a closed pipe an invalid argument. Files with an invalid name fail with the same
    # number, and so do sockets, but those errors have the name, or a code of Windows besides.
    is_invalid = sys.platform == "win32" and error.errno == errno.EINVAL
    return is_invalid and error.filename is None and getattr(error, "winerror", None) is None


def is_unwritable_output(error: OSError) -> bool:
    """Whether standard output cannot be written to, because a disk is full, for example."""
    return error.errno in _UNWRITABLE and error.filename is None


def report(text: str) -> None:
    """Print a line on standard error."""
    click.echo(f"trio-stomp: {one_line(for_command_line(text))}", err=True)


def _forget_output() -> None:
    """Redirect the flush that Python does at exit; see "Note on SIGPIPE" in its manual."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        # In tests, they are not files; where the process was started without them, they are None.
        with suppress(OSError, AttributeError):
            os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


@contextmanager
def terminable() -> Generator[None]:
    """Let SIGTERM leave the block by an exception, for a block that must clean up and does not run on trio."""

    def leave(_number: int, _frame: FrameType | None) -> None:
        sys.exit(ExitCode.TERMINATED)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
