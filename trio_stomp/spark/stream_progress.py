"""What the receivers have done, told from their threads to the one that Spark calls."""

from __future__ import annotations

import threading

__all__ = ["Progress"]


class Progress:
    """News of receivers; one thread waits, any number of others tell."""

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
        """Nothing has come for a receiver for a while."""
        with self._changed:
            self._idle.add(receiver)
            self._changed.notify_all()

    def failed(self, failure: Exception) -> None:
        """A receiver has ended for good; the first failure counts."""
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
        """Whether none of so many receivers gets anything."""
        with self._changed:
            return len(self._idle) >= receivers

    def wait(self, known: int, timeout: float, idle_receivers: int | None = None) -> None:
        """Wait for news, for a failure, or until so many receivers are idle.

        Args:
            known: The news that are known.
            timeout: Seconds to wait at most.
            idle_receivers: How many must be idle; None: that is of no interest.
        """

        def over() -> bool:
            is_idle = idle_receivers is not None and len(self._idle) >= idle_receivers
            return self._failure is not None or self._news != known or is_idle

        with self._changed:
            self._changed.wait_for(over, timeout)
