"""``trio-stomp send``: send messages from arguments, files or standard input."""

from __future__ import annotations

import dataclasses
import itertools
import re
import sys
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio
import click

from trio_stomp.brokers import SendOptions
from trio_stomp.cli.commands import command, option
from trio_stomp.cli.layouts import MessageFormat, now
from trio_stomp.cli.message_input import LINE_END, STANDARD_INPUT, LineInput, WholeInput
from trio_stomp.cli.messages import from_line
from trio_stomp.cli.options import SECONDS, gathered, header_of, link_of, link_options
from trio_stomp.cli.running import CommandFailed, ExitCode, Stop, report, run
from trio_stomp.cli.terminal import Advance, is_terminal, progress, say
from trio_stomp.client import Client, OutgoingMessage, Phase, Publisher
from trio_stomp.runtime import current_time, open_background_nursery

__all__ = ["SendArguments", "Sending", "open_patient_publisher", "require_receipts", "send"]

# Checks during `patience`: a timeout is late by a tenth at most.
_LOOKS: Final = 10

# Messages per call of the client or the publisher, and per step of the progress bar.
_BATCH: Final = 256

# Seconds by which --rate may be behind, and then faster: sleeping takes longer than asked for.
_CATCH_UP: Final = 0.1

_FIELD: Final = re.compile(r"\{(?:n|time|uuid)\}")


def require_receipts(client: Client) -> None:
    """Refuse to wait for receipts from a broker that sends none.

    Raises:
        CommandFailed: This broker sends no RECEIPT.
    """
    if not client.profile.confirms:
        raise CommandFailed(f"{client.profile.name} sends no RECEIPT; use --no-receipt", ExitCode.USAGE)


@asynccontextmanager
async def open_patient_publisher(client: Client, max_in_flight: int, patience: float) -> AsyncGenerator[Publisher]:
    """A publisher that fails when the broker stops confirming.

    Args:
        client: The client.
        max_in_flight: How many messages may await their RECEIPT.
        patience: Seconds without a confirmation, while connected and with messages in flight, after which it fails.

    Raises:
        CommandFailed: The broker confirms nothing, or sends no RECEIPT.
        StompError: As `Client.publisher`.

    Cancellation: as `Client.publisher`.
    """
    require_receipts(client)
    watch = _Watch(client, patience)
    # It also watches while the publisher waits for the last confirmations.
    with anyio.CancelScope() as scope:
        async with open_background_nursery() as nursery, client.publisher(max_in_flight) as publisher:
            nursery.start_soon(watch.run, publisher, scope)
            yield publisher
    if watch.is_over:
        msg = (
            f"no confirmation for {patience:g} s (--patience); what was sent may have arrived. "
            "If the broker sends no RECEIPT, use --no-receipt"
        )
        raise CommandFailed(msg, ExitCode.TIMED_OUT)


class _Watch:
    """Cancels a scope when the broker has confirmed nothing for `patience` seconds.

    Attributes:
        is_over: Whether that happened.
    """

    def __init__(self, client: Client, patience: float) -> None:
        self._client = client
        self._patience = patience
        self.is_over = False

    async def run(self, publisher: Publisher, scope: anyio.CancelScope) -> None:
        """Check a few times in each span of patience."""
        confirmed, since = publisher.confirmed, current_time()
        while current_time() - since < self._patience:
            is_connected = self._client.state.phase is Phase.CONNECTED
            if publisher.confirmed != confirmed or not publisher.in_flight or not is_connected:
                confirmed, since = publisher.confirmed, current_time()
            await anyio.sleep(self._patience / _LOOKS)
        self.is_over = True
        scope.cancel()


def delimiter_of(value: str | bytes) -> bytes:
    """Read a delimiter, with the escapes of format strings.

    Raises:
        click.BadParameter: It is empty, or has fields.
    """
    # click also converts values that it has converted before.
    if isinstance(value, bytes):
        return value
    (delimiter, _), *more = MessageFormat.parse(value).parts
    if more or not delimiter:
        raise click.BadParameter(rf"expected text, such as ';' or '\0', got {value!r}")
    return delimiter


