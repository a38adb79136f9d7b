"""What came of something that the trio thread does for another thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Outcome"]

T = TypeVar("T")


class Outcome(Generic[T]):
    """What a call returned or raised, set once, for any thread.

    It does what the bridge needs of a ``concurrent.futures.Future``, in a tenth of the time. That one makes a lock and
    holds it in each method, which would be 10 % of the processor time of a confirmed send. Here, operations on lists,
    which are atomic, take the place of the lock.
    """

    __slots__ = ("_callbacks", "_error", "_is_done", "_values")

    def __init__(self) -> None:
        self._values: list[T] = []
        self._error: BaseException | None = None
        self._is_done = False
        self._callbacks: list[Callable[[Outcome[T]], object]] = []

    def done(self) -> bool:
        """Whether it is set."""
        return self._is_done

    def result(self) -> T:
        """Return or raise what came of it, once it is done."""
        if self._error is not None:
            try:
                raise self._error
            finally:
                # An exception that is reachable from its own traceback is garbage that only a collection frees.
                del self
        return self._values[0]

    def exception(self) -> BaseException | None:
        """Return what it raised, if it did, once it is done."""
        return self._error

    def set_result(self, value: T) -> None:
        """It returned this."""
        self._check()
        self._values.append(value)
        self._end()

    def set_exception(self, error: BaseException) -> None:
        """It raised this."""
        self._check()
        self._error = error
        self._end()

    def add_done_callback(self, function: Callable[[Outcome[T]], object]) -> None:
        """Call a function when it is done: in the thread that sets it, or here if it is done already."""
        callbacks = self._callbacks
        callbacks.append(function)
        if self._is_done:
            # If it was set right now, both threads come here for the function. The one that removes it calls it.
            try:
                callbacks.remove(function)
            except ValueError:
                return
            function(self)

    def _check(self) -> None:
        if self._is_done:
            raise AssertionError(self)

    def _end(self) -> None:
        self._is_done = True
        callbacks = self._callbacks
        while callbacks:
            try:
                function = callbacks.pop(0)
            except IndexError:
                return  # the thread that has just added it calls it
            function(self)
