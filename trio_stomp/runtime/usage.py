"""Async context managers that say how to use them when they are awaited, iterated or used directly."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Final, NoReturn, TypeVar

from trio_stomp.runtime.interrupts import ProtectedContext

__all__ = ["with_usage"]

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
