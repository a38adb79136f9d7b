from __future__ import annotations

from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_stomp.errors import LocalProtocolError
from trio_stomp.protocol import ClientProtocol, plain_head
from trio_stomp.types import Version

# What is special somewhere, and a little that is not.
TEXT = st.text(alphabet="ab:\\\n\r\0\1č\ud800 ", max_size=3)


def connected(version: Version) -> ClientProtocol:
    protocol = ClientProtocol()
    protocol.connect(host="h")
    protocol.receive_data(f"CONNECTED\nversion:{version}\n\n\0".encode())
    return protocol


@given(st.dictionaries(TEXT, TEXT, max_size=3), TEXT, st.none() | st.just("a/b") | TEXT)
def test_head_when_it_is_plain_then_each_version_sends_the_same_bytes(
    headers: dict[str, str], destination: str, content_type: str | None
) -> None:
    head = plain_head(destination, content_type, headers)

    if head is not None:
        pairs = [] if content_type is None else [("content-type", content_type)]
        for version in Version:
            frame = connected(version).send(destination, b"", headers=[*pairs, *headers.items()])
            assert frame == head + b"\ncontent-length:0\n\n\0"


@given(st.dictionaries(TEXT, TEXT, max_size=3), TEXT)
def test_head_when_a_version_refuses_it_then_is_not_plain(headers: dict[str, str], destination: str) -> None:
    for version in Version:
        try:
            connected(version).send(destination, b"", headers=list(headers.items()))
        except LocalProtocolError:
            assert plain_head(destination, None, headers) is None


@pytest.mark.parametrize(
    ("headers", "lines"),
    [
        (None, b""),
        ({}, b""),
        ([], b""),
        ({"a": "1", "b": "2"}, b"\na:1\nb:2"),
        ([("a", "1"), ("b", "2"), ("a", "3")], b"\na:1\nb:2\na:3"),
        ((("a", "1"),), b"\na:1"),
    ],
)
def test_head_when_headers_are_given_in_any_form_then_each_is_a_line(
    headers: dict[str, str] | list[tuple[str, str]] | None, lines: bytes
) -> None:
    assert plain_head("/q", None, headers) == b"SEND\ndestination:/q" + lines
    assert plain_head("/q", "a/b", headers) == b"SEND\ndestination:/q\ncontent-type:a/b" + lines


@pytest.mark.parametrize(
    "name", ["", "destination", "content-type", "content-length", "receipt", "transaction", "a:b", "a\nb", "a\\b"]
)
def test_head_when_a_name_needs_a_second_look_then_is_not_plain(name: str) -> None:
    for headers in ({"a": "1", name: "2"}, {name: "2", "a": "1"}, [("a", "1"), (name, "2")]):
        assert plain_head("/q", None, headers) is None


@pytest.mark.parametrize("text", ["a:b", "a\nb", "a\nb:c", "a\rb", "a\\b", "a\0b", "\ud800", 5, b"a"])
def test_head_when_a_text_needs_a_second_look_then_is_not_plain(text: str) -> None:
    assert plain_head("/q", None, {"a": "1", "k": text}) is None
    assert plain_head(text, None, {"a": "1"}) is None


@pytest.mark.parametrize("content_type", ["json", "a/b;c:d", "a/b\n"])
def test_head_when_the_type_is_no_mime_type_or_needs_escapes_then_is_not_plain(content_type: str) -> None:
    assert plain_head("/q", content_type, None) is None


@pytest.mark.parametrize(
    "headers",
    [
        MappingProxyType({"a": "1"}),
        [("a", "1:")],
        [("a", "1"), ("b",)],
        [("a", "1", "b")],
        [("a", "1"), 5],
        [("a", 1)],
        {"a": None},
    ],
)
def test_head_when_headers_are_other_things_then_is_not_plain(headers: object) -> None:
    assert plain_head("/q", None, headers) is None  # type: ignore[arg-type]  # what is not taken
