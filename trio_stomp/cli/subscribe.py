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

from trio_stomp.cli.commands import command, option
from trio_stomp.cli.layouts import Layout, layout_options
from trio_stomp.cli.messages import MessageFilter, take_batch
from trio_stomp.cli.options import (
    count_option,
    filter_options,
    gathered,
    header_of,
    link_of,
    link_options,
    timeout_option,
)
from trio_stomp.cli.running import CommandFailed, ExitCode, Stop, run
from trio_stomp.cli.terminal import Output, say
from trio_stomp.client import Client, Message, Subscription
from trio_stomp.printable import one_line
from trio_stomp.protocol import AckMode

__all__ = ["Printer", "SubscribeArguments", "subscribe"]

# Messages per write, because each write needs a thread.
_BATCH: Final = 256

# Seconds to wait until printed messages are acknowledged, if the broker does not read.
_SETTLING: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscribeArguments:
    """The arguments of `subscribe`.

    Attributes:
        destination: What to subscribe to.
        count: Stop after this many messages.
        timeout: Stop after this many seconds without a message.
        match: Only print messages with these headers.
        grep: Only print messages whose body matches this.
        output: Write each body to a file of its own in this folder, and print the names of the files.
        selector: A filter for the broker.
        peek: Return all messages to the queue in the end.
        browse: Have the broker list the messages in a queue, then stop.
        ack: The ack mode; None: auto for topics, else client-individual.
        prefetch: How many messages may be in transit or held.
        durable: Name of a durable subscription.
        subscribe_header: Additional headers of SUBSCRIBE.
    """

    destination: str
    count: int | None
    timeout: float | None
    match: tuple[tuple[str, str], ...]
    grep: str | None
    output: Path | None
    selector: str | None
    peek: bool
    browse: bool
    ack: str | None
    prefetch: int
    durable: str | None
    subscribe_header: tuple[tuple[str, str], ...]

    @property
    def ack_mode(self) -> str:
        """The ack mode: auto for topics and for browsing, where no message returns to a queue."""
        if self.browse:
            return "auto"
        return self.ack or ("auto" if self.destination.startswith("/topic/") else "client-individual")

    def filter(self, layout: Layout) -> MessageFilter:
        """Return the filter for the messages to print.

        Raises:
            CommandFailed: The arguments contradict each other.
        """
        chosen = MessageFilter.of(self.match, self.grep)
        if self.output is not None and layout != Layout():
            raise CommandFailed(
                "--output writes bodies to files, so it excludes the options for printing", ExitCode.USAGE
            )
        if self.browse and (self.ack is not None or self.peek):
            raise CommandFailed(
                "--browse removes nothing, so it cannot be combined with --ack or --peek", ExitCode.USAGE
            )
        if self.ack == "client" and (chosen or self.peek):
            raise CommandFailed(
                "--ack client acknowledges all earlier messages, so it excludes --match, --grep and --peek",
                ExitCode.USAGE,
            )
        return chosen

    def open(self, client: Client) -> AbstractAsyncContextManager[Subscription]:
        """Open the subscription."""
        return client.subscribe(
            self.destination,
            ack=AckMode.of(self.ack_mode),
            prefetch=self.prefetch,
            headers=self.subscribe_header,
            selector=self.selector,
            durable=self.durable,
            browse=self.browse,
        )


