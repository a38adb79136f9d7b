"""The destinations of one virtual host: their names, queues, topics, subscriptions and dead letters.

``/queue/...`` and ``/topic/...`` are created on first use. A queue is forgotten once it is empty and its last
subscription ends, a topic once its last subscription ends, so that names do not pile up. ``/temp-queue/...`` and
``/temp-topic/...`` belong to one session, as on ActiveMQ: only it can subscribe to them, and they end with it. Others
send to them under the ``/remote-temp-...`` name that the broker puts into a ``reply-to`` header.
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
# Not part of the message: they concern one frame or one delivery.
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
# Measured with CPython 3.11: a queue or backlog, and a topic.
_QUEUE_BYTES: Final = 2048
_TOPIC_BYTES: Final = 512


def global_name(destination: str, session_id: str) -> str:
    """The name of a destination for all sessions: that of a temporary one contains its session."""
    for prefix in _TEMPORARY:
        if destination.startswith(prefix):
            return f"{_REMOTE}{prefix.removeprefix('/')}{session_id}.{destination.removeprefix(prefix)}"
    return destination


def is_topic(name: str) -> bool:
    """Whether a name (see `global_name`) is that of a topic."""
    return name.startswith(_TOPICS)


def with_global_reply_to(headers: Headers, session_id: str) -> Headers:
    """The headers of a SEND with a ``reply-to`` that other sessions can use."""
    pairs = headers.pairs
    return Headers((name, global_name(value, session_id) if name == "reply-to" else value) for name, value in pairs)


class Namespace:
    """The destinations of one virtual host.

    Args:
        options: The broker's settings.
        new_message_id: Makes message ids that are unique in the broker.
        memory: The accounts that messages and names are charged to.
        schedule: Holds delayed messages.
        more_to_do: See `Dirty`.

    Attributes:
        dirty: The queues that may have something to deliver.
        client_ids: The ``client-id`` values in use.
        imitation: How to do what STOMP leaves open.
    """

    def __init__(
        self,
        options: BrokerOptions,
        new_message_id: Callable[[], str],
        *,
        memory: Memory,
        schedule: Schedule,
        more_to_do: Callable[[], None],
    ) -> None:
        self._options = options
        self._new_message_id = new_message_id
        self._targets: dict[str, Target] = {}
        self._by_pattern: dict[Queue, Selector | None] = {}
        self._durable: dict[tuple[str, str], Queue] = {}
        # For each session the names of its temporary destinations.
        self._sessions: dict[str, set[str]] = {}
        self._schedule = schedule
        self.dirty = Dirty(memory=memory, more_to_do=more_to_do)
        self._names = self.dirty.memory.names
        self.client_ids: set[str] = set()
        self.imitation = imitation_of(options.server)
        # What a destination without a prefix is: a short name of a queue, an address, or else a queue of that very
        # name. Otherwise it is refused.
        self._has_short_names = self.imitation.bare_queues and options.bare_queues is not False
        self._has_addresses = self.imitation.addresses and not options.bare_queues
        self._has_bare_queues = options.bare_queues is True
        # The names used last. The length of each is limited, so they take no more than about 1 MiB.
        self._check_spelling = lru_cache(maxsize=256)(self._owner_if_legal)
        self._unsubscribed = lru_cache(maxsize=256)(self._new_topic)

    # --- names ------------------------------------------------------------------------------------------------------

    @property
    def names(self) -> list[str]:
        """The names of all destinations, in alphabetical order."""
        return sorted({*self._targets, *(backlog.name for backlog in self._by_pattern)})

    def full_name(self, destination: str, routing: str | None = None) -> str:
        """The name of a destination with its prefix, if the imitated broker takes one without.

        Args:
            destination: The destination, as a client writes it.
            routing: What the frame says of it, ``ANYCAST`` or ``MULTICAST``: where it is an address.
        """
        if self._has_addresses and destination[:1] not in {"", "/"}:
            return f"{'/queue/' if routing == 'ANYCAST' else '/topic/'}{destination}"
        return self.shown_name(destination)

    def shown_name(self, destination: str) -> str:
        """A destination as a MESSAGE names it: an address as the subscription does, a short name in full."""
        is_short = self._has_short_names and destination and "/" not in destination
        return f"/queue/{destination}" if is_short else destination

    def target(self, name: str) -> Target:
        """The queue or topic that a SEND to a name (see `global_name`) goes to.

        Raises:
            Refusal: There is no such kind of destination, its session has ended, or there are too many names.
        """
        found = self._targets.get(name)
        if found is not None:
            return found
        self.check_name(name)
        # Without subscriptions a topic keeps nothing, not even its name.
        return self._unsubscribed(name) if is_topic(name) else self.queue(name)

    def queue(self, name: str) -> Queue:
        """The queue of that name, created on first use.

        Raises:
            Refusal: There are too many names.
        """
        found = self._targets.get(name)
        if isinstance(found, Queue):
            return found
        queue = self._new_queue(name)
        self._remember(queue)
        return queue

    def _topic(self, name: str) -> Topic:
        found = self._targets.get(name)
        if isinstance(found, Topic):
            return found
        topic = self._new_topic(name)
        self._remember(topic)
        return topic

    def _new_queue(self, name: str) -> Queue:
        options = self._options
        return Queue(name, dirty=self.dirty, limit=options.max_queue_length, limit_bytes=options.max_queue_bytes)

    def _new_topic(self, name: str) -> Topic:
        return Topic(name, dirty=self.dirty, by_pattern=self._by_pattern)

    def _remember(self, target: Target) -> None:
        self._names.charge(_target_bytes(target))
        self._targets[target.name] = target
        owner = _owner(target.name)
        if owner in self._sessions:
            self._sessions[owner].add(target.name)

    def forget_if_idle(self, target: Target) -> None:
        """Forget a queue or topic that has neither messages nor subscriptions."""
        name = target.name
        if self._targets.get(name) is not target or not target.idle:
            return
        del self._targets[name]
        self._names.used -= _target_bytes(target)
        owner = _owner(name)
        if owner in self._sessions:
            self._sessions[owner].discard(name)

    def all_queues(self, name: str) -> list[Queue]:
        """The queue of that name, or the backlogs of subscriptions to that very topic."""
        target = self._targets.get(name)
        if isinstance(target, Queue):
            return [target]
        exact = [] if target is None else target.backlogs
        return [*exact, *(backlog for backlog in self._by_pattern if backlog.name == name)]

    def check_length(self, kind: str, name: str) -> None:
        """Make sure that a name is not too long.

        Raises:
            Refusal: It is too long.
        """
        limit = self._options.max_name_length
        if len(name) > limit or (not name.isascii() and len(name.encode()) > limit):
            raise Refusal("name too long", f"{kind} has more than {limit} bytes (max_name_length): {name[:80]!r}...")

    def check_name(self, name: str) -> str | None:
        """Make sure that a name (see `global_name`) is a legal destination.

        Returns:
            The session of a temporary destination; None for others.

        Raises:
            Refusal: It is not legal, or its session has ended.
        """
        owner = self._check_spelling(name)
        if owner is not None and owner not in self._sessions:
            raise Refusal("no such destination", f"the connection of {name[:200]!r} has ended")
        return owner

    def _owner_if_legal(self, name: str) -> str | None:
        self.check_length("the destination", name)
        # STOMP 1.2, SEND: a destination is opaque, but no version can send all of these back in a MESSAGE.
        if any(each in name for each in "\r\n\0"):
            raise Refusal("destination refused", "a destination must not contain line ends or NUL")
        if name.startswith(_TEMPORARY):
            raise Refusal(
                "no such destination",
                f"{name[:200]!r} names another destination on each connection; use the name in a reply-to header that "
                "the broker has passed on",
            )
        known = next((prefix for prefix in (*_QUEUES, *_TOPICS) if name.startswith(prefix) and name != prefix), None)
        if known is None and not self._has_bare_queues:
            expected = ", ".join((*_QUEUES[:1], *_TOPICS[:1], *_TEMPORARY))
            raise Refusal(
                "no such destination",
                f"a destination starts with one of {expected}, got {name[:200]!r}; "
                "BrokerOptions(bare_queues=True) takes it for a queue",
            )
        return _owner(name)

    # --- sessions -----------------------------------------------------------------------------------------------------

    def begin_session(self, session_id: str, client_id: str | None) -> None:
        """Register a session.

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
            target = self._targets[name]
            if isinstance(target, Queue):
                target.close()
            self.forget_if_idle(target)

    # --- messages -----------------------------------------------------------------------------------------------------

    def new_message(self, headers: Headers, body: bytes, size: int, plan: Plan | None = None) -> StoredMessage:
        """Make a message from a SEND. Row 1x-SEND-5: user-defined headers are passed on.

        Args:
            headers: All headers of the SEND.
            body: Its body.
            size: The memory of both.
            plan: What `plan` has read from the headers.
        """
        passed_on = [pair for pair in headers.pairs if pair[0] not in _NOT_PASSED_ON]
        if plan is not None and plan.delay:
            # As on ActiveMQ: it means nothing to the receiver.
            passed_on = [pair for pair in passed_on if pair[0] != self.imitation.delay]
        return StoredMessage(self._new_message_id(), passed_on, body, size, plan)

    def plan(self, headers: Headers) -> Plan:
        """Read from the headers of a SEND when and in which order to deliver it.

        Raises:
            Refusal: A header is not a number.
        """
        return self.imitation.plan(headers, clock=self.dirty.clock, epoch=time.time)

    def publish(self, name: str, message: StoredMessage) -> None:
        """Put a message into a queue or topic, at once or after its delay.

        Raises:
            Refusal: There is no such destination, or no room.
        """
        target = self._targets.get(name) or self.target(name)
        try:
            if message.plan is not None and message.plan.delay:
                # Also for a topic without subscriptions, which would take no room at once.
                self.dirty.memory.stored.require(message.size)
                target.check_room(1, message.size)
                self._accept_later(target, message, message.plan.delay)
            else:
                target.publish(message)
        except Refusal:
            self.forget_if_idle(target)
            raise

    def accept(self, name: str, message: StoredMessage) -> None:
        """Do as `publish`, after `check_room` has found room."""
        target = self._targets.get(name) or self.target(name)
        if message.plan is not None and message.plan.delay:
            self._accept_later(target, message, message.plan.delay)
        else:
            target.accept(message)

    def _accept_later(self, target: Target, message: StoredMessage, delay: float) -> None:
        stored, name = self.dirty.memory.stored, target.name
        stored.used += message.size

        def due() -> None:
            stored.used -= message.size
            # Not `publish`: there was room when it came. The session of a temporary destination may have ended.
            with suppress(Refusal):
                self.target(name).accept(message)

        self._schedule.add(delay, due)
        self.forget_if_idle(target)

    def check_room(self, sizes: Mapping[str, Sequence[int]]) -> None:
        """Make sure that all messages of a transaction can be published.

        Args:
            sizes: The memory of each message, by destination.

        Raises:
            Refusal: A destination no longer exists, or has no room.
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
        """Requeue, dead-letter or discard messages that were NACKed."""
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
        """Publish a message as a dead letter; False where it is one already, or there is no room."""
        pattern = self._options.dead_letter
        if pattern is None:
            return True
        name = pattern.replace("{name}", source.name.strip("/").partition("/")[2] or source.name)
        if name == source.name:
            return False
        cause = [("dead-letter-source", source.name), ("dead-letter-deliveries", str(message.deliveries))]
        headers = [*cause, *message.headers]
        # Without a plan: a dead letter neither expires nor waits.
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
        """Open what a new subscription takes from: a shared queue, or a backlog of its own for a topic.

        Args:
            name: The destination (see `global_name`).
            selector: Which messages of a topic are wanted.
            durable: Client-id and name of a durable subscription to a topic.
            session_id: The session that subscribes.

        Raises:
            Refusal: There is no such destination, it belongs to another session, there are too many names, or the
                durable subscription is in use.
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
            raise Refusal("access refused", f"{name[:200]!r} belongs to another connection; only that may subscribe")

    def snapshot(self, name: str, selector: Selector | None, *, session_id: str) -> Queue:
        """Make a queue of copies of what waits, with an end-of-browse marker behind them.

        Raises:
            Refusal: There is no such destination, it belongs to another session, or there is no room for the copies.
        """
        self._check_source(name, session_id)
        target = self._targets.get(name)
        waiting = target.waiting() if isinstance(target, Queue) else []
        if selector is not None:
            waiting = [message for message in waiting if selector.matches(message.headers)]
        copies = Queue(name, dirty=self.dirty, limit=sys.maxsize)
        # ActiveMQ's marker.
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
        """After the end of a subscription, forget its backlog unless it is durable, or its queue if that is idle."""
        if source.topic is not None or source.pattern is not None:
            if source.durable is None:
                self._forget_backlog(source)
        elif self._targets.get(source.name) is source:
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
        """Delete a durable subscription.

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


def _target_bytes(target: Target) -> int:
    return (_QUEUE_BYTES if isinstance(target, Queue) else _TOPIC_BYTES) + text_bytes(target.name)


def _owner(name: str) -> str | None:
    """The session of a temporary destination; None for others."""
    if not name.startswith(_REMOTE):
        return None
    prefix = next((prefix for prefix in (*_QUEUES, *_TOPICS) if name.startswith(prefix)), None)
    return None if prefix is None else name.removeprefix(prefix).partition(".")[0]
