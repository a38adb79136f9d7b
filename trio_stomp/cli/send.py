"""``trio-stomp send``: send messages from arguments, files or standard input."""

from __future__ import annotations

import dataclasses
import itertools
import re
import sys
import time
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio
import click

from trio_stomp.brokers import SendOptions
from trio_stomp.cli.commands import Command, argument, flag, option, options
from trio_stomp.cli.layouts import MessageFormat, now
from trio_stomp.cli.message_input import LINE_END, STANDARD_INPUT, body_of, read_lines, read_whole
from trio_stomp.cli.messages import from_line
from trio_stomp.cli.options import (
    COUNT,
    INPUT_FILE,
    RATE,
    SECONDS,
    Connecting,
    Link,
    LinkOptions,
    Pairs,
    Whole,
    content_type_option,
    header_option,
    in_flight_option,
    receipt_option,
    text_option,
)
from trio_stomp.cli.running import CommandFailed, ExitCode, InvalidUsage, Stop, report
from trio_stomp.cli.terminal import Advance, counted, is_terminal, progress, say
from trio_stomp.client import Client, OutgoingMessage, Phase, Publisher
from trio_stomp.errors import LocalProtocolError
from trio_stomp.runtime import current_time, open_background_nursery

__all__ = ["require_receipts", "send"]

# Checks during `patience`: a timeout is late by a tenth at most.
_LOOKS: Final = 10

# Messages per call of the client or the publisher, and per step of the progress bar.
_BATCH: Final = 256

# Seconds by which --rate may be behind, and then faster: sleeping takes longer than asked for.
_CATCH_UP: Final = 0.1

_FIELD: Final = re.compile(r"\{(?:n|time|uuid)\}")


def require_receipts(client: Client) -> None:
    """Refuse to wait for receipts from a broker that sends none."""
    if not client.profile.confirms:
        raise InvalidUsage(f"{client.profile.name} sends no RECEIPT; use --no-receipt")


@asynccontextmanager
async def _open_patient_publisher(client: Client, max_in_flight: int, patience: float) -> AsyncGenerator[Publisher]:
    """A publisher that fails when the broker stops confirming.

    Args:
        client: The client.
        max_in_flight: How many messages may await their RECEIPT.
        patience: Seconds without a confirmation, while connected and with messages in flight, after which it fails.
    """
    require_receipts(client)
    is_over = False

    async def watch(publisher: Publisher, scope: anyio.CancelScope) -> None:
        nonlocal is_over
        confirmed, since = publisher.confirmed, current_time()
        while current_time() - since < patience:
            is_connected = client.state.phase is Phase.CONNECTED
            if publisher.confirmed != confirmed or not publisher.in_flight or not is_connected:
                confirmed, since = publisher.confirmed, current_time()
            await anyio.sleep(patience / _LOOKS)
        is_over = True
        scope.cancel()

    # It also watches while the publisher waits for the last confirmations.
    with anyio.CancelScope() as scope:
        async with open_background_nursery() as nursery, client.publisher(max_in_flight) as publisher:
            nursery.start_soon(watch, publisher, scope)
            yield publisher
    if is_over:
        msg = (
            f"no confirmation for {patience:g} s (--patience); what was sent may have arrived. "
            "If the broker sends no RECEIPT, use --no-receipt"
        )
        raise CommandFailed(msg, ExitCode.TIMED_OUT)


def delimiter_of(value: str | bytes) -> bytes:
    """Read a delimiter, with the escapes of format strings, but without fields."""
    # click also converts the default.
    if isinstance(value, bytes):
        return value
    (delimiter, _), *more = MessageFormat.parse(value).parts
    if more or not delimiter:
        raise click.BadParameter(rf"expected text, such as ';' or '\0', got {value!r}")
    return delimiter


