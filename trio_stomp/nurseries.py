"""One rule for what leaves a block that has background tasks: the user's exception, and nothing in its place.

Theory of operation. A nursery wraps what its block raises in a group, copies a group to take a Cancelled out of it, and
adds a Cancelled of its own when a scope around it is cancelled while it waits for its tasks. A library that keeps a
nursery open behind ``async with`` must hide all three, or ``except ValueError`` around the block would depend on it. So
the exception of the block is carried around the nursery, and `leaving` decides once what leaves:

=================  ==============================  ==========================================================
the block raised   the background tasks raised     what leaves
=================  ==============================  ==========================================================
nothing            nothing                         nothing
an exception       nothing, or only Cancelled      that same object: the cancelled scope needs no second one
nothing            one exception, however nested   that exception
nothing            only Cancelled                  one of them
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
    """What leaves a block that had background tasks; see the table of this module.

    Args:
        own: What the block raised.
        group: What its nursery raised; what the block raised may be among it.
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
    """The one exception in a group, or the first of several Cancelled; the group where there is more to tell."""
    leaves: list[BaseException] = []

    def look(error: BaseException) -> bool:
        if not isinstance(error, BaseExceptionGroup):
            leaves.append(error)
        return False

    group.subgroup(look)
    return leaves[0] if len(leaves) == 1 or all(isinstance(leaf, trio.Cancelled) for leaf in leaves) else group


@asynccontextmanager
async def open_background_nursery() -> AsyncGenerator[trio.Nursery]:
    """Open a nursery for tasks that serve a block; they are cancelled when the block ends.

    Yields:
        The nursery.

    Raises:
        BaseException: What the block raised, as that same object. Together with what a task raised, in a group.

    Cancellation: the tasks are cancelled, and awaited.
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
                    # A task has ended with an exception, and that cancelled the block. Only the nursery can tell its
                    # own Cancelled from one that belongs to a scope around it.
                    raise
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as caught:
        group = caught
    if passed_through and (group is None or all(member is not own for member in group.exceptions)):
        # The nursery has taken its Cancelled out of it; what was left of it, if anything, is in the group.
        own = None
    # Outside of the handlers, so that it keeps the context that it came with.
    left = leaving(own, group)
    if left is not None:
        try:
            raise left
        finally:
            # An exception that is reachable from its own traceback is garbage that only a collection frees.
            del own, group, left
