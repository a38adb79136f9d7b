"""What functions that return an async context manager have in common: hints on their use, and shared docstrings."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, ParamSpec, TypeVar

from trio_stomp.runtime import enable_ki_protection, prepare, with_usage

__all__ = ["async_context", "with_arguments_of"]

P = ParamSpec("P")
T = TypeVar("T")


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
            return with_usage(manager(*args, **kwargs), call, usage)

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