@dataclass(frozen=True, kw_only=True)
class Send(Connecting):
    """Send messages to DESTINATION.

    Each BODY is a message of its own. Without BODY, messages are read from standard input or from files.
    """

    destination: str | None = argument(None)
    body: tuple[str, ...] = argument((), nargs=-1)
    file: tuple[Path, ...] = option(
        (), "Input", "Send this file; - means standard input.", "-f", type=INPUT_FILE, multiple=True
    )
    lines: bool = flag("Input", "Send each input line as a message.")
    json_lines: bool = flag(
        "Input",
        'Send each input line as a message: {"destination": ..., "headers": {...}, "body": ...}.',
        "--json",
        "--json-lines",
        "-j",
    )
    text: bool = text_option()
    delimiter: bytes = option(
        LINE_END,
        "Input",
        r"What separates messages for --lines, such as ';' or '\0'.  [default: \n]",
        "-d",
        type=delimiter_of,
        metavar="TEXT",
        show_default=False,
    )
    empty: bool = flag("Input", "Send an empty message if standard input is empty.")
    header: Pairs = header_option("Message", "A header of the message, such as shop:7.")
    content_type: str | None = content_type_option("Message", "The MIME type of the body.")
    persistent: bool = flag("Message", "Keep the messages when the broker restarts.")
    ttl: float | None = option(None, "Message", "Expire the messages after this time.", type=SECONDS)
    priority: int | None = option(
        None, "Message", "The priority, 0 to 9; higher ones are delivered first.", type=Whole(0), metavar="N"
    )
    delay: float | None = option(None, "Message", "Deliver the messages after this delay.", type=SECONDS)
    group: str | None = option(
        None, "Message", "The message group: one consumer receives all of it, in order.", metavar="NAME"
    )
    template: bool = flag("Message", "Fill in {n} (1, 2, ...), {time} (UTC) and {uuid} in bodies and headers.")
    count: int = option(1, "Pace", "Send each message N times.", "-n", type=COUNT, metavar="N")
    rate: float | None = option(None, "Pace", "Send at most N messages per second.", "-r", type=RATE, metavar="N")
    receipt: bool = receipt_option("Confirmation", "Wait until the broker confirms each message.")
    in_flight: int = in_flight_option("Confirmation")
    patience: float = option(30.0, "Confirmation", "Give up after this time without a confirmation.", type=SECONDS)
    connection: LinkOptions = options(LinkOptions)

    def check(self) -> None:
        """Refuse contradictory arguments."""
        if self.destination is None and not self.json_lines:
            raise InvalidUsage("no destination. For example: trio-stomp send /queue/orders")
        if self.body and (self.file or self.lines or self.json_lines):
            raise InvalidUsage("pass bodies as arguments, or read them with --file, --lines or --json, not both")
        if self.delimiter != LINE_END and not self.lines:
            raise InvalidUsage("--delimiter is for --lines")
        if self.lines and self.json_lines:
            raise InvalidUsage("use either --lines or --json")

    async def run(self, link: Link, stop: Stop) -> None:
        """Send all messages, and say how many were sent."""
        async with link.connect() as client:
            sending = _Sending(client, self)
            try:
                await sending.run(stop)
            finally:
                if stop.signal is not None:
                    report(f"interrupted; {sending}")
            if stop.signal is None:
                say(str(sending))

    @property
    def send_options(self) -> SendOptions:
        """Return the options that depend on the broker."""
        return SendOptions(
            persistent=self.persistent, ttl=self.ttl, priority=self.priority, delay=self.delay, group=self.group
        )

    @property
    def is_typed(self) -> bool:
        """Whether the input is read from a terminal."""
        from_stdin = not self.body and (not self.file or STANDARD_INPUT in self.file)
        return from_stdin and is_terminal(sys.stdin)

    def batches(self, claimed: AbstractSet[str]) -> Iterator[list[OutgoingMessage]]:
        """Return the messages, in batches as they become available. This may wait, so run it in a thread.

        Args:
            claimed: Headers that options set; they override those of a line of JSON.
        """
        paths = self.file or (STANDARD_INPUT,)
        if self.body:
            return iter([[self._message(body) for body in self.body]])
        if self.json_lines:
            return read_lines(paths, lambda line: self._json_message(line, claimed))
        if self.lines:
            return read_lines(paths, lambda line: self._message(body_of(line, text=self.text)), self.delimiter)
        return ([self._message(read_whole(path, text=self.text, empty=self.empty))] for path in paths)

    def repeated(self, messages: Iterable[OutgoingMessage], first: int) -> Iterator[OutgoingMessage]:
        """Yield each message as often as it is to be sent, filled in if it is a template, with numbers from `first`."""
        numbers = itertools.count(first)
        for message in messages:
            for _ in range(self.count):
                yield _filled(message, next(numbers)) if self.template else message

    def _message(self, body: bytes | str) -> OutgoingMessage:
        return OutgoingMessage(
            self.destination or "", body, headers=self.header, content_type=self.content_type, **self.send_options
        )

    def _json_message(self, line: bytes, claimed: AbstractSet[str]) -> OutgoingMessage:
        headers = list(self.header)
        if self.content_type is not None:
            headers.append(("content-type", self.content_type))
        message = from_line(line, self.destination, headers, without=claimed)
        return dataclasses.replace(message, **self.send_options)


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


