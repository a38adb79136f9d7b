"""``trio-stomp bench``: throughput of a broker and latency of messages."""

from __future__ import annotations

import json
import secrets
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Final

import anyio
import click
from rich.table import Table
from rich.text import Text

from trio_stomp.brokers import RABBITMQ
from trio_stomp.cli.commands import Command, argument, option, options
from trio_stomp.cli.messages import take_batch
from trio_stomp.cli.options import (
    ACK_MODE,
    COUNT,
    SECONDS,
    Connecting,
    Link,
    LinkOptions,
    Pairs,
    Whole,
    header_option,
    in_flight_option,
    json_option,
    receipt_option,
)
from trio_stomp.cli.running import CommandFailed, ExitCode, InvalidUsage, Stop
from trio_stomp.cli.send import require_receipts
from trio_stomp.cli.terminal import Advance, console, digits, duration, progress
from trio_stomp.client import Client, Message, OutgoingMessage, Subscription
from trio_stomp.errors import StompError
from trio_stomp.printable import one_line
from trio_stomp.protocol import AckMode, Limits
from trio_stomp.runtime import current_time

__all__ = ["Bench", "Measured", "bench", "percentile", "results", "run_bench"]

# The body begins with the time of sending, in seconds on the clock of this process. The rest is padding.
_STAMP: Final = struct.Struct(">d")

# Shows that the subscription works, at brokers that do not answer SUBSCRIBE. Shorter than any measured body.
_PROBE: Final = b"probe"
_PROBE_SECONDS: Final = 0.1

# Messages per call of the publisher, which returns one publication for each.
_CHUNK: Final = 1000

# The receiver would refuse a longer one.
_SIZE: Final = Whole(_STAMP.size, Limits().body_bytes)

_PERCENTS: Final = (50, 95, 99, 100)


@dataclass(frozen=True, kw_only=True)
class Bench(Connecting):
    """Measure the throughput of the broker and the latency of messages.

    One connection sends while another receives, both as fast as they can. Without DESTINATION, a new queue is used.
    With one, all messages in it are consumed.
    """

    destination: str = argument("")
    messages: int = option(10_000, "Measurement", "How many messages to send.", "-n", type=COUNT)
    size: int = option(100, "Measurement", "Bytes in each body.", "-s", type=_SIZE)
    receipt: bool = receipt_option("Measurement", "Have the broker confirm each message.")
    in_flight: int = in_flight_option("Measurement")
    ack: str = option("client-individual", "Measurement", "The ack mode of the consumer.", type=ACK_MODE)
    prefetch: int = option(1000, "Measurement", "The prefetch of the consumer.", type=COUNT)
    header: Pairs = header_option("Measurement", "A header, such as persistent:true.")
    patience: float = option(10.0, "Measurement", "Give up after this time without a message.", type=SECONDS)
    as_json: bool = json_option("Print the results as one line of JSON.")
    connection: LinkOptions = options(LinkOptions)

    async def run(self, link: Link, stop: Stop) -> None:
        """Measure until the first signal."""
        # Stays empty when interrupted: half of a measurement is meaningless.
        found: list[Measured] = []
        async with link.connect() as sender, link.connect() as receiver:
            server = receiver.server or "unknown broker"
            with progress("measuring", self.messages) as advance, stop.work():
                found.append(await run_bench(self, sender, receiver, advance))
        for measured in found:
            numbers = results(measured, self.size)
            if self.as_json:
                click.echo(json.dumps({"server": server, **numbers}))
            else:
                _print_table(numbers, server)

    def at(self, client: Client) -> Bench:
        """Return a copy with a destination; refuse what the broker does not support."""
        profile = client.profile
        if self.receipt:
            require_receipts(client)
        if self.ack != AckMode.AUTO and not profile.acknowledges:
            raise InvalidUsage(f"{profile.name} has no acknowledgments; use --ack auto")
        if self.destination:
            return self
        # RabbitMQ keeps an unused queue forever unless it is declared like this.
        header = (*self.header, ("auto-delete", "true")) if profile.name == RABBITMQ.name else self.header
        return replace(self, destination=f"/queue/trio-stomp-bench-{secrets.token_hex(4)}", header=header)


@dataclass(slots=True)
class Measured:
    """The result of a measurement.

    Attributes:
        sent: Messages sent.
        received: Messages that came back.
        sending: Seconds from the first SEND to the last one, or to the last confirmation.
        total: Seconds from the first SEND to the last MESSAGE.
        latencies: Seconds between sending and receiving, for each message.
    """

    sent: int = 0
    received: int = 0
    sending: float = 0
    total: float = 0
    latencies: list[float] = field(default_factory=list[float])


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest of the values that at least `percent` percent of them do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, ceil(len(ordered) * percent / 100) - 1)]


