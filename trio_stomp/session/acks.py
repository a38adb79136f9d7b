"""Settling messages: which are open on a subscription, and how ACK and NACK of one or several go out."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from trio_stomp.brokers import NackMeaning, Profile
from trio_stomp.errors import LocalProtocolError, NotSupported, StaleMessage, StompError
from trio_stomp.protocol import AckMode, Command, Headers, Version
from trio_stomp.session.message import Message, Settlement
from trio_stomp.session.settings import HeaderInput, header_pairs

if TYPE_CHECKING:
    from trio_stomp.session.connection import Connection

__all__ = ["Settler"]

logger: Final = logging.getLogger("trio_stomp")

_ACK: Final = Command.ACK
_CLIENT: Final = AckMode.CLIENT
_OPEN: Final = Settlement.OPEN
_ACKED: Final = Settlement.ACKED
_SETTLED: Final = {Command.ACK: Settlement.ACKED, Command.NACK: Settlement.NACKED}


class Settler:
    """The book of one subscription's messages that are not settled yet.

    Args:
        connection: The connection of the subscription.
        subscription_id: Its id.
        name: The subscription, for messages.
        ack: Its ack mode, as its user asked for it.

    Attributes:
        ack: That mode.
        wire_mode: The mode that the broker was asked for. Where an ACK of mode ``client`` would reach beyond the
            subscription, it is ``client-individual``, and single acknowledgments do what ``client`` means.
        closed: Whether the subscription is gone.
        observer: Who is told of what becomes of the messages, if anybody is.
    """

    def __init__(self, connection: Connection, *, subscription_id: str, name: str, ack: AckMode) -> None:
        self.ack = ack
        emulated = (
            ack is AckMode.CLIENT
            and connection.profile.client_ack_crosses_subscriptions
            and connection.protocol.version is not Version.V1_0
        )
        self.wire_mode = AckMode.CLIENT_INDIVIDUAL if emulated else ack
        self.closed = True
        self.observer = connection.observer
        self._connection = connection
        self._id = subscription_id
        self._name = name
        self._open: dict[int, Message] = {}

    def __len__(self) -> int:
        return len(self._open)

    def add(self, message: Message) -> None:
        """A consumer has taken a message that it is going to settle."""
        self._open[message.sequence] = message

    def held(self) -> list[Headers]:
        """The headers of all open messages, in the order in which they were taken."""
        return [message.headers for message in self._open.values()]

    def belongs_to(self, connection: object) -> bool:
        """Whether its messages came over that connection."""
        return self._connection is connection

    @property
    def profile(self) -> Profile:
        """The broker that delivered the messages."""
        return self._connection.profile

    @property
    def is_gone(self) -> bool:
        """Whether the subscription, or the connection that it stood on, is gone."""
        return self.closed or self._connection.is_gone

    def ack_at_once(self, message: Message) -> bool:
        """ACK one message in the plainest way, where nothing has to be waited for.

        Returns:
            Whether it was sent; where it was not, `settle` sends it, or says why it cannot be sent.
        """
        connection = self._connection
        if (
            self.ack is _CLIENT
            or message.settlement is not _OPEN
            or self.closed
            or self.observer is not None
            or not connection.goes_at_once()
        ):
            return False
        connection.post(connection.protocol.acknowledge(_ACK, message.headers, self._id))
        message.settlement = _ACKED
        self._open.pop(message.sequence, None)
        return True

    async def settle(
        self,
        message: Message,
        command: Command,
        *,
        receipt: bool,
        headers: HeaderInput | None,
        requeue: bool | None = None,
    ) -> None:
        """ACK or NACK; see `Message.ack` and `Message.nack`."""
        connection = self._connection
        if not connection.goes_at_once():
            self._require_open(message, command, requeue=requeue)
            await connection.turn()
        if headers is None and requeue is None and not receipt:
            self.settle_nowait(message, command)
            return
        pairs = header_pairs(headers)
        if not receipt:
            self.settle_nowait(message, command, headers=pairs, requeue=requeue)
            return
        with connection.receipts.expected() as expected:
            self.settle_nowait(message, command, headers=[*pairs, ("receipt", expected.id)], requeue=requeue)
            try:
                await expected.wait()
            except StompError as error:
                if connection.is_stale and not expected.was_refused:
                    # Its ACK may have arrived; if it has not, it comes again.
                    raise connection.raisable(error) from error
                raise

    def settle_nowait(
        self,
        message: Message,
        command: Command,
        *,
        headers: list[tuple[str, str]] | None = None,
        transaction: str | None = None,
        requeue: bool | None = None,
    ) -> list[Message]:
        """Put ACK or NACK into the outbox at once; returns the messages that it settles.

        In mode ``client`` these are all up to this one. One NACK is sent for each of them, because ActiveMQ takes it
        for one message even there; one ACK is enough where it reaches no further than this subscription.
        """
        self._require_open(message, command, requeue=requeue)
        connection = self._connection
        choice = [] if requeue is None else connection.profile.requeue(requeue)
        given = (*choice, *headers) if headers else choice
        settlement = _SETTLED[command] if transaction is None else Settlement.IN_TRANSACTION
        if self.ack is not AckMode.CLIENT:
            # By far the most frequent: one message, settled by itself.
            frame = connection.protocol.acknowledge(
                command, message.headers, self._id, headers=given, transaction=transaction
            )
            connection.post(frame)
            message.settlement = settlement
            self._open.pop(message.sequence, None)
            if self.observer is not None:
                self.observer.settled([message], _SETTLED[command], transaction)
            return [message]
        settled = self._up_to(message)
        if command is Command.NACK:
            for each in settled:
                self._require_nack(each, requeue=requeue)
        named = [message] if command is Command.ACK and self.wire_mode is AckMode.CLIENT else settled
        for each in named:
            # What the NACK means goes for each of them; a receipt only for the last.
            pairs = given if each is message else choice
            frame = connection.protocol.acknowledge(
                command, each.headers, self._id, headers=pairs, transaction=transaction
            )
            connection.post(frame)
        for each in settled:
            each.settlement = settlement
            self._open.pop(each.sequence, None)
        if self.observer is not None:
            self.observer.settled(settled, _SETTLED[command], transaction)
        return settled

    async def ack_up_to(self, message: Message) -> None:
        """ACK a message and all earlier open ones; see `Subscription.ack_up_to`."""
        self._require_open(message, Command.ACK)
        await self._connection.turn()
        if self.ack is AckMode.CLIENT:
            self.settle_nowait(message, Command.ACK)
            return
        for each in self._up_to(message):
            self.settle_nowait(each, Command.ACK)

    def _up_to(self, message: Message) -> list[Message]:
        # What is promised to a transaction stays in the book, and is decided there.
        return [each for each in self._open.values() if each.sequence <= message.sequence and each.settlement is _OPEN]

    # --- transactions ---------------------------------------------------------------------------------------------

    def reopen(self, message: Message) -> None:
        """The transaction that had settled a message has come to nothing."""
        message.settlement = Settlement.OPEN
        self._open[message.sequence] = message
        self._open = dict(sorted(self._open.items()))

    def promise(self, message: Message, command: Command) -> None:
        """Note that a message will be settled once a transaction has been confirmed."""
        self._require_open(message, command)
        message.settlement = Settlement.IN_TRANSACTION

    def keep_promise(self, message: Message, command: Command) -> None:
        """Settle a promised message now; where that cannot be, the broker delivers it again."""
        message.settlement = Settlement.OPEN
        try:
            self.settle_nowait(message, command)
        except StompError as error:
            logger.warning("message %r was settled in a transaction, but stays unsettled: %s", message.id, error)

    # --- what is refused ------------------------------------------------------------------------------------------

    def _require_open(self, message: Message, command: Command, *, requeue: bool | None = None) -> None:
        if message.settlement is not Settlement.OPEN:
            why = "its subscription is in auto mode" if message.settlement is Settlement.NEEDLESS else "it is settled"
            msg = f"{command.value} of message {message.id!r}: {why} ({message.settlement.value})"
            raise LocalProtocolError(msg)
        connection = self._connection
        if connection.is_gone:
            connection.counters.stale_messages += connection.is_stale
            connection.check()
        if self.closed:
            msg = f"{command.value} of message {message.id!r}: its {self._name} is gone; it is delivered again"
            raise StaleMessage(msg)
        if command is Command.NACK:
            self._require_nack(message, requeue=requeue)

    def _require_nack(self, message: Message, *, requeue: bool | None) -> None:
        if self._connection.protocol.version is Version.V1_0:
            msg = "STOMP 1.0 has no NACK; leave the message unsettled, and it is delivered again"
            raise NotSupported(msg)
        profile = self._connection.profile
        meaning = profile.nack(message.headers, requeue)
        if meaning is NackMeaning.DISCARD:
            msg = (
                f"{profile.name} would drop the message {message.id!r} without a word on NACK; acknowledge it, or "
                "leave it unsettled, and it is delivered again when the subscription ends"
            )
            raise NotSupported(msg)
        if meaning is NackMeaning.IMPOSSIBLE:
            instead = (
                "leave it unsettled, and it is delivered again when the subscription ends"
                if requeue
                else "send it to a dead-letter destination and acknowledge it, in one transaction"
            )
            msg = f"{profile.name} has no NACK with requeue={requeue} for message {message.id!r}; {instead}"
            raise NotSupported(msg)
