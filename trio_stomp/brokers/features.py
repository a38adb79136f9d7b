"""What brokers can do beyond STOMP, as users ask for it: one vocabulary for all of them, in types."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, TypedDict

from trio_stomp.errors import LocalProtocolError

__all__ = [
    "QueueArguments",
    "SendOptions",
    "StreamOffset",
    "SubscribeOptions",
    "milliseconds",
    "require_known",
    "require_options",
]

StreamOffset = Literal["first", "last", "next"] | int | datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueArguments:
    """What a queue is to be when it is declared, which RabbitMQ does at the first SEND or SUBSCRIBE of a connection.

    A queue that is there already must have been declared with the same arguments, else RabbitMQ ends the connection.

    Attributes:
        type: ``classic``, which is the default, ``quorum`` or ``stream``.
        message_ttl: Seconds after which its messages expire.
        expires: Seconds without use after which the queue itself is deleted.
        max_length: How many messages it holds; the oldest go first.
        max_length_octets: How much their bodies may come to.
        max_priority: The highest priority that it tells apart, up to 255; without it priorities have no effect.
        dead_letter_exchange: Where its dead letters are published.
        dead_letter_routing_key: With which routing key; by default the one of the message.
    """

    type: Literal["classic", "quorum", "stream"] | None = None
    message_ttl: float | None = None
    expires: float | None = None
    max_length: int | None = None
    max_length_octets: int | None = None
    max_priority: int | None = None
    dead_letter_exchange: str | None = None
    dead_letter_routing_key: str | None = None


class SendOptions(TypedDict, total=False):
    """What brokers add to SEND: more keyword arguments of `Client.send` and its like.

    What the broker at hand cannot do raises `NotSupported` before anything is sent. None is as good as leaving out.

    Attributes:
        persistent: Keep the message through a restart of the broker. Default: no, with all three brokers.
        ttl: Seconds after which the message is not to be delivered any more.
        priority: Higher ones are delivered first: 0 to 9, and on RabbitMQ up to the ``max_priority`` of the queue.
        delay: Seconds for which the broker keeps the message before anybody gets it.
        group: Messages of one group go to one consumer, in order.
        dedup_id: A second message with the same id is confirmed and dropped.
        queue_arguments: What the queue is to be.
    """

    persistent: bool
    ttl: float | None
    priority: int | None
    delay: float | None
    group: str | None
    dedup_id: str | None
    queue_arguments: QueueArguments | None


class SubscribeOptions(TypedDict, total=False):
    """What brokers add to SUBSCRIBE: more keyword arguments of `Client.subscribe`.

    What the broker at hand cannot do raises `NotSupported` before anything is sent. None is as good as leaving out.

    Attributes:
        selector: Deliver only messages that satisfy this condition, such as ``"color = 'red' AND size > 3"``.
        durable: Name of a subscription to a topic that goes on collecting while nobody is there. It lasts until
            `Subscription.delete`. ActiveMQ and Artemis also want a ``client-id`` among the headers of `connect`.
        browse: Look at what is in a queue, without taking it: nothing is to be acknowledged, whatever `ack` says, and
            iteration ends with the last message.
        no_local: Leave out what was sent over this very connection.
        queue_arguments: What the queue is to be.
        stream_offset: Read a stream from there on: ``first``, ``last`` (its last chunk), ``next`` (what comes from now
            on), the number of a message, or a time.
    """

    selector: str | None
    durable: str | None
    browse: bool
    no_local: bool
    queue_arguments: QueueArguments | None
    stream_offset: StreamOffset | None


_KNOWN: Final = {
    "send": SendOptions.__optional_keys__,
    "subscribe": SubscribeOptions.__optional_keys__,
}


def require_options(verb: Literal["send", "subscribe"], options: Mapping[str, object]) -> None:
    """Refuse keyword arguments that do not exist, as Python does; a misspelled ``persistent`` must not be dropped.

    Raises:
        TypeError: There is no such option.
    """
    require_known(f"{verb}()", options, _KNOWN[verb])


def require_known(call: str, options: Mapping[str, object], known: AbstractSet[str]) -> None:
    """Refuse keyword arguments that a call does not have; type checkers see them, Python itself does not.

    Args:
        call: What to name in the message.
        options: What was given.
        known: What there is.

    Raises:
        TypeError: There is no such option; the message names the nearest one, and all.
    """
    for unknown in sorted(options.keys() - known):
        near = difflib.get_close_matches(unknown.lower(), known, n=1)
        guess = f"did you mean {near[0]!r}? Its" if near else "its"
        raise TypeError(f"{call} has no argument {unknown!r}; {guess} options are {', '.join(sorted(known))}")


def milliseconds(option: str, seconds: float) -> int:
    """Seconds, as brokers count them: at least one millisecond.

    Raises:
        LocalProtocolError: They are not more than 0, or without end.
    """
    if not (seconds > 0 and math.isfinite(seconds)):
        msg = f"{option} must be more than 0 seconds, got {seconds!r}"
        raise LocalProtocolError(msg)
    return max(1, round(seconds * 1000))
