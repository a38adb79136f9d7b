"""How the blocking classes get their verbs, signatures and docstrings from the asynchronous ones."""

# What the classes of this package hand each other is hidden from users alone.
# pyright: reportPrivateUsage=false
# ruff: noqa: SLF001

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Coroutine
from typing import Concatenate, Final, Generic, Never, ParamSpec, Protocol, Self, TypeVar, overload

from trio_stomp.blocking.calls import Calls

__all__ = ["Facade", "Shown", "blocks", "documented", "like"]

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
T = TypeVar("T")
S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)

# What differs in a docstring when nothing is awaited.
_SYNCHRONOUS: Final = (
    (re.compile(r"\basync with\b"), "with"),
    (re.compile(r"\basync for\b"), "for"),
    (re.compile(r"\bAsync function\b"), "Function"),
    (re.compile(r"^Cancellation:", re.MULTILINE), "Ctrl-C:"),
    (re.compile(r"\bcanceled\b"), "interrupted"),
    (re.compile(r"\bby cancellation\b"), "by Ctrl-C"),
    (re.compile(r"\btasks\b"), "threads"),
    (re.compile(r"\btask\b"), "thread"),
    (re.compile(r"\bStopAsyncIteration\b"), "StopIteration"),
    (re.compile(r"\bAn async iterator\b"), "An iterator"),
)


class Facade(Protocol[S_co]):
    """An object of the blocking API: another object, in the loop's thread, and the way to it."""

    @property
    def _calls(self) -> Calls: ...

    @property
    def _inner(self) -> S_co: ...


class Shown(Generic[T]):
    """An attribute of the object in the loop's thread that any thread may read.

    Args:
        owner: The class of that object, for the docstring.
        name: The name of the attribute.
    """

    def __init__(self, owner: type, name: str) -> None:
        self._name = name
        self.__doc__ = synchronous(inspect.getdoc(inspect.getattr_static(owner, name, None)) or "")

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object, owner: type) -> T | Self:
        """Read it."""
        if instance is None:
            return self
        value: T = getattr(instance._inner, self._name)  # type: ignore[attr-defined]  # it is a Facade
        return value

    def __set__(self, instance: object, value: Never) -> None:
        """It is read-only."""
        raise AttributeError(f"{type(instance).__name__}.{self._name} cannot be set")


def blocks(
    verb: Callable[Concatenate[S, P], Coroutine[object, object, T]],
    *,
    limited: bool = True,
    raises_earlier: bool = True,
) -> Callable[Concatenate[Facade[S], P], T]:
    """Make the blocking verb of an asynchronous one: it waits for the verb in the loop's thread.

    Args:
        verb: A method with a ``timeout=``.
        limited: Whether ``connect(timeout=)`` applies to it.
        raises_earlier: As in `Calls.call`.
    """

    def wait(self: Facade[S], /, *args: P.args, **kwargs: P.kwargs) -> T:
        timeout: float | None = kwargs.pop("timeout", None if limited else math.inf)  # type: ignore[assignment]  # the one keyword known

        def begin(left: float | None) -> Coroutine[object, object, T]:
            kwargs["timeout"] = left  # what is left of it
            return verb(self._inner, *args, **kwargs)

        return self._calls.call(begin, timeout, name=verb.__name__, raises_earlier=raises_earlier)

    wait.__name__, wait.__qualname__, wait.__module__ = verb.__name__, verb.__qualname__, "trio_stomp.blocking"
    wait.__doc__ = synchronous(inspect.getdoc(verb) or "")
    vars(wait)["__signature__"] = inspect.signature(verb)
    return wait


def like(
    verb: Callable[Concatenate[S, P], object],
) -> Callable[[Callable[Concatenate[R, Q], T]], Callable[Concatenate[R, P], T]]:
    """Give a method the parameters and the docstring of an asynchronous verb, and keep what it returns."""

    def decorate(method: Callable[Concatenate[R, Q], T]) -> Callable[Concatenate[R, P], T]:
        own = inspect.signature(method)
        shown = inspect.signature(verb).replace(return_annotation=own.return_annotation)
        # The second is for Sphinx, which reads default values in the source.
        vars(method).update(__signature__=shown, __wrapped__=verb)
        # A test compares the parameters.
        return documented(verb)(method)  # type: ignore[return-value]  # see above

    return decorate


def documented(verb: object) -> Callable[[R], R]:
    """Continue the docstring of a method with that of an asynchronous verb, after its first line."""

    def decorate(method: R) -> R:
        _, _, rest = (inspect.getdoc(verb) or "").partition("\n")
        method.__doc__ = (inspect.getdoc(method) or "") + "\n" + synchronous(rest)
        return method

    return decorate


def synchronous(text: str) -> str:
    """The docstring of the blocking counterpart."""
    for pattern, replacement in _SYNCHRONOUS:
        text = pattern.sub(replacement, text)
    return text
