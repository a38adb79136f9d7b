"""``trio-stomp spool``: look after a spool. And what commands need to use one.

The package ``spark`` needs an extra of its own, so it is imported when a command needs it.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click

from trio_stomp.cli.commands import command, flag, option
from trio_stomp.cli.options import PAIRS, SECONDS, gathered, json_option
from trio_stomp.cli.running import CommandFailed, ExitCode, InvalidUsage
from trio_stomp.printable import one_line

if TYPE_CHECKING:
    from trio_stomp.spark import CareReport

__all__ = ["spool", "spool_option", "using_spool"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Arguments:
    """The arguments and options of `spool`."""

    location: str
    spool_option: tuple[tuple[str, str], ...]
    verify: bool
    set_aside: bool
    clean: bool
    delete_reads: float | None
    as_json: bool


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
    except SpoolTaken as error:
        raise CommandFailed(str(error)) from error


# The arguments of its file system.
spool_option: Final = option(
    "Spool",
    "--spool-option",
    **PAIRS,
    help="An argument of the file system of the spool, such as endpoint_override=localhost:9000.",
)


@command(
    "trio-stomp spool /data/spool",
    "trio-stomp spool s3://bucket/spool --verify --set-aside",
    "trio-stomp spool /data/spool --clean --delete-reads 604800",
)
@click.argument("location")
@spool_option
@flag("Spool", "--verify", help="Read all segments. Without it, only their sizes are looked at.")
@flag(
    "Changes",
    "--set-aside",
    help="Move damaged segments to another folder. A query then needs failOnDataLoss=false, and counts their rows.",
)
@flag("Changes", "--clean", help="Delete half-written files of processes that have ended.")
@option(
    "Changes",
    "--delete-reads",
    type=SECONDS,
    help="Delete the rows of batch reads that were complete this long ago. No DataFrame may need them any more.",
)
@json_option("Print a line of JSON for each part.")
def spool(context: click.Context) -> None:
    """Show what the spool at LOCATION has, and what is damaged in it.

    Nothing is changed without an option that says so. Damaged segments are set aside only while no query reads the
    spool. The exit status is 1 if there is damage that was not set aside.
    """
    arguments = gathered(_Arguments, context)
    parts = left = 0
    with using_spool("spool", ExitCode.NOT_CONNECTED):
        from trio_stomp.spark import care  # noqa: PLC0415  # see using_spool

        for found in care(
            arguments.location,
            dict(arguments.spool_option),
            verify=arguments.verify,
            set_aside=arguments.set_aside,
            clean=arguments.clean,
            reads_older_than=arguments.delete_reads,
        ):
            click.echo(json.dumps(dataclasses.asdict(found)) if arguments.as_json else _text_of(found))
            parts += 1
            left += len(found.damaged.keys() - set(found.set_aside))
    if not parts:
        raise CommandFailed(f"there is no spool in {one_line(arguments.location)}")
    if left:
        how = "restore them from a backup, or run the command again with --set-aside"
        raise CommandFailed(f"{left} damaged segments; {how}")


def _text_of(found: CareReport) -> str:
    what = "read by " + found.owner if found.owner else "read by no query" if found.part == "stream" else "batch reads"
    lines = [f"{one_line(found.destination)}: {found.rows} rows ({found.size:,} bytes), {what}"]
    lines += [f"    damaged: {one_line(why)}" for why in found.damaged.values()]
    lines += [f"    set aside: {name}" for name in found.set_aside]
    if found.halves:
        lines.append(f"    {found.halves} half-written files deleted")
    if found.reads:
        lines.append(f"    {found.reads} batch reads deleted")
    return "\n".join(lines)
