"""The client for synchronous code."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from types import TracebackType
from typing import Final, Self

from typing_extensions import TypeVar

from trio_stomp.blocking.link import Dial, Link, open_link
from trio_stomp.blocking.message import DeliveredMessage, Message
from trio_stomp.blocking.processes import process
from trio_stomp.blocking.publisher import Publisher, open_publisher
from trio_stomp.blocking.states import StateChanges
from trio_stomp.blocking.subscription import Subscription, open_subscription
from trio_stomp.blocking.transaction import Transaction, open_transaction
from trio_stomp.bridge import EXIT_SECONDS, Claims, ConfirmedSend, held
from trio_stomp.brokers import Profile, QueueArguments, StreamOffset, send_options, subscribe_options
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
)
from trio_stomp.errors import LocalProtocolError, TransactionLost
from trio_stomp.protocol import AckMode, AckName, HeartBeatTerms, Version
from trio_stomp.session import IN_MEMORY, BodyFile, checked, prepare, send_prepared

__all__ = ["Client", "OpenClient"]

logger: Final = logging.getLogger("trio_stomp")

T = TypeVar("T")
# What a subscription decodes to; object without `decode=`.
V = TypeVar("V", default=object)


class Client:
    """A connected client for synchronous code, made by `connect` or `open`.

    All its methods may be called from any number of threads at once. Those that do not wait for the broker, `send`
    without a receipt and `Message.ack`, return at once, and the trio thread does them in the order of the calls. If one
    fails there, the next call raises it, or leaving `connect`.
    """

    _dial: Dial
    _has_hooks: bool
    _reopens_after_fork: bool
    _newest: Link
    _naming: threading.Lock
    _closing: threading.Lock
    _exits: ExitStack
    _is_open: bool

    def __init__(self, *_args: object, **_options: object) -> None:
        raise TypeError("a Client cannot be constructed: use trio_stomp.blocking.connect(...) or open(...)")

    def __repr__(self) -> str:
        return repr(self._newest.client)

    # --- what was agreed upon -------------------------------------------------------------------------------------

    @property
    def version(self) -> Version:
        """The STOMP version of the connection."""
        return self._link.client.version

    @property
    def server(self) -> str | None:
        """The broker's ``server`` header as it was sent."""
        return self._link.client.server

    @property
    def session(self) -> str | None:
        """The broker's ``session`` header: its id of this connection, if it sent one."""
        return self._link.client.session

    @property
    def profile(self) -> Profile:
        """The broker, with what it supports."""
        return self._link.client.profile

    @property
    def heart_beat(self) -> HeartBeatTerms:
        """The heart-beat intervals that client and broker have agreed on."""
        return self._link.client.heart_beat

    # --- health ---------------------------------------------------------------------------------------------------

    @property
    def state(self) -> ConnectionState:
        """Whether the client is connected, reconnecting or closed."""
        return self._link.client.state

    def state_changes(self) -> StateChanges:
        """Iterate over the current state and each later one, until the client is closed.

        Returns:
            An iterator: ``for state in client.state_changes()``. Any number may run at once, each in its thread.
        """
        return StateChanges(self._link)

    # --- verbs ----------------------------------------------------------------------------------------------------

    def send(
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
            headers: More headers; a list of pairs may repeat names.
            content_type: MIME type of the body. Default: ``text/plain;charset=utf-8`` for str, none for anything else.
            receipt: Return only when the broker has confirmed the message. Without it, the call returns at once, and
                waits only while too much waits to be written. With ``connect(reconnect=...)``, what was not confirmed
                when the link was lost is sent again, with the stable id that it had.
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
            LocalProtocolError: A header is invalid, or an argument sets it already. Or a file gave fewer
                bytes than its length, which ends the connection.
            NotSupportedError: The broker has no such option, or a WebSocket cannot send a file.
            OSError: The file cannot be read; if that was in the middle of it, the connection has ended.

        Spec: SEND; Header receipt.
        """
        options = send_options(persistent, ttl, priority, delay, group, dedup_id, queue_arguments)
        link = self._link
        if not isinstance(body, IN_MEMORY):
            link.lane.call(
                lambda: link.client.send(
                    destination, body, headers=headers, content_type=content_type, receipt=receipt, **(options or {})
                )
            )
            return
        if receipt:
            link.lane.bridge.run(
                ConfirmedSend(link.lane, link.session, destination, body, headers, content_type, options)
            )
            return
        prepared = prepare(link.session, destination, body, headers, content_type, options)
        if prepared is not None:
            link.lane.post(partial(send_prepared, link.session, prepared), len(prepared.frame))
            return
        message = OutgoingMessage(destination, body, headers, content_type, options)
        copied = checked(link.session, message)
        if copied is None:
            link.lane.call(partial(link.client.send_many, (message,)))
        else:
            link.lane.post(partial(link.client.send_many, (copied,)), len(body))

    def send_many(self, messages: Iterable[OutgoingMessage], *, receipt: bool = False) -> None:
        """Send many messages in one call.

        Args:
            messages: The messages, in the order in which to send them.
            receipt: Return only when the broker has confirmed each of them.

        Raises:
            UnconfirmedError: Some were not confirmed (`receipt` only); it lists them.
            ConnectionLost: The connection is lost.
            LocalProtocolError: A header is invalid; the messages before this one were sent.

        Spec: SEND; Header receipt.
        """
        self._link.lane.call(partial(self._link.client.send_many, tuple(messages), receipt=receipt))

    def publisher(
        self, max_in_flight: int = 256, *, max_in_flight_bytes: int = 16 * 1024 * 1024
    ) -> AbstractContextManager[Publisher]:
        """Send confirmed messages without waiting for each: for the length of a ``with`` block.

        Leaving the block waits until every message is confirmed. With ``connect(reconnect=...)``, messages that were
        not confirmed when the connection was lost are sent again, in order.

        Args:
            max_in_flight: How many messages may await their RECEIPT; `Publisher.send` waits beyond.
            max_in_flight_bytes: How many bytes their bodies may come to; one larger message goes by itself.

        Returns:
            A context manager that yields the Publisher.

        Raises:
            UnconfirmedError: On leaving: some messages were not confirmed; it lists them.

        Spec: SEND; Header receipt.
        """
        link = self._link
        manager = link.client.publisher(max_in_flight, max_in_flight_bytes=max_in_flight_bytes)
        return open_publisher(link, manager, max_in_flight, max_in_flight_bytes)

    def subscribe(
        self,
        destination: str,
        *,
        ack: AckMode | AckName = "client-individual",
        prefetch: int = 100,
        id: str | None = None,  # noqa: A002  # the header's own name, as the design has it
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
    ) -> AbstractContextManager[Subscription[V]]:
        """Subscribe for the length of a ``with`` block; leaving it sends UNSUBSCRIBE.

        Args:
            destination: Where to receive from, such as ``/queue/orders``.
            ack: ``client-individual``, ``client`` or ``auto``. In the first, the default, each message is settled by
                itself; in ``client`` an ACK settles all earlier ones too; in ``auto`` a message counts as consumed
                when the broker has sent it. STOMP 1.0 has no ``client-individual``.
            prefetch: How many messages the broker may send ahead of what was settled, in the header of its own for
                that; as many cross the threads at once. In auto mode, and where the broker has no such header, it
                bounds the buffer alone.
            id: Subscription id; by default one is made.
            headers: More headers of SUBSCRIBE.
            overflow: What to do when the buffer is full and the broker keeps no credit: ``wait`` (stop reading),
                ``error`` (SubscriptionOverflow), or in auto mode ``drop-oldest``.
            decode: Makes `Message.value` of a body: a function of bytes such as ``json.loads``, a Pydantic model class
                or TypeAdapter, a msgspec Decoder. Default: by the content-type.
            selector: Deliver only messages that match this condition, such as ``"color = 'red' AND size > 3"``.
            durable: Name of a durable subscription to a topic. It collects messages while the program is away, until
                `Subscription.delete`. ActiveMQ and Artemis also require a ``client-id`` in the headers of `connect`.
            browse: Read the messages of a queue without removing them. Nothing is acknowledged, whatever `ack` is, and
                iteration ends with the last message.
            no_local: Leave out messages sent on this connection.
            stream_offset: Where to begin reading a stream: ``first``, ``last`` (its last chunk), ``next``, the number
                of a message, or a time.
            queue_arguments: How to declare the queue, on RabbitMQ.
            spool_bodies_over: Write longer bodies to temporary files while they arrive, for `Message.chunks` and
                `Message.open_body`. At least 65,536 bytes. Default: all bodies are kept in memory.

        Returns:
            A context manager that yields the Subscription.

        Raises:
            BrokerError: The broker refused the subscription.
            NotSupportedError: The version or the broker does not support it.
            LocalProtocolError: Invalid argument, or the id is in use.
            ConnectionLost: The connection is lost.
            SubscriptionOverflow: On leaving, if the subscription failed and no thread was iterating over it.
            BodySpoolError: The same, because a temporary file could not be written.

        Spec: SUBSCRIBE; UNSUBSCRIBE.
        """
        options = subscribe_options(selector, durable, browse, no_local, stream_offset, queue_arguments)
        link = self._link
        with self._naming:
            manager = link.client.subscribe(
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
        return open_subscription(link.lane, manager, prefetch)

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Begin a transaction for the length of a ``with`` block.

        When the block completes, COMMIT is sent and its receipt awaited. When the block raises, ABORT is sent.

        Returns:
            A context manager that yields the Transaction.

        Raises:
            TransactionLost: The connection was lost before COMMIT; nothing in the transaction takes effect.
            OutcomeUnknown: The connection was lost between COMMIT and its RECEIPT.
            BrokerError: The broker refused the COMMIT.

        Spec: BEGIN; COMMIT; ABORT.
        """
        link = self._link
        with self._naming:
            manager = link.client.transaction()
        return open_transaction(link, manager)

    def run_transaction(self, work: Callable[[Transaction], T], *, attempts: int = 3) -> T:
        """Run a function in a transaction, and run it again if the connection is lost before COMMIT.

        Args:
            work: Function that takes the Transaction. What it does outside of it may happen more than once.
            attempts: How many times it may run.

        Returns:
            What `work` returned, once its transaction was committed.

        Raises:
            TransactionLost: In every attempt, the connection was lost before COMMIT; nothing took effect.
            OutcomeUnknown: The connection was lost between COMMIT and its RECEIPT. It may have taken effect, so it is
                not run again.
            StaleMessage: `work` settles a message that came over a connection that is lost; the broker delivers it
                again, and the new copy is the one to work on.
            Exception: Whatever `work` raises; its transaction was aborted.

        Spec: BEGIN; COMMIT; ABORT.
        """
        # `work` runs in the thread that calls, and only its verbs in the trio thread.
        if attempts < 1:
            raise LocalProtocolError(f"attempts must be at least 1, got {attempts!r}")
        for left in reversed(range(attempts)):
            try:
                with self.transaction() as transaction:
                    return work(transaction)
            except TransactionLost as error:
                # Without another connection to come, there is nothing to run it on.
                if not left or self.state.phase is Phase.CLOSED:
                    raise
                logger.info("running a transaction again: %s", error)
        raise AssertionError  # the last round returns or raises

    def request(
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
        """Send a request and wait for its reply. Any number may be under way at once, each in its thread.

        The request has a ``reply-to`` and a ``correlation-id`` header. A reply goes to the former, with the latter.
        Replies come to a temporary queue of this connection, or what the broker has in its place, or to `reply_to`.

        Args:
            destination: Where to.
            body: ``bytes`` are sent as they are, ``str`` as text, in UTF-8 or the charset of `content_type`.
            timeout: Seconds to wait for the reply, a connection included.
            reply_to: Where replies are to go: a queue or topic that this client alone reads, and which it subscribes to
                until it is closed. For services that only answer to certain destinations. On Artemis a JMS service can
                answer to a topic alone.
            headers: More headers.
            content_type: MIME type of the body.
            decode: Makes `Message.value` of the reply's body, as in `subscribe`.
            persistent: Keep the message when the broker restarts.
            ttl: Seconds after which the message is no longer delivered.
            priority: Higher priorities are delivered first: 0 to 9, on RabbitMQ up to the queue's ``max_priority``.
            delay: Seconds before the broker delivers the message.
            group: Messages of one group go to one consumer, in order.
            dedup_id: The broker confirms and drops a second message with the same id.
            queue_arguments: How to declare the queue, on RabbitMQ.

        Returns:
            The reply; there is nothing to acknowledge.

        Raises:
            RequestTimeout: No reply came in time.
            OutcomeUnknown: The connection was lost after the request was sent. The request may have been handled, but
                its reply cannot reach this client any more. It is not sent again.
            BrokerError: The broker refused the subscription for replies.
            ConnectionLost: The connection is lost for good.
            LocalProtocolError: A header is invalid, or `request` sets it already.
        """
        options = send_options(persistent, ttl, priority, delay, group, dedup_id, queue_arguments)
        link = self._link
        reply = link.lane.call(
            lambda: link.client.request(
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
        return DeliveredMessage(reply, reply.subscription, Claims(AckMode.AUTO), link.lane)

    # --- end ------------------------------------------------------------------------------------------------------

    def disconnect(self) -> Farewell:
        """Disconnect gracefully: wait for pending receipts, then send DISCONNECT and wait for its RECEIPT.

        Leaving the block of `connect` does the same. Call this to learn how the connection ended.

        Returns:
            How it ended, be it by the broker's RECEIPT, by its closing the link, or by ``disconnect_timeout``.

        Raises:
            ConnectionLost: The connection was lost, or not everything was written within ``disconnect_timeout``.

        Spec: DISCONNECT; Connection Lingering.
        """
        return self._link.lane.call(self._link.client.disconnect)

    def wait_closed(self) -> None:
        """Wait until the connection has ended for good.

        Raises:
            StompError: The reason, unless this program closed the connection.
        """
        self._link.lane.call(self._link.client.wait_closed)

    def statistics(self) -> Statistics:
        """Return the counters of this client and what its buffers hold now; once it is closed, the last ones."""
        link = self._link
        return link.last or link.lane.bridge.call(link.count)

    def close(self) -> None:
        """Close the client as leaving `connect` does: send everything, await pending receipts, and DISCONNECT.

        A client that is closed already stays closed, and nothing is raised.

        Raises:
            ConnectionLost: The connection was lost and no call has raised that, or not everything was written within
                ``disconnect_timeout``.
            StompError: The failure of a call that did not wait, if no later call has raised it.

        Spec: DISCONNECT; Connection Lingering.
        """
        self.__exit__(None, None, None)

    def __enter__(self) -> Self:
        """Close the client at the end of a block: ``with open(...) as client:``."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the client: in good order, or at once when the block raised."""
        with held(self._closing):
            self._is_open = False
            self._exits.pop_all().__exit__(kind, error, trace)

    @property
    def _link(self) -> Link:
        link = self._newest
        return self._reopened() if link.lane.bridge.forked else link

    def _reopened(self) -> Link:
        """Return a connection of this process, which was forked from the one that has opened the client."""
        if not (self._reopens_after_fork and self._is_open):
            return self._newest
        with held(process.lock):
            if self._newest.lane.bridge.forked:
                # Another process holds it when this one is forked, perhaps.
                self._closing = threading.Lock()
                self._naming = threading.Lock()
                process.abandoned.append(self._exits.pop_all())
                self._connect()
        return self._newest

    def _connect(self) -> None:
        self._newest = self._exits.enter_context(open_link(self._dial, has_hooks=self._has_hooks))


class OpenClient(Client):
    """The Client that the library constructs.

    Args:
        dial: Connects in the trio thread.
        has_hooks: Whether the program has hooks.
        reopens_after_fork: Whether a process that was forked opens a connection of its own.
    """

    def __init__(self, dial: Dial, *, has_hooks: bool, reopens_after_fork: bool) -> None:
        self._dial = dial
        self._has_hooks = has_hooks
        self._reopens_after_fork = reopens_after_fork
        # The asynchronous client counts its ids in one thread.
        self._naming = threading.Lock()
        self._closing = threading.Lock()
        self._exits = ExitStack()
        self._is_open = True
        self._connect()
        process.clients.add(self)

    def abandon(self) -> None:
        """Close the socket in a forked process; see `Link.abandon`."""
        self._newest.abandon()

    def close_at_exit(self) -> None:
        """Close the client, unless a daemon thread is about to and does not end in time."""
        if self._closing.acquire(timeout=EXIT_SECONDS):
            try:
                self._is_open = False
                self._exits.pop_all().close()
            finally:
                self._closing.release()

    def expire(self) -> None:
        """End the connection in `EXIT_SECONDS`, however it is closed."""
        self._newest.lane.bridge.expire()


# In tracebacks and debuggers users see the name that they import.
OpenClient.__name__ = OpenClient.__qualname__ = Client.__name__
