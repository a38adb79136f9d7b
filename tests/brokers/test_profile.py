"""A broker that is not known: nothing is assumed of it."""

from __future__ import annotations

import pytest

from trio_stomp.brokers import ACTIVEMQ, ARTEMIS, EMBEDDED, GENERIC, RABBITMQ, RABBITMQ_4_3, NackMeaning, Profile
from trio_stomp.errors import NotSupportedError
from trio_stomp.protocol import Headers, Tolerances


def test_profile_when_the_broker_is_not_known_then_nothing_is_assumed() -> None:
    profile = Profile()
    assert profile.prefetch(7) == []
    assert profile.tolerances == Tolerances()
    assert profile.nack(Headers(), None) is NackMeaning.UNKNOWN
    assert profile.cancelled_subscription(Headers({"subscription": "s-1"})) is None


def test_profile_when_more_is_asked_of_an_unknown_broker_then_not_supported() -> None:
    with pytest.raises(NotSupportedError, match=r"how the unknown broker supports durable .* pass its own headers"):
        Profile().dialect.subscribe_headers({"durable": "mine"})


@pytest.mark.parametrize(
    ("profile", "header", "keeps"),
    [
        (RABBITMQ, "amqp-message-id", False),
        (ACTIVEMQ, "dedup-id", True),
        # A number of its journal, which another broker has too.
        (ARTEMIS, "_AMQ_DUPL_ID", False),
        (EMBEDDED, "dedup-id", True),
        (GENERIC, "dedup-id", False),
    ],
)
def test_stable_id_when_given_then_found_again_and_else_the_message_id_where_it_is_kept(
    profile: Profile, header: str, keeps: bool
) -> None:
    assert profile.stable_id("x-1") == [(header, "x-1")]
    assert profile.stable_id_of(Headers({"message-id": "m", header: "x-1"})) == "x-1"
    assert profile.stable_id_of(Headers({"message-id": "m"})) == ("m" if keeps else None)


@pytest.mark.parametrize(
    ("profile", "headers", "count"),
    [
        (RABBITMQ, {"x-delivery-count": "2", "redelivered": "true"}, 3),
        (RABBITMQ, {"redelivered": "true"}, None),
        (RABBITMQ, {"redelivered": "false"}, 1),
        # A header of that name is the sender's own where the broker does not count.
        (RABBITMQ, {"redelivered": "false", "x-delivery-count": "9"}, 1),
        # Counted without the NACKs, which x-acquired-count counts too.
        (RABBITMQ_4_3, {"x-acquired-count": "4", "x-delivery-count": "1", "redelivered": "true"}, 5),
        (RABBITMQ_4_3, {"redelivered": "true"}, None),
        # After a restart ActiveMQ does not mark what it has delivered before.
        (ACTIVEMQ, {}, None),
        (ACTIVEMQ, {"redelivered": "true"}, None),
        (EMBEDDED, {}, 1),
        (EMBEDDED, {"delivery-count": "4", "redelivered": "true"}, 4),
        (EMBEDDED, {"delivery-count": "0", "redelivered": "true"}, 1),
        (EMBEDDED, {"delivery-count": "many", "redelivered": "true"}, None),
        (EMBEDDED, {"delivery-count": "9" * 5000, "redelivered": "true"}, None),
    ],
)
def test_delivery_count_when_the_broker_tells_then_this_delivery_is_counted_too(
    profile: Profile, headers: dict[str, str], count: int | None
) -> None:
    assert profile.delivery_count_of(Headers(headers)) == count


def test_nack_when_it_says_what_becomes_of_the_message_then_each_broker_means_its_own() -> None:
    persistent, transient = Headers({"persistent": "true"}), Headers()
    assert RABBITMQ.nack(transient, False) is NackMeaning.DEAD_LETTER_IF_SET
    assert RABBITMQ.nack(transient, True) is NackMeaning.REQUEUE
    assert RABBITMQ.requeue(False) == [("requeue", "false")]
    assert RABBITMQ.requeue(True) == [("requeue", "true")]
    assert ACTIVEMQ.nack(persistent, False) is NackMeaning.DEAD_LETTER
    assert ACTIVEMQ.nack(transient, False) is NackMeaning.DISCARD
    assert ACTIVEMQ.nack(persistent, True) is ARTEMIS.nack(persistent, True) is NackMeaning.IMPOSSIBLE
    assert ACTIVEMQ.requeue(False) == []
    assert EMBEDDED.nack(transient, False) is NackMeaning.DEAD_LETTER


def test_replies_when_asked_for_then_they_come_to_a_destination_that_the_broker_has() -> None:
    assert RABBITMQ.replies_unasked
    assert RABBITMQ.reply_destination("r") == ACTIVEMQ.reply_destination("r") == "/temp-queue/r"
    assert ARTEMIS.reply_destination("r") == "/topic/r"


@pytest.mark.parametrize(
    ("profile", "text_alone"), [(ACTIVEMQ, True), (RABBITMQ, False), (ARTEMIS, False), (GENERIC, False)]
)
def test_over_websocket_when_the_broker_drops_bytes_there_then_bodies_are_text(
    profile: Profile, text_alone: bool
) -> None:
    assert not profile.bodies_are_text
    assert profile.over_websocket().bodies_are_text is text_alone
