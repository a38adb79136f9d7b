"""Where Ctrl-C may strike: in functions of the program, and nowhere in this library.

Theory of operation. Trio raises KeyboardInterrupt in whatever the main thread executes, between any two instructions,
unless a function on the stack is protected: then it is raised at the next checkpoint of the main task, like a
cancellation. In the midst of the library it would do harm. The reader would lose input that a program goes on without,
a lock would stay held, and a task that has ended would be woken, which Trio takes for a bug of its own.

So all functions of the library are protected (`protect`). That costs nothing until Ctrl-C comes: only then does Trio
look at the functions on the stack. The library calls functions of the program through `called`, `awaited` and
`iterated`, which are not protected, because an endless loop in a handler must be interruptible. It lets what they raise
through, whatever that is.

A program on asyncio never imports Trio, which takes longer than the rest of this library. So what is to be protected is
noted here, and `tell_trio` tells it to Trio when the first client is about to be opened there.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import CodeType, FunctionType, ModuleType
from typing import ParamSpec, Protocol, TypeVar
from weakref import WeakSet

__all__ = [
    "awaited",
    "called",
    "completed",
    "enable_ki_protection",
    "iterated",
    "protect",
    "surrounded",
    "tell_trio",
]

P = ParamSpec("P")
T = TypeVar("T")


class _HasCode(Protocol):
    """A function."""

    __code__: CodeType


F = TypeVar("F", bound=_HasCode)

# What Trio was not told yet: functions, protected or not, and packages whose functions all are.
_noted: list[tuple[_HasCode, bool]] = []
_packages: list[str] = []
_is_told = False


def enable_ki_protection(function: F) -> F:
    """Decorate a function in which Ctrl-C is to be held back."""
    _note(function, True)  # noqa: FBT003  # the two of them differ in nothing else
    return function


def disable_ki_protection(function: F) -> F:
    """Decorate a function in which it is not, although that of its caller is."""
    _note(function, False)  # noqa: FBT003  # as above
    return function


def _note(function: _HasCode, protected: bool) -> None:  # noqa: FBT001  # as above
    if not _is_told:
        _noted.append((function, protected))
        return
    import trio  # noqa: PLC0415  # see above

    (trio.lowlevel.enable_ki_protection if protected else trio.lowlevel.disable_ki_protection)(function)


def tell_trio() -> None:
    """Protect what was noted, and from now on at once."""
    global _is_told  # noqa: PLW0603  # set once, when Trio is there
    _is_told = True
    for function, protected in _noted:
        _note(function, protected)
    protect(*_packages)
    _noted.clear()
    _packages.clear()


# Python drops what the callback of a weak reference raises, and Ctrl-C with it. Trio has all async generators in such a
# set, so that one is called at the end of each block that contextlib has made. All sets share this code.
enable_ki_protection(vars(WeakSet[object]())["_remove"])


@disable_ki_protection
def called(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function of the program."""
    return function(*args, **kwargs)


@disable_ki_protection
async def awaited(awaitable: Awaitable[T]) -> T:
    """Await something of the program's.

    Cancellation: up to the program.
    """
    return await awaitable


@disable_ki_protection
async def surrounded(
    managers: Iterable[AbstractAsyncContextManager[object]], function: Callable[[], Awaitable[object]]
) -> None:
    """Await a function within context managers of the program's, the first one outermost.

    Cancellation: up to the program.
    """
    async with AsyncExitStack() as stack:
        for each in managers:
            await stack.enter_async_context(each)
        await function()


async def completed(awaitable: Awaitable[T]) -> T:
    """`awaited`, where a cancellation without a request counts as an error of the program.

    On asyncio, whatever awaits a canceled task or future raises CancelledError. A task of this library would end as if
    it had been canceled itself, and nothing would tell.

    Raises:
        RuntimeError: It raised CancelledError, and this task was not canceled.

    Cancellation: up to the program.
    """
    try:
        return await awaited(awaitable)
    except _cancellation_of_asyncio() as error:
        if _is_canceled():
            raise
        # It is no cancellation of this task.
        raise RuntimeError("it raised CancelledError, although nothing has canceled it") from error


def _cancellation_of_asyncio() -> type[BaseException] | tuple[()]:
    """The class that asyncio cancels with, if that is imported."""
    asyncio = sys.modules.get("asyncio")
    return () if asyncio is None else asyncio.CancelledError


def _is_canceled() -> bool:
    """Whether this task of asyncio is being canceled."""
    asyncio = sys.modules["asyncio"]
    loop = asyncio._get_running_loop()  # noqa: SLF001  # documented for such use
    task = None if loop is None else asyncio.current_task(loop)
    return task is not None and task.cancelling() > 0


@disable_ki_protection
def iterated(items: Iterable[T]) -> Iterator[T]:
    """Iterate over something of the program's."""
    yield from items


# --- packages ---------------------------------------------------------------------------------------------------------


def protect(*packages: str) -> None:
    """Protect the functions of packages, as far as they are imported, except for those of this module."""
    if not _is_told:
        _packages.extend(packages)
        return
    for name, module in list(sys.modules.items()):
        if name.startswith(packages) and name != __name__:
            for function in _functions_of(module):
                _protect_with_inner(function.__code__)


def _protect_with_inner(code: CodeType) -> None:
    enable_ki_protection(_WithCode(code))
    for constant in code.co_consts:
        # A task may begin in a function that is defined in another one, with nothing protected around it.
        if isinstance(constant, CodeType):
            _protect_with_inner(constant)


class _WithCode:
    def __init__(self, code: CodeType) -> None:
        self.__code__ = code


def _functions_of(module: ModuleType) -> Iterator[FunctionType]:
    """Find the functions and methods that a module defines."""
    found = list(vars(module).values())
    found += [
        member
        for each in found
        if isinstance(each, type) and each.__module__ == module.__name__
        for member in vars(each).values()
    ]
    for each in found:
        function = _function_of(each)
        # Not what a decorator of another library has put in its place, nor what is imported.
        if isinstance(function, FunctionType) and function.__globals__ is vars(module):
            yield function


def _function_of(member: object) -> object:
    if isinstance(member, property):
        return member.fget
    method: object = getattr(member, "__func__", member)  # of a class method
    return inspect.unwrap(method) if callable(method) else None