@dataclass(frozen=True, slots=True, kw_only=True)
class SendArguments:
    """The arguments of `send`.

    Attributes:
        destination: Where to send.
        body: Bodies, one message each.
        file: Files.
        lines: Each line of the files is a message.
        delimiter: What ends a message in the files, instead of a line feed.
        json_lines: Each line is a message as JSON.
        text: The input is UTF-8 text; otherwise bytes.
        empty: Standard input may be empty.
        header: Additional headers.
        content_type: MIME type of the bodies.
        persistent: Keep the messages when the broker restarts.
        ttl: Seconds after which messages expire.
        priority: Their priority.
        delay: Seconds for which the broker holds them back.
        group: The message group.
        template: Fill in ``{n}``, ``{time}`` and ``{uuid}`` in bodies and headers.
        count: Send each message this many times.
        rate: Send at most this many messages per second.
        receipt: Wait for the broker's confirmation.
        in_flight: How many messages may await confirmation.
        patience: Give up after this many seconds without a confirmation.
    """

    destination: str | None
    body: tuple[str, ...]
    file: tuple[Path, ...]
    lines: bool
    delimiter: bytes
    json_lines: bool
    text: bool
    header: tuple[tuple[str, str], ...]
    content_type: str | None
    persistent: bool
    ttl: float | None
    priority: int | None
    delay: float | None
    group: str | None
    template: bool
    count: int
    rate: float | None
    receipt: bool
    in_flight: int
    patience: float
    empty: bool = False

    def check(self) -> None:
        """Refuse contradictory arguments.

        Raises:
            CommandFailed: They contradict each other.
        """
        if self.destination is None and not self.json_lines:
            raise CommandFailed("no destination. For example: trio-stomp send /queue/orders", ExitCode.USAGE)
        if self.body and (self.file or self.lines or self.json_lines):
            msg = "pass bodies as arguments, or read them with --file, --lines or --json, not both"
            raise CommandFailed(msg, ExitCode.USAGE)
        if self.delimiter != LINE_END and not self.lines:
            raise CommandFailed("--delimiter is for --lines", ExitCode.USAGE)
        if self.lines and self.json_lines:
            raise CommandFailed("use either --lines or --json", ExitCode.USAGE)

    @property
    def options(self) -> SendOptions:
        """Return the options that depend on the broker."""
        return SendOptions(
            persistent=self.persistent, ttl=self.ttl, priority=self.priority, delay=self.delay, group=self.group
        )

    @property
    def is_typed(self) -> bool:
        """Whether the input is read from a terminal."""
        from_stdin = not self.body and (not self.file or STANDARD_INPUT in self.file)
        return from_stdin and is_terminal(sys.stdin)

    def batches(self, claimed: AbstractSet[str] = frozenset()) -> AsyncIterator[list[OutgoingMessage]]:
        """Return the messages, in batches as they become available.

        Args:
            claimed: Headers that options set; they override those of a line of JSON.
        """
        paths = self.file or (STANDARD_INPUT,)
        if self.body:
            return _Given([self._message(body) for body in self.body])
        if self.json_lines:
            return LineInput(paths, lambda line, number: self._json_message(line, number, claimed))
        if self.lines:
            return LineInput(paths, lambda line, _number: self._read_message(line), self.delimiter)
        return WholeInput(paths, self._read_message, empty=self.empty)

    def repeated(self, messages: Iterable[OutgoingMessage], first: int) -> Iterator[OutgoingMessage]:
        """Yield each message as often as it is to be sent, filled in if it is a template.

        Args:
            messages: The messages.
            first: The number of the first one to yield.
        """
        numbers = itertools.count(first)
        for message in messages:
            for _ in range(self.count):
                yield _filled(message, next(numbers)) if self.template else message

    def _message(self, body: bytes | str) -> OutgoingMessage:
        return OutgoingMessage(
            self.destination or "", body, headers=self.header, content_type=self.content_type, **self.options
        )

    def _read_message(self, octets: bytes) -> OutgoingMessage:
        if not self.text:
            return self._message(octets)
        try:
            return self._message(octets.decode("utf-8"))
        except UnicodeDecodeError as error:
            raise CommandFailed(f"--text requires UTF-8 input: {error}") from None

    def _json_message(self, line: bytes, number: int, claimed: AbstractSet[str]) -> OutgoingMessage:
        headers = list(self.header)
        if self.content_type is not None:
            headers.append(("content-type", self.content_type))
        message = from_line(line, self.destination, headers, number, without=claimed)
        return dataclasses.replace(message, **self.options)


