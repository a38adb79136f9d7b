"""``trio-stomp subscribe``, also called ``tail``."""

from __future__ import annotations

import mimetypes
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio
import click

from trio_stomp.cli.commands import Command, argument, flag, option, options
from trio_stomp.cli.layouts import Layout
from trio_stomp.cli.messages import Filter, blocked_by, require_all, room, take_batch
from trio_stomp.cli.options import ACK_MODE, HEADERS, Connecting, Link, LinkOptions, Pairs, Until
from trio_stomp.cli.running import CommandFailed, InvalidUsage, Stop
from trio_stomp.cli.terminal import Output, say
from trio_stomp.client import Client, Message, Subscription
from trio_stomp.printable import one_line
from trio_stomp.protocol import AckMode

__all__ = ["subscribe", "tail"]

# Messages per write, because each write needs a thread.
_BATCH: Final = 256

# Seconds after a signal for messages that are being printed and acknowledged: the reader of the output may not read.
_SETTLING: Final = 2.0


@dataclass(frozen=True, kw_only=True)
class Subscribe(Connecting):
    """Print the messages of DESTINATION as they arrive, until Ctrl-C.

    Printed messages are acknowledged, which removes them from their queue, except with --peek or --browse. Messages
    that --match or --grep filter out return to the queue in the end.
    """

    destination: str = argument("", required=True)
    until: Until = options(Until)
    filter: Filter = options(Filter)
    selector: str | None = option(
        None, "Selection", "A filter for the broker, where it supports selectors.", metavar="SQL"
    )
    peek: bool = flag("Subscription", "Acknowledge nothing: all messages return to the queue.")
    browse: bool = flag("Subscription", "Print the messages in a queue without removing them, then stop.")
    ack: str | None = option(
        None, "Subscription", "The ack mode.  [default: auto for /topic/, else client-individual]", type=ACK_MODE
    )
    durable: str | None = option(None, "Subscription", "Use the durable subscription of this name.", metavar="NAME")
    subscribe_header: Pairs = option((), "Subscription", "An additional header of SUBSCRIBE.", **HEADERS)
    output: Path | None = option(
        None,
        "Output",
        "Write each body to a file of its own in this folder, and print the names of the files.",
        "-o",
        type=click.Path(file_okay=False, path_type=Path),
        metavar="DIR",
    )
    layout: Layout = options(Layout)
    connection: LinkOptions = options(LinkOptions)

    @property
    def ack_mode(self) -> str:
        """The ack mode: auto for topics and for browsing, where no message returns to a queue."""
        if self.browse:
            return "auto"
        return self.ack or ("auto" if self._is_topic else "client-individual")

    @property
    def _is_topic(self) -> bool:
        return self.destination.startswith("/topic/")

    def check(self) -> None:
        """Refuse contradictory arguments."""
        self.layout.check()
        if self.output is not None and self.layout != Layout():
            raise InvalidUsage("--output writes bodies to files, so it excludes the options for printing")
        if self.browse and (self.ack is not None or self.peek):
            raise InvalidUsage("--browse removes nothing, so it cannot be combined with --ack or --peek")
        if self.ack == "client" and (self.filter.is_selective or self.peek):
            msg = "--ack client acknowledges all earlier messages, so it excludes --match, --grep and --peek"
            raise InvalidUsage(msg)
        # What cannot be printed should not be received.
        Output()

    def open(self, client: Client) -> AbstractAsyncContextManager[Subscription]:
        """Subscribe; refuse what would lose messages that are not printed."""
        leaves_some = self.peek or self.filter.is_selective or self.until.count is not None
        if self.ack == "auto" and leaves_some and client.profile.acknowledges and not self._is_topic:
            msg = (
                "--ack auto takes messages off their queue before they are printed, so it excludes --match, --grep, "
                "--peek and --count, which leave some there"
            )
            raise InvalidUsage(msg)
        return client.subscribe(
            self.destination,
            ack=AckMode.of(self.ack_mode),
            prefetch=self.filter.prefetch,
            headers=self.subscribe_header,
            selector=self.selector,
            durable=self.durable,
            browse=self.browse,
        )

    async def run(self, link: Link, stop: Stop) -> None:
        """Print messages until there were enough, or the first signal."""
        async with link.connect() as client, self.open(client) as subscription:
            say(f"subscribed to {self.destination}; press Ctrl-C to stop")
            with stop.work():
                await _Printer(self).run(subscription, stop)


