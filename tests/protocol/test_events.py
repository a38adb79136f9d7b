from __future__ import annotations

from trio_stomp.errors import BrokerError
from trio_stomp.protocol.events import ErrorReceived, MessagesReceived
from trio_stomp.protocol.frames import Command, Frame
from trio_stomp.protocol.headers import Headers


def error(headers: dict[str, str], body: bytes = b"") -> BrokerError:
    frame = Frame(command=Command.ERROR, headers=Headers(headers), body=body)
    return ErrorReceived(frame=frame, fatal=True).as_exception()


def test_error_when_made_an_exception_then_carries_the_frame() -> None:
    raised = error({"message": "no such queue", "receipt-id": "r-1"}, b"why")

    assert raised.message == "no such queue"
    assert raised.receipt_id == "r-1"
    assert raised.body == b"why"
    assert raised.headers["message"] == "no such queue"
    assert str(raised) == "no such queue: why"


def test_error_when_it_has_no_message_then_says_so() -> None:
    assert error({}).message == error({"message": ""}).message == "the broker sent an ERROR without a message header"


def test_messages_when_equal_in_all_parts_then_are_equal() -> None:
    frame = Frame(command=Command.MESSAGE)

    assert MessagesReceived([frame], subscription_id="1") == MessagesReceived([frame], subscription_id="1")
    assert MessagesReceived([frame], subscription_id="1") != MessagesReceived([frame], subscription_id=None)