def _filled(message: OutgoingMessage, number: int) -> OutgoingMessage:
    """Return a message with the fields of its body and its headers replaced."""
    fields = {"{n}": str(number), "{time}": now(), "{uuid}": str(uuid.uuid4())}

    def fill(text: str) -> str:
        # Not str.format(), as a body may be JSON. In one pass, so that no value is taken for a field.
        return _FIELD.sub(lambda field: fields[field[0]], text)

    body = message.body
    # Latin-1 keeps each byte as it is, and the fields are ASCII.
    body = fill(body) if isinstance(body, str) else fill(body.decode("latin-1")).encode("latin-1")
    given = message.headers or ()
    pairs = given.items() if isinstance(given, Mapping) else given
    return dataclasses.replace(message, body=body, headers=[(name, fill(value)) for name, value in pairs])


class _Given:
    """One batch, as an async iterator."""

    def __init__(self, messages: list[OutgoingMessage]) -> None:
        self._batches = iter([messages])

    def __aiter__(self) -> AsyncIterator[list[OutgoingMessage]]:
        return self

    async def __anext__(self) -> list[OutgoingMessage]:
        await anyio.lowlevel.checkpoint()
        for batch in self._batches:
            return batch
        raise StopAsyncIteration


def _ignore(amount: int, /) -> None:
    """Show no progress."""


class Sending:
    """Sends all messages, and counts them."""

    def __init__(self, client: Client, arguments: SendArguments) -> None:
        self._client = client
        self._arguments = arguments
        self._publisher: Publisher | None = None
        self._frames_before = client.statistics().frames_sent

    def __str__(self) -> str:
        """Return a summary in one line."""
        # Every frame that this client sends here is a SEND.
        sent = self._client.statistics().frames_sent - self._frames_before
        how = "without confirmation" if self._publisher is None else f"{self._publisher.confirmed} confirmed"
        return f"{sent} {'message' if sent == 1 else 'messages'} sent, {how}"

    async def run(self, stop: Stop) -> None:
        """Send all messages.

        Raises:
            CommandFailed: An input cannot be read (earlier ones were sent), or the broker confirms nothing.
            NotSupportedError: The broker does not support an option; nothing was sent.
            StompError: As `Client.publisher`.

        Cancellation: some messages were sent.
        """
        client, arguments = self._client, self._arguments
        # Early, so that an unsupported option is reported before any input is read.
        asked = client.profile.dialect.send_headers(arguments.options or {}, time.time())
        batches = arguments.batches({name for name, _ in asked})
        is_typed = arguments.is_typed
        if is_typed:
            say("reading from the terminal: type the input and end it with Ctrl-D (Windows: Ctrl-Z and Enter)")
        # A progress bar would overwrite what is typed.
        with nullcontext(_ignore) if is_typed else progress("sending") as advance:
            if not arguments.receipt:
                await self._send(batches, client.send_many, advance, stop)
                return
            async with open_patient_publisher(client, arguments.in_flight, arguments.patience) as publisher:
                self._publisher = publisher
                await self._send(batches, publisher.send_many, advance, stop)

    async def _send(
        self,
        batches: AsyncIterator[list[OutgoingMessage]],
        send_many: Callable[[list[OutgoingMessage]], Awaitable[object]],
        advance: Advance,
        stop: Stop,
    ) -> None:
        number, rate = 1, self._arguments.rate
        due = current_time()
        with stop.work():
            async for batch in batches:
                messages = self._arguments.repeated(batch, number)
                while part := list(itertools.islice(messages, _BATCH if rate is None else 1)):
                    if rate is not None:
                        await anyio.sleep_until(due)
                        due = max(due + 1 / rate, current_time() - _CATCH_UP)
                    await send_many(part)
                    number += len(part)
                    advance(len(part))


