"""The status of a receiver: an object in the spool that it writes every few seconds. Any process may read it."""

from __future__ import annotations

import enum
import os
import socket
from dataclasses import asdict, dataclass
from typing import Final

from trio_stomp.spark.spool_store import SpoolDamaged, SpoolStore

__all__ = ["SILENT_SECONDS", "ReceiverState", "ReceiverStatus", "read_status", "write_status"]

# A receiver writes its status every five seconds. After this time without one, it is considered gone.
SILENT_SECONDS: Final = 30.0


class ReceiverState(enum.Enum):
    """What a receiver is doing.

    Attributes:
        CONNECTING: It is not connected.
        RECEIVING: It is connected, and messages arrive.
        IDLE: It is connected, and no messages arrive.
        FULL: The spool has reached `maxSpoolBytes`, so it receives nothing.
        BLOCKED: It cannot write to the spool, so it receives nothing.
        ENDED: It was stopped.
        FAILED: It has failed; `text` is the error.
        SILENT: It has not written its status for 30 seconds: it was killed or suspended, or cannot reach the spool.
    """

    CONNECTING = "connecting"
    RECEIVING = "receiving"
    IDLE = "idle"
    FULL = "spool full"
    BLOCKED = "cannot write"
    ENDED = "ended"
    FAILED = "failed"
    SILENT = "silent"

    @classmethod
    def over(cls) -> tuple[ReceiverState, ...]:
        """Return the final states."""
        return (cls.ENDED, cls.FAILED)


_STATES: Final = frozenset(each.value for each in ReceiverState)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverStatus:
    """The status of one receiver.

    Attributes:
        shard: The shard that it writes to.
        state: What it is doing.
        host: The name of its machine.
        pid: The id of its process.
        broker: The broker's name and version.
        rows: The number of rows that it has written.
        redelivered: How many of them the broker had marked as redelivered.
        rate: Rows per second, in the last seconds.
        started: When it started, in seconds since 1970.
        last_message: When the last message arrived; 0 if none has.
        idle: For how many seconds it has been connected without receiving a message.
        text: The last error, with the text of the broker.
    """

    shard: str
    state: ReceiverState = ReceiverState.CONNECTING
    host: str = ""
    pid: int = 0
    broker: str = ""
    rows: int = 0
    redelivered: int = 0
    rate: float = 0.0
    started: float = 0.0
    last_message: float = 0.0
    idle: float = 0.0
    text: str = ""

    def is_over(self) -> bool:
        """Return whether the receiver has ended, or its process has. That is only known on the same machine."""
        if self.state in ReceiverState.over():
            return True
        if self.host != socket.gethostname():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        return False


def write_status(store: SpoolStore, status: ReceiverStatus) -> None:
    """Write a status.

    Raises:
        SpoolError: The spool cannot be written to.
    """
    values = {**asdict(status), "state": status.state.value}
    store.put_json(f"status/{status.shard}.json", values, durable=False)


def read_status(store: SpoolStore, shard: str) -> ReceiverStatus | None:
    """Return the status of the receiver of a shard; None if there is none, it is damaged, or it has another layout.

    Raises:
        SpoolError: The spool cannot be read.
    """
    try:
        found = store.get_json(f"status/{shard}.json")
    except SpoolDamaged:
        return None
    match found:
        case {
            "state": str(state),
            "host": str(host),
            "pid": int(pid),
            "broker": str(broker),
            "rows": int(rows),
            "redelivered": int(redelivered),
            "rate": float() | int() as rate,
            "started": float() | int() as started,
            "last_message": float() | int() as last_message,
            "idle": float() | int() as idle,
            "text": str(text),
        } if state in _STATES:
            return ReceiverStatus(
                shard=shard,
                state=ReceiverState(state),
                host=host,
                pid=pid,
                broker=broker,
                rows=rows,
                redelivered=redelivered,
                rate=rate,
                started=started,
                last_message=last_message,
                idle=idle,
                text=text,
            )
        case _:
            return None
