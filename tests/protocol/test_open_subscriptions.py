from __future__ import annotations

import pytest

from trio_stomp.errors import RemoteProtocolError
from trio_stomp.protocol.ack_rules import AckMode
from trio_stomp.protocol.frames import Command, Frame
from trio_stomp.protocol.headers import Headers
from trio_stomp.protocol.open_subscriptions import OpenSubscriptions
from trio_stomp.protocol.versions import Version


@pytest.mark.parametrize("version", list(Version))
@pytest.mark.parametrize("ack", list(AckMode))
def test_needs_when_messages_are_settled_in_1_2_then_hold_the_ack_header(version: Version, ack: AckMode) -> None:
    book = OpenSubscriptions()
    book.begin(version)
    book.add("s", "/q", ack, version)

    assert ("ack" in book.needs["s"]) is (version is Version.V1_2 and ack is not AckMode.AUTO)
    assert book.needs["s"] - {"ack"} == book.needs_of_others
    assert book.needs_of_others >= {"destination", "message-id"}


def meant_by(book: OpenSubscriptions, destination: str) -> str | None:
    headers = Headers({"destination": destination, "message-id": "1"})
    return book.meant_by(Frame(Command.MESSAGE, headers), Version.V1_0)


def test_destination_when_two_subscribe_to_it_then_belongs_to_the_newer_one_alone() -> None:
    book = OpenSubscriptions()
    book.add("s1", "/q", AckMode.AUTO, Version.V1_0)
    book.add("s2", "/q", AckMode.AUTO, Version.V1_0)
    assert meant_by(book, "/q") == "s2"

    book.forget("s1")
    assert meant_by(book, "/q") == "s2"

    book.forget("s2")
    assert meant_by(book, "/q") is None
    assert not book.modes
    assert not book.needs


def test_subscription_when_unknown_then_is_forgotten_without_ado() -> None:
    book = OpenSubscriptions()

    book.forget("s")

    assert meant_by(book, "/q") is None


def test_message_when_it_lacks_what_its_subscription_needs_then_refused() -> None:
    book = OpenSubscriptions()
    book.begin(Version.V1_2)
    book.add("s", "/q", AckMode.CLIENT, Version.V1_2)
    headers = {"subscription": "s", "destination": "/q", "message-id": "1"}

    with pytest.raises(RemoteProtocolError, match="ack"):
        book.meant_by(Frame(Command.MESSAGE, Headers(headers)), Version.V1_2)
    assert book.meant_by(Frame(Command.MESSAGE, Headers(headers | {"ack": "a"})), Version.V1_2) == "s"
