"""The public modules show what exists; all of it says what it promises, and async parts what cancellation leaves."""

import importlib
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from types import FunctionType

import pytest

from tests.architecture.source_tree import PACKAGE, ROOT

# Packages that users do not import from: what they show of them, `trio_stomp` and its `client` show.
INNER = {"transport", "session"}
PUBLIC_MODULES = sorted(
    [
        PACKAGE,
        f"{PACKAGE}.errors",
        *(f"{PACKAGE}.{p.parent.name}" for p in ROOT.glob(f"{PACKAGE}/*/__init__.py") if p.parent.name not in INNER),
    ]
)

# Where a section on cancellation would say nothing: full name -> reason.
WITHOUT_CANCELLATION: dict[str, str] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Public:
    """Something a user can call or name: its full name, its docstring, and whether it is awaited."""

    name: str
    doc: str | None
    awaited: bool


def public_parts(public: str) -> Iterator[Public]:
    module = importlib.import_module(public)
    for name in module.__all__:
        item = getattr(module, name)
        if inspect.isclass(item):
            yield Public(name=f"{public}.{name}", doc=_class_doc(item), awaited=False)
            yield from _methods(f"{public}.{name}", item)
        elif inspect.isfunction(item):
            yield _function(f"{public}.{name}", item, inspect.getdoc(item))


def _class_doc(item: type) -> str | None:
    # A dataclass without a docstring gets its signature for one.
    doc = item.__doc__
    return None if doc is not None and doc.startswith(f"{item.__name__}(") else doc


def _methods(prefix: str, item: type) -> Iterator[Public]:
    names = {name for base in item.__mro__ if base.__module__.startswith(PACKAGE) for name in vars(base)}
    for name in sorted(names):
        member: object = inspect.getattr_static(item, name)
        if name.startswith("_") and name not in {"__anext__", "__aenter__", "__aexit__"}:
            continue
        function: object = getattr(member, "__func__", member)  # of a classmethod or staticmethod
        if isinstance(function, property):
            yield Public(name=f"{prefix}.{name}", doc=inspect.getdoc(function), awaited=False)
        elif isinstance(function, FunctionType):
            yield _function(f"{prefix}.{name}", function, inspect.getdoc(getattr(item, name)))


def _function(name: str, function: FunctionType, doc: str | None) -> Public:
    # Of an asynccontextmanager; what shows another signature is itself what users call.
    inner: object = inspect.unwrap(function, stop=lambda each: hasattr(each, "__signature__"))
    awaited = inspect.iscoroutinefunction(inner) or inspect.isasyncgenfunction(inner)
    return Public(name=name, doc=doc, awaited=awaited)


def undocumented(parts: Iterator[Public]) -> list[str]:
    return [part.name for part in parts if not part.doc]


def silent_on_cancellation(parts: Iterator[Public]) -> list[str]:
    return [part.name for part in parts if part.awaited and "Cancellation:" not in (part.doc or "")]


@pytest.mark.parametrize("public", PUBLIC_MODULES)
def test_module_when_asked_for_what_it_lists_then_has_it(public: str) -> None:
    module = importlib.import_module(public)

    assert module.__all__
    assert [name for name in module.__all__ if not hasattr(module, name)] == []
    assert len(module.__all__) == len(set(module.__all__))


@pytest.mark.parametrize("public", PUBLIC_MODULES)
def test_public_part_when_looked_up_then_says_what_it_promises(public: str) -> None:
    assert undocumented(public_parts(public)) == []


@pytest.mark.parametrize("public", PUBLIC_MODULES)
def test_async_part_when_looked_up_then_says_what_cancellation_leaves(public: str) -> None:
    silent = silent_on_cancellation(public_parts(public))

    assert [name for name in silent if name not in WITHOUT_CANCELLATION] == []


class Sample:
    """A class."""

    def bare(self) -> None: ...

    @property
    def value(self) -> int:
        """Some value."""
        return 1

    async def wait(self) -> None:
        """Wait."""


def test_checks_when_given_bare_and_silent_methods_then_find_them() -> None:
    parts = [
        _function(f"Sample.{name}", getattr(Sample, name), getattr(Sample, name).__doc__) for name in ("bare", "wait")
    ]

    assert undocumented(iter(parts)) == ["Sample.bare"]
    assert silent_on_cancellation(iter(parts)) == ["Sample.wait"]
