"""The synchronous API against the asynchronous one: every verb is there, with the same parameters."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable

import pytest

import trio_stomp
import trio_stomp.blocking
from trio_stomp.blocking.verbs import Shown

# What only one of the two has: name -> reason.
ONLY_ASYNC = {
    "connect_stream": "a stream belongs to the event loop of the program",
    "Client.aclose": "it is close() there",
}
ONLY_BLOCKING = {
    "Client.close": "it is aclose() in async code",
}
OTHER_PARAMETERS = {
    "Subscription.work.report_blocking_after": "handlers run in threads of their own, and block no event loop",
}
OTHER_TYPES = {
    "Subscription.work.handler": "a function instead of an async one",
    "Subscription.work.around": "context managers instead of async ones",
    "Subscription.work.key": "the same type under its name",
    "Subscription.work.dead_letter": "the same type under its name",
}
# Verbs that wait, and take no timeout=: name -> reason.
NO_TIMEOUT = {
    "Transaction.abort": "it waits for nothing",
}
SYNCHRONOUS = {"__aiter__": "__iter__", "__anext__": "__next__", "__aenter__": "__enter__", "__aexit__": "__exit__"}


def named(module: object, name: str) -> type:
    found: object = getattr(module, name)
    assert isinstance(found, type)
    return found


PAIRS: dict[str, tuple[type, type]] = {
    name: (
        named(trio_stomp if name in trio_stomp.__all__ else trio_stomp.types, name),
        named(trio_stomp.blocking, name),
    )
    for name in trio_stomp.blocking.__all__
    if name not in {"connect", "open"}
}
EACH_PAIR = pytest.mark.parametrize("name", PAIRS)


def members(item: type) -> set[str]:
    """Public members: of the class, and those that its docstring lists as attributes of its instances."""
    found = {name for name in dir(item) if not name.startswith("_")}
    found |= {SYNCHRONOUS.get(name, name) for name in vars(item) if name in {*SYNCHRONOUS, *SYNCHRONOUS.values()}}
    _, _, attributes = (inspect.getdoc(item) or "").partition("\nAttributes:\n")
    return found | set(re.findall(r"^ {4}(\w+): ", attributes, re.MULTILINE))


def verbs(item: type) -> dict[str, Callable[[], object]]:
    """The methods of a class that users call or write statements for."""
    found: dict[str, Callable[[], object]] = {
        SYNCHRONOUS.get(name, name): each for name, each in vars(item).items() if inspect.isfunction(each)
    }
    return {name: each for name, each in found.items() if not name.startswith("_") or name in SYNCHRONOUS.values()}


def synchronous(annotation: object) -> str:
    """The type that synchronous code has in place of an asynchronous one."""
    text = re.sub(r"Awaitable\[(.*)\]", r"\1", str(annotation))
    return text.replace("AbstractAsyncContextManager", "AbstractContextManager").replace("AsyncIterator", "Iterator")


def differences(name: str, ours: type, theirs: type) -> set[str]:
    """Where the parameters of the verbs of two classes differ."""
    found: set[str] = set()
    for verb, function in verbs(ours).items():
        other = verbs(theirs).get(verb)
        if other is None:
            continue
        mine, there = inspect.signature(function), inspect.signature(other)
        if list(there.parameters) != [
            each for each in mine.parameters if f"{name}.{verb}.{each}" not in OTHER_PARAMETERS
        ]:
            found.add(f"{name}.{verb}")
        for each, parameter in there.parameters.items():
            wanted = mine.parameters.get(each, parameter)
            same = synchronous(wanted.annotation) == synchronous(parameter.annotation)
            if (wanted.kind, wanted.default) != (parameter.kind, parameter.default) or (
                not same and f"{name}.{verb}.{each}" not in OTHER_TYPES
            ):
                found.add(f"{name}.{verb}.{each}")
        if synchronous(mine.return_annotation) != synchronous(there.return_annotation):
            found.add(f"{name}.{verb} -> {there.return_annotation}")
    return found


def is_asynchronous(item: object) -> bool:
    """Whether synchronous code cannot use it."""
    if not inspect.isclass(item):
        inner = inspect.unwrap(item) if callable(item) else item
        return inspect.iscoroutinefunction(inner) or inspect.isasyncgenfunction(inner)
    parts = [vars(item)[name] for name in vars(item) if not name.startswith("_") or name in SYNCHRONOUS]
    return any(inspect.iscoroutinefunction(part) for part in parts) or "__aiter__" in vars(item)


def test_names_when_something_is_asynchronous_then_the_blocking_package_has_its_counterpart() -> None:
    needed = {name for name in trio_stomp.__all__ if is_asynchronous(getattr(trio_stomp, name))}
    needed |= {name for name in trio_stomp.types.__all__ if is_asynchronous(getattr(trio_stomp.types, name))}

    assert needed - set(trio_stomp.blocking.__all__) == {name for name in ONLY_ASYNC if "." not in name}
    assert set(trio_stomp.blocking.__all__) - {"open"} <= {*trio_stomp.__all__, *trio_stomp.types.__all__}


def test_connect_and_open_when_compared_then_take_the_same_options_and_one_for_forks() -> None:
    ours = dict(inspect.signature(trio_stomp.connect).parameters)
    for opens in (trio_stomp.blocking.connect, trio_stomp.blocking.open):
        theirs = dict(inspect.signature(opens).parameters)
        assert theirs.pop("after_fork").default == "refuse"
        assert list(theirs) == list(ours)
        assert {name for name in ours if ours[name] != theirs[name]} <= {"credentials"}
        documented = re.findall(r"^    (\w+):", inspect.getdoc(opens) or "", re.MULTILINE)
        assert {*ours, "after_fork"} <= set(documented)


@EACH_PAIR
def test_class_when_constructed_by_a_user_then_says_how_to_get_one(name: str) -> None:
    if name != "StateChanges":
        with pytest.raises(TypeError, match="cannot be constructed"):
            PAIRS[name][1]()


@EACH_PAIR
def test_class_when_compared_then_has_the_same_members(name: str) -> None:
    ours, theirs = map(members, PAIRS[name])

    assert {f"{name}.{each}" for each in ours - theirs} == {each for each in ONLY_ASYNC if each.startswith(f"{name}.")}
    assert {f"{name}.{each}" for each in theirs - ours} == {
        each for each in ONLY_BLOCKING if each.startswith(f"{name}.")
    }


@EACH_PAIR
def test_verbs_when_compared_then_have_the_same_parameters_defaults_and_types(name: str) -> None:
    assert differences(name, *PAIRS[name]) == set()


@EACH_PAIR
def test_verbs_when_they_wait_then_take_a_timeout_and_are_not_awaited(name: str) -> None:
    ours, theirs = map(verbs, PAIRS[name])
    for verb, function in theirs.items():
        assert not inspect.iscoroutinefunction(function), verb
        waits = verb not in SYNCHRONOUS.values() and inspect.iscoroutinefunction(ours.get(verb))
        takes = "timeout" in inspect.signature(function).parameters
        assert takes or not waits or f"{name}.{verb}" in NO_TIMEOUT, verb


@EACH_PAIR
def test_verbs_when_asked_for_help_then_their_docstrings_are_those_of_synchronous_code(name: str) -> None:
    for verb, function in verbs(PAIRS[name][1]).items():
        text = inspect.getdoc(function) or ""
        assert text, verb
        assert not re.search(r"\basync (with|for)\b|``await |Cancellation:", text), verb
        assert "\n" not in text or re.match(r"\S.*\n\n\S", text), verb


def test_attributes_when_asked_for_help_then_say_what_the_asynchronous_ones_say() -> None:
    for ours, theirs in PAIRS.values():
        for name in (name for name, member in vars(theirs).items() if isinstance(member, Shown)):
            says = (inspect.getdoc(getattr(ours, name, None)) or "").replace("async with", "with")
            assert inspect.getdoc(getattr(theirs, name)) == says, name


def test_comparison_when_the_two_differ_then_seen() -> None:
    class Ours:
        async def send(self, body: bytes, *, receipt: bool = False) -> None: ...

    class Theirs:
        def send(self, body: str, *, receipt: bool = True) -> int:
            return 0

    assert differences("Sample", Ours, Theirs) == {"Sample.send.body", "Sample.send.receipt", "Sample.send -> int"}