@command(
    "send",
    "Send messages.",
    'trio-stomp send /queue/orders "tea for two" "coffee for one"',
    "trio-stomp send /queue/orders --file order.json --content-type application/json --persistent",
    "trio-stomp send /queue/orders '{\"id\": {n}}' --template --count 100 --rate 10 -H id:{uuid}",
    "tail -f orders.log | trio-stomp send /queue/orders --lines --text",
    "trio-stomp subscribe /queue/a --json --timeout 2 | trio-stomp send /queue/b --json",
)
@click.argument("destination", required=False)
@click.argument("body", nargs=-1)
@option(
    "Input",
    "--file",
    "-f",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    metavar="FILE",
    help="Send this file; - means standard input.",
)
@option("Input", "--lines", is_flag=True, help="Send each input line as a message.")
@option(
    "Input",
    "--json",
    "--json-lines",
    "-j",
    "json_lines",
    is_flag=True,
    help='Send each input line as a message: {"destination": ..., "headers": {...}, "body": ...}.',
)
@option("Input", "--text", is_flag=True, help="Send the input as text instead of bytes; JMS brokers distinguish them.")
@option(
    "Input",
    "--delimiter",
    "-d",
    type=delimiter_of,
    metavar="TEXT",
    default="\\n",
    help=r"What separates messages for --lines, such as ';' or '\0'.",
)
@option("Input", "--empty", is_flag=True, help="Send an empty message if standard input is empty.")
@option(
    "Message",
    "--header",
    "-H",
    multiple=True,
    type=header_of,
    metavar="NAME:VALUE",
    help="A header of the message, such as shop:7.",
)
@option("Message", "--content-type", "-t", metavar="TYPE", help="The MIME type of the body.")
@option("Message", "--persistent", is_flag=True, help="Keep the messages when the broker restarts.")
@option("Message", "--ttl", type=SECONDS, help="Expire the messages after this time.")
@option(
    "Message",
    "--priority",
    type=click.IntRange(min=0),
    metavar="N",
    help="The priority, 0 to 9; higher ones are delivered first.",
)
@option("Message", "--delay", type=SECONDS, help="Deliver the messages after this delay.")
@option("Message", "--group", metavar="NAME", help="The message group: one consumer receives all of it, in order.")
@option(
    "Message",
    "--template",
    is_flag=True,
    help="Fill in {n} (1, 2, ...), {time} (UTC) and {uuid} in bodies and headers.",
)
@option("Pace", "--count", "-n", type=click.IntRange(min=1), default=1, metavar="N", help="Send each message N times.")
@option(
    "Pace",
    "--rate",
    "-r",
    type=click.FloatRange(min=0, min_open=True),
    metavar="N",
    help="Send at most N messages per second.",
)
@option("Confirmation", "--receipt/--no-receipt", default=True, help="Wait until the broker confirms each message.")
@option(
    "Confirmation",
    "--in-flight",
    type=click.IntRange(min=1),
    default=256,
    help="How many messages may await confirmation.",
)
@option(
    "Confirmation", "--patience", type=SECONDS, default=30.0, help="Give up after this time without a confirmation."
)
@link_options
@click.pass_context
def send(context: click.Context, /, **_options: object) -> None:
    """Send messages to DESTINATION.

    Each BODY is a message of its own. Without BODY, messages are read from standard input or from files.
    """
    arguments = gathered(SendArguments, context)
    arguments.check()
    link = link_of(context)

    async def work(stop: Stop) -> None:
        async with link.connect() as client:
            sending = Sending(client, arguments)
            try:
                await sending.run(stop)
            finally:
                if stop.signal is not None:
                    report(f"interrupted; {sending}")
            if stop.signal is None:
                say(str(sending))

    run(work)
