"""Context managers that say how to write them to those who forget ``with`` or ``async with``."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Generic, NoReturn, ParamSpec, TypeVar

from trio_stomp.runtime import protected_context, with_usage

__all__ = ["async_context", "context"]

P = ParamSpec("P")
T = TypeVar("T")


class _Context(AbstractContextManager[T], Generic[T]):
    """Enters and leaves another context manager.

    The hints are hidden from type checkers, which report the same mistakes by themselves.

    Args:
        manager: The context manager.
        call: The call that made it, as in ``run_broker_in_thread()``.
        usage: How to write it.
    """

    __slots__ = ("_hint", "_manager")

    def __init__(self, manager: AbstractContextManager[T, bool | None], call: str, usage: str) -> None:
        self._manager = manager
        self._hint = f"{call} requires 'with': it is a context manager. Write: {usage}"

    def __enter__(self) -> T:
        return self._manager.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return self._manager.__exit__(kind, error, trace)

    if not TYPE_CHECKING:

        async def __aenter__(self) -> NoReturn:
            """Cancellation: no cancellation point."""
            raise TypeError(self._hint)

        async def __aexit__(self, *_: object) -> None:
            """Complete the pair, as above.

            Cancellation: no cancellation point.
            """

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(self._hint)


def async_context(
    call: str, usage: str
) -> Callable[[Callable[P, AsyncGenerator[T]]], Callable[P, AbstractAsyncContextManager[T]]]:
    """Decorate an async generator function as `contextlib.asynccontextmanager` does, with hints."""

    def decorate(function: Callable[P, AsyncGenerator[T]]) -> Callable[P, AbstractAsyncContextManager[T]]:
        manager = protected_context(function)

        @functools.wraps(function)
        def make(*args: P.args, **kwargs: P.kwargs) -> AbstractAsyncContextManager[T]:
            return with_usage(manager(*args, **kwargs), call, usage)

        return make

    return decorate


def context(call: str, usage: str) -> Callable[[Callable[P, Generator[T]]], Callable[P, AbstractContextManager[T]]]:
    """Decorate a generator function as `contextlib.contextmanager` does, with hints."""

    def decorate(function: Callable[P, Generator[T]]) -> Callable[P, AbstractContextManager[T]]:
        manager = contextmanager(function)

        @functools.wraps(function)
        def make(*args: P.args, **kwargs: P.kwargs) -> AbstractContextManager[T]:
            return _Context(manager(*args, **kwargs), call, usage)

        return make

    return decorate
