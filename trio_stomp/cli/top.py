"""``trio-stomp top``: a live view of the queues of a broker, of a connection to it, or of a spool."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import anyio
import click
from rich.cells import cell_len, set_cell_size

from trio_stomp.cli.commands import command, option
from trio_stomp.cli.management import Management, Queue, is_chosen
from trio_stomp.cli.options import SECONDS, Link, gathered, link_of, link_options, management_option, match_of
from trio_stomp.cli.running import CommandFailed, ExitCode, Stop, run
from trio_stomp.cli.spool import using_spool
from trio_stomp.cli.terminal import Output, duration
from trio_stomp.client import Client, Phase, Statistics
from trio_stomp.printable import one_line
from trio_stomp.runtime import current_time

if TYPE_CHECKING:
    from trio_stomp.spark import DestinationStatus, ReceiverStatus

__all__ = ["ConnectionView", "QueueView", "Shown", "SpoolView", "TopArguments", "top"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopArguments:
    """What to show, and how often.

    Attributes:
        queue: Names of queues, or patterns with ``*`` and ``?``; empty: all.
        management: The URL of the management interface.
        spool: The location of a spool.
        spool_option: Arguments of its file system.
        sort: The column to sort by.
        interval: Seconds between two looks.
        once: Show it once.
        as_json: Print lines of JSON.
    """

    queue: tuple[str, ...]
    management: str | None
    spool: str | None
    spool_option: tuple[tuple[str, str], ...]
    sort: str
    interval: float
    once: bool
    as_json: bool


@dataclass(frozen=True, slots=True)
class Shown:
    """One look.

    Attributes:
        title: The first line.
        header: The names of the columns.
        rows: The cells of each row; the first may be long, and the others are aligned as numbers.
        data: The same for programs.
    """

    title: str
    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    data: Mapping[str, object]

    def lines(self, width: int, height: int) -> list[str]:
        """The look as lines of text; what does not fit is left out."""
        widths = [max(cell_len(row[index]) for row in (self.header, *self.rows)) for index in range(len(self.header))]
        first = max(1, min(max(widths[0], cell_len(self.header[0])), width - sum(widths[1:]) - 2 * len(widths[1:])))
        lines = [set_cell_size(self.title, min(cell_len(self.title), width))]
        for row in (self.header, *self.rows):
            cells = [
                set_cell_size(row[0], first),
                *(f"{cell:>{size}}" for cell, size in zip(row[1:], widths[1:], strict=True)),
            ]
            lines.append("  ".join(cells).rstrip())
        if len(lines) > height > 1:
            lines[height - 1 :] = [f"... and {len(lines) - height + 1} more"]
        return lines


class View(Protocol):
    """Something to look at again and again."""

    async def look(self) -> Shown:
        """Look at it.

        Raises:
            CommandFailed: It cannot be seen.
        """
        ...


def _count(number: int) -> str:
    return str(number) if number < 10_000_000 else f"{number / 1_000_000:.0f}M"  # noqa: PLR2004  # seven digits


def _per_second(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:.1f}" if rate < 100 else _count(round(rate))  # noqa: PLR2004  # three digits


class _Rates:
    """How fast counters grow, from one look to the next.

    Args:
        clock: The time in seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._before: tuple[float, Mapping[str, int]] | None = None
        self._now: tuple[float, Mapping[str, int]] = (0.0, {})

    def note(self, counters: Mapping[str, int]) -> None:
        """Take the counters of a new look."""
        self._before = self._now if self._now[1] else None
        self._now = (self._clock(), counters)

    def of(self, name: str) -> float | None:
        """The growth of a counter per second; None where that is not known."""
        if self._before is None or name not in self._before[1]:
            return None
        (then, before), (now, after) = self._before, self._now
        growth = after[name] - before[name]
        # Counters begin again when the broker is started again.
        return growth / (now - then) if growth >= 0 and now > then else None


_SORTS: Final = ("name", "ready", "unacknowledged", "consumers", "in", "out")


