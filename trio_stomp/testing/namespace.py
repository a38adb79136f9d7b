"""The destinations of one virtual host: which names there are, what they lead to, and where dead letters go.

``/queue/...`` and ``/topic/...`` come into being when they are named. ``/temp-queue/...`` and ``/temp-topic/...``
belong to one session, as on ActiveMQ: the others reach them by the ``/remote-temp-...`` name that a ``reply-to`` header
is turned into, and they end with their session.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from trio_stomp.protocol import Headers
from trio_stomp.testing.broker_options import BrokerOptions, NackPolicy
from trio_stomp.testing.broker_transactions import Target
from trio_stomp.testing.destinations import Dirty, Queue, StoredMessage, Topic
from trio_stomp.testing.refusals import Refusal
from trio_stomp.testing.selector import Selector

__all__ = ["Namespace", "global_name", "is_topic", "reply_to_of"]

_QUEUES: Final = ("/queue/", "/remote-temp-queue/")
_TOPICS: Final = ("/topic/", "/remote-temp-topic/")
_TEMPORARY: Final = ("/temp-queue/", "/temp-topic/")
_REMOTE: Final = "/remote-"
# Not part of the message: they are about one frame or one delivery, and those of the delivery are set by the broker.
_NOT_PASSED_ON: Final = frozenset(
    {
        "ack",
        "content-length",
        "delivery-count",
        "destination",
        "message-id",
        "receipt",
        "redelivered",
        "subscription",
        "transaction",
    }
)


def global_name(destination: str, session_id: str) -> str:
    """The name by which all sessions can reach a destination: a temporary one's holds its session."""
    for prefix in _TEMPORARY:
        if destination.startswith(prefix):
            return f"{_REMOTE}{prefix.removeprefix('/')}{session_id}.{destination.removeprefix(prefix)}"
    return destination


def is_topic(name: str) -> bool:
    """Whether a name (as of `global_name`) is a topic's."""
    return name.startswith(_TOPICS)


def reply_to_of(headers: Headers, session_id: str) -> list[tuple[str, str]]:
    """The headers of a SEND with a temporary ``reply-to`` in the form that other sessions can use."""
    return [(name, global_name(value, session_id) if name == "reply-to" else value) for name, value in headers.pairs]