class _Sending:
    """Sends all messages, and counts them."""

    def __init__(self, client: Client, arguments: Send) -> None:
        self._client = client
        self._arguments = arguments
        self._publisher: Publisher | None = None

    @property
    def sent(self) -> int:
        """How many messages were sent."""
        # Every frame that this client sends after CONNECT is a SEND, and CONNECT is not counted.
        return self._client.statistics().frames_sent

    def __str__(self) -> str:
        how = "without confirmation" if self._publisher is None else f"{self._publisher.confirmed} confirmed"
        return f"{counted(self.sent, 'message')} sent, {how}"

    async def run(self, stop: Stop) -> None:
        """Send all messages. Those before one that cannot be read are sent, too."""
        client, arguments = self._client, self._arguments
        # Early, so that an unsupported option is reported before any input is read.
        asked = client.profile.dialect.send_headers(arguments.send_options or {}, time.time())
        batches = arguments.batches({name for name, _ in asked})
        is_typed = arguments.is_typed
        if is_typed:
            say("reading from the terminal: type the input and end it with Ctrl-D (Windows: Ctrl-Z and Enter)")
        # A progress bar would overwrite what is typed.
        with progress("sending", hidden=is_typed) as advance:
            if not arguments.receipt:
                failure = await self._send(batches, client.send_many, advance, stop)
            else:
                async with _open_patient_publisher(client, arguments.in_flight, arguments.patience) as publisher:
                    self._publisher = publisher
                    failure = await self._send(batches, publisher.send_many, advance, stop)
        if failure is None:
            return
        if isinstance(failure, CommandFailed):
            what, code = str(failure), failure.code
        else:
            what, code = f"message {self.sent + 1} cannot be sent: {failure}", ExitCode.USAGE
        if self.sent:
            # Invalid usage would say that nothing was sent.
            what, code = f"{what}; {self}", ExitCode.FAILED
        raise CommandFailed(what, code) from failure

    async def _send(
        self,
        batches: Iterator[list[OutgoingMessage]],
        send_many: Callable[[list[OutgoingMessage]], Awaitable[object]],
        advance: Advance,
        stop: Stop,
    ) -> CommandFailed | LocalProtocolError | None:
        """Send; return why a message cannot be read or sent, so that those before it are confirmed first."""
        number, rate = 1, self._arguments.rate
        due = current_time()
        try:
            with stop.work():
                while batch := await anyio.to_thread.run_sync(next, batches, None, abandon_on_cancel=True):
                    messages = self._arguments.repeated(batch, number)
                    while part := list(itertools.islice(messages, _BATCH if rate is None else 1)):
                        if rate is not None:
                            await anyio.sleep_until(due)
                            due = max(due + 1 / rate, current_time() - _CATCH_UP)
                        await send_many(part)
                        number += len(part)
                        advance(len(part))
        except (CommandFailed, LocalProtocolError) as error:
            return error
        return None


send = Command(
    Send,
    'trio-stomp send /queue/orders "tea for two" "coffee for one"',
    "trio-stomp send /queue/orders --file order.json --content-type application/json --persistent",
    "trio-stomp send /queue/orders '{\"id\": {n}}' --template --count 100 --rate 10 -H id:{uuid}",
    "tail -f orders.log | trio-stomp send /queue/orders --lines --text",
    "trio-stomp subscribe /queue/a --json --timeout 2 | trio-stomp send /queue/b --json",
)
