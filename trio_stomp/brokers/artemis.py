"""Apache ActiveMQ Artemis."""

from __future__ import annotations

from typing import Final

from trio_stomp.brokers.dialect import Dialect, expires_at
from trio_stomp.brokers.profile import NackMeaning, Pairs, Profile
from trio_stomp.protocol import Headers, Tolerances

__all__ = ["ARTEMIS"]

# Artemis counts its window in bytes. This is what is asked for each message of prefetch: an ordinary message with
# its headers. Larger ones make the window narrower in messages, smaller ones wider, so the count is not exact.
_BYTES_OF_A_MESSAGE: Final = 1024

# Its duplicate detection: the second message with an id that it remembers is dropped.
_DUPLICATE_ID: Final = "_AMQ_DUPL_ID"


def _prefetch(prefetch: int) -> Pairs:
    # 0 is one message at a time.
    return [("consumer-window-size", "0" if prefetch == 1 else str(prefetch * _BYTES_OF_A_MESSAGE))]


def _durable(name: str) -> Pairs:
    return [("durable-subscription-name", name)]


def _nack(_message: Headers, requeue: bool | None) -> NackMeaning:  # noqa: FBT001  # three-valued
    return NackMeaning.IMPOSSIBLE if requeue else NackMeaning.DISCARD


def _reply_destination(name: str) -> str:
    # It has no temporary queues over STOMP. A topic with a unique name ends with its subscription; a reply that comes
    # too late is dropped there, and in a queue it would stay forever. A JMS service could not even send to a queue: it
    # considers an address of unknown kind a topic ("exists, but does not support MULTICAST routing").
    return f"/topic/{name}"


# The prefixes of the acceptor (docs/brokers.md), and the header of SUBSCRIBE that replaces them.
_ROUTING: Final = {"/queue/": "ANYCAST", "/topic/": "MULTICAST"}


def _reply_address(destination: str) -> tuple[str, Pairs]:
    """Return the bare address of a queue or topic, with its routing type in a header.

    Only the acceptor understands the prefixes. It passes ``reply-to`` on unchanged, and a JMS service sends its reply
    to that address. With the prefix, it would be an address that has no consumer.
    """
    for prefix, routing in _ROUTING.items():
        if destination.startswith(prefix):
            return destination.removeprefix(prefix), [("subscription-type", routing)]
    return destination, []


ARTEMIS: Final = Profile(
    name="ActiveMQ Artemis",
    tolerances=Tolerances(
        ack_by_message_id=True,
        # In 1.0 a line feed inside a value is sent raw: one such message would end the session of its reader.
        lines_without_colon=True,
        empty_header_names=True,
        # Only the four characters with an escape are escaped in the properties of a JMS message, CR in 1.1 too.
        nul_in_message_headers=True,
        cr_escape_in_1_1=True,
    ),
    prefetch=_prefetch,
    dialect=Dialect(
        broker="ActiveMQ Artemis",
        persistent=True,
        ttl=expires_at,
        highest_priority=9,
        delay_header="AMQ_SCHEDULED_DELAY",
        group_header="JMSXGroupID",
        dedup_header=_DUPLICATE_ID,
        selectors=True,
        durable=_durable,
        no_local=("no-local", "true"),
    ),
    durable_needs_client_id=True,
    text_without_content_length=True,
    # It writes its journal once for a transaction.
    confirms_in_bulk=True,
    acks_ignore_transactions=True,
    answers_subscribe=True,
    stable_id_header=_DUPLICATE_ID,
    nack=_nack,
    # Its message-id is "<consumer>,<message>". The second part stays, but it is a number of the journal that another
    # broker of a failover list has too, for another message.
    reply_destination=_reply_destination,
    reply_address=_reply_address,
    server_names=("ActiveMQ-Artemis",),
)