class QueueView:
    """The queues of a broker.

    Args:
        management: Where to read them.
        wanted: Names and patterns; empty: all.
        sort: The column to sort by.
        clock: The time in seconds.
    """

    def __init__(
        self,
        management: Management,
        wanted: Sequence[str] = (),
        sort: str = "ready",
        clock: Callable[[], float] = current_time,
    ) -> None:
        self._management = management
        self._wanted = wanted
        self._sort = sort
        self._rates = _Rates(clock)

    async def look(self) -> Shown:
        """Read the queues.

        Raises:
            CommandFailed: As `Management.queues`.

        Cancellation: does not wait for the answer.
        """
        found = [queue for queue in await self._management.queues() if self._is_wanted(queue.name)]
        counters = [{f"in {each.name}": each.received, f"out {each.name}": each.delivered} for each in found]
        self._rates.note({name: count for pair in counters for name, count in pair.items()})
        found = list(map(self._with_rates, found))
        # By name where the rest is equal.
        found.sort(key=lambda queue: queue.name)
        if self._sort != "name":
            found.sort(key=self._key, reverse=True)
        header = ("QUEUE", "READY", "UNACKED", "CONSUMERS", "IN/s", "OUT/s")
        title = (
            f"{len(found)} {'queue' if len(found) == 1 else 'queues'} at {self._management}, "
            f"{sum(queue.ready for queue in found)} messages ready"
        )
        return Shown(title, header, list(map(self._row, found)), {"queues": list(map(dataclasses.asdict, found))})

    def _with_rates(self, queue: Queue) -> Queue:
        """Return a queue with rates: those of the broker, or those between two samples."""
        if queue.received_per_second is not None:
            return queue
        return dataclasses.replace(
            queue,
            received_per_second=self._rates.of(f"in {queue.name}"),
            delivered_per_second=self._rates.of(f"out {queue.name}"),
        )

    def _is_wanted(self, name: str) -> bool:
        return not self._wanted or is_chosen(name, self._wanted)

    def _key(self, queue: Queue) -> float:
        keys: dict[str, float | None] = {
            "ready": queue.ready,
            "unacknowledged": queue.unacknowledged,
            "consumers": queue.consumers,
            "in": queue.received_per_second,
            "out": queue.delivered_per_second,
        }
        return keys[self._sort] or 0

    def _row(self, queue: Queue) -> tuple[str, ...]:
        # Its name is text that others chose.
        return (
            one_line(queue.name),
            *map(_count, (queue.ready, queue.unacknowledged, queue.consumers)),
            *map(_per_second, (queue.received_per_second, queue.delivered_per_second)),
        )


_COUNTERS: Final = (
    "bytes_received",
    "bytes_sent",
    "frames_sent",
    "heart_beats_sent",
    "errors_received",
    "reconnections",
)


class ConnectionView:
    """A connection of this command, by the statistics of its client.

    Args:
        client: The client.
        clock: The time in seconds.
    """

    def __init__(self, client: Client, clock: Callable[[], float] = current_time) -> None:
        self._client = client
        self._rates = _Rates(clock)

    async def look(self) -> Shown:
        """Read the statistics.

        Raises:
            StompError: The connection was lost, and there is no --reconnect.

        Cancellation: nothing happens.
        """
        await anyio.lowlevel.checkpoint()
        if self._client.state.phase is Phase.CLOSED:
            await self._client.wait_closed()
        client, statistics = self._client, self._client.statistics()
        counters = {name: _counter(statistics, name) for name in _COUNTERS}
        self._rates.note(counters)
        phase = client.state.phase.name.lower()
        server = one_line(client.server or "unknown broker")
        times = {
            "seconds_connected": round(statistics.seconds_connected, 1),
            "seconds_since_read": round(statistics.seconds_since_read, 1),
            "seconds_since_write": round(statistics.seconds_since_write, 1),
        }
        rows = [
            (name.replace("_", " "), _count(value), _per_second(self._rates.of(name)))
            for name, value in counters.items()
        ]
        rows += [(name.replace("_", " "), f"{value:.1f}", "") for name, value in times.items()]
        title = f"{server}, STOMP {client.version}, {phase}"
        data = {"server": client.server, "version": str(client.version), "phase": phase, **counters, **times}
        return Shown(title, ("CONNECTION", "TOTAL", "PER SECOND"), rows, data)


