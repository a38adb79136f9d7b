"""Waiting for what a query does."""

from __future__ import annotations

import time
from collections.abc import Callable

from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["wait_until"]

PATIENCE = 240


def wait_until(query: StreamingQuery | None, done: Callable[[], bool]) -> None:
    """Wait until something is as expected; fail when the query does, if there is one."""
    deadline = time.monotonic() + PATIENCE
    while not done():
        failure = None if query is None else query.exception()
        assert failure is None, failure
        assert time.monotonic() < deadline
        time.sleep(0.2)
