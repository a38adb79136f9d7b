"""What users give to be sent."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import cast

import pytest

from trio_stomp.brokers import ACTIVEMQ, RABBITMQ
from trio_stomp.errors import LocalProtocolError, NotSupportedError
from trio_stomp.protocol import ClientProtocol
from trio_stomp.session import send
from trio_stomp.session.connection import Connection
from trio_stomp.types import HeaderInput, Profile, SendOptions, Version


def outgoing(
    body: object,
    headers: HeaderInput | None,
    content_type: str | None,
    profile: Profile,
    options: SendOptions | None = None,
) -> send.Outgoing:
    return send.outgoing(("/q", body, headers, content_type, options), profile)


def encoded(
    connection: Connection,
    destination: str,
    body: object,
    headers: HeaderInput | None,
    content_type: str | None,
    options: SendOptions | None = None,
) -> object:
    return send.encode(connection, (destination, body, headers, content_type, options))


def test_outgoing_when_bytes_then_bytes_without_a_content_type() -> None:
    message = outgoing(b"\0\xff", None, None, RABBITMQ)
    assert (message.body, message.headers, message.content_length) == (b"\0\xff", [], True)


def test_outgoing_when_bytearray_then_a_copy_is_taken() -> None:
    body = bytearray(b"abc")
    message = outgoing(body, None, None, RABBITMQ)
    body[0] = 0
    assert message.body == b"abc"


def test_outgoing_when_text_then_utf8_and_its_type_is_named() -> None:
    """Rows 1x-CTYPE-1, 1x-CTYPE-8."""
    message = outgoing("č", {"k": "v"}, None, RABBITMQ)
    assert message.body == b"\xc4\x8d"
    assert message.headers == [("content-type", "text/plain;charset=utf-8"), ("k", "v")]
    assert message.content_length is True


def test_outgoing_when_text_to_a_jms_broker_then_no_content_length() -> None:
    """Row 10-CTYPE-9."""
    assert outgoing("x", None, None, ACTIVEMQ).content_length is False
    assert outgoing(b"x", None, None, ACTIVEMQ).content_length is True


def test_outgoing_when_content_type_is_given_then_it_comes_first() -> None:
    message = outgoing("{}", {"k": "v"}, "application/json", RABBITMQ)
    assert message.headers == [("content-type", "application/json"), ("k", "v")]


@pytest.mark.parametrize("content_type", ["json", "", "/json", "application/", "a b/c"])
def test_outgoing_when_content_type_is_no_mime_type_then_error(content_type: str) -> None:
    """Row 12-CTYPE-2."""
    with pytest.raises(LocalProtocolError, match="MIME type"):
        outgoing(b"", None, content_type, RABBITMQ)


@pytest.mark.parametrize("body", [None, 1, {"a": 1}, ["x"]])
def test_outgoing_when_body_is_neither_then_error_says_what_to_do(body: object) -> None:
    with pytest.raises(LocalProtocolError, match=r"must be bytes or str, got a .*pass json= to send JSON"):
        outgoing(body, None, None, RABBITMQ)


def test_outgoing_when_the_type_is_a_header_then_it_wins_over_the_default() -> None:
    message = outgoing("{}", {"k": "v", "content-type": "application/json"}, None, RABBITMQ)
    assert message.headers == [("content-type", "application/json"), ("k", "v")]


def test_outgoing_when_the_type_is_given_twice_then_refused() -> None:
    with pytest.raises(LocalProtocolError, match="given twice"):
        outgoing("{}", {"content-type": "application/json"}, "text/plain", RABBITMQ)


def test_outgoing_when_text_and_its_type_names_a_charset_then_written_in_that() -> None:
    message = outgoing("é", None, "text/plain;charset=iso-8859-1", RABBITMQ)
    assert message.body == b"\xe9"
    assert message.headers == [("content-type", "text/plain;charset=iso-8859-1")]


def test_outgoing_when_text_is_not_utf8_then_a_jms_broker_gets_it_as_bytes() -> None:
    assert outgoing("é", None, "text/plain;charset=iso-8859-1", ACTIVEMQ).content_length is True
    assert outgoing("é", None, "text/plain;charset=UTF-8", ACTIVEMQ).content_length is False
    assert outgoing("é", None, "application/json", ACTIVEMQ).content_length is False


def test_outgoing_when_the_charset_lacks_a_character_then_error() -> None:
    with pytest.raises(LocalProtocolError, match="cannot be written in iso8859-1, which its content-type names"):
        outgoing("č", None, "text/plain;charset=iso-8859-1", RABBITMQ)


def test_outgoing_when_the_link_carries_text_alone_then_bytes_must_be_utf8() -> None:
    profile = ACTIVEMQ.over_websocket()
    assert outgoing("č".encode(), None, None, profile).body == b"\xc4\x8d"
    with pytest.raises(NotSupportedError, match="over a WebSocket ActiveMQ Classic drops bodies that are not UTF-8"):
        outgoing(b"\xff", None, None, profile)
    with pytest.raises(NotSupportedError, match="drops bodies that are not UTF-8"):
        outgoing("é", None, "text/plain;charset=iso-8859-1", profile)


def test_outgoing_when_options_are_given_then_their_headers_follow() -> None:
    message = outgoing(b"", {"k": "v"}, None, RABBITMQ, {"persistent": True, "ttl": 2, "priority": 3})
    assert message.headers == [("k", "v"), ("persistent", "true"), ("expiration", "2000"), ("priority", "3")]


def test_outgoing_when_time_to_live_ends_at_a_time_then_it_is_counted_from_now() -> None:
    before = time.time()
    ((name, value),) = outgoing(b"", None, None, ACTIVEMQ, {"ttl": 60}).headers
    assert name == "expires"
    assert (before + 59.9) * 1000 < int(value) < (time.time() + 60.1) * 1000


def test_outgoing_when_an_option_is_given_as_a_header_too_then_error() -> None:
    with pytest.raises(LocalProtocolError, match="the header 'persistent' is given twice"):
        outgoing(b"", {"persistent": "false"}, None, RABBITMQ, {"persistent": True})


def test_outgoing_when_an_option_does_not_exist_then_type_error() -> None:
    with pytest.raises(TypeError, match="no argument 'persistant'"):
        outgoing(b"", None, None, RABBITMQ, {"persistant": True})  # type: ignore[arg-type]  # the point


TYPES = [None, "application/json", "text/plain;charset=UTF-8"]


def session() -> ClientProtocol:
    protocol = ClientProtocol(versions=[Version.V1_2])
    protocol.connect(host="/")
    protocol.receive_data(b"CONNECTED\nversion:1.2\n\n\0")
    return protocol


def connection(profile: Profile) -> Connection:
    """What `encoded` uses of a connection, without one."""
    return cast("Connection", SimpleNamespace(profile=profile, protocol=session(), observer=None))


@pytest.mark.parametrize("profile", [RABBITMQ, ACTIVEMQ])
@pytest.mark.parametrize("content_type", TYPES)
@pytest.mark.parametrize("body", [b"a", "č"])
def test_encode_when_nothing_is_special_then_it_is_the_same_message(
    profile: Profile, content_type: str | None, body: bytes | str
) -> None:
    plain = encoded(connection(profile), "/q", body, {"k": "v"}, content_type)
    exact = outgoing(body, {"k": "v"}, content_type, profile)

    frame = session().send("/q", exact.body, headers=exact.headers, content_length=exact.content_length)
    assert plain == (frame, frame, len(exact.body), None)


def test_encode_when_the_type_is_a_header_then_it_is_put_first_and_the_dict_stays_as_it_was() -> None:
    headers = {"k": "v", "content-type": "a/b"}

    plain = encoded(connection(RABBITMQ), "/q", b"x", headers, None)

    frame = b"SEND\ndestination:/q\ncontent-type:a/b\nk:v\ncontent-length:1\n\nx\0"
    assert plain == (frame, frame, 1, None)
    assert headers == {"k": "v", "content-type": "a/b"}


@pytest.mark.parametrize("headers", [None, {}, {"k": "v"}])
def test_encode_when_options_are_given_then_their_headers_follow(headers: dict[str, str] | None) -> None:
    plain = encoded(connection(RABBITMQ), "/q", b"x", headers, None, {"persistent": True, "priority": 3})

    lines = b"\nk:v" if headers else b""
    asked = b"\npersistent:true\npriority:3\ncontent-length:1\n\nx\0"
    frame = b"SEND\ndestination:/q" + lines + asked
    assert plain == (frame, frame, 1, None)


def test_encode_when_an_option_cannot_be_meant_then_refused() -> None:
    with pytest.raises(TypeError, match="no argument 'persistant'"):
        encoded(connection(RABBITMQ), "/q", b"", None, None, {"persistant": True})  # type: ignore[arg-type]  # the point
    with pytest.raises(NotSupportedError):
        encoded(connection(RABBITMQ), "/q", b"", None, None, {"group": "g"})
