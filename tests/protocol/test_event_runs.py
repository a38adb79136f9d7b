"""Frames that follow each other as one event, through the protocol that uses it."""

from __future__ import annotations

from trio_stomp.protocol.client_protocol import ClientProtocol
from trio_stomp.protocol.events import ClientEvent, ErrorReceived, MessagesReceived, ReceiptsReceived, Violation
from trio_stomp.protocol.subscriptions import AckMode

AUTO = AckMode.AUTO


def connected(version: str = "1.2") -> ClientProtocol:
    protocol = ClientProtocol()
    protocol.connect(host="h")
    protocol.receive_data(f"CONNECTED\nversion:{version}\n\n\0".encode())
    return protocol


def one(subscription: str, number: int, more: str = "") -> bytes:
    return f"MESSAGE\nsubscription:{subscription}\nmessage-id:{number}\ndestination:/q\n{more}\n\0".encode()


def told(events: list[ClientEvent]) -> list[object]:
    """Events in short: the subscription and ids of messages, the ids of receipts, the type of anything else."""
    shown: list[object] = []
    for event in events:
        if isinstance(event, MessagesReceived):
            shown.append((event.subscription_id, [frame.headers["message-id"] for frame in event.frames]))
        else:
            shown.append(event.receipt_ids if isinstance(event, ReceiptsReceived) else type(event))
    return shown


def test_messages_when_nothing_comes_between_then_are_one_event_for_each_subscription() -> None:
    receipts = b"RECEIPT\nreceipt-id:7\n\n\0RECEIPT\nreceipt-id:8\n\n\0"
    data = one("a", 1) + one("a", 2) + one("b", 3) + one("a", 4) + receipts + one("a", 5)

    expected = [("a", ["1", "2"]), ("b", ["3"]), ("a", ["4"]), ["7", "8"], ("a", ["5"])]
    assert told(connected().receive_data(data)) == expected


def test_messages_when_one_among_them_lacks_a_header_then_those_before_it_are_told() -> None:
    data = one("a", 1) + one("a", 2) + b"MESSAGE\nsubscription:a\ndestination:/q\n\n\0" + one("a", 3)

    assert told(connected().receive_data(data)) == [("a", ["1", "2"]), Violation]


def test_messages_when_a_subscription_needs_more_than_the_one_before_then_each_is_held_to_its_own() -> None:
    protocol = connected()
    protocol.subscribe("a", "/q", AUTO)
    protocol.subscribe("b", "/q", AckMode.CLIENT)

    events = protocol.receive_data(one("a", 1) + one("b", 2, "ack:x\n") + one("a", 3) + one("b", 4))

    assert told(events) == [("a", ["1"]), ("b", ["2"]), ("a", ["3"]), Violation]


def test_receipt_when_it_names_none_then_those_before_it_are_told() -> None:
    assert told(connected().receive_data(b"RECEIPT\nreceipt-id:1\n\n\0RECEIPT\n\n\0")) == [["1"], Violation]


def test_messages_when_a_fatal_error_comes_among_them_then_nothing_follows_it() -> None:
    assert told(connected().receive_data(one("a", 1) + b"ERROR\n\n\0" + one("a", 2))) == [("a", ["1"]), ErrorReceived]
    # Not even a violation.
    assert told(connected().receive_data(b"ERROR\n\n\0nonsense\n\n\0")) == [ErrorReceived]


def test_messages_of_1_0_when_only_some_name_their_subscription_then_each_finds_its_own() -> None:
    protocol = connected("1.0")
    protocol.subscribe("a", "/q", AUTO)
    unnamed = b"MESSAGE\ndestination:%b\nmessage-id:%d\n\n\0"
    data = unnamed % (b"/q", 1) + one("a", 2) + unnamed % (b"/other", 3) + unnamed % (b"/q", 4)

    assert told(protocol.receive_data(data)) == [("a", ["1", "2"]), (None, ["3"]), ("a", ["4"])]


def test_messages_when_the_session_does_not_stand_then_are_a_violation() -> None:
    protocol = ClientProtocol()
    protocol.connect(host="h")

    assert told(protocol.receive_data(one("a", 1))) == [Violation]


def test_errors_when_several_answer_connect_then_the_first_is_the_last() -> None:
    protocol = ClientProtocol()
    protocol.connect(host="h")

    assert told(protocol.receive_data(b"ERROR\n\n\0ERROR\n\n\0")) == [ErrorReceived]
