"""Moving messages from one destination to others, in transactions: none is lost, whatever breaks on the way."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from trio_stomp.cli.carried_headers import moved
from trio_stomp.cli.exit_codes import CommandFailed
from trio_stomp.cli.feedback import Advance
from trio_stomp.cli.message_filter import MessageFilter
from trio_stomp.cli.origins import origin_of
from trio_stomp.cli.taking import take_batch
from trio_stomp.client import Client, Message, OutgoingMessage, Subscription
from trio_stomp.errors import OutcomeUnknown, StaleMessage, TransactionLost

__all__ = ["Move", "Mover"]

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
