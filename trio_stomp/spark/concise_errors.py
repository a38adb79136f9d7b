"""Errors as users of Spark see them.

Spark puts the traceback of a Python error into the error that the user sees. The cause is its last line, below tens of
lines about the inside of this package.
"""

from __future__ import annotations

import logging
from contextlib import ContextDecorator
from types import TracebackType
from typing import Final

from trio_stomp.errors import StompError

__all__ = ["ConciseErrors"]

logger: Final = logging.getLogger("trio_stomp.spark")

# Their sentence is all that a user needs: errors of the client, of options and rows, of the spool, and of files.
# Others are faults of this package, which their traceback helps to find.
_CONCISE: Final = (StompError, ValueError, RuntimeError, OSError)


class ConciseErrors(ContextDecorator):
    """Raises errors without the traceback and the causes that they have within this package.

    Around each method that Spark calls, as a decorator; in a generator, as a context manager.
    """

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Remove the traceback of an error; it is logged at level DEBUG."""
        if isinstance(error, _CONCISE):
            logger.debug("the error in full", exc_info=error)
            raise error.with_traceback(None) from None
