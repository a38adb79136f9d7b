import json

import pytest

from tests.cli.delivering import delivered
from trio_stomp.cli.exit_codes import CommandFailed
from trio_stomp.cli.message_lines import from_line, to_line


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
        (b'{"destination": "/queue/a", "boddy": "x"}', "it has 'boddy'"),
        (b'{"destination": "/queue/a", "headers": []}', "headers must be an object"),
        (b'{"destination": "/queue/a", "headers": {"a": 1}}', "header 'a' must be text"),
        (b'{"destination": "/queue/a", "body_base64": "?"}', "not base64"),
        (b'{"destination": "/queue/a", "body_base64": "", "body": ""}', "stand alone"),
        (
            b'{"destination": "/queue/a", "headers": {"content-type": "text/a;charset=ascii"}, "body": "\\u00e4"}',
            "cannot be written in its charset",
        ),
    ],
)
def test_line_when_it_cannot_be_sent_then_says_which_and_why(line: bytes, why: str) -> None:
    with pytest.raises(CommandFailed, match=f"line 17 cannot be sent: .*{why}"):
        from_line(line, None, [], 17)
