"""The settings of the embedded broker."""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from typing import Final

from trio_stomp.protocol import ALL_VERSIONS, Limits, Version
from trio_stomp.testing.checks import require, require_number, require_type, require_whole
from trio_stomp.testing.origins import ANY_ORIGIN, NO_ORIGIN, Origin

__all__ = ["BrokerOptions", "NackPolicy"]

_MIB: Final = 1 << 20
# Settings that are ints of at least 1.
_COUNTS: Final = (
    "max_deliveries",
    "max_queue_length",
    "max_queue_bytes",
    "max_stored_bytes",
    "max_unfinished_bytes",
    "max_output_bytes",
    "max_names_bytes",
    "max_name_length",
    "max_connections",
    "outbox_bytes",
)


class NackPolicy(enum.Enum):
    """What to do with a message that is NACKed. STOMP leaves it to the server, and real brokers differ.

    Attributes:
        REQUEUE: Return it to its place in the queue, as RabbitMQ does; after `max_deliveries`, dead-letter it.
        DEAD_LETTER: Dead-letter it at once, as ActiveMQ Classic does.
        DISCARD: Drop it, as ActiveMQ Artemis does.
    """

    REQUEUE = "requeue"
    DEAD_LETTER = "dead-letter"
    DISCARD = "discard"


