"""Bodies that keep their type, bytes or text, when a message is sent again, which only some brokers show."""

import click
import pytest
import trio

import trio_stomp
from tests.cli.delivering import delivered
from trio_stomp.cli.messages import from_line, regex_of, take_batch, to_line
from trio_stomp.client import resent_body
from trio_stomp.testing import open_broker


@pytest.mark.parametrize(
    ("headers", "body", "expected"),
    [
        # The broker that gets it sets its own timestamp.
        ({"content-type": "text/plain", "timestamp": "1764408626000"}, b"tea", "tea"),
        ({"content-length": "2"}, b"\xff\xfe", b"\xff\xfe"),
        ({"content-length": "3", "content-type": "application/json"}, b"{ }", b"{ }"),
        ({"content-length": "4", "content-type": "text/plain;charset=latin-1"}, b"caf\xe9", b"caf\xe9"),
        ({"content-length": "0"}, b"", b""),
    ],
)
async def test_line_when_printed_and_read_again_then_the_same_body(
    headers: dict[str, str], body: bytes, expected: bytes | str
) -> None:
    again = from_line(to_line(await delivered(headers, body)).encode(), None, [])

    assert again.body == expected
    assert again.content_type == headers.get("content-type")
    assert again.destination == "/queue/a"
    assert again.headers == []


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


LINES: list[tuple[str, list[tuple[str, str]], tuple[object, ...]]] = [
    ('{"body": {"name": "thé"}}', [], ('{"name": "thé"}', "application/json", [])),
    ('{"body": [1]}', [("content-type", "x/y")], ("[1]", "x/y", [])),
    (
        '{"headers": {"a": "1", "b": "2", "c": "3", "content-type": "text/x", "timestamp": "4"}, "body": "tea"}',
        [("a", "9"), ("d", "4")],
        ("tea", "text/x", [("a", "9"), ("c", "3"), ("d", "4")]),
    ),
    ("{}", [], ("", None, [])),
]


@pytest.mark.parametrize(("line", "headers", "expected"), LINES)
def test_line_when_read_then_what_is_given_comes_before_what_it_says(
    line: str, headers: list[tuple[str, str]], expected: tuple[object, ...]
) -> None:
    read = from_line(line.encode(), "/queue/a", headers, without={"b"})

    assert read.destination == "/queue/a"
    assert (read.body, read.content_type, read.headers) == expected


async def test_batch_when_something_comes_in_time_then_taken(autojump_clock: trio.testing.MockClock) -> None:
    async with (
        open_broker(listen=False) as broker,
        trio_stomp.connect_stream(broker.connect_stream()) as client,
        client.subscribe("/queue/a", ack="auto") as messages,
    ):
        for body in (b"1", b"2", b"3"):
            broker.publish("/queue/a", body)

        unwanted = await take_batch(messages, 0, None)
        first = await take_batch(messages, 1, None)
        at_once = trio.current_time()
        started = trio.current_time()
        rest = await take_batch(messages, 10, 1.0, linger=5.0)
        waited = trio.current_time() - started
        nothing = await take_batch(messages, 10, 1.0)

    assert unwanted == nothing == []
    assert [message.body for message in first] == [b"1"]
    assert [message.body for message in rest] == [b"2", b"3"]
    assert (at_once, waited) == (0, 5.0)


def test_pattern_when_it_is_nested_too_deeply_then_refused() -> None:
    with pytest.raises(click.BadParameter, match="invalid regular expression"):
        regex_of("(" * 5000)
