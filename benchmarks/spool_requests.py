"""What the planner of a Spark stream lists, reads, writes and deletes for each batch, by the number of receivers.

    python -m benchmarks.spool_requests          prints the table of docs/spark.md

The planner is the real one. Its spool is a folder behind a file system that counts, and that the planner takes for an
object store. Segments are written as by receivers: one of 1000 rows for each receiver and batch. The counts do not
depend on the speed of the machine.
"""

from __future__ import annotations

import io
import math
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import IO, Final

import pyarrow as pa
from pyarrow import fs

from trio_stomp.spark.planner import Planner
from trio_stomp.spark.receiver_status import ReceiverState, ReceiverStatus, write_status
from trio_stomp.spark.recent_ids import Window
from trio_stomp.spark.segments import Segment, SegmentFormat, encoded
from trio_stomp.spark.spool_store import SpoolStore
from trio_stomp.spark.stream_offsets import Offsets

__all__ = ["RECEIVERS", "Counts", "counts_of_a_batch", "main", "put_segment", "table"]

RECEIVERS: Final = (1, 2, 4, 8, 32, 100)
_ROWS: Final = 1000
_BODY: Final = b"x" * 200
# The planner deletes this many segments at a time.
_RELEASED: Final = 64
_WARM_UP: Final = 10
_MEASURED: Final = 2
# The defaults of the options.
_WINDOW: Final = Window(rows=500_000, seconds=3600)
_MAX_BYTES: Final = 4 * 1024**3
# S3 lists this many objects for each request.
_PAGE: Final = 1000
# pyarrow asks whether the object is there, deletes it, and writes an empty object in place of its folder.
_OF_A_DELETE: Final = 3


@dataclass(slots=True)
class Counts:
    """What was done, on an average batch.

    Attributes:
        listings: Listings.
        listed: The objects in them.
        pages: The pages that S3 would divide them into.
        opened: Objects opened for reading.
        reads: Reads of them.
        read: Bytes read.
        writes: Objects written.
        written: Bytes written.
        deletes: Objects deleted.
    """

    listings: float = 0
    listed: float = 0
    pages: float = 0
    opened: float = 0
    reads: float = 0
    read: float = 0
    writes: float = 0
    written: float = 0
    deletes: float = 0

    @property
    def requests(self) -> float:
        """Requests to S3."""
        return self.pages + self.opened + self.reads + self.writes + _OF_A_DELETE * self.deletes

    def over(self, batches: int) -> Counts:
        """The mean of several batches."""
        return Counts(**{each.name: getattr(self, each.name) / batches for each in fields(self)})


class _CountingFile(io.RawIOBase):
    """A file that counts what is read from it or written to it."""

    def __init__(self, file: IO[bytes], counts: Counts, lock: threading.Lock) -> None:
        self._file = file
        self._counts = counts
        self._lock = lock

    def read(self, size: int = -1, /) -> bytes:
        found = self._file.read(size)
        if found:
            with self._lock:
                self._counts.reads += 1
                self._counts.read += len(found)
        return found

    def write(self, octets: bytes, /) -> int:  # type: ignore[override]  # pyarrow gives it bytes
        with self._lock:
            self._counts.written += len(octets)
        return self._file.write(octets)

    def readable(self) -> bool:
        return self._file.readable()

    def writable(self) -> bool:
        return self._file.writable()

    def seekable(self) -> bool:
        return True

    def seek(self, at: int, whence: int = 0, /) -> int:
        return self._file.seek(at, whence)

    def tell(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        self._file.close()
        super().close()


class CountingFiles(fs.FileSystemHandler):
    """The files of this machine, as a file system that counts.

    Attributes:
        counts: What was done so far.
    """

    def __init__(self) -> None:
        self.counts = Counts()
        self._files = fs.LocalFileSystem()
        self._lock = threading.Lock()

    def get_type_name(self) -> str:
        return "counting"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: Sequence[str]) -> list[fs.FileInfo]:
        return self._files.get_file_info(list(paths))

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        found = self._files.get_file_info(selector)
        objects = sum(each.type == fs.FileType.File for each in found)
        self.counts.listings += 1
        self.counts.listed += objects
        self.counts.pages += max(1, math.ceil(objects / _PAGE))
        return found

    def open_input_stream(self, path: str) -> pa.PythonFile:
        return self.open_input_file(path)

    def open_input_file(self, path: str) -> pa.PythonFile:
        file = Path(path).open("rb")  # noqa: SIM115  # pyarrow closes it
        with self._lock:
            self.counts.opened += 1
        return pa.PythonFile(_CountingFile(file, self.counts, self._lock), mode="r")

    def open_output_stream(self, path: str, metadata: object) -> pa.PythonFile:  # noqa: ARG002  # pyarrow gives it
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        file = Path(path).open("wb")  # noqa: SIM115  # pyarrow closes it
        with self._lock:
            self.counts.writes += 1
        return pa.PythonFile(_CountingFile(file, self.counts, self._lock), mode="w")

    def open_append_stream(self, path: str, metadata: object) -> pa.PythonFile:
        raise NotImplementedError  # no object store has it

    def delete_file(self, path: str) -> None:
        with self._lock:
            self.counts.deletes += 1
        self._files.delete_file(path)

    def create_dir(self, path: str, recursive: bool) -> None:  # noqa: FBT001  # pyarrow's
        self._files.create_dir(path, recursive=recursive)

    def delete_dir(self, path: str) -> None:
        self._files.delete_dir(path)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:  # noqa: FBT001, FBT002  # pyarrow's
        self._files.delete_dir_contents(path, missing_dir_ok=missing_dir_ok)

    def delete_root_dir_contents(self) -> None:
        raise NotImplementedError  # there is no reason to

    def move(self, src: str, dest: str) -> None:
        self._files.move(src, dest)

    def copy_file(self, src: str, dest: str) -> None:
        self._files.copy_file(src, dest)


