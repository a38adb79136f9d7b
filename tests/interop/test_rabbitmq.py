"""RabbitMQ 3.10 and 4 over a bare socket, fact by fact: connecting, errors, deliveries, transactions and frames."""

from __future__ import annotations

import re
import uuid
from contextlib import closing

import pytest

from tests.interop.bench import Destination
from tests.interop.broker_facts import Broker, brokers_of
from tests.interop.raw import CLOSED, OPEN, Link, Raw, linked

pytestmark = pytest.mark.parametrize("broker", brokers_of("rabbitmq"), indirect=True)


def delivered(link: Link, queue: str) -> str:
    """Send a message and subscribe to its queue; returns what an ACK names."""
    link.send("SEND", f"destination:{queue}")
    link.send("SUBSCRIBE", f"destination:{queue}", "id:1", "ack:client-individual")
    return link.message().headers["ack"]


def taken(broker: Broker, queue: str) -> list[bytes]:
    """Take out of a queue what is in it."""
    with linked(broker) as link:
        link.send("SUBSCRIBE", f"destination:{queue}", "id:1", "ack:auto", "receipt:r")
        return [each.body for each in link.rest() if isinstance(each, Raw) and each.command == "MESSAGE"]


# --- connecting and ERROR ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "message", "body"),
    [
        (
            ["accept-version:1.2", "host:nope", "login:guest", "passcode:guest"],
            "Bad CONNECT",
            "Virtual host 'nope' access denied",
        ),
        (
            ["accept-version:1.2", "host:/", "login:guest", "passcode:no"],
            "Bad CONNECT",
            "Access refused for user 'guest'",
        ),
        (["accept-version:2.0", "host:/"], "Version mismatch", "Supported versions are 1.0,1.1,1.2"),
    ],
)
def test_connect_when_refused_then_error_in_these_words_and_the_socket_stays_open(
    broker: Broker, headers: list[str], message: str, body: str
) -> None:
    with closing(Link(broker)) as link:
        link.send("CONNECT", *headers)
        error, end = link.rest()

    assert isinstance(error, Raw)
    assert (error.command, error.headers["message"], error.body.decode().rstrip()) == ("ERROR", message, body)
    assert end == OPEN


def test_connect_when_there_is_no_login_then_the_default_user(broker: Broker) -> None:
    with closing(Link(broker)) as link:
        link.send("CONNECT", "accept-version:1.2", "host:/")
        link.expect("CONNECTED", OPEN)


@pytest.mark.parametrize("command", ["SEND", "SUBSCRIBE"])
@pytest.mark.parametrize(
    ("destination", "message", "body"),
    [
        ("/nope/x", "Unknown destination", "'/nope/x' is not a valid destination.\nValid destination types are: "),
        ("", "Invalid destination", "Destination cannot be blank"),
        ("/queue/a/b", "Invalid destination", "'/a/b' is not a valid queue destination\n"),
    ],
)
def test_destination_when_it_makes_no_sense_then_error_without_receipt_and_the_connection_lives(
    broker: Broker, command: str, destination: str, message: str, body: str
) -> None:
    with linked(broker) as link:
        link.send(command, f"destination:{destination}", "id:1", "receipt:r")
        error, end = link.rest()

    assert isinstance(error, Raw)
    assert (error.command, error.headers["message"]) == ("ERROR", message)
    assert error.body.decode().startswith(body)
    assert "receipt-id" not in error.headers
    assert end == OPEN


def test_amq_queue_when_there_is_none_then_send_is_confirmed_and_dropped_and_subscribe_refused(broker: Broker) -> None:
    destination = f"destination:/amq/queue/interop.none.{uuid.uuid4().hex}"
    with linked(broker) as link:
        link.send("SEND", destination, "receipt:r")
        link.expect("RECEIPT", OPEN)
        link.send("SUBSCRIBE", destination, "id:1", "receipt:r")
        link.expect("ERROR not_found", "RECEIPT", CLOSED)


def test_subscribe_when_the_id_is_taken_then_error_and_receipt_and_closed(
    broker: Broker, destination: Destination
) -> None:
    with linked(broker) as link:
        for _ in range(2):
            link.send("SUBSCRIBE", f"destination:{destination('twice')}", "id:1", "receipt:r")
        link.expect("RECEIPT", "ERROR Duplicated subscription identifier", "RECEIPT", CLOSED)


# --- deliveries -------------------------------------------------------------------------------------------------------


def test_message_id_when_delivered_again_then_names_subscription_session_and_number_and_is_new(
    broker: Broker, destination: Destination
) -> None:
    queue = destination("ids")
    ids: list[str] = []
    with linked(broker) as link:
        link.send("SEND", f"destination:{queue}")
        link.send("SUBSCRIBE", f"destination:{queue}", "id:a\\cb", "ack:client-individual")
        for _ in range(3):
            message = link.message()
            assert message.headers["ack"] == message.headers["message-id"]
            ids.append(message.headers["ack"])
            link.send("NACK", f"id:{ids[-1]}")

    # The colon is not escaped, which the specification demands from 1.1 on.
    assert [re.fullmatch(r"T_a:b@@session-[\w-]+@@(\d)", each) for each in ids]
    assert [each.rpartition("@@")[2] for each in ids] == ["1", "2", "3"]


