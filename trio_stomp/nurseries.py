"""One rule for which exception leaves a block that has background tasks: the user's own.

Theory of operation. A nursery wraps exceptions of its block in a group, copies a group to remove a `Cancelled` from it,
and adds a `Cancelled` of its own when a scope around it is canceled while it waits for its tasks. A library that keeps
a nursery open behind ``async with`` must hide all three, or ``except ValueError`` around the block would not work. So
the exception of the block is carried around the nursery, and `leaving` decides in one place what leaves:

=================  ==============================  ==========================================================
the block raised   the background tasks raised     what leaves
=================  ==============================  ==========================================================
nothing            nothing                         nothing
an exception       nothing, or only `Cancelled`    that same object: the canceled scope needs no second one
nothing            one exception, however nested   that exception
nothing            only `Cancelled`                one of them
nothing            several                         their group
an exception       something else                  a group of the block's exception and of the others
=================  ==============================  ==========================================================

Sources: trio's manual, "Designing for multiple errors"; anyio's manual, "Context managers".
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio

__all__ = ["leaving", "open_background_nursery"]


def leaving(own: BaseException | None, group: BaseExceptionGroup[BaseException] | None) -> BaseException | None:
    """Return the exception that leaves a block that had background tasks; see the table of this module.

    Args:
        own: The exception of the block.
        group: The group that its nursery raised, which may contain `own`.
    """
    if group is None:
        return own
    if own is None:
        return _only_leaf(group)
    besides = [member for member in group.exceptions if member is not own]
    others = group.derive(besides).split(trio.Cancelled)[1] if besides else None
    if others is None:
        return own
    return BaseExceptionGroup("the block and its background tasks failed", [own, *others.exceptions])


def _only_leaf(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the only exception in a group, or the first if all are `Cancelled`; otherwise the group."""
    leaves: list[BaseException] = []

    def look(error: BaseException) -> bool:
        if not isinstance(error, BaseExceptionGroup):
            leaves.append(error)
        return False

    group.subgroup(look)
    return leaves[0] if len(leaves) == 1 or all(isinstance(leaf, trio.Cancelled) for leaf in leaves) else group


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
