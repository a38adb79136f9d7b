"""The work of a sink task: send its rows to the broker, with a window of receipts or in transactions.

`writeMode=transaction` is one transaction for all rows, which are kept, as Arrow, until COMMIT is confirmed.
`writeMode=auto` is receipts, or on brokers that confirm in bulk one transaction for each chunk of rows. It promises no
more than receipts do, and needs as little memory. The rows of a transaction are sent again in these cases:

* The connection was lost before COMMIT, so nothing took effect: the transaction is repeated.
* The connection was lost between COMMIT and its RECEIPT, so everything took effect or nothing. The transaction is
  repeated if the rows have ids by which copies are recognized, or with `auto`, which repeats rows as receipts do.
  Otherwise the task fails with an unknown outcome.
* The broker drops duplicates and refuses the COMMIT. Artemis does that if it already has one message of the
  transaction; it names neither the message nor this reason. The rows are then sent one by one, with receipts and the
  same ids: the broker drops those that it has, and stores the others.

Because of the last case, ids must not depend on the order of rows; see `sink_identity`.
"""

from __future__ import annotations

import enum
import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol, TypeVar

from pyarrow import RecordBatch

from trio_stomp.blocking import Client
from trio_stomp.brokers import ARTEMIS, GENERIC, RABBITMQ
from trio_stomp.client import OutgoingMessage
from trio_stomp.errors import BrokerError, OutcomeUnknown, TransactionLost
from trio_stomp.spark.connection_options import ConnectionOptions
from trio_stomp.spark.option_reader import OptionError, OptionReader
from trio_stomp.spark.sink_identity import DedupIds, new_id_maker
from trio_stomp.spark.sink_rows import COLUMNS, DEDUP_ID, RESERVED, Messages, RowRules

__all__ = ["SinkOptions", "WriteMode", "Written", "write_task"]

logger: Final = logging.getLogger("trio_stomp.spark")

# A transaction that is lost this many times in a row will be lost again; Spark also retries the task.
_ATTEMPTS: Final = 3
# The header by which Artemis drops duplicates.
_DROPPED_BY_BROKER: Final = "_AMQ_DUPL_ID"

# What the acceptor of Artemis may take for the prefixes of queues and topics.
_PREFIXES: Final = ("/queue/", "/topic/")
# The header that makes a destination a queue of Artemis without a prefix.
_ROUTING: Final = "destination-type"

# Measured: the best is between 500 and 2000 on all brokers, enough to hide the round-trip time.
_RECEIPT_WINDOW: Final = 1_000
_IN_FLIGHT_BYTES: Final = 16 * 1024**2
# The broker also keeps a transaction in memory.
_TRANSACTION_BYTES: Final = 256 * 1024**2
_PERSISTENT: Final = "persistent"
_REFUSED: Final = "the COMMIT of a task was refused: sending its rows one by one, with the same ids: %s"

T = TypeVar("T")


class BlockingConnection(Protocol):
    """How a task reaches its broker."""

    def dial_blocking(self) -> AbstractContextManager[Client]:
        """Connect, for the length of a block."""
        ...


