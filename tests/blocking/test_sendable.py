"""What is surely sendable is so in every version; what is not sure is left to the encoder."""

from __future__ import annotations

import pytest

from trio_stomp import NotSupportedError, OutgoingMessage
from trio_stomp.blocking import Client
from trio_stomp.blocking.sendable import surely_sendable
from trio_stomp.client import HeaderInput
from trio_stomp.types import Profile

GENERIC = Profile(name="any")


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
    assert surely_sendable(message, GENERIC) is not None


@pytest.mark.parametrize(
    "message",
    [
        OutgoingMessage("", b""),
        OutgoingMessage("/queue/a\nreceipt:1", b""),
        OutgoingMessage("/queue/a", "\ud800"),
        OutgoingMessage("/queue/a", b"", None, "json"),
        OutgoingMessage("/queue/a", "text", None, "text/plain;charset=latin-1"),
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
    assert surely_sendable(message, GENERIC) is None


def test_body_when_its_owner_could_change_it_then_not_sure() -> None:
    # Not what the types say, but what the client takes.
    body: object = bytearray(b"1")

    assert surely_sendable(OutgoingMessage("/queue/a", body), GENERIC) is None  # type: ignore[arg-type]  # see above


@pytest.mark.parametrize("headers", [{"n": 1}, [("a",)], [["a", "b"]], {1: "n"}])
def test_headers_when_not_pairs_of_text_then_not_sure(headers: HeaderInput) -> None:
    assert surely_sendable(OutgoingMessage("/queue/a", b"", headers), GENERIC) is None


def test_headers_when_their_owner_changes_them_then_the_message_keeps_its_own() -> None:
    headers = {"a": "1"}
    sendable = surely_sendable(OutgoingMessage("/queue/a", b"", headers), GENERIC)
    headers["a"] = "2"

    assert sendable is not None
    assert sendable.headers == (("a", "1"),)


def test_body_when_the_link_takes_text_alone_then_other_bytes_are_not_sure() -> None:
    text_only = Profile(name="any", bodies_are_text=True)

    assert surely_sendable(OutgoingMessage("/queue/a", b"plain"), text_only) is not None
    assert surely_sendable(OutgoingMessage("/queue/a", b"\xff"), text_only) is None


def test_options_when_sent_once_then_sure_from_then_on(client: Client) -> None:
    judge = client._judge
    message = OutgoingMessage("/queue/a", b"", {"a": "b"}, None, {"persistent": True})

    assert judge.sure(message) is None
    client.send("/queue/a", b"", headers={"a": "b"}, persistent=True)
    sure = judge.sure(message)
    assert sure is not None
    assert sure.options == {"persistent": True}
    assert judge.sure(OutgoingMessage("/queue/a", b"", {"persistent": "b"}, None, {"persistent": True})) is None


def test_options_when_the_broker_has_them_not_then_refused_at_each_call(client: Client) -> None:
    for _ in range(2):
        with pytest.raises(NotSupportedError):
            client.send("/queue/a", b"", dedup_id="1")


def test_options_when_they_cannot_be_remembered_then_never_sure(client: Client) -> None:
    # Not what the types say: the encoder is to refuse it.
    message = OutgoingMessage("/queue/a", b"", None, None, {"group": []})  # type: ignore[arg-type]  # see above
    client._judge.learn(message)

    assert client._judge.sure(message) is None


def test_options_when_each_message_has_new_ones_then_memory_is_bounded(client: Client) -> None:
    for ttl in range(1000):
        client._judge.learn(OutgoingMessage("/queue/a", b"", None, None, {"ttl": ttl}))

    assert len(client._judge._known) <= 256
