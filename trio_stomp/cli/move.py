"""``trio-stomp move`` and ``purge``: move messages between destinations, or remove them, in transactions."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import click

from trio_stomp.cli.commands import Command, argument, flag, option, options
from trio_stomp.cli.messages import Filter, blocked_by, moved, room, take_batch
from trio_stomp.cli.options import COUNT, SECONDS, Connecting, Link, LinkOptions, Pairs, header_option
from trio_stomp.cli.running import CommandFailed, InvalidUsage, Stop
from trio_stomp.cli.terminal import Advance, can_ask, counted, progress
from trio_stomp.client import Client, Message, OutgoingMessage, Subscription, Transaction, TransactionState
from trio_stomp.errors import (
    LocalProtocolError,
    NotSupportedError,
    OutcomeUnknown,
    StaleMessage,
    TransactionLost,
)

__all__ = ["move", "origin_of", "purge"]

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


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Which messages of a queue a command takes, and how many in one transaction."""

    count: int | None = option(None, "Selection", "Take at most N messages.", "-n", type=COUNT, metavar="N")
    batch: int = option(100, "Subscription", "Messages per transaction.", type=COUNT)
    idle: float = option(2.0, "Selection", "Stop after this time without a message.", type=SECONDS)
    filter: Filter = options(Filter)


@dataclass(frozen=True, kw_only=True)
class Move(Connecting):
    """Move messages from SOURCE to TARGET, for example out of a dead-letter queue.

    Each batch is sent and acknowledged in one transaction, so that no message is lost when something fails. If the
    broker's transactions are not atomic, a message may end up in both queues. A dead letter that comes back while this
    runs stays.
    """

    source: str = argument("", required=True)
    target: str | None = argument(None)
    to_origin: bool = flag("Target", "Move each dead letter to where it was originally sent.")
    selection: Selection = options(Selection)
    header: Pairs = header_option("Target", "A header to set or replace.")
    connection: LinkOptions = options(LinkOptions)

    def check(self) -> None:
        """Refuse contradictory arguments."""
        if (self.target is not None) == self.to_origin:
            raise InvalidUsage("where to? Name a target, or pass --to-origin")
        if self.target == self.source:
            raise InvalidUsage("source and target are the same: it would never end")

    async def run(self, link: Link, stop: Stop) -> None:
        """Move messages until none is left, or the first signal."""
        await _run(self.source, self.selection, self, link, stop)


class _Mover:
    """Moves messages, or removes them.

    Attributes:
        moved: How many were moved: their transactions are committed.
        held: How many were received but not selected; they go back in the end.
        uncertain: How many more may have been moved; their COMMIT was not confirmed.
        homeless: How many of those held have no header that names their origin.
        failed_again: How many of those held were dead-lettered after the command had begun.
    """

    def __init__(self, selection: Selection, move: Move | None, stop: Stop, *, keep_on: bool) -> None:
        self._selection = selection
        self._move = move
        self._stop = stop
        self._keep_on = keep_on
        # A smaller one could not fill a batch.
        self.prefetch = max(selection.filter.prefetch, selection.batch)
        self.moved = 0
        self.held = 0
        self.uncertain = 0
        self.homeless = 0
        self.failed_again = 0
        self._began = time.time()

    def __str__(self) -> str:
        left = f", {self.held} left in place" if self.held else ""
        perhaps = f", perhaps {self.uncertain} more" if self.uncertain else ""
        done = "removed" if self._move is None else "moved"
        return f"{counted(self.moved, 'message')} {done}{perhaps}{left}"

    async def run(self, client: Client, subscription: Subscription, advance: Advance) -> None:
        """Move until nothing is left, or the count is reached.

        Raises:
            CommandFailed: Messages that are not selected fill the whole prefetch.
            TransactionLost: The connection was lost; the last batch stays where it was.
            OutcomeUnknown: The connection was lost during a COMMIT.

        Cancellation: the open transaction is aborted, and its messages stay where they were. COMMIT is waited for.
        """
        selection = self._selection
        while batch := await take_batch(
            subscription, room(selection.batch, selection.count, self.moved), selection.idle, linger=_LINGER
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
        """Return a message and its copy to send, if one is; None if the message stays."""
        if not self._selection.filter.chooses(message):
            return None
        move = self._move
        if move is None:
            return message, None
        if failed_after(self._began, message.headers):
            # Moved once more, it would fail and come back without end.
            self.failed_again += 1
            return None
        target = move.target or origin_of(message.headers, move.source)
        if target is None:
            self.homeless += 1
            return None
        return message, moved(message, target, move.header)

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
                async with self._stop.settling(_COMMITTING):
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


async def _run(source: str, selection: Selection, move: Move | None, link: Link, stop: Stop) -> None:
    """Move messages, or remove them, until the end or the first signal; print what was done in any case."""
    mover = _Mover(selection, move, stop, keep_on=bool(link.options.get("reconnect")))
    what = "removing" if move is None else "moving"
    try:
        async with link.connect() as client, client.subscribe(source, prefetch=mover.prefetch) as subscription:
            with progress(what, selection.count) as advance, stop.work():
                await mover.run(client, subscription, advance)
    finally:
        # Whatever happened, committed batches stay moved.
        click.echo(mover)
    if mover.homeless:
        left = counted(mover.homeless, "message")
        raise CommandFailed(f"{left} left in the queue, without a header that says where it came from")
    if mover.failed_again:
        left = counted(mover.failed_again, "message")
        raise CommandFailed(f"{left} left in the queue: failed again after this command began; correct the cause first")


@dataclass(frozen=True, kw_only=True)
class Purge(Connecting):
    """Remove the messages of QUEUE, those that no other consumer holds.

    They are received and acknowledged in transactions, which every broker can do, so it also works for some of the
    messages; trio-stomp move to another queue keeps them.
    """

    source: str = argument("", required=True, metavar="QUEUE")
    yes: bool = flag("Confirmation", "Do not ask.", "-y")
    selection: Selection = options(Selection)
    connection: LinkOptions = options(LinkOptions)

    def check(self) -> None:
        """Ask for confirmation, unless --yes was passed."""
        if self.yes:
            return
        if not can_ask():
            raise InvalidUsage("this removes messages; pass --yes to do it without being asked")
        which = "selected messages" if self.selection.filter.is_selective or self.selection.count else "messages"
        click.confirm(f"Remove the {which} of {self.source}?", abort=True, err=True)

    async def run(self, link: Link, stop: Stop) -> None:
        """Remove messages, in transactions."""
        await _run(self.source, self.selection, None, link, stop)


move = Command(
    Move,
    "trio-stomp move /queue/dlq /queue/orders --count 1",
    "trio-stomp move /queue/dlq --to-origin --match shop=7",
)

purge = Command(
    Purge,
    "trio-stomp purge /queue/orders.test --yes",
    "trio-stomp purge /queue/dlq --match shop=7 --grep tea --count 10",
)
