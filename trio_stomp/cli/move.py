"""``trio-stomp move``: move messages between destinations, in transactions, so that none is lost."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import click

from trio_stomp.cli.commands import command, option, together
from trio_stomp.cli.messages import MessageFilter, moved, take_batch
from trio_stomp.cli.options import SECONDS, Link, filter_options, gathered, header_of, link_of, link_options
from trio_stomp.cli.running import CommandFailed, ExitCode, Stop, run
from trio_stomp.cli.terminal import Advance, progress
from trio_stomp.client import Client, Message, OutgoingMessage, Subscription
from trio_stomp.errors import OutcomeUnknown, StaleMessage, TransactionLost

__all__ = ["Move", "Mover", "move", "origin_of", "run_move", "selection_options"]

logger: Final = logging.getLogger("trio_stomp.cli")

# Seconds to let a batch fill up: enough for a broker that has more, and not noticeable for the user.
_LINGER: Final = 0.05


def origin_of(headers: Mapping[str, str], destination: str) -> str | None:
    """Return the destination that a dead letter was originally sent to; None if its headers do not name it.

    Args:
        headers: The headers of the dead letter.
        destination: Where it is now. Artemis names the origin without its prefix; the prefix of this one is used.
    """
    # Set by Subscription.work() on messages that its handler could not process.
    ours = headers.get("x-original-destination")
    if ours is not None:
        return ours
    # RabbitMQ names the queue. /queue/ would declare it again, with other arguments; /amq/queue/ does not.
    queue = headers.get("x-first-death-queue")
    if queue is not None:
        return f"/amq/queue/{queue}"
    address = headers.get("_AMQ_ORIG_ADDRESS")
    if address is not None:
        kinds = ("/queue/", "/topic/")
        return next((kind + address for kind in kinds if destination.startswith(kind)), address)
    # ActiveMQ Classic; the broker of trio_stomp.testing.
    return headers.get("original-destination") or headers.get("dead-letter-source")


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """The arguments of `move`.

    Attributes:
        source: The destination to move from.
        target: The destination to move to.
        to_origin: Move each dead letter to where it was originally sent, instead.
        discard: Remove them, instead.
        count: Move at most this many.
        batch: Messages per transaction.
        idle: Stop after this many seconds without a message.
        prefetch: How many messages may be in transit or held.
        match: Only move messages with these headers.
        grep: Only move messages whose body matches this.
        header: Headers to set or replace.
    """

    source: str
    target: str | None = None
    to_origin: bool = False
    discard: bool = False
    count: int | None
    batch: int
    idle: float
    prefetch: int
    match: tuple[tuple[str, str], ...] = ()
    grep: str | None = None
    header: tuple[tuple[str, str], ...] = ()

    def check(self) -> None:
        """Refuse contradictory arguments.

        Raises:
            CommandFailed: They contradict each other.
        """
        if (self.target is not None) + self.to_origin + self.discard != 1:
            raise CommandFailed("where to? Name a target, or pass --to-origin", ExitCode.USAGE)
        if self.target == self.source:
            raise CommandFailed("source and target are the same: it would never end", ExitCode.USAGE)


class Mover:
    """Moves messages.

    Args:
        move: What to move.
        keep_on: Continue after the connection was lost and restored.

    Attributes:
        prefetch: The prefetch that the subscription needs.
        moved: How many were moved: their transactions are committed.
        held: How many were received but not selected; they go back in the end.
        uncertain: How many more may have been moved; their COMMIT was not confirmed.
        homeless: How many of those held have no header that names their origin.
    """

    def __init__(self, move: Move, *, keep_on: bool = False) -> None:
        move.check()
        self._move = move
        self._keep_on = keep_on
        self._selected = MessageFilter.of(move.match, move.grep)
        # A smaller one could not fill a batch.
        self.prefetch = max(move.prefetch, move.batch)
        self.moved = 0
        self.held = 0
        self.uncertain = 0
        self.homeless = 0

    def __str__(self) -> str:
        """Return a summary in one line."""
        left = f", {self.held} left where they were" if self.held else ""
        perhaps = f", perhaps {self.uncertain} more" if self.uncertain else ""
        done = "removed" if self._move.discard else "moved"
        return f"{self.moved} {'message' if self.moved == 1 else 'messages'} {done}{perhaps}{left}"

    async def run(self, client: Client, subscription: Subscription, advance: Advance) -> None:
        """Move until nothing is left, or the count is reached.

        Args:
            client: The client to send with.
            subscription: Where to move from, on that client.
            advance: Called with the number of messages moved.

        Raises:
            CommandFailed: Messages that are not selected fill the whole prefetch.
            TransactionLost: The connection was lost; the last batch stays where it was.
            OutcomeUnknown: The connection was lost during a COMMIT.
            StompError: As `Client.subscribe`.

        Cancellation: the open transaction is aborted, and its messages stay where they were.
        """
        move = self._move
        while move.count is None or self.moved < move.count:
            room = move.batch if move.count is None else min(move.batch, move.count - self.moved)
            batch = await take_batch(subscription, room, move.idle, linger=_LINGER)
            if not batch:
                return
            try:
                advance(await self._move_batch(client, batch))
            except (TransactionLost, StaleMessage, OutcomeUnknown) as error:
                if not self._keep_on:
                    raise
                # Either the whole batch was moved, or the broker redelivers all of it.
                logger.warning("the connection was lost during a batch: %s", error)
                if isinstance(error, OutcomeUnknown):
                    self.uncertain += len(batch)
                # Held messages went back, too, and are counted again when they are redelivered.
                self.held = self.homeless = 0
            if subscription.statistics().unsettled >= self.prefetch:
                why = f"{self.held} messages that are not selected block the others; raise --prefetch"
                raise CommandFailed(why)

    async def _move_batch(self, client: Client, batch: Sequence[Message]) -> int:
        chosen: list[Message] = []
        outgoing: list[OutgoingMessage] = []
        for message in batch:
            if not self._selected.chooses(message):
                self.held += 1
                continue
            if not self._move.discard:
                target = self._move.target or origin_of(message.headers, self._move.source)
                if target is None:
                    self.held += 1
                    self.homeless += 1
                    continue
                outgoing.append(moved(message, target, self._move.header))
            chosen.append(message)
        if not chosen:
            return 0
        async with client.transaction() as transaction:
            await transaction.send_many(outgoing)
            for message in chosen:
                await transaction.ack(message)
        self.moved += len(chosen)
        return len(chosen)


_COUNT: Final = click.IntRange(min=1)


async def run_move(move: Move, link: Link, what: str, stop: Stop) -> None:
    """Connect, and move until the end or a signal; print what was done in any case.

    Raises:
        CommandFailed: As `Mover.run`, or messages do not say where they came from.
        StompError: As `Mover.run`.

    Cancellation: as `Mover.run`.
    """
    mover = Mover(move, keep_on=bool(link.options.get("reconnect")))
    try:
        async with (
            link.connect() as client,
            client.subscribe(move.source, prefetch=mover.prefetch) as subscription,
        ):
            with progress(what, move.count) as advance, stop.work():
                await mover.run(client, subscription, advance)
    finally:
        # Whatever happened, committed batches stay moved.
        click.echo(mover)
    if mover.homeless:
        raise CommandFailed(f"{mover.homeless} messages do not say where they came from; they stay in the queue")


# Which messages of a queue a command takes.
selection_options: Final = together(
    option("Selection", "--count", "-n", type=_COUNT, metavar="N", help="Take at most N messages."),
    option("Subscription", "--batch", type=_COUNT, default=100, help="Messages per transaction."),
    option("Selection", "--idle", type=SECONDS, default=2.0, help="Stop after this time without a message."),
    filter_options,
)


@command(
    "move",
    "Move messages, for example out of a dead-letter queue.",
    "trio-stomp move /queue/dlq /queue/orders --count 1",
    "trio-stomp move /queue/dlq --to-origin --match shop=7",
)
@click.argument("source")
@click.argument("target", required=False)
@option("Target", "--to-origin", is_flag=True, help="Move each dead letter to where it was originally sent.")
@selection_options
@option(
    "Target", "--header", "-H", type=header_of, multiple=True, metavar="NAME:VALUE", help="A header to set or replace."
)
@link_options
@click.pass_context
def move(context: click.Context, /, **_options: object) -> None:
    """Move messages from SOURCE to TARGET, for example out of a dead-letter queue.

    Each batch is sent and acknowledged in one transaction, so that no message is lost when something fails. If the
    broker's transactions are not atomic, a message may end up in both queues.
    """
    wanted = gathered(Move, context)
    wanted.check()
    run(partial(run_move, wanted, link_of(context), "moving"))