class Printer:
    """Prints messages, and acknowledges each after printing it.

    Attributes:
        printed: How many were printed.
        held: How many were received but not selected; they go back in the end.
    """

    def __init__(self, arguments: SubscribeArguments, layout: Layout, output: Output) -> None:
        self._arguments = arguments
        layout.check()
        self._chosen = arguments.filter(layout)
        self._layout = layout
        self._output = output
        self._settles = arguments.ack_mode != "auto"
        self._number = 0
        self.printed = 0
        self.held = 0

    async def run(self, subscription: Subscription) -> None:
        """Print messages until the count is reached, or none arrives in time.

        Raises:
            CommandFailed: Fewer than `count` arrived in time, or too many are held.
            BrokenPipeError: The output was closed.

        Cancellation: messages that were printed but not acknowledged are redelivered.
        """
        arguments = self._arguments
        while arguments.count is None or self.printed < arguments.count:
            room = _BATCH if arguments.count is None else min(_BATCH, arguments.count - self.printed)
            batch = await take_batch(subscription, room, arguments.timeout)
            if not batch:
                break
            await self._print(subscription, batch)
            if self._settles and subscription.statistics().unsettled >= arguments.prefetch:
                if arguments.peek and not self._chosen:
                    break
                msg = f"{self.held} messages that are not selected block the others; raise --prefetch"
                raise CommandFailed(msg)
        looks = arguments.peek or arguments.browse
        if arguments.count is not None and self.printed < arguments.count and not looks:
            why = f"only {self.printed} of {arguments.count} messages came in time"
            raise CommandFailed(why, ExitCode.TIMED_OUT)

    async def _print(self, subscription: Subscription, batch: Sequence[Message]) -> None:
        chosen = [message for message in batch if self._chosen.chooses(message)]
        if chosen:
            terminal = self._output.is_terminal
            if self._arguments.output is None:
                lines = [self._layout.show(message, for_terminal=terminal) for message in chosen]
            else:
                # Canceled between here and its ACK, a message is in a file and is delivered again.
                lines = await anyio.to_thread.run_sync(self._save, self._arguments.output, chosen)
            await self._output.write(b"".join(lines))
            self.printed += len(chosen)
        if not self._settles:
            return
        taken = [] if self._arguments.peek else chosen
        self.held += len(batch) - len(taken)
        # Printed messages must not be redelivered after Ctrl-C.
        with anyio.move_on_after(_SETTLING) as scope:
            scope.shield = True
            if taken and not self.held:
                await subscription.ack_up_to(taken[-1])
            else:
                for message in taken:
                    await message.ack()
        if scope.cancelled_caught:
            msg = (
                f"the broker did not accept acknowledgments for {_SETTLING:g} s; the last messages will be redelivered"
            )
            raise CommandFailed(msg, ExitCode.LOST)

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
                    self._number = max(
                        (int(each.stem) for each in folder.iterdir() if each.stem.isdecimal()), default=0
                    )
                path = self._write(folder, suffix, message.body)
            except OSError as error:
                why = f"the file for a message cannot be written: {error.strerror}: {error.filename}"
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
                except OSError:
                    path.unlink()
                    raise
                return path


@command(
    "subscribe",
    "Print messages as they arrive.",
    "trio-stomp subscribe /queue/orders --peek --count 10",
    "trio-stomp tail /topic/prices --headers --match shop=7 --grep tea",
    r"trio-stomp subscribe /queue/orders --format '{id} {header:shop} {body}\n'",
    "trio-stomp subscribe /queue/orders --json > orders.jsonl",
    "trio-stomp subscribe /queue/reports --output reports --count 10",
)
@click.argument("destination")
@count_option
@timeout_option
@filter_options
@option("Selection", "--selector", metavar="SQL", help="A filter for the broker, where it supports selectors.")
@option("Subscription", "--peek", is_flag=True, help="Acknowledge nothing: all messages return to the queue.")
@option(
    "Subscription", "--browse", is_flag=True, help="Print the messages in a queue without removing them, then stop."
)
@option(
    "Subscription",
    "--ack",
    type=click.Choice(["client-individual", "client", "auto"]),
    help="The ack mode.  [default: auto for /topic/, else client-individual]",
)
@option("Subscription", "--durable", metavar="NAME", help="Use the durable subscription of this name.")
@option(
    "Subscription",
    "--subscribe-header",
    type=header_of,
    multiple=True,
    metavar="NAME:VALUE",
    help="An additional header of SUBSCRIBE.",
)
@option(
    "Output",
    "--output",
    "-o",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write each body to a file of its own in this folder, and print the names of the files.",
)
@layout_options
@link_options
@click.pass_context
def subscribe(context: click.Context, /, **_options: object) -> None:
    """Print the messages of DESTINATION as they arrive, until Ctrl-C.

    Printed messages are acknowledged, which removes them from their queue, except with --peek or --browse. Messages
    that --match or --grep filter out return to the queue in the end.
    """
    arguments, layout = gathered(SubscribeArguments, context), gathered(Layout, context)
    printer = Printer(arguments, layout, Output.standard())
    link = link_of(context)

    async def work(stop: Stop) -> None:
        async with link.connect() as client, arguments.open(client) as subscription:
            say(f"subscribed to {arguments.destination}; press Ctrl-C to stop")
            with stop.work():
                await printer.run(subscription)

    run(work)
