"""The asyncio surface against the one on trio: the same names, parameters, defaults and types, so nothing drifts."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest

import trio_stomp
import trio_stomp.asyncio
from tests.blocking.test_parity import is_asynchronous, members, own


def class_of(module: object, name: str) -> type:
    """A class of a door."""
    found: object = getattr(module, name)
    assert isinstance(found, type)
    return found


Method = Callable[[], object]

FUNCTIONS = {"connect", "open"}
PAIRS: dict[str, tuple[type, type]] = {
    name: (
        class_of(trio_stomp if name in trio_stomp.__all__ else trio_stomp.types, name),
        class_of(trio_stomp.asyncio, name),
    )
    for name in trio_stomp.asyncio.__all__
    if name not in FUNCTIONS
}
EACH_PAIR = pytest.mark.parametrize("name", PAIRS)

# What only one of the two has, or has otherwise: name -> reason.
ONLY_TRIO = {
    "connect_stream": "a stream of trio's can be used in the trio thread alone",
}
ONLY_ASYNCIO = {
    "open": "frameworks have a hook for the start and one for the end, and no block",
    "Client.aclose": "closes what open() has opened",
    "Client.__aenter__": "closes what open() has opened",
    "Client.__aexit__": "closes what open() has opened",
}
OTHER_PARAMETERS = {
    "Client.send.content_length": "it is for async iterables of trio",
    "Transaction.send.content_length": "it is for async iterables of trio",
    "Subscription.work.report_blocking_after": "a handler that blocks its event loop stops no heart-beats",
}
OTHER_TYPES = {
    "Client.send.body": "async iterables of trio run in the trio thread alone",
    "Transaction.send.body": "async iterables of trio run in the trio thread alone",
    "Subscription.work.handler": "the same type, of this room's Message",
    "Subscription.work.key": "the same type, of this room's Message",
    "Subscription.work.dead_letter": "the same type, of this room's Message",
}
OTHER_DOCSTRINGS = {
    "Transaction.send": "async iterables of trio run in the trio thread alone",
    "Client.send": "without a receipt it waits for the queue to the trio thread, and not for the outbox",
    "Client.statistics": "the event loop waits for the trio thread",
    "StateChanges.__init__": "it is private",
    "Subscription.work": "handlers run in the event loop",
}
DUNDERS = {"__aiter__", "__anext__", "__aenter__", "__aexit__"}


def public(item: type) -> set[str]:
    """Public members: of the class, and those that its docstring lists as attributes of its instances."""
    plain = {name for name in members(item) if not name.startswith("__")}
    return plain | {name for name in DUNDERS if name in vars(item)}


def methods(name: str) -> dict[str, tuple[Method, Method]]:
    """The methods that both of a pair have."""
    ours, theirs = PAIRS[name]
    found: dict[str, tuple[Method, Method]] = {}
    for each, mine in own(ours).items():
        other: object = getattr(theirs, each, None)
        if (not each.startswith("_") or each in DUNDERS) and inspect.isfunction(mine) and inspect.isfunction(other):
            found[each] = (mine, other)
    return found


def test_door_when_something_is_asynchronous_then_the_other_door_has_its_counterpart() -> None:
    needed = {name for name in trio_stomp.__all__ if is_asynchronous(getattr(trio_stomp, name))}
    needed |= {name for name in trio_stomp.types.__all__ if is_asynchronous(getattr(trio_stomp.types, name))}
    ours = set(trio_stomp.asyncio.__all__)

    assert needed - ours == {name for name in ONLY_TRIO if "." not in name}
    assert ours - {*trio_stomp.__all__, *trio_stomp.types.__all__} == {name for name in ONLY_ASYNCIO if "." not in name}


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_connect_when_compared_then_takes_the_same_options(name: str) -> None:
    ours = inspect.signature(trio_stomp.connect).parameters
    theirs = inspect.signature(getattr(trio_stomp.asyncio, name)).parameters

    assert [(each.name, each.kind, each.default, each.annotation) for each in theirs.values()] == [
        (each.name, each.kind, each.default, each.annotation) for each in ours.values()
    ]


@EACH_PAIR
def test_class_when_compared_then_has_the_same_members(name: str) -> None:
    ours, theirs = map(public, PAIRS[name])

    assert {f"{name}.{each}" for each in ours - theirs} == {each for each in ONLY_TRIO if each.startswith(f"{name}.")}
    assert {f"{name}.{each}" for each in theirs - ours} == {
        each for each in ONLY_ASYNCIO if each.startswith(f"{name}.")
    }


@EACH_PAIR
def test_method_when_compared_then_has_the_same_parameters_defaults_and_types(name: str) -> None:
    compared = methods(name)
    assert compared
    for method, (ours, theirs) in compared.items():
        mine, other = inspect.signature(ours), inspect.signature(theirs)
        wanted = [each for each in mine.parameters if f"{name}.{method}.{each}" not in OTHER_PARAMETERS]
        assert list(other.parameters) == wanted, f"{name}.{method}"
        for each in wanted:
            full = f"{name}.{method}.{each}"
            here, there = mine.parameters[each], other.parameters[each]
            assert (here.kind, here.default) == (there.kind, there.default), full
            same = str(here.annotation) == str(there.annotation)
            assert same != (full in OTHER_TYPES), full
        assert str(mine.return_annotation) == str(other.return_annotation), f"{name}.{method}"
        assert inspect.iscoroutinefunction(ours) == inspect.iscoroutinefunction(theirs), f"{name}.{method}"


@EACH_PAIR
def test_docstrings_when_compared_then_the_same_but_for_those_listed(name: str) -> None:
    for method, (ours, theirs) in methods(name).items():
        same = inspect.getdoc(ours) == inspect.getdoc(theirs)
        assert same != (f"{name}.{method}" in OTHER_DOCSTRINGS), method


def test_comparison_when_the_two_differ_then_seen() -> None:
    class Ours:
        async def send(self, body: bytes, *, receipt: bool = False) -> None: ...

        def state(self) -> None: ...

    class Theirs:
        async def send(self, body: bytes, *, receipt: bool = True) -> None: ...

    assert public(Ours) - public(Theirs) == {"state"}
    PAIRS["Sample"] = (Ours, Theirs)
    try:
        with pytest.raises(AssertionError, match=r"Sample\.send\.receipt"):
            test_method_when_compared_then_has_the_same_parameters_defaults_and_types("Sample")
    finally:
        del PAIRS["Sample"]
