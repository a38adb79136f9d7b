"""The base of all commands: options in groups, examples, and ``--verbose`` before or after the name of the command."""

from __future__ import annotations

import difflib
import logging
import sys
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Final, ParamSpec, Protocol, TypeVar

import click

from trio_stomp.printable import harmless, one_line

__all__ = ["Command", "CommandGroup", "Decorator", "command", "flag", "option", "together", "verbose_option"]

P = ParamSpec("P")
R = TypeVar("R")

# Where the contexts of a command line count --verbose together.
_VERBOSITY: Final = "trio_stomp.cli.verbosity"
_LEVELS: Final = (logging.WARNING, logging.INFO, logging.DEBUG)


class _RecordFormatter(logging.Formatter):
    """Formats records that may contain text from a broker: one line each, tracebacks indented."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # logging's name
        return one_line(super().formatMessage(record))

    def formatException(  # noqa: N802  # logging's name
        self,
        ei: tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None],
    ) -> str:
        return "    " + harmless(super().formatException(ei)).replace("\n", "\n    ")


def _log(verbosity: int) -> None:
    handler = logging.StreamHandler(sys.stderr)
    # Warnings look like errors of the command.
    line = "%(asctime)s %(levelname)s %(name)s: %(message)s" if verbosity else "trio-stomp: %(message)s"
    handler.setFormatter(_RecordFormatter(line))
    logging.basicConfig(handlers=[handler], level=_LEVELS[min(verbosity, len(_LEVELS) - 1)])


def _count(context: click.Context, _parameter: click.Parameter, value: int) -> None:
    context.meta[_VERBOSITY] = context.meta.get(_VERBOSITY, 0) + value


class _Option(click.Option):
    """An option under a heading of its command's help."""

    heading = "Other options"


class Decorator(Protocol):
    """What gives a command one option or several."""

    def __call__(self, function: Callable[P, R], /) -> Callable[P, R]:
        """Give them to the command that this function becomes."""
        ...


def option(title: str, *names: str, **attributes: object) -> Decorator:
    """As `click.option`, under a heading of the help, with its default and its variable."""

    class Grouped(_Option):
        heading = title

    return click.option(*names, cls=Grouped, **{"show_default": True, "show_envvar": True, **attributes})


def flag(title: str, *names: str, **attributes: object) -> Decorator:
    """As `option`, for one without a value."""
    return option(title, *names, is_flag=True, **attributes)


def together(*options: Decorator) -> Decorator:
    """Return a decorator that gives a command all of these options, in this order."""

    def decorate(function: Callable[P, R], /) -> Callable[P, R]:
        for each in reversed(options):
            function = each(function)
        return function

    return decorate


def verbose_option() -> click.Option:
    """The option ``--verbose``, which every command and the group of all commands have."""
    help_text = "Log what happens; given twice, log each frame."
    return _Option(["--verbose", "-v"], count=True, expose_value=False, callback=_count, help=help_text)


class _Helpful(click.Command):
    """A command whose help has its options in groups, and examples."""

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
                heading = parameter.heading if isinstance(parameter, _Option) else _Option.heading
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
    """A command. Its function gets the context, which has the options."""

    def invoke(self, ctx: click.Context) -> object:
        """Run the command."""
        _log(ctx.meta.get(_VERBOSITY, 0))
        return None if self.callback is None else ctx.invoke(self.callback, ctx)


class CommandGroup(_Helpful, click.Group):
    """A command with commands of its own."""

    # By what other tools call them: the commands.
    other_names: Mapping[str, str] = {}

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which one may be meant."""
        name, names = args[0], self.list_commands(ctx)
        if not (name in names or name.startswith("-") or ctx.resilient_parsing):
            meant = self.other_names.get(name)
            near = [meant] if meant is not None else difflib.get_close_matches(name, names, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}"
            raise click.UsageError(f"no such command {name!r}; {hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, then the options."""
        self.format_commands(ctx, formatter)
        super().format_options(ctx, formatter)


def command(
    *examples: str, name: str | None = None, short_help: str | None = None
) -> Callable[[Callable[[click.Context], None]], Command]:
    """Make a command of a function, with examples for its help.

    Args:
        examples: Command lines.
        name: Its name; None: that of the function.
        short_help: What a list of commands says of it. The list of all commands says it itself.
    """

    def make(function: Callable[[click.Context], None]) -> Command:
        made = click.command(name, cls=Command, short_help=short_help)(function)
        made.params.append(verbose_option())
        made.examples = examples
        return made

    return make