class Namespace:
    """The destinations of one virtual host.

    Args:
        options: The broker's settings.
        new_message_id: Makes ids that no other message of the broker has.

    Attributes:
        dirty: The queues that may have something to deliver.
        client_ids: The ``client-id`` values of the sessions there are.
    """

    def __init__(self, options: BrokerOptions, new_message_id: Callable[[], str]) -> None:
        self._options = options
        self._new_message_id = new_message_id
        self._queues: dict[str, Queue] = {}
        self._topics: dict[str, Topic] = {}
        self._durable: dict[tuple[str, str], tuple[Topic, Queue]] = {}
        self._sessions: set[str] = set()
        self._numbers = itertools.count(1)
        self.dirty = Dirty()
        self.client_ids: set[str] = set()

    # --- names ------------------------------------------------------------------------------------------------------

    def target(self, name: str) -> Target:
        """What a SEND to a name (as of `global_name`) goes to.

        Raises:
            Refusal: There is no such kind of destination, or a temporary one's session has ended.
        """
        found: Target | None = self._queues.get(name) or self._topics.get(name)
        if found is not None:
            return found
        self._check_name(name)
        return self.topic(name) if is_topic(name) else self.queue(name)

    def queue(self, name: str) -> Queue:
        """The queue of that name, which comes into being."""
        queue = self._queues.get(name)
        if queue is None:
            queue = self._queues[name] = self._new_queue(name)
        return queue

    def topic(self, name: str) -> Topic:
        """The topic of that name, which comes into being."""
        topic = self._topics.get(name)
        if topic is None:
            topic = self._topics[name] = Topic(name)
        return topic

    def all_queues(self, name: str) -> list[Queue]:
        """The queue of that name, or the backlogs of that topic; none where nobody has named it yet."""
        if name in self._topics:
            return self._topics[name].backlogs
        return [self._queues[name]] if name in self._queues else []

    def _new_queue(self, name: str) -> Queue:
        return Queue(name, dirty=self.dirty, limit=self._options.max_queue_length)

    def _check_name(self, name: str) -> None:
        # STOMP 1.2, SEND: a destination is opaque, but no version can send all of these back in a MESSAGE.
        if any(octet in name for octet in "\r\n\0"):
            raise Refusal("destination refused", "a destination cannot hold line ends or NUL")
        known = next((prefix for prefix in (*_QUEUES, *_TOPICS) if name.startswith(prefix) and name != prefix), None)
        if known is None and not self._options.bare_queues:
            expected = ", ".join((*_QUEUES[:1], *_TOPICS[:1], *_TEMPORARY))
            raise Refusal("no such destination", f"a destination starts with one of {expected}; got {name[:200]!r}")
        if known is not None and known.startswith(_REMOTE):
            session_id = name.removeprefix(known).partition(".")[0]
            if session_id not in self._sessions:
                raise Refusal("no such destination", f"the connection that {name[:200]!r} belongs to has ended")

    # --- sessions -----------------------------------------------------------------------------------------------------

    def begin_session(self, session_id: str, client_id: str | None) -> None:
        """Let a session in.

        Raises:
            Refusal: Its client-id is in use.
        """
        if client_id is not None:
            if client_id in self.client_ids:
                raise Refusal("client-id in use", f"a client with client-id {client_id[:80]!r} is connected already")
            self.client_ids.add(client_id)
        self._sessions.add(session_id)

    def end_session(self, session_id: str, client_id: str | None) -> None:
        """Forget a session and its temporary destinations."""
        if client_id is not None:
            self.client_ids.discard(client_id)
        self._sessions.discard(session_id)
        for prefix in _TEMPORARY:
            remote = global_name(prefix, session_id)
            for names in (self._queues, self._topics):
                for name in [name for name in names if name.startswith(remote)]:
                    del names[name]

    # --- messages -----------------------------------------------------------------------------------------------------

    def new_message(self, headers: Iterable[tuple[str, str]], body: bytes) -> StoredMessage:
        """Make a message of the headers and body of a SEND. Row 1x-SEND-5: user-defined headers are passed on."""
        passed_on = [pair for pair in headers if pair[0] not in _NOT_PASSED_ON]
        return StoredMessage(message_id=self._new_message_id(), headers=passed_on, body=body)

    def reject(self, source: Queue, messages: Iterable[StoredMessage], *, requeue: bool | None = None) -> None:
        """Do with NACKed messages what the NACK says, or else the options."""
        policy = self._options.nack
        if requeue is not None:
            policy = NackPolicy.REQUEUE if requeue else NackPolicy.DEAD_LETTER
        if policy is NackPolicy.DISCARD:
            return
        returning: list[StoredMessage] = []
        for message in messages:
            message.rejections += 1
            again = policy is NackPolicy.REQUEUE and message.rejections < self._options.max_deliveries
            if again or not self._bury(source, message):
                returning.append(message)
        source.give_back(returning)

    def _bury(self, source: Queue, message: StoredMessage) -> bool:
        """Send a message to the dead letters; False where it lies there already, or they have no room for it."""
        pattern = self._options.dead_letter
        if pattern is None:
            return True
        name = pattern.replace("{name}", source.name.strip("/").partition("/")[2] or source.name)
        target = self.target(name)
        if name == source.name or target.room() < 1:
            return False
        cause = [("dead-letter-source", source.name), ("dead-letter-deliveries", str(message.deliveries))]
        target.publish(self.new_message([*cause, *message.headers], message.body))
        return True

    # --- subscriptions ------------------------------------------------------------------------------------------------

    def open_source(self, name: str, selector: Selector | None, durable: tuple[str, str] | None) -> Queue:
        """The queue that a new subscription takes from: a shared one, or a backlog of its own for a topic.

        Args:
            name: The destination, as of `global_name`.
            selector: Which messages of a topic are wanted.
            durable: Client-id and name of a durable subscription to a topic.

        Raises:
            Refusal: There is no such destination, or the durable subscription is in use.
        """
        self._check_name(name)
        if not is_topic(name):
            return self.queue(name)
        topic = self.topic(name)
        if durable is not None and durable in self._durable:
            return self._resume(durable, topic)
        backlog = self._new_queue(name)
        topic.add(backlog, selector)
        if durable is not None:
            self._durable[durable] = (topic, backlog)
        return backlog

    def snapshot(self, name: str, selector: Selector | None) -> Queue:
        """A queue of its own with copies of what waits, and then a message that says that this was all: for browsing.

        Raises:
            Refusal: There is no such destination.
        """
        self._check_name(name)
        copies = Queue(name, dirty=self.dirty, limit=sys.maxsize)
        for message in [] if is_topic(name) else self.queue(name).waiting():
            if selector is None or selector.matches(message.headers):
                copies.keep(replace(message))
        # As ActiveMQ ends it.
        copies.keep(StoredMessage(message_id="0", headers=[("browser", "end")], body=b""))
        return copies

    def _resume(self, durable: tuple[str, str], topic: Topic) -> Queue:
        known, backlog = self._durable[durable]
        if backlog.takers:
            raise Refusal("durable subscription in use", f"durable subscription {durable[1]!r} has a consumer already")
        if known is not topic:
            raise Refusal("durable subscription exists", f"{durable[1]!r} subscribes to {known.name} already")
        return backlog

    def close_source(self, backlog: Queue) -> None:
        """Forget the backlog of a subscription to a topic that has ended, unless it is durable."""
        topic = self._topics.get(backlog.name)
        if topic is not None and backlog in topic.backlogs and not self._is_durable(backlog):
            topic.remove(backlog)

    def _is_durable(self, backlog: Queue) -> bool:
        return any(backlog is kept for _, kept in self._durable.values())

    def forget_durable(self, durable: tuple[str, str]) -> None:
        """End a durable subscription for good.

        Raises:
            Refusal: There is none, or it has a consumer.
        """
        if durable not in self._durable:
            raise Refusal("no such subscription", f"there is no durable subscription {durable[1]!r}")
        topic, backlog = self._durable[durable]
        if backlog.takers:
            raise Refusal("durable subscription in use", f"durable subscription {durable[1]!r} has a consumer")
        del self._durable[durable]
        topic.remove(backlog)
