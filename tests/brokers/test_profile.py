"""What the profile of each broker says, and that of one that is not known: nothing is assumed of it."""

from __future__ import annotations

import pytest

from trio_stomp.brokers import ACTIVEMQ, ARTEMIS, EMBEDDED, GENERIC, RABBITMQ, RABBITMQ_4_3, Pairs
from trio_stomp.errors import NotSupportedError
from trio_stomp.protocol import ClientProtocol, MessagesReceived, Tolerances
from trio_stomp.types import Headers, NackMeaning, Profile

PERSISTENT = {"persistent": "true"}
OF_A_STREAM = {"x-stream-offset": "7"}


def test_profile_when_the_broker_is_not_known_then_nothing_is_assumed() -> None:
    profile = Profile()
    assert profile.tolerances == EMBEDDED.tolerances == Tolerances()
    with pytest.raises(NotSupportedError, match=r"how the unknown broker supports durable .* pass its own headers"):
        profile.dialect.subscribe_headers({"durable": "mine"})


@pytest.mark.parametrize(
    ("profile", "prefetch", "headers"),
    [
        (Profile(), 7, []),
        (RABBITMQ, 7, [("prefetch-count", "7")]),
        (ACTIVEMQ, 7, [("activemq.prefetchSize", "7")]),
        (EMBEDDED, 7, [("prefetch-count", "7")]),
        # A window of bytes.
        (ARTEMIS, 1, [("consumer-window-size", "0")]),
        (ARTEMIS, 2, [("consumer-window-size", "2048")]),
        (ARTEMIS, 100, [("consumer-window-size", "102400")]),
    ],
)
def test_prefetch_when_asked_for_then_in_the_header_of_the_broker(
    profile: Profile, prefetch: int, headers: Pairs
) -> None:
    assert profile.prefetch(prefetch) == headers


@pytest.mark.parametrize(
    ("profile", "headers", "needs_client_id"),
    [
        # The queue outlives the connection.
        (RABBITMQ, [("durable", "true"), ("auto-delete", "false")], False),
        (ACTIVEMQ, [("activemq.subscriptionName", "mine")], True),
        (ARTEMIS, [("durable-subscription-name", "mine")], True),
        (EMBEDDED, [("durable", "true"), ("durable-subscription-name", "mine")], False),
    ],
)
def test_durable_when_asked_for_then_as_the_broker_names_it(
    profile: Profile, headers: Pairs, needs_client_id: bool
) -> None:
    assert profile.dialect.subscribe_headers({"durable": "mine"}) == headers
    assert profile.durable_needs_client_id is needs_client_id


@pytest.mark.parametrize(
    ("profile", "headers", "requeue", "meaning"),
    [
        (Profile(), {}, None, NackMeaning.UNKNOWN),
        (RABBITMQ, {}, None, NackMeaning.REQUEUE),
        (RABBITMQ, {}, True, NackMeaning.REQUEUE),
        (RABBITMQ, {}, False, NackMeaning.DEAD_LETTER_IF_SET),
        (RABBITMQ, OF_A_STREAM, None, NackMeaning.IMPOSSIBLE),
        (RABBITMQ, OF_A_STREAM, True, NackMeaning.IMPOSSIBLE),
        (ACTIVEMQ, PERSISTENT, None, NackMeaning.DEAD_LETTER),
        (ACTIVEMQ, PERSISTENT, True, NackMeaning.IMPOSSIBLE),
        (ACTIVEMQ, PERSISTENT, False, NackMeaning.DEAD_LETTER),
        (ACTIVEMQ, {}, None, NackMeaning.DISCARD),
        (ACTIVEMQ, {}, False, NackMeaning.DISCARD),
        (ARTEMIS, PERSISTENT, None, NackMeaning.DISCARD),
        (ARTEMIS, PERSISTENT, True, NackMeaning.IMPOSSIBLE),
        (EMBEDDED, {}, None, NackMeaning.REQUEUE),
        (EMBEDDED, {}, False, NackMeaning.DEAD_LETTER),
    ],
)
def test_nack_when_sent_then_each_broker_means_its_own(
    profile: Profile, headers: dict[str, str], requeue: bool | None, meaning: NackMeaning
) -> None:
    assert profile.nack(Headers(headers), requeue) is meaning


def test_requeue_when_the_broker_has_it_then_as_a_header() -> None:
    assert [RABBITMQ.requeue(False), RABBITMQ.requeue(True)] == [[("requeue", "false")], [("requeue", "true")]]
    assert ACTIVEMQ.requeue(False) == []


def test_deviations_when_a_broker_has_them_then_its_profile_says_so() -> None:
    assert RABBITMQ.durable_ends_while_open
    assert not ACTIVEMQ.nacks_in_transactions
    assert ARTEMIS.acks_ignore_transactions


def test_rabbitmq_when_it_cancels_a_subscription_then_only_that_one_is_meant_and_others_cancel_none() -> None:
    error = Headers({"message": "Server cancelled subscription", "subscription": "s-1"})
    assert RABBITMQ.cancelled_subscription(error) == "s-1"
    assert RABBITMQ.cancelled_subscription(Headers({"message": "not_found"})) is None
    assert ACTIVEMQ.cancelled_subscription(error) is Profile().cancelled_subscription(error) is None


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


# --- in 1.0 -----------------------------------------------------------------------------------------------------------


def test_activemq_when_1_0_then_what_is_sent_has_its_backslashes_doubled() -> None:
    """It decodes escapes in every version, and in 1.0 it sends none."""
    protocol = ClientProtocol(tolerances_for=lambda _server: ACTIVEMQ.tolerances)
    protocol.connect(host="/")
    protocol.receive_data(b"CONNECTED\nversion:1.0\nserver:ActiveMQ/6.1.8\n\n\0\n")
    assert b"\npath:c:\\\\new\n" in protocol.send("/queue/a", b"", headers=[("path", "c:\\new")])


def test_artemis_when_1_0_and_a_value_has_a_line_feed_then_the_session_goes_on() -> None:
    protocol = ClientProtocol(tolerances_for=lambda _server: ARTEMIS.tolerances)
    protocol.connect(host="/")
    protocol.receive_data(b"CONNECTED\nsession:1\n\n\0\n")
    (event,) = protocol.receive_data(b"MESSAGE\ndestination:/queue/a\nmessage-id:1\nodd:a\nb\n\nx\0\n")
    assert isinstance(event, MessagesReceived)
    assert event.frames[0].body == b"x"
