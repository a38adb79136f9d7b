"""The steps of a task of a sink, at each of which a test does something: lets a process die, or cuts its link."""

from __future__ import annotations

import enum
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager

from pyarrow import RecordBatch

from trio_stomp import OutgoingMessage
from trio_stomp.blocking import Client
from trio_stomp.spark import sink_writer
from trio_stomp.spark.sink_rows import Messages
from trio_stomp.spark.sink_writer import SinkOptions

__all__ = ["SinkStep", "replace", "watched_task"]


class SinkStep(enum.Enum):
    """How far a task, or a batch, has come."""

    CONNECTED = "connected"
    SENDING = "sending"
    ROWS_SENT = "all rows are sent"
    CONFIRMED = "the broker has confirmed all rows"
    BATCH_DONE = "all tasks of the batch are done"


def replace(owner: object, name: str, value: object) -> None:
    """Put something in the place of a function of the package, which tests may do, and type checkers do not like."""
    setattr(owner, name, value)


@contextmanager
def watched_task(passed: Callable[[SinkStep], None]) -> Generator[None]:
    """Have the tasks of this process tell their steps up to ROWS_SENT, for the length of a block."""
    messages, rows, chunks = sink_writer._messages, sink_writer._Rows.__iter__, Messages.chunks

    def watched_messages(options: SinkOptions, scope: str, client: Client) -> Messages:
        passed(SinkStep.CONNECTED)
        return messages(options, scope, client)

    def watched_rows(self: sink_writer._Rows) -> Iterator[RecordBatch]:
        yield from rows(self)
        passed(SinkStep.ROWS_SENT)

    def watched_chunks(self: Messages, batch: RecordBatch) -> Iterator[list[OutgoingMessage]]:
        for chunk in chunks(self, batch):
            yield chunk
            passed(SinkStep.SENDING)

    replace(sink_writer, "_messages", watched_messages)
    replace(sink_writer._Rows, "__iter__", watched_rows)
    replace(Messages, "chunks", watched_chunks)
    try:
        yield
    finally:
        replace(sink_writer, "_messages", messages)
        replace(sink_writer._Rows, "__iter__", rows)
        replace(Messages, "chunks", chunks)
