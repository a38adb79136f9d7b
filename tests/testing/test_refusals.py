from trio_stomp.testing.refusals import Refusal


def test_refusal_when_no_details_then_message_stands_in() -> None:
    refusal = Refusal("queue is full")

    assert (refusal.message, refusal.details, refusal.headers) == ("queue is full", "queue is full", ())
    assert str(refusal) == "queue is full"


def test_refusal_when_details_and_headers_then_keeps_them() -> None:
    refusal = Refusal("no", "because", headers=(("version", "1.2"),))

    assert (refusal.details, refusal.headers) == ("because", (("version", "1.2"),))
