from __future__ import annotations

import pytest

from trio_stomp.errors import LocalProtocolError, NotSupportedError, RemoteProtocolError
from trio_stomp.protocol.frames import Command, Frame
from trio_stomp.protocol.headers import Headers
from trio_stomp.protocol.subscriptions import AckMode, OpenSubscriptions, ack_headers, require_ack_mode
from trio_stomp.protocol.tolerances import STRICT, Tolerances
from trio_stomp.protocol.versions import Version

MESSAGE = Headers({"message-id": "m", "ack": "a", "subscription": "other"})


@pytest.mark.parametrize("name", ["auto", "client", "client-individual"])
def test_mode_when_named_then_is_found(name: str) -> None:
    assert AckMode.of(name).value == name


@pytest.mark.parametrize("name", ["", "Auto", "individual"])
def test_mode_when_unknown_then_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(LocalProtocolError, match="one of auto, client, client-individual"):
        AckMode.of(name)


@pytest.mark.parametrize("version", list(Version))
@pytest.mark.parametrize("mode", list(AckMode))
def test_mode_when_the_version_lacks_it_then_is_not_supported(version: Version, mode: AckMode) -> None:
    if version is Version.V1_0 and mode is AckMode.CLIENT_INDIVIDUAL:
        with pytest.raises(
            NotSupportedError, match=r"STOMP 1\.0 has no ack mode 'client-individual'; it has auto, client"
        ):
            require_ack_mode(mode, version)
    else:
        require_ack_mode(mode, version)


@pytest.mark.parametrize(
    ("version", "headers"),
    [
        (Version.V1_0, [("message-id", "m"), ("subscription", "s")]),
        (Version.V1_1, [("message-id", "m"), ("subscription", "s")]),
        (Version.V1_2, [("id", "a")]),
    ],
)
def test_ack_headers_when_the_message_has_them_then_are_those_of_the_version(
    version: Version, headers: list[tuple[str, str]]
) -> None:
    assert ack_headers(MESSAGE, version, subscription_id="s") == headers


@pytest.mark.parametrize(
    ("version", "name"), [(Version.V1_0, "message-id"), (Version.V1_1, "message-id"), (Version.V1_2, "ack")]
)
def test_ack_headers_when_the_message_lacks_them_then_refuse(version: Version, name: str) -> None:
    with pytest.raises(LocalProtocolError, match=f"no {name} header"):
        ack_headers(Headers({"id": "x"}), version, subscription_id="s")


def test_ack_headers_when_ack_can_be_forged_then_named_by_message_id() -> None:
    message = Headers([("ack", "forged"), ("message-id", "1,2"), ("ack", "1,2")])
    assert ack_headers(message, Version.V1_2, subscription_id="s", by_message_id=True) == [("id", "1,2")]
    assert ack_headers(message, Version.V1_2, subscription_id="s") == [("id", "forged")]


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


@pytest.mark.parametrize(
    ("left", "newest"), [("cba", "ba"), ("acb", "cb"), ("bca", "ca"), ("abc", "cc"), ("cab", "bb"), ("bac", "cc")]
)
def test_destination_when_several_subscribe_to_it_then_belongs_to_the_newest_that_is_open(
    left: str, newest: str
) -> None:
    book = OpenSubscriptions()
    for each in "abc":
        book.add(each, "/q", AckMode.AUTO)
    book.add("other", "/other", AckMode.AUTO)
    assert meant_by(book, "/q") == "c"

    for each, open_one in zip(left, newest, strict=False):
        book.forget(each)
        assert meant_by(book, "/q") == open_one

    book.forget(left[-1])
    assert meant_by(book, "/other") == "other"
    book.forget("other")
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
