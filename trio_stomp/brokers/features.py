"""Options for features beyond STOMP: one typed vocabulary for all brokers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, TypedDict

from trio_stomp.brokers.arguments import require_bool
from trio_stomp.errors import LocalProtocolError
from trio_stomp.printable import shown

__all__ = [
    "QueueArguments",
    "SendOptions",
    "StreamOffset",
    "SubscribeOptions",
    "check_send_options",
    "milliseconds",
    "require_known",
    "require_options",
    "send_options",
    "subscribe_options",
]

StreamOffset = Literal["first", "last", "next"] | int | datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueArguments:
    """Arguments for declaring a queue, which RabbitMQ does at the first SEND or SUBSCRIBE of a connection.

    An existing queue must have been declared with the same arguments; otherwise RabbitMQ closes the connection.

    Attributes:
        type: ``classic`` (the default), ``quorum`` or ``stream``.
        message_ttl: Seconds after which its messages expire.
        expires: Seconds without use after which the queue itself is deleted.
        max_length: Maximum number of messages; the oldest are dropped first.
        max_length_bytes: Maximum total size of their bodies in bytes.
        max_priority: Highest priority that it distinguishes, up to 255. Without it, priorities have no effect.
        dead_letter_exchange: Exchange for its dead letters.
        dead_letter_routing_key: Routing key of its dead letters. Default: that of the message.
    """

    type: Literal["classic", "quorum", "stream"] | None = None
    message_ttl: float | None = None
    expires: float | None = None
    max_length: int | None = None
    max_length_bytes: int | None = None
    max_priority: int | None = None
    dead_letter_exchange: str | None = None
    dead_letter_routing_key: str | None = None


class SendOptions(TypedDict, total=False):
    """Options of SEND that brokers add to STOMP: keyword arguments of `Client.send` and similar methods.

    An option that the broker does not support raises `NotSupportedError` before anything is sent. None means the
    default.

    Attributes:
        persistent: Keep the message across a restart of the broker. Default: False, on all three brokers.
        ttl: Seconds after which the message expires.
        priority: Messages with a higher priority are delivered first: 0 to 9, or on RabbitMQ up to the
            ``max_priority`` of the queue.
        delay: Seconds for which the broker holds the message before delivering it.
        group: Messages of one group go to one consumer, in order.
        dedup_id: A second message with the same id is confirmed and dropped.
        queue_arguments: Arguments for declaring the queue.
    """

    persistent: bool
    ttl: float | None
    priority: int | None
    delay: float | None
    group: str | None
    dedup_id: str | None
    queue_arguments: QueueArguments | None


class SubscribeOptions(TypedDict, total=False):
    """Options of SUBSCRIBE that brokers add to STOMP: keyword arguments of `Client.subscribe`.

    An option that the broker does not support raises `NotSupportedError` before anything is sent. None means the
    default.

    Attributes:
        selector: Deliver only messages that match this condition, such as ``"color = 'red' AND size > 3"``.
        durable: Name of a durable subscription, for which the broker keeps the messages of a topic while no client is
            connected. It lasts until `Subscription.delete`. ActiveMQ and Artemis also require a ``client-id`` in the
            headers of `connect`.
        browse: Read the messages of a queue without consuming them. Nothing is acknowledged, whatever `ack` says, and
            iteration ends after the last message.
        no_local: Skip messages sent over the same connection.
        queue_arguments: Arguments for declaring the queue.
        stream_offset: Where to start reading a stream: ``first``, ``last`` (its last chunk), ``next`` (new messages
            only), the offset of a message, or a time.
    """

    selector: str | None
    durable: str | None
    browse: bool
    no_local: bool
    queue_arguments: QueueArguments | None
    stream_offset: StreamOffset | None


def send_options(
    persistent: bool,  # noqa: FBT001  # in the order of the signatures
    ttl: float | None,
    priority: int | None,
    delay: float | None,
    group: str | None,
    dedup_id: str | None,
    queue_arguments: QueueArguments | None,
) -> SendOptions | None:
    """Return the options that differ from their defaults; None if there are none."""
    if (
        not persistent
        and ttl is None
        and priority is None
        and delay is None
        and group is None
        and dedup_id is None
        and queue_arguments is None
    ):
        return None
    options = SendOptions()
    if persistent:
        options["persistent"] = persistent
    if ttl is not None:
        options["ttl"] = ttl
    if priority is not None:
        options["priority"] = priority
    if delay is not None:
        options["delay"] = delay
    if group is not None:
        options["group"] = group
    if dedup_id is not None:
        options["dedup_id"] = dedup_id
    if queue_arguments is not None:
        options["queue_arguments"] = queue_arguments
    return options


def subscribe_options(
    selector: str | None,
    durable: str | None,
    browse: bool,  # noqa: FBT001  # in the order of the signature
    no_local: bool,  # noqa: FBT001  # in the order of the signature
    stream_offset: StreamOffset | None,
    queue_arguments: QueueArguments | None,
) -> SubscribeOptions:
    """Return the options that differ from their defaults.

    Raises:
        LocalProtocolError: `browse` or `no_local` is neither True nor False.
    """
    options = SubscribeOptions()
    if selector is not None:
        options["selector"] = selector
    if durable is not None:
        options["durable"] = durable
    if browse:
        require_bool("browse", browse)
        options["browse"] = browse
    if no_local:
        require_bool("no_local", no_local)
        options["no_local"] = no_local
    if stream_offset is not None:
        options["stream_offset"] = stream_offset
    if queue_arguments is not None:
        options["queue_arguments"] = queue_arguments
    return options


_KNOWN: Final = {
    "send": SendOptions.__optional_keys__,
    "subscribe": SubscribeOptions.__optional_keys__,
}


def require_options(verb: Literal["send", "subscribe"], options: Mapping[str, object]) -> None:
    """Reject unknown keyword arguments, as Python does; a misspelled ``persistent`` must not get lost.

    Raises:
        TypeError: There is no such option.
    """
    require_known(f"{verb}()", options, _KNOWN[verb])


def check_send_options(ttl: float | None, delay: float | None) -> None:
    """Check what can be checked before the broker is known, so that a mistake is seen in the line that makes it.

    Raises:
        LocalProtocolError: A value is invalid for every broker.
    """
    for name, seconds in (("ttl", ttl), ("delay", delay)):
        if seconds is not None:
            milliseconds(name, seconds)


def require_known(call: str, options: Mapping[str, object], known: AbstractSet[str]) -> None:
    """Reject unknown keyword arguments of a call, which type checkers find but Python itself does not.

    Args:
        call: Name of the call in the message.
        options: The arguments.
        known: The names that exist.

    Raises:
        TypeError: There is no such option. The message suggests the nearest one and lists all.
    """
    for unknown in sorted(options.keys() - known):
        import difflib  # noqa: PLC0415  # for an error alone

        near = difflib.get_close_matches(unknown.lower(), known, n=1)
        guess = f"did you mean {near[0]!r}? Its" if near else "its"
        raise TypeError(f"{call} has no argument {unknown!r}; {guess} options are {', '.join(sorted(known))}")


def milliseconds(option: str, seconds: float) -> int:
    """Convert seconds to whole milliseconds, at least 1.

    Raises:
        LocalProtocolError: They are not a positive finite number.
    """
    try:
        is_valid = seconds > 0 and math.isfinite(seconds * 1000)
    except (TypeError, OverflowError):  # text, for example, or an int that no float holds
        is_valid = False
    if not is_valid:
        msg = f"{option} must be a number of seconds, more than 0, got {shown(seconds)}"
        raise LocalProtocolError(msg)
    return max(1, round(seconds * 1000))
