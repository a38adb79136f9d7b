"""The base of all commands: options in groups, examples, and ``--verbose`` before or after the name of the command.

A command is a dataclass: its fields are the arguments and options, its docstring is the help, and `start` runs it.
"""

from __future__ import annotations

import dataclasses
import logging
import sys
from collections.abc import Callable, Mapping
from dataclasses import field
from types import TracebackType
from typing import Final, Protocol, TypeVar

import click

from trio_stomp.printable import harmless, one_line

__all__ = [
    "Command",
    "CommandGroup",
    "argument",
    "flag",
    "gathered",
    "option",
    "options",
    "parameters_of",
    "verbose_option",
]

T = TypeVar("T")

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


# --- arguments and options as fields of a dataclass -------------------------------------------------------------------


class _Option(click.Option):
    """An option under a heading of its command's help."""

    heading = "Other options"


# In the metadata of a field: a function that makes a parameter of this name, or a dataclass of several parameters.
_PARAMETER: Final = "parameter"
_GROUP: Final = "group"


def argument(default: T, *, required: bool = False, **attributes: object) -> T:
    """A field that is an argument of the command.

    Args:
        default: The value if the argument is not given.
        required: Whether it must be given.
        attributes: Those of `click.Argument`. With ``nargs=-1``, the value is then an empty tuple.
    """
    given: dict[str, object] = {"required": required}
    # Before 8.3, click accepts no default for any number of values.
    if not required and attributes.get("nargs") != -1:
        given["default"] = default

    def parameter(name: str) -> click.Argument:
        return click.Argument([name], **given, **attributes)  # type: ignore[arg-type]  # click checks them

    return _parameter_field(default, parameter)


def option(default: T, heading: str, help_text: str, *names: str, **attributes: object) -> T:
    """A field that is an option of the command, with the name of the field.

    Args:
        default: The value if the option is not given.
        heading: The heading of the help text to list it under.
        help_text: What it does.
        names: Its short name, and its long names if they differ from that of the field.
        attributes: Those of `click.Option`. A required option has no default on the command line.
    """

    def parameter(name: str) -> _Option:
        long_names = [] if any(each.startswith("--") for each in names) else [f"--{name.replace('_', '-')}"]
        given = {} if "required" in attributes else {"default": default}
        shown = {"help": help_text, "show_default": True, "show_envvar": True, **attributes}
        made = _Option([name, *long_names, *names], **given, **shown)  # type: ignore[arg-type]  # click checks them
        made.heading = heading
        return made

    return _parameter_field(default, parameter)


def _parameter_field(default: T, parameter: Callable[[str], click.Parameter]) -> T:
    # URLs, headers and options of a spool may contain secrets, so no repr shows them.
    return field(default=default, repr=False, metadata={_PARAMETER: parameter})


def flag(heading: str, help_text: str, *names: str, **attributes: object) -> bool:
    """Like `option`, but without a value."""
    return option(False, heading, help_text, *names, is_flag=True, **attributes)  # noqa: FBT003  # it is a default


def options(kind: type[T]) -> T:
    """A field for a dataclass of arguments and options that several commands share."""
    return field(default_factory=kind, metadata={_GROUP: kind})


def parameters_of(kind: type) -> list[click.Parameter]:
    """Return the arguments and options that the fields of a dataclass define."""
    found: list[click.Parameter] = []
    for each in dataclasses.fields(kind):
        inner: type | None = each.metadata.get(_GROUP)
        found += [each.metadata[_PARAMETER](each.name)] if inner is None else parameters_of(inner)
    return found


def gathered(kind: type[T], context: click.Context) -> T:
    """Return the values of a command's arguments and options as a dataclass that defines some of them."""
    plain: type = kind
    values: dict[str, object] = {}
    for each in dataclasses.fields(plain):
        inner: type[object] | None = each.metadata.get(_GROUP)
        values[each.name] = context.params[each.name] if inner is None else gathered(inner, context)
    return kind(**values)


# --- commands ---------------------------------------------------------------------------------------------------------


def verbose_option() -> click.Option:
    """The option ``--verbose``, which every command and the group of all commands have."""
    help_text = "Log what happens; given twice, log each frame."
    return click.Option(["--verbose", "-v"], count=True, expose_value=False, callback=_count, help=help_text)


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


class Startable(Protocol):
    """A dataclass whose fields are the arguments and options of a command, and whose docstring is its help."""

    def start(self, context: click.Context, /) -> None:
        """Run the command."""
        ...


class Command(_Helpful):
    """A command.

    Args:
        kind: The dataclass with its arguments and options.
        examples: Command lines.
        short_help: What the list of a group's commands says about it. The list of all commands has its own texts.
    """

    def __init__(self, kind: type[Startable], *examples: str, short_help: str | None = None) -> None:
        parameters = [*parameters_of(kind), verbose_option()]
        super().__init__(kind.__name__.lower(), params=parameters, help=kind.__doc__, short_help=short_help)
        self._kind = kind
        self.examples = examples

    def invoke(self, ctx: click.Context) -> None:
        """Run the command."""
        _log(ctx.meta[_VERBOSITY])
        gathered(self._kind, ctx).start(ctx)


class CommandGroup(_Helpful, click.Group):
    """A command with commands of its own."""

    # The names of commands, by the names that other tools use for them.
    other_names: Mapping[str, str] = {}

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or suggest one with a similar name."""
        name, names = args[0], self.list_commands(ctx)
        if not (name in names or name.startswith("-") or ctx.resilient_parsing):
            import difflib  # noqa: PLC0415  # for an error alone

            meant = self.other_names.get(name)
            near = [meant] if meant is not None else difflib.get_close_matches(name, names, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}"
            raise click.UsageError(f"no such command {name!r}; {hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, then the options."""
        self.format_commands(ctx, formatter)
        super().format_options(ctx, formatter)
