"""The client for synchronous code."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterable, Callable, Iterable
from contextlib import AbstractContextManager
from functools import partial
from math import inf
from types import TracebackType
from typing import Final, NoReturn, Self, Unpack

from typing_extensions import TypeVar

from trio_stomp.blocking.calls import Calls, ConfirmedSend
from trio_stomp.blocking.message import Claims, Message
from trio_stomp.blocking.opened import Opened
from trio_stomp.blocking.publisher import Publisher, open_publisher
from trio_stomp.blocking.states import StateChanges
from trio_stomp.blocking.subscription import Subscription, open_subscription
from trio_stomp.blocking.thread import Call
from trio_stomp.blocking.transaction import Transaction, open_transaction
from trio_stomp.blocking.verbs import Shown, blocks, documented, like
from trio_stomp.brokers import (
    Profile,
    QueueArguments,
    SendOptions,
    StreamOffset,
    require_bool,
    require_whole,
    send_options,
    subscribe_options,
)
from trio_stomp.client import Client as AsyncClient
from trio_stomp.client import (
    ConnectionState,
    Decode,
    HeaderInput,
    OutgoingMessage,
    Overflow,
    OverflowName,
    Phase,
    Statistics,
)
from trio_stomp.errors import TransactionLost
from trio_stomp.protocol import AckMode, AckName, HeartBeatTerms, Version
from trio_stomp.session import IN_MEMORY, BodyFile, EncodeValue, checked, completed, prepare, send_prepared, size_of

__all__ = ["Client"]

logger: Final = logging.getLogger("trio_stomp")

# The type of `json=`.
J = TypeVar("J")
T = TypeVar("T")
# What a subscription decodes to; object without `decode=`.
V = TypeVar("V", default=object)


class Client:
    """A connected client for synchronous code, made by `connect` or `open`.

    All its methods may be called from any number of threads at once. Those that do not wait for the broker, `send`
    without a receipt and `Message.ack`, return at once, and the client's thread does them in the order of the calls. If
    one fails there, the next call raises it, or leaving `connect`.
    """

    # The arguments are the library's own.
    def __init__(self, opened: Opened | None = None) -> None:
        if not isinstance(opened, Opened):
            raise TypeError("a Client cannot be constructed: use trio_stomp.blocking.connect(...) or open(...)")
        self._opened = opened

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied or pickled."""
        self._inner.__reduce__()

    def __repr__(self) -> str:
        return f"<Client of {self._opened.newest.link.session.link.endpoint}: {self._opened.state.phase.value}>"

    # --- what was negotiated; health ------------------------------------------------------------------------------

    version = Shown[Version](AsyncClient, "version")
    server = Shown[str | None](AsyncClient, "server")
    session_id = Shown[str | None](AsyncClient, "session_id")
    profile = Shown[Profile](AsyncClient, "profile")
    heart_beat = Shown[HeartBeatTerms](AsyncClient, "heart_beat")

    @property
    def state(self) -> ConnectionState:
        """Whether the client is connected, reconnecting or closed. Reading it does no I/O.

        In a forked process, with ``after_fork="reopen"``, reading it makes the client's thread connect.
        """
        self._opened.begin_reopening()
        return self._opened.state

    def state_changes(self) -> StateChanges:
        """Iterate over the current state and each later one, until the client is closed.

        Returns:
            An iterator: ``for state in client.state_changes()``. Any number may run at once, each in its thread.
        """
        return StateChanges(self._opened.ready(None, "state_changes()")[0].link)

    def statistics(self) -> Statistics:
        """Return the counters of this client and what its buffers hold now; once it is closed, the last ones."""
        if self._opened.is_to_reopen:
            return Statistics()
        link = self._calls.link
        return link.last or link.thread.run(Call(link.count))

    # --- verbs ----------------------------------------------------------------------------------------------------

    @like(AsyncClient.send)
    def send(
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
        timeout: float | None = None,
        **options: Unpack[SendOptions],
    ) -> None:
        """Send a message."""
        (calls, timeout), asked = self._opened.ready(timeout, "send()"), options or None
        if body is None or json is not None or encode is not None or type(destination) is not str:
            destination, body, headers, content_type, asked = completed(
                destination, body, headers, content_type, asked, json, encode
            )
        if content_length is not None or not isinstance(body, IN_MEMORY):
            send = partial(calls.link.client.send, content_type=content_type, content_length=content_length)
            calls.call(
                lambda left: send(destination, body, headers=headers, receipt=receipt, timeout=left, **options),
                timeout,
                name="send",
            )
            return
        parts = (destination, body, headers, content_type, asked)
        if receipt:
            if receipt is not True:
                require_bool("receipt", receipt)  # type: ignore[unreachable]  # callers without types
            ConfirmedSend(calls, parts, timeout).wait_confirmed()
            return
        # Encoded in this thread, so that it raises what is wrong with the arguments.
        session = calls.link.session
        prepared = prepare(session, parts)
        if prepared is not None:
            calls.post(partial(send_prepared, session, prepared), len(prepared.frame), timeout)
            return
        message = OutgoingMessage(destination, body, headers=headers, content_type=content_type, **(asked or {}))
        copied = checked(session, message)
        if copied is None:
            calls.call(lambda left: calls.link.client.send_many((message,), timeout=left), timeout, name="send")
        else:
            calls.post(partial(calls.link.client.send_many, (copied,), timeout=inf), size_of(body), timeout)

    @documented(AsyncClient.send_many)
    def send_many(
        self, messages: Iterable[OutgoingMessage], *, receipt: bool = False, timeout: float | None = None
    ) -> None:
        """Send many messages in one call, which is faster than a call of `send` for each."""
        listed = tuple(messages)
        calls, timeout = self._opened.ready(timeout, "send_many()")
        calls.call(
            lambda left: calls.link.client.send_many(listed, receipt=receipt, timeout=left), timeout, name="send_many"
        )

    @documented(AsyncClient.publisher)
    def publisher(
        self,
        max_in_flight: int = 256,
        *,
        max_in_flight_bytes: int = 16 * 1024 * 1024,
        timeout: float | None = None,
    ) -> AbstractContextManager[Publisher]:
        """Send messages and collect their confirmations later: ``with client.publisher() as publisher``."""
        calls, _ = self._opened.ready(timeout, "publisher()")
        manager = calls.link.client.publisher(max_in_flight, max_in_flight_bytes=max_in_flight_bytes, timeout=timeout)
        return open_publisher(calls, manager, max_in_flight, max_in_flight_bytes, timeout)

    @documented(AsyncClient.subscribe)
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
    ) -> AbstractContextManager[Subscription[V]]:
        """Receive messages: ``with client.subscribe(...) as subscription``. Leaving the block unsubscribes."""
        options = subscribe_options(selector, durable, browse, no_local, stream_offset, queue_arguments)
        calls, _ = self._opened.ready(timeout, "subscribe()")
        calls.link.check()
        with self._opened.naming:
            manager = calls.link.client.subscribe(
                destination,
                ack=ack,
                prefetch=prefetch,
                id=id,
                headers=headers,
                overflow=overflow,
                decode=decode,
                spool_threshold_bytes=spool_threshold_bytes,
                timeout=timeout,
                **options,
            )
        return open_subscription(calls, manager, prefetch, timeout)

    @documented(AsyncClient.transaction)
    def transaction(self, *, timeout: float | None = None) -> AbstractContextManager[Transaction]:
        """Send and acknowledge as one unit: ``with client.transaction() as transaction``."""
        calls, _ = self._opened.ready(timeout, "transaction()")
        calls.link.check()
        with self._opened.naming:
            manager = calls.link.client.transaction(timeout=timeout)
        return open_transaction(calls, manager, timeout)

    @documented(AsyncClient.run_transaction)
    def run_transaction(
        self, work: Callable[[Transaction], T], *, attempts: int = 3, timeout: float | None = None
    ) -> T:
        """Run a function in a transaction, and run it again if the connection is lost before COMMIT."""
        # `work` runs in the thread that calls, and only its verbs in the client's.
        require_whole("attempts", attempts)
        for left in reversed(range(attempts)):
            try:
                with self.transaction(timeout=timeout) as transaction:
                    return work(transaction)
            except TransactionLost as error:
                # Without another connection to come, there is nothing to run it on.
                if not left or self.state.phase is Phase.CLOSED:
                    raise
                logger.info("running a transaction again: %s", error)
        raise AssertionError  # the last round returns or raises

    @documented(AsyncClient.request)
    def request(
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
        """Send a request and return the reply. Any number of requests may wait at once, each in its thread."""
        options = send_options(persistent, ttl, priority, delay, group, dedup_id, queue_arguments)
        calls, timeout = self._opened.ready(timeout, "request()")
        reply = calls.call(
            lambda left: calls.link.client.request(
                destination,
                body,
                json=json,
                encode=encode,
                timeout=left,
                reply_to=reply_to,
                headers=headers,
                content_type=content_type,
                decode=decode,
                **(options or {}),
            ),
            timeout,
            name="request",
        )
        return Message(reply, reply.subscription, Claims(AckMode.AUTO), calls)

    # --- end ------------------------------------------------------------------------------------------------------

    disconnect = blocks(AsyncClient.disconnect)
    wait_closed = blocks(AsyncClient.wait_closed, limited=False)

    def close(self, *, timeout: float | None = None) -> None:
        """Close the client as leaving `connect` does: send everything, await pending receipts, and DISCONNECT.

        A client that is closed already stays closed, and nothing is raised. While another thread closes it, this waits
        for that. In a signal handler that has interrupted `close`, it returns at once.

        Args:
            timeout: Seconds to wait at most, if that is less than ``disconnect_timeout``. Default: no other limit.

        Raises:
            ConnectionLost: The connection was lost and no call has raised that, or not everything was written within
                ``disconnect_timeout``.
            BrokerError: The broker has refused DISCONNECT, or a message that was sent without a receipt.
            StompError: The failure of a call that did not wait, if no later call has raised it.
            OperationTimeout: The `timeout` was reached first. The connection was closed at once.

        Spec: DISCONNECT; Connection Lingering.
        """
        self._opened.close(None, timeout)

    def __enter__(self) -> Self:
        """Close the client at the end of a block: ``with open(...) as client:``."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the client: in good order, or at once when the block raised."""
        self._opened.close(error)

    @property
    def _calls(self) -> Calls:
        return self._opened.ready(None, "the call")[0]

    @property
    def _inner(self) -> AsyncClient:
        return self._opened.newest.link.client