@cache
def _server_header() -> str:
    try:
        return "trio-stomp-testing/" + metadata.version("trio-stomp")
    except metadata.PackageNotFoundError:  # run from a source tree that is not installed
        return "trio-stomp-testing"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerOptions:
    """The settings of an embedded broker. With the defaults, every client may connect, and limits are generous.

    Attributes:
        logins: Passcode of each user. None: any user and passcode.
        read_only: Users who may not SEND.
        vhosts: The virtual hosts, each with its own destinations. None: any ``host`` is accepted, and all have the same
            destinations.
        versions: The supported STOMP versions.
        limits: Bounds on what a client may send.
        heart_beat: The heart-beat offer in seconds: how often the broker can send and wants to receive.
        heart_beat_grace: Number of missed intervals after which a client is disconnected.
        server: The ``server`` header of CONNECTED. Use the one of a real broker to imitate it; None leaves it out.
        prefetch: How many messages may be unacknowledged on a subscription without a prefetch header. None: no limit.
        nack: What to do with a NACKed message, unless the NACK has ``requeue:true`` or ``requeue:false``, as RabbitMQ's
            have. None: what the broker that `server` names does; others requeue.
        max_deliveries: Dead-letter a message that was NACKed this often (with `NackPolicy.REQUEUE`).
        dead_letter: Where to send dead letters; ``{name}`` is replaced by the destination that they come from, as in
            ``/queue/DLQ.{name}``. None drops them.
        max_queue_length: Maximum number of messages in a queue. A SEND to a full queue is refused, and a full topic
            subscription drops its oldest message. Also limits the frames of a transaction.
        max_queue_bytes: Maximum memory of the messages of one queue or topic subscription, including unacknowledged
            ones. Beyond it, as with `max_queue_length`.
        max_stored_bytes: Maximum memory of the messages of all queues, topic subscriptions and open transactions.
            Beyond it, SEND is refused.
        max_unfinished_bytes: Maximum memory of incomplete frames on all connections. Beyond it, the connection that
            holds most gets an ERROR. A single frame is bounded by `limits`.
        max_output_bytes: Maximum memory of what waits to be written to all clients. Beyond it, no client gets messages
            until clients have read, and clients that do not read for `stall_timeout` are disconnected.
        stall_timeout: Seconds after which to disconnect a client that does not read while `max_output_bytes` is
            reached.
        max_names_bytes: Maximum memory of destinations, subscriptions and transactions, without their messages. Beyond
            it, SUBSCRIBE, BEGIN and SEND to a new destination are refused.
        max_name_length: Maximum bytes of the name of a destination, or of the id of a client, subscription or
            transaction.
        max_connections: Maximum number of open connections, including those before CONNECT.
        websocket_origins: Web pages that may connect over WebSocket besides those of the broker's own host and port, by
            their origins, such as ``http://localhost:3000``; ``*`` is all of them, and ``null`` those without an
            origin, such as files. Programs that are no browsers send no origin, and may always connect.
        outbox_bytes: A session with this many unsent bytes gets no further messages, and its input waits.
        connect_timeout: Seconds from the connection to the CONNECT frame.
        linger: Seconds to wait for the client to close a session that the broker ends, so that it can read the last
            frame.
        require_host: Refuse a CONNECT of 1.1 or 1.2 without ``host``.
        draft: Speak the early draft of 1.0: accept any case, any padding and ``username`` for ``login``, and send only
            headers that the draft can carry, with a ``content-length`` in each frame.
        errors_leave_open: Keep the connection open after an ERROR about a readable frame, as RabbitMQ and ActiveMQ
            Classic do. In 1.2, this violates the specification.
        ack_is_message_id: In 1.2, the ``ack`` header of a MESSAGE equals its ``message-id``, as on RabbitMQ and
            Artemis. None: it differs, to detect clients that confuse them, unless `server` names Artemis, where clients
            may use either.
        bare_queues: A destination without a known prefix is a queue. None: only where `server` names RabbitMQ or
            ActiveMQ, and only a name without a slash, which is then another spelling: ``orders`` is ``/queue/orders``.
            Artemis takes it for an address, and others refuse it.

    Raises:
        TypeError: A setting has another type.
        ValueError: A setting is invalid.
    """

    logins: Mapping[str, str] | None = field(default=None, repr=False)
    read_only: Collection[str] = ()
    vhosts: Collection[str] | None = None
    versions: Collection[Version] = ALL_VERSIONS
    # RabbitMQ 4 accepts messages of up to 16 MiB.
    limits: Limits = field(default_factory=lambda: Limits(body_bytes=32 * _MIB))
    heart_beat: tuple[float, float] = (1.0, 1.0)
    # Row 1x-HB-12 requires a margin; ActiveMQ and Artemis wait for two or three intervals, RabbitMQ for three.
    heart_beat_grace: float = 2.0
    server: str | None = field(default_factory=_server_header)
    prefetch: int | None = None
    nack: NackPolicy | None = None
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
    websocket_origins: Collection[str] = ()
    outbox_bytes: int = 256 * 1024
    connect_timeout: float = 10.0
    linger: float = 1.0
    require_host: bool = False
    draft: bool = False
    errors_leave_open: bool = False
    ack_is_message_id: bool | None = None
    bare_queues: bool | None = None

    def __post_init__(self) -> None:
        self._check_names()
        self._check_numbers()
        require_type("limits", self.limits, Limits, "Limits")
        require_type("server", self.server, str | None, "a str or None")
        require_type("nack", self.nack, NackPolicy | None, "a NackPolicy such as NackPolicy.REQUEUE, or None")
        require_type("dead_letter", self.dead_letter, str | None, "a str or None")
        # Elsewhere, a dead letter that cannot be published is not noticed: the message is requeued again and again.
        starts_well = self.dead_letter is None or self.dead_letter.startswith(("/queue/", "/topic/"))
        require(
            starts_well or self.bare_queues is True,
            "dead_letter",
            "a destination such as '/queue/dead-letter'",
            self.dead_letter,
        )
        for name in ("require_host", "draft", "errors_leave_open"):
            require_type(name, getattr(self, name), bool, "True or False")
        for name in ("ack_is_message_id", "bare_queues"):
            require_type(name, getattr(self, name), bool | None, "True, False or None")

    def _check_names(self) -> None:
        if self.logins is not None and not _are_logins(self.logins):
            # The passcodes may be secret, so they are not shown.
            raise TypeError("logins must be a dict of passcodes by user, such as {'guest': 'guest'}, or None")
        for name in ("read_only", "vhosts", "versions", "websocket_origins"):
            value = getattr(self, name)
            is_optional = name == "vhosts"
            if isinstance(value, str) or not isinstance(value, Collection):
                if value is None and is_optional:
                    continue
                raise TypeError(f"{name} must be a list{' or None' if is_optional else ''}, got {value!r}")
        for version in self.versions:
            require_type("versions", version, Version, "a list of versions such as Version.V1_2")
        if not self.versions:
            raise ValueError("versions must name at least one version of STOMP")
        if self.vhosts is not None and not self.vhosts:
            raise ValueError("vhosts must name at least one virtual host, or be None")
        for each in self.websocket_origins:
            if each not in {ANY_ORIGIN, NO_ORIGIN} and Origin.parse(each) is None:
                raise ValueError(
                    f"websocket_origins must be a list of origins such as http://localhost:3000, got {each!r}"
                )

    def _check_numbers(self) -> None:
        for name in _COUNTS:
            require_whole(name, getattr(self, name), 1)
        require_whole("prefetch", self.prefetch, 1, or_none=True)
        require_number("stall_timeout", self.stall_timeout)
        require_number("connect_timeout", self.connect_timeout)
        require_number("linger", self.linger, zero=True)
        require_number("heart_beat_grace", self.heart_beat_grace, "number of intervals")
        require(self.heart_beat_grace >= 1, "heart_beat_grace", "at least 1 interval", self.heart_beat_grace)
        heart_beat: object = self.heart_beat
        match heart_beat:
            case (sends, wants):
                require_number("heart_beat", sends, zero=True, infinite=False)
                require_number("heart_beat", wants, zero=True, infinite=False)
            case _:
                raise TypeError(f"heart_beat must be two numbers of seconds, got {heart_beat!r}")


def _are_logins(value: object) -> bool:
    if not isinstance(value, Mapping):
        return False
    texts: list[object] = [*value, *value.values()]
    return all(isinstance(each, str) for each in texts)
