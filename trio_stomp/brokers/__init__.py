"""Profiles: what brokers add to STOMP, and where they depart from it. Pure headers."""

from trio_stomp.brokers.activemq import ACTIVEMQ
from trio_stomp.brokers.artemis import ARTEMIS
from trio_stomp.brokers.authentication import is_authentication_refusal, is_vhost_refusal
from trio_stomp.brokers.delivery_numbers import delivery_id, delivery_number, outlives_subscribers, swallowed_for
from trio_stomp.brokers.detection import GENERIC, ProfileName, profile_for, profile_named, profile_of
from trio_stomp.brokers.dialect import Dialect, Pairs, ends_browsing
from trio_stomp.brokers.embedded import EMBEDDED
from trio_stomp.brokers.features import (
    QueueArguments,
    SendOptions,
    StreamOffset,
    SubscribeOptions,
    require_known,
    require_options,
)
from trio_stomp.brokers.link_trouble import is_link_trouble
from trio_stomp.brokers.profile import NackMeaning, Profile
from trio_stomp.brokers.rabbitmq import RABBITMQ
from trio_stomp.brokers.spring import SPRING
from trio_stomp.brokers.streams import reads_stream, stream_offset_of

__all__ = [
    "ACTIVEMQ",
    "ARTEMIS",
    "EMBEDDED",
    "GENERIC",
    "RABBITMQ",
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
    "delivery_id",
    "delivery_number",
    "ends_browsing",
    "is_authentication_refusal",
    "is_link_trouble",
    "is_vhost_refusal",
    "outlives_subscribers",
    "profile_for",
    "profile_named",
    "profile_of",
    "reads_stream",
    "require_known",
    "require_options",
    "stream_offset_of",
    "swallowed_for",
]
