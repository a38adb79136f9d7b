"""Profiles: what RabbitMQ, ActiveMQ Classic and Artemis add to STOMP, and where they depart from it. Pure headers."""

from trio_stomp.brokers.activemq import ACTIVEMQ
from trio_stomp.brokers.artemis import ARTEMIS
from trio_stomp.brokers.authentication import is_authentication_refusal
from trio_stomp.brokers.delivery_numbers import delivery_id, delivery_number, outlives_subscribers, swallowed_for
from trio_stomp.brokers.detection import UNKNOWN, profile_for, profile_named
from trio_stomp.brokers.embedded import EMBEDDED
from trio_stomp.brokers.link_trouble import is_link_trouble
from trio_stomp.brokers.profile import NackMeaning, Profile
from trio_stomp.brokers.rabbitmq import RABBITMQ

__all__ = [
    "ACTIVEMQ",
    "ARTEMIS",
    "EMBEDDED",
    "RABBITMQ",
    "UNKNOWN",
    "NackMeaning",
    "Profile",
    "delivery_id",
    "delivery_number",
    "is_authentication_refusal",
    "is_link_trouble",
    "outlives_subscribers",
    "profile_for",
    "profile_named",
    "swallowed_for",
]
