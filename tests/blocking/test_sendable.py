"""What is surely sendable is so in every version; what is not sure is left to the encoder."""

from __future__ import annotations

import pytest

from trio_stomp import OutgoingMessage
from trio_stomp.blocking.sendable import surely_sendable
from trio_stomp.client import HeaderInput


@pytest.mark.parametrize(
    "message",
    [
        OutgoingMessage("/queue/a", b""),
        OutgoingMessage("/queue/a", b"\0\xff"),
        OutgoingMessage("/queue/a", "text"),
        OutgoingMessage("/queue/ä", b"1", {"size": "10:20"}, "application/json"),
        OutgoingMessage("/queue/a", b"1", [("a", "1"), ("a", "2")]),
    ],
)
def test_message_when_plain_then_sure(message: OutgoingMessage) -> None:
    assert surely_sendable(message) is not None


@pytest.mark.parametrize(
    "message",
    [
        OutgoingMessage("", b""),
        OutgoingMessage("/queue/a\nreceipt:1", b""),
        OutgoingMessage("/queue/a", "\ud800"),
        OutgoingMessage("/queue/a", b"", None, "json"),
        OutgoingMessage("/queue/a", b"", {"a:b": "1"}),
        OutgoingMessage("/queue/a", b"", {"": "1"}),
        OutgoingMessage("/queue/a", b"", {"a": "1\r"}),
        OutgoingMessage("/queue/a", b"", {"a": ""}),
        OutgoingMessage("/queue/a", b"", {"receipt": "1"}),
        OutgoingMessage("/queue/a", b"", {"content-length": "5"}),
        OutgoingMessage("/queue/a", b"", {"content-type": "text/plain"}),
        OutgoingMessage("/queue/a", b"", {"destination": "/queue/b"}),
    ],
)
def test_message_when_a_version_might_refuse_it_then_not_sure(message: OutgoingMessage) -> None:
    assert surely_sendable(message) is None


def test_body_when_its_owner_could_change_it_then_not_sure() -> None:
    # Not what the types say, but what the client takes.
    body: object = bytearray(b"1")

    assert surely_sendable(OutgoingMessage("/queue/a", body)) is None  # type: ignore[arg-type]  # see above


@pytest.mark.parametrize("headers", [{"n": 1}, [("a",)], [["a", "b"]], {1: "n"}])
def test_headers_when_not_pairs_of_text_then_not_sure(headers: HeaderInput) -> None:
    assert surely_sendable(OutgoingMessage("/queue/a", b"", headers)) is None


def test_headers_when_their_owner_changes_them_then_the_message_keeps_its_own() -> None:
    headers = {"a": "1"}
    sendable = surely_sendable(OutgoingMessage("/queue/a", b"", headers))
    headers["a"] = "2"

    assert sendable is not None
    assert sendable.headers == (("a", "1"),)
