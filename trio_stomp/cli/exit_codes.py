"""How ``trio-stomp`` ends: one status for each thing that a script may want to tell apart."""

from __future__ import annotations

import enum

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

__all__ = ["CommandFailed", "ExitCode", "exit_code_of"]


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
