"""Print what 1.0 promises: every public name with its signature, and every command with its options.

    python scripts/public_surface.py            print it
    python scripts/public_surface.py --write    write tests/architecture/public_surface.txt, which a test compares

A change of that file is a change of the API: docs/api-stability.md says which ones a release may make.
"""

from __future__ import annotations

import dataclasses
import enum
import importlib
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import BuiltinFunctionType, FunctionType
from typing import Final, ForwardRef

import click

__all__ = ["PLACE", "PROMISED", "surface"]

ROOT: Final = Path(__file__).resolve().parents[1]
PLACE: Final = ROOT / "tests" / "architecture" / "public_surface.txt"
PROMISED: Final = (
    "trio_stomp",
    "trio_stomp.types",
    "trio_stomp.errors",
    "trio_stomp.blocking",
    "trio_stomp.testing",
    "trio_stomp.otel",
    "trio_stomp.spark",
)
# Public, but not in `__all__`: `from trio_stomp import *` would hide the built-in function.
_UNLISTED: Final = {"trio_stomp": ("open",)}
_FUNCTIONS: Final = (FunctionType, BuiltinFunctionType)
_SPECIAL: Final = frozenset(
    {"__aenter__", "__aiter__", "__anext__", "__enter__", "__getitem__", "__iter__", "__len__", "__next__"}
)


def surface() -> str:
    """The whole text."""
    lines: list[str] = []
    told: dict[int, str] = {}
    for module in PROMISED:
        lines += ["", f"# {module}", ""]
        for name in sorted([*importlib.import_module(module).__all__, *_UNLISTED.get(module, ())]):
            thing: object = getattr(importlib.import_module(module), name)
            # Said where it is listed first. Not of strings and tuples, which are equal to each other by chance.
            known = told.setdefault(id(thing), f"{module}.{name}") if callable(thing) else f"{module}.{name}"
            if known != f"{module}.{name}":
                lines.append(f"{name}: see {known}")
            else:
                lines += _described(name, thing)
    lines += ["", "# trio-stomp", "", *_commands()]
    return "\n".join(lines).lstrip("\n") + "\n"


def _described(name: str, thing: object) -> Iterator[str]:
    if inspect.isclass(thing):
        yield from _class(name, thing)
    elif callable(thing) and isinstance(inspect.unwrap(thing), FunctionType):
        yield f"{_awaited(thing)}{name}{_signature(thing)}"
    else:
        yield f"{name} = {thing}"


def _class(name: str, thing: type[object]) -> Iterator[str]:
    bases = ", ".join(base.__name__ for base in thing.__bases__ if base is not object)
    yield f"class {name}({bases})" if bases else f"class {name}"
    if issubclass(thing, enum.Enum):
        yield from (f"    {member.name} = {member.value!r}" for member in thing)
    if _is_constructed(thing):
        yield f"    __init__{_signature(thing)}"
    members = {
        member
        for base in thing.__mro__
        if base.__module__.startswith("trio_stomp")
        for member in (*vars(base), *getattr(base, "__annotations__", {}))
        if not member.startswith("_") or member in _SPECIAL
    }
    for member in sorted(members - {each.name for each in thing} if issubclass(thing, enum.Enum) else members):
        yield f"    {_member(thing, member)}"


def _is_constructed(thing: type[object]) -> bool:
    """Whether programs make such objects themselves: values and errors, not what the client returns."""
    return dataclasses.is_dataclass(thing) or "\n    Args:\n" in (thing.__doc__ or "")


def _member(owner: type[object], name: str) -> str:
    found = inspect.getattr_static(owner, name, None)
    if isinstance(found, property):
        kind = "" if found.fget is None else inspect.signature(found.fget).return_annotation
        return f"{name}: {_plain(kind)}"
    function = getattr(found, "__func__", found)
    if isinstance(function, FunctionType):
        of = "classmethod " if isinstance(found, classmethod) else "staticmethod " * isinstance(found, staticmethod)
        return f"{of}{_awaited(function)}{name}{_signature(function)}"
    kinds = [vars(base).get("__annotations__", {}).get(name) for base in owner.__mro__]
    kind = next((each for each in kinds if each is not None), None)
    return name if kind is None else f"{name}: {_plain(kind)}"


def _awaited(function: object) -> str:
    return "async " if inspect.iscoroutinefunction(function) else ""


def _signature(thing: object) -> str:
    if not callable(thing):
        raise TypeError(thing)
    shown = inspect.signature(thing)
    # Annotations are strings, and would be printed in quotes; functions would be printed with their address.
    parameters = [
        each.replace(
            annotation=_Shown.of(each.annotation),
            default=_Shown(f"<{each.default.__name__}>") if isinstance(each.default, _FUNCTIONS) else each.default,
        )
        for each in shown.parameters.values()
    ]
    return str(shown.replace(parameters=parameters, return_annotation=_Shown.of(shown.return_annotation)))


class _Shown:
    """An annotation that prints as it is written in the source."""

    def __init__(self, text: str) -> None:
        self._text = text

    @classmethod
    def of(cls, annotation: object) -> object:
        return annotation if annotation is inspect.Parameter.empty else cls(_plain(annotation))

    def __repr__(self) -> str:
        return self._text


def _plain(annotation: object) -> str:
    if isinstance(annotation, ForwardRef):
        return annotation.__forward_arg__
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _commands() -> Iterator[str]:
    from trio_stomp.cli.command_line import command_line  # noqa: PLC0415  # an extra

    command_line.load_all()
    yield from _command("trio-stomp", command_line)


def _command(name: str, command: click.Command) -> Iterator[str]:
    yield name
    for each in command.params:
        if isinstance(each, click.Option):
            value = "" if each.is_flag or each.count else f" {each.type.name}"
            yield f"    {', '.join([*each.opts, *each.secondary_opts])}{value}"
        else:
            yield f"    {each.human_readable_name}"
    if isinstance(command, click.Group):
        for inner in sorted(command.commands):
            yield from _command(f"{name} {inner}", command.commands[inner])


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PLACE.write_text(surface(), encoding="utf-8")
    else:
        print(surface(), end="")
