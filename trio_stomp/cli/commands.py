"""The base of all commands: options in groups, examples, and ``--verbose`` before or after the name of the command."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Final, ParamSpec, Protocol, TypeVar

import click

from trio_stomp.printable import harmless, one_line

__all__ = ["Command", "CommandGroup", "Option", "RecordFormatter", "command", "option", "together", "verbose_option"]

P = ParamSpec("P")
R = TypeVar("R")

# Where the contexts of a command line count --verbose together.
_VERBOSITY: Final = "trio_stomp.cli.verbosity"


class RecordFormatter(logging.Formatter):
    """Formats records that may contain text from a broker: one line each, tracebacks indented."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # logging's name
        """Format the line of a record."""
        return one_line(super().formatMessage(record))

    def formatException(  # noqa: N802  # logging's name
        self,
        ei: tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None],
    ) -> str:
        """Format a traceback."""
        return "    " + harmless(super().formatException(ei)).replace("\n", "\n    ")


def _log(verbosity: int) -> None:
    if verbosity:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(RecordFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        logging.basicConfig(handlers=[handler], level=logging.DEBUG if verbosity > 1 else logging.INFO)


def _count(context: click.Context, _parameter: click.Parameter, value: int) -> None:
    context.meta[_VERBOSITY] = context.meta.get(_VERBOSITY, 0) + value


class Option(click.Option):
    """An option under a heading of its command's help.

    Attributes:
        heading: The heading.
    """

    heading = "Other options"


class Decorator(Protocol):
    """What gives a command one option or several."""

    def __call__(self, function: Callable[P, R], /) -> Callable[P, R]: ...


def option(title: str, *names: str, **attributes: object) -> Decorator:
    """As `click.option`, under a heading of the help, with its default and its variable."""

    class Grouped(Option):
        heading = title

    return click.option(*names, cls=Grouped, **{"show_default": True, "show_envvar": True, **attributes})


def together(*options: Decorator) -> Decorator:
    """Return a decorator that gives a command all of these options, in this order."""

    def decorate(function: Callable[P, R], /) -> Callable[P, R]:
        for each in reversed(options):
            function = each(function)
        return function

    return decorate


def verbose_option() -> Option:
    """The option ``--verbose``, which every command and the group of all commands have."""
    return Option(
        ["--verbose", "-v"],
        count=True,
        expose_value=False,
        callback=_count,
        help="Log what happens; given twice, log each frame.",
    )


class _Helpful(click.Command):
    """A command whose help has its options in groups, and examples.

    Attributes:
        examples: Command lines.
    """

    examples: tuple[str, ...] = ()

    def get_help_option_names(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        """Return the same names for every command, also for one that is called without the group."""
        return ["-h", "--help"]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, each group under its heading, in the order of their definition."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and not isinstance(parameter, click.Argument):
                heading = parameter.heading if isinstance(parameter, Option) else Option.heading
                groups.setdefault(heading, []).append(record)
        for heading, records in groups.items():
            with formatter.section(heading):
                formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples."""
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples:
                    formatter.write(f"{'':{formatter.current_indent}}{example}\n")
        super().format_epilog(ctx, formatter)


class Command(_Helpful):
    """A command."""

    def invoke(self, ctx: click.Context) -> object:
        """Run the command."""
        _log(ctx.meta.get(_VERBOSITY, 0))
        return super().invoke(ctx)


class CommandGroup(_Helpful, click.Group):
    """A command with commands of its own."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, then the options."""
        self.format_commands(ctx, formatter)
        super().format_options(ctx, formatter)


def command(name: str, short_help: str, *examples: str) -> Callable[[Callable[P, None]], Command]:
    """As `click.command`.

    Args:
        name: The name of the command.
        short_help: What it does, for the list of commands.
        examples: Command lines for its help.
    """

    def make(function: Callable[P, None]) -> Command:
        made = click.command(name, cls=Command, short_help=short_help)(function)
        made.params.append(verbose_option())
        made.examples = examples
        return made

    return make