async def run_bench(bench: Bench, sender: Client, receiver: Client, advance: Advance) -> Measured:
    """Send and receive at the same time, over two connections.

    Cancellation: messages that were sent may be left at the broker.
    """
    bench = bench.at(receiver)
    measured = Measured()
    failures: list[Exception] = []
    async with receiver.subscribe(
        bench.destination, ack=AckMode.of(bench.ack), prefetch=bench.prefetch, headers=bench.header
    ) as subscription:
        if not receiver.profile.answers_subscribe:
            await _wait_until_subscribed(bench, sender, subscription)
        started = current_time()
        watch = anyio.CancelScope()
        try:
            async with anyio.create_task_group() as nursery:
                nursery.start_soon(_send, bench, sender, measured, watch)
                await _receive(bench, subscription, advance, measured)
                watch.cancel()
        except* (StompError, CommandFailed) as group:
            failures.extend(group.exceptions)
        measured.total = current_time() - started
    for failure in failures:
        # When both sides failed, the broker is gone, and one error is enough.
        raise failure
    return measured


async def _wait_until_subscribed(bench: Bench, sender: Client, subscription: Subscription) -> None:
    """Send probes until one arrives: a topic drops messages that come before the SUBSCRIBE takes effect."""
    with anyio.move_on_after(bench.patience):
        while True:
            await sender.send(bench.destination, _PROBE, headers=bench.header)
            batch = await take_batch(subscription, 1, _PROBE_SECONDS)
            if batch:
                await _acknowledge(bench, subscription, batch)
                return
    raise CommandFailed(f"no probe sent to {bench.destination} arrived within {bench.patience:g} s", ExitCode.TIMED_OUT)


async def _acknowledge(bench: Bench, subscription: Subscription, batch: Sequence[Message]) -> None:
    if bench.ack != AckMode.AUTO:
        await subscription.ack_up_to(batch[-1])


async def _send(bench: Bench, client: Client, measured: Measured, watch: anyio.CancelScope) -> None:
    started = current_time()
    padding = bytes(bench.size - _STAMP.size)
    # Spring requires a content type for binary bodies.
    content_type = client.profile.binary_content_type

    def messages(count: int) -> Iterable[OutgoingMessage]:
        # A generator: each message is stamped when there is room to send it.
        for _ in range(count):
            measured.sent += 1
            body = _STAMP.pack(current_time()) + padding
            yield OutgoingMessage(bench.destination, body, headers=bench.header, content_type=content_type)

    if bench.receipt:
        async with client.publisher(bench.in_flight) as publisher:
            while measured.sent < bench.messages:
                await publisher.send_many(messages(min(_CHUNK, bench.messages - measured.sent)))
    else:
        await client.send_many(messages(bench.messages))
    measured.sending = current_time() - started
    with watch:
        # Without receipts, the broker refuses a message only after the call. Then not all will come back.
        await client.wait_closed()


async def _receive(bench: Bench, subscription: Subscription, advance: Advance, measured: Measured) -> None:
    while measured.received < bench.messages:
        batch = await take_batch(subscription, bench.messages - measured.received, bench.patience)
        if not batch:
            why = f"{measured.received} of {measured.sent} messages came back, none in the last {bench.patience:g} s"
            raise CommandFailed(why, ExitCode.TIMED_OUT)
        now = current_time()
        messages = [message for message in batch if message.body != _PROBE]
        for message in messages:
            (stamp,) = _STAMP.unpack_from(message.body)
            measured.latencies.append(now - float(stamp))
        measured.received += len(messages)
        await _acknowledge(bench, subscription, batch)
        advance(len(messages))


def results(measured: Measured, size: int) -> dict[str, float]:
    """The results, in messages, bytes and seconds."""
    numbers = {
        "messages": float(measured.received),
        "sending_seconds": measured.sending,
        "total_seconds": measured.total,
        "sent_per_second": measured.sent / measured.sending,
        "received_per_second": measured.received / measured.total,
        "bytes_per_second": measured.received * size / measured.total,
    }
    for percent in _PERCENTS:
        numbers[f"latency_p{percent}_seconds"] = percentile(measured.latencies, percent)
    return numbers


def _print_table(numbers: dict[str, float], server: str) -> None:
    table = Table(title=Text(one_line(server)), show_header=False)
    table.add_row("sent", f"{numbers['sent_per_second']:,.0f} messages/s")
    table.add_row("received", f"{numbers['received_per_second']:,.0f} messages/s")
    table.add_row("bodies", f"{digits(numbers['bytes_per_second'] / 1e6)} MB/s")
    for percent in _PERCENTS:
        name = "slowest" if percent == max(_PERCENTS) else f"{percent} % within"
        table.add_row(name, duration(numbers[f"latency_p{percent}_seconds"]))
    console().print(table)


bench = Command(
    Bench,
    "trio-stomp bench --messages 20000 --size 1000 --header persistent:true",
    "trio-stomp bench --in-flight 1 --json",
)
