"""A nursery of trio that serves a block."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio

from trio_stomp.runtime.leaving import leaving

__all__ = ["open_background_nursery"]


@asynccontextmanager
async def open_background_nursery() -> AsyncGenerator[trio.Nursery]:
    """Open a nursery for tasks that serve a block; they are canceled when the block ends.

    Yields:
        The nursery.

    Raises:
        BaseException: The exception of the block, as that same object. If a task raised too, both in a group.

    Cancellation: the tasks are canceled and awaited.
    """
    own: BaseException | None = None
    group: BaseExceptionGroup[BaseException] | None = None
    passed_through = False
    try:
        async with trio.open_nursery() as nursery:
            try:
                yield nursery
            except BaseException as error:  # noqa: ASYNC103  # raised below, outside of the nursery
                own = error
                passed_through = nursery.cancel_scope.cancel_called
                if passed_through:
                    # A task has raised, and that canceled the block. Only the nursery can distinguish its own
                    # `Cancelled` from one that belongs to a scope around it.
                    raise
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as caught:
        group = caught
    if passed_through and (group is None or all(member is not own for member in group.exceptions)):
        # The nursery has removed its `Cancelled` from it; the rest, if any, is in the group.
        own = None
    # Outside of the handlers, so that it keeps its context.
    left = leaving(own, group)
    if left is not None:
        try:
            raise left
        finally:
            # An exception that is reachable from its own traceback is garbage that only a collection frees.
            del own, group, left
