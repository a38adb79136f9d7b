"""The synchronous surface against the asynchronous one: the same names, parameters and defaults, so nothing drifts."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable

import pytest

import trio_stomp
import trio_stomp.blocking


def class_of(module: object, name: str) -> type:
    """A class of a door."""
    found: object = getattr(module, name)
    assert isinstance(found, type)
    return found


Method = Callable[[], object]

PAIRS: dict[str, tuple[type, type]] = {
    name: (
        class_of(trio_stomp if name in trio_stomp.__all__ else trio_stomp.types, name),
        class_of(trio_stomp.blocking, name),
    )
    for name in trio_stomp.blocking.__all__
    if name not in {"connect", "open"}
}
EACH_PAIR = pytest.mark.parametrize("name", PAIRS)

# What only one of the two has, or has otherwise: name -> reason.
ONLY_ASYNC = {
    "connect_stream": "a stream of trio's can be used in the thread of trio alone",
    "Client.aclose": "it is close() there",
}
ONLY_BLOCKING = {
    "Client.close": "it is aclose() in async code",
}
OTHER_PARAMETERS = {
    "Client.send.content_length": "it is for async iterables of trio",
    "Transaction.send.content_length": "it is for async iterables of trio",
    "Subscription.work.report_blocking_after": "handlers run in threads of their own, and block no event loop",
}
OTHER_TYPES = {
    "Client.send.body": "async iterables of trio run in the trio thread alone",
    "Transaction.send.body": "async iterables of trio run in the trio thread alone",
    "Subscription.work.handler": "a function instead of an async one",
    "Subscription.work.key": "the same type under its name",
    "Subscription.work.dead_letter": "the same type under its name",
}

SYNCHRONOUS = {"__aiter__": "__iter__", "__anext__": "__next__", "__aenter__": "__enter__", "__aexit__": "__exit__"}


def members(item: type) -> set[str]:
    """Public members: of the class, and those that its docstring lists as attributes of its instances."""
    found = {name for name in dir(item) if not name.startswith("_")}
    found |= {SYNCHRONOUS.get(name, name) for name in vars(item) if name in {*SYNCHRONOUS, *SYNCHRONOUS.values()}}
    _, _, attributes = (inspect.getdoc(item) or "").partition("\nAttributes:\n")
    return found | set(re.findall(r"^ {4}(\w+): ", attributes, re.MULTILINE))


def methods(name: str) -> dict[str, tuple[Method, Method]]:
    """The methods that both of a pair have."""
    ours, theirs = PAIRS[name]
    found: dict[str, tuple[Method, Method]] = {}
    for each, mine in own(ours).items():
        other: object = getattr(theirs, SYNCHRONOUS.get(each, each), None)
        if (not each.startswith("_") or each in SYNCHRONOUS) and inspect.isfunction(mine) and inspect.isfunction(other):
            found[each] = (mine, other)
    return found


def own(item: type) -> dict[str, object]:
    """What a class itself has."""
    return dict(vars(item))


def synchronous(annotation: str) -> str:
    """The type that synchronous code has in place of an asynchronous one."""
    annotation = re.sub(r"Awaitable\[(.*)\]", r"\1", annotation)
    annotation = annotation.replace("AbstractAsyncContextManager", "AbstractContextManager")
    return annotation.replace("AsyncIterator", "Iterator")


def is_asynchronous(item: object) -> bool:
    """Whether synchronous code cannot use it."""
    if not inspect.isclass(item):
        inner = inspect.unwrap(item) if callable(item) else item
        return inspect.iscoroutinefunction(inner) or inspect.isasyncgenfunction(inner)
    parts = [vars(item)[name] for name in vars(item) if not name.startswith("_") or name in SYNCHRONOUS]
    return any(inspect.iscoroutinefunction(part) for part in parts) or "__aiter__" in vars(item)


def test_door_when_something_is_asynchronous_then_the_other_door_has_its_counterpart() -> None:
    needed = {name for name in trio_stomp.__all__ if is_asynchronous(getattr(trio_stomp, name))}
    needed |= {name for name in trio_stomp.types.__all__ if is_asynchronous(getattr(trio_stomp.types, name))}

    assert needed - set(trio_stomp.blocking.__all__) == {"connect_stream"} == set(ONLY_ASYNC) & set(trio_stomp.__all__)
    assert set(trio_stomp.blocking.__all__) - {"open"} <= {*trio_stomp.__all__, *trio_stomp.types.__all__}


def test_connect_when_compared_then_takes_the_same_options() -> None:
    ours = inspect.signature(trio_stomp.connect).parameters
    theirs = inspect.signature(trio_stomp.blocking.connect).parameters

    assert list(theirs) == list(ours)
    kinds = {name: (each.annotation, each.default) for name, each in ours.items()}
    different = {name for name, each in theirs.items() if (each.annotation, each.default) != kinds[name]}
    assert different <= {"credentials"}


def test_open_when_compared_then_takes_the_options_of_connect_and_one_for_forks() -> None:
    connect = inspect.signature(trio_stomp.blocking.connect).parameters
    opened = dict(inspect.signature(trio_stomp.blocking.open).parameters)

    assert opened.pop("after_fork").default == "refuse"
    assert list(opened.values()) == list(connect.values())


@EACH_PAIR
def test_class_when_constructed_by_a_user_then_says_how_to_get_one(name: str) -> None:
    theirs = PAIRS[name][1]
    if name != "StateChanges":
        with pytest.raises(TypeError, match="cannot be constructed"):
            theirs()


@EACH_PAIR
def test_class_when_compared_then_has_the_same_members(name: str) -> None:
    ours, theirs = map(members, PAIRS[name])

    assert {f"{name}.{each}" for each in ours - theirs} == {each for each in ONLY_ASYNC if each.startswith(f"{name}.")}
    assert {f"{name}.{each}" for each in theirs - ours} == {
        each for each in ONLY_BLOCKING if each.startswith(f"{name}.")
    }


@EACH_PAIR
def test_method_when_compared_then_has_the_same_parameters_defaults_and_types(name: str) -> None:
    compared = methods(name)
    assert compared or not any(map(inspect.isfunction, own(PAIRS[name][0]).values()))
    for method, (ours, theirs) in compared.items():
        mine, other = inspect.signature(ours), inspect.signature(theirs)
        wanted = [each for each in mine.parameters if f"{name}.{method}.{each}" not in OTHER_PARAMETERS]
        assert list(other.parameters) == wanted, f"{name}.{method}"
        for each in wanted:
            full = f"{name}.{method}.{each}"
            here, there = mine.parameters[each], other.parameters[each]
            assert (here.kind, here.default) == (there.kind, there.default), full
            same = synchronous(str(here.annotation)) == str(there.annotation)
            assert same != (full in OTHER_TYPES), full
        assert synchronous(str(mine.return_annotation)) == str(other.return_annotation), f"{name}.{method}"


@EACH_PAIR
def test_class_when_synchronous_then_nothing_public_of_it_is_awaited(name: str) -> None:
    theirs = PAIRS[name][1]
    awaited = {f"{name}.{each}" for each, part in own(theirs).items() if inspect.iscoroutinefunction(part)}

    assert {each for each in awaited if "._" not in each} <= set(ONLY_BLOCKING)


def test_comparison_when_the_two_differ_then_seen() -> None:
    class Ours:
        async def send(self, body: bytes, *, receipt: bool = False) -> None: ...

        def state(self) -> None: ...

    class Theirs:
        def send(self, body: bytes, *, receipt: bool = True) -> None: ...

    assert members(Ours) - members(Theirs) == {"state"}
    PAIRS["Sample"] = (Ours, Theirs)
    try:
        with pytest.raises(AssertionError, match=r"Sample\.send\.receipt"):
            test_method_when_compared_then_has_the_same_parameters_defaults_and_types("Sample")
    finally:
        del PAIRS["Sample"]
