"""The exit codes of the commands, as docs/reference/cli.md has them."""

from __future__ import annotations

import enum

__all__ = ["ExitCode"]


class ExitCode(enum.IntEnum):
    """What scripts rely on; these tests compare with the numbers, and not with what the commands define."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_CONNECTED = 3
    REFUSED = 4
    LOST = 5
    TIMED_OUT = 6
    NOT_CONFIRMED = 7
    INTERRUPTED = 130
    PIPE_CLOSED = 141
    TERMINATED = 143
