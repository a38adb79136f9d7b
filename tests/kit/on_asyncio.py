"""Async tests that run on asyncio, whatever pytest's plugins make of other async tests."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import ParamSpec, TypeVar

__all__ = ["on_asyncio", "run_on_asyncio"]

P = ParamSpec("P")
T = TypeVar("T")

# No test waits as long unless something hangs.
_SECONDS = 60


def on_asyncio(test: Callable[P, Coroutine[object, object, None]]) -> Callable[P, None]:
    """Run a test in an event loop of asyncio's own."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        run_on_asyncio(lambda: test(*args, **kwargs))

    return run


def run_on_asyncio(
    function: Callable[[], Coroutine[object, object, T]],
    new_loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> T:
    """Run an async function in an event loop of its own, and not for ever."""

    async def main() -> T:
        async with asyncio.timeout(_SECONDS):
            return await function()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(main())
