"""The client: the verbs of STOMP for one connection."""

from __future__ import annotations

import dataclasses
from contextlib import AbstractAsyncContextManager

import trio

from trio_stomp.brokers import Profile
from trio_stomp.client.connection import Connection
from trio_stomp.client.farewell import Farewell, say_farewell
from trio_stomp.client.inbox import Overflow
from trio_stomp.client.options import HeaderInput, Settings, header_pairs
from trio_stomp.client.outgoing import outgoing
from trio_stomp.client.registration import SubscriptionOptions
from trio_stomp.client.statistics import Statistics
from trio_stomp.client.subscription import Subscription, open_subscription
from trio_stomp.client.transaction import Transaction, open_transaction
from trio_stomp.errors import ConnectionClosed, LocalProtocolError
from trio_stomp.protocol import AckMode, HeartBeatTerms, Version

__all__ = ["Client"]


class Client:
    """A connected client; `connect` makes it.

    All its methods may be called from any number of tasks at once.
    """

    def __init__(self, connection: Connection, settings: Settings) -> None:
        self._connection = connection
        self._settings = settings
        self._ids = 0

    # --- what was agreed upon -------------------------------------------------------------------------------------

    @property
    def version(self) -> Version:
        """The version of STOMP in force."""
        return self._connection.protocol.version

    @property
    def server(self) -> str | None:
        """What the broker says of itself, raw; ``ServerInfo.parse`` reads it."""
        return self._connection.link.connected.server

    @property
    def session(self) -> str | None:
        """The broker's name for this session, where it gives one."""
        return self._connection.link.connected.session

    @property
    def profile(self) -> Profile:
        """What is known of this broker."""
        return self._connection.profile

    @property
    def heart_beat(self) -> HeartBeatTerms:
        """The heart-beat agreed upon."""
        return self._connection.terms

    # --- verbs ----------------------------------------------------------------------------------------------------

    async def send(
        self,
        destination: str,
        body: bytes | str,
        *,
        headers: HeaderInput | None = None,
        content_type: str | None = None,
        receipt: bool = False,
    ) -> None:
        """Send a message.

        Args:
            destination: Where to; the broker gives it its meaning.
            body: ``bytes`` are sent as they are, ``str`` as UTF-8 text.
            headers: More headers; a list of pairs may repeat names.
            content_type: MIME type of the body. Default: none for bytes, ``text/plain;charset=utf-8`` for str.
            receipt: Return only when the broker has confirmed the message. Without it, the call returns when the frame
                is in the outbox, and waits only while that is full.

        Raises:
            BrokerError: The broker refused the message (`receipt` only).
            ConnectionLost: The link is gone. Without a RECEIPT the message may or may not have arrived.
            LocalProtocolError: A header cannot be represented, or is one that an argument sets.

        Cancellation: the frame was sent whole or not at all. While waiting for the RECEIPT: it was sent.

        Spec: SEND; Header receipt.
        """
        connection = self._connection
        await connection.turn()
        message = outgoing(body, headers, content_type, connection.profile)
        if not receipt:
            connection.post(
                connection.protocol.send(
                    destination, message.body, headers=message.headers, content_length=message.content_length
                )
            )
            return
        with connection.receipts.expected() as expected:
            message.headers.append(("receipt", expected.id))
            connection.post(
                connection.protocol.send(
                    destination, message.body, headers=message.headers, content_length=message.content_length
                )
            )
            await expected.wait()

    def subscribe(
        self,
        destination: str,
        *,
        ack: str = "client-individual",
        prefetch: int = 100,
        id: str | None = None,  # noqa: A002  # the header's own name, as the design has it
        headers: HeaderInput | None = None,
        selector: str | None = None,
        durable: str | None = None,
        overflow: str = "wait",
    ) -> AbstractAsyncContextManager[Subscription]:
        """Subscribe for the length of an ``async with`` block; leaving it sends UNSUBSCRIBE.

        Args:
            destination: What to subscribe to.
            ack: ``client-individual``, ``client`` or ``auto``. In the first, the default, each message is settled by
                itself; in ``client`` an ACK settles all earlier ones too; in ``auto`` a message counts as consumed
                when the broker has sent it. STOMP 1.0 has no ``client-individual``.
            prefetch: How many messages the broker may send ahead of what was settled, in the header of its own for
                that; the buffer holds as many. In auto mode, and where the broker has no such header, it bounds the
                buffer alone.
            id: Subscription id; by default one is made.
            headers: More headers of SUBSCRIBE.
            selector: The ``selector`` header, where the broker knows it.
            durable: Name of a durable subscription, in the headers of the broker's own for that.
            overflow: What to do when the buffer is full and the broker keeps no credit: ``wait`` (stop reading),
                ``error`` (SubscriptionOverflow), or in auto mode ``drop-oldest``.

        Returns:
            A context manager that yields the Subscription.

        Raises:
            BrokerError: The broker refused the subscription.
            NotSupported: The version or the broker has no such thing.
            LocalProtocolError: An argument cannot be meant, or the id is in use.
            ConnectionLost: The link is gone.
            SubscriptionOverflow: On leaving, where the subscription failed and nobody was iterating it.

        Cancellation: the broker may hold the subscription until UNSUBSCRIBE, which leaving sends in any case.

        Spec: SUBSCRIBE; UNSUBSCRIBE.
        """
        mode, choice = AckMode.of(ack), Overflow.of(overflow)
        if prefetch < 1:
            msg = f"prefetch must be at least 1 message, got {prefetch!r}"
            raise LocalProtocolError(msg)
        if choice is Overflow.DROP_OLDEST and mode is not AckMode.AUTO:
            msg = f"overflow='drop-oldest' forgets messages; it needs ack='auto', not {ack!r}; use 'wait' or 'error'"
            raise LocalProtocolError(msg)
        pairs = header_pairs(headers)
        if selector is not None:
            pairs.append(("selector", selector))
        if durable is not None:
            pairs = self.profile.durable(durable) + pairs
            id = id or durable  # noqa: A001  # RabbitMQ names the queue by it
        options = SubscriptionOptions(
            id=id or self._new_id("s"),
            destination=destination,
            ack=mode,
            prefetch=prefetch,
            overflow=choice,
            headers=tuple(pairs),
        )
        return open_subscription(self._connection, options)

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """Begin a transaction for the length of an ``async with`` block.

        The block ends well: COMMIT with a receipt, which is waited for. It raises, or is cancelled: ABORT.

        Returns:
            A context manager that yields the Transaction.

        Raises:
            TransactionLost: The link went before COMMIT: nothing of the transaction takes effect.
            OutcomeUnknown: The link went between COMMIT and its RECEIPT.
            BrokerError: The broker refused the COMMIT.

        Cancellation: of the block: ABORT. While COMMIT waits for its RECEIPT: the outcome is unknown.

        Spec: BEGIN; COMMIT; ABORT.
        """
        return open_transaction(self._connection, self._new_id("tx"))

    def _new_id(self, prefix: str) -> str:
        # Plain letters, digits and hyphens: brokers build message ids out of them and don't escape those.
        self._ids += 1
        return f"{prefix}-{self._ids}"

    # --- end ------------------------------------------------------------------------------------------------------

    async def disconnect(self) -> Farewell:
        """Leave well: await pending receipts, send DISCONNECT with a receipt, await that.

        Leaving `connect` does it too; this is for programs that want to know how it ended.

        Returns:
            How it ended, be it by the broker's RECEIPT, by its closing the link, or by ``disconnect_timeout``.

        Raises:
            ConnectionLost: The link is gone, or octets were still unwritten at ``disconnect_timeout``.

        Cancellation: the connection is closed at once when `connect` is left.

        Spec: DISCONNECT; Connection Lingering.
        """
        self._connection.check()
        return await say_farewell(self._connection, self._settings.disconnect_timeout)

    async def wait_closed(self) -> None:
        """Wait until the connection has ended, for a body that has nothing else to do.

        Raises:
            StompError: What ended it, where that was not this program.

        Cancellation: nothing changes.
        """
        connection = self._connection
        await connection.ended.wait()
        failure = connection.failure
        if failure is not None and not isinstance(failure, ConnectionClosed):
            raise connection.raisable(failure)

    def statistics(self) -> Statistics:
        """Counters and fill levels of this moment."""
        connection, now = self._connection, trio.current_time()
        return Statistics(
            **dataclasses.asdict(connection.counters),
            receipts_pending=len(connection.receipts),
            outbox_octets=connection.outbox.octets,
            undelivered_octets=connection.gate.octets,
            seconds_since_read=now - connection.last_read,
            seconds_since_write=now - connection.last_write,
            subscriptions=tuple(each.statistics() for each in connection.registered.values()),
        )
