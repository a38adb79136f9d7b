"""The client: the verbs of STOMP."""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from functools import partial
from math import inf
from types import TracebackType
from typing import NoReturn, Self

from typing_extensions import TypeVar

from trio_stomp.brokers import (
    Profile,
    QueueArguments,
    StreamOffset,
    require_bool,
    require_str,
    require_whole,
    send_options,
    subscribe_options,
)
from trio_stomp.client.publisher import Publisher, open_publisher, send_confirmed_many
from trio_stomp.client.request import Requests
from trio_stomp.client.subscription import Subscribing, Subscription
from trio_stomp.client.transaction import Transaction, open_transaction, run_transaction
from trio_stomp.errors import ConnectionClosed, LocalProtocolError
from trio_stomp.protocol import AckMode, AckName, HeartBeatTerms, Version
from trio_stomp.runtime import iterated, with_usage
from trio_stomp.session import (
    IN_MEMORY,
    BodyFile,
    ConnectionState,
    Decode,
    DisconnectResult,
    EncodeValue,
    HeaderInput,
    Limit,
    Message,
    OutgoingMessage,
    Overflow,
    OverflowName,
    Parts,
    Session,
    StateChanges,
    Statistics,
    SubscriptionOptions,
    Window,
    checked_seconds,
    codec_of,
    completed,
    header_pairs,
    limit_of,
    open_source,
    parts_of,
    post,
    renewed,
    send_confirmed,
    send_source,
)

__all__ = ["Client", "Opened", "session_of"]

# The type of `json=`.
J = TypeVar("J")
T = TypeVar("T")
# Type of the decoded values of a subscription; object without `decode=`.
V = TypeVar("V", default=object)


