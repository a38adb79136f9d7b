"""What the receivers have done, told from their threads to the one that Spark calls."""

from __future__ import annotations

import threading
from collections.abc import Callable

from trio_stomp.spark.stream_offsets import Offsets

__all__ = ["Progress"]


class Progress:
    """How far each shard is; one thread waits, any number of others tell.

    Args:
        last: The newest row of each shard that there is when it begins.
    """

    def __init__(self, last: Offsets) -> None:
        self._last = dict(last)
        self._idle: set[str] = set()
        self._failure: Exception | None = None
        self._changed = threading.Condition()

    # --- told by the receivers ----------------------------------------------------------------------------------------

    def reached(self, shard: str, last: int) -> None:
        """A shard has rows up to this one, on the disk and acknowledged."""
        with self._changed:
            self._last[shard] = max(last, self._last.get(shard, 0))
            self._idle.discard(shard)
            self._changed.notify_all()

    def idle(self, shard: str) -> None:
        """Nothing has come for a shard for a while."""
        with self._changed:
            self._idle.add(shard)
            self._changed.notify_all()

    def failed(self, failure: Exception) -> None:
        """A receiver has ended for good; the first failure counts."""
        with self._changed:
            self._failure = self._failure or failure
            self._changed.notify_all()

    # --- asked by Spark's thread --------------------------------------------------------------------------------------

    @property
    def last(self) -> Offsets:
        """The newest row of each shard."""
        with self._changed:
            return dict(self._last)

    @property
    def failure(self) -> Exception | None:
        """Why a receiver has ended."""
        with self._changed:
            return self._failure

    def wait(self, start: Offsets, timeout: float, enough: Callable[[set[str]], bool] | None = None) -> bool:
        """Wait for rows beyond `start`, or a failure.

        Args:
            start: The rows that are known.
            timeout: Seconds to wait at most.
            enough: Ends the waiting too, given the shards that are idle.

        Returns:
            Whether there are such rows.
        """

        def over() -> bool:
            return self._failure is not None or self._beyond(start) or (enough is not None and enough(self._idle))

        with self._changed:
            self._changed.wait_for(over, timeout)
            return self._beyond(start)

    def _beyond(self, start: Offsets) -> bool:
        return any(number > start.get(shard, 0) for shard, number in self._last.items())
