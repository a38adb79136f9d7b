"""A spool in memory, with a clock of its own, whose user can be killed at any write."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
from pyarrow import fs

from trio_stomp.spark import SpoolError
from trio_stomp.spark.spool_store import SpoolStore, StoredObject

__all__ = ["Killed", "MemoryStore"]


class Killed(BaseException):
    """The process that writes is killed."""


class MemoryStore(SpoolStore):
    """Objects in a dictionary.

    Attributes:
        found: The objects, by name: the content, and when it was written.
        now: The time of the store, in seconds.
        lives: After how many more writes and deletions the process is killed; None: never.
    """

    def __init__(self) -> None:
        super().__init__(fs.LocalFileSystem(), "/spool", "memory")
        self.found: dict[str, tuple[bytes, float]] = {}
        self.now = 1e9
        self.lives: int | None = None

    def _live(self) -> None:
        if self.lives is not None:
            if self.lives == 0:
                raise Killed
            self.lives -= 1

    def objects(self, below: str = "") -> list[StoredObject]:
        return [
            StoredObject(name=name, size=len(content), changed=changed)
            for name, (content, changed) in self.found.items()
            if name.startswith(f"{below}/" if below else "")
        ]

    def put(self, name: str, octets: bytes | pa.Buffer, *, durable: bool = True) -> None:  # all are
        self._live()
        content = octets if isinstance(octets, bytes) else octets.to_pybytes()
        self.found[name] = (content, self.now)

    def create(self, name: str, octets: bytes) -> bool:
        if name in self.found:
            return False
        self.put(name, octets)
        return True

    def get(self, name: str) -> bytes | None:
        content, _ = self.found.get(name, (None, 0.0))
        return content

    def open_file(self, path: str) -> pa.NativeFile:
        content = self.get(path.removeprefix(f"{self.folder}/"))
        if content is None:
            raise SpoolError(f"{path} is gone")
        return pa.BufferReader(content)

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            self._live()
            self.found.pop(name, None)

    def delete_empty_folder(self, name: str) -> None:
        """There are no folders."""

    def remove_halves(self) -> int:
        return 0

    def time(self) -> float:
        return self.now
