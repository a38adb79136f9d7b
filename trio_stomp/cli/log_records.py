"""Log records on the standard error output, with ``--verbose``."""

from __future__ import annotations

import logging
from types import TracebackType

from trio_stomp.printable import harmless, one_line

__all__ = ["RecordFormatter"]


class RecordFormatter(logging.Formatter):
    """Formats records that may hold text of a broker: one line each, and the lines of a traceback indented."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # logging's name
        """Make the line of a record."""
        return one_line(super().formatMessage(record))

    def formatException(  # noqa: N802  # logging's name
        self,
        ei: tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None],
    ) -> str:
        """Make the lines of a traceback."""
        return "    " + harmless(super().formatException(ei)).replace("\n", "\n    ")
