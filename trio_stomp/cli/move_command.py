"""``trio-stomp move``."""

from __future__ import annotations

from dataclasses import dataclass

import click

from trio_stomp.cli.exit_codes import CommandFailed, ExitCode
from trio_stomp.cli.feedback import progress
from trio_stomp.cli.link_options import LinkOptions, gathered, link_options
from trio_stomp.cli.message_filter import MessageFilter
from trio_stomp.cli.moving import Move, Mover
from trio_stomp.cli.running import Stop, run
from trio_stomp.cli.value_types import SECONDS, header_of, match_of
from trio_stomp.client import Client

__all__ = ["MoveArguments", "move"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveArguments:
    """What to move, as the user wrote it; see `Move`."""

    source: str
    target: str | None
    to_origin: bool
    count: int | None
    batch: int
    idle: float
    prefetch: int
    match: tuple[tuple[str, str], ...]
    grep: str | None
    header: tuple[tuple[str, str], ...]

    def move(self, *, keep_on: bool) -> Move:
        """What is meant.

        Raises:
            CommandFailed: It cannot be meant.
        """
        if (self.target is None) is not self.to_origin:
            raise CommandFailed("where to? Name a target, or write --to-origin", ExitCode.USAGE)
        if self.target == self.source:
            raise CommandFailed("source and target are the same: it would never end", ExitCode.USAGE)
        return Move(
            source=self.source,
            target=self.target,
            count=self.count,
            batch=self.batch,
            idle=self.idle,
            # Less could not fill a batch.
            prefetch=max(self.prefetch, self.batch),
            chosen=MessageFilter.of(self.match, self.grep),
            header=self.header,
            keep_on=keep_on,
        )


@click.command(short_help="Move messages, as out of a dead-letter queue.")
@click.argument("source")
@click.argument("target", required=False)
@click.option("--to-origin", is_flag=True, help="Move each dead letter to where it was sent to at first.")
@click.option("--count", "-n", type=click.IntRange(min=1), metavar="N", help="Move no more than so many.")
@click.option(
    "--batch", type=click.IntRange(min=1), default=100, show_default=True, help="Messages in one transaction."
)
@click.option(
    "--idle",
    type=SECONDS,
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Everything was moved when nothing came for so long.",
)
@click.option(
    "--prefetch", type=click.IntRange(min=1), default=1000, show_default=True, help="Messages on their way, or held."
)
@click.option(
    "--match", "-m", type=match_of, multiple=True, metavar="NAME=VALUE", help="Move messages with this header only."
)
@click.option("--grep", "-g", metavar="REGEX", help="Move messages only whose body has this in it.")
@click.option("--header", "-H", type=header_of, multiple=True, metavar="NAME:VALUE", help="A header to set or replace.")
@link_options
@click.pass_context
def move(context: click.Context, /, **_options: object) -> None:
    """Move messages from SOURCE to TARGET, as from a dead-letter queue to where they belong.

    Each batch is sent and acknowledged in one transaction: when something breaks, no message is lost. Where the
    broker's transactions are not atomic, a message may then be in both queues.
    """
    link, arguments = gathered(LinkOptions, context), gathered(MoveArguments, context)

    async def command(stop: Stop) -> None:
        meant = arguments.move(keep_on=link.reconnect)
        mover = Mover(meant)
        try:
            async with link.connect() as client:
                await move_all(client, mover, stop)
        finally:
            # However it ends: what was moved stays moved.
            click.echo(report(mover))
        if mover.homeless:
            raise CommandFailed(f"{mover.homeless} messages do not tell where they came from; they stay in the queue")

    run(command)


async def move_all(client: Client, mover: Mover, stop: Stop) -> None:
    """Move everything that is meant.

    Raises:
        StompError: As `Mover.run`.

    Cancellation: as `Mover.run`.
    """
    move = mover.move
    async with client.subscribe(move.source, prefetch=move.prefetch) as subscription:
        with progress("moving", move.count) as advance, stop.work():
            await mover.run(client, subscription, advance)


def report(mover: Mover) -> str:
    """What was done, in a line."""
    left = f", {mover.held} left where they were" if mover.held else ""
    perhaps = f", perhaps {mover.uncertain} more" if mover.uncertain else ""
    return f"{mover.moved} {'message' if mover.moved == 1 else 'messages'} moved{perhaps}{left}"
