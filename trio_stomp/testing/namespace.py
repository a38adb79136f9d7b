"""The destinations of one virtual host: which names there are, what they lead to, and where dead letters go.

``/queue/...`` and ``/topic/...`` come into being when they are named. A queue is forgotten when its last subscription
ends and it is empty, a topic when its last subscription ends, so that names do not pile up. ``/temp-queue/...`` and
``/temp-topic/...`` belong to one session, as on ActiveMQ: that session alone can subscribe to them, the others can send
to them by the ``/remote-temp-...`` name that a ``reply-to`` header is turned into, and they end with their session.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Final

from trio_stomp.protocol import Headers
from trio_stomp.testing.broker_options import BrokerOptions, NackPolicy
from trio_stomp.testing.destinations import Dirty, Queue, Share, StoredMessage, Topic
from trio_stomp.testing.imitation import Plan, imitation_of
from trio_stomp.testing.memory import Memory, message_bytes, text_bytes
from trio_stomp.testing.refusals import Refusal
from trio_stomp.testing.schedule import Schedule
from trio_stomp.testing.selector import Selector

__all__ = ["Namespace", "Target", "global_name", "is_topic", "with_global_reply_to"]

Target = Queue | Topic

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
# Measured with CPython 3.11: what a queue or a backlog takes, and a topic.
_QUEUE_BYTES: Final = 2048
_TOPIC_BYTES: Final = 512


def global_name(destination: str, session_id: str) -> str:
    """The name by which all sessions can reach a destination: a temporary one's holds its session."""
    for prefix in _TEMPORARY:
        if destination.startswith(prefix):
            return f"{_REMOTE}{prefix.removeprefix('/')}{session_id}.{destination.removeprefix(prefix)}"
    return destination


def is_topic(name: str) -> bool:
    """Whether a name (as of `global_name`) is a topic's."""
    return name.startswith(_TOPICS)


def with_global_reply_to(headers: Headers, session_id: str) -> Headers:
    """The headers of a SEND with a temporary ``reply-to`` in the form that other sessions can use."""
    pairs = headers.pairs
    return Headers((name, global_name(value, session_id) if name == "reply-to" else value) for name, value in pairs)


