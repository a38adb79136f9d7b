"""What batch and stream share of the options: which messages are taken, and how they are put into the spool."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final, cast

from trio_stomp.client import Client, Message, Subscription
from trio_stomp.spark.connection_options import Connection, ConnectionOptions
from trio_stomp.spark.message_columns import MessageColumns
from trio_stomp.spark.option_reader import OptionError, OptionReader
from trio_stomp.spark.recent_ids import Window
from trio_stomp.spark.segments import SegmentFormat
from trio_stomp.spark.spool_store import SpoolLocation, SpoolStore

__all__ = ["READS", "STREAM", "Dedupe", "IntakeOptions", "destination_folder", "destinations_of", "named_together"]

# The parts of a spool: of streams, and of batch reads.
STREAM: Final = "stream"
READS: Final = "reads"

_LARGE_BODY: Final = 1024**2
_PREFETCH: Final = 2_000
_SEGMENT_ROWS: Final = 10_000
_LINGER_SECONDS: Final = 0.005
_SPOOL_BYTES: Final = 4 * 1024**3
# A healthy store takes a fraction of a second for a segment.
_SPOOL_SECONDS: Final = 10.0
# RabbitMQ confirms an ACK before it is safe. When it was killed, it delivered messages again 19 s after it had
# confirmed them. Others do when a mirror takes over. Ids whose ACK is in doubt are kept anyway; see `recent_ids`.
_WINDOW: Final = Window(rows=500_000, seconds=3600.0)
# Headers of SUBSCRIBE that the source sets, or that belong to receipts and transactions.
_RESERVED: Final = {
    "destination": "use the option 'subscribe'",
    **dict.fromkeys(("ack", "content-length", "id", "receipt", "transaction"), "the source sets it itself"),
}
_SPOOL_OPTIONS: Final = '{"region": "eu-west-1", "anonymous": "false"}'
_HEADER: Final = "header:"
_PLAIN: Final = re.compile(r"[^A-Za-z0-9.-]+")
_DIGEST_BYTES: Final = 4
# File systems allow 255 bytes in a name.
_SHOWN: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Dedupe:
    """The option ``dedupe``: by what a message that is delivered again is known.

    Attributes:
        by_broker: By what the broker, or our publisher, gives it.
        header: By this header, before that.
        window: How many ids are kept of messages whose ACK was confirmed.
    """

    by_broker: bool = True
    header: str | None = None
    window: Window = _WINDOW

    @classmethod
    def read(cls, reader: OptionReader) -> Dedupe:
        """Read the option.

        Raises:
            OptionError: It is invalid.
        """
        value = reader.text("dedupe")
        window = Window(
            rows=reader.whole("dedupeWindowRows", _WINDOW.rows),
            seconds=reader.seconds("dedupeWindowMs", _WINDOW.seconds, least=0),
        )
        if value is None or value == "auto":
            return cls(window=window)
        if value == "none":
            return cls(by_broker=False, window=window)
        name = value.removeprefix(_HEADER)
        if not value.startswith(_HEADER) or not name:
            msg = f"the option 'dedupe' must be auto, none or header:<name>, got {value!r}"
            raise OptionError(msg)
        return cls(by_broker=False, header=name, window=window)

    @property
    def wanted(self) -> Window | None:
        """The window; None if copies are not looked for."""
        return self.window if self.by_broker or self.header is not None else None

    def id_of(self, message: Message) -> str | None:
        """What names a message through all its deliveries, where something does."""
        found = message.stable_id if self.header is None else message.headers.get(self.header)
        # An empty header names nothing: messages that have it are not copies of each other.
        return found or None


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakeOptions:
    """What is taken, and how it is kept: the options of the manual, with durations in seconds."""

    connection: Connection
    destinations: tuple[str, ...]
    subscribe_headers: tuple[tuple[str, str], ...]
    selector: str | None
    spool: SpoolLocation
    max_spool_bytes: int
    spool_timeout: float
    segment_format: SegmentFormat
    prefetch: int
    segment_rows: int
    linger: float
    dedupe: Dedupe
    columns: MessageColumns

    @classmethod
    def read(cls, reader: OptionReader, connection: Connection | None = None) -> IntakeOptions:
        """Read them, and how to connect to the broker unless a connection is given.

        Raises:
            OptionError: An option is missing or invalid.
        """
        if reader.has("path"):
            msg = "a destination is no path: use .option('subscribe', ...).load(), without an argument"
            raise OptionError(msg)
        return cls(
            connection=connection or ConnectionOptions.read(reader),
            destinations=destinations_of(reader),
            subscribe_headers=tuple(reader.headers("subscribeHeaders", reserved=_RESERVED).items()),
            selector=reader.text("selector"),
            spool=SpoolLocation.of(
                reader.required("spoolLocation", "/data/spool/flights"),
                reader.pairs("spoolOptions", _SPOOL_OPTIONS, secret=True).items(),
            ),
            max_spool_bytes=reader.size("maxSpoolBytes", _SPOOL_BYTES),
            spool_timeout=reader.seconds("spoolTimeoutMs", _SPOOL_SECONDS),
            segment_format=reader.choice("segmentFormat", SegmentFormat, SegmentFormat.ARROW),
            prefetch=reader.whole("prefetch", _PREFETCH),
            segment_rows=reader.whole("segmentRows", _SEGMENT_ROWS),
            linger=reader.seconds("lingerMs", _LINGER_SECONDS),
            dedupe=Dedupe.read(reader),
            columns=MessageColumns.read(reader),
        )

    @property
    def destination(self) -> str:
        """The name by which spool and offsets know the destinations: several have one name, in whichever order."""
        return named_together(self.destinations)

    def id_of(self, message: Message) -> str | None:
        """What names a message through all its deliveries, where something does.

        Two queues may each have a copy of one message, with the same id, so that of several destinations says which.
        """
        found = self.dedupe.id_of(message)
        return found if found is None or len(self.destinations) == 1 else f"{message.subscription.destination} {found}"

    def open_spool(self, use: str) -> SpoolStore:
        """The folder of the destination in the spool, for `STREAM` or for `READS`, which share nothing."""
        return self.spool.open(destination_folder(self.destination), use)

    @property
    def most(self) -> int:
        """How many messages come into one segment at most: what is not acknowledged is never more than the prefetch."""
        return min(self.segment_rows, self.prefetch)

    @asynccontextmanager
    async def subscribe(self, client: Client) -> AsyncGenerator[list[Subscription]]:
        """Subscribe to each destination, for the length of a block.

        Raises:
            StompError: The broker refuses one of them.

        Cancellation: there are no subscriptions.
        """
        async with AsyncExitStack() as open_ones:
            yield [
                await open_ones.enter_async_context(
                    client.subscribe(
                        destination,
                        ack="client",
                        prefetch=self.prefetch,
                        headers=self.subscribe_headers,
                        selector=self.selector,
                        # In memory, as many as the broker sends ahead would be too much.
                        spool_threshold_bytes=_LARGE_BODY,
                    )
                )
                for destination in self.destinations
            ]


def destinations_of(reader: OptionReader) -> tuple[str, ...]:
    """Read the option ``subscribe``: a destination, or a JSON array of several.

    Raises:
        OptionError: It is neither, or one is listed twice.
    """
    value = reader.required("subscribe", "/queue/flights")
    if not value.lstrip().startswith("["):
        return (value,)
    try:
        found: object = json.loads(value)
    except ValueError:
        found = None
    listed = cast("list[object]", found) if isinstance(found, list) else []
    names = tuple(each for each in listed if isinstance(each, str) and each.strip())
    if not names or len(set(names)) < len(listed):
        msg = (
            "the option 'subscribe' must be a destination, or a JSON array of different ones such as "
            f'["/queue/flights", "/queue/delays"], got {value!r}'
        )
        raise OptionError(msg)
    return names


def named_together(destinations: Sequence[str]) -> str:
    """The name of destinations that are read as one stream."""
    return destinations[0] if len(destinations) == 1 else json.dumps(sorted(destinations))


def destination_folder(destination: str) -> str:
    """The folder for what comes from a destination: two of them never share one."""
    digest = hashlib.blake2b(destination.encode(), digest_size=_DIGEST_BYTES).hexdigest()
    return f"{_PLAIN.sub('-', destination).strip('-')[:_SHOWN]}-{digest}"
