"""ActiveMQ Classic (and Amazon MQ for ActiveMQ, which runs it)."""

from __future__ import annotations

from typing import Final

from trio_stomp.brokers.dialect import Dialect, expires_at
from trio_stomp.brokers.profile import NackMeaning, Pairs, Profile
from trio_stomp.protocol import Headers, Tolerances

__all__ = ["ACTIVEMQ"]


def _prefetch(prefetch: int) -> Pairs:
    return [("activemq.prefetchSize", str(prefetch))]


def _durable(name: str) -> Pairs:
    return [("activemq.subscriptionName", name)]


def _nack(message: Headers, requeue: bool | None) -> NackMeaning:  # noqa: FBT001  # three-valued
    if requeue:
        return NackMeaning.IMPOSSIBLE
    # A NACKed message goes to the dead-letter queue if it is persistent. If it is not, which is the default over STOMP,
    # it is dropped.
    return NackMeaning.DEAD_LETTER if message.get("persistent") == "true" else NackMeaning.DISCARD


ACTIVEMQ: Final = Profile(
    name="ActiveMQ Classic",
    tolerances=Tolerances(
        # Header names are never escaped.
        undefined_escapes=True,
        # In 1.0 a line feed inside a value is sent raw.
        lines_without_colon=True,
        empty_header_names=True,
        # Nevertheless it unescapes what it receives in 1.0.
        decodes_in_1_0=True,
        # The message header of an ERROR quotes what could not be parsed.
        nul_in_error_headers=True,
        # Only the four characters with an escape are escaped in the properties of a JMS message.
        nul_in_message_headers=True,
        errors_leave_open=True,
    ),
    prefetch=_prefetch,
    dialect=Dialect(
        broker="ActiveMQ Classic",
        persistent=True,
        ttl=expires_at,
        highest_priority=9,
        delay_header="AMQ_SCHEDULED_DELAY",
        group_header="JMSXGroupID",
        selectors=True,
        durable=_durable,
        browse=("browser", "true"),
        no_local=("activemq.noLocal", "true"),
    ),
    # Without one it makes a subscription that no client can use again, or delete.
    durable_needs_client_id=True,
    text_without_content_length=True,
    # It writes its journal once for a transaction.
    confirms_in_bulk=True,
    unescapes_connect=True,
    # "Poison ack cannot be transacted".
    nacks_in_transactions=False,
    answers_subscribe=True,
    nack=_nack,
    keeps_message_id=True,
    server_names=("ActiveMQ",),
    # It ignores binary WebSocket messages.
    websocket_is_text=True,
)
