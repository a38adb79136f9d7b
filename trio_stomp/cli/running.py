"""Running a command on trio: signals, errors and closed pipes become messages and exit codes here."""

from __future__ import annotations

import enum
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from typing import Final

import click
import trio

from trio_stomp.errors import (
    AuthenticationError,
    ConnectError,
    ConnectionLost,
    LocalProtocolError,
    NotConfirmed,
    NotSupported,
    OutcomeUnknown,
    RequestTimeout,
    StompError,
    TransactionLost,
)
from trio_stomp.printable import one_line
from trio_stomp.transport import for_command_line

__all__ = ["AsyncCommand", "CommandFailed", "ExitCode", "Stop", "exit_code_of", "run"]


class ExitCode(enum.IntEnum):
    """The exit statuses; from 128 on as shells count signals.

    Attributes:
        OK: Everything was done.
        FAILED: The broker refused something, or the input cannot be used.
        USAGE: The arguments cannot be meant; nothing was sent.
        NOT_CONNECTED: No connection could be made.
        REFUSED: The broker refused the login or the virtual host.
        LOST: The connection was lost on the way.
        TIMED_OUT: What was waited for did not come in time.
        NOT_CONFIRMED: Something was sent and the broker has not confirmed it: it may or may not have arrived.
        INTERRUPTED: Ctrl-C.
        PIPE_CLOSED: Whoever read the output, such as ``head``, wanted no more of it.
        TERMINATED: SIGTERM.
    """

    OK = 0
    FAILED = 1
    # click's own choice for arguments that it cannot read.
    USAGE = 2
    NOT_CONNECTED = 3
    REFUSED = 4
    LOST = 5
    TIMED_OUT = 6
    NOT_CONFIRMED = 7
    INTERRUPTED = 130
    PIPE_CLOSED = 141
    TERMINATED = 143


class CommandFailed(Exception):
    """A command cannot go on.

    Attributes:
        code: How the process ends.
    """

    def __init__(self, message: str, code: ExitCode = ExitCode.FAILED) -> None:
        self.code = code
        super().__init__(message)


# The first that fits, so the narrower kinds stand first.
_BY_KIND: tuple[tuple[type[StompError], ExitCode], ...] = (
    (AuthenticationError, ExitCode.REFUSED),
    (ConnectError, ExitCode.NOT_CONNECTED),
    (ConnectionLost, ExitCode.LOST),
    (TransactionLost, ExitCode.LOST),
    (RequestTimeout, ExitCode.TIMED_OUT),
    (NotConfirmed, ExitCode.NOT_CONFIRMED),
    (OutcomeUnknown, ExitCode.NOT_CONFIRMED),
    (LocalProtocolError, ExitCode.USAGE),
    (NotSupported, ExitCode.USAGE),
)


def exit_code_of(error: StompError | CommandFailed) -> ExitCode:
    """How the process ends when this error ends the command."""
    if isinstance(error, CommandFailed):
        return error.code
    return next((code for kind, code in _BY_KIND if isinstance(error, kind)), ExitCode.FAILED)


_CODES: Final = {signal.SIGINT: ExitCode.INTERRUPTED, signal.SIGTERM: ExitCode.TERMINATED}


class Stop:
    """How a command is told to stop: the first signal ends its work in order, the second ends it at once.

    Attributes:
        signal: The first signal that came.
        code: How the process ends after that signal; a server, which is ended in no other way, sets it to OK.
    """

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self.code: ExitCode | None = None
        self._everything = trio.CancelScope()
        self._work: trio.CancelScope | None = None

    @contextmanager
    def work(self) -> Generator[None]:
        """What the first signal cancels. What is around it then leaves in order, as it does when the work is done."""
        with trio.CancelScope() as scope:
            self._work = scope
            try:
                yield
            finally:
                self._work = None

    @contextmanager
    def everything(self) -> Generator[None]:
        """What the second signal cancels, and the first where no work is under way."""
        with self._everything:
            yield

    def request(self, number: signal.Signals) -> None:
        """A signal came."""
        first = self.signal is None
        if first:
            self.signal = number
        if first and self._work is not None:
            self._work.cancel()
        else:
            self._everything.cancel()

    async def listen(self, signals: AsyncIterator[int]) -> None:
        """Hear signals until cancelled."""
        async for number in signals:
            self.request(signal.Signals(number))


# It returns how the process ends, where that is not OK for all that it knows.
AsyncCommand = Callable[[Stop], Awaitable[ExitCode | None]]


def run(command: AsyncCommand) -> None:
    """Run a command on trio, and exit with its status where that is not 0."""
    code = trio.run(_supervise, command)
    if code is not ExitCode.OK:
        sys.exit(code)


async def _supervise(command: AsyncCommand) -> ExitCode:
    stop = Stop()
    with trio.open_signal_receiver(*_CODES) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stop.listen, signals)
            code = await _outcome(command, stop)
            nursery.cancel_scope.cancel()
    return code


async def _outcome(command: AsyncCommand, stop: Stop) -> ExitCode:
    code = ExitCode.OK
    try:
        with stop.everything():
            code = await command(stop) or ExitCode.OK
    except (StompError, CommandFailed) as error:
        click.echo(f"trio-stomp: {one_line(for_command_line(str(error)))}", err=True)
        for note in getattr(error, "__notes__", ()):
            click.echo(f"trio-stomp: {one_line(str(note))}", err=True)
        return exit_code_of(error)
    except BrokenPipeError:
        # Links of ours never raise it, so it is the standard output.
        _forget_output()
        return ExitCode.PIPE_CLOSED
    if stop.signal is None:
        return code
    return _CODES[stop.signal] if stop.code is None else stop.code


def _forget_output() -> None:
    """Let Python's own flush at exit find a place to write to; its manual's way, under "Note on SIGPIPE"."""
    # In tests the standard output is no file.
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
