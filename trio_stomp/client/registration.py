"""A subscription as its connection knows it: SUBSCRIBE, the buffer, UNSUBSCRIBE, and what is given back."""

from __future__ import annotations

from dataclasses import dataclass

from trio_stomp.client.connection import Connection
from trio_stomp.client.failures import renewed
from trio_stomp.client.inbox import Inbox, Overflow
from trio_stomp.client.late_deliveries import Left
from trio_stomp.client.settling import Settler
from trio_stomp.client.statistics import SubscriptionStatistics
from trio_stomp.errors import NotSupported
from trio_stomp.protocol import AckMode, Command, Headers, Version

__all__ = ["Registration", "SubscriptionOptions"]


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


class Registration:
    """One subscription on one connection.

    Attributes:
        options: What was asked for.
        inbox: Its buffer.
        settler: Its book of messages that are not settled.
    """

    def __init__(self, connection: Connection, options: SubscriptionOptions) -> None:
        name = f"subscription {options.id!r} to {options.destination!r}"
        has_credit = options.ack is not AckMode.AUTO and connection.profile.prefetch_is_exact
        self._connection = connection
        self.options = options
        self.inbox = Inbox(
            name=name,
            capacity=options.prefetch,
            overflow=None if has_credit else options.overflow,
            gate=connection.gate,
            on_overflow=self._unsubscribe,
            on_raised=connection.was_raised,
            keeps_after_loss=options.ack is AckMode.AUTO,
        )
        self.settler = Settler(connection, subscription_id=options.id, name=name, ack=options.ack)

    def statistics(self) -> SubscriptionStatistics:
        """What the subscription has done so far, and what it holds."""
        return SubscriptionStatistics(
            id=self.options.id,
            destination=self.options.destination,
            buffered=len(self.inbox),
            unsettled=len(self.settler),
            delivered=self.inbox.delivered,
            dropped=self.inbox.dropped,
        )

    async def open(self) -> None:
        """Send SUBSCRIBE and, where the broker answers it, wait until it stands.

        Cancellation: it may or may not stand at the broker; `close` ends it.
        """
        connection = self._connection
        await connection.turn()
        self._require_own_acks()
        headers = list(self.options.headers)
        if self.options.ack is not AckMode.AUTO:
            headers = connection.profile.prefetch(self.options.prefetch) + headers
        if not connection.profile.answers_subscribe:
            self._subscribe(headers)
            return
        with connection.receipts.expected() as receipt:
            self._subscribe([*headers, ("receipt", receipt.id)])
            await receipt.wait()

    def _require_own_acks(self) -> None:
        """Refuse a subscription whose ACKs would settle messages of another one, now or when that one is long left."""
        connection = self._connection
        crosses = connection.profile.client_ack_crosses_subscriptions and self.settler.wire_mode is AckMode.CLIENT
        if crosses and connection.acks_cross:
            msg = (
                f"an ACK in mode 'client' reaches over the whole connection at {connection.profile.name}, and STOMP "
                "1.0 has no 'client-individual' to do without: it takes one such subscription for each connection. "
                "Use another connection, or STOMP 1.1 or 1.2"
            )
            raise NotSupported(msg)
        connection.acks_cross = crosses or connection.acks_cross

    def _subscribe(self, headers: list[tuple[str, str]]) -> None:
        connection, options = self._connection, self.options
        octets = connection.protocol.subscribe(options.id, options.destination, self.settler.wire_mode, headers=headers)
        # Row all-SUB-17: messages may come before the RECEIPT, so the buffer is there before the frame is.
        connection.register(options.id, self)
        self.settler.closed = False
        connection.post(octets)

    def cancelled_by_broker(self) -> None:
        """The broker has ended the subscription: nothing of it can be settled any more."""
        self.settler.closed = True

    def close(self) -> None:
        """Send UNSUBSCRIBE and give back what is not settled; never waits."""
        self._unsubscribe()
        self.inbox.end()

    def raise_unnoticed(self) -> None:
        """Raise what ended the subscription, where no consumer was there to see it."""
        error = self.inbox.error
        if error is not None and not self.inbox.noticed and self._connection.failure is None:
            raise renewed(error)

    def _unsubscribe(self) -> None:
        connection = self._connection
        if self.settler.closed:
            return
        held = self.settler.held() + [waiting.frame.headers for waiting in self.inbox.drain()]
        if connection.failure is None and not connection.closing:
            if held and self._must_give_back:
                self._give_back(held)
            else:
                connection.post(connection.protocol.unsubscribe(self.options.id))
        self.settler.closed = True
        connection.forget(self.options.id)
        settles = self.options.ack is not AckMode.AUTO
        left = Left(destination=self.options.destination, headers=self.options.headers, settles=settles)
        connection.late.leave(self.options.id, left)

    @property
    def _must_give_back(self) -> bool:
        connection = self._connection
        return (
            connection.profile.keeps_unsettled_after_unsubscribe
            and self.options.ack is not AckMode.AUTO
            and connection.protocol.version is not Version.V1_0
        )

    def _give_back(self, held: list[Headers]) -> None:
        """Refuse what is held so that it is requeued only after this subscription is gone.

        A plain NACK would be answered at once with the same messages, to this very subscription, and after UNSUBSCRIBE
        RabbitMQ takes no NACK for it. In a transaction the NACKs are taken before and carried out after.
        """
        connection, protocol, id_ = self._connection, self._connection.protocol, self.options.id
        transaction = f"give-back-{id_}"
        connection.post(protocol.begin(transaction))
        for headers in held:
            connection.post(protocol.acknowledge(Command.NACK, headers, id_, transaction=transaction))
        connection.post(protocol.unsubscribe(id_))
        connection.post(protocol.end(Command.COMMIT, transaction))