class _Printer:
    """Prints messages, and acknowledges each after printing it."""

    def __init__(self, arguments: Subscribe) -> None:
        self._arguments = arguments
        self._output = Output()
        self._settles = arguments.ack_mode != "auto"
        self._number = 0
        self._printed = 0
        # Received but not selected: they go back in the end.
        self._held = 0

    async def run(self, subscription: Subscription, stop: Stop) -> None:
        """Print messages until the count is reached, or none arrives in time."""
        arguments = self._arguments
        count, timeout = arguments.until.count, arguments.until.timeout
        while batch := await take_batch(subscription, room(_BATCH, count, self._printed), timeout):
            await self._print(subscription, batch, stop)
            if self._settles and subscription.statistics().unsettled >= arguments.filter.prefetch:
                if arguments.peek and not arguments.filter.is_selective:
                    break
                raise blocked_by(self._held)
        if not (arguments.peek or arguments.browse):
            require_all(self._printed, count)

    async def _print(self, subscription: Subscription, batch: Sequence[Message], stop: Stop) -> None:
        chosen = [message for message in batch if self._arguments.filter.chooses(message)]
        # Printed messages must not be redelivered after Ctrl-C.
        async with stop.settling(_SETTLING):
            if chosen:
                if self._arguments.output is None:
                    terminal = self._output.is_terminal
                    lines = [self._arguments.layout.show(message, for_terminal=terminal) for message in chosen]
                else:
                    lines = await anyio.to_thread.run_sync(self._save, self._arguments.output, chosen)
                await self._output.write(b"".join(lines))
                self._printed += len(chosen)
            if self._settles:
                taken = [] if self._arguments.peek else chosen
                self._held += len(batch) - len(taken)
                if taken and not self._held:
                    await subscription.ack_up_to(taken[-1])
                else:
                    for message in taken:
                        await message.ack()

    def _save(self, folder: Path, messages: Sequence[Message]) -> list[bytes]:
        """Write each body to a file; return their names, a line each."""
        lines: list[bytes] = []
        for message in messages:
            kind = (message.content_type or "").partition(";")[0].strip()
            suffix = mimetypes.guess_extension(kind) or ".body"
            try:
                if not self._number:
                    # Files of an earlier run stay.
                    folder.mkdir(parents=True, exist_ok=True)
                    numbers = [int(each.stem) for each in folder.iterdir() if each.stem.isdecimal()]
                    self._number = max(numbers, default=0)
                path = self._write(folder, suffix, message.body)
            except OSError as error:
                why = f"the file for a message cannot be written: {error.strerror}: {error.filename or folder}"
                raise CommandFailed(why) from error
            lines.append(one_line(str(path)).encode() + b"\n")
        return lines

    def _write(self, folder: Path, suffix: str, body: bytes) -> Path:
        """Write a file whose name is the next number that is free."""
        while True:
            self._number += 1
            path = folder / f"{self._number:06}{suffix}"
            with suppress(FileExistsError), path.open("xb") as file:
                try:
                    file.write(body)
                    # Not when it is closed, which would be too late.
                    file.flush()
                except OSError:
                    path.unlink()
                    raise
                return path


subscribe = tail = Command(
    Subscribe,
    "trio-stomp subscribe /queue/orders --peek --count 10",
    "trio-stomp tail /topic/prices --headers --match shop=7 --grep tea",
    r"trio-stomp subscribe /queue/orders --format '{id} {header:shop} {body}\n'",
    "trio-stomp subscribe /queue/orders --json > orders.jsonl",
    "trio-stomp subscribe /queue/reports --output reports --count 10",
)
