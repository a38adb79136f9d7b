import pytest

from tests.cli.delivering import delivered
from trio_stomp.cli.carried_headers import carried, moved
from trio_stomp.client import resent_body


def test_carried_when_headers_are_of_one_delivery_then_left_behind() -> None:
    headers = [
        ("subscription", "s-1"),
        ("message-id", "m-1"),
        ("ack", "1"),
        ("redelivered", "true"),
        ("expires", "1"),
        ("_AMQ_DUPL_ID", "d"),
        ("shop", "7"),
        ("priority", "9"),
        ("shop", "8"),
    ]

    assert carried(headers) == [("shop", "7"), ("priority", "9")]


async def test_moved_when_headers_are_set_then_in_place_of_its_own() -> None:
    message = await delivered({"shop": "7", "content-type": "application/json", "content-length": "2"}, b"{}")

    plain = moved(message, "/queue/b")
    changed = moved(message, "/queue/b", [("shop", "8"), ("content-type", "text/plain")])

    assert (plain.destination, plain.body, plain.content_type) == ("/queue/b", b"{}", "application/json")
    assert plain.headers == [("shop", "7")]
    assert changed.headers == [("shop", "8"), ("content-type", "text/plain")]
    assert changed.content_type is None


@pytest.mark.parametrize(
    ("body", "headers", "expected"),
    [
        (b"tea", {}, "tea"),
        (b"tea", {"content-length": "3"}, b"tea"),
        (b"tea", {"content-length": "3", "content-type": "text/plain"}, "tea"),
        (b"\xff", {}, b"\xff"),
        (b"caf\xe9", {"content-type": "text/plain;charset=latin-1"}, b"caf\xe9"),
        (b"{}", {"content-length": "2", "content-type": "application/json"}, b"{}"),
    ],
)
def test_body_when_sent_again_then_of_the_type_that_it_came_as(
    body: bytes, headers: dict[str, str], expected: bytes | str
) -> None:
    assert resent_body(body, headers) == expected
