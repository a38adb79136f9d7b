"""The note that receivers on executors are wanted: an object of the spool.

Spark can kill a task, but cannot ask it to end. So receivers look for this object, and end in order when it is gone.
A driver that is killed leaves its note. Each driver renews its own every minute, and deletes old ones.
"""

from __future__ import annotations

import logging
import threading
from typing import Final

from trio_stomp.spark.spool_store import SpoolError, SpoolStore

__all__ = ["WantedNote"]

logger: Final = logging.getLogger("trio_stomp.spark")

_FOLDER: Final = "wanted"
_RENEW_SECONDS: Final = 60.0
# A driver that is suspended for longer writes its note again when it goes on, and its receivers are started again.
_STALE_SECONDS: Final = 900.0


class WantedNote:
    """A note, written by the driver.

    Args:
        store: The spool.
        name: The name of the receivers.
        about: For people who look at the spool.

    Attributes:
        name: The name of the object.

    Raises:
        SpoolError: The note cannot be written.
    """

    def __init__(self, store: SpoolStore, name: str, about: dict[str, str | float]) -> None:
        self.name = f"{_FOLDER}/{name}.json"
        self._store = store
        self._about = about
        self._lock = threading.Lock()
        self._deleted = threading.Event()
        self.renew()
        threading.Thread(target=self._keep, name=f"{name} note", daemon=True).start()

    def renew(self) -> None:
        """Write it, and delete those of drivers that were killed. Does nothing after `delete`.

        Raises:
            SpoolError: The spool cannot be used.
        """
        with self._lock:
            if self._deleted.is_set():
                return
            self._store.put_json(self.name, self._about, durable=False)
            # By the clock of the store: the clocks of drivers may differ.
            renewed = {each.name: each.changed for each in self._store.objects(_FOLDER)}
            oldest = renewed.get(self.name, 0.0) - _STALE_SECONDS
            self._store.delete(name for name, at in renewed.items() if at < oldest)

    def _keep(self) -> None:
        while not self._deleted.wait(_RENEW_SECONDS):
            try:
                self.renew()
            except SpoolError as error:
                logger.warning("%s", error)

    def delete(self) -> None:
        """Delete it. The receivers end in order.

        Raises:
            SpoolError: It cannot be deleted.
        """
        with self._lock:
            self._deleted.set()
            self._store.delete([self.name])
