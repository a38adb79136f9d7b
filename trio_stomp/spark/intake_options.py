"""What batch and stream share of the options: which messages are taken, and how they are put into the spool."""

from __future__ import annotations

import hashlib
import re
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trio_stomp.client import Client, Message, Subscription
from trio_stomp.spark.connection_options import ConnectionOptions
from trio_stomp.spark.message_columns import MessageColumns
from trio_stomp.spark.option_reader import OptionError, OptionReader

__all__ = ["Dedupe", "IntakeOptions", "destination_folder", "spool_folder"]

_PREFETCH: Final = 2_000
_SEGMENT_ROWS: Final = 10_000
_LINGER_SECONDS: Final = 0.005
_HEADER: Final = "header:"
_PLAIN: Final = re.compile(r"[^A-Za-z0-9.-]+")
_DIGEST_BYTES: Final = 4


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

    def id_of(self, message: Message) -> str | None:
        """What names a message through all its deliveries, where something does."""
        if self.header is not None:
            return message.headers.get(self.header)
        return message.stable_id if self.by_broker else None


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakeOptions:
    """What is taken, and how it is kept.

    Attributes:
        connection: How to reach the broker.
        destination: Where the messages are.
        subscribe_headers: More headers of SUBSCRIBE.
        selector: The ``selector`` header, where the broker knows it.
        spool: The folder that the rows are kept in.
        prefetch: How many messages the broker may send ahead of what is on the disk.
        segment_rows: How many rows a segment may have.
        linger: Seconds to wait for more messages before a segment is written.
        dedupe: By what a message that is delivered again is known.
        columns: Which columns there are.
    """

    connection: ConnectionOptions
    destination: str
    subscribe_headers: tuple[tuple[str, str], ...]
    selector: str | None
    spool: Path
    prefetch: int
    segment_rows: int
    linger: float
    dedupe: Dedupe
    columns: MessageColumns

    @classmethod
    def read(cls, reader: OptionReader) -> IntakeOptions:
        """Read them.

        Raises:
            OptionError: One is missing or cannot be meant.
        """
        if reader.has("path"):
            msg = "a destination is no path: use .option('subscribe', ...).load(), without an argument"
            raise OptionError(msg)
        return cls(
            connection=ConnectionOptions.read(reader),
            destination=reader.required("subscribe", "/queue/flights"),
            subscribe_headers=tuple(reader.headers("subscribeHeaders").items()),
            selector=reader.text("selector"),
            spool=spool_folder(reader.required("spoolLocation", "/data/spool/flights")),
            prefetch=reader.whole("prefetch", _PREFETCH),
            segment_rows=reader.whole("segmentRows", _SEGMENT_ROWS),
            linger=reader.seconds("lingerMs", _LINGER_SECONDS),
            dedupe=Dedupe.read(reader),
            columns=MessageColumns.read(reader),
        )

    @property
    def home(self) -> Path:
        """The folder of the destination in the spool."""
        return destination_folder(self.spool, self.destination)

    @property
    def most(self) -> int:
        """How many messages come into one segment at most: what is not acknowledged is never more than the prefetch."""
        return min(self.segment_rows, self.prefetch)

    def subscribe(self, client: Client) -> AbstractAsyncContextManager[Subscription]:
        """Subscribe to the destination."""
        return client.subscribe(
            self.destination,
            ack="client",
            prefetch=self.prefetch,
            headers=self.subscribe_headers,
            selector=self.selector,
        )


def destination_folder(spool: Path, destination: str) -> Path:
    """Where what comes from a destination is kept: two of them never share a folder."""
    digest = hashlib.blake2b(destination.encode(), digest_size=_DIGEST_BYTES).hexdigest()
    return spool / f"{_PLAIN.sub('-', destination).strip('-')}-{digest}"


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
