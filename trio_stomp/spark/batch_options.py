"""The options of ``spark.read.format("stomp")``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trio_stomp.spark.connection_options import ConnectionOptions
from trio_stomp.spark.message_columns import MessageColumns
from trio_stomp.spark.option_reader import OptionError, OptionReader

__all__ = ["BatchOptions", "Dedupe", "spool_folder"]

_IDLE_SECONDS: Final = 2.0
_PREFETCH: Final = 2_000
_SEGMENT_ROWS: Final = 10_000
_LINGER_SECONDS: Final = 0.005
_MAX_PARTITIONS: Final = 8
_HEADER: Final = "header:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dedupe:
    """The option ``dedupe``: by what a message that is delivered again is known.

    Attributes:
        by_broker: By what the broker, or our publisher, gives it.
        header: By this header, before that.
    """

    by_broker: bool = True
    header: str | None = None

    @classmethod
    def read(cls, reader: OptionReader) -> Dedupe:
        """Read the option.

        Raises:
            OptionError: It cannot be meant.
        """
        value = reader.text("dedupe")
        if value is None or value == "auto":
            return cls()
        if value == "none":
            return cls(by_broker=False)
        name = value.removeprefix(_HEADER)
        if not value.startswith(_HEADER) or not name:
            msg = f"the option 'dedupe' must be auto, none or header:<name>, got {value!r}"
            raise OptionError(msg)
        return cls(by_broker=False, header=name)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOptions:
    """What the options of a batch read say.

    Attributes:
        connection: How to reach the broker.
        destination: What to drain.
        subscribe_headers: More headers of SUBSCRIBE.
        selector: The ``selector`` header, where the broker knows it.
        spool: The folder that the rows are kept in.
        max_rows: No more than so many rows; None: all there are.
        idle_timeout: Seconds without a message that end the read.
        prefetch: How many messages the broker may send ahead of what is on the disk.
        segment_rows: How many rows a segment may have.
        linger: Seconds to wait for more messages before a segment is written.
        max_partitions: In how many tasks the rows are read at most.
        dedupe: By what a message that is delivered again is known.
        columns: Which columns there are.
    """

    connection: ConnectionOptions
    destination: str
    subscribe_headers: tuple[tuple[str, str], ...]
    selector: str | None
    spool: Path
    max_rows: int | None
    idle_timeout: float
    prefetch: int
    segment_rows: int
    linger: float
    max_partitions: int
    dedupe: Dedupe
    columns: MessageColumns

    @classmethod
    def read(cls, options: Mapping[str, str]) -> BatchOptions:
        """Read the options of ``spark.read``.

        Raises:
            OptionError: One is missing, not known, or cannot be meant.
        """
        reader = OptionReader(options)
        if reader.has("path"):
            msg = "a destination is no path: use .option('subscribe', ...).load(), without an argument"
            raise OptionError(msg)
        made = cls(
            connection=ConnectionOptions.read(reader),
            destination=reader.required("subscribe", "/queue/flights"),
            subscribe_headers=tuple(reader.headers("subscribeHeaders").items()),
            selector=reader.text("selector"),
            spool=spool_folder(reader.required("spoolLocation", "/data/spool/flights")),
            max_rows=reader.whole_or_none("maxRows"),
            idle_timeout=reader.seconds("idleTimeoutMs", _IDLE_SECONDS),
            prefetch=reader.whole("prefetch", _PREFETCH),
            segment_rows=reader.whole("segmentRows", _SEGMENT_ROWS),
            linger=reader.seconds("lingerMs", _LINGER_SECONDS),
            max_partitions=reader.whole("maxPartitions", _MAX_PARTITIONS),
            dedupe=Dedupe.read(reader),
            columns=MessageColumns.read(reader),
        )
        reader.refuse_unknown("the STOMP batch source")
        return made


def spool_folder(location: str) -> Path:
    """The folder that an option names.

    Raises:
        OptionError: It is on a file system whose renames and flushes were not tested.
    """
    scheme, found, rest = location.partition("://")
    if found and scheme != "file":
        msg = (
            f"the option 'spoolLocation' must be a folder of a local or NFS file system, got {location!r}: a spool on "
            f"{scheme} was not tested, and would lose rows where a rename is not atomic"
        )
        raise OptionError(msg)
    path = Path(rest if found else location.removeprefix("file:"))
    if not path.is_absolute():
        msg = f"the option 'spoolLocation' must be an absolute path, the same on every machine, got {location!r}"
        raise OptionError(msg)
    return path
