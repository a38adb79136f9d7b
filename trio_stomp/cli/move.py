"""``trio-stomp move``: move messages between destinations, in transactions, so that none is lost."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import click

from trio_stomp.cli.commands import command, flag, option, together
from trio_stomp.cli.messages import MessageFilter, blocked_by, moved, room, take_batch
from trio_stomp.cli.options import COUNT, SECONDS, Link, filter_options, gathered, header_option, link_of, link_options
from trio_stomp.cli.running import CommandFailed, InvalidUsage, Stop, run
from trio_stomp.cli.terminal import Advance, counted, progress
from trio_stomp.client import Client, Message, OutgoingMessage, Subscription, Transaction, TransactionState
from trio_stomp.errors import (
    LocalProtocolError,
    NotSupportedError,
    OutcomeUnknown,
    StaleMessage,
    TransactionLost,
)

__all__ = ["Move", "move", "origin_of", "run_move", "selection_options"]

logger: Final = logging.getLogger("trio_stomp.cli")

# Seconds to wait for the answer to a COMMIT after a signal.
_COMMITTING: Final = 10.0

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


def failed_after(began: float, headers: Mapping[str, str]) -> bool:
    """Whether `Subscription.work` dead-lettered a message after a time, in seconds since the epoch."""
    try:
        return int(headers.get("x-failed-at", "")) >= began * 1000
    except ValueError:
        # Another program may have set that header to anything.
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """The arguments and options of `move`, and of `purge`, which discards the messages instead."""

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
        """Refuse contradictory arguments."""
        if (self.target is not None) + self.to_origin + self.discard != 1:
            raise InvalidUsage("where to? Name a target, or pass --to-origin")
        if self.target == self.source:
            raise InvalidUsage("source and target are the same: it would never end")


class _Mover:
    """Moves messages.

    Attributes:
        moved: How many were moved: their transactions are committed.
        held: How many were received but not selected; they go back in the end.
        uncertain: How many more may have been moved; their COMMIT was not confirmed.
        homeless: How many of those held have no header that names their origin.
        failed_again: How many of those held were dead-lettered after the command had begun.
    """

    def __init__(self, move: Move, stop: Stop, *, keep_on: bool) -> None:
        self._move = move
        self._stop = stop
        self._keep_on = keep_on
        self._selected = MessageFilter.of(move.match, move.grep)
        # A smaller one could not fill a batch.
        self.prefetch = max(move.prefetch, move.batch)
        self.moved = 0
        self.held = 0
        self.uncertain = 0
        self.homeless = 0
        self.failed_again = 0
        self._began = time.time()

    def __str__(self) -> str:
        left = f", {self.held} left where they were" if self.held else ""
        perhaps = f", perhaps {self.uncertain} more" if self.uncertain else ""
        done = "removed" if self._move.discard else "moved"
        return f"{counted(self.moved, 'message')} {done}{perhaps}{left}"

    async def run(self, client: Client, subscription: Subscription, advance: Advance) -> None:
        """Move until nothing is left, or the count is reached.

        Raises:
            CommandFailed: Messages that are not selected fill the whole prefetch.
            TransactionLost: The connection was lost; the last batch stays where it was.
            OutcomeUnknown: The connection was lost during a COMMIT.

        Cancellation: the open transaction is aborted, and its messages stay where they were. COMMIT is waited for.
        """
        move = self._move
        while batch := await take_batch(
            subscription, room(move.batch, move.count, self.moved), move.idle, linger=_LINGER
        ):
            try:
                advance(await self._move_batch(client, batch))
            except (TransactionLost, StaleMessage, OutcomeUnknown) as error:
                if not self._keep_on:
                    raise
                # Either the whole batch was moved, or the broker redelivers all of it.
                logger.warning("the connection was lost during a batch: %s", error)
                # Held messages went back, too, and are counted again when they are redelivered.
                self.held = self.homeless = self.failed_again = 0
            if subscription.statistics().unsettled >= self.prefetch:
                raise blocked_by(self.held)

    def _choose(self, message: Message) -> tuple[Message, OutgoingMessage | None] | None:
        """Return a message and its copy to send, which purge has none of; None if it stays."""
        if not self._selected.chooses(message):
            return None
        if self._move.discard:
            return message, None
        if failed_after(self._began, message.headers):
            # Moved once more, it would fail and come back without end.
            self.failed_again += 1
            return None
        target = self._move.target or origin_of(message.headers, self._move.source)
        if target is None:
            self.homeless += 1
            return None
        return message, moved(message, target, self._move.header)

    async def _move_batch(self, client: Client, batch: Sequence[Message]) -> int:
        chosen = list(filter(None, map(self._choose, batch)))
        self.held += len(batch) - len(chosen)
        if not chosen:
            return 0
        async with client.transaction() as transaction:
            for message, copy in chosen:
                if copy is not None:
                    await _send(transaction, message, copy)
            for message, _ in chosen:
                await transaction.ack(message)
            try:
                with self._stop.settling(_COMMITTING):
                    await transaction.commit()
            finally:
                if transaction.state is TransactionState.COMMITTED:
                    self.moved += len(chosen)
                elif transaction.state is TransactionState.UNKNOWN:
                    self.uncertain += len(chosen)
        return len(chosen)


async def _send(transaction: Transaction, message: Message, copy: OutgoingMessage) -> None:
    """Send the copy of a message. Brokers deliver messages of other clients that no SEND can carry."""
    try:
        await transaction.send(copy)
    except (LocalProtocolError, NotSupportedError) as error:
        raise CommandFailed(
            f"message {message.id!r} in {message.destination} cannot be sent to {copy.destination}: {error}. It stays "
            "in its queue. Replace the header, for example with --header content-type:TYPE, or leave the message out "
            "with --match or --grep"
        ) from error


async def run_move(move: Move, link: Link, what: str, stop: Stop) -> None:
    """Connect, and move until the end or a signal; print what was done in any case."""
    mover = _Mover(move, stop, keep_on=bool(link.options.get("reconnect")))
    try:
        async with link.connect() as client, client.subscribe(move.source, prefetch=mover.prefetch) as subscription:
            with progress(what, move.count) as advance, stop.work():
                await mover.run(client, subscription, advance)
    finally:
        # Whatever happened, committed batches stay moved.
        click.echo(mover)
    if mover.homeless:
        raise CommandFailed(
            f"{counted(mover.homeless, 'message')} left in the queue, without a header that says where it came from"
        )
    if mover.failed_again:
        again = counted(mover.failed_again, "message")
        raise CommandFailed(
            f"{again} left in the queue: failed again after this command began; correct the cause first"
        )


# Which messages of a queue a command takes.
selection_options: Final = together(
    option("Selection", "--count", "-n", type=COUNT, metavar="N", help="Take at most N messages."),
    option("Subscription", "--batch", type=COUNT, default=100, help="Messages per transaction."),
    option("Selection", "--idle", type=SECONDS, default=2.0, help="Stop after this time without a message."),
    filter_options,
)


@command(
    "trio-stomp move /queue/dlq /queue/orders --count 1",
    "trio-stomp move /queue/dlq --to-origin --match shop=7",
)
@click.argument("source")
@click.argument("target", required=False)
@flag("Target", "--to-origin", help="Move each dead letter to where it was originally sent.")
@selection_options
@header_option("Target", "A header to set or replace.")
@link_options
def move(context: click.Context) -> None:
    """Move messages from SOURCE to TARGET, for example out of a dead-letter queue.

    Each batch is sent and acknowledged in one transaction, so that no message is lost when something fails. If the
    broker's transactions are not atomic, a message may end up in both queues. A dead letter that comes back while this
    runs stays.
    """
    wanted = gathered(Move, context)
    wanted.check()
    run(partial(run_move, wanted, link_of(context), "moving"))