class Namespace:
    """The destinations of one virtual host.

    Args:
        options: The broker's settings.
        new_message_id: Makes ids that no other message of the broker has.
        memory: What messages and names are charged to.
        schedule: Where messages wait that are to be delivered later.

    Attributes:
        dirty: The queues that may have something to deliver.
        client_ids: The ``client-id`` values of the sessions there are.
        imitation: How it has what STOMP leaves open.
    """

    def __init__(
        self,
        options: BrokerOptions,
        new_message_id: Callable[[], str],
        *,
        memory: Memory | None = None,
        schedule: Schedule | None = None,
    ) -> None:
        self._options = options
        self._new_message_id = new_message_id
        self._queues: dict[str, Queue] = {}
        self._topics: dict[str, Topic] = {}
        self._by_pattern: dict[Queue, Selector | None] = {}
        self._durable: dict[tuple[str, str], Queue] = {}
        # For each session the names of its temporary destinations.
        self._sessions: dict[str, set[str]] = {}
        self._schedule = Schedule() if schedule is None else schedule
        self.dirty = Dirty(memory=Memory() if memory is None else memory)
        self._names = self.dirty.memory.names
        self.client_ids: set[str] = set()
        self.imitation = imitation_of(options.server)
        # The names that were used last. Each is bounded, so together they take no more than about 1 MiB.
        self._check_spelling = lru_cache(maxsize=256)(self._owner_if_legal)
        self._unsubscribed = lru_cache(maxsize=256)(self._new_topic)

    # --- names ------------------------------------------------------------------------------------------------------

    def target(self, name: str) -> Target:
        """What a SEND to a name (as of `global_name`) goes to.

        Raises:
            Refusal: There is no such kind of destination, a temporary one's session has ended, or there are too many.
        """
        found = self._queues.get(name) or self._topics.get(name)
        if found is not None:
            return found
        self.check_name(name)
        # Without a subscription a topic keeps nothing, not even its name.
        return self._unsubscribed(name) if is_topic(name) else self.queue(name)

    def queue(self, name: str) -> Queue:
        """The queue of that name, which comes into being.

        Raises:
            Refusal: There are too many names.
        """
        queue = self._queues.get(name)
        if queue is None:
            self._names.charge(_QUEUE_BYTES + text_bytes(name))
            queue = self._queues[name] = self._new_queue(name)
            self._belongs(name)
        return queue

    def _topic(self, name: str) -> Topic:
        """The topic of that name, for a subscription."""
        topic = self._topics.get(name)
        if topic is None:
            self._names.charge(_TOPIC_BYTES + text_bytes(name))
            topic = self._topics[name] = self._new_topic(name)
            self._belongs(name)
        return topic

    def _new_topic(self, name: str) -> Topic:
        return Topic(name, dirty=self.dirty, by_pattern=self._by_pattern)

    def _new_queue(self, name: str) -> Queue:
        options = self._options
        return Queue(name, dirty=self.dirty, limit=options.max_queue_length, limit_bytes=options.max_queue_bytes)

    def _belongs(self, name: str) -> None:
        owner = _owner(name)
        if owner is not None and owner in self._sessions:
            self._sessions[owner].add(name)

    def forget_if_idle(self, target: Target) -> None:
        """Forget a queue or topic that nothing holds: it comes into being again when it is named."""
        name, is_queue = target.name, isinstance(target, Queue)
        known = self._queues.get(name) if is_queue else self._topics.get(name)
        if known is not target or not target.idle:
            return
        if is_queue:
            del self._queues[name]
        else:
            del self._topics[name]
        self._names.used -= (_QUEUE_BYTES if is_queue else _TOPIC_BYTES) + text_bytes(name)
        owner = _owner(name)
        if owner in self._sessions:
            self._sessions[owner].discard(name)

    def all_queues(self, name: str) -> list[Queue]:
        """The queue of that name, or the backlogs of the subscriptions to that very topic; none where it is unknown."""
        if is_topic(name):
            exact = self._topics[name].backlogs if name in self._topics else []
            return [*exact, *(backlog for backlog in self._by_pattern if backlog.name == name)]
        return [self._queues[name]] if name in self._queues else []

    def check_length(self, kind: str, name: str) -> None:
        """Make sure that a name is not too long.

        Raises:
            Refusal: It is.
        """
        limit = self._options.max_name_length
        if len(name) > limit or (not name.isascii() and len(name.encode()) > limit):
            raise Refusal("name too long", f"{kind} has more than {limit} bytes (max_name_length): {name[:80]!r}...")

    def check_name(self, name: str) -> str | None:
        """Make sure that a name (as of `global_name`) can be that of a destination.

        Returns:
            The session that it belongs to, where it is a temporary one's.

        Raises:
            Refusal: It cannot, or a temporary one's session has ended.
        """
        owner = self._check_spelling(name)
        if owner is not None and owner not in self._sessions:
            raise Refusal("no such destination", f"the connection that {name[:200]!r} belongs to has ended")
        return owner

    def _owner_if_legal(self, name: str) -> str | None:
        self.check_length("the destination", name)
        # STOMP 1.2, SEND: a destination is opaque, but no version can send all of these back in a MESSAGE.
        if any(octet in name for octet in "\r\n\0"):
            raise Refusal("destination refused", "a destination cannot hold line ends or NUL")
        known = next((prefix for prefix in (*_QUEUES, *_TOPICS) if name.startswith(prefix) and name != prefix), None)
        if known is None and not self._options.bare_queues:
            expected = ", ".join((*_QUEUES[:1], *_TOPICS[:1], *_TEMPORARY))
            raise Refusal(
                "no such destination",
                f"a destination starts with one of {expected} (bare_queues would make others queues); "
                f"got {name[:200]!r}",
            )
        return _owner(name)

    # --- sessions -----------------------------------------------------------------------------------------------------

    def begin_session(self, session_id: str, client_id: str | None) -> None:
        """Let a session in.

        Raises:
            Refusal: Its client-id is in use, or too long.
        """
        if client_id is not None:
            self.check_length("client-id", client_id)
            if client_id in self.client_ids:
                raise Refusal("client-id in use", f"a client with client-id {client_id[:80]!r} is connected already")
            self.client_ids.add(client_id)
        self._sessions[session_id] = set()

    def end_session(self, session_id: str, client_id: str | None) -> None:
        """Forget a session and its temporary destinations."""
        if client_id is not None:
            self.client_ids.discard(client_id)
        for name in self._sessions.pop(session_id, ()):
            queue = self._queues.get(name)
            if queue is not None:
                queue.close()
                self.forget_if_idle(queue)
            topic = self._topics.get(name)
            if topic is not None:
                self.forget_if_idle(topic)

    # --- messages -----------------------------------------------------------------------------------------------------

    def new_message(self, headers: Headers, body: bytes, size: int, plan: Plan | None = None) -> StoredMessage:
        """Make a message of the headers and body of a SEND. Row 1x-SEND-5: user-defined headers are passed on.

        Args:
            headers: All headers of the SEND.
            body: Its body.
            size: How much memory they take.
            plan: When and in which order it is to be delivered, as of `plan`.
        """
        passed_on = [pair for pair in headers.pairs if pair[0] not in _NOT_PASSED_ON]
        if plan is not None and plan.delay:
            # As ActiveMQ: it is of no interest any more when the message is delivered.
            passed_on = [pair for pair in passed_on if pair[0] != self.imitation.delay]
        return StoredMessage(self._new_message_id(), passed_on, body, size, plan)

    def plan(self, headers: Headers) -> Plan:
        """When and in which order the headers of a SEND want it to be delivered.

        Raises:
            Refusal: One of them is not the number that it has to be.
        """
        return self.imitation.plan(headers, clock=self.dirty.clock, epoch=time.time)

    def publish(self, name: str, message: StoredMessage) -> None:
        """Put a message into a queue or topic, now or when it is due.

        Raises:
            Refusal: There is no such destination, or no room.
        """
        target = self._queues.get(name) or self.target(name)
        try:
            if message.plan is not None and message.plan.delay:
                # A topic that nobody subscribes to needs no room, but it is held until it is due.
                self.dirty.memory.stored.require(message.size)
                target.check_room(1, message.size)
                self._accept_later(target, message, message.plan.delay)
            else:
                target.publish(message)
        except Refusal:
            self.forget_if_idle(target)
            raise

    def accept(self, name: str, message: StoredMessage) -> None:
        """Do as `publish`, after `check_room` has found that there is room."""
        target = self._queues.get(name) or self.target(name)
        if message.plan is not None and message.plan.delay:
            self._accept_later(target, message, message.plan.delay)
        else:
            target.accept(message)

    def _accept_later(self, target: Target, message: StoredMessage, delay: float) -> None:
        stored, name = self.dirty.memory.stored, target.name
        stored.used += message.size

        def due() -> None:
            stored.used -= message.size
            # There was room when it came: that a queue has filled up since must not lose it. The session of a temporary
            # destination may have ended.
            with suppress(Refusal):
                self.target(name).accept(message)

        self._schedule.add(delay, due)
        self.forget_if_idle(target)

    def check_room(self, sizes: Mapping[str, Sequence[int]]) -> None:
        """Make sure that all messages of a transaction can be published, so that all of them are or none.

        Args:
            sizes: What the messages to each destination take.

        Raises:
            Refusal: A destination is gone, or has no room.
        """
        self.dirty.memory.stored.require(sum(map(sum, sizes.values())))
        targets: list[Target] = []
        try:
            for name, of_name in sizes.items():
                targets.append(self.target(name))
                targets[-1].check_room(len(of_name), sum(of_name))
        except Refusal:
            for target in targets:
                self.forget_if_idle(target)
            raise

    def reject(self, source: Queue, messages: Iterable[StoredMessage], policy: NackPolicy) -> None:
        """Requeue, bury or discard messages that were NACKed."""
        returning: list[StoredMessage] = []
        for message in messages:
            message.rejections += 1
            again = policy is NackPolicy.REQUEUE and message.rejections < self._options.max_deliveries
            if policy is NackPolicy.DISCARD or (not again and self._bury(source, message)):
                source.release(message)
            else:
                returning.append(message)
        source.give_back(returning)

    def _bury(self, source: Queue, message: StoredMessage) -> bool:
        """Send a message to the dead letters; False where it lies there already, or they have no room for it."""
        pattern = self._options.dead_letter
        if pattern is None:
            return True
        name = pattern.replace("{name}", source.name.strip("/").partition("/")[2] or source.name)
        if name == source.name:
            return False
        cause = [("dead-letter-source", source.name), ("dead-letter-deliveries", str(message.deliveries))]
        headers = [*cause, *message.headers]
        # Neither its expiry nor its delay go on there.
        dead = StoredMessage(self._new_message_id(), headers, message.body, message_bytes(headers, message.body))
        try:
            self.publish(name, dead)
        except Refusal:
            return False
        return True

    # --- subscriptions ------------------------------------------------------------------------------------------------

    def open_source(
        self, name: str, selector: Selector | None, durable: tuple[str, str] | None, *, session_id: str
    ) -> Queue:
        """The queue that a new subscription takes from: a shared one, or a backlog of its own for a topic.

        Args:
            name: The destination, as of `global_name`.
            selector: Which messages of a topic are wanted.
            durable: Client-id and name of a durable subscription to a topic.
            session_id: Who subscribes.

        Raises:
            Refusal: There is no such destination, it belongs to another session, there are too many, or the durable
                subscription is in use.
        """
        self._check_source(name, session_id)
        if not is_topic(name):
            return self.queue(name)
        if durable is not None and durable in self._durable:
            return self._resume(durable, name)
        if durable is not None:
            self.check_length("the durable subscription", durable[1])
        self._names.charge(self._backlog_bytes(name, durable))
        try:
            backlog = self._new_backlog(name, selector)
        except Refusal:
            self._names.used -= self._backlog_bytes(name, durable)
            raise
        if durable is not None:
            backlog.durable = durable
            self._durable[durable] = backlog
        return backlog

    @staticmethod
    def _backlog_bytes(name: str, durable: tuple[str, str] | None) -> int:
        return _QUEUE_BYTES + text_bytes(name) + (0 if durable is None else sum(map(text_bytes, durable)))

    def _new_backlog(self, name: str, selector: Selector | None) -> Queue:
        pattern = self.imitation.wildcards.pattern(name)
        topic = self._topic(name) if pattern is None else None
        backlog = self._new_queue(name)
        backlog.pattern = pattern
        backlog.topic = topic
        if topic is None:
            self._by_pattern[backlog] = selector
        else:
            topic.add(backlog, selector)
        return backlog

    def _check_source(self, name: str, session_id: str) -> None:
        owner = self.check_name(name)
        # Jakarta Messaging: only its own connection may consume from a temporary destination.
        if owner is not None and owner != session_id:
            raise Refusal(
                "access refused", f"{name[:200]!r} belongs to another connection, which alone may subscribe to it"
            )

    def snapshot(self, name: str, selector: Selector | None, *, session_id: str) -> Queue:
        """A queue of its own with copies of what waits, and then a message that says that this was all: for browsing.

        Raises:
            Refusal: There is no such destination, it belongs to another session, or there is no room for the copies.
        """
        self._check_source(name, session_id)
        waiting = [] if is_topic(name) or name not in self._queues else self._queues[name].waiting()
        if selector is not None:
            waiting = [message for message in waiting if selector.matches(message.headers)]
        copies = Queue(name, dirty=self.dirty, limit=sys.maxsize)
        # As ActiveMQ ends it.
        end = StoredMessage("0", [("browser", "end")], b"", plan=Plan(priority=-1))
        self.dirty.memory.stored.require(sum(message.size for message in waiting))
        for message in (*waiting, end):
            copy = message.copy(Share(name, 1))
            self.dirty.memory.stored.used += message.size
            copies.keep(copy)
        return copies

    def _resume(self, durable: tuple[str, str], name: str) -> Queue:
        backlog = self._durable[durable]
        if backlog.takers:
            raise Refusal("durable subscription in use", f"durable subscription {durable[1]!r} has a consumer already")
        if backlog.name != name:
            raise Refusal("durable subscription exists", f"{durable[1]!r} subscribes to {backlog.name} already")
        return backlog

    def close_source(self, source: Queue) -> None:
        """A subscription has ended: forget its backlog, unless it is durable, or its queue, if nothing holds it."""
        if source.topic is not None or source.pattern is not None:
            if source.durable is None:
                self._forget_backlog(source)
        elif self._queues.get(source.name) is source:
            self.forget_if_idle(source)
        else:
            source.close()

    def _forget_backlog(self, backlog: Queue) -> None:
        backlog.close()
        self._names.used -= self._backlog_bytes(backlog.name, backlog.durable)
        if backlog.topic is None:
            del self._by_pattern[backlog]
            return
        backlog.topic.remove(backlog)
        self.forget_if_idle(backlog.topic)

    def forget_durable(self, durable: tuple[str, str]) -> None:
        """End a durable subscription for good.

        Raises:
            Refusal: There is none, or it has a consumer.
        """
        backlog = self._durable.get(durable)
        if backlog is None:
            raise Refusal("no such subscription", f"there is no durable subscription {durable[1]!r}")
        if backlog.takers:
            raise Refusal("durable subscription in use", f"durable subscription {durable[1]!r} has a consumer")
        del self._durable[durable]
        self._forget_backlog(backlog)


def _owner(name: str) -> str | None:
    """The session that a temporary destination belongs to; None where it is not one."""
    if not name.startswith(_REMOTE):
        return None
    prefix = next((prefix for prefix in (*_QUEUES, *_TOPICS) if name.startswith(prefix)), None)
    return None if prefix is None else name.removeprefix(prefix).partition(".")[0]