def _write_segment(store: SpoolStore, shard: str, first: int, *, marks: bool) -> None:
    numbers = range(first, first + _ROWS)
    columns = {
        "body": pa.array([_BODY] * _ROWS, pa.binary()),
        "destination": pa.array(["/queue/orders"] * _ROWS),
        "message_id": pa.array([f"T_1@@session-{shard}@@{number}" for number in numbers]),
        "redelivered": pa.array([False] * _ROWS),
        "seq": pa.array(numbers, pa.int64()),
        "stable_id": pa.array([f"{shard}-{number:012}-0123456789" for number in numbers]),
    }
    put_segment(store, pa.record_batch(columns), shard, first, suspects=0 if marks else _ROWS)


def put_segment(store: SpoolStore, rows: pa.RecordBatch, shard: str, first: int, *, suspects: int) -> None:
    """Write rows as a receiver does."""
    octets = encoded(rows, SegmentFormat.ARROW)
    segment = Segment(
        shard=shard,
        first=first,
        rows=rows.num_rows,
        suspects=suspects,
        size=octets.size,
        time=int(time.time() * 1000),
        form=SegmentFormat.ARROW,
    )
    store.put(segment.name, octets, durable=False)


def counts_of_a_batch(folder: Path, receivers: int, *, marks: bool) -> Counts:
    """Count what the planner does for a batch, as the mean of some batches after many others.

    Args:
        folder: An empty folder.
        receivers: The number of receivers.
        marks: Whether the broker marks redelivered messages. Otherwise the planner reads the ids of all.

    Returns:
        What it does for a batch, including the deletion of old ones.
    """
    plain = SpoolStore(fs.LocalFileSystem(), str(folder), "file")
    files = CountingFiles()
    store = SpoolStore(fs.PyFileSystem(files), str(folder), "s3")
    planner = Planner(store, destination="/queue/orders", window=_WINDOW, max_bytes=_MAX_BYTES, fail_on_data_loss=True)
    shards = [f"shard-{number:03}" for number in range(receivers)]
    period = max(1, _RELEASED // receivers)
    done: Offsets = {}
    for batch in range((_WARM_UP + _MEASURED) * period):
        if batch == _WARM_UP * period:
            files.counts = Counts()
        for shard in shards:
            _write_segment(plain, shard, 1 + batch * _ROWS, marks=marks)
            write_status(plain, ReceiverStatus(shard=shard, state=ReceiverState.RECEIVING))
        end = planner.next(done, None)
        planner.newest()
        planner.slices(done, end)
        done = end
    return files.counts.over(_MEASURED * period)


def _lines(*, marks: bool) -> Iterator[str]:
    yield "| receivers | listings | objects in them | reads | KiB | writes | KiB | deletes | requests to S3 |"
    yield "|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
    for receivers in RECEIVERS:
        with tempfile.TemporaryDirectory() as folder:
            found = counts_of_a_batch(Path(folder), receivers, marks=marks)
        kib = (found.read / 1024, found.written / 1024)
        cells = [
            f"{receivers}",
            f"{found.listings:.0f}",
            f"{found.listed:,.0f}",
            f"{found.reads:,.1f}",
            f"{kib[0]:,.1f}",
            f"{found.writes:.2f}",
            f"{kib[1]:,.1f}",
            f"{found.deletes:,.1f}",
            f"{found.requests:,.0f}",
        ]
        yield f"| {' | '.join(cells)} |"


def table(*, marks: bool) -> str:
    """The table, in Markdown."""
    return "\n".join(_lines(marks=marks))


def main() -> int:
    """Print both tables."""
    print("The broker marks redelivered messages (RabbitMQ):\n")
    print(table(marks=True))
    print("\nIt does not, so all ids are read (Artemis, ActiveMQ Classic):\n")
    print(table(marks=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
