import json

import pytest
import trio

import trio_stomp
from tests.cli.delivering import delivered
from trio_stomp.cli.messages import MessageFilter, carried, from_line, moved, take_batch, to_line
from trio_stomp.cli.running import CommandFailed, ExitCode
from trio_stomp.client import resent_body
from trio_stomp.testing import open_broker


@pytest.mark.parametrize(
    ("match", "grep", "chosen"),
    [
        ((), None, True),
        ((("shop", "7"),), None, True),
        ((("shop", "8"),), None, False),
        ((("shop", "7"), ("kind", "x")), None, False),
        ((), "t.a$", True),
        ((), "ä", False),
        ((("shop", "7"),), "coffee", False),
    ],
)
async def test_filter_when_given_a_message_then_all_of_it_must_hold(
    match: tuple[tuple[str, str], ...], grep: str | None, chosen: bool
) -> None:
    message = await delivered({"shop": "7"}, b"green tea")
    found = MessageFilter.of(match, grep)

    assert found.chooses(message) is chosen
    assert bool(found) is bool(match or grep)


def test_filter_when_the_expression_is_none_then_said_so() -> None:
    with pytest.raises(CommandFailed, match="invalid regular expression for --grep") as caught:
        MessageFilter.of((), "(")

    assert caught.value.code is ExitCode.USAGE


async def test_line_when_the_body_is_text_then_readable() -> None:
    message = await delivered({"shop": "7", "content-type": "text/plain"}, "für zwei\n".encode())

    line = to_line(message)

    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert json.loads(line) == {
        "destination": "/queue/a",
        "headers": {
            "subscription": "s-1",
            "message-id": "m-1",
            "destination": "/queue/a",
            "shop": "7",
            "content-type": "text/plain",
        },
        "body": "für zwei\n",
    }


async def test_line_when_the_body_is_no_text_then_in_base64() -> None:
    assert json.loads(to_line(await delivered({}, b"\xff\xfe")))["body_base64"] == "//4="


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({"content-type": "text/plain"}, b"tea"),
        ({"content-length": "2"}, b"\xff\xfe"),
        ({"content-length": "3", "content-type": "application/json"}, b"{ }"),
        ({"content-length": "4", "content-type": "text/plain;charset=latin-1"}, b"caf\xe9"),
        ({"content-length": "0"}, b""),
    ],
)
async def test_line_when_printed_and_read_again_then_the_same_body(headers: dict[str, str], body: bytes) -> None:
    again = from_line(to_line(await delivered(headers, body)), None, [], 1)

    assert (again.body.encode() if isinstance(again.body, str) else again.body) == body
    assert isinstance(again.body, bytes) is (
        "content-length" in headers and headers.get("content-type") != "text/plain"
    )
    assert again.content_type == headers.get("content-type")
    assert again.destination == "/queue/a"
    assert again.headers == []


def test_line_when_arguments_say_otherwise_then_they_count() -> None:
    line = b'{"destination": "/queue/a", "headers": {"shop": "7", "priority": "1"}, "body": "x"}'

    message = from_line(line, "/queue/b", [("priority", "9"), ("content-type", "text/html")], 1)

    assert message.destination == "/queue/b"
    assert message.headers == [("shop", "7"), ("priority", "9")]
    assert message.content_type == "text/html"


def test_line_when_its_body_is_json_then_sent_as_that() -> None:
    assert from_line(b'{"body": {"a": [1, "\\u00e4"]}}', "/queue/a", [], 1).body == '{"a": [1, "ä"]}'


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"{", "not JSON"),
        (b"[]", "expected an object, got a list"),
        (b'{"body": "x"}', "no destination"),
        (b'{"destination": 1, "body": "x"}', "no destination"),
        (b'{"destination": "/queue/a", "boddy": "x"}', "unknown key 'boddy'"),
        (b'{"destination": "/queue/a", "headers": []}', "headers must be an object"),
        (b'{"destination": "/queue/a", "headers": {"a": 1}}', "header 'a' must be a string"),
        (b'{"destination": "/queue/a", "body_base64": "?"}', "not base64"),
        (b'{"destination": "/queue/a", "body_base64": "", "body": ""}', "without a body beside it"),
        (
            b'{"destination": "/queue/a", "headers": {"content-type": "text/a;charset=ascii"}, "body": "\\u00e4"}',
            "cannot be written in its charset",
        ),
    ],
)
def test_line_when_it_cannot_be_sent_then_says_which_and_why(line: bytes, why: str) -> None:
    with pytest.raises(CommandFailed, match=f"line 17 cannot be sent: .*{why}"):
        from_line(line, None, [], 17)


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


async def test_batch_when_something_comes_in_time_then_taken(autojump_clock: trio.testing.MockClock) -> None:
    async with (
        open_broker(listen=False) as broker,
        trio_stomp.connect_stream(broker.connect_stream()) as client,
        client.subscribe("/queue/a", ack="auto") as messages,
    ):
        for body in (b"1", b"2", b"3"):
            broker.publish("/queue/a", body)

        first = await take_batch(messages, 2, None)
        started = trio.current_time()
        rest = await take_batch(messages, 10, 1.0, linger=5.0)
        waited = trio.current_time() - started
        nothing = await take_batch(messages, 10, 1.0)

    assert [message.body for message in first] == [b"1", b"2"]
    assert [message.body for message in rest] == [b"3"]
    assert waited == 5.0
    assert nothing == []
