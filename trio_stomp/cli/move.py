"""``trio-stomp move``: messages from one destination to others, in transactions, so that none is lost."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import click

from trio_stomp.cli.messages import MessageFilter, moved, take_batch
from trio_stomp.cli.options import SECONDS, LinkOptions, gathered, header_of, link_options, match_of
from trio_stomp.cli.running import CommandFailed, ExitCode, Stop, run
from trio_stomp.cli.terminal import Advance, progress
from trio_stomp.client import Client, Message, OutgoingMessage, Subscription
from trio_stomp.errors import OutcomeUnknown, StaleMessage, TransactionLost

__all__ = ["Move", "MoveArguments", "Mover", "move", "origin_of"]


def origin_of(headers: Mapping[str, str], destination: str) -> str | None:
    """The destination that a dead letter was sent to at first; None where it does not tell.

    Args:
        headers: The headers of the dead letter.
        destination: Where it lies now: Artemis tells the bare address alone, so its prefix is taken from here.
    """
    # By Subscription.work(), which puts aside what its handlers cannot handle; it knows best.
    ours = headers.get("x-original-destination")
    if ours is not None:
        return ours
    # RabbitMQ tells the queue. /amq/queue/ sends to it as it is; /queue/ would declare it anew, with other arguments.
    queue = headers.get("x-first-death-queue")
    if queue is not None:
        return f"/amq/queue/{queue}"
    address = headers.get("_AMQ_ORIG_ADDRESS")
    if address is not None:
        kinds = ("/queue/", "/topic/")
        return next((kind + address for kind in kinds if destination.startswith(kind)), address)
    # ActiveMQ Classic, and the broker of trio_stomp.testing.
    return headers.get("original-destination") or headers.get("dead-letter-source")


logger: Final = logging.getLogger("trio_stomp.cli")

# Seconds in which a batch may fill: long for a broker that has more, short for somebody who waits.
_LINGER: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """What to move, and where to.

    Attributes:
        source: Where from.
        target: Where to; None: each message to where it came from before it became a dead letter.
        count: No more than so many.
        batch: How many in one transaction.
        idle: Everything was moved when nothing came for so many seconds.
        prefetch: How many may be on their way or held.
        chosen: Which are moved.
        header: Headers to set.
        keep_on: After the loss of a connection, go on with the next one.
    """

    source: str
    target: str | None
    count: int | None
    batch: int
    idle: float
    prefetch: int
    chosen: MessageFilter = field(default_factory=MessageFilter)
    header: tuple[tuple[str, str], ...] = ()
    keep_on: bool = False


class Mover:
    """Moves messages.

    Attributes:
        move: What to move.
        moved: How many were moved: their transactions are committed.
        held: How many were taken and are given back in the end, because they are not meant.
        uncertain: How many may have been moved besides: their COMMIT was not answered.
        homeless: How many of those that are held do not tell where they came from.
    """

    def __init__(self, move: Move) -> None:
        self.move = move
        self.moved = 0
        self.held = 0
        self.uncertain = 0
        self.homeless = 0

    async def run(self, client: Client, subscription: Subscription, advance: Advance) -> None:
        """Move until there is nothing left, or it is enough.

        Args:
            client: What to send with.
            subscription: Where to take from, on that client.
            advance: Is told how many were moved.

        Raises:
            CommandFailed: Messages that are not meant fill the whole prefetch.
            TransactionLost: The connection was lost; the last batch stays where it was.
            OutcomeUnknown: It was lost in the middle of a COMMIT.
            StompError: As `Client.subscribe`.

        Cancellation: the transaction that is open is aborted, and its messages stay where they were.
        """
        move = self.move
        while move.count is None or self.moved < move.count:
            room = move.batch if move.count is None else min(move.batch, move.count - self.moved)
            batch = await take_batch(subscription, room, move.idle, linger=_LINGER)
            if not batch:
                return
            try:
                advance(await self._move_batch(client, batch))
            except (TransactionLost, StaleMessage, OutcomeUnknown) as error:
                if not move.keep_on:
                    raise
                # Either all of the batch was moved, or all of it comes again.
                logger.warning("the connection was lost in the middle of a batch: %s", error)
                if isinstance(error, OutcomeUnknown):
                    self.uncertain += len(batch)
                # What was held is given back, too, and is counted again when it comes.
                self.held = self.homeless = 0
            if subscription.statistics().unsettled >= move.prefetch:
                msg = f"{self.held} messages are not to be moved and in the way of the others; raise --prefetch"
                raise CommandFailed(msg)

    async def _move_batch(self, client: Client, batch: Sequence[Message]) -> int:
        pairs: list[tuple[Message, OutgoingMessage]] = []
        for message in batch:
            if not self.move.chosen.chooses(message):
                self.held += 1
                continue
            target = self.move.target or origin_of(message.headers, self.move.source)
            if target is None:
                self.held += 1
                self.homeless += 1
                continue
            pairs.append((message, moved(message, target, self.move.header)))
        if not pairs:
            return 0
        async with client.transaction() as transaction:
            await transaction.send_many(outgoing for _, outgoing in pairs)
            for message, _ in pairs:
                await transaction.ack(message)
        self.moved += len(pairs)
        return len(pairs)


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
