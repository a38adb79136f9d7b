"""``trio-stomp receive``: messages into a spool, which a Spark query elsewhere reads."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from typing import Final

import anyio
import click

from trio_stomp.cli.commands import command, option
from trio_stomp.cli.options import (
    SECONDS,
    Link,
    count_option,
    gathered,
    link_of,
    link_options,
    match_of,
    timeout_option,
)
from trio_stomp.cli.running import CommandFailed, ExitCode, Stop, run
from trio_stomp.cli.spool import using_spool
from trio_stomp.cli.terminal import Advance, progress, say
from trio_stomp.client import Client, Reconnect, connect
from trio_stomp.errors import OperationTimeout
from trio_stomp.printable import one_line

__all__ = ["ReceiveArguments", "receive"]

# Without --timeout: how often the status in the spool says that nothing comes.
_IDLE: Final = 1.0
_LARGEST_DELAY: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiveArguments:
    """What to receive, and where to.

    Attributes:
        destination: What to subscribe to.
        spool: Where the rows are kept.
        option: Options of the Spark source that concern receiving.
        spool_option: Arguments of the spool's file system.
        count: Stop after this many messages.
        timeout: Stop after this many seconds without a message.
        outage: Fail after this many seconds without a broker, or without a spool that can be written to.
    """

    destination: str
    spool: str
    option: tuple[tuple[str, str], ...]
    spool_option: tuple[tuple[str, str], ...]
    count: int | None
    timeout: float | None
    outage: float

    def source_options(self) -> dict[str, str]:
        """The options of the Spark source."""
        options = {"subscribe": self.destination, "spoolLocation": self.spool, **dict(self.option)}
        if self.spool_option:
            options["spoolOptions"] = json.dumps(dict(self.spool_option))
        return options

    @property
    def is_endless(self) -> bool:
        """Whether only a signal ends it in order."""
        return self.count is None and self.timeout is None


class _Reached:
    """The broker, as the options of the command say."""

    def __init__(self, link: Link, reconnect_timeout: float) -> None:
        self._link = link
        self._was_reached = False
        self.reconnect_timeout = reconnect_timeout

    def dial(self) -> AbstractAsyncContextManager[Client]:
        """Connect. A wrong address should be seen at once, and later a broker may be started again."""
        options = self._link.options.copy()
        options["reconnect"] = Reconnect(
            max_delay=min(_LARGEST_DELAY, self.reconnect_timeout),
            deadline=self.reconnect_timeout,
            retry_first=self._was_reached,
        )
        self._was_reached = True
        return connect(self._link.urls, **options)


class _Received:
    """What a receiver reports.

    Attributes:
        shard: Where in the spool they are; empty until the spool was reached.
        rows: How many rows are in the spool.
    """

    def __init__(self, arguments: ReceiveArguments, stop: Stop, advance: Advance) -> None:
        self._arguments = arguments
        self._stop = stop
        self._advance = advance
        self._working: anyio.CancelScope | None = None
        self.shard = ""
        self.rows = 0

    def __str__(self) -> str:
        """What was done, in one line."""
        noun = "message" if self.rows == 1 else "messages"
        return f"{self.rows} {noun} received into {one_line(self._arguments.spool)}"

    def check(self) -> None:
        """Check that there were as many as were asked for.

        Raises:
            CommandFailed: There were not.
        """
        count = self._arguments.count
        if count is not None and self.rows < count:
            raise CommandFailed(f"only {self.rows} of {count} messages came in time", ExitCode.TIMED_OUT)

    def wrote(self, shard: str, last: int, /) -> None:
        """Rows up to this one are in the spool, and acknowledged."""
        self.shard = shard
        self._advance(last - self.rows)
        self.rows = last

    def idle(self) -> None:
        """Nothing has come for a while."""
        if self._arguments.timeout is not None and self._working is not None:
            self._working.cancel()

    @contextmanager
    def working(self) -> Generator[None]:
        """The block that the first signal ends, and `--timeout`."""
        say(f"subscribed to {self._arguments.destination}; press Ctrl-C to stop")
        with self._stop.work(), anyio.CancelScope() as self._working:
            yield


async def _receive(arguments: ReceiveArguments, link: Link, received: _Received) -> None:
    with using_spool("receive"):
        from trio_stomp.spark import run_receiver  # noqa: PLC0415  # see using_spool

        try:
            await run_receiver(
                arguments.source_options(),
                connection=_Reached(link, arguments.outage),
                report=received,
                working=received.working,
                idle=arguments.timeout or _IDLE,
                max_rows=arguments.count,
            )
        except OperationTimeout as error:
            why = f"no acknowledgment was confirmed for {arguments.outage:g} s; the last messages may be redelivered"
            raise CommandFailed(why, ExitCode.NOT_CONFIRMED) from error


@command(
    "receive",
    "Receive messages into a spool, for Spark.",
    "trio-stomp receive /queue/orders --spool /data/spool",
    "trio-stomp receive /queue/orders --spool s3://bucket/spool --timeout 5",
    "trio-stomp receive /queue/orders --spool /data/spool --option segmentFormat=parquet --option maxSpoolBytes=1g",
)
@click.argument("destination")
@option(
    "Spool",
    "--spool",
    required=True,
    metavar="LOCATION",
    help="Where to: an absolute path, or a URI such as s3://bucket/spool.",
)
@option(
    "Spool",
    "--spool-option",
    type=match_of,
    multiple=True,
    metavar="NAME=VALUE",
    help="An argument of the file system of the spool, such as endpoint_override=localhost:9000.",
)
@option(
    "Spool",
    "--option",
    "-o",
    type=match_of,
    multiple=True,
    metavar="NAME=VALUE",
    help="An option of the Spark source that concerns receiving, such as prefetch=500.",
)
@count_option
@timeout_option
@option(
    "Connection",
    "--outage",
    type=SECONDS,
    default=60.0,
    help="Fail after this time without the broker, or without a spool that can be written to.",
)
@link_options
@click.pass_context
def receive(context: click.Context, /, **_options: object) -> None:
    """Receive the messages of DESTINATION into a spool, until Ctrl-C or SIGTERM.

    A message is acknowledged when it is in the spool. A Spark query reads them with the options subscribe=DESTINATION,
    spoolLocation=LOCATION and receivers=0, exactly once. Any number of these commands may share a spool.

    It reconnects when the connection is lost, with or without --reconnect.
    """
    arguments = gathered(ReceiveArguments, context)
    link = link_of(context)

    async def work(stop: Stop) -> None:
        if arguments.is_endless:
            stop.code = ExitCode.OK
        with progress("receiving", arguments.count) as advance:
            received = _Received(arguments, stop, advance)
            try:
                await _receive(arguments, link, received)
            finally:
                if received.shard:
                    # Whatever happened, these are in the spool.
                    click.echo(received)
        if stop.signal is None:
            received.check()

    run(work)
