"""The client for asyncio code."""

from __future__ import annotations

import logging
import threading
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from types import TracebackType
from typing import Final, Self

from typing_extensions import TypeVar

from trio_stomp.asyncio.crossing import Crossing, leave, stop
from trio_stomp.asyncio.message import DeliveredMessage, Message
from trio_stomp.asyncio.publisher import Publisher, open_publisher
from trio_stomp.asyncio.states import StateChanges
from trio_stomp.asyncio.subscription import Subscription, open_subscription
from trio_stomp.asyncio.transaction import Transaction, open_transaction
from trio_stomp.asyncio.unclosed import Unclosed
from trio_stomp.bridge import Claims, ConfirmedSend, Entered, Lane
from trio_stomp.brokers import Profile, QueueArguments, StreamOffset, send_options, subscribe_options
from trio_stomp.client import Client as TrioClient
from trio_stomp.client import (
    ConnectionState,
    Decode,
    Farewell,
    HeaderInput,
    OutgoingMessage,
    Overflow,
    OverflowName,
    Phase,
    Statistics,
    session_of,
    with_usage,
)
from trio_stomp.errors import ConnectionClosed, LocalProtocolError, TransactionLost
from trio_stomp.protocol import AckMode, AckName, HeartBeatTerms, Version
from trio_stomp.session import IN_MEMORY, BodyFile, Session, checked, prepare, send_prepared

__all__ = ["Client", "OpenClient"]

logger: Final = logging.getLogger("trio_stomp")

T = TypeVar("T")
# What a subscription decodes to; object without `decode=`.
V = TypeVar("V", default=object)