def test_ack_when_sent_twice_then_both_have_a_receipt_before_the_error_and_closed(
    broker: Broker, destination: Destination
) -> None:
    queue = destination("twice")
    with linked(broker) as link:
        given = delivered(link, queue)
        for receipt in "ab":
            link.send("ACK", f"id:{given}", f"receipt:{receipt}")
        link.expect("RECEIPT", "RECEIPT", "ERROR precondition_failed", CLOSED)


@pytest.mark.parametrize(
    ("requeue", "comes_again"),
    [(None, True), ("true", True), ("True", True), ("FALSE", True), ("0", True), ("false", False), ("False", False)],
)
def test_nack_when_requeue_is_spelled_like_this_then_the_message_comes_again_or_not(
    broker: Broker, destination: Destination, requeue: str | None, comes_again: bool
) -> None:
    queue = destination("requeue")
    with linked(broker) as link:
        link.send("NACK", f"id:{delivered(link, queue)}", *([] if requeue is None else [f"requeue:{requeue}"]))
        link.expect(*(["MESSAGE", OPEN] if comes_again else [OPEN]))


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_unsubscribe_when_a_message_is_not_settled_then_locked_until_the_connection_ends(
    broker: Broker, destination: Destination, kind: str
) -> None:
    queue = [f"destination:{destination(kind)}", f"x-queue-type:{kind}"]
    with linked(broker) as other:
        with linked(broker) as link:
            link.send("SEND", *queue)
            link.send("SUBSCRIBE", *queue, "id:1", "ack:client-individual")
            given = link.message().headers["ack"]
            link.send("UNSUBSCRIBE", "id:1")
            link.send("ACK", f"id:{given}")
            link.expect("ERROR Subscription not found", OPEN)
            other.send("SUBSCRIBE", *queue, "id:1", "ack:auto")
            other.expect(OPEN)
        assert other.message().headers["redelivered"] == "true"


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_header_when_it_needs_escapes_then_escaped_in_every_version(
    broker: Broker, destination: Destination, version: str
) -> None:
    queue = destination("escapes")
    with linked(broker, version=version) as link:
        link.send("SEND", f"destination:{queue}", "odd:a\\cb\\nc\\\\d\\re")
        link.send("SUBSCRIBE", f"destination:{queue}", "id:1")
        assert link.message().headers["odd"] == "a\\cb\\nc\\\\d\\re"


@pytest.mark.parametrize(
    ("mode", "others"), [("client", [b"2", b"3"]), ("client-individual", [b"0", b"1", b"2", b"3"])]
)
def test_ack_when_in_client_mode_then_it_reaches_over_all_subscriptions(
    broker: Broker, destination: Destination, mode: str, others: list[bytes]
) -> None:
    one, other = destination("one"), destination("other")
    with linked(broker) as link:
        for number in range(2):
            link.send("SEND", f"destination:{one}", body=b"%d" % number)
        for number in range(2, 4):
            link.send("SEND", f"destination:{other}", body=b"%d" % number)
        link.send("SUBSCRIBE", f"destination:{one}", "id:1", "ack:client-individual")
        given = [link.message(), link.message()]
        assert [message.body for message in given] == [b"0", b"1"]
        link.send("SEND", f"destination:{other}", body=b"last")
        link.send("SUBSCRIBE", f"destination:{other}", "id:2", f"ack:{mode}", "prefetch-count:3")
        last = [link.message() for _ in range(3)][-1]
        assert last.body == b"last"
        link.send("ACK", f"id:{last.headers['ack']}", "receipt:r")
        link.expect("RECEIPT", OPEN)
    # With `client`, the messages of the other subscription are gone too.
    left = taken(broker, one) + taken(broker, other)
    assert left == ([] if mode == "client" else others)


def test_nack_when_in_client_mode_then_it_reaches_back(broker: Broker, destination: Destination) -> None:
    queue = destination("back")
    with linked(broker) as link:
        link.send("SEND", f"destination:{queue}")
        link.send("SEND", f"destination:{queue}")
        link.send("SUBSCRIBE", f"destination:{queue}", "id:1", "ack:client")
        _, second = link.message(), link.message()
        link.send("NACK", f"id:{second.headers['ack']}")
        link.expect("MESSAGE", "MESSAGE", OPEN)


def test_nack_when_in_1_0_then_it_works(broker: Broker, destination: Destination) -> None:
    queue = destination("old")
    with linked(broker, version="1.0") as link:
        link.send("SEND", f"destination:{queue}")
        link.send("SUBSCRIBE", f"destination:{queue}", "id:1", "ack:client")
        link.send("NACK", f"message-id:{link.message().headers['message-id']}")
        link.expect("MESSAGE", OPEN)


