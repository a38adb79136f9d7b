"""What kind of function a handler is, found out before it gets a message.

A handler of the wrong kind would fail with each message, or do nothing and have each acknowledged; on an idle queue
that would go unnoticed for hours.
"""

from __future__ import annotations

import functools
import inspect
from types import FunctionType
from typing import Final

from trio_stomp.printable import name_of

__all__ = ["HOW_TO_MAKE_IT_ASYNC", "is_plain", "require_async", "require_plain"]

HOW_TO_MAKE_IT_ASYNC: Final = (
    "write 'async def'; give it more arguments with functools.partial, not with a lambda; and await a function that "
    "blocks with anyio.to_thread.run_sync(function, message)"
)


def require_async(handler: object) -> None:
    """Refuse a handler that is not async.

    A callable that is not written in Python does not show it; its first message does.

    Args:
        handler: A function, method, partial or callable object.

    Raises:
        TypeError: It is not async.
    """
    function = _called(handler)
    if inspect.iscoroutinefunction(function):
        return
    if inspect.iscoroutine(handler):
        # Closed, or Python would warn that it was never awaited.
        handler.close()
        name = handler.__name__
        raise TypeError(f"work() needs an async function as its handler: write work({name}), not work({name}(...))")
    if not callable(handler):
        raise TypeError(f"work() needs an async function as its handler, got {name_of(handler)}")
    if isinstance(function, FunctionType):
        raise TypeError(f"handler {name_of(handler)} is not async: {HOW_TO_MAKE_IT_ASYNC}")


def require_plain(handler: object) -> None:
    """Refuse a handler that is async, where a plain function is called in a thread.

    Raises:
        TypeError: It is async, or not a function.
    """
    function = _called(handler)
    if not callable(handler):
        raise TypeError(f"work() needs a function as its handler, got {name_of(handler)}")
    if inspect.iscoroutinefunction(function) or _does_nothing(function):
        raise TypeError(
            f"handler {name_of(handler)} is not a plain function: work() calls it in a thread, where nothing would "
            "await what it returns. Write 'def', or use trio_stomp.connect()"
        )


def is_plain(function: object) -> bool:
    """Whether a value is a function that is not async."""
    return callable(function) and not inspect.iscoroutinefunction(_called(function))


def _called(handler: object) -> object:
    """Return the function that a call runs, beneath partials, bound methods and callable objects."""
    while not (inspect.isfunction(handler) or inspect.iscoroutinefunction(handler)):
        if isinstance(handler, functools.partial):
            handler = handler.func
        elif inspect.ismethod(handler):
            handler = handler.__func__
        elif inspect.isfunction(call := inspect.getattr_static(type(handler), "__call__", None)):
            handler = call
        else:
            break
    return handler


def _does_nothing(function: object) -> bool:
    """Whether a call only makes a generator, which nothing would iterate over."""
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
