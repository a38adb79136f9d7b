"""The effects of a client's frames at the broker, sans-IO: one object for each session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from trio_stomp.protocol import AckMode, Command, Frame, Headers, Version
from trio_stomp.testing.broker_options import BrokerOptions, NackPolicy
from trio_stomp.testing.broker_transactions import Claim, Transactions
from trio_stomp.testing.deliveries import Consumer, Sink
from trio_stomp.testing.destinations import StoredMessage
from trio_stomp.testing.memory import text_bytes
from trio_stomp.testing.namespace import Namespace, global_name, is_topic, with_global_reply_to
from trio_stomp.testing.refusals import Refusal
from trio_stomp.testing.selector import Selector

__all__ = ["Commands"]

# The header of RabbitMQ and that of ActiveMQ.
_PREFETCH: Final = ("prefetch-count", "activemq.prefetchSize")
# The headers of ActiveMQ Classic and Artemis; RabbitMQ takes the id of the subscription, with durable:true.
_DURABLE_NAMES: Final = ("activemq.subscriptionName", "durable-subscription-name")

# Measured with CPython 3.11: a subscription without its backlog, and a parsed selector for each of its characters.
_SUBSCRIPTION_BYTES: Final = 1024
_SELECTOR_FACTOR: Final = 256

# ("id", id), or ("destination", destination) for a 1.0 client that gives no id.
_Key = tuple[str, str]

# How RabbitMQ reads the header ``requeue`` of NACK, and others alike: "some Python clients serialize True/False as
# "True"/"False"" (rabbit_stomp_frame.erl). Any other value counts as if there were no such header.
_TRUE: Final = ("true", "True")
_FALSE: Final = ("false", "False")
_REQUEUE: Final[Mapping[str | None, NackPolicy]] = {
    **dict.fromkeys(_TRUE, NackPolicy.REQUEUE),
    **dict.fromkeys(_FALSE, NackPolicy.DEAD_LETTER),
}


class Commands:
    """The subscriptions and transactions of one session.

    Args:
        session_id: The id of the session, part of the names of its temporary destinations.
        version: The STOMP version.
        namespace: The destinations of its virtual host.
        sink: The receiver of deliveries.
        options: The broker's settings.
        client_id: The ``client-id`` of its CONNECT, or its login: the owner of its durable subscriptions.
        may_send: Whether this user may SEND.

    Attributes:
        handlers: For each command the method that executes its frames. It raises `Refusal` where nothing has changed.
    """

    def __init__(
        self,
        *,
        session_id: str,
        version: Version,
        namespace: Namespace,
        sink: Sink,
        options: BrokerOptions,
        client_id: str,
        may_send: bool,
    ) -> None:
        self._session_id = session_id
        self._version = version
        self._namespace = namespace
        self._sink = sink
        self._options = options
        self._client_id = client_id
        self._nack = namespace.imitation.nack if options.nack is None else options.nack
        self._uncommon = namespace.imitation.headers | {"reply-to"}
        self._transactions = Transactions(limit=options.max_queue_length, memory=namespace.dirty.memory)
        self._consumers: dict[_Key, Consumer] = {}
        self._by_number: dict[str, Consumer] = {}
        self._holders: dict[str, dict[Consumer, None]] = {}
        self._subscribed = 0
        self.handlers: Mapping[Command, Callable[[Frame], None]] = {
            Command.SEND: self._send if may_send else self._refuse_send,
            Command.SUBSCRIBE: self._subscribe,
            Command.UNSUBSCRIBE: self._unsubscribe,
            Command.ACK: self._settle,
            Command.NACK: self._settle,
            Command.BEGIN: self._begin,
            Command.COMMIT: self._commit,
            Command.ABORT: self._abort,
            Command.DISCONNECT: self._disconnect,
        }

    @property
    def consumers(self) -> list[Consumer]:
        """The open subscriptions, oldest first."""
        return list(self._consumers.values())

    @property
    def transactions(self) -> int:
        """The number of open transactions."""
        return len(self._transactions)

    def end(self) -> None:
        """Abort open transactions and give back unacknowledged messages, at the end of the session."""
        self._transactions.abort_all()
        for consumer in self.consumers:
            self._close(consumer)
        self._consumers.clear()
        self._by_number.clear()

    # --- SEND ---------------------------------------------------------------------------------------------------------

    def _send(self, frame: Frame) -> None:
        headers, plan = frame.headers, None
        destination = headers["destination"]
        if destination.startswith("/temp-") or destination[:1] != "/":
            destination = self._name(destination, headers.get("destination-type"))
        # One test for all headers that few messages have.
        if not self._uncommon.isdisjoint(headers):
            self._expect_reply(headers.get("reply-to"))
            headers = with_global_reply_to(headers, self._session_id)
            plan = self._namespace.plan(headers)
        message = self._namespace.new_message(headers, frame.body, frame.footprint, plan)
        message.sender = self._session_id
        name = headers.get("transaction")
        if name is None:
            self._namespace.publish(destination, message)
            return
        transaction = self._transactions.with_room(name)
        if destination not in transaction.sizes:
            self._namespace.check_name(destination)
        self._transactions.add_send(transaction, destination, message)

    def _name(self, destination: str, routing: str | None) -> str:
        """The name of a destination for all sessions."""
        return global_name(self._namespace.full_name(destination, routing), self._session_id)

    def _expect_reply(self, reply_to: str | None) -> None:
        """Subscribe to the queue for replies, where the imitated broker does that."""
        unasked = self._namespace.imitation.replies_unasked
        if unasked and reply_to and reply_to.startswith("/temp-queue/") and ("id", reply_to) not in self._consumers:
            self._subscribe(Frame(Command.SUBSCRIBE, Headers([("id", reply_to), ("destination", reply_to)])))

    @staticmethod
    def _refuse_send(_frame: Frame) -> None:
        raise Refusal("access refused", "this user may not SEND")

    # --- SUBSCRIBE, UNSUBSCRIBE -----------------------------------------------------------------------------------

    def _subscribe(self, frame: Frame) -> None:
        headers = frame.headers
        subscription_id, destination = headers.get("id"), headers["destination"]
        key = self._key(headers)
        if key in self._consumers:
            raise Refusal("subscription exists", f"a subscription with {key[0]} {key[1][:80]!r} is already open")
        if subscription_id is not None:
            self._check_subscription_id(subscription_id)
        name = self._name(destination, headers.get("subscription-type"))
        selector = self._selector(headers)
        prefetch = self._prefetch(headers)
        browsing = headers.get("browser") == "true"
        names = self._namespace.dirty.memory.names
        size = _SUBSCRIPTION_BYTES + sum(map(text_bytes, key)) + _SELECTOR_FACTOR * len(headers.get("selector") or "")
        names.charge(size)
        try:
            if browsing:
                source = self._namespace.snapshot(name, selector, session_id=self._session_id)
            else:
                source = self._namespace.open_source(
                    name, selector, self._durable(headers), session_id=self._session_id
                )
                own = headers.get(self._namespace.imitation.no_local or "") == "true"
                source.not_from = self._session_id if own else None
        except Refusal:
            names.used -= size
            raise
        self._subscribed += 1
        consumer = Consumer(
            number=self._subscribed,
            subscription_id=subscription_id,
            destination=self._namespace.shown_name(destination),
            # A browser needs no acknowledgment.
            mode=AckMode.AUTO if browsing else AckMode(headers.get("ack", "auto") or "auto"),
            prefetch=prefetch,
            # The backlog of a topic or a browser has been selected already.
            selector=None if is_topic(name) or browsing else selector,
            sink=self._sink,
            source=source,
            name_bytes=size,
            holders=None if self._sink.own_ack_ids else self._holders,
        )
        self._consumers[key] = self._by_number[str(consumer.number)] = consumer
        source.attach(consumer)

    def _check_subscription_id(self, subscription_id: str) -> None:
        if "\r" in subscription_id and self._version is not Version.V1_2:
            raise Refusal("subscription id refused", "only STOMP 1.2 can send a MESSAGE with a CR in its subscription")
        self._namespace.check_length("the subscription id", subscription_id)

    def _selector(self, headers: Headers) -> Selector | None:
        text = headers.get("selector")
        converts = self._namespace.imitation.selectors_convert
        return None if text is None else Selector.parse(text, converts=converts)

    @staticmethod
    def _key(headers: Headers) -> _Key:
        subscription_id = headers.get("id")
        if subscription_id is None:
            return ("destination", headers["destination"])
        return ("id", subscription_id)

    def _prefetch(self, headers: Headers) -> int | None:
        text = next((headers[name] for name in _PREFETCH if name in headers), None)
        if text is None:
            return self._options.prefetch
        if not (text.isascii() and text.isdigit() and len(text) <= 9):  # noqa: PLR2004 - nine digits are plenty
            raise Refusal("prefetch refused", f"the prefetch must be a number of messages, got {text[:40]!r}")
        # RabbitMQ: 0 is no limit.
        return int(text) or None

    def _durable(self, headers: Headers) -> tuple[str, str] | None:
        name = next((headers[name] for name in _DURABLE_NAMES if name in headers), None)
        if name is None and headers.get("durable") in _TRUE:
            name = headers.get("id")
        return None if name is None else (self._client_id, name)

    def _unsubscribe(self, frame: Frame) -> None:
        headers = frame.headers
        durable = self._durable(headers)
        key = self._key(headers)
        if key not in self._consumers and key[0] == "destination":
            # As on ActiveMQ: the oldest subscription to that destination, even if it has an id.
            name = self._namespace.shown_name(key[1])
            found = (other for other, consumer in self._consumers.items() if consumer.destination == name)
            key = next(found, key)
        consumer = self._consumers.pop(key, None)
        if consumer is None and durable is None:
            raise Refusal("no such subscription", f"no subscription with {key[0]} {key[1][:80]!r} is open")
        if consumer is not None:
            del self._by_number[str(consumer.number)]
            self._close(consumer)
        # RabbitMQ accepts durable:true in the UNSUBSCRIBE of a queue too; it has no effect there.
        if durable is not None and (consumer is None or is_topic(consumer.source.name)):
            self._namespace.forget_durable(durable)

    def _close(self, consumer: Consumer) -> None:
        consumer.close()
        self._namespace.dirty.memory.names.used -= consumer.name_bytes
        self._namespace.close_source(consumer.source)

    # --- ACK, NACK ------------------------------------------------------------------------------------------------

    def _settle(self, frame: Frame) -> None:
        headers = frame.headers
        name = headers.get("transaction")
        # First, so that a refusal claims nothing.
        transaction = None if name is None else self._transactions.with_room(name)
        consumer, messages = self._claimed(headers)
        claim = Claim(consumer, messages)
        if frame.command is Command.NACK:
            claim.nack = _REQUEUE.get(headers.get("requeue"), self._nack)
        if transaction is None:
            self._take_effect(claim)
        else:
            transaction.claims.append(claim)

    def _claimed(self, headers: Headers) -> tuple[Consumer, list[StoredMessage]]:
        if self._version is Version.V1_2:
            tag = headers["id"]
            own = self._sink.own_ack_ids
            consumer = self._by_number.get(tag.partition(".")[0]) if own else self._holder(tag, None)
        else:
            tag = headers["message-id"]
            consumer = self._holder(tag, headers.get("subscription"))
        messages = [] if consumer is None else consumer.claim(tag)
        if consumer is None or not messages:
            raise Refusal(
                "nothing to acknowledge",
                f"{tag[:80]!r} is not an unacknowledged message of this session; STOMP {self._version.value} expects "
                + ("the ack header of the MESSAGE" if self._version is Version.V1_2 else "its message-id"),
            )
        return consumer, messages

    def _holder(self, message_id: str, subscription_id: str | None) -> Consumer | None:
        if subscription_id is not None:
            return self._consumers.get(("id", subscription_id))
        # 1.0 need not name the subscription: where several hold copies of one message, the first counts.
        return next(iter(self._holders.get(message_id, ())), None)

    def _take_effect(self, claim: Claim) -> None:
        source, messages = claim.consumer.source, claim.messages
        claim.consumer.settle(messages)
        if claim.nack is None:
            for message in messages:
                source.release(message)
        else:
            self._namespace.reject(source, messages, claim.nack)

    # --- BEGIN, COMMIT, ABORT, DISCONNECT -------------------------------------------------------------------------

    def _begin(self, frame: Frame) -> None:
        name = frame.headers["transaction"]
        self._namespace.check_length("the transaction id", name)
        self._transactions.begin(name)

    def _commit(self, frame: Frame) -> None:
        transaction = self._transactions.end(frame.headers["transaction"])
        try:
            self._namespace.check_room(transaction.sizes)
        except Refusal:
            transaction.undo()
            raise
        # The messages first: the dead letters of NACKs must not take the room that was found for them.
        for name, message in transaction.sends:
            self._namespace.accept(name, message)
        for claim in transaction.claims:
            self._take_effect(claim)

    def _abort(self, frame: Frame) -> None:
        self._transactions.end(frame.headers["transaction"]).undo()

    def _disconnect(self, _frame: Frame) -> None:
        self.end()
