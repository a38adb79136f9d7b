"""What kind of function a handler is, found out before it gets a message.

A handler of the wrong kind would fail with each message, or do nothing and have each acknowledged; on an idle queue
that would go unnoticed for hours. Most functions show what they return; the rest is seen at the first message.
"""

from __future__ import annotations

import dis
import functools
import inspect
from types import FunctionType

from trio_stomp.printable import name_of

__all__ = ["require_async", "require_plain"]


def require_async(handler: object, in_thread: str) -> None:
    """Refuse a handler whose result can certainly not be awaited.

    Args:
        handler: A function, method, partial or callable object. One that returns an awaitable need not be an
            ``async def``.
        in_thread: How to run a function that blocks, for the error.

    Raises:
        TypeError: It is not async.
    """
    function = _called(handler)
    if inspect.iscoroutinefunction(function):
        return
    if not callable(handler):
        raise TypeError(f"work() needs an async function as its handler, got {name_of(handler)}")
    if _does_nothing(function) or (isinstance(function, FunctionType) and _returns_only_none(function)):
        raise TypeError(
            f"handler {name_of(handler)} is not async: write 'async def', or for a function that blocks: "
            f"work(lambda message: {in_thread})"
        )


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


def _returns_only_none(function: FunctionType) -> bool:
    """Whether each way out of a function returns None, so that the code alone says that there is nothing to await."""
    was_none = False
    for each in dis.get_instructions(function):
        # From Python 3.12 to 3.13, one instruction loads and returns a constant.
        is_none = each.opname in ("LOAD_CONST", "RETURN_CONST") and each.argval is None
        if (each.opname == "RETURN_VALUE" and not was_none) or (each.opname == "RETURN_CONST" and not is_none):
            return False
        was_none = is_none
    return True
