from __future__ import annotations

import pytest

from trio_stomp.errors import RemoteProtocolError
from trio_stomp.protocol.ack_rules import AckMode
from trio_stomp.protocol.frames import Command, Frame
from trio_stomp.protocol.headers import Headers
from trio_stomp.protocol.open_subscriptions import OpenSubscriptions
from trio_stomp.protocol.tolerances import STRICT, Tolerances
from trio_stomp.protocol.versions import Version


@pytest.mark.parametrize("version", list(Version))
@pytest.mark.parametrize("ack", list(AckMode))
def test_needs_when_messages_are_settled_in_1_2_then_hold_the_ack_header(version: Version, ack: AckMode) -> None:
    book = OpenSubscriptions()
    book.begin(version, STRICT)
    book.add("s", "/q", ack)

    assert ("ack" in book.needs["s"]) is (version is Version.V1_2 and ack is not AckMode.AUTO)
    assert book.needs["s"] - {"ack"} == book.needs_of_others
    assert book.needs_of_others >= {"destination", "message-id"}


def meant_by(book: OpenSubscriptions, destination: str) -> str | None:
    headers = Headers({"destination": destination, "message-id": "1"})
    return book.meant_by(Frame(Command.MESSAGE, headers), Version.V1_0)


def test_destination_when_two_subscribe_to_it_then_belongs_to_the_newer_one_alone() -> None:
    book = OpenSubscriptions()
    book.add("s1", "/q", AckMode.AUTO)
    book.add("s2", "/q", AckMode.AUTO)
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
    book.begin(Version.V1_2, STRICT)
    book.add("s", "/q", AckMode.CLIENT)
    headers = {"subscription": "s", "destination": "/q", "message-id": "1"}

    with pytest.raises(RemoteProtocolError, match="ack"):
        book.meant_by(Frame(Command.MESSAGE, Headers(headers)), Version.V1_2)
    assert book.meant_by(Frame(Command.MESSAGE, Headers(headers | {"ack": "a"})), Version.V1_2) == "s"


@pytest.mark.parametrize(
    ("version", "missing", "tolerances"),
    [
        (Version.V1_2, "ack", STRICT),
        (Version.V1_2, "message-id", STRICT),
        (Version.V1_1, "message-id", STRICT),
        (Version.V1_1, "message-id", Tolerances(messages_without_id=True)),
        (Version.V1_0, "message-id", Tolerances(messages_without_id=True)),
    ],
)
def test_message_when_it_cannot_be_acknowledged_then_the_error_names_the_mode_that_can(
    version: Version, missing: str, tolerances: Tolerances
) -> None:
    book = OpenSubscriptions()
    book.begin(version, tolerances)
    book.add("s", "/q", AckMode.CLIENT)
    headers = {"subscription": "s", "destination": "/q", "message-id": "1", "ack": "a"}
    del headers[missing]

    with pytest.raises(RemoteProtocolError, match=f"must have a {missing} header: .*subscribe with ack='auto'"):
        book.meant_by(Frame(Command.MESSAGE, Headers(headers)), version)


def test_message_when_it_has_no_id_in_auto_mode_then_taken_only_from_those_who_never_send_one() -> None:
    message = Frame(Command.MESSAGE, Headers({"subscription": "s", "destination": "/q"}))
    strict, tolerant = OpenSubscriptions(), OpenSubscriptions()
    strict.begin(Version.V1_1, STRICT)
    tolerant.begin(Version.V1_1, Tolerances(messages_without_id=True))
    for book in (strict, tolerant):
        book.add("s", "/q", AckMode.AUTO)

    assert tolerant.meant_by(message, Version.V1_1) == "s"
    with pytest.raises(RemoteProtocolError, match="must have a message-id header: ") as caught:
        strict.meant_by(message, Version.V1_1)
    # It is in auto mode already.
    assert "ack=" not in str(caught.value)


def test_message_when_it_names_no_subscription_then_that_is_what_is_missing() -> None:
    book = OpenSubscriptions()
    book.begin(Version.V1_1, Tolerances(messages_without_id=True))

    with pytest.raises(RemoteProtocolError, match="must have a subscription header"):
        book.meant_by(Frame(Command.MESSAGE, Headers({"destination": "/q"})), Version.V1_1)
