"""``trio-stomp top``: a live view of the queues of a broker, of a connection to it, or of a spool."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Final, Protocol

import anyio
import click
from rich.cells import cell_len, set_cell_size

from trio_stomp.cli.commands import Command, argument, flag, option, options
from trio_stomp.cli.management import Management, Queue, is_chosen
from trio_stomp.cli.options import (
    SECONDS,
    Connecting,
    Link,
    LinkOptions,
    Pairs,
    json_option,
    management_option,
)
from trio_stomp.cli.running import CommandFailed, ExitCode, InvalidUsage, Stop, run
from trio_stomp.cli.spool import spool_option, using_spool
from trio_stomp.cli.terminal import Output, counted, duration
from trio_stomp.client import Client, Phase
from trio_stomp.printable import one_line
from trio_stomp.runtime import current_time

if TYPE_CHECKING:
    from trio_stomp.spark import DestinationStatus, ReceiverStatus

__all__ = ["ConnectionView", "QueueView", "Shown", "SpoolView", "top"]


@dataclass(frozen=True, slots=True)
class Shown:
    """One look: a title, a table whose first column may be long and whose others are numbers, and JSON for programs."""

    title: str
    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    data: Mapping[str, object]

    def lines(self, width: int, height: int) -> list[str]:
        """The look as lines of text; what does not fit is left out."""
        table = [self.header, *self.rows]
        # A row may have fewer cells than the header.
        longest, *widths = (max(map(cell_len, column)) for column in zip_longest(*table, fillvalue=""))
        first = max(1, min(longest, width - sum(widths) - 2 * len(widths)))
        lines = [set_cell_size(self.title, min(cell_len(self.title), width))]
        for name, *numbers in table:
            cells = [f"{cell:>{size}}" for cell, size in zip(numbers, widths, strict=False)]
            lines.append("  ".join([set_cell_size(name, first), *cells]).rstrip())
        if len(lines) > height > 1:
            lines[height - 1 :] = [f"... and {len(lines) - height + 1} more"]
        return lines


class View(Protocol):
    """Something to look at again and again. A look fails if it cannot be seen."""

    async def look(self) -> Shown: ...


def _count(number: int) -> str:
    return str(number) if number < 10_000_000 else f"{number / 1_000_000:.0f}M"  # noqa: PLR2004  # seven digits


def _per_second(rate: float | None) -> str:
    # From there on, rounding to one place gives four digits.
    return "-" if rate is None else f"{rate:.1f}" if rate < 99.95 else _count(round(rate))  # noqa: PLR2004  # see above


class _Rates:
    """How fast counters grow, from one look to the next."""

    def __init__(self) -> None:
        self._before: tuple[float, Mapping[str, int]] = (0.0, {})
        self._now: tuple[float, Mapping[str, int]] = (0.0, {})

    def note(self, counters: Mapping[str, int]) -> None:
        """Take the counters of a new look."""
        self._before, self._now = self._now, (current_time(), counters)

    def of(self, name: str) -> float | None:
        """The growth of a counter per second; None where that is not known."""
        (then, before), (now, after) = self._before, self._now
        # Counters begin again when the broker is started again.
        if name not in before or after[name] < before[name] or now <= then:
            return None
        return (after[name] - before[name]) / (now - then)


# What to sort by, and the field of a queue that it means.
_SORTS: Final = {
    "name": "name",
    "ready": "ready",
    "unacknowledged": "unacknowledged",
    "consumers": "consumers",
    "in": "received_per_second",
    "out": "delivered_per_second",
}


class QueueView:
    """The queues of a broker, or those of these names and patterns, sorted by a column."""

    def __init__(self, management: Management, wanted: Sequence[str] = (), sort: str = "ready") -> None:
        self._management = management
        self._wanted = wanted
        self._sort = sort
        self._rates = _Rates()

    async def look(self) -> Shown:
        """Read the queues.

        Cancellation: does not wait for the answer.
        """
        found = await self._management.queues()
        if self._wanted:
            found = [queue for queue in found if is_chosen(queue.name, self._wanted)]
        self._rates.note(
            {f"in {each.name}": each.received for each in found}
            | {f"out {each.name}": each.delivered for each in found}
        )
        found = list(map(self._with_rates, found))
        # By name where the rest is equal.
        found.sort(key=lambda queue: queue.name)
        if self._sort != "name":
            found.sort(key=lambda queue: getattr(queue, _SORTS[self._sort]) or 0, reverse=True)
        header = ("QUEUE", "READY", "UNACKED", "CONSUMERS", "IN/s", "OUT/s")
        ready = sum(queue.ready for queue in found)
        title = f"{counted(len(found), 'queue')} at {self._management}, {ready} messages ready"
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

    def _row(self, queue: Queue) -> tuple[str, ...]:
        # Its name is text that others chose.
        return (
            one_line(queue.name),
            *map(_count, (queue.ready, queue.unacknowledged, queue.consumers)),
            *map(_per_second, (queue.received_per_second, queue.delivered_per_second)),
        )


# Names of fields of `Statistics`.
_COUNTERS: Final = (
    "bytes_received",
    "bytes_sent",
    "frames_sent",
    "heart_beats_sent",
    "errors_received",
    "reconnections",
)
_TIMES: Final = ("seconds_connected", "seconds_since_read", "seconds_since_write")


class ConnectionView:
    """A connection of this command, by the statistics of its client."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._rates = _Rates()

    async def look(self) -> Shown:
        """Read the statistics.

        Raises:
            StompError: The connection was lost, and there is no --reconnect.
        """
        await anyio.lowlevel.checkpoint()
        if self._client.state.phase is Phase.CLOSED:
            await self._client.wait_closed()
        client, statistics = self._client, self._client.statistics()
        counters: dict[str, int] = {name: getattr(statistics, name) for name in _COUNTERS}
        self._rates.note(counters)
        phase = client.state.phase.name.lower()
        server = one_line(client.server or "unknown broker")
        times: dict[str, float] = {name: round(getattr(statistics, name), 1) for name in _TIMES}
        rows = [
            (name.replace("_", " "), _count(value), _per_second(self._rates.of(name)))
            for name, value in counters.items()
        ]
        rows += [(name.replace("_", " "), f"{value:.1f}", "") for name, value in times.items()]
        title = f"{server}, STOMP {client.version}, {phase}"
        data = {"server": client.server, "version": str(client.version), "phase": phase, **counters, **times}
        return Shown(title, ("CONNECTION", "TOTAL", "PER SECOND"), rows, data)


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
        rows: list[tuple[str, ...]] = [(one_line(found.destination), f"{found.rows} wait")]
        if found.lost:
            rows.append((f"    {found.lost} rows missing, left out by failOnDataLoss=false",))
        rows += [(one_line(text),) for text in found.damaged]
        for each in found.receivers:
            rows.append(self._row(each))
            if each.text:
                rows.append((f"    {one_line(each.text)}",))
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


