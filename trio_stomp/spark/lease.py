"""The lease of a spool: one query reads it at a time.

A lease is an object with a number, ``lease/<number>.json``. To take a spool, a query creates the one with the next
number, and of several queries that try at once, the store lets one succeed. Only its owner writes it again, every few
seconds. So no query overwrites the lease of another, and an owner that was suspended sees by a greater number in the
next listing that it was replaced.

A lease is free if its owner has given it back, if the owner's process has certainly ended, or if it is not renewed
while it is watched. The clocks of machines are not compared.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from trio_stomp.spark.process_identity import has_certainly_ended, process_identity
from trio_stomp.spark.segments import Listing
from trio_stomp.spark.spool_store import SpoolDamaged, SpoolError, SpoolStore

__all__ = ["Lease", "SpoolTaken", "owner_of"]

logger: Final = logging.getLogger("trio_stomp.spark")

_FOLDER: Final = "lease"
_RENEW_SECONDS: Final = 5.0
# Several times the seconds after which it is renewed, because a store may be slow.
_EXPIRED_SECONDS: Final = 30.0
# A query that is being stopped finishes a segment, and gives its lease back, within this time.
_PATIENCE_SECONDS: Final = 12.0
_LOOK_SECONDS: Final = 0.2


class SpoolTaken(RuntimeError):
    """Another query reads this spool."""


class Lease:
    """The right to read a spool.

    Args:
        patience: How long to wait for an owner that lives; None: as long as a query that is being stopped needs.

    Raises:
        SpoolTaken: Another query has it; the text names the owner.
        SpoolError: The spool cannot be used.
    """

    def __init__(
        self,
        store: SpoolStore,
        *,
        patience: float | None = None,
        sleep: Callable[[float], None] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._monotonic = monotonic
        self._token = uuid.uuid4().hex
        # A lease that is written again differs from before, by which others see that its owner lives.
        self._writes = itertools.count()
        self._over = threading.Event()
        self._writing = threading.Lock()
        self._number = self._take(_PATIENCE_SECONDS if patience is None else patience, sleep)
        threading.Thread(target=self._keep, name="trio_stomp lease", daemon=True).start()

    # --- taking it ----------------------------------------------------------------------------------------------------

    def _take(self, patience: float, sleep: Callable[[float], None]) -> int:
        begun = self._monotonic()
        seen: tuple[str, object] | None = None
        since = begun
        is_renewed = False
        while True:
            name = max((each.name for each in self._store.objects(_FOLDER)), default="")
            said = _said(self._store, name)
            if said is not None and said.get("token") == self._token:
                # The answer of the store was lost.
                return _number_of(name)
            if said is None or _is_free(said):
                self._claim(_number_of(name) + 1)
                continue
            now = self._monotonic()
            if seen != (name, said):
                is_renewed = is_renewed or (seen is not None and seen[0] == name)
                seen, since = (name, said), now
            if now - since >= _EXPIRED_SECONDS:
                logger.warning("%s has not renewed its lease of the spool for %.0f s", _owner(said), now - since)
                self._claim(_number_of(name) + 1)
                continue
            is_alive = is_renewed or _is_here(said)
            if is_alive and now - begun >= patience:
                raise SpoolTaken(self._refusal(said))
            sleep(_LOOK_SECONDS)

    def _claim(self, number: int) -> None:
        """Create the lease with this number, unless another query is faster."""
        if self._store.create(_name(number), self._text()):
            older = [each.name for each in self._store.objects(_FOLDER) if _number_of(each.name) < number]
            # They say nothing any more.
            with suppress(SpoolError):
                self._store.delete(older)

    def _refusal(self, said: dict[str, object]) -> str:
        return (
            f"another query reads the spool {self._store.folder}: {_owner(said)}. Stop it, or give each query a "
            "spoolLocation of its own. A query that was running when spark.stop() was called keeps its spool until the "
            "JVM exits; call query.stop() first"
        )

    def _text(self, *, released: bool = False) -> bytes:
        about: dict[str, str | int | bool] = {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "process": process_identity(),
            "token": self._token,
            "renewed": next(self._writes),
            "released": released,
        }
        return json.dumps(about).encode()

    # --- keeping it ---------------------------------------------------------------------------------------------------

    def _keep(self) -> None:
        while not self._over.wait(_RENEW_SECONDS):
            with self._writing:
                if self._over.is_set():
                    return
                try:
                    self._write()
                except SpoolError as error:
                    logger.warning("%s", error)

    def _write(self, *, released: bool = False) -> None:
        """Write it again, unless it was deleted: in place of a spool that is gone, no part of one may appear."""
        if self._store.get(_name(self._number)) is not None:
            self._store.put(_name(self._number), self._text(released=released), durable=False)

    def check_now(self) -> None:
        """`check`, with a listing of its own."""
        self._check(sorted(each.name for each in self._store.objects(_FOLDER)))

    def check(self, listing: Listing) -> None:
        """Check that no other query has taken the spool, which was listed a moment ago.

        Raises:
            SpoolTaken: One has: this one was suspended, or could not reach the spool, for a while.
        """
        self._check(listing.leases)

    def _check(self, leases: Sequence[str]) -> None:
        newest = leases[-1] if leases else ""
        if _number_of(newest) > self._number:
            raise SpoolTaken(self._refusal(_said(self._store, newest) or {}))

    def release(self) -> None:
        """Give it back. The object stays, so that numbers only grow."""
        if self._over.is_set():
            return
        self._over.set()
        # A renewal may hang; then the lease expires by itself.
        if not self._writing.acquire(timeout=_RENEW_SECONDS):
            return
        try:
            self.check_now()
            self._write(released=True)
        except (SpoolError, SpoolTaken) as error:
            logger.warning("the lease of the spool was not given back: %s", error)
        finally:
            self._writing.release()


def owner_of(store: SpoolStore, listing: Listing) -> str | None:
    """Who reads a spool, as far as its last lease says; None if it was given back, or its owner has certainly ended."""
    said = _said(store, listing.leases[-1] if listing.leases else "")
    return None if not said or _is_free(said) else _owner(said)


def _said(store: SpoolStore, name: str) -> dict[str, object] | None:
    """What a lease says; empty if it is damaged, None if there is none."""
    if not name:
        return None
    try:
        found = store.get_json(name)
    except SpoolDamaged:
        return {}
    return dict(found) if isinstance(found, dict) else {}


def _is_free(said: dict[str, object]) -> bool:
    return bool(said.get("released")) or has_certainly_ended(str(said.get("process", "")))


def _name(number: int) -> str:
    return f"{_FOLDER}/{number:012}.json"


def _number_of(name: str) -> int:
    text = name.removeprefix(f"{_FOLDER}/").removesuffix(".json")
    return int(text) if text.isdigit() else 0


def _owner(said: dict[str, object]) -> str:
    return f"process {said.get('pid', '?')} on {said.get('host', '?')}"


def _is_here(said: dict[str, object]) -> bool:
    """Whether the owner is a process of this machine, which would be known to have ended."""
    own, other = process_identity(), str(said.get("process", ""))
    return bool(other) and own.partition("-")[0] == other.partition("-")[0]
