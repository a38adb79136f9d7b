"""``trio-stomp receive``: messages into a spool, which a Spark query elsewhere reads."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from typing import Final

import anyio
import click

from trio_stomp.cli.commands import Command, argument, option, options
from trio_stomp.cli.messages import require_all
from trio_stomp.cli.options import PAIRS, SECONDS, Connecting, Link, LinkOptions, Pairs, Until
from trio_stomp.cli.running import CommandFailed, ExitCode, Stop
from trio_stomp.cli.spool import spool_option, using_spool
from trio_stomp.cli.terminal import Advance, counted, progress, say
from trio_stomp.client import Client, Reconnect, connect
from trio_stomp.errors import OperationTimeout
from trio_stomp.printable import one_line, without_arguments

__all__ = ["receive"]

# Without --timeout: how often the status in the spool says that nothing comes.
_IDLE: Final = 1.0
_LARGEST_DELAY: Final = 5.0


@dataclass(frozen=True, kw_only=True)
class Receive(Connecting):
    """Receive the messages of DESTINATION into a spool, until Ctrl-C or SIGTERM.

    A message is acknowledged when it is in the spool. A Spark query reads them with the options subscribe=DESTINATION,
    spoolLocation=LOCATION and receivers=0, exactly once. Any number of these commands may share a spool.

    It reconnects when the connection is lost, with or without --reconnect.
    """

    destination: str = argument("", required=True)
    spool: str = option(
        "",
        "Spool",
        "Where to: an absolute path, or a URI such as s3://bucket/spool.",
        required=True,
        metavar="LOCATION",
    )
    spool_option: Pairs = spool_option()
    source_option: Pairs = option(
        (),
        "Spool",
        "An option of the Spark source that concerns receiving, such as prefetch=500.",
        "--option",
        "-o",
        **PAIRS,
    )
    until: Until = options(Until)
    outage: float = option(
        60.0,
        "Connection",
        "Fail after this time without the broker, or without a spool that can be written to.",
        type=SECONDS,
    )
    connection: LinkOptions = options(LinkOptions)

    def source_options(self) -> dict[str, str]:
        """The options of the Spark source."""
        options = {"subscribe": self.destination, "spoolLocation": self.spool, **dict(self.source_option)}
        if self.spool_option:
            options["spoolOptions"] = json.dumps(dict(self.spool_option))
        return options

    async def run(self, link: Link, stop: Stop) -> None:
        """Receive, and say how many messages are in the spool."""
        if self.until.count is None and self.until.timeout is None:
            # Only a signal ends it gracefully.
            stop.code = ExitCode.OK
        with progress("receiving", self.until.count) as advance:
            received = _Received(self, stop, advance)
            try:
                await _receive(self, link, received)
            finally:
                if received.shard:
                    # Whatever happened, these are in the spool.
                    click.echo(received)
        if stop.signal is None:
            require_all(received.rows, self.until.count)


class _Reached:
    """Connects to the broker with the options of the command."""

    def __init__(self, link: Link, reconnect_timeout: float) -> None:
        self._link = link
        self._was_reached = False
        self.reconnect_timeout = reconnect_timeout

    def dial(self) -> AbstractAsyncContextManager[Client]:
        """Connect. The first time, a wrong address fails at once; later, it retries, as the broker may restart."""
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

    def __init__(self, arguments: Receive, stop: Stop, advance: Advance) -> None:
        self._arguments = arguments
        self._stop = stop
        self._advance = advance
        self._working: anyio.CancelScope | None = None
        self.shard = ""
        self.rows = 0

    def __str__(self) -> str:
        return f"{counted(self.rows, 'message')} received into {one_line(without_arguments(self._arguments.spool))}"

    def wrote(self, shard: str, last: int, /) -> None:
        """Rows up to this one are in the spool, and acknowledged."""
        self.shard = shard
        self._advance(last - self.rows)
        self.rows = last

    def idle(self) -> None:
        """End the work if nothing has come for the time of `--timeout`."""
        if self._arguments.until.timeout is not None and self._working is not None:
            self._working.cancel()

    @contextmanager
    def working(self) -> Generator[None]:
        """The block that the first signal or `--timeout` ends."""
        say(f"subscribed to {self._arguments.destination}; press Ctrl-C to stop")
        with self._stop.work(), anyio.CancelScope() as self._working:
            yield


async def _receive(arguments: Receive, link: Link, received: _Received) -> None:
    with using_spool("receive"):
        from trio_stomp.spark import run_receiver  # noqa: PLC0415  # see using_spool

        try:
            await run_receiver(
                arguments.source_options(),
                connection=_Reached(link, arguments.outage),
                report=received,
                working=received.working,
                idle=arguments.until.timeout or _IDLE,
                max_rows=arguments.until.count,
            )
        except OperationTimeout as error:
            why = f"no acknowledgment was confirmed for {arguments.outage:g} s; the last messages may be redelivered"
            raise CommandFailed(why, ExitCode.NOT_CONFIRMED) from error


receive = Command(
    Receive,
    "trio-stomp receive /queue/orders --spool /data/spool",
    "trio-stomp receive /queue/orders --spool s3://bucket/spool --timeout 5",
    "trio-stomp receive /queue/orders --spool /data/spool --option segmentFormat=parquet --option maxSpoolBytes=1g",
)
