"""The status of a receiver: an object in the spool that it writes every few seconds. Any process may read it."""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Final

from trio_stomp.spark.process_identity import has_certainly_ended
from trio_stomp.spark.spool_store import SpoolDamaged, SpoolStore

__all__ = ["SILENT_SECONDS", "ReceiverState", "ReceiverStatus", "StatusWatch", "read_status", "write_status"]

# A receiver writes its status every five seconds. After this time without one, it is considered gone.
SILENT_SECONDS: Final = 30.0
# A status that is this old by the clock of the store need not be watched first.
_OLD_SECONDS: Final = 600.0


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
        process: What distinguishes its process from all others on all machines; empty if unknown.
        spool: The id of the spool that it writes to.
        broker: The broker's name and version.
        rows: The number of rows that it has written.
        confirmed: The number of the last row whose acknowledgment the broker has confirmed.
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
    process: str = ""
    spool: str = ""
    broker: str = ""
    rows: int = 0
    confirmed: int = 0
    redelivered: int = 0
    rate: float = 0.0
    started: float = 0.0
    last_message: float = 0.0
    idle: float = 0.0
    text: str = ""

    def is_over(self) -> bool:
        """Return whether the receiver has ended, or its process certainly has. That is only known on its machine."""
        return self.state in ReceiverState.over() or has_certainly_ended(self.process)


class StatusWatch:
    """Which receivers have not written their status for a while.

    That is decided by whether a status changes while it is watched: the clock of the store, by which its age is known,
    may differ from that of this machine. Only what is very old need not be watched.
    """

    def __init__(self, store_time: Callable[[], float], monotonic: Callable[[], float] = time.monotonic) -> None:
        self._store_time = store_time
        self._monotonic = monotonic
        # For each shard: when its status was written, and since when that is known.
        self._seen: dict[str, tuple[float, float]] = {}

    def silent(self, statuses: Mapping[str, float]) -> frozenset[str]:
        """Return the shards whose receivers are silent.

        Args:
            statuses: When each status was written, by the clock of the store.
        """
        now, oldest = self._monotonic(), self._store_time() - _OLD_SECONDS
        before, self._seen = self._seen, {}
        for shard, changed in statuses.items():
            then, since = before.get(shard, (changed, now))
            self._seen[shard] = (changed, since if then == changed else now)
        return frozenset(
            shard for shard, (changed, since) in self._seen.items() if changed < oldest or now - since >= SILENT_SECONDS
        )


def write_status(store: SpoolStore, status: ReceiverStatus, *, durable: bool = False) -> None:
    """Write a status.

    Args:
        store: The spool.
        status: The status.
        durable: Whether to wait until it is on the disk. The first one must be there before any segment: a shard
            without a status is one that someone has deleted.
    """
    values = {**asdict(status), "state": status.state.value}
    store.put_json(f"status/{status.shard}.json", values, durable=durable)


def read_status(store: SpoolStore, shard: str) -> ReceiverStatus | None:
    """Return the status of the receiver of a shard; None if there is none, it is damaged, or it has another layout."""
    try:
        found = store.get_json(f"status/{shard}.json")
    except SpoolDamaged:
        return None
    match found:
        case {
            "state": str(state),
            "host": str(host),
            "pid": int(pid),
            "process": str(process),
            "spool": str(spool),
            "broker": str(broker),
            "rows": int(rows),
            "confirmed": int(confirmed),
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
                process=process,
                spool=spool,
                broker=broker,
                rows=rows,
                confirmed=confirmed,
                redelivered=redelivered,
                rate=rate,
                started=started,
                last_message=last_message,
                idle=idle,
                text=text,
            )
        case _:
            return None
