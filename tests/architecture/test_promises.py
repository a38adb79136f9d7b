"""What is promised to users does not change by accident, and has a name that they can import."""

import importlib
import inspect
import runpy
import subprocess
import sys
import typing
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import cast

from tests.architecture.source_tree import PACKAGE, ROOT

PROMISED: tuple[str, ...] = runpy.run_path(str(ROOT / "scripts" / "public_surface.py"))["PROMISED"]
# Types that a promised signature names and no promised module has, and why.
UNPROMISED = {
    "trio_stomp.brokers.dialect.Dialect": "a profile's headers are read by the client; the page on brokers shows them",
    "trio_stomp.protocol.tolerances.Tolerances": "so are the rules of STOMP that a broker breaks",
    "trio_stomp.session.message.Origin": "the subscription of a message: a Subscription, seen from the message",
    "trio_stomp.session.message.Source": "the same",
    "trio_stomp.spark.connection_options.Connection": "of an argument that `trio-stomp receive` needs: not documented",
    "trio_stomp.spark.receiver.Report": "a protocol: whatever has its two methods",
    "trio_stomp.blocking.verbs.Facade": "the type of `self`, for type checkers",
}


def test_public_surface_when_compared_with_the_snapshot_then_nothing_has_changed() -> None:
    shown = subprocess.run(
        [sys.executable, "scripts/public_surface.py"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    written = (ROOT / "tests" / "architecture" / "public_surface.txt").read_text(encoding="utf-8")

    assert shown == written, "the public API has changed: see docs/api-stability.md; scripts/public_surface.py --write"


def named_in(annotation: object) -> Iterator[type]:
    """The classes of trio_stomp that an annotation consists of."""
    # `list[int]` is a type for isinstance(), too.
    if isinstance(annotation, type) and typing.get_origin(annotation) is None:
        if annotation.__module__.partition(".")[0] == PACKAGE:
            yield annotation
    elif isinstance(annotation, list):
        for each in cast("list[object]", annotation):
            yield from named_in(each)
    for part in (typing.get_origin(annotation), *typing.get_args(annotation)):
        if part is not None:
            yield from named_in(part)


def parts_of(thing: object) -> Iterator[tuple[str, object]]:
    """What may be annotated in something public: a function, or a class, its attributes and its methods."""
    yield "", thing
    for name, member in inspect.getmembers(thing) if isinstance(thing, type) else ():
        function = member.fget if isinstance(member, property) else member
        if not name.startswith("_") and (inspect.isfunction(function) or inspect.ismethod(function)):
            yield name, inspect.unwrap(function)


def hints(thing: object) -> Iterable[object]:
    try:  # Names that are imported for annotations alone are other packages': the event loop's, and Spark's.
        return [hint for name, hint in typing.get_type_hints(thing).items() if not name.startswith("_")]
    except NameError:
        return ()


def test_promised_signature_when_read_then_its_types_are_promised_too() -> None:
    modules = [importlib.import_module(name) for name in PROMISED]
    things = {f"{module.__name__}.{name}": getattr(module, name) for module in modules for name in module.__all__}
    known = {id(each) for each in things.values()}
    without_a_name = defaultdict[str, set[str]](set)

    for name, thing in things.items():
        if isinstance(thing, type) or inspect.isfunction(thing):
            for member, part in parts_of(thing):
                for found in (found for annotation in hints(part) for found in named_in(annotation)):
                    if id(found) not in known:
                        without_a_name[f"{found.__module__}.{found.__qualname__}"].add(f"{name}.{member}")

    assert {name: where for name, where in without_a_name.items() if name not in UNPROMISED} == {}
