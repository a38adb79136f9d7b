import json

import pytest

from tests.cli.delivering import delivered
from trio_stomp.cli.message_display import Layout, displayed


@pytest.mark.parametrize(
    ("headers", "as_json", "layout"),
    [
        (False, False, Layout.BODY),
        (True, False, Layout.FULL),
        (False, True, Layout.JSON),
        (True, True, Layout.JSON),
    ],
)
def test_layout_when_flags_are_given_then_the_one_they_mean(headers: bool, as_json: bool, layout: Layout) -> None:
    assert Layout.of(headers=headers, as_json=as_json) is layout


async def test_body_when_printed_to_a_file_then_octet_for_octet_and_ended() -> None:
    message = await delivered({}, b"\xff\x1b[0m")

    assert displayed(message, Layout.BODY, for_terminal=False) == b"\xff\x1b[0m\n"
    assert displayed(await delivered({}, b"tea\n"), Layout.BODY, for_terminal=False) == b"tea\n"


async def test_body_when_printed_to_a_terminal_then_drives_it_nowhere() -> None:
    text = await delivered({"content-type": "text/plain;charset=latin-1"}, b"caf\xe9\x1b[2J")
    octets = await delivered({}, b"\xff\x1b[2J")

    assert displayed(text, Layout.BODY, for_terminal=True) == "café\\x1b[2J\n".encode()
    assert displayed(octets, Layout.BODY, for_terminal=True) == b"\\xff\\x1b[2J\n"


async def test_message_when_printed_with_headers_then_each_on_one_line() -> None:
    message = await delivered({"note": "one\ntwo\x1b"}, b"tea")

    printed = displayed(message, Layout.FULL, for_terminal=False).decode()

    assert printed == ("subscription: s-1\nmessage-id: m-1\ndestination: /queue/a\nnote: one\\ntwo\\x1b\n\ntea\n\n")


@pytest.mark.parametrize("for_terminal", [False, True])
async def test_message_when_printed_as_json_then_one_line(for_terminal: bool) -> None:
    message = await delivered({}, "tea\n\x9b".encode())

    line = displayed(message, Layout.JSON, for_terminal=for_terminal)

    assert line.count(b"\n") == 1
    assert ("\x9b".encode() in line) is not for_terminal
    if not for_terminal:
        assert json.loads(line)["body"] == "tea\n\x9b"