def _counter(statistics: Statistics, name: str) -> int:
    value: int = getattr(statistics, name)
    return value


class SpoolView:
    """A spool: its receivers, and what waits in it for a Spark query.

    Args:
        location: Where it is.
        settings: Arguments of its file system.
        clock: The time in seconds since 1970.
    """

    def __init__(
        self, location: str, settings: Mapping[str, str] | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self._location = location
        self._settings = settings
        self._clock = clock

    async def look(self) -> Shown:
        """Read the status of the spool.

        Raises:
            CommandFailed: It cannot be read.

        Cancellation: does not wait for the answer.
        """
        with using_spool("top", ExitCode.NOT_CONNECTED):
            from trio_stomp.spark import status  # noqa: PLC0415  # see using_spool

            found = await anyio.to_thread.run_sync(status, self._location, self._settings, abandon_on_cancel=True)
        header = ("RECEIVER", "STATE", "ROWS", "ROWS/s", "REDELIVERED", "LAST MESSAGE")
        rows = [row for each in found.destinations for row in self._rows(each)]
        title = f"{one_line(found.location)}, {found.rows} rows ({found.size:,} bytes) wait for a query"
        if found.blocked:
            title += ", BLOCKED"
        destinations = [
            {
                **dataclasses.asdict(each),
                "receivers": [{**dataclasses.asdict(one), "state": one.state.value} for one in each.receivers],
                "blocked": each.blocked,
            }
            for each in found.destinations
        ]
        return Shown(title, header, rows, {"location": found.location, "destinations": destinations})

    def _rows(self, found: DestinationStatus) -> list[tuple[str, ...]]:
        # Names, and what a broker has said, are text that others chose.
        rows: list[tuple[str, ...]] = [(one_line(found.destination), f"{found.rows} wait", "", "", "", "")]
        if found.lost:
            rows.append((f"    {found.lost} rows missing, left out by failOnDataLoss=false", "", "", "", "", ""))
        rows += [(one_line(text), "", "", "", "", "") for text in found.damaged]
        for each in found.receivers:
            rows.append(self._row(each))
            if each.text:
                rows.append((f"    {one_line(each.text)}", "", "", "", "", ""))
        return rows

    def _row(self, receiver: ReceiverStatus) -> tuple[str, ...]:
        last = receiver.last_message
        return (
            one_line(f"  {receiver.host} {receiver.pid} ({receiver.broker or 'no broker'})"),
            receiver.state.value,
            _count(receiver.rows),
            _per_second(receiver.rate),
            _count(receiver.redelivered),
            f"{duration(max(0.0, self._clock() - last))} ago" if last else "none",
        )


@asynccontextmanager
async def _open_broker_view(arguments: TopArguments, link: Link) -> AsyncGenerator[View]:
    # Queues are those of the management interface.
    if arguments.management is not None or arguments.queue:
        yield QueueView(Management.beside(link, arguments.management), arguments.queue, arguments.sort)
        return
    async with link.connect() as client:
        yield ConnectionView(client)


class Screen:
    """Shows looks, each in place of the one before on a terminal, and one after the other elsewhere."""

    def __init__(self, output: Output, *, as_json: bool, once: bool) -> None:
        self._output = output
        self._as_json = as_json
        self._redraws = output.is_terminal and not as_json and not once and os.environ.get("TERM") != "dumb"
        self._begun = False

    async def show(self, shown: Shown, note: str = "") -> None:
        """Show a look.

        Args:
            shown: The look.
            note: What to say beside it.

        Raises:
            BrokenPipeError: The reader closed the output.

        Cancellation: it may be shown or not.
        """
        if self._as_json:
            # Still JSON: its own escapes replace all characters that a terminal might obey.
            await self._output.write(json.dumps(shown.data).encode() + b"\n")
            return
        width, height = shutil.get_terminal_size()
        # A last line that is full would scroll.
        lines = shown.lines(width - 1, height - 2 if self._redraws else 10**9)
        if note:
            lines.append(one_line(note)[: width - 1])
        if self._redraws:
            begin = "\x1b[H" if self._begun else "\x1b[2J\x1b[H"
            text = begin + "".join(f"{line}\x1b[K\n" for line in lines) + "\x1b[J"
        else:
            text = ("\n" if self._begun else "") + "".join(f"{line}\n" for line in lines)
        self._begun = True
        await self._output.write(text.encode(errors="replace"))


async def watch(view: View, screen: Screen, arguments: TopArguments) -> None:
    """Look again and again.

    Raises:
        CommandFailed: The first look fails.
        BrokenPipeError: The reader closed the output.

    Cancellation: it ends.
    """
    shown = await view.look()
    await screen.show(shown)
    while not arguments.once:
        await anyio.sleep(arguments.interval)
        note = ""
        try:
            shown = await view.look()
        except CommandFailed as error:
            if error.code is not ExitCode.NOT_CONNECTED:
                raise
            # A broker that is started again comes back.
            note = str(error)
        await screen.show(shown, note)


@command(
    "top",
    "Watch the queues of a broker, or a connection.",
    "trio-stomp top --management http://localhost:15672 --login guest --ask-passcode",
    "trio-stomp top 'orders.*' --management http://localhost:8161 --sort in",
    "trio-stomp top --management http://localhost:15672 --once --json",
    "trio-stomp top --reconnect",
    "trio-stomp top --spool s3://bucket/spool",
)
@click.argument("queue", nargs=-1)
@management_option
@option("View", "--spool", metavar="LOCATION", help="Watch this spool: its receivers, and the rows in it.")
@option(
    "View",
    "--spool-option",
    type=match_of,
    multiple=True,
    metavar="NAME=VALUE",
    help="An argument of the file system of the spool.",
)
@option("View", "--sort", type=click.Choice(_SORTS), default="ready", help="The column to sort by.")
@option("View", "--interval", type=SECONDS, default=2.0, help="Look again after this time.")
@option("View", "--once", is_flag=True, help="Look once.")
@option("Output", "--json", "-j", "as_json", is_flag=True, help="Print each look as one line of JSON.")
@link_options
@click.pass_context
def top(context: click.Context, /, **_options: object) -> None:
    """Watch the queues of a broker until Ctrl-C: their messages, consumers and rates.

    The queues come from the management interface of RabbitMQ, or from Jolokia of ActiveMQ Classic and Artemis. QUEUE is
    a name, or a pattern with * and ?; without any, all queues are shown. Without --management, it connects by STOMP and
    shows the statistics of that connection. With --spool, it shows the receivers of a spool and connects to no broker.
    """
    opened: AbstractAsyncContextManager[View]
    if (spool := gathered(TopArguments, context).spool) is None:
        link = link_of(context)
        # A saved context has changed what there is to gather.
        arguments = gathered(TopArguments, context)
        opened = _open_broker_view(arguments, link)
    else:
        arguments = gathered(TopArguments, context)
        if arguments.queue:
            raise CommandFailed("--spool shows no queues of a broker, so it excludes QUEUE", ExitCode.USAGE)
        opened = nullcontext(SpoolView(spool, dict(arguments.spool_option)))

    async def work(stop: Stop) -> None:
        stop.code = ExitCode.OK
        screen = Screen(Output.standard(), as_json=arguments.as_json, once=arguments.once)
        async with opened as view:
            with stop.work():
                await watch(view, screen, arguments)

    run(work)
