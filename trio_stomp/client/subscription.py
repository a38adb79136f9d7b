"""One subscription: an async iterator of messages, and the book of those that are not settled."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Self

import trio

from trio_stomp.brokers import NackMeaning
from trio_stomp.client.connection import Connection
from trio_stomp.client.failures import renewed
from trio_stomp.client.inbox import Inbox, Overflow
from trio_stomp.client.message import Message, Settlement
from trio_stomp.client.options import HeaderInput, header_pairs
from trio_stomp.client.statistics import SubscriptionStatistics
from trio_stomp.errors import LocalProtocolError, NotSupported, StaleMessage, StompError
from trio_stomp.protocol import AckMode, Command, Headers, Version

__all__ = ["Subscription", "SubscriptionOptions", "open_subscription"]

logger: Final = logging.getLogger("trio_stomp")

_CALLS_PER_CHECKPOINT: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionOptions:
    """What a subscription was asked to be.

    Attributes:
        id: Its id on the connection.
        destination: What it subscribes to.
        ack: Its ack mode.
        prefetch: How many messages it holds that no consumer has settled (or, in auto mode, taken).
        overflow: What it does when more come.
        headers: More headers of SUBSCRIBE.
    """

    id: str
    destination: str
    ack: AckMode
    prefetch: int
    overflow: Overflow
    headers: tuple[tuple[str, str], ...]


class Subscription:
    """Messages of one destination, in the order in which the broker sends them.

    Iterate it: ``async for message in subscription``. Several tasks may; each message goes to one of them.
    """

    def __init__(self, connection: Connection, options: SubscriptionOptions) -> None:
        profile = connection.profile
        self._connection = connection
        self._options = options
        has_credit = options.ack is not AckMode.AUTO and profile.prefetch_is_exact
        self._inbox = Inbox(
            name=f"subscription {options.id!r} to {options.destination!r}",
            capacity=options.prefetch,
            overflow=None if has_credit else options.overflow,
            gate=connection.gate,
            on_overflow=self._unsubscribe,
            on_raised=connection.was_raised,
            keeps_after_loss=options.ack is AckMode.AUTO,
        )
        # Where an ACK of mode "client" would reach beyond this subscription, single ones do what it means.
        emulated = options.ack is AckMode.CLIENT and profile.client_ack_crosses_subscriptions
        self._wire_mode = AckMode.CLIENT_INDIVIDUAL if emulated else options.ack
        self._unsettled: dict[int, Message] = {}
        self._taken = 0
        self._calls = 0
        self._stale = 0

    @property
    def id(self) -> str:
        """Its id on the connection."""
        return self._options.id

    @property
    def destination(self) -> str:
        """What it subscribes to."""
        return self._options.destination

    @property
    def ack_mode(self) -> AckMode:
        """Its ack mode."""
        return self._options.ack

    @property
    def is_open(self) -> bool:
        """Whether the broker still sends messages for it, as far as is known."""
        return self._connection.inboxes.get(self.id) is self._inbox

    def statistics(self) -> SubscriptionStatistics:
        """What this subscription has done so far, and what it holds."""
        return SubscriptionStatistics(
            id=self.id,
            destination=self.destination,
            buffered=len(self._inbox),
            unsettled=len(self._unsettled),
            delivered=self._inbox.delivered,
            dropped=self._inbox.dropped,
        )

    # --- taking messages ------------------------------------------------------------------------------------------

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        """Take the next message; waits until there is one.

        Raises:
            StopAsyncIteration: The subscription was left.
            ConnectionLost: The connection ended. In auto mode what had come is handed out first.
            SubscriptionOverflow: Its consumers did not keep up.
            BrokerError: The broker ended the subscription.

        Cancellation: no message was taken.
        """
        await self._turn()
        if not await self._inbox.wait():
            raise StopAsyncIteration
        return self._take()

    async def _turn(self) -> None:
        self._calls += 1
        if self._calls % _CALLS_PER_CHECKPOINT == 0:
            await trio.lowlevel.checkpoint()

    def _take(self) -> Message:
        frame = self._inbox.take().frame
        if self._options.ack is AckMode.AUTO:
            return Message(frame, self, Settlement.NEEDLESS, 0)
        self._taken += 1
        message = Message(frame, self, Settlement.OPEN, self._taken)
        self._unsettled[self._taken] = message
        return message

    async def receive_batch(self, max_messages: int, *, linger: float = 0) -> list[Message]:
        """Take several messages in one call.

        Args:
            max_messages: No more than this many.
            linger: Seconds to wait for more once there is one.

        Returns:
            At least one message, or none when the subscription was left.

        Raises:
            ConnectionLost: The connection ended.
            SubscriptionOverflow: Its consumers did not keep up.
            BrokerError: The broker ended the subscription.

        Cancellation: no message was taken.
        """
        await trio.lowlevel.checkpoint()
        if not await self._inbox.wait():
            return []
        if linger > 0 and len(self._inbox) < max_messages:
            with trio.move_on_after(linger):
                await self._inbox.wait_count(max_messages)
        return [self._take() for _ in range(min(max_messages, len(self._inbox)))]

    # --- settling them --------------------------------------------------------------------------------------------

    async def settle(self, message: Message, command: Command, *, receipt: bool, headers: HeaderInput | None) -> None:
        """ACK or NACK a message of this subscription; see `Message.ack` and `Message.nack`."""
        self._require_settleable(message, command)
        await self._connection.turn()
        pairs = header_pairs(headers)
        if not receipt:
            self.settle_nowait(message, command, headers=pairs)
            return
        with self._connection.receipts.expected() as expected:
            self.settle_nowait(message, command, headers=[*pairs, ("receipt", expected.id)])
            await expected.wait()

    def settle_nowait(
        self,
        message: Message,
        command: Command,
        *,
        headers: list[tuple[str, str]] | None = None,
        transaction: str | None = None,
    ) -> list[Message]:
        """Put ACK or NACK into the outbox at once; returns the messages that it settles.

        In mode ``client`` these are all up to this one. One NACK is sent for each of them, because ActiveMQ takes it
        for one message even there; one ACK is enough where it reaches no further than this subscription.
        """
        self._require_settleable(message, command)
        settled = self._up_to(message) if self._options.ack is AckMode.CLIENT else [message]
        named = settled
        if command is Command.ACK and self._wire_mode is AckMode.CLIENT:
            named = [message]
        protocol = self._connection.protocol
        for each in named:
            octets = protocol.acknowledge(
                command,
                each.headers,
                self.id,
                headers=(headers or []) if each is named[-1] else (),
                transaction=transaction,
            )
            self._connection.post(octets)
        state = Settlement.ACKED if command is Command.ACK else Settlement.NACKED
        for each in settled:
            each.settlement = state if transaction is None else Settlement.IN_TRANSACTION
            self._unsettled.pop(each.sequence, None)
        return settled

    async def ack_up_to(self, message: Message) -> None:
        """Acknowledge a message and all earlier ones that are open, in any client mode, in one call.

        Raises:
            StaleMessage: The subscription is gone; the broker delivers them again.
            LocalProtocolError: The message is settled already, or the subscription is in auto mode.
            ConnectionLost: The link is gone; the broker delivers them again.

        Cancellation: all were acknowledged or none.
        """
        self._require_settleable(message, Command.ACK)
        await self._connection.turn()
        if self._options.ack is AckMode.CLIENT:
            self.settle_nowait(message, Command.ACK)
            return
        for each in self._up_to(message):
            self.settle_nowait(each, Command.ACK)

    def _up_to(self, message: Message) -> list[Message]:
        found: list[Message] = []
        for each in self._unsettled.values():
            found.append(each)
            if each is message:
                break
        return found

    def reopen(self, message: Message) -> None:
        """The transaction that had settled a message has come to nothing."""
        message.settlement = Settlement.OPEN
        self._unsettled[message.sequence] = message
        self._unsettled = dict(sorted(self._unsettled.items()))

    def promise(self, message: Message, command: Command) -> None:
        """Note that a message will be settled once a transaction has been confirmed."""
        self._require_settleable(message, command)
        message.settlement = Settlement.IN_TRANSACTION

    def keep_promise(self, message: Message, command: Command) -> None:
        """Settle a promised message now; where that cannot be, the broker delivers it again."""
        message.settlement = Settlement.OPEN
        try:
            self.settle_nowait(message, command)
        except StompError as error:
            logger.warning("message %s is settled in a transaction, but stays unsettled: %s", message.id, error)

    def belongs_to(self, connection: Connection) -> bool:
        """Whether it was made on that connection."""
        return self._connection is connection

    def _require_settleable(self, message: Message, command: Command) -> None:
        if message.settlement is not Settlement.OPEN:
            why = "its subscription is in auto mode" if message.settlement is Settlement.NEEDLESS else "it is settled"
            msg = f"{command.value} of message {message.id!r}: {why} ({message.settlement.value})"
            raise LocalProtocolError(msg)
        if self._connection.failure is not None:
            self._connection.check()
        if not self.is_open:
            msg = f"{command.value} of message {message.id!r}: its {self._inbox.name} is gone; it is delivered again"
            raise StaleMessage(msg)
        if command is Command.NACK:
            self._require_nack(message)

    def _require_nack(self, message: Message) -> None:
        if self._connection.protocol.version is Version.V1_0:
            msg = "STOMP 1.0 has no NACK; leave the message unsettled, and it is delivered again"
            raise NotSupported(msg)
        profile = self._connection.profile
        if profile.nack(message.headers) is NackMeaning.DISCARD:
            msg = (
                f"{profile.name} would drop the message {message.id!r} without a word on NACK; acknowledge it, or "
                "leave it unsettled, and it is delivered again when the subscription ends"
            )
            raise NotSupported(msg)

    def count_stale(self, message: Message) -> None:
        """Note that a message could not be acknowledged because it had become stale."""
        self._stale += 1
        logger.warning("message %s was handled but is stale: the broker delivers it again", message.id)

    # --- beginning and end ----------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Send SUBSCRIBE and, where the broker answers it, wait until it stands.

        Cancellation: it may or may not stand at the broker; `close` ends it.
        """
        connection = self._connection
        await connection.turn()
        # Row all-SUB-17: messages may come before the RECEIPT, so the buffer is there before the frame.
        options = self._options
        headers = list(options.headers)
        if options.ack is not AckMode.AUTO:
            headers = connection.profile.prefetch(options.prefetch) + headers
        if not connection.profile.answers_subscribe:
            self._subscribe(headers)
            return
        with connection.receipts.expected() as receipt:
            self._subscribe([*headers, ("receipt", receipt.id)])
            await receipt.wait()

    def _subscribe(self, headers: list[tuple[str, str]]) -> None:
        connection, options = self._connection, self._options
        octets = connection.protocol.subscribe(options.id, options.destination, self._wire_mode, headers=headers)
        connection.inboxes[options.id] = self._inbox
        connection.subscriptions[options.id] = self.statistics
        connection.post(octets)

    def close(self) -> None:
        """Send UNSUBSCRIBE and give back what is not settled; never waits."""
        self._unsubscribe()
        self._inbox.end()

    def raise_unnoticed(self) -> None:
        """Raise what ended the subscription, where no consumer was there to see it."""
        error = self._inbox.error
        if error is not None and not self._inbox.noticed and self._connection.failure is None:
            raise renewed(error)

    def _unsubscribe(self) -> None:
        connection = self._connection
        if not self.is_open:
            return
        held = [message.headers for message in self._unsettled.values()]
        held += [waiting.frame.headers for waiting in self._inbox.drain()]
        if connection.failure is None and not connection.closing:
            if held and self._must_give_back:
                self._give_back(held)
            else:
                connection.post(connection.protocol.unsubscribe(self.id))
        del connection.inboxes[self.id]
        del connection.subscriptions[self.id]

    @property
    def _must_give_back(self) -> bool:
        connection = self._connection
        return (
            connection.profile.keeps_unsettled_after_unsubscribe
            and self._wire_mode is not AckMode.AUTO
            and connection.protocol.version is not Version.V1_0
        )

    def _give_back(self, held: list[Headers]) -> None:
        """Refuse what is held so that it is requeued only after this subscription is gone.

        A plain NACK would be answered at once with the same messages, to this very subscription, and after UNSUBSCRIBE
        RabbitMQ takes no NACK for it. In a transaction the NACKs are taken before and carried out after.
        """
        connection, protocol = self._connection, self._connection.protocol
        transaction = f"give-back-{self.id}"
        connection.post(protocol.begin(transaction))
        for headers in held:
            connection.post(protocol.acknowledge(Command.NACK, headers, self.id, transaction=transaction))
        connection.post(protocol.unsubscribe(self.id))
        connection.post(protocol.end(Command.COMMIT, transaction))


@asynccontextmanager
async def open_subscription(connection: Connection, options: SubscriptionOptions) -> AsyncGenerator[Subscription]:
    """Keep a subscription for the length of a block."""
    subscription = Subscription(connection, options)
    try:
        await subscription.open()
        yield subscription
    finally:
        subscription.close()
    subscription.raise_unnoticed()