def _drawn(shown: Shown, note: str, *, redraws: bool, again: bool) -> str:
    """A look and a note below it: in place of the one before, or after it."""
    width, height = shutil.get_terminal_size()
    # A last line that is full would scroll.
    lines = shown.lines(width - 1, height - 2 if redraws else 10**9)
    if note:
        lines.append(one_line(note)[: width - 1])
    if redraws:
        begin = "\x1b[H" if again else "\x1b[2J\x1b[H"
        return begin + "".join(f"{line}\x1b[K\n" for line in lines) + "\x1b[J"
    return ("\n" if again else "") + "".join(f"{line}\n" for line in lines)


@dataclass(frozen=True, kw_only=True)
class Top(Connecting):
    """Watch the queues of a broker until Ctrl-C: their messages, consumers and rates.

    The queues come from the management interface of RabbitMQ, or from Jolokia of ActiveMQ Classic and Artemis. QUEUE is
    a name, or a pattern with * and ?; without any, all queues are shown. Without --management, it connects by STOMP and
    shows the statistics of that connection. With --spool, it shows the receivers of a spool and connects to no broker.
    """

    queue: tuple[str, ...] = argument((), nargs=-1)
    management: str | None = management_option()
    spool: str | None = option(None, "View", "Watch this spool: its receivers, and the rows in it.", metavar="LOCATION")
    spool_option: Pairs = spool_option("View")
    sort: str = option("ready", "View", "The column to sort by.", type=click.Choice(list(_SORTS)))
    interval: float = option(2.0, "View", "Look again after this time.", type=SECONDS)
    once: bool = flag("View", "Look once.")
    as_json: bool = json_option("Print each look as one line of JSON.")
    connection: LinkOptions = options(LinkOptions)

    def start(self, context: click.Context) -> None:
        """Run the command. A spool needs no broker."""
        if self.spool is None:
            super().start(context)
        elif self.queue:
            raise InvalidUsage("--spool shows no queues of a broker, so it excludes QUEUE")
        else:
            run(partial(self._watch, SpoolView(self.spool, dict(self.spool_option)), Output()))

    async def run(self, link: Link, stop: Stop) -> None:
        """Watch the queues of the management interface, or the connection."""
        stop.code, output = ExitCode.OK, Output()
        if self.management is not None or self.queue:
            view = QueueView(Management.beside(link, self.management), self.queue, self.sort)
            await self._watch(view, output, stop)
            return
        async with link.connect() as client:
            await self._watch(ConnectionView(client), output, stop)

    async def _watch(self, view: View, output: Output, stop: Stop) -> None:
        """Look again and again, until the first signal. The first look must not fail."""
        stop.code = ExitCode.OK
        with stop.work():
            is_dumb = os.environ.get("TERM") == "dumb"
            redraws = output.is_terminal and not (self.as_json or self.once or is_dumb)
            shown, note, again = await view.look(), "", False
            while True:
                # The escapes of JSON replace all characters that a terminal might obey.
                line = f"{json.dumps(shown.data)}\n" if self.as_json else ""
                text = line or _drawn(shown, note, redraws=redraws, again=again)
                await output.write(text.encode(errors="replace"))
                if self.once:
                    return
                again, note = True, ""
                await anyio.sleep(self.interval)
                try:
                    shown = await view.look()
                except CommandFailed as error:
                    if error.code is not ExitCode.NOT_CONNECTED:
                        raise
                    # A broker that is started again comes back.
                    note = str(error)


top = Command(
    Top,
    "trio-stomp top --management http://localhost:15672 --login guest --ask-passcode",
    "trio-stomp top 'orders.*' --management http://localhost:8161 --sort in",
    "trio-stomp top --management http://localhost:15672 --once --json",
    "trio-stomp top --reconnect",
    "trio-stomp top --spool s3://bucket/spool",
)
