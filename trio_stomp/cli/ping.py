"""``trio-stomp ping``: how long the broker takes to answer."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import anyio
import click

from trio_stomp.cli.bench import percentile
from trio_stomp.cli.commands import command, option
from trio_stomp.cli.options import COUNT, SECONDS, gathered, json_option, link_of, link_options
from trio_stomp.cli.running import CommandFailed, ExitCode, InvalidUsage, Stop, run
from trio_stomp.cli.terminal import Output, counted, duration
from trio_stomp.client import Client
from trio_stomp.errors import CommitTimeout, OperationTimeout, OutcomeUnknown, TransactionLost
from trio_stomp.printable import one_line
from trio_stomp.runtime import current_time

__all__ = ["ping"]


@dataclass(slots=True, kw_only=True)
class _Ping:
    """The options of `ping`, how long each answer took, and how many were lost."""

    count: int | None
    interval: float
    timeout: float
    as_json: bool
    seconds: list[float] = field(default_factory=list[float], init=False)
    lost: int = field(default=0, init=False)

    async def run(self, client: Client, output: Output) -> None:
        """Make the round trips.

        Cancellation: the answer to the last one is not counted.
        """
        server, number = one_line(client.server or "the broker"), 0
        while self.count is None or number < self.count:
            if number:
                await anyio.sleep(self.interval)
            number += 1
            started = current_time()
            try:
                # An empty transaction: its COMMIT is answered whatever the queues hold, and nothing is left behind.
                async with client.transaction(timeout=self.timeout):
                    pass
            except (CommitTimeout, OperationTimeout, OutcomeUnknown, TransactionLost) as error:
                self.lost += 1
                line: dict[str, object] = {"number": number, "seconds": None, "error": str(error)}
                text = f"{number}: no answer: {one_line(str(error))}"
            else:
                self.seconds.append(current_time() - started)
                line = {"number": number, "seconds": self.seconds[-1]}
                text = f"{number}: {server} answered in {duration(self.seconds[-1])}"
            await output.write((json.dumps(line) if self.as_json else text).encode() + b"\n")

    def __str__(self) -> str:
        text = f"{counted(len(self.seconds) + self.lost, 'round trip')}, {self.lost} without an answer"
        if not self.seconds:
            return text
        within = ", ".join(f"{each} % within {duration(percentile(self.seconds, each))}" for each in (50, 90, 99))
        fastest, slowest = duration(min(self.seconds)), duration(max(self.seconds))
        return f"{text}: fastest {fastest}, {within}, slowest {slowest}"


@command(
    "trio-stomp ping --count 10",
    "trio-stomp ping --interval 100ms --reconnect --json",
)
@option("Measurement", "--count", "-n", type=COUNT, metavar="N", help="Stop after N round trips.")
@option("Measurement", "--interval", type=SECONDS, default=1.0, help="The time from an answer to the next round trip.")
@option("Measurement", "--timeout", "-w", type=SECONDS, default=10.0, help="How long to wait for an answer.")
@json_option("Print lines of JSON.")
@link_options
def ping(context: click.Context) -> None:
    """Measure how long the broker takes to answer, until Ctrl-C.

    Each round trip is an empty transaction: BEGIN, and COMMIT with a receipt. It needs no queue and leaves nothing
    behind. The last line says how long half of them took, nine in ten, and 99 in a hundred.
    """
    wanted, link = gathered(_Ping, context), link_of(context)

    async def work(stop: Stop) -> None:
        stop.code = ExitCode.OK
        output = Output()
        async with link.connect() as client:
            if not client.profile.has_transactions:
                raise InvalidUsage(f"{client.profile.name} has no transactions, so it answers none")
            with stop.work():
                await wanted.run(client, output)
            if not wanted.as_json:
                await output.write(f"{wanted}\n".encode())
        if wanted.lost:
            raise CommandFailed(f"{wanted.lost} round trips without an answer", ExitCode.TIMED_OUT)

    run(work)
