"""``trio-stomp subscribe``, also called ``tail``."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Final

import click
import trio

from trio_stomp.cli.messages import Layout, MessageFilter, displayed, take_batch
from trio_stomp.cli.options import SECONDS, LinkOptions, gathered, header_of, link_options, match_of
from trio_stomp.cli.running import CommandFailed, ExitCode, Stop, run
from trio_stomp.cli.terminal import Output, say
from trio_stomp.client import Client, Message, Subscription
from trio_stomp.protocol import AckMode

__all__ = ["Printer", "SubscribeArguments", "subscribe"]

# What is printed with one write, and one thread for it.
_BATCH: Final = 256

# Seconds for acknowledging what was printed: a broker that reads nothing for so long cannot be waited for.
_SETTLING: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscribeArguments:
    """What to subscribe to, and what to print of it.

    Attributes:
        destination: What to subscribe to.
        count: End after so many messages.
        timeout: End when none came for so many seconds.
        match: Headers with the value that they must have.
        grep: What must be found in the body.
        selector: The broker's own filter.
        peek: Give all messages back in the end.
        browse: Let the broker show what is in a queue, and end with that.
        ack: The ack mode; None: auto for topics, else client-individual.
        prefetch: How many messages may be on their way or held.
        durable: Name of a durable subscription.
        subscribe_header: More headers of SUBSCRIBE.
        headers: Print the headers, too.
        as_json: Print lines of JSON.
    """

    destination: str
    count: int | None
    timeout: float | None
    match: tuple[tuple[str, str], ...]
    grep: str | None
    selector: str | None
    peek: bool
    browse: bool
    ack: str | None
    prefetch: int
    durable: str | None
    subscribe_header: tuple[tuple[str, str], ...]
    headers: bool
    as_json: bool

    @property
    def ack_mode(self) -> str:
        """The mode to subscribe with: a topic has nothing that could be given back, and browsing takes nothing."""
        if self.browse:
            return "auto"
        return self.ack or ("auto" if self.destination.startswith("/topic/") else "client-individual")

    def filter(self) -> MessageFilter:
        """Which messages are printed.

        Raises:
            CommandFailed: The arguments cannot be meant.
        """
        chosen = MessageFilter.of(self.match, self.grep)
        if self.browse and (self.ack is not None or self.peek):
            raise CommandFailed("--browse takes nothing, so it goes with neither --ack nor --peek", ExitCode.USAGE)
        if self.ack == "client" and (chosen or self.peek):
            msg = "--match, --grep and --peek keep single messages back, and --ack client acknowledges all before one"
            raise CommandFailed(msg, ExitCode.USAGE)
        return chosen

    def open(self, client: Client) -> AbstractAsyncContextManager[Subscription]:
        """The subscription."""
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
    """Prints messages, and settles them: acknowledged is what was printed, and only then.

    Attributes:
        printed: How many were printed.
        held: How many were taken and are given back in the end.
    """

    def __init__(self, arguments: SubscribeArguments, output: Output) -> None:
        self._arguments = arguments
        self._chosen = arguments.filter()
        self._layout = Layout.of(headers=arguments.headers, as_json=arguments.as_json)
        self._output = output
        self._settles = arguments.ack_mode != "auto"
        self.printed = 0
        self.held = 0

    async def run(self, subscription: Subscription) -> None:
        """Print messages until there were enough, or none came in time.

        Raises:
            CommandFailed: Fewer came in time than were asked for, or too many are held.
            BrokenPipeError: Nobody reads what is printed.

        Cancellation: what was printed and not acknowledged comes again.
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
                msg = f"{self.held} messages are held, to be given back, and no more can come; raise --prefetch"
                raise CommandFailed(msg)
        looks = arguments.peek or arguments.browse
        if arguments.count is not None and self.printed < arguments.count and not looks:
            why = f"only {self.printed} of {arguments.count} messages came in time"
            raise CommandFailed(why, ExitCode.TIMED_OUT)

    async def _print(self, subscription: Subscription, batch: Sequence[Message]) -> None:
        chosen = [message for message in batch if self._chosen.chooses(message)]
        if chosen:
            terminal = self._output.is_terminal
            lines = [displayed(message, self._layout, for_terminal=terminal) for message in chosen]
            await self._output.write(b"".join(lines))
            self.printed += len(chosen)
        if not self._settles:
            return
        taken = [] if self._arguments.peek else chosen
        self.held += len(batch) - len(taken)
        # Ctrl-C in between must not bring back what was printed.
        with trio.move_on_after(_SETTLING) as scope:
            scope.shield = True
            if taken and not self.held:
                await subscription.ack_up_to(taken[-1])
            else:
                for message in taken:
                    await message.ack()
        if scope.cancelled_caught:
            msg = f"the broker took no acknowledgments for {_SETTLING:g} s; what was printed last comes again"
            raise CommandFailed(msg, ExitCode.LOST)


@click.command(short_help="Print messages as they come.")
@click.argument("destination")
@click.option("--count", "-n", type=click.IntRange(min=1), metavar="N", help="End after so many messages.")
@click.option("--timeout", "-w", type=SECONDS, metavar="SECONDS", help="End when none came for so long.")
@click.option(
    "--match", "-m", type=match_of, multiple=True, metavar="NAME=VALUE", help="Print messages with this header only."
)
@click.option("--grep", "-g", metavar="REGEX", help="Print messages only whose body has this in it.")
@click.option("--selector", metavar="SQL", help="Let the broker choose, where it can.")
@click.option("--peek", is_flag=True, help="Acknowledge nothing: all goes back in the end.")
@click.option("--browse", is_flag=True, help="Print what is in a queue, without taking it, and end.")
@click.option(
    "--ack",
    type=click.Choice(["client-individual", "client", "auto"]),
    help="The ack mode.  [default: auto for /topic/, else client-individual]",
)
@click.option(
    "--prefetch", type=click.IntRange(min=1), default=1000, show_default=True, help="Messages on their way, or held."
)
@click.option("--durable", metavar="NAME", help="A durable subscription of that name.")
@click.option("--subscribe-header", type=header_of, multiple=True, metavar="NAME:VALUE", help="A header of SUBSCRIBE.")
@click.option("--headers", "-i", is_flag=True, help="Print the headers, too.")
@click.option("--json", "-j", "as_json", is_flag=True, help="Print lines of JSON, as send --json-lines reads them.")
@link_options
@click.pass_context
def subscribe(context: click.Context, /, **_options: object) -> None:
    """Print the messages of DESTINATION as they come, until Ctrl-C.

    What was printed is acknowledged, and is gone from its queue; with --peek or --browse nothing is. Messages that
    --match or --grep leave out go back to the queue in the end.
    """
    link, arguments = gathered(LinkOptions, context), gathered(SubscribeArguments, context)

    async def command(stop: Stop) -> None:
        printer = Printer(arguments, Output.standard())
        async with link.connect() as client, arguments.open(client) as subscription:
            say(f"subscribed to {arguments.destination}; Ctrl-C ends")
            with stop.work():
                await printer.run(subscription)

    run(command)
