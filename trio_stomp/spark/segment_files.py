"""Segments of a spool: Arrow files that are there whole or not at all, also after a power cut.

A segment is written under another name, flushed to the disk, renamed, and the folder flushed too: only then may its
messages be acknowledged. Its name says which rows it holds, so a listing is all that has to be read.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TextIO

import pyarrow as pa
from pyarrow import RecordBatch, ipc

__all__ = [
    "SegmentFile",
    "SpoolLocked",
    "flush_folder",
    "list_segments",
    "lock_folder",
    "read_segment",
    "spool_bytes",
    "write_segment",
]

_NAME: Final = re.compile(r"seg-(\d{15})-(\d{15})\.arrow")
_LOCK: Final = "lock"
_POLL_SECONDS: Final = 0.05


class SpoolLocked(RuntimeError):
    """Another process is using this spool."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class SegmentFile:
    """A segment.

    Attributes:
        first: The sequence number of its first row.
        last: The one of its last row.
        path: Its file.
    """

    first: int
    last: int
    path: str

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return self.last - self.first + 1


def list_segments(folder: Path) -> list[SegmentFile]:
    """The segments of a folder, in order; what a crash has left half-written is none."""
    found = ((path, _NAME.fullmatch(path.name)) for path in folder.iterdir())
    return sorted(
        SegmentFile(first=int(name[1]), last=int(name[2]), path=str(path)) for path, name in found if name is not None
    )


def write_segment(folder: Path, batch: RecordBatch, first: int) -> SegmentFile:
    """Write rows as a segment; when this returns they are on the disk.

    Args:
        folder: Where to.
        batch: The rows.
        first: The sequence number of the first of them.

    Raises:
        OSError: The disk is full, or the folder is gone.
    """
    last = first + batch.num_rows - 1
    path = folder / f"seg-{first:015}-{last:015}.arrow"
    half = path.with_suffix(".tmp")
    _write_whole(half, batch)
    half.rename(path)
    flush_folder(folder)
    return SegmentFile(first=first, last=last, path=str(path))


def _write_whole(path: Path, batch: RecordBatch) -> None:
    """Write a file that a power cut cannot tear any more once this returns."""
    with path.open("wb") as file:
        with ipc.new_file(file, batch.schema) as writer:
            # pyarrow-stubs does not say what it returns.
            writer.write(batch)  # pyright: ignore[reportUnknownMemberType]
        file.flush()
        os.fsync(file.fileno())


def flush_folder(folder: Path) -> None:
    """Make new names in a folder outlive a power cut."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def read_segment(path: str) -> Iterator[RecordBatch]:
    """The rows of a segment, mapped into memory and not copied.

    Raises:
        OSError: It is not there, or not to be read from this machine.
    """
    with pa.memory_map(path) as file, ipc.open_file(file) as reader:
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number)


@contextmanager
def lock_folder(folder: Path, patience: float = 0.0) -> Generator[None]:
    """Keep all other processes out of a spool for the length of a block. A process that dies holds no lock.

    Args:
        folder: The spool.
        patience: Seconds to wait for another one to leave. The whole thread waits.

    Raises:
        SpoolLocked: Another one is in it.
    """
    until = time.monotonic() + patience
    with (folder / _LOCK).open("a+", encoding="utf-8") as file:
        while not _try_lock(file):
            if time.monotonic() >= until:
                file.seek(0)
                msg = f"the spool {folder} is in use by process {file.read().strip() or 'unknown'}; stop that one first"
                raise SpoolLocked(msg)
            time.sleep(_POLL_SECONDS)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def _try_lock(file: TextIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def spool_bytes(folder: Path) -> int:
    """How large the segments of a folder are, together."""
    total = 0
    for path in folder.glob("seg-*.arrow"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            # Another process has just deleted it.
            continue
    return total
