"""``trio-stomp spool``: look after a spool. And what commands need to use one.

The package ``spark`` needs an extra of its own, so it is imported when a command needs it.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from trio_stomp.cli.commands import Command, argument, flag, option
from trio_stomp.cli.options import PAIRS, SECONDS, Pairs, json_option
from trio_stomp.cli.running import CommandFailed, ExitCode, InvalidUsage
from trio_stomp.cli.terminal import counted
from trio_stomp.printable import one_line, without_arguments

if TYPE_CHECKING:
    from trio_stomp.spark import CareReport

__all__ = ["spool", "spool_option", "using_spool"]


@contextmanager
def using_spool(command: str, unreachable: ExitCode = ExitCode.FAILED) -> Generator[None]:
    """Turn what may go wrong with a spool into errors of a command.

    Args:
        command: Its name.
        unreachable: The exit status if the spool cannot be used.
    """
    try:
        # Not at the top: it needs another extra.
        from trio_stomp.spark import OptionError, SpoolError, SpoolTaken  # noqa: PLC0415  # see above
    except ImportError as error:
        how = f"{command} requires pyarrow. Run: pip install 'trio-stomp[cli,spool]'"
        raise InvalidUsage(how if error.name == "pyarrow" else str(error)) from error
    try:
        yield
    except OptionError as error:
        raise InvalidUsage(str(error)) from error
    except SpoolError as error:
        raise CommandFailed(str(error), unreachable) from error
    except UnicodeEncodeError as error:
        # Without the argument, which may be a key of the file system.
        raise InvalidUsage("an argument is not UTF-8 text") from error
    except SpoolTaken as error:
        raise CommandFailed(str(error)) from error


def spool_option(heading: str = "Spool") -> Pairs:
    """The option ``--spool-option``, for the file system of a spool."""
    help_text = "An argument of the file system of the spool, such as endpoint_override=localhost:9000."
    return option((), heading, help_text, **PAIRS)


@dataclass(frozen=True, kw_only=True)
class Spool:
    """Show what the spool at LOCATION has, and what is damaged in it.

    Nothing is changed without an option that says so. Damaged segments are set aside only while no query reads the
    spool. The exit status is 1 if there is damage that was not set aside.
    """

    location: str = argument("", required=True)
    spool_option: Pairs = spool_option()
    verify: bool = flag("Spool", "Read all segments. Without it, only their sizes are looked at.")
    set_aside: bool = flag(
        "Changes",
        "Move damaged segments to another folder. A query then needs failOnDataLoss=false, and counts their rows.",
    )
    clean: bool = flag("Changes", "Delete half-written files of processes that have ended.")
    delete_reads: float | None = option(
        None,
        "Changes",
        "Delete the rows of batch reads that were complete this long ago. No DataFrame may need them any more.",
        type=SECONDS,
    )
    as_json: bool = json_option("Print a line of JSON for each part.")

    def start(self, _context: click.Context) -> None:
        """Look, and change what the options say."""
        is_there, left = False, 0
        with using_spool("spool", ExitCode.NOT_CONNECTED):
            from trio_stomp.spark import care  # noqa: PLC0415  # see using_spool

            for found in care(
                self.location,
                dict(self.spool_option),
                verify=self.verify,
                set_aside=self.set_aside,
                clean=self.clean,
                reads_older_than=self.delete_reads,
            ):
                click.echo(json.dumps(dataclasses.asdict(found)) if self.as_json else _text_of(found))
                is_there = True
                left += len(found.damaged.keys() - set(found.set_aside))
        if not is_there:
            raise CommandFailed(f"there is no spool in {one_line(without_arguments(self.location))}")
        if left:
            how = "restore them from a backup, or run the command again with --set-aside"
            raise CommandFailed(f"{counted(left, 'damaged segment')}; {how}")


def _text_of(found: CareReport) -> str:
    what = "read by " + found.owner if found.owner else "read by no query" if found.part == "stream" else "batch reads"
    lines = [f"{one_line(found.destination)}: {counted(found.rows, 'row')} ({found.size:,} bytes), {what}"]
    lines += [f"    damaged: {one_line(why)}" for why in found.damaged.values()]
    lines += [f"    set aside: {name}" for name in found.set_aside]
    if found.halves:
        lines.append(f"    {counted(found.halves, 'half-written file')} deleted")
    if found.reads:
        lines.append(f"    {counted(found.reads, 'batch read')} deleted")
    return "\n".join(lines)


spool = Command(
    Spool,
    "trio-stomp spool /data/spool",
    "trio-stomp spool s3://bucket/spool --verify --set-aside",
    "trio-stomp spool /data/spool --clean --delete-reads 604800",
)
