"""Where a stream is to be read from when its subscription is made again.

A stream keeps what was read, and RabbitMQ does not keep how far a consumer has come: after a loss it would begin where
the user had asked to begin. The client knows better: it goes on with the oldest message that is not settled.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from trio_stomp.brokers import StreamOffset, stream_offset_of
from trio_stomp.session.message import Message, Settlement

__all__ = ["StreamPosition"]

_DONE: Final = (Settlement.ACKED, Settlement.NACKED)


class StreamPosition:
    """How far one subscription has come in a stream.

    Args:
        start: Where its user asked to begin.
    """

    def __init__(self, start: StreamOffset) -> None:
        self._next: StreamOffset = start
        self._unsettled: deque[tuple[int, Message]] = deque()

    def took(self, message: Message) -> None:
        """A consumer has taken a message."""
        offset = stream_offset_of(message.headers)
        if offset is not None:
            self._unsettled.append((offset, message))
            self._advance()

    def resume(self) -> StreamOffset:
        """Where to go on."""
        self._advance()
        return self._unsettled[0][0] if self._unsettled else self._next

    def _advance(self) -> None:
        waiting = self._unsettled
        while waiting and waiting[0][1].settlement in _DONE:
            self._next = waiting.popleft()[0] + 1