class Client:
    """A connected client: sends messages, subscribes, and runs transactions.

    Get one from `connect`. All methods may be called from any number of tasks at once.
    """

    # The arguments are the library's own.
    def __init__(self, session: Session | None = None, abandon: Callable[[], None] | None = None) -> None:
        self._opened: Opened | None = None
        if not isinstance(session, Session) or abandon is None:
            raise TypeError("a Client cannot be constructed: use async with trio_stomp.connect(...) or await open(...)")
        self._session = session
        self._abandon = abandon
        self._requests = Requests(session)
        self._ids = 0

    def __repr__(self) -> str:
        return f"<Client of {self._session.link.endpoint}: {self.state.phase.value}>"

    # --- what was negotiated --------------------------------------------------------------------------------------

    @property
    def version(self) -> Version:
        """The STOMP version of the connection."""
        return self._session.protocol.version

    @property
    def server(self) -> str | None:
        """The broker's ``server`` header as it was sent."""
        return self._session.link.connected.server

    @property
    def session_id(self) -> str | None:
        """The broker's ``session`` header: its id of this connection, if it sent one."""
        return self._session.link.connected.session

    @property
    def profile(self) -> Profile:
        """The broker, with what it supports."""
        return self._session.connection.profile

    @property
    def heart_beat(self) -> HeartBeatTerms:
        """The heart-beat intervals that client and broker have agreed on."""
        return self._session.connection.terms

    # --- health ---------------------------------------------------------------------------------------------------

    @property
    def state(self) -> ConnectionState:
        """Whether the client is connected, reconnecting or closed."""
        return self._session.states.newest

    def state_changes(self) -> StateChanges:
        """Iterate over the current state and each later one, until the client is closed.

        Returns:
            An async iterator: ``async for state in client.state_changes()``. Any number of them may run at once.
        """
        return StateChanges(self._session.states)

    # --- verbs ----------------------------------------------------------------------------------------------------

    async def send(
        self,
        destination: str | OutgoingMessage,
        body: bytes | str | BodyFile | AsyncIterable[bytes] | None = None,
        *,
        json: J | None = None,
        encode: EncodeValue[J] | None = None,
        headers: HeaderInput | None = None,
        content_type: str | None = None,
        content_length: int | None = None,
        receipt: bool = False,
        persistent: bool = False,
        ttl: float | None = None,
        priority: int | None = None,
        delay: float | None = None,
        group: str | None = None,
        dedup_id: str | None = None,
        queue_arguments: QueueArguments | None = None,
        timeout: float | None = None,
    ) -> None:
        """Send a message.

        Args:
            destination: Where to send it, such as ``/queue/orders``. What it means depends on the broker. Or an
                OutgoingMessage, which holds all the rest but `receipt` and `timeout`.
            body: ``bytes`` are sent as they are, ``str`` as text, in UTF-8 or the charset of `content_type`. A path, a
                binary file object or an async iterable is read while it is written, and the call returns when all of it
                is written.
            json: A value to encode in place of `body`; the content-type is then ``application/json``.
            encode: Turns the value of `json` into bytes or str, for example ``msgspec.json.encode``. Default: the
                shortest form of Python's own ``json``, in UTF-8.
            headers: More headers: a mapping, or a list of pairs if a name occurs twice.
            content_type: MIME type of the body. Default: ``text/plain;charset=utf-8`` for str, none for anything else.
            content_length: The number of bytes that an async iterable gives; only for those.
            receipt: Wait until the broker has confirmed the message, which gets a stable id (`Message.stable_id`)
                unless it has one (on Artemis, only with ``reconnect=``). With ``connect(reconnect=...)``, a message
                that was not confirmed when the connection was lost is sent again, with the same id. Without `receipt`,
                the call returns when the frame is in the outbox, and waits only while the outbox is full. If the broker
                refuses the message, a later call or leaving `connect` raises that; a refused reply to a requester that
                has gone is only logged.
            persistent: Keep the message when the broker restarts.
            ttl: Seconds after which the message is no longer delivered.
            priority: Higher priorities are delivered first: 0 to 9, on RabbitMQ up to the queue's ``max_priority``.
            delay: Seconds before the broker delivers the message.
            group: Messages of one group go to one consumer, in order.
            dedup_id: The broker confirms and drops a second message with the same id.
            queue_arguments: How to declare the queue, on RabbitMQ.
            timeout: Seconds that all this may take: to wait for room and, with `receipt`, for the broker. 0: only what
                needs no waiting. `math.inf`: no limit. Default: that of `connect`.

        Raises:
            BrokerError: The broker refused the message (`receipt` only): ``DeliveryStatus.REJECTED``.
            ConnectionLost: The connection is lost; with ``reconnect=``, for good. A message that was not confirmed may
                or may not have arrived: ``DeliveryStatus.UNKNOWN``.
            PoisonMessage: With ``reconnect=``, `receipt` only: the broker has closed the connection without an ERROR
                each time that it got this message.
            TypeError: Neither `body` nor `json` was given, or both.
            LocalProtocolError: A header is invalid, or an argument sets it already, or `json` cannot be encoded. Or a
                file or an async iterable gave fewer or more bytes than its length, which ends the connection.
            NotSupportedError: The broker does not support an option, or a WebSocket cannot send a file.
            OSError: The file cannot be read; if that was in the middle of it, the connection has ended.
            OperationTimeout: The `timeout` was reached. The text says whether the message was sent, and `messages`
                names it if the broker may have it.

        Cancellation: the frame was sent as a whole or not at all. If the call was waiting for the RECEIPT, the message
        was sent and is not sent again. In the middle of a file or an async iterable, the connection ends. The same is
        true at the `timeout`.

        Spec: SEND; Header receipt.
        """
        options = send_options(persistent, ttl, priority, delay, group, dedup_id, queue_arguments)
        session = self._session
        seconds = session.settings.timeout if timeout is None else checked_seconds(timeout)
        if body is None or json is not None or encode is not None or type(destination) is not str:
            destination, body, headers, content_type, options = completed(
                destination, body, headers, content_type, options, json, encode
            )
        if receipt and receipt is not True:
            require_bool("receipt", receipt)  # type: ignore[unreachable]  # callers without types
        if content_length is not None or not isinstance(body, IN_MEMORY):
            async with (
                Limit(seconds, f"send() to {destination!r}", session) as limit,
                open_source(body, content_length) as source,
            ):
                from_source = (destination, source, headers, content_type, options)
                await send_source(session, from_source, limit, receipt=receipt)
            return
        message = (destination, body, headers, content_type, options)
        if receipt:
            if seconds is None:
                await send_confirmed(session, message)
                return
            async with Limit(seconds, f"send() to {destination!r}", session) as limit:
                await send_confirmed(session, message, limit)
            return
        connection = session.at_once()
        if connection is None:
            async with Limit(seconds, f"send() to {destination!r}", session):
                connection = await session.turn()
        post(connection, message)

    async def send_many(
        self, messages: Iterable[OutgoingMessage], *, receipt: bool = False, timeout: float | None = None
    ) -> None:
        """Send many messages in one call, which is faster than a call of `send` for each.

        Args:
            messages: The messages, in the order in which to send them.
            receipt: Wait until the broker has confirmed all of them.
            timeout: Seconds that the whole call may wait. Default: that of `connect`.

        Raises:
            UnconfirmedError: Some were not confirmed (`receipt` only); it lists them.
            ConnectionLost: The connection is lost.
            LocalProtocolError: A header is invalid; the messages before this one were sent.
            NotSupportedError: The broker does not support an option; likewise.
            OperationTimeout: The `timeout` was reached; its `sent` says how many were sent. With `receipt` it is an
                UnconfirmedTimeout, which lists those that were not confirmed.

        Cancellation: the first of them may have been sent, each frame as a whole. They are not sent again. The same is
        true at the `timeout`.

        Spec: SEND; Header receipt.
        """
        session = self._session
        seconds = limit_of(timeout, session.settings.timeout)
        if receipt:
            require_bool("receipt", receipt)
            await send_confirmed_many(session, messages, seconds)
            return
        sent = 0
        async with Limit(seconds, "send_many()", session) as limit:
            try:
                for message in iterated(messages):
                    if seconds == 0:
                        session.rested()
                    connection = session.at_once() or await session.turn()
                    post(connection, parts_of(message))
                    sent += 1
            finally:
                limit.sent, limit.outcome = sent, f"messages sent: {sent}"

    def publisher(
        self,
        max_in_flight: int = 256,
        *,
        max_in_flight_bytes: int = 16 * 1024 * 1024,
        timeout: float | None = None,
    ) -> AbstractAsyncContextManager[Publisher]:
        """Send messages and collect their confirmations later: ``async with client.publisher() as publisher``.

        `Publisher.send` does not wait for the RECEIPT of each message; leaving the block waits for all of them. With
        ``connect(reconnect=...)``, messages that were not confirmed when the connection was lost are sent again, in
        order.

        Args:
            max_in_flight: How many messages may await their RECEIPT before `Publisher.send` waits.
            max_in_flight_bytes: How many bytes their bodies may have in total. A larger message is sent alone.
            timeout: Seconds that leaving the block may wait. Default: that of `connect`. `Publisher.send` has its own.

        Returns:
            A context manager that yields the Publisher.

        Raises:
            UnconfirmedError: On leaving the block: some messages were not confirmed; it lists them.
            UnconfirmedTimeout: The same, because their RECEIPTs did not come in time.

        Cancellation: unconfirmed messages are not sent again; each may or may not have arrived. The same is true at the
        `timeout`.

        Spec: SEND; Header receipt.
        """
        require_whole("max_in_flight", max_in_flight)
        require_whole("max_in_flight_bytes", max_in_flight_bytes)
        default = self._session.settings.timeout
        seconds = limit_of(timeout, default)
        window = partial(Window, max_in_flight, max_in_flight_bytes, default)
        manager = open_publisher(self._session, window, seconds)
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
        spool_threshold_bytes: int | None = None,
        timeout: float | None = None,
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
            headers: More headers for SUBSCRIBE, except those that an argument sets.
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
            spool_threshold_bytes: Write longer bodies to temporary files while they arrive, for `Message.chunks` and
                `Message.open_body`. At least 65,536 bytes. Default: all bodies are kept in memory.
            timeout: Seconds that entering the block may wait for the broker's answer. Default: that of `connect`.
                Receiving is not limited by it; see `Subscription.receive`. Leaving does not wait.

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
            OperationTimeout: On entering: the broker has not answered in time.

        Cancellation: UNSUBSCRIBE is sent if SUBSCRIBE was. The same is true at the `timeout`.

        Spec: SUBSCRIBE; UNSUBSCRIBE.
        """
        options = subscribe_options(selector, durable, browse, no_local, stream_offset, queue_arguments)
        if id is not None:
            require_str("id", id)
        wanted = SubscriptionOptions(
            id=id or options.get("durable") or self._new_id("s"),
            destination=destination,
            ack=AckMode.AUTO if options.get("browse") else AckMode.of(ack),
            prefetch=prefetch,
            overflow=Overflow.of(overflow),
            headers=tuple(header_pairs(headers)),
            features=options,
            spool_threshold_bytes=spool_threshold_bytes,
        )
        wanted.headers_at(self.profile, self.version, self._session.settings)
        seconds = limit_of(timeout, self._session.settings.timeout)
        # For dead letters: a pool of workers goes on until it is canceled, however slow the broker is.
        transaction = partial(self.transaction, timeout=inf)
        manager = Subscribing(self._session, wanted, transaction, codec_of(decode), seconds)
        return with_usage(manager, "subscribe()", "async with client.subscribe(...) as subscription:")

    def transaction(self, *, timeout: float | None = None) -> AbstractAsyncContextManager[Transaction]:
        """Send and acknowledge as one unit: ``async with client.transaction() as transaction``.

        Leaving the block commits the transaction and waits for the broker's RECEIPT. If the block raises or is
        canceled, the transaction is aborted.

        Args:
            timeout: Seconds that entering the block may wait for room, and leaving it for the broker's answer. Default:
                that of `connect`.

        Returns:
            A context manager that yields the Transaction.

        Raises:
            NotSupportedError: On entering: the broker has no transactions.
            ConnectionLost: On entering: the connection is lost; with ``reconnect=``, for good.
            TransactionLost: The connection was lost before COMMIT; nothing in the transaction takes effect.
            OutcomeUnknown: The connection was lost between COMMIT and its RECEIPT.
            BrokerError: The broker refused the COMMIT.
            CommitTimeout: On leaving: COMMIT was sent, and its RECEIPT has not come in time.
            OperationTimeout: There was no room in time to begin, or to send COMMIT; nothing takes effect.

        Cancellation: the transaction is aborted. If COMMIT was already sent, the outcome is unknown. The same is true
        at the `timeout`.

        Spec: BEGIN; COMMIT; ABORT.
        """
        seconds = limit_of(timeout, self._session.settings.timeout)
        manager = open_transaction(self._session, self._new_id("tx"), seconds)
        return with_usage(manager, "transaction()", "async with client.transaction() as transaction:")

    async def run_transaction(
        self, work: Callable[[Transaction], Awaitable[T]], *, attempts: int = 3, timeout: float | None = None
    ) -> T:
        """Run a function in a transaction, and run it again if the connection is lost before COMMIT.

        Args:
            work: Async function that takes the Transaction. What it does outside of the transaction may happen more
                than once.
            attempts: How many times it may run.
            timeout: Seconds that each attempt may wait for room to begin, and then for the broker's answer to COMMIT.
                The time that `work` takes is not limited. Default: that of `connect`.

        Returns:
            The result of `work`, once its transaction is committed.

        Raises:
            TransactionLost: In every attempt, the connection was lost before COMMIT; nothing took effect.
            OutcomeUnknown: The connection was lost between COMMIT and its RECEIPT. It may have taken effect, so it is
                not run again.
            StaleMessage: `work` acknowledged a message of a connection that is lost. The broker redelivers the message;
                use the new delivery.
            CommitTimeout: COMMIT was sent, and its RECEIPT has not come in time. It is not run again.
            OperationTimeout: There was no room in time to begin, or to send COMMIT; nothing took effect.
            Exception: An exception of `work`; its transaction was aborted.

        Cancellation: as `transaction`.

        Spec: BEGIN; COMMIT; ABORT.
        """
        seconds = limit_of(timeout, self._session.settings.timeout)
        return await run_transaction(self._session, lambda: self._new_id("tx"), work, attempts, seconds)

    async def request(
        self,
        destination: str | OutgoingMessage,
        body: bytes | str | None = None,
        *,
        json: J | None = None,
        encode: EncodeValue[J] | None = None,
        timeout: float | None = None,
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
            destination: Where to send the request. Or an OutgoingMessage, which holds the options of a send.
            body: ``bytes`` are sent as they are, ``str`` as text, in UTF-8 or the charset of `content_type`.
            json: A value to encode in place of `body`; the content-type is then ``application/json``.
            encode: Turns the value of `json` into bytes or str, for example ``msgspec.json.encode``. Default: the
                shortest form of Python's own ``json``, in UTF-8.
            timeout: Seconds to wait for the reply, including the time to reconnect. Required, unless `connect` was
                given a default.
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
            NotSupportedError: The broker does not support an option.
            TypeError: Neither `body` nor `json` was given, or both.
            LocalProtocolError: A header is invalid, or `request` sets it already, or `json` cannot be encoded.

        Cancellation: the request may have been sent; its reply is discarded.
        """
        options = send_options(persistent, ttl, priority, delay, group, dedup_id, queue_arguments)
        message: Parts[bytes | str] = completed(
            destination, body, headers, content_type, options, json, encode, call="request()"
        )
        default = self._session.settings.timeout
        if timeout is None and default is None:
            msg = "request() needs timeout=, the seconds to wait for the reply; or pass timeout= to connect()"
            raise LocalProtocolError(msg)
        seconds = limit_of(timeout, default)
        return await self._requests.ask(message, inf if seconds is None else seconds, codec_of(decode), reply_to)

    def _new_id(self, prefix: str) -> str:
        # Only letters, digits and hyphens: brokers build message ids from them without escaping.
        self._ids += 1
        return f"{prefix}-{self._ids}"

    # --- end ------------------------------------------------------------------------------------------------------

    async def disconnect(self, *, timeout: float | None = None) -> DisconnectResult:
        """Disconnect gracefully: wait for pending receipts, then send DISCONNECT and wait for its RECEIPT.

        Leaving the block of `connect` does the same. Call this to learn how the connection ended.

        Args:
            timeout: Seconds to wait at most, if that is less than ``disconnect_timeout``, at which this returns.
                Default: that of `connect`.

        Returns:
            How it ended: with the broker's RECEIPT, because the broker closed the connection, or by timeout.

        Raises:
            ConnectionLost: The connection was lost, or not everything was written within ``disconnect_timeout``.
            BrokerError: The broker has refused DISCONNECT, or a message that was sent without a receipt.
            OperationTimeout: The `timeout` was reached first. Nothing more can be sent.

        Cancellation: the connection is closed at once when `connect` is left. The same is true at the `timeout`.

        Spec: DISCONNECT; Connection Lingering.
        """
        session = self._session
        seconds = limit_of(timeout, session.settings.timeout)
        session.require_own_loop()
        outcome = "nothing more can be sent, and leaving connect() closes the connection at once"
        async with Limit(seconds, "disconnect()", outcome=outcome):
            session.check()
            return await session.leave()

    async def aclose(self, *, timeout: float | None = None) -> None:
        """Close a client as leaving `connect` does: send everything, await pending receipts, and DISCONNECT.

        A client that is closed already stays closed, and nothing is raised. While another task closes it, this waits
        for that.

        Args:
            timeout: Seconds to wait at most, if that is less than ``disconnect_timeout``. Default: no other limit.

        Raises:
            ConnectionLost: The connection was lost and no call has raised that, or not everything was written within
                ``disconnect_timeout``.
            BrokerError: The broker has refused DISCONNECT, or a message that was sent without a receipt.
            OperationTimeout: The `timeout` was reached first.

        Cancellation: the connection is closed at once. The same is true at the `timeout`.

        Spec: DISCONNECT; Connection Lingering.
        """
        seconds = limit_of(timeout, None)
        async with Limit(seconds, "aclose()", outcome="the connection was closed at once"):
            await self.__aexit__(None, None, None)

    async def __aenter__(self) -> Self:
        """Close the client at the end of a block: ``async with await trio_stomp.open(...) as client:``.

        Cancellation: no cancellation point.
        """
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the client: in good order, or at once when the block raised.

        Cancellation: the connection is closed at once.
        """
        self._session.require_own_loop()
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.manager.__aexit__(kind, error, trace)  # noqa: ASYNC102  # it decides what it shields
            return
        try:
            if error is None:
                await self._session.leave_or_wait()  # noqa: ASYNC102  # within disconnect_timeout, unless canceled
        finally:
            self._session.close()

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied or pickled."""
        raise TypeError("a client holds a connection and cannot be copied or pickled; open one in each process")

    def __del__(self) -> None:
        """Close the connection, and warn, if `open` has made this client and the program has not closed it."""
        opened = self._opened
        if opened is None or opened.process != os.getpid():
            return
        self._abandon()
        url = self._session.link.endpoint
        text = f"the client of {url}, opened at {opened.place}, was not closed: await its aclose()"
        warnings.warn(text, ResourceWarning, stacklevel=2, source=opened)

    async def wait_closed(self, *, timeout: float | None = None) -> None:
        """Wait until the connection has ended for good.

        Use it to keep the block of `connect` open while other tasks use the client.

        Args:
            timeout: Seconds to wait at most. Default: no limit, whatever that of `connect` is.

        Raises:
            StompError: The reason, unless this program closed the connection.
            OperationTimeout: The client is not closed at the `timeout`.

        Cancellation: nothing changes. The same is true at the `timeout`.
        """
        session = self._session
        seconds = limit_of(timeout, None)
        session.require_own_loop()
        async with Limit(seconds, "wait_closed()", outcome="the client is not closed"):
            await session.ended.wait()
        if session.failure is not None and not isinstance(session.failure, ConnectionClosed):
            raise renewed(session.failure)

    def statistics(self) -> Statistics:
        """Return the counters of this client and what its buffers hold now."""
        session, connection, now = self._session, self._session.connection, self._session.connection.now()
        return Statistics(
            **dataclasses.asdict(session.counters),
            resent=session.receipts.resent,
            unconfirmed=len(session.receipts.messages),
            receipts_pending=len(connection.receipts),
            outbox_bytes=0 if connection.failure is not None else connection.unwritten_bytes,
            undelivered_bytes=connection.gate.held_bytes,
            seconds_connected=now - connection.opened_at,
            seconds_since_read=now - connection.last_read,
            seconds_since_write=now - connection.last_write,
            subscriptions=tuple(each.statistics() for each in session.registrations),
        )


class Opened:
    """What `open` has to undo.

    Attributes:
        manager: The context manager that was entered.
        place: Where the program has called `open`.
        process: The process in which it has.
    """

    # tracemalloc of Python 3.11 does not know where an object with a __dict__ was created.
    __slots__ = ("__weakref__", "manager", "place", "process")

    def __init__(self, manager: AbstractAsyncContextManager[object], place: str) -> None:
        self.manager = manager
        self.place = place
        self.process = os.getpid()


def session_of(client: Client) -> Session:
    """Return the session of a client, for other parts of this library."""
    return client._session  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # users must not touch it
