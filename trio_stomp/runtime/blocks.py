"""Context managers that say how to write them, to those who forget ``with`` or ``async with``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Generic, NoReturn, ParamSpec, TypeVar

from trio_stomp.runtime.interrupts import enable_ki_protection

__all__ = ["sync_context", "with_usage"]

P = ParamSpec("P")
T = TypeVar("T")
M = TypeVar("M")


class _Hints(Generic[M]):
    """Holds a context manager, and says how to write it.

    The hints are hidden from type checkers, which report the same mistakes by themselves.

    Args:
        manager: The context manager.
        call: The call that made it, as in ``connect()``.
        usage: How to write it.
    """

    __slots__ = ("_call", "_manager", "_usage")

    _kind: ClassVar[str]

    def __init__(self, manager: M, call: str, usage: str) -> None:
        self._manager = manager
        self._call = call
        self._usage = usage

    if not TYPE_CHECKING:

        def __await__(self) -> NoReturn:
            raise TypeError(f"{self._call} cannot be awaited: it is {self._kind}. Write: {self._usage}")

        def __iter__(self) -> NoReturn:
            raise TypeError(f"{self._call} cannot be iterated: it is {self._kind}. Write: {self._usage}")

        __next__ = __aiter__ = __anext__ = __iter__

        def __getattr__(self, name: str) -> NoReturn:
            if name in _Hints.__slots__:
                # Those of a copy that is not made yet.
                raise AttributeError(name)
            raise AttributeError(f"{self._call} has no attribute {name!r}: it is {self._kind}. Write: {self._usage}")


class _WithUsage(_Hints[AbstractAsyncContextManager[T, bool | None]], AbstractAsyncContextManager[T]):
    """Enters and leaves another context manager, which contextlib may have made: its functions are not protected."""

    __slots__ = ()

    _kind = "an async context manager"

    @enable_ki_protection
    async def __aenter__(self) -> T:
        """Enter it.

        Cancellation: as that of the other one.
        """
        return await self._manager.__aenter__()

    @enable_ki_protection
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        """Leave it.

        Cancellation: as that of the other one.
        """
        return await self._manager.__aexit__(kind, error, trace)  # noqa: ASYNC102  # it decides what it shields

    if not TYPE_CHECKING:

        def __enter__(self) -> NoReturn:
            raise TypeError(f"{self._call} requires 'async with': it is {self._kind}. Write: {self._usage}")

        def __exit__(self, *_: object) -> None:
            """Complete the pair: without it, Python complains before `__enter__` can."""


class _Block(_Hints[AbstractContextManager[T, bool | None]], AbstractContextManager[T]):
    """Enters and leaves another context manager."""

    __slots__ = ()

    _kind = "a context manager"

    def __enter__(self) -> T:
        """Enter it."""
        return self._manager.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        """Leave it."""
        return self._manager.__exit__(kind, error, trace)

    if not TYPE_CHECKING:

        def __aenter__(self) -> NoReturn:
            raise TypeError(f"{self._call} is not async: it is {self._kind}. Write: {self._usage}")

        def __aexit__(self, *_: object) -> None:
            """Complete the pair: without it, Python complains before `__aenter__` can."""


def with_usage(
    manager: AbstractAsyncContextManager[T, bool | None], call: str, usage: str
) -> AbstractAsyncContextManager[T]:
    """The same context manager, with hints for those who forget ``async with``."""
    return _WithUsage(manager, call, usage)


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
