"""Dialects: the headers by which brokers offer what STOMP itself lacks. Data, and one function for each verb."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from trio_stomp.brokers.arguments import is_whole, require_bool, require_str
from trio_stomp.brokers.features import QueueArguments, SendOptions, StreamOffset, SubscribeOptions, milliseconds
from trio_stomp.errors import LocalProtocolError, NotSupportedError
from trio_stomp.protocol import Headers

__all__ = ["Dialect", "Pairs", "ends_browsing", "expires_after", "expires_at", "queue_argument_headers"]

Pairs = list[tuple[str, str]]

T = TypeVar("T")


def ends_browsing(message: Headers) -> bool:
    """Recognize the end-of-browse marker."""
    return message.get("browser") == "end"


def expires_at(ttl: int, now: int) -> Pairs:
    """Return the header of SEND with the time at which a message expires."""
    return [("expires", str(now + ttl))]


def expires_after(ttl: int, _now: int) -> Pairs:
    """Return the header of SEND with the time after which a message expires."""
    return [("expiration", str(ttl))]


def queue_argument_headers(arguments: QueueArguments) -> Pairs:
    """Return queue arguments as headers of SEND and SUBSCRIBE; RabbitMQ reads no others from there."""

    def duration(option: str, seconds: float | None) -> int | None:
        return None if seconds is None else milliseconds(option, seconds)

    given: dict[str, str | int | None] = {
        "x-queue-type": arguments.type,
        "x-message-ttl": duration("message_ttl", arguments.message_ttl),
        "x-expires": duration("expires", arguments.expires),
        "x-max-length": arguments.max_length,
        "x-max-length-bytes": arguments.max_length_bytes,
        "x-max-priority": arguments.max_priority,
        "x-dead-letter-exchange": arguments.dead_letter_exchange,
        "x-dead-letter-routing-key": arguments.dead_letter_routing_key,
    }
    return [(name, str(value)) for name, value in given.items() if value is not None]


class Dialect(NamedTuple):
    """The headers of one broker for features beyond STOMP. By default there are none.

    Attributes:
        broker: Name of the broker in messages.
        is_known: False for an unknown broker, which may support features that are not listed here.
        persistent: Supports ``persistent:true``.
        ttl: Time to live and current time since the epoch, both in milliseconds -> headers.
        highest_priority: Highest value of ``priority``; the lowest is 0.
        delay_header: Header for the delay of a message in milliseconds.
        group_header: Header for the group of a message.
        dedup_header: Header for the id by which the broker drops duplicates.
        selectors: Supports ``selector``.
        durable: Name of a durable subscription -> headers of SUBSCRIBE.
        browse: Header of SUBSCRIBE for browsing.
        no_local: Header of SUBSCRIBE that filters out messages sent on the same connection.
        queue_arguments: Queue arguments -> headers of SEND and SUBSCRIBE.
        stream_offset: Where to start reading -> headers of SUBSCRIBE.
    """

    broker: str = "unknown broker"
    is_known: bool = True
    persistent: bool = False
    ttl: Callable[[int, int], Pairs] | None = None
    highest_priority: int | None = None
    delay_header: str | None = None
    group_header: str | None = None
    dedup_header: str | None = None
    selectors: bool = False
    durable: Callable[[str], Pairs] | None = None
    browse: tuple[str, str] | None = None
    no_local: tuple[str, str] | None = None
    queue_arguments: Callable[[QueueArguments], Pairs] | None = None
    stream_offset: Callable[[StreamOffset], Pairs] | None = None

    def send_headers(self, options: SendOptions, now: float) -> Pairs:
        """Return the headers of SEND for these options.

        Args:
            options: The options.
            now: Seconds since the epoch.

        Raises:
            NotSupportedError: The broker does not support an option.
            LocalProtocolError: A value is invalid.
            TypeError: The queue arguments are not QueueArguments.
        """
        pairs: Pairs = []
        persistent: object = options.get("persistent")
        if persistent:
            if persistent is not True:
                require_bool("persistent", persistent)
            self._require(self.persistent, "persistent messages")
            pairs.append(("persistent", "true"))
        if (ttl := options.get("ttl")) is not None:
            pairs += self._having(self.ttl, "time to live (ttl)")(milliseconds("ttl", ttl), int(now * 1000))
        if (priority := options.get("priority")) is not None:
            pairs.append(("priority", self._priority(priority)))
        if (delay := options.get("delay")) is not None:
            header = self._having(self.delay_header, "delayed delivery (delay)")
            pairs.append((header, str(milliseconds("delay", delay))))
        if (group := options.get("group")) is not None:
            pairs.append((self._having(self.group_header, "message groups (group)"), _text("group", group)))
        if (dedup_id := options.get("dedup_id")) is not None:
            header = self._having(self.dedup_header, "duplicate detection (dedup_id)")
            pairs.append((header, _text("dedup_id", dedup_id)))
        if (arguments := options.get("queue_arguments")) is not None:
            pairs += self._queue_arguments(arguments)
        return pairs

    def subscribe_headers(self, options: SubscribeOptions) -> Pairs:
        """Return the headers of SUBSCRIBE for these options.

        Raises:
            NotSupportedError: The broker does not support an option.
            LocalProtocolError: A value is invalid.
            TypeError: The queue arguments are not QueueArguments.
        """
        pairs: Pairs = []
        if (name := options.get("durable")) is not None:
            pairs += self._having(self.durable, "durable subscriptions")(_text("durable", name))
        if (selector := options.get("selector")) is not None:
            self._require(self.selectors, "selectors")
            pairs.append(("selector", _text("selector", selector)))
        if options.get("browse"):
            pairs.append(self._having(self.browse, "browsing"))
        if options.get("no_local"):
            pairs.append(self._having(self.no_local, "no_local"))
        if (arguments := options.get("queue_arguments")) is not None:
            pairs += self._queue_arguments(arguments)
        if (offset := options.get("stream_offset")) is not None:
            pairs += self._having(self.stream_offset, "streams (stream_offset)")(offset)
        return pairs

    def _queue_arguments(self, arguments: object) -> Pairs:
        # Other clients take a dict of RabbitMQ's own names here.
        if not isinstance(arguments, QueueArguments):
            raise TypeError(
                "queue_arguments must be QueueArguments, such as trio_stomp.QueueArguments(type='quorum'), "
                f"got {type(arguments).__name__}"
            )
        return self._having(self.queue_arguments, "queue arguments")(arguments)

    def _priority(self, priority: object) -> str:
        highest = self._having(self.highest_priority, "priorities")
        if not is_whole(priority, 0) or priority > highest:
            raise LocalProtocolError(
                f"priority must be an integer from 0 to {highest} at {self.broker}, got {priority!r}"
            )
        return str(priority)

    def _having(self, spelling: T | None, feature: str) -> T:
        self._require(spelling is not None, feature)
        if spelling is None:
            raise AssertionError  # refused above
        return spelling

    def _require(self, has_it: bool, feature: str) -> None:  # noqa: FBT001  # what the method is about
        if has_it:
            return
        if self.is_known:
            raise NotSupportedError(f"{self.broker} does not support {feature}")
        raise NotSupportedError(
            f"cannot tell how the {self.broker} supports {feature}: pass its own headers in headers=, or name "
            "the broker with connect(profile=...)"
        )


def _text(option: str, value: str) -> str:
    if value.__class__ is not str:
        require_str(option, value)
    if not value:
        raise LocalProtocolError(f"{option} must not be empty")
    return value
