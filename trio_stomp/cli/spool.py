"""Spools, for commands: the room ``spark`` needs an extra of its own, so it is imported when a command needs it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from trio_stomp.cli.running import CommandFailed, ExitCode

__all__ = ["using_spool"]


@contextmanager
def using_spool(command: str, unreachable: ExitCode = ExitCode.FAILED) -> Generator[None]:
    """Turn what may go wrong with a spool into errors of a command.

    Args:
        command: Its name.
        unreachable: The exit status if the spool cannot be used.

    Raises:
        CommandFailed: The block raised an error of the spool or of its options, or an extra is missing.
    """
    try:
        # Not at the top: it needs another extra.
        from trio_stomp.spark import OptionError, SpoolError  # noqa: PLC0415  # see above
    except ImportError as error:
        how = f"{command} requires pyarrow. Run: pip install 'trio-stomp[cli,spool]'"
        raise CommandFailed(how if error.name == "pyarrow" else str(error), ExitCode.USAGE) from error
    try:
        yield
    except OptionError as error:
        raise CommandFailed(str(error), ExitCode.USAGE) from error
    except SpoolError as error:
        raise CommandFailed(str(error), unreachable) from error
