"""``trio-stomp bench``."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from trio_stomp.brokers import RABBITMQ
from trio_stomp.cli.benchmark import Bench, Measured, percentile, run_bench
from trio_stomp.cli.feedback import duration, progress
from trio_stomp.cli.link_options import LinkOptions, gathered, link_options
from trio_stomp.cli.running import Stop, run
from trio_stomp.cli.value_types import SECONDS, header_of
from trio_stomp.client import Client
from trio_stomp.printable import one_line

__all__ = ["BenchArguments", "bench", "results"]

_PERCENTS = (50, 95, 99, 100)


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchArguments:
    """What to measure, as the user wrote it; see `Bench`."""

    destination: str | None
    messages: int
    size: int
    receipt: bool
    in_flight: int
    ack: str
    prefetch: int
    header: tuple[tuple[str, str], ...]
    patience: float
    as_json: bool

    def bench(self, client: Client) -> Bench:
        """What is meant, at that broker.

        Raises:
            CommandFailed: It cannot be meant.
        """
        header = self.header
        if self.destination is None and client.profile.name == RABBITMQ.name:
            # It keeps a queue for ever that nobody uses any more, unless it was declared otherwise.
            header = (*header, ("auto-delete", "true"))
        return Bench(
            # A queue of its own: what lies in another is not ours to take.
            destination=self.destination or f"/queue/trio-stomp-bench-{secrets.token_hex(4)}",
            messages=self.messages,
            octets=self.size,
            receipt=self.receipt,
            in_flight=self.in_flight,
            ack=self.ack,
            prefetch=self.prefetch,
            header=header,
            patience=self.patience,
        )


def results(measured: Measured, size_octets: int) -> dict[str, float]:
    """The numbers, in messages, octets and seconds."""
    numbers = {
        "messages": float(measured.received),
        "sending_seconds": measured.sending,
        "total_seconds": measured.total,
        "sent_per_second": measured.sent / measured.sending,
        "received_per_second": measured.received / measured.total,
        "octets_per_second": measured.received * size_octets / measured.total,
    }
    for percent in _PERCENTS:
        numbers[f"latency_p{percent}_seconds"] = percentile(measured.latencies, percent)
    return numbers


def print_table(numbers: dict[str, float], server: str) -> None:
    """Print the numbers for people."""
    table = Table(title=Text(one_line(server)), show_header=False)
    table.add_row("sent", f"{numbers['sent_per_second']:,.0f} messages/s")
    table.add_row("received", f"{numbers['received_per_second']:,.0f} messages/s")
    table.add_row("bodies", f"{numbers['octets_per_second'] / 1e6:,.3g} MB/s")
    for percent in _PERCENTS:
        name = "slowest" if percent == max(_PERCENTS) else f"{percent} % within"
        table.add_row(name, duration(numbers[f"latency_p{percent}_seconds"]))
    Console(highlight=False).print(table)


@click.command(short_help="Measure how fast messages go through.")
@click.argument("destination", required=False)
@click.option("--messages", "-n", type=click.IntRange(min=1), default=10_000, show_default=True, help="How many.")
@click.option("--size", "-s", type=click.IntRange(min=8), default=100, show_default=True, help="Octets in each body.")
@click.option("--receipt/--no-receipt", default=True, show_default=True, help="Let the broker confirm each message.")
@click.option(
    "--in-flight", type=click.IntRange(min=1), default=256, show_default=True, help="Messages that may await that."
)
@click.option(
    "--ack",
    type=click.Choice(["client-individual", "client", "auto"]),
    default="client-individual",
    show_default=True,
    help="The ack mode of the consumer.",
)
@click.option("--prefetch", type=click.IntRange(min=1), default=1000, show_default=True, help="Of the consumer.")
@click.option(
    "--header", "-H", multiple=True, type=header_of, metavar="NAME:VALUE", help="A header, as in persistent:true."
)
@click.option(
    "--patience",
    type=SECONDS,
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="When none comes for so long, the rest is lost.",
)
@click.option("--json", "-j", "as_json", is_flag=True, help="Print the numbers as a line of JSON.")
@link_options
@click.pass_context
def bench(context: click.Context, /, **_options: object) -> None:
    """Measure how fast messages go through the broker, and how long each is on its way.

    One connection sends and another receives, as fast as both can. Without DESTINATION, a queue is used that nobody
    else has; all messages of the one that you name are taken.
    """
    link, arguments = gathered(LinkOptions, context), gathered(BenchArguments, context)

    async def command(stop: Stop) -> None:
        # It stays empty when this is interrupted: half of the numbers say nothing.
        found: list[Measured] = []
        async with link.connect() as sender, link.connect() as receiver:
            server = receiver.server or "a broker that does not say what it is"
            with progress("measuring", arguments.messages) as advance, stop.work():
                found.append(await run_bench(arguments.bench(receiver), sender, receiver, advance))
        for measured in found:
            numbers = results(measured, arguments.size)
            if arguments.as_json:
                click.echo(json.dumps({"server": server, **numbers}))
            else:
                print_table(numbers, server)

    run(command)
