"""Context managers that say how to use them when they are awaited, iterated or used directly."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Final, NoReturn, ParamSpec, TypeVar

from trio_stomp.runtime import ProtectedContext, enable_ki_protection, prepare

__all__ = ["async_context", "with_arguments_of", "with_usage"]

P = ParamSpec("P")
T = TypeVar("T")

_FORWARDED: Final = "it is an async context manager"


class _WithUsage(ProtectedContext[T]):
    """Enters and leaves another context manager.

    The hints are hidden from type checkers, which report the same mistakes by themselves.

    Args:
        manager: The context manager.
        call: The call that made it, as in ``connect()``.
        usage: How to write it.
    """

    __slots__ = ("_call", "_usage")

    def __init__(self, manager: AbstractAsyncContextManager[T, bool | None], call: str, usage: str) -> None:
        super().__init__(manager)
        self._call = call
        self._usage = usage

    if not TYPE_CHECKING:

        def __await__(self) -> NoReturn:
            raise TypeError(f"{self._call} cannot be awaited: {_FORWARDED}. Write: {self._usage}")

        def __enter__(self) -> NoReturn:
            raise TypeError(f"{self._call} requires 'async with': {_FORWARDED}. Write: {self._usage}")

        def __exit__(self, *_: object) -> None:
            """Complete the pair: without it, Python complains before `__enter__` can."""

        def __aiter__(self) -> NoReturn:
            raise TypeError(f"{self._call} cannot be iterated: {_FORWARDED}. Write: {self._usage}")

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(f"{self._call} has no attribute {name!r}: {_FORWARDED}. Write: {self._usage}")


def with_usage(
    manager: AbstractAsyncContextManager[T, bool | None], call: str, usage: str
) -> AbstractAsyncContextManager[T]:
    """The same context manager, with hints for those who forget ``async with``."""
    return _WithUsage(manager, call, usage)


def async_context(
    call: str, usage: str
) -> Callable[[Callable[P, AsyncGenerator[T]]], Callable[P, AbstractAsyncContextManager[T]]]:
    """Decorate an async generator function as `contextlib.asynccontextmanager` does, with hints as `with_usage` has."""

    def decorate(function: Callable[P, AsyncGenerator[T]]) -> Callable[P, AbstractAsyncContextManager[T]]:
        manager = asynccontextmanager(function)

        @functools.wraps(function)
        @enable_ki_protection  # `connect_stream` must come to close the stream that it is given
        def make(*args: P.args, **kwargs: P.kwargs) -> AbstractAsyncContextManager[T]:
            prepare()
            return _WithUsage(manager(*args, **kwargs), call, usage)

        return make

    return decorate


def with_arguments_of(source: object) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorate a function whose docstring explains only what differs: the other arguments are explained as in `source`.

    They come in the order of the signature.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        before, own, after = _parted(inspect.getdoc(function) or "")
        explained = {**_parted(inspect.getdoc(source) or "")[1], **own}
        listed = [explained[name] for name in inspect.signature(function).parameters if name in explained]
        function.__doc__ = f"{before}{_ARGS}{''.join(listed)}{after}"
        return function

    return decorate


_ARGS: Final = "Args:\n"


def _parted(doc: str) -> tuple[str, dict[str, str], str]:
    """A docstring as what comes before its arguments, the explanations of these by name, and what comes after."""
    before, _, rest = doc.partition(_ARGS)
    listed, blank, after = rest.partition("\n\n")
    entries = {
        found[1]: found[0] for found in re.finditer(r"^    (\w+):.*\n(?: {8}.*\n)*", f"{listed}\n", re.MULTILINE)
    }
    return before, entries, blank[1:] + after