class WriteMode(enum.Enum):
    """The option ``writeMode``; see the top of this module."""

    AUTO = "auto"
    TRANSACTION = "transaction"
    RECEIPT = "receipt"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """The options of a sink, as in the manual: sizes in bytes, and None for the header of the broker.

    They are pickled for the tasks, so this holds only data.
    """

    connection: BlockingConnection
    rules: RowRules
    mode: WriteMode
    receipt_window: int
    in_flight_bytes: int
    transaction_bytes: int
    dedup_ids: DedupIds
    dedup_header: str | None

    @classmethod
    def read(cls, options: Mapping[str, str]) -> SinkOptions:
        """Read the options of ``df.write`` or ``df.writeStream``.

        Raises:
            OptionError: An option is missing, unknown or invalid.
        """
        reader = OptionReader(options)
        if reader.has("path"):
            msg = "a destination is no path: use .option('destination', ...).save() or .start(), without an argument"
            raise OptionError(msg)
        dedup_header = reader.text("dedupHeader")
        if dedup_header in RESERVED:
            msg = f"the option 'dedupHeader' cannot be {dedup_header!r}: {RESERVED[dedup_header]}"
            raise OptionError(msg)
        # With one id for all rows, the broker would drop all but the first, or the source would take them for copies.
        ids = dict.fromkeys(
            (*(each.stable_id_header for each in (ARTEMIS, GENERIC, RABBITMQ)), dedup_header or _DROPPED_BY_BROKER),
            "each row needs an id of its own: use the column 'dedup_id', or the option 'dedupIds'",
        )
        headers = reader.headers("sendHeaders", reserved={**RESERVED, **ids})
        persistent = reader.flag(_PERSISTENT, default=True)
        if persistent:
            # RabbitMQ loses a message with persistent:false if there is no consumer, so the header is omitted.
            headers = {_PERSISTENT: "true"} | headers
        dedup_id_column = reader.text("dedupIdColumn") or DEDUP_ID
        if dedup_id_column in COLUMNS:
            msg = f"the option 'dedupIdColumn' cannot be {dedup_id_column!r}, a column with another use"
            raise OptionError(msg)
        made = cls(
            connection=ConnectionOptions.read(reader),
            rules=RowRules(
                destination=reader.text("destination"),
                headers=headers,
                dedup_id_column=dedup_id_column,
            ),
            mode=reader.choice("writeMode", WriteMode, WriteMode.AUTO),
            receipt_window=reader.whole("receiptWindow", _RECEIPT_WINDOW),
            in_flight_bytes=reader.size("maxInFlightBytes", _IN_FLIGHT_BYTES),
            transaction_bytes=reader.size("maxTransactionBytes", _TRANSACTION_BYTES),
            dedup_ids=reader.choice("dedupIds", DedupIds, DedupIds.CONTENT),
            dedup_header=dedup_header,
        )
        reader.refuse_unknown("the STOMP sink")
        return made

    def left_behind(self, confirmed: str) -> str:
        """Describe the rows that a failed write has left at the broker; `confirmed` is their number, as text."""
        tasks = f"{confirmed}; these stay where they were sent, STOMP takes nothing back"
        if self.mode is WriteMode.TRANSACTION:
            tasks += "; tasks that failed before COMMIT have left nothing"
        else:
            tasks += "; of tasks that failed, some rows may be there"
        if self.dedup_ids is DedupIds.NONE:
            return f"{tasks}; running it again sends them a second time"
        return f"{tasks}; a stream that is run again sends them with the same ids"


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The result of a task.

    Attributes:
        rows: How many rows the broker has confirmed.
        repeated: Whether the broker already had some of them, from an earlier attempt.
    """

    rows: int
    repeated: bool = False


def write_task(options: SinkOptions, scope: str, batches: Iterator[RecordBatch]) -> Written:
    """Send the rows of a task and wait until the broker has confirmed each.

    Args:
        options: The options of the sink.
        scope: Identifies the task in the ids of its rows; see `new_id_maker`.
        batches: The rows, which Spark passes only once.

    Raises:
        ConnectError: The broker cannot be reached.
        OutcomeUnknown: With the mode TRANSACTION, the connection was lost between COMMIT and its RECEIPT, and the rows
            have no ids.
        TransactionLost: The connection was lost before COMMIT too many times; nothing of the transaction took effect.
        UnconfirmedError: Some rows were not confirmed; it lists them. The others were.
        BrokerError: The broker refused the rows.
        ValueError: A row cannot be sent, or there are too many for one transaction.
    """
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return Written(rows=0)
    rows = _Rows(first, batches)
    if options.mode is WriteMode.TRANSACTION:
        may_repeat = options.dedup_ids is not DedupIds.NONE
        return _persistently(partial(_write_in_one_transaction, options, scope, rows), may_repeat=may_repeat)
    with options.connection.dial_blocking() as client:
        _warn_of_topic(options, client)
        messages = _messages(options, scope, client)
        if options.mode is WriteMode.AUTO and client.profile.confirms_in_bulk:
            repeated = _send_in_transactions(options, client, messages, rows)
        else:
            _send_with_receipts(options, client, _chunks(messages, rows))
            repeated = False
    return Written(rows=messages.rows, repeated=repeated)


def _persistently(attempt: Callable[[], T], *, may_repeat: bool = True) -> T:
    """Attempt a transaction again if it is lost, a few times; with `may_repeat`, also if it may have taken effect."""
    for left in reversed(range(_ATTEMPTS)):
        try:
            return attempt()
        except TransactionLost as error:
            if not left:
                raise
            logger.warning("the rows of a task are sent again: %s", error)
        except OutcomeUnknown as error:
            if not left or not may_repeat:
                raise
            logger.warning("the rows of a task are sent again: %s", error)
    raise AssertionError  # the last round returns or raises


class _Rows:
    """The rows of a task. They can be read once, or repeatedly if they are kept.

    Attributes:
        keep_bytes: How much memory they may take if they are kept; None: they are not kept.
    """

    def __init__(self, first: RecordBatch, rest: Iterator[RecordBatch]) -> None:
        self.keep_bytes: int | None = None
        self._first: RecordBatch | None = first
        self._rest = rest
        self._kept: list[RecordBatch] = []
        self._bytes = 0

    def __iter__(self) -> Iterator[RecordBatch]:
        yield from self._kept
        if self._first is not None:
            first, self._first = self._first, None
            yield self._keep(first)
        for batch in self._rest:
            yield self._keep(batch)

    def _keep(self, batch: RecordBatch) -> RecordBatch:
        if self.keep_bytes is not None:
            self._bytes += batch.nbytes
            if self._bytes > self.keep_bytes:
                msg = (
                    f"the rows of this task take more than {self.keep_bytes:,} bytes, too much for one transaction: "
                    "repartition() into more tasks, raise the option 'maxTransactionBytes', or choose writeMode=auto"
                )
                raise ValueError(msg)
            self._kept.append(batch)
        return batch


def _warn_of_topic(options: SinkOptions, client: Client) -> None:
    """Warn if the rows may go to a topic by mistake: Artemis drops what is sent to one without a subscriber."""
    rules = options.rules
    destination = rules.destination
    is_plain = destination is not None and not destination.startswith(_PREFIXES) and _ROUTING not in rules.headers
    if is_plain and client.profile.name == ARTEMIS.name:
        logger.warning(
            "the option 'destination' is %r, without /queue/ or /topic/ in front: unless it is configured otherwise, "
            "Artemis treats it as a topic, and confirms and discards messages to a topic without a subscriber",
            destination,
        )


def _messages(options: SinkOptions, scope: str, client: Client) -> Messages:
    # Each attempt starts with a new maker, so that the ids are the same.
    header = options.dedup_header or client.profile.stable_id_header
    return Messages(options.rules, header, new_id_maker(options.dedup_ids, scope))


def _write_in_one_transaction(options: SinkOptions, scope: str, rows: _Rows) -> Written:
    rows.keep_bytes = options.transaction_bytes
    with options.connection.dial_blocking() as client:
        _warn_of_topic(options, client)
        messages = _messages(options, scope, client)
        refused = _transact(options, client, _chunks(messages, rows))
    if refused is None:
        return Written(rows=messages.rows)
    logger.warning(_REFUSED, refused)
    with options.connection.dial_blocking() as client:
        messages = _messages(options, scope, client)
        _send_with_receipts(options, client, _chunks(messages, rows))
    return Written(rows=messages.rows, repeated=True)


def _send_in_transactions(options: SinkOptions, client: Client, messages: Messages, rows: _Rows) -> bool:
    """Send each chunk of rows in a transaction of its own; return whether the broker already had some of them."""
    chunks = _chunks(messages, rows)
    for chunk in chunks:
        refused = _persistently(partial(_transact, options, client, [chunk]))
        if refused is not None:
            logger.warning(_REFUSED, refused)
            # The chunks that follow may have been sent before, too, and each refusal costs a connection.
            _send_with_receipts(options, client, itertools.chain([chunk], chunks))
            return True
    return False


def _chunks(messages: Messages, rows: _Rows) -> Iterator[list[OutgoingMessage]]:
    return (chunk for batch in rows for chunk in messages.chunks(batch))


def _send_with_receipts(options: SinkOptions, client: Client, chunks: Iterable[list[OutgoingMessage]]) -> None:
    with client.publisher(options.receipt_window, max_in_flight_bytes=options.in_flight_bytes) as publisher:
        for chunk in chunks:
            publisher.send_many(chunk)


def _transact(options: SinkOptions, client: Client, chunks: Iterable[list[OutgoingMessage]]) -> BrokerError | None:
    """Send all or nothing; return the ERROR if the broker refused because it already has some of them."""
    drops_duplicates = (options.dedup_header or client.profile.stable_id_header) == _DROPPED_BY_BROKER
    with client.transaction() as transaction:
        for chunk in chunks:
            transaction.send_many(chunk)
        try:
            transaction.commit()
        except BrokerError as error:
            if not drops_duplicates or options.dedup_ids is DedupIds.NONE:
                raise
            return error
    return None
