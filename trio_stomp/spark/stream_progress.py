"""The progress of the receivers, reported by their threads to the one that Spark calls."""

from __future__ import annotations

import threading

__all__ = ["Progress"]


class Progress:
    """The progress of receivers. One thread waits for it, any number of others report."""

    def __init__(self) -> None:
        self._news = 0
        self._idle: set[int] = set()
        self._failure: Exception | None = None
        self._changed = threading.Condition()

    # --- told by the receivers ----------------------------------------------------------------------------------------

    def wrote(self, receiver: int) -> None:
        """A receiver has written rows."""
        with self._changed:
            self._news += 1
            self._idle.discard(receiver)
            self._changed.notify_all()

    def idle(self, receiver: int) -> None:
        """A receiver has received nothing for a while."""
        with self._changed:
            self._idle.add(receiver)
            self._changed.notify_all()

    def failed(self, failure: Exception) -> None:
        """A receiver has ended for good; the first failure is kept."""
        with self._changed:
            self._failure = self._failure or failure
            self._changed.notify_all()

    # --- asked by Spark's thread --------------------------------------------------------------------------------------

    @property
    def news(self) -> int:
        """How often rows were written."""
        with self._changed:
            return self._news

    @property
    def failure(self) -> Exception | None:
        """Why a receiver has ended."""
        with self._changed:
            return self._failure

    def is_idle(self, receivers: int) -> bool:
        """Return whether at least this number of receivers is idle."""
        with self._changed:
            return len(self._idle) >= receivers

    def wait(self, known: int, timeout: float, idle_receivers: int | None = None) -> None:
        """Wait until rows are written, a receiver fails, or enough receivers are idle.

        Args:
            known: The value of `news` that the caller has seen.
            timeout: Maximum seconds to wait.
            idle_receivers: How many must be idle; None: does not matter.
        """

        def over() -> bool:
            is_idle = idle_receivers is not None and len(self._idle) >= idle_receivers
            return self._failure is not None or self._news != known or is_idle

        with self._changed:
            self._changed.wait_for(over, timeout)