class Client:
    """A connected client for asyncio code; `connect` and `open` make it.

    All its methods may be called from any number of tasks at once, in any event loop. Those that do not wait for the
    broker, `send` without a receipt and `Message.ack`, return at once, and the trio thread does them in the order of
    the calls. If one fails there, the next call raises it, or leaving `connect`.
    """

    _crossing: Crossing
    _held: Entered[TrioClient]
    _inner: TrioClient
    _session: Session
    _naming: threading.Lock
    _last: Statistics | None
    _unclosed: Unclosed
    _is_open: bool = False

    def __init__(self, *_args: object, **_options: object) -> None:
        raise TypeError("a Client cannot be constructed: use trio_stomp.asyncio.connect(...) or open(...)")

    def __repr__(self) -> str:
        return repr(self._inner)

    # --- what was agreed upon -------------------------------------------------------------------------------------

    @property
    def version(self) -> Version:
        """The STOMP version of the connection."""
        return self._inner.version

    @property
    def server(self) -> str | None:
        """The broker's ``server`` header as it was sent; `ServerInfo.parse` reads it."""
        return self._inner.server

    @property
    def session(self) -> str | None:
        """The broker's ``session`` header: its id of this connection, if it sent one."""
        return self._inner.session

    @property
    def profile(self) -> Profile:
        """The broker, with what it supports."""
        return self._inner.profile

    @property
    def heart_beat(self) -> HeartBeatTerms:
        """The heart-beat intervals that client and broker have agreed on."""
        return self._inner.heart_beat

    # --- health ---------------------------------------------------------------------------------------------------

    @property
    def state(self) -> ConnectionState:
        """Whether the client is connected, reconnecting or closed."""
        return self._inner.state

    def state_changes(self) -> StateChanges:
        """Iterate over the current state and each later one, until the client is closed.

        Returns:
            An async iterator: ``async for state in client.state_changes()``. Any number of them may run at once.
        """
        return StateChanges(self._crossing, self._inner)

    # --- verbs ----------------------------------------------------------------------------------------------------

    async def send(
        self,
        destination: str,
        body: bytes | str | BodyFile,
        *,
        headers: HeaderInput | None = None,
        content_type: str | None = None,
        receipt: bool = False,
        persistent: bool = False,
        ttl: float | None = None,
        priority: int | None = None,
        delay: float | None = None,
        group: str | None = None,
        dedup_id: str | None = None,
        queue_arguments: QueueArguments | None = None,
    ) -> None:
        """Send a message.

        Args:
            destination: Where to send it, such as ``/queue/orders``. What it means depends on the broker.
            body: ``bytes`` are sent as they are, ``str`` as text, in UTF-8 or the charset of `content_type`. A path or
                a binary file object is read while it is written, and the call returns when all of it is written.
            headers: More headers: a mapping, or a list of pairs if a name occurs twice.
            content_type: MIME type of the body. Default: ``text/plain;charset=utf-8`` for str, none for anything else.
            receipt: Wait until the broker has confirmed the message. Without it, the call returns at once, and waits
                only while the queue to the trio thread is full. With ``connect(reconnect=...)``, a message that was not
                confirmed when the connection was lost is sent again, with the same stable id.
            persistent: Keep the message when the broker restarts.
            ttl: Seconds after which the message is no longer delivered.
            priority: Higher priorities are delivered first: 0 to 9, on RabbitMQ up to the queue's ``max_priority``.
            delay: Seconds before the broker delivers the message.
            group: Messages of one group go to one consumer, in order.
            dedup_id: The broker confirms and drops a second message with the same id.
            queue_arguments: How to declare the queue, on RabbitMQ.

        Raises:
            BrokerError: The broker refused the message (`receipt` only): ``Delivery.REJECTED``.
            ConnectionLost: The connection is lost; with ``reconnect=``, for good. A message that was not confirmed may
                or may not have arrived: ``Delivery.UNKNOWN``.
            LocalProtocolError: A header is invalid, or an argument sets it already. Or a file gave fewer bytes than its
                length, which ends the connection.
            NotSupportedError: The broker does not support an option, or a WebSocket cannot send a file.
            OSError: The file cannot be read; if that was in the middle of it, the connection has ended.

        Cancellation: the frame was sent as a whole or not at all. If the call was waiting for the RECEIPT, the message
        was sent and is not sent again. In the middle of a file, the connection ends.

        Spec: SEND; Header receipt.
        """
        options = send_options(persistent, ttl, priority, delay, group, dedup_id, queue_arguments)
        crossing, session, inner = self._crossing, self._session, self._inner
        if not isinstance(body, IN_MEMORY):
            await crossing.in_turn(
                lambda: inner.send(
                    destination, body, headers=headers, content_type=content_type, receipt=receipt, **(options or {})
                )
            )
            return
        if receipt:
            await crossing.run(ConfirmedSend(crossing.lane, session, destination, body, headers, content_type, options))
            return
        if crossing.must_wait(len(body)):
            await crossing.wait(len(body))
        prepared = prepare(session, destination, body, headers, content_type, options)
        if prepared is not None:
            crossing.lane.add(partial(send_prepared, session, prepared), len(prepared.frame))
            return
        message = OutgoingMessage(destination, body, headers, content_type, options)
        copied = checked(session, message)
        if copied is None:
            await crossing.in_turn(partial(inner.send_many, (message,)))
        else:
            crossing.lane.add(partial(inner.send_many, (copied,)), len(body))

    async def send_many(self, messages: Iterable[OutgoingMessage], *, receipt: bool = False) -> None:
        """Send many messages in one call, which is faster than a call of `send` for each.

        Args:
            messages: The messages, in the order in which to send them.
            receipt: Wait until the broker has confirmed all of them.

        Raises:
            UnconfirmedError: Some were not confirmed (`receipt` only); it lists them.
            ConnectionLost: The connection is lost.
            LocalProtocolError: A header is invalid; the messages before this one were sent.

        Cancellation: the first of them may have been sent, each frame as a whole.

        Spec: SEND; Header receipt.
        """
        await self._crossing.in_turn(partial(self._inner.send_many, tuple(messages), receipt=receipt))

    def publisher(
        self, max_in_flight: int = 256, *, max_in_flight_bytes: int = 16 * 1024 * 1024
    ) -> AbstractAsyncContextManager[Publisher]:
        """Send messages and collect their confirmations later: ``async with client.publisher() as publisher``.

        `Publisher.send` does not wait for the RECEIPT of each message; leaving the block waits for all of them. With
        ``connect(reconnect=...)``, messages that were not confirmed when the connection was lost are sent again, in
        order.

        Args:
            max_in_flight: How many messages may await their RECEIPT before `Publisher.send` waits.
            max_in_flight_bytes: How many bytes their bodies may have in total. A larger message is sent alone.

        Returns:
            A context manager that yields the Publisher.

        Raises:
            UnconfirmedError: On leaving the block: some messages were not confirmed; it lists them.

        Cancellation: unconfirmed messages are not sent again; each may or may not have arrived.

        Spec: SEND; Header receipt.
        """
        inner = self._inner.publisher(max_in_flight, max_in_flight_bytes=max_in_flight_bytes)
        manager = open_publisher(self._crossing, self._session, inner, max_in_flight, max_in_flight_bytes)
        return with_usage(manager, "publisher()", "async with client.publisher() as publisher:")

    def subscribe(
        self,
        destination: str,
        *,
        ack: AckMode | AckName = "client-individual",
        prefetch: int = 100,
        id: str | None = None,  # noqa: A002  # the header's own name
        headers: HeaderInput | None = None,
        overflow: Overflow | OverflowName = "wait",
        decode: Decode[V] | None = None,
        selector: str | None = None,
        durable: str | None = None,
        browse: bool = False,
        no_local: bool = False,
        stream_offset: StreamOffset | None = None,
        queue_arguments: QueueArguments | None = None,
        spool_bodies_over: int | None = None,
    ) -> AbstractAsyncContextManager[Subscription[V]]:
        """Receive messages: ``async with client.subscribe(...) as subscription``. Leaving the block unsubscribes.

        Args:
            destination: Where to receive from, such as ``/queue/orders``.
            ack: When a message counts as consumed. ``client-individual``: when it is acknowledged. ``client``: the
                same, and an ACK acknowledges all earlier messages too. ``auto``: when the broker has sent it. STOMP 1.0
                has no ``client-individual``.
            prefetch: How many messages may be in this program without being acknowledged. It is sent in the header that
                the broker has for it, and bounds the buffer. In auto mode, and for brokers without such a header, it
                only bounds the buffer.
            id: Subscription id. Default: generated.
            headers: More headers for SUBSCRIBE.
            overflow: What to do when the buffer is full and the broker continues to send: ``wait`` (stop reading),
                ``error`` (SubscriptionOverflow), or in auto mode ``drop-oldest``.
            decode: Turns a body into `Message.value`: a function of bytes such as ``json.loads``, a Pydantic model
                class or TypeAdapter, a msgspec Decoder. It receives text in UTF-8, whatever its charset was. If it
                raises, reading the value raises DecodeError, and in `Subscription.work` the message fails. Default:
                by content-type.
            selector: Deliver only messages that match this condition, such as ``"color = 'red' AND size > 3"``.
            durable: Name of a durable subscription to a topic. It collects messages while the program is away, until
                `Subscription.delete`. ActiveMQ and Artemis also require a ``client-id`` in the headers of `connect`.
            browse: Read the messages of a queue without removing them. Nothing is acknowledged, whatever `ack` is, and
                iteration ends after the last message.
            no_local: Leave out messages sent on this connection.
            stream_offset: Where to start reading a RabbitMQ stream: ``first``, ``last`` (its last chunk), ``next``, the
                number of a message, or a time.
            queue_arguments: How to declare the queue, on RabbitMQ.
            spool_bodies_over: Write longer bodies to temporary files while they arrive, for `Message.chunks` and
                `Message.open_body`. At least 65,536 bytes. Default: all bodies are kept in memory.

        Returns:
            A context manager that yields the Subscription.

        Raises:
            BrokerError: The broker refused the subscription.
            PoisonSubscription: With ``reconnect=``: the broker has closed the connection without an ERROR each time
                that it was to make this subscription.
            NotSupportedError: The STOMP version or the broker does not support an option.
            LocalProtocolError: An argument is invalid, or the id is in use.
            ConnectionLost: The connection is lost.
            SubscriptionOverflow: On leaving the block: the subscription failed and no task was iterating over it.
            BodySpoolError: The same, because a temporary file could not be written.

        Cancellation: UNSUBSCRIBE is sent if SUBSCRIBE was.

        Spec: SUBSCRIBE; UNSUBSCRIBE.
        """
        options = subscribe_options(selector, durable, browse, no_local, stream_offset, queue_arguments)
        with self._naming:
            inner = self._inner.subscribe(
                destination,
                ack=ack,
                prefetch=prefetch,
                id=id,
                headers=headers,
                overflow=overflow,
                decode=decode,
                spool_bodies_over=spool_bodies_over,
                **options,
            )
        manager = open_subscription(self._crossing, inner, prefetch)
        return with_usage(manager, "subscribe()", "async with client.subscribe(...) as subscription:")

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """Send and acknowledge as one unit: ``async with client.transaction() as transaction``.

        Leaving the block commits the transaction and waits for the broker's RECEIPT. If the block raises or is
        canceled, the transaction is aborted.

        Returns:
            A context manager that yields the Transaction.

        Raises:
            TransactionLost: The connection was lost before COMMIT; nothing in the transaction takes effect.
            OutcomeUnknown: The connection was lost between COMMIT and its RECEIPT.
            BrokerError: The broker refused the COMMIT.

        Cancellation: the transaction is aborted. If COMMIT was already sent, the outcome is unknown.

        Spec: BEGIN; COMMIT; ABORT.
        """
        with self._naming:
            inner = self._inner.transaction()
        manager = open_transaction(self._crossing, self._session, inner)
        return with_usage(manager, "transaction()", "async with client.transaction() as transaction:")

    async def run_transaction(self, work: Callable[[Transaction], Awaitable[T]], *, attempts: int = 3) -> T:
        """Run a function in a transaction, and run it again if the connection is lost before COMMIT.

        Args:
            work: Async function that takes the Transaction. What it does outside of the transaction may happen more
                than once.
            attempts: How many times it may run.

        Returns:
            The result of `work`, once its transaction is committed.

        Raises:
            TransactionLost: In every attempt, the connection was lost before COMMIT; nothing took effect.
            OutcomeUnknown: The connection was lost between COMMIT and its RECEIPT. It may have taken effect, so it is
                not run again.
            StaleMessage: `work` acknowledged a message of a connection that is lost. The broker redelivers the message;
                use the new delivery.
            Exception: An exception of `work`; its transaction was aborted.

        Cancellation: as `transaction`.

        Spec: BEGIN; COMMIT; ABORT.
        """
        # `work` runs in this task, and only its verbs in the trio thread.
        if attempts < 1:
            raise LocalProtocolError(f"attempts must be at least 1, got {attempts!r}")
        for left in reversed(range(attempts)):
            try:
                async with self.transaction() as transaction:
                    return await work(transaction)
            except TransactionLost as error:
                # Without another connection to come, there is nothing to run it on.
                if not left or self.state.phase is Phase.CLOSED:
                    raise
                logger.info("running a transaction again: %s", error)
        raise AssertionError  # the last round returns or raises

    async def request(
        self,
        destination: str,
        body: bytes | str,
        *,
        timeout: float,
        reply_to: str | None = None,
        headers: HeaderInput | None = None,
        content_type: str | None = None,
        decode: Decode[V] | None = None,
        persistent: bool = False,
        ttl: float | None = None,
        priority: int | None = None,
        delay: float | None = None,
        group: str | None = None,
        dedup_id: str | None = None,
        queue_arguments: QueueArguments | None = None,
    ) -> Message[V]:
        """Send a request and return the reply. Any number of requests may wait at once.

        The request has the headers ``reply-to`` and ``correlation-id``. The service sends its reply to the destination
        in ``reply-to``, with the same ``correlation-id``: a temporary queue, or the broker's equivalent, or `reply_to`.

        Args:
            destination: Where to send the request.
            body: ``bytes`` are sent as they are, ``str`` as text, in UTF-8 or the charset of `content_type`.
            timeout: Seconds to wait for the reply, including the time to reconnect.
            reply_to: Queue or topic for the replies, if the service cannot reply to a temporary queue. The client
                subscribes to it until it is closed; no other client may read from it. On Artemis, JMS services can only
                reply to a topic.
            headers: More headers: a mapping, or a list of pairs if a name occurs twice.
            content_type: MIME type of the body. Default: none for bytes, ``text/plain;charset=utf-8`` for str.
            decode: Turns the body of the reply into `Message.value`, as in `subscribe`.
            persistent: Keep the message when the broker restarts.
            ttl: Seconds after which the message is no longer delivered.
            priority: Higher priorities are delivered first: 0 to 9, on RabbitMQ up to the queue's ``max_priority``.
            delay: Seconds before the broker delivers the message.
            group: Messages of one group go to one consumer, in order.
            dedup_id: The broker confirms and drops a second message with the same id.
            queue_arguments: How to declare the queue, on RabbitMQ.

        Returns:
            The reply. It needs no acknowledgment.

        Raises:
            RequestTimeout: No reply came in time.
            OutcomeUnknown: The connection was lost after the request was sent. The request may have been handled, but
                its reply cannot reach this client any more. It is not sent again.
            BrokerError: The broker refused the subscription for replies.
            ConnectionLost: The connection is lost for good.
            LocalProtocolError: A header is invalid, or `request` sets it already.

        Cancellation: the request may have been sent; its reply is discarded.
        """
        options = send_options(persistent, ttl, priority, delay, group, dedup_id, queue_arguments)
        reply = await self._crossing.in_turn(
            lambda: self._inner.request(
                destination,
                body,
                timeout=timeout,
                reply_to=reply_to,
                headers=headers,
                content_type=content_type,
                decode=decode,
                **(options or {}),
            )
        )
        return DeliveredMessage(reply, reply.subscription, Claims(AckMode.AUTO), self._crossing)

    # --- end ------------------------------------------------------------------------------------------------------

    async def disconnect(self) -> Farewell:
        """Disconnect gracefully: wait for pending receipts, then send DISCONNECT and wait for its RECEIPT.

        Leaving the block of `connect` does the same. Call this to learn how the connection ended.

        Returns:
            How it ended: with the broker's RECEIPT, because the broker closed the connection, or by timeout.

        Raises:
            ConnectionLost: The connection was lost, or not everything was written within ``disconnect_timeout``.
            BrokerError: The broker has refused a message that was sent without a receipt.

        Cancellation: the connection is closed at once when `connect` is left.

        Spec: DISCONNECT; Connection Lingering.
        """
        return await self._crossing.in_turn(self._inner.disconnect)

    async def wait_closed(self) -> None:
        """Wait until the connection has ended for good.

        Use it to keep the block of `connect` open while other tasks use the client.

        Raises:
            StompError: The reason, unless this program closed the connection.

        Cancellation: nothing changes.
        """
        await self._crossing.in_turn(self._inner.wait_closed)

    def statistics(self) -> Statistics:
        """Counters and fill levels of this moment; after the end, those of the end.

        The event loop waits for the trio thread, some 0.1 ms.
        """
        return self._last or self._crossing.bridge.call(self._count)

    async def _count(self) -> Statistics:  # noqa: ASYNC124  # runs in the trio thread
        return self._inner.statistics()

    async def aclose(self) -> None:
        """Close the client as leaving `connect` does: send everything, await pending receipts, and DISCONNECT.

        A client that is closed already stays closed, and nothing is raised.

        Raises:
            ConnectionLost: The connection was lost and no call has raised that, or not everything was written within
                ``disconnect_timeout``.
            StompError: The failure of a call that did not wait, if no later call has raised it.

        Cancellation: the connection is closed at once.

        Spec: DISCONNECT; Connection Lingering.
        """
        await self.__aexit__(None, None, None)

    async def __aenter__(self) -> Self:
        """Close the client at the end of a block: ``async with await open(...) as client:``.

        Cancellation: no cancellation point.
        """
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the client: in good order, or at once when the block raised.

        Cancellation: the connection is closed at once.
        """
        if not self._is_open:
            return
        self._is_open = False
        self._unclosed.forget()
        crossing = self._crossing
        try:
            try:
                await crossing.finish(error)  # noqa: ASYNC102  # asyncio has no scopes; the bridge ends this within its grace period
                await leave(crossing.bridge, self._held, error)  # noqa: ASYNC102  # asyncio has no scopes; the bridge ends this within its grace period
            finally:
                with suppress(ConnectionClosed):
                    self._last = await crossing.at_once(self._count)  # noqa: ASYNC102  # asyncio has no scopes; the bridge ends this within its grace period
        finally:
            await stop(crossing.bridge)  # noqa: ASYNC102  # asyncio has no scopes; the bridge ends this within its grace period
        if error is None:
            crossing.lane.raise_failure()


class OpenClient(Client):
    """The Client that the library constructs.

    Args:
        lane: Its way into the trio thread, on a bridge of its own.
        held: The client in the trio thread, entered.
    """

    def __init__(self, lane: Lane, held: Entered[TrioClient]) -> None:
        self._crossing = Crossing(lane)
        self._held = held
        self._inner = held.value.result()
        self._session = session_of(self._inner)
        # The client in the trio thread counts its ids in one thread.
        self._naming = threading.Lock()
        self._last = None
        self._unclosed = Unclosed(lane, held)
        self._is_open = True

    def __del__(self) -> None:
        """Close it in the trio thread, and warn, if the program has not closed it."""
        if self._is_open:
            self._unclosed.drop()


# In tracebacks and debuggers users see the name that they import.
OpenClient.__name__ = OpenClient.__qualname__ = Client.__name__
