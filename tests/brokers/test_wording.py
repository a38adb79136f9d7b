"""What an ERROR means, by the brokers' own words."""

from __future__ import annotations

import pytest

from trio_stomp.brokers import is_authentication_refusal, is_final_refusal, is_link_trouble


@pytest.mark.parametrize(
    ("message", "body"),
    [
        ("Bad CONNECT", b"Access refused for user 'guest'\n"),
        ("Bad CONNECT", b"Virtual host 'x' access denied\n"),
        ("User name [guest] or password is invalid.", b"java.lang.SecurityException: ..."),
        ("Security Error occurred: User name [x] or password is invalid", b""),
        ("Failed to connect", b"The login account is not valid."),  # HornetQ
        ("See below", b"Invalid Login"),  # stompserver
        ("CONNECTION ERROR", b"CONNECTION ERROR"),  # stomp-broker-js
        ("Authentication failed for guest", b"Authentication failed for guest"),  # CoilMQ
    ],
)
def test_refusal_when_about_credentials_then_known(message: str, body: bytes) -> None:
    assert is_authentication_refusal(message, body)


@pytest.mark.parametrize(
    ("message", "body"),
    [
        ("Version mismatch", b"Supported versions are 1.0,1.1,1.2\n"),
        ("Broker: b - Client: c already connected from tcp://127.0.0.1", b""),
        ("Invalid heart-beat header:abc", b"\xff" * 1000),
        ("See below", b"Unhandled frame: connect"),
        ("Failed to connect", b"The server is starting."),
        ("CONNECTION ERROR", b"too many connections"),
        ("Connection error: no database", b"CONNECTION ERROR"),
    ],
)
def test_refusal_when_about_something_else_then_not_taken_for_it(message: str, body: bytes) -> None:
    assert not is_authentication_refusal(message, body)


@pytest.mark.parametrize(
    ("message", "body"),
    [
        ("Bad CONNECT", b"Access refused for user 'guest'\n"),
        ("Bad CONNECT", b"Virtual host 'x' access denied\n"),
        ("Version mismatch", b"Supported versions are 1.0,1.1,1.2\n"),
        ("Invalid Protocol version[2.0], supported versions are: [1.2, 1.1, 1.0]", b"java.lang"),
        ("", b"Supported protocol versions are 1.2 2.1"),
        ("Virtual hosting is not supported or host is unknown", b""),
        ("connection error", b"connection error"),
    ],
)
def test_refusal_when_the_same_connect_would_be_refused_again_then_it_is_final(message: str, body: bytes) -> None:
    assert is_final_refusal(message, body)


@pytest.mark.parametrize(
    "message",
    [
        "",
        "broker is starting",
        "Broker: b - Client: c already connected from tcp://127.0.0.1",
        "connection limit of virtual host '/' reached",
        "upgrading to version 4",
    ],
)
def test_refusal_when_it_may_be_over_later_then_it_is_not_final(message: str) -> None:
    assert not is_final_refusal(message, b"")


@pytest.mark.parametrize(
    ("message", "body"),
    [
        ("AMQ229014: Did not receive data from /127.0.0.1:4711 within the 2000ms connection TTL.", b""),
        ("", b"AMQ229014: Did not receive data from /127.0.0.1:4711\nwithin the 2000ms connection TTL."),
        ("heart-beat missing", b"no octet came for 2.5 seconds"),
    ],
)
def test_error_when_it_is_about_silence_then_it_says_nothing_of_frames(message: str, body: bytes) -> None:
    assert is_link_trouble(message, body)


@pytest.mark.parametrize(
    ("message", "body"),
    [
        ("not_found", b"NOT_FOUND - no exchange 'nope' in vhost '/'\n"),
        ("access_refused", b"ACCESS_REFUSED - access to queue 'a' refused"),
        ("Processing error", b"Processing error"),
    ],
)
def test_error_when_it_is_about_a_frame_then_it_is_no_trouble_of_the_link(message: str, body: bytes) -> None:
    assert not is_link_trouble(message, body)
