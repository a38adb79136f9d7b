"""``trio-stomp bench``: how many messages per second a broker passes on, and how long each takes."""

from __future__ import annotations

import json
import secrets
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Final

import click
import trio
from rich.console import Console
from rich.table import Table
from rich.text import Text

from trio_stomp.brokers import RABBITMQ
from trio_stomp.cli.messages import take_batch
from trio_stomp.cli.options import SECONDS, LinkOptions, gathered, header_of, link_options
from trio_stomp.cli.running import CommandFailed, ExitCode, Stop, run
from trio_stomp.cli.send import require_receipts
from trio_stomp.cli.terminal import Advance, duration, progress
from trio_stomp.client import Client, Message, OutgoingMessage, Subscription
from trio_stomp.errors import StompError
from trio_stomp.printable import one_line
from trio_stomp.protocol import AckMode

__all__ = ["Bench", "BenchArguments", "Measured", "bench", "percentile", "results", "run_bench"]

# When the message was sent, in seconds on the clock of this process; the rest of the body is padding.
_STAMP: Final = struct.Struct(">d")

# Shows that the subscription is in place, where the broker does not answer SUBSCRIBE; shorter than any other body.
_PROBE: Final = b"probe"
_PROBE_SECONDS: Final = 0.1

# Given to the publisher in one call, which returns a list of so many publications.
_CHUNK: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What to measure.

    Attributes:
        destination: Where the messages go, and come from.
        messages: How many.
        octets: The size of each body.
        receipt: Let the broker confirm each.
        in_flight: How many may await that.
        ack: The ack mode of the consumer.
        prefetch: How many messages may be on their way to it.
        header: More headers of each message.
        patience: Seconds without a message after which the rest is taken for lost.
    """

    destination: str
    messages: int
    octets: int = 100
    receipt: bool = True
    in_flight: int = 256
    ack: str = "client-individual"
    prefetch: int = 1000
    header: tuple[tuple[str, str], ...] = ()
    patience: float = 10.0

    def __post_init__(self) -> None:
        if self.octets < _STAMP.size:
            msg = f"a body must have at least {_STAMP.size} octets, for the time at which it was sent"
            raise CommandFailed(msg, ExitCode.USAGE)


@dataclass(slots=True)
class Measured:
    """What was measured.

    Attributes:
        sent: Messages that were sent.
        received: Messages that came back.
        sending: Seconds from the first SEND to the last, or to the last confirmation.
        total: Seconds from the first SEND to the last MESSAGE.
        latencies: Seconds that each message was on its way.
    """

    sent: int = 0
    received: int = 0
    sending: float = 0
    total: float = 0
    latencies: list[float] = field(default_factory=list[float])


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that so many percent of the values do not exceed.

    Raises:
        ValueError: There are none.
    """
    if not values:
        raise ValueError("there is no percentile of no values")
    ordered = sorted(values)
    return ordered[max(0, ceil(len(ordered) * percent / 100) - 1)]


async def run_bench(bench: Bench, sender: Client, receiver: Client, advance: Advance) -> Measured:
    """Send and receive at the same time, over two connections.

    Args:
        bench: What to measure.
        sender: Sends.
        receiver: Receives.
        advance: Is told how many messages came back.

    Raises:
        CommandFailed: Messages did not come back, or none would.
        StompError: As `Client.publisher` and `Client.subscribe`.

    Cancellation: messages that were sent may be left at the broker.
    """
    if bench.receipt:
        require_receipts(sender)
    if bench.ack != AckMode.AUTO and not receiver.profile.acknowledges:
        raise CommandFailed(f"{receiver.profile.name} has no acknowledgments; use --ack auto", ExitCode.USAGE)
    measured = Measured()
    failures: list[Exception] = []
    async with receiver.subscribe(
        bench.destination, ack=AckMode.of(bench.ack), prefetch=bench.prefetch, headers=bench.header
    ) as subscription:
        if not receiver.profile.answers_subscribe:
            await _wait_until_subscribed(bench, sender, subscription)
        started = trio.current_time()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_send, bench, sender, measured)
                await _receive(bench, subscription, advance, measured)
        except* (StompError, CommandFailed) as group:
            failures.extend(group.exceptions)
        measured.total = trio.current_time() - started
    for failure in failures:
        # Where both sides failed, the broker has gone, and one of them tells it.
        raise failure
    return measured


async def _wait_until_subscribed(bench: Bench, sender: Client, subscription: Subscription) -> None:
    """Send probes until one arrives: what is sent to a topic before the SUBSCRIBE was handled is lost."""
    with trio.move_on_after(bench.patience):
        while True:
            await sender.send(bench.destination, _PROBE, headers=bench.header)
            batch = await take_batch(subscription, 1, _PROBE_SECONDS)
            if batch:
                await _acknowledge(bench, subscription, batch)
                return
    msg = (
        f"nothing that is sent to {bench.destination} arrives here; none of the probes came within {bench.patience:g} s"
    )
    raise CommandFailed(msg, ExitCode.TIMED_OUT)


async def _acknowledge(bench: Bench, subscription: Subscription, batch: Sequence[Message]) -> None:
    if bench.ack != "auto":
        await subscription.ack_up_to(batch[-1])


async def _send(bench: Bench, client: Client, measured: Measured) -> None:
    started = trio.current_time()
    padding = bytes(bench.octets - _STAMP.size)
    # Where bodies must be text unless they say that they are not.
    content_type = client.profile.binary_content_type

    def messages(count: int) -> Iterable[OutgoingMessage]:
        # Made one by one, each at the moment at which there is room for it.
        for _ in range(count):
            measured.sent += 1
            body = _STAMP.pack(trio.current_time()) + padding
            yield OutgoingMessage(bench.destination, body, bench.header, content_type)

    if bench.receipt:
        async with client.publisher(bench.in_flight) as publisher:
            while measured.sent < bench.messages:
                await publisher.send_many(messages(min(_CHUNK, bench.messages - measured.sent)))
    else:
        await client.send_many(messages(bench.messages))
    measured.sending = trio.current_time() - started


async def _receive(bench: Bench, subscription: Subscription, advance: Advance, measured: Measured) -> None:
    while measured.received < bench.messages:
        batch = await take_batch(subscription, bench.messages - measured.received, bench.patience)
        if not batch:
            msg = f"{measured.received} of {measured.sent} messages came back, none in the last {bench.patience:g} s"
            raise CommandFailed(msg, ExitCode.TIMED_OUT)
        now = trio.current_time()
        messages = [message for message in batch if message.body != _PROBE]
        for message in messages:
            (stamp,) = _STAMP.unpack_from(message.body)
            measured.latencies.append(now - float(stamp))
        measured.received += len(messages)
        await _acknowledge(bench, subscription, batch)
        advance(len(messages))


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
