"""``trio-stomp ping``: how long the broker takes to answer."""

from __future__ import annotations

import json
from dataclasses import dataclass

import anyio

from trio_stomp.cli.bench import percentile
from trio_stomp.cli.commands import Command, option, options
from trio_stomp.cli.options import COUNT, SECONDS, Connecting, Link, LinkOptions, json_option
from trio_stomp.cli.running import CommandFailed, ExitCode, InvalidUsage, Stop
from trio_stomp.cli.terminal import Output, counted, duration
from trio_stomp.client import Client
from trio_stomp.errors import CommitTimeout, OperationTimeout, OutcomeUnknown, TransactionLost
from trio_stomp.printable import one_line
from trio_stomp.runtime import current_time

__all__ = ["ping"]


@dataclass(frozen=True, kw_only=True)
class Ping(Connecting):
    """Measure how long the broker takes to answer, until Ctrl-C.

    Each round trip is an empty transaction: BEGIN, and COMMIT with a receipt. It needs no queue and leaves nothing
    behind. The last line says how long half of them took, nine in ten, and 99 in a hundred.
    """

    count: int | None = option(None, "Measurement", "Stop after N round trips.", "-n", type=COUNT, metavar="N")
    interval: float = option(1.0, "Measurement", "The time from an answer to the next round trip.", type=SECONDS)
    timeout: float = option(10.0, "Measurement", "How long to wait for an answer.", "-w", type=SECONDS)
    as_json: bool = json_option("Print lines of JSON.")
    connection: LinkOptions = options(LinkOptions)

    async def run(self, link: Link, stop: Stop) -> None:
        """Make round trips until the first signal."""
        stop.code = ExitCode.OK
        output, trips = Output(), _RoundTrips(self)
        async with link.connect() as client:
            if not client.profile.has_transactions:
                raise InvalidUsage(f"{client.profile.name} has no transactions, so it answers none")
            with stop.work():
                await trips.run(client, output)
            if not self.as_json:
                await output.write(f"{trips}\n".encode())
        if trips.lost:
            raise CommandFailed(f"{trips.lost} round trips without an answer", ExitCode.TIMED_OUT)


class _RoundTrips:
    """How long each answer took, and how many were lost."""

    def __init__(self, ping: Ping) -> None:
        self._ping = ping
        self._seconds: list[float] = []
        self.lost = 0

    async def run(self, client: Client, output: Output) -> None:
        """Make the round trips.

        Cancellation: the answer to the last one is not counted.
        """
        server, number = one_line(client.server or "the broker"), 0
        while self._ping.count is None or number < self._ping.count:
            if number:
                await anyio.sleep(self._ping.interval)
            number += 1
            started = current_time()
            try:
                # An empty transaction: its COMMIT is answered whatever the queues hold, and nothing is left behind.
                async with client.transaction(timeout=self._ping.timeout):
                    pass
            except (CommitTimeout, OperationTimeout, OutcomeUnknown, TransactionLost) as error:
                self.lost += 1
                line: dict[str, object] = {"number": number, "seconds": None, "error": str(error)}
                text = f"{number}: no answer: {one_line(str(error))}"
            else:
                self._seconds.append(current_time() - started)
                line = {"number": number, "seconds": self._seconds[-1]}
                text = f"{number}: {server} answered in {duration(self._seconds[-1])}"
            await output.write((json.dumps(line) if self._ping.as_json else text).encode() + b"\n")

    def __str__(self) -> str:
        text = f"{counted(len(self._seconds) + self.lost, 'round trip')}, {self.lost} without an answer"
        if not self._seconds:
            return text
        within = ", ".join(f"{each} % within {duration(percentile(self._seconds, each))}" for each in (50, 90, 99))
        fastest, slowest = duration(min(self._seconds)), duration(max(self._seconds))
        return f"{text}: fastest {fastest}, {within}, slowest {slowest}"


ping = Command(
    Ping,
    "trio-stomp ping --count 10",
    "trio-stomp ping --interval 100ms --reconnect --json",
)
