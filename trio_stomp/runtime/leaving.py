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

import anyio

__all__ = ["leaving"]


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
    others = group.derive(besides).split(anyio.get_cancelled_exc_class())[1] if besides else None
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
    return (
        leaves[0]
        if len(leaves) == 1 or all(isinstance(leaf, anyio.get_cancelled_exc_class()) for leaf in leaves)
        else group
    )
