"""Segments: the objects of a spool that hold messages, and how their names and contents are laid out.

A receiver writes to a shard, a folder with a name that was never used before. So two receivers never write the same
object, and there is nothing to lock: one that was taken for dead and is not only has another shard. The name of a
segment says all that has to be known to plan a batch, so a listing is all that has to be read:

    segments/<shard>/seg-<first row>-<rows>-<suspects>-<in doubt>-<bytes>-<time>.arrow

Suspects are the rows that may be copies of messages which were delivered before. In doubt are the rows directly before
this segment whose acknowledgment the broker did not confirm: it may deliver them again, however late. The layout is
described for other programs in ``docs/spark.md``; `VERSION` counts its changes.

``spool.json`` has an id that was made for this spool alone. Offsets and receivers carry it, so that an empty folder, or
the spool of another stream, is never taken for the one that has the rows.
"""

from __future__ import annotations

import enum
import json
import re
import uuid
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import accumulate
from typing import Final

import pyarrow as pa
from pyarrow import RecordBatch, ipc, parquet

from trio_stomp.spark.spool_store import SpoolDamaged, SpoolError, SpoolStore, StoredObject

__all__ = [
    "ABOUT",
    "VERSION",
    "Listing",
    "Segment",
    "SegmentFormat",
    "SpoolDescription",
    "complete_reads",
    "describe_spool",
    "encoded",
    "find_spool",
    "list_spool",
    "mark_spool",
    "new_shard",
    "open_batches",
    "read_drops",
    "rows_in",
]

VERSION: Final = 2
_SMALL_BYTES: Final = 1024**2
ABOUT: Final = "spool.json"
_SEGMENT: Final = re.compile(
    r"segments/(?P<shard>[^/]+)/seg-(?P<first>\d+)-(?P<rows>\d+)-(?P<suspects>\d+)-(?P<in_doubt>\d+)"
    r"-(?P<size>\d+)-(?P<time>\d+)"
    r"\.(?P<form>arrow|parquet)"
)
_FORMER: Final = re.compile(r"(\d+|read-\d+)?/?(seg-\d{15}-\d{15}\.arrow|in-doubt\.jsonl)")
_STATUS: Final = re.compile(r"status/(?P<shard>[^/]+)\.json")
_OTHERS: Final = {
    "doubts": re.compile(r"doubts/[^/]+\.arrow"),
    "drops": re.compile(r"drops/[^/]+/\d+\.json"),
    "ids": re.compile(r"ids/[^/]+\.arrow"),
    "lease": re.compile(r"lease/\d+\.json"),
    "void": re.compile(r"void/[^/]+/\d+\.json"),
}


