"""What the embedded broker offers, allows and bounds."""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from typing import Final

from trio_stomp.protocol import ALL_VERSIONS, Limits, Version

__all__ = ["BrokerOptions", "NackPolicy"]

_MIB: Final = 1 << 20


class NackPolicy(enum.Enum):
    """What becomes of a message that is NACKed. Row 1x-NACK-4: it is the server's choice, and real ones differ.

    Attributes:
        REQUEUE: It returns to its place in the queue, as on RabbitMQ; after `max_deliveries` it is dead-lettered.
        DEAD_LETTER: It goes to the dead-letter destination at once, as on ActiveMQ Classic.
        DISCARD: It is gone, as on ActiveMQ Artemis.
    """

    REQUEUE = "requeue"
    DEAD_LETTER = "dead-letter"
    DISCARD = "discard"


def _server_header() -> str:
    try:
        return "trio-stomp-testing/" + metadata.version("trio-stomp")
    except metadata.PackageNotFoundError:  # run from a source tree that is not installed
        return "trio-stomp-testing"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerOptions:
    """The settings of an embedded broker; the defaults let everybody in and do what the specification says.

    Attributes:
        logins: Passcode of each user; None lets everybody in.
        read_only: Users who may not SEND.
        vhosts: The virtual hosts there are, each with destinations of its own; None takes any ``host``, and all see
            the same destinations.
        versions: The versions of STOMP that are spoken.
        limits: Bounds on what a client may send.
        heart_beat: What is offered, in seconds: how often this broker can send, how often it wants to receive.
        heart_beat_grace: A client is given up after this many of its intervals without a byte.
        server: The ``server`` header of CONNECTED, to pass for another broker; None leaves it out.
        prefetch: Messages that may be unacknowledged on a subscription which names no number; None is no bound.
        nack: What becomes of a NACKed message, unless the NACK itself says ``requeue:true`` or ``requeue:false``, as
            RabbitMQ's do.
        max_deliveries: A message is dead-lettered when it has been NACKed this often (with `NackPolicy.REQUEUE`).
        dead_letter: Where dead letters go, ``{name}`` standing for the destination they come from, as in
            ``/queue/DLQ.{name}``; None throws them away.
        max_queue_length: Messages in a queue; a SEND to a full one is refused, a full topic subscription loses its
            oldest. It bounds the frames of a transaction as well.
        max_queue_bytes: What the messages of one queue or topic subscription may take in memory, unacknowledged ones
            included. Past it as with `max_queue_length`.
        max_stored_bytes: What the messages of all queues, topic subscriptions and open transactions may take together.
            Past it a SEND is refused.
        max_unfinished_bytes: What the frames that have come in part may come to, on all connections together. Past it
            the connection that holds most gets an ERROR. One frame alone is bounded by `limits`.
        max_output_bytes: What may wait to be written, for all clients together. Past it nobody gets messages until
            clients have read; those that read nothing for `stall_timeout` lose their connection.
        stall_timeout: Seconds without progress after which a client that does not read is given up, while
            `max_output_bytes` is reached.
        max_names_bytes: What destinations, subscriptions and transactions may take in memory, apart from their
            messages. Past it a SUBSCRIBE, a BEGIN or a SEND to a new destination is refused.
        max_name_length: Bytes of the name of a destination, or of the id of a client, subscription or transaction.
        max_connections: Connections that may be open at once, those before CONNECT included.
        outbox_bytes: A session with this much unsent gets no further messages, and its input waits.
        connect_timeout: Seconds from the connection to the CONNECT frame.
        linger: Seconds that a session which the broker ends waits for its client to close, so that the client can
            read the last frame.
        require_host: Refuse a CONNECT of 1.1 or 1.2 without ``host``.
        draft: Read the early draft of 1.0: any case, any padding, ``username`` for ``login``.
        errors_leave_open: Go on after an ERROR about a frame that was readable, as RabbitMQ and ActiveMQ Classic do;
            for 1.2 against the specification.
        ack_is_message_id: The ``ack`` header of a MESSAGE of 1.2 equals its ``message-id``, as on RabbitMQ and Artemis;
            otherwise it differs, so that a client which mixes them up is found out.
        bare_queues: A destination without a known prefix names a queue, as on ActiveMQ; otherwise it is refused.

    Raises:
        ValueError: A setting makes no sense.
    """

    logins: Mapping[str, str] | None = None
    read_only: Collection[str] = ()
    vhosts: Collection[str] | None = None
    versions: Collection[Version] = ALL_VERSIONS
    # RabbitMQ 4 takes messages of up to 16 MiB.
    limits: Limits = field(default_factory=lambda: Limits(body_bytes=32 * _MIB))
    heart_beat: tuple[float, float] = (1.0, 1.0)
    # Row 1x-HB-12 asks for a margin; ActiveMQ and Artemis give up after two or three intervals, RabbitMQ after three.
    heart_beat_grace: float = 2.0
    server: str | None = field(default_factory=_server_header)
    prefetch: int | None = None
    nack: NackPolicy = NackPolicy.REQUEUE
    max_deliveries: int = 5
    dead_letter: str | None = "/queue/dead-letter"
    max_queue_length: int = 1_000_000
    # Together these keep the process under 1 GiB; `tests/testing/flood` measures it.
    max_queue_bytes: int = 256 * _MIB
    max_stored_bytes: int = 384 * _MIB
    max_unfinished_bytes: int = 64 * _MIB
    max_output_bytes: int = 64 * _MIB
    stall_timeout: float = 5.0
    max_names_bytes: int = 128 * _MIB
    max_name_length: int = 1024
    max_connections: int = 1000
    outbox_bytes: int = 256 * 1024
    connect_timeout: float = 10.0
    linger: float = 1.0
    require_host: bool = False
    draft: bool = False
    errors_leave_open: bool = False
    ack_is_message_id: bool = False
    bare_queues: bool = False

    def __post_init__(self) -> None:
        positive = {
            "max_deliveries": self.max_deliveries,
            "max_queue_length": self.max_queue_length,
            "max_queue_bytes": self.max_queue_bytes,
            "max_stored_bytes": self.max_stored_bytes,
            "max_unfinished_bytes": self.max_unfinished_bytes,
            "max_output_bytes": self.max_output_bytes,
            "stall_timeout": self.stall_timeout,
            "max_names_bytes": self.max_names_bytes,
            "max_name_length": self.max_name_length,
            "max_connections": self.max_connections,
            "outbox_bytes": self.outbox_bytes,
            "connect_timeout": self.connect_timeout,
            "prefetch": 1 if self.prefetch is None else self.prefetch,
        }
        for name, value in positive.items():
            if not value > 0:
                raise ValueError(f"{name} must be more than 0, got {value!r}")
        if not self.versions:
            raise ValueError("versions must name at least one version of STOMP")
        if self.heart_beat_grace < 1:
            raise ValueError(f"heart_beat_grace must be at least 1 interval, got {self.heart_beat_grace!r}")
        if min(self.heart_beat) < 0 or self.linger < 0:
            raise ValueError(
                f"heart_beat and linger must be seconds of at least 0, got {self.heart_beat!r}, {self.linger!r}"
            )
