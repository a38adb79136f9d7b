import re

import pytest

from tests.cli.delivering import delivered
from trio_stomp.cli.layouts import FIELDS, Layout, MessageFormat


async def test_body_when_printed_to_a_file_then_octet_for_octet_and_ended() -> None:
    message = await delivered({}, b"\xff\x1b[0m")

    assert Layout().show(message, for_terminal=False) == b"\xff\x1b[0m\n"
    assert Layout().show(await delivered({}, b"tea\n"), for_terminal=False) == b"tea\n"


async def test_body_when_printed_to_a_terminal_then_drives_it_nowhere() -> None:
    text = await delivered({"content-type": "text/plain;charset=latin-1"}, b"caf\xe9\x1b[2J")
    octets = await delivered({}, b"\xff\x1b[2J")

    assert Layout().show(text, for_terminal=True) == "café\\x1b[2J\n".encode()
    assert Layout().show(octets, for_terminal=True) == b"\\xff\\x1b[2J\n"


async def test_body_when_raw_then_a_terminal_gets_it_as_it_is() -> None:
    message = await delivered({"note": "\x9b"}, b"\x1b[1mtea\xff")

    assert Layout(raw=True).show(message, for_terminal=True) == b"\x1b[1mtea\xff\n"
    assert "\x9b".encode() in Layout(raw=True, as_json=True).show(message, for_terminal=True)


async def test_message_when_printed_with_headers_then_each_on_one_line() -> None:
    message = await delivered({"note": "one\ntwo\x1b"}, b"tea")

    printed = Layout(headers=True).show(message, for_terminal=False).decode()

    assert printed == ("subscription: s-1\nmessage-id: m-1\ndestination: /queue/a\nnote: one\\ntwo\\x1b\n\ntea\n\n")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", b""),
        ("no fields", b"no fields"),
        (r"{id}\t{destination}\n", b"m-1\t/queue/a\n"),
        ("{ body }", b"tea \xff"),
        ("{base64}", b"dGVhIP8="),
        ("{size}", b"5"),
        ("{redelivered}", b"true"),
        ("{content_type}", b"text/x"),
        ("[{header:shop}] [{header:none}] [{header:a:b}]", b"[7\\n8] [] [c]"),
        (r"{{{id}}} \x41\0\\n\e", b"{m-1} A\0\\n\x1b"),
        (r"a\rb", b"a\rb"),
        ("ä", "ä".encode()),
        ("\udcff{id}\udcfe", b"\xffm-1\xfe"),
    ],
)
async def test_format_when_given_then_shows_its_fields(text: str, shown: bytes) -> None:
    headers = {"shop": "7\n8", "a:b": "c", "redelivered": "true", "content-type": "text/x"}
    message = await delivered(headers, b"tea \xff")

    assert Layout(format=MessageFormat.parse(text)).show(message, for_terminal=False) == shown


async def test_format_when_a_field_is_json_then_the_one_that_json_prints() -> None:
    message = await delivered({"shop": "café"}, "thé".encode())
    layout = Layout(format=MessageFormat.parse("{json}\n{headers}"))

    line, _, headers = layout.show(message, for_terminal=False).partition(b"\n")

    assert line + b"\n" == Layout(as_json=True).show(message, for_terminal=False)
    expected = '{"subscription": "s-1", "message-id": "m-1", "destination": "/queue/a", "shop": "café"}'
    assert headers.decode() == expected
    assert line.decode() == f'{{"destination": "/queue/a", "headers": {expected}, "body": "thé"}}'


@pytest.mark.parametrize("field", [*FIELDS, "body", "json", "header:evil"])
async def test_format_when_shown_by_a_terminal_then_no_field_drives_it(field: str) -> None:
    evil = "\x1b[2J\x9b\u202e"
    message = await delivered({"evil": evil, "content-type": f"text/{evil}", "message-id": evil}, evil.encode())

    shown = Layout(format=MessageFormat.parse(f"{{{field}}}")).show(message, for_terminal=True).decode()

    assert not set(shown) & set("\x1b\x9b\u202e")


@pytest.mark.parametrize(
    ("layout", "around"),
    [
        (Layout(format=MessageFormat.parse("{time}")), "TIME"),
        (Layout(timestamps=True), "TIME tea\n"),
        (
            Layout(timestamps=True, headers=True),
            "TIME\nsubscription: s-1\nmessage-id: m-1\ndestination: /queue/a\n\ntea\n\n",
        ),
    ],
)
async def test_message_when_printed_with_the_time_then_in_utc_to_the_millisecond(layout: Layout, around: str) -> None:
    shown = layout.show(await delivered({}, b"tea"), for_terminal=False).decode()

    assert re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", "TIME", shown) == around
