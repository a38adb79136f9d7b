"""The wire log: every frame of a connection, shortened and without secrets, at DEBUG under ``trio_stomp.wire``.

The level is looked up once for each connection. If it is not DEBUG, the log costs nothing.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable
from typing import Final

from trio_stomp.protocol import (
    ClientEvent,
    Decoder,
    Limits,
    MessagesReceived,
    ReceiptsReceived,
    Role,
    Secrets,
    Version,
    Violation,
)
from trio_stomp.session.outbox import Outbox

__all__ = ["LoggedOutbox", "WireLog", "wire_log"]

logger: Final = logging.getLogger("trio_stomp.wire")

_NONE: Final = Secrets()
# The frames are ours: show them, whatever they contain.
_NO_LIMITS: Final = Limits(header_line_bytes=sys.maxsize, header_count=sys.maxsize, body_bytes=sys.maxsize)


def wire_log(endpoint: object, version: Version | None, secrets: Secrets = _NONE) -> WireLog | None:
    """Return the log of a connection, or None if the level of its logger is not DEBUG.

    Args:
        endpoint: The broker, without user and passcode.
        version: The STOMP version; None during the handshake.
        secrets: What no line may show.
    """
    return WireLog(endpoint, version, secrets) if logger.isEnabledFor(logging.DEBUG) else None


class WireLog:
    """The log of one connection; see `wire_log`."""

    def __init__(self, endpoint: object, version: Version | None, secrets: Secrets = _NONE) -> None:
        self._endpoint = endpoint
        self._version = version
        self._secrets = secrets

    def _log(self, text: str, what: object) -> None:
        logger.debug(text, self._endpoint, self._secrets.masked_quotation(str(what)))

    def sent(self, data: bytes) -> None:
        """Log a frame or heart-beat to the broker."""
        frames = Decoder(role=Role.SERVER, version=self._version, limits=_NO_LIMITS).receive_data(data)
        for frame in frames:
            self._log("to %s: %s", frame)
        if not frames:
            logger.debug("to %s: heart-beat", self._endpoint)

    def sent_head(self, head: bytes, body_bytes: int) -> None:
        """Log a frame to the broker whose body of that length follows piece by piece."""
        # As if it had no body.
        whole = head[: head.rindex(b"content-length:")] + b"\n\0"
        for frame in Decoder(role=Role.SERVER, version=self._version, limits=_NO_LIMITS).receive_data(whole):
            self._log("to %s: %s", f"{frame} {body_bytes} bytes, piece by piece")

    def received(self, events: Iterable[ClientEvent]) -> None:
        """Log a chunk of input."""
        for event in events:
            if isinstance(event, MessagesReceived):
                for frame in event.frames:
                    self._log("from %s: %s", frame)
            elif isinstance(event, ReceiptsReceived):
                for receipt_id in event.receipt_ids:
                    self._log("from %s: %s", f"RECEIPT {receipt_id}")
            elif isinstance(event, Violation):
                self._log("from %s: invalid input: %s", event.error)
            else:
                self._log("from %s: %s", event.frame)


class LoggedOutbox(Outbox):
    """An outbox that logs what is put into it."""

    def __init__(self, high_water_bytes: int, wake_reader: Callable[[], None], log: WireLog) -> None:
        super().__init__(high_water_bytes, wake_reader)
        self._log = log

    def append(self, frame: bytes, *, written: int = 0) -> None:
        """Add a whole frame, and log it."""
        self._log.sent(frame)
        super().append(frame, written=written)
