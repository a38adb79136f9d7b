"""The status of a receiver: an object in the spool that it writes every few seconds, and that anybody may read."""

from __future__ import annotations

import enum
from dataclasses import asdict, dataclass
from typing import Final

from trio_stomp.spark.spool_store import SpoolDamaged, SpoolStore

__all__ = ["SILENT_SECONDS", "ReceiverState", "ReceiverStatus", "read_status", "write_status"]

# A receiver writes its status every five seconds. One that has not for this long counts as gone.
SILENT_SECONDS: Final = 30.0


class ReceiverState(enum.Enum):
    """What a receiver is doing.

    Attributes:
        CONNECTING: It has no connection.
        RECEIVING: Messages come.
        IDLE: It is connected, and none come.
        FULL: The spool has `maxSpoolBytes`.
        BLOCKED: It cannot write to the spool, and takes nothing.
        ENDED: It was stopped.
        FAILED: It has failed; `text` says how.
        SILENT: It has said nothing for half a minute: it was killed or suspended, or cannot reach the spool.
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
        """Those that a receiver does not leave."""
        return (cls.ENDED, cls.FAILED)


_STATES: Final = frozenset(each.value for each in ReceiverState)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverStatus:
    """The status of one receiver.

    Attributes:
        shard: The shard that it writes.
        state: What it is doing.
        host: Its machine.
        pid: Its process there.
        broker: What the broker calls itself.
        rows: How many rows it has written.
        redelivered: How many of them the broker had marked as delivered before.
        rate: Rows a second, in the last seconds.
        started: When it began, in seconds since 1970.
        last_message: When the last message came; 0 if none has.
        idle: For how many seconds there was a connection, and no message.
        text: The last error, with the words of the broker.
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


def write_status(store: SpoolStore, status: ReceiverStatus) -> None:
    """Write a status.

    Raises:
        SpoolError: It cannot be written.
    """
    values = {**asdict(status), "state": status.state.value}
    store.put_json(f"status/{status.shard}.json", values, durable=False)


def read_status(store: SpoolStore, shard: str) -> ReceiverStatus | None:
    """The status of the receiver of a shard; None if there is none, or it has another layout.

    Raises:
        SpoolError: It cannot be read.
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