class SegmentFormat(enum.Enum):
    """The option ``segmentFormat``: `ARROW` is the fastest; `PARQUET` is for other programs."""

    ARROW = "arrow"
    PARQUET = "parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A segment, as its name says.

    Attributes:
        shard: The shard it belongs to.
        first: The number of its first row in the shard, from 1.
        rows: How many rows it has.
        suspects: How many of them may be copies.
        in_doubt: How many rows directly before it were not confirmed as acknowledged when it was written.
        size: How many bytes it has.
        time: When its receiver wrote it, in thousandths of a second since 1970, by the receiver's clock.
        form: How it is encoded.
        changed: When it came to the store, in seconds since 1970, by the store's clock; 0 if that does not say, or was
            not asked yet.
    """

    shard: str
    first: int
    rows: int
    suspects: int
    in_doubt: int = 0
    size: int
    time: int
    form: SegmentFormat
    changed: float = field(default=0.0, compare=False)

    @property
    def last(self) -> int:
        """The number of its last row."""
        return self.first + self.rows - 1

    @property
    def written(self) -> int:
        """When it was written, in thousandths of a second since 1970: what times of several receivers are compared by.

        Clocks of receivers differ, so it is the time of the store, if that says one.
        """
        return int(self.changed * 1000) or self.time

    @property
    def name(self) -> str:
        """The name of its object."""
        numbers = f"{self.first:012}-{self.rows}-{self.suspects}-{self.in_doubt}-{self.size}-{self.time}"
        return f"segments/{self.shard}/seg-{numbers}.{self.form.value}"

    @property
    def drops_name(self) -> str:
        """The name of the object that says which of its rows are copies; without one, none are."""
        return f"drops/{self.shard}/{self.first:012}.json"

    @property
    def void_name(self) -> str:
        """The name of the object that says that its receiver has given up writing it.

        The write may come to its end much later. But its messages were not acknowledged, so the broker has delivered
        them again, and they are in another segment.
        """
        return f"void/{self.shard}/{self.first:012}.json"


def new_shard(now: float) -> str:
    """A name that was never used before; names sort by age."""
    return f"{datetime.fromtimestamp(now, UTC):%Y%m%d-%H%M%S-%f}-{uuid.uuid4().hex[:10]}"


def encoded(batch: RecordBatch, form: SegmentFormat) -> pa.Buffer:
    """Rows as the content of a segment."""
    sink = pa.BufferOutputStream()
    if form is SegmentFormat.PARQUET:
        parquet.write_table(pa.Table.from_batches([batch]), sink)  # pyright: ignore[reportUnknownMemberType]  # the stubs do not say
    else:
        with ipc.new_file(sink, batch.schema) as writer:
            writer.write(batch)  # pyright: ignore[reportUnknownMemberType]  # the stubs do not say
    return sink.getvalue()


def rows_in(octets: bytes, form: SegmentFormat) -> int:
    """Read the content of a segment; return how many rows it has.

    Raises:
        ArrowException, OSError, ValueError: It is damaged.
    """
    source = pa.BufferReader(octets)
    if form is SegmentFormat.PARQUET:
        with parquet.ParquetFile(source) as whole:
            return whole.read().num_rows  # pyright: ignore[reportUnknownMemberType]  # the stubs do not say
    with ipc.open_file(source) as reader:
        return sum(reader.get_batch(number).num_rows for number in range(reader.num_record_batches))


def open_batches(store: SpoolStore, path: str, columns: Sequence[str]) -> Iterator[RecordBatch]:
    """Yield some columns of a segment, or of the ids of segments that are gone. Columns that it lacks are left out.

    Raises:
        SpoolError: It is not there, cannot be read from this machine, or is damaged.
    """
    with store.open_file(path) as file:
        try:
            # Elsewhere than on a disk, each read is a request: one for a small object, one for each column of others.
            is_small = not store.is_local and file.size() <= _SMALL_BYTES
            source = pa.BufferReader(file.read()) if is_small else file
            if path.endswith(SegmentFormat.PARQUET.value):
                with parquet.ParquetFile(source) as whole:
                    found = [each for each in columns if each in whole.schema_arrow.names]
                    yield from whole.read(columns=found).to_batches()  # pyright: ignore[reportUnknownMemberType]  # see above
                return
            with ipc.open_file(source) as reader:
                names = reader.schema.names
            found = [each for each in columns if each in names]
            fields = [names.index(each) for each in found] if len(found) < len(names) and not is_small else None
            with ipc.open_file(source, options=ipc.IpcReadOptions(included_fields=fields)) as reader:
                for number in range(reader.num_record_batches):
                    yield reader.get_batch(number).select(found)
        except (OSError, pa.ArrowException, KeyError, ValueError) as error:
            raise SpoolError(
                f"cannot read {path} of the spool: {error}; it is damaged: restore it from a backup, or delete it and "
                "continue without its rows with the option failOnDataLoss=false"
            ) from error


def read_drops(store: SpoolStore, segment: Segment) -> tuple[int, ...]:
    """The positions of rows of a segment that were left out as copies."""
    found = store.get_json(segment.drops_name)
    positions = [each for each in found if isinstance(each, int)] if isinstance(found, list) else []
    if positions != found:
        raise SpoolDamaged(store.path(segment.drops_name), "it is not a list of positions")
    return tuple(positions)


def complete_reads(store: SpoolStore) -> dict[str, list[str]]:
    """Return the shards of reads that are complete, by the name of the object that says so."""
    complete: dict[str, list[str]] = {}
    for each in store.objects("reads"):
        match store.get_json(each.name):
            case {"shards": [*shards]}:
                complete[each.name] = [str(shard) for shard in shards]
            case _:
                raise SpoolDamaged(store.path(each.name), "it does not list shards")
    return complete


@dataclass(frozen=True, slots=True)
class Listing:
    """What is in a spool.

    Attributes:
        segments: The segments of each shard, in order.
        statuses: When each receiver's status was written.
        drops: The names of objects that say which rows are copies.
        void: The names of objects that say which segments were given up while they were written.
        ids: The objects with ids of segments that are gone, in order.
        leases: The names of the objects that say which query reads the spool, in order.
        about: The object with the id of the spool.
        size: How many bytes the segments have.
        damaged: What is wrong with each segment that is not whole, by its name.
    """

    segments: dict[str, list[Segment]]
    statuses: dict[str, float]
    drops: frozenset[str]
    void: frozenset[str]
    ids: list[StoredObject]
    leases: list[str]
    about: StoredObject | None
    size: int
    damaged: dict[str, str]

    def successor(self, segment: Segment) -> Segment | None:
        """Return the segment that follows another one in its shard."""
        found = self.segments.get(segment.shard, [])
        place = bisect_right(found, segment.first, key=lambda each: each.first)
        return found[place] if place < len(found) else None

    def is_in_doubt(self, segment: Segment) -> bool:
        """Whether the broker may still deliver the messages of a segment again, as far as the names say."""
        successor = self.successor(segment)
        return successor is None or successor.in_doubt > 0

    def oldest_first(self) -> list[Segment]:
        """Return all segments in the order in which their rows are looked at; those of a shard in its order.

        A message is delivered again after it was written, so copies come after what they are copies of.
        """
        ordered: list[tuple[int, Segment]] = []
        for segments in self.segments.values():
            # A clock may have been set back.
            times = accumulate((each.written for each in segments), max)
            ordered += zip(times, segments, strict=True)
        return [each for _, each in sorted(ordered, key=lambda found: (found[0], found[1].shard, found[1].first))]


def list_spool(store: SpoolStore) -> Listing:
    """List a spool.

    Raises:
        SpoolError: It cannot be listed, or has another layout.
    """
    segments: dict[str, list[Segment]] = {}
    statuses: dict[str, float] = {}
    about: StoredObject | None = None
    damaged: dict[str, str] = {}
    size = 0
    others: dict[str, list[StoredObject]] = {kind: [] for kind in _OTHERS}
    for each in store.objects():
        name = each.name
        kind = name.partition("/")[0]
        if (segment := _named(each)) is not None:
            size += each.size
            if each.size != segment.size:
                damaged[name] = _truncated(store, segment, each.size)
                continue
            segments.setdefault(segment.shard, []).append(segment)
        elif (found := _STATUS.fullmatch(name)) is not None:
            statuses[found["shard"]] = each.changed
        elif kind in others and _OTHERS[kind].fullmatch(name):
            others[kind].append(each)
        elif name == ABOUT:
            about = each
        else:
            _refuse_former(store, name)
    for found_segments in segments.values():
        found_segments.sort(key=lambda segment: segment.first)
    return Listing(
        segments=segments,
        statuses=statuses,
        drops=frozenset(each.name for each in others["drops"]),
        void=frozenset(each.name for each in others["void"]),
        ids=sorted([*others["ids"], *others["doubts"]], key=lambda each: each.name),
        leases=sorted(each.name for each in others["lease"]),
        about=about,
        size=size,
        damaged=damaged,
    )


def _refuse_former(store: SpoolStore, name: str) -> None:
    if _FORMER.fullmatch(name):
        raise SpoolError(
            f"{store.path(name)} was written by an earlier version of trio_stomp, which laid out its spool in another "
            "way; let that version finish reading it, or choose another spoolLocation"
        )


def _named(stored: StoredObject) -> Segment | None:
    """The segment that an object is, as its name says; None if it is another object."""
    found = _SEGMENT.fullmatch(stored.name)
    if found is None:
        return None
    return Segment(
        shard=found["shard"],
        first=int(found["first"]),
        rows=int(found["rows"]),
        suspects=int(found["suspects"]),
        in_doubt=int(found["in_doubt"]),
        size=int(found["size"]),
        time=int(found["time"]),
        form=SegmentFormat(found["form"]),
        changed=stored.changed,
    )


def _truncated(store: SpoolStore, segment: Segment, size: int) -> str:
    return (
        f"{store.path(segment.name)} of the spool has {size} bytes instead of {segment.size}: it was truncated; "
        "restore it from a backup. If its receiver died while it wrote this very segment, the broker still has the "
        "messages: delete it"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolDescription:
    """The content of ``spool.json``.

    Attributes:
        id: The id of the spool, made for it alone.
        destination: Where its messages come from.
    """

    id: str
    destination: str


def describe_spool(store: SpoolStore) -> SpoolDescription | None:
    """Return the description of a spool; None if it is no spool, or has another layout."""
    try:
        return find_spool(store)
    except (SpoolDamaged, LayoutDiffers):
        return None


def find_spool(store: SpoolStore) -> SpoolDescription | None:
    """Return the description of a spool; None if there is none.

    Raises:
        SpoolError: It has another layout, is damaged, or cannot be read.
    """
    about = store.get_json(ABOUT)
    version: int | None = None
    match about:
        case None:
            return None
        case {"trio_stomp_spool": int(number), "destination": str(destination), "id": str(made)} if number == VERSION:
            return SpoolDescription(id=made, destination=destination)
        case {"trio_stomp_spool": int(number)}:
            version = number
        case _:
            pass
    raise LayoutDiffers(
        f"{store.path(ABOUT)} says layout {version!r}, but this version of trio_stomp has layout {VERSION}; use the "
        "same version of trio_stomp everywhere, or choose another spoolLocation"
    )


class LayoutDiffers(SpoolError):
    """The spool was written by another version."""


def mark_spool(store: SpoolStore, destination: str) -> str:
    """Write into a new spool what it is, and check that of an old one. Of several processes, one makes the spool.

    Returns:
        Its id.

    Raises:
        SpoolError: It has another layout, or cannot be written to.
    """
    found = find_spool(store)
    if found is None:
        made = {"trio_stomp_spool": VERSION, "destination": destination, "id": uuid.uuid4().hex[:16]}
        store.create(ABOUT, json.dumps(made).encode())
        # Another process may have been faster.
        found = find_spool(store)
    if found is None:
        raise SpoolError(f"{store.path(ABOUT)} was deleted as it was written: does a program clean this folder?")
    return found.id
