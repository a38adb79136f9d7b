"""Context managers for synchronous code that say how to write them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Final, Generic, NoReturn, ParamSpec, TypeVar

__all__ = ["sync_context"]

P = ParamSpec("P")
T = TypeVar("T")

_SYNCHRONOUS: Final = "it is a context manager"


class _Block(AbstractContextManager[T], Generic[T]):
    """Enters and leaves another context manager.

    The hints are hidden from type checkers, which report the same mistakes by themselves.

    Args:
        manager: The context manager.
        call: The call that made it, as in ``connect()``.
        usage: How to write it.
    """

    __slots__ = ("_call", "_manager", "_usage")

    def __init__(self, manager: AbstractContextManager[T, bool | None], call: str, usage: str) -> None:
        self._manager = manager
        self._call = call
        self._usage = usage

    def __enter__(self) -> T:
        """Enter it."""
        return self._manager.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        """Leave it."""
        return self._manager.__exit__(kind, error, trace)

    if not TYPE_CHECKING:

        def __iter__(self) -> NoReturn:
            raise TypeError(f"{self._call} cannot be iterated: {_SYNCHRONOUS}. Write: {self._usage}")

        __next__ = __iter__

        def __aenter__(self) -> NoReturn:
            raise TypeError(f"{self._call} is not async: {_SYNCHRONOUS}. Write: {self._usage}")

        def __aexit__(self, *_: object) -> None:
            """Complete the pair: without it, Python complains before `__aenter__` can."""

        __await__ = __aiter__ = __aenter__

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(f"{self._call} has no attribute {name!r}: {_SYNCHRONOUS}. Write: {self._usage}")


def sync_context(
    call: str, usage: str
) -> Callable[[Callable[P, Generator[T]]], Callable[P, AbstractContextManager[T]]]:
    """Decorate a generator function as `contextlib.contextmanager` does, with hints for those who forget ``with``."""

    def decorate(function: Callable[P, Generator[T]]) -> Callable[P, AbstractContextManager[T]]:
        manager = contextmanager(function)

        @functools.wraps(function)
        def make(*args: P.args, **kwargs: P.kwargs) -> AbstractContextManager[T]:
            return _Block(manager(*args, **kwargs), call, usage)

        return make

    return decorate