def test_ack_mode_when_unknown_then_error_and_the_connection_lives(broker: Broker, destination: Destination) -> None:
    with linked(broker) as link:
        link.send("SUBSCRIBE", f"destination:{destination('mode')}", "id:1", "ack:later", "receipt:r")
        link.expect("ERROR Processing error", OPEN)


# --- transactions -----------------------------------------------------------------------------------------------------


def test_transaction_when_committed_then_its_receipts_come_after_that_of_the_commit(
    broker: Broker, destination: Destination
) -> None:
    queue = destination("tx")
    with linked(broker) as link:
        link.send("BEGIN", "transaction:t")
        # The second BEGIN drops what the first one had.
        link.send("SEND", f"destination:{queue}", "transaction:t", body=b"dropped")
        link.send("BEGIN", "transaction:t")
        link.send("SEND", f"destination:{queue}", "transaction:t", "receipt:sent", body=b"kept")
        link.send("COMMIT", "transaction:t", "receipt:committed")
        *receipts, end = link.rest()
    assert [each.headers["receipt-id"] for each in receipts if isinstance(each, Raw)] == ["committed", "sent"]
    assert end == OPEN
    assert taken(broker, queue) == [b"kept"]


@pytest.mark.parametrize("command", ["ACK", "NACK"])
def test_transaction_when_it_settles_and_is_aborted_then_the_message_is_still_held(
    broker: Broker, destination: Destination, command: str
) -> None:
    queue = destination("tx")
    with linked(broker) as link:
        given = delivered(link, queue)
        link.send("BEGIN", "transaction:t")
        link.send(command, f"id:{given}", "transaction:t")
        link.send("ABORT", "transaction:t")
        link.expect(OPEN)
        link.send("ACK", f"id:{given}", "receipt:r")
        link.expect("RECEIPT", OPEN)


def test_transaction_when_it_has_a_nack_then_it_takes_effect_with_the_commit(
    broker: Broker, destination: Destination
) -> None:
    queue = destination("tx")
    with linked(broker) as link:
        given = delivered(link, queue)
        link.send("BEGIN", "transaction:t")
        link.send("NACK", f"id:{given}", "transaction:t")
        link.expect(OPEN)
        link.send("COMMIT", "transaction:t")
        link.expect("MESSAGE", OPEN)


def test_transaction_when_open_at_disconnect_then_dropped(broker: Broker, destination: Destination) -> None:
    queue = destination("tx")
    with linked(broker) as link:
        link.send("BEGIN", "transaction:t")
        link.send("SEND", f"destination:{queue}", "transaction:t")
        link.send("DISCONNECT", "receipt:r")
        link.expect("RECEIPT", CLOSED)
    assert taken(broker, queue) == []


# --- frames -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "frame",
    [
        ("SEND", "destination:/queue/interop.bad", "odd:a\\t"),
        ("SEND", "destination:/queue/interop.bad", "odd:a\rb"),
        ("SEND", "destination:/queue/interop.bad", "no colon"),
        ("SEND", "destination:/queue/interop.bad", "content-length:-1"),
    ],
)
def test_frame_when_it_cannot_be_parsed_then_closed_without_error(broker: Broker, frame: tuple[str, ...]) -> None:
    with linked(broker) as link:
        link.send(*frame)
        link.expect(CLOSED)


def test_frame_when_it_comes_before_connect_then_error_and_the_connection_lives(broker: Broker) -> None:
    with closing(Link(broker)) as link:
        link.send("SEND", "destination:/queue/interop.early")
        link.expect("ERROR Illegal command", OPEN)


def test_command_when_unknown_then_error_and_the_connection_lives(broker: Broker) -> None:
    with linked(broker) as link:
        link.send("FOO", "receipt:r")
        link.expect("ERROR Bad command", OPEN)


def test_message_id_when_the_sender_gives_one_then_error(broker: Broker, destination: Destination) -> None:
    with linked(broker) as link:
        link.send("SEND", f"destination:{destination('id')}", "message-id:m", "receipt:r")
        (error, *_) = link.rest()
    assert isinstance(error, Raw)
    assert error.body.startswith(b"'message-id' is not allowed on 'SEND'")


def test_connect_when_line_ends_are_crlf_or_come_before_it_then_fine(broker: Broker) -> None:
    with closing(Link(broker)) as link:
        link.send("\r\n\nCONNECT\r\naccept-version:1.1\r\nhost:/\r\n\r")
        link.expect("CONNECTED", OPEN)


def test_content_length_when_the_body_is_empty_then_absent(broker: Broker, destination: Destination) -> None:
    queue = destination("empty")
    with linked(broker) as link:
        link.send("SEND", f"destination:{queue}", "content-length:0")
        link.send("SEND", f"destination:{queue}", body=b"x")
        link.send("SUBSCRIBE", f"destination:{queue}", "id:1")
        empty, other = link.message(), link.message()
    assert "content-length" not in empty.headers
    assert other.headers["content-length"] == "1"
