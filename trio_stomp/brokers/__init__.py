"""Broker profiles: what brokers add to STOMP and where they deviate from it. Pure headers, no I/O."""

from trio_stomp.brokers.activemq import ACTIVEMQ
from trio_stomp.brokers.arguments import (
    is_number,
    is_whole,
    require,
    require_bool,
    require_destination,
    require_seconds,
    require_str,
    require_whole,
)
from trio_stomp.brokers.artemis import ARTEMIS
from trio_stomp.brokers.detection import GENERIC, ProfileName, profile_for, profile_named, profile_of
from trio_stomp.brokers.dialect import Dialect, Pairs, ends_browsing
from trio_stomp.brokers.embedded import EMBEDDED
from trio_stomp.brokers.features import (
    QueueArguments,
    SendOptions,
    StreamOffset,
    SubscribeOptions,
    check_send_options,
    require_known,
    require_options,
    send_options,
    subscribe_options,
)
from trio_stomp.brokers.profile import REPLY_PREFIXES, NackMeaning, Profile
from trio_stomp.brokers.rabbitmq import (
    RABBITMQ,
    RABBITMQ_4_3,
    by_version,
    delivery_id,
    delivery_number,
    outlives_subscribers,
    reads_stream,
    stream_offset_of,
    swallowed_for,
)
from trio_stomp.brokers.spring import SPRING
from trio_stomp.brokers.wording import (
    is_authentication_refusal,
    is_final_refusal,
    is_link_trouble,
    is_vhost_refusal,
)

__all__ = [
    "ACTIVEMQ",
    "ARTEMIS",
    "EMBEDDED",
    "GENERIC",
    "RABBITMQ",
    "RABBITMQ_4_3",
    "REPLY_PREFIXES",
    "SPRING",
    "Dialect",
    "NackMeaning",
    "Pairs",
    "Profile",
    "ProfileName",
    "QueueArguments",
    "SendOptions",
    "StreamOffset",
    "SubscribeOptions",
    "by_version",
    "check_send_options",
    "delivery_id",
    "delivery_number",
    "ends_browsing",
    "is_authentication_refusal",
    "is_final_refusal",
    "is_link_trouble",
    "is_number",
    "is_vhost_refusal",
    "is_whole",
    "outlives_subscribers",
    "profile_for",
    "profile_named",
    "profile_of",
    "reads_stream",
    "require",
    "require_bool",
    "require_destination",
    "require_known",
    "require_options",
    "require_seconds",
    "require_str",
    "require_whole",
    "send_options",
    "stream_offset_of",
    "subscribe_options",
    "swallowed_for",
]
