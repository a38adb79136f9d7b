"""What an ERROR means, by the brokers' own words."""

from __future__ import annotations

import pytest

from trio_stomp.brokers import is_authentication_refusal, is_final_refusal, is_link_trouble

CREDENTIALS = [
    ("Bad CONNECT", b"Access refused for user 'guest'\n"),
    ("Bad CONNECT", b"Virtual host 'x' access denied\n"),
    ("User name [guest] or password is invalid.", b"java.lang.SecurityException: ..."),
    ("Security Error occurred: User name [x] or password is invalid", b""),
    ("Failed to connect", b"The login account is not valid."),  # HornetQ
    ("See below", b"Invalid Login"),  # stompserver
    ("CONNECTION ERROR", b"CONNECTION ERROR"),  # stomp-broker-js
    ("connection error", b"connection error"),
    ("Authentication failed for guest", b"Authentication failed for guest"),  # CoilMQ
]
# The same CONNECT would be refused again for these, too.
FINAL = [
    ("Version mismatch", b"Supported versions are 1.0,1.1,1.2\n"),
    ("Invalid Protocol version[2.0], supported versions are: [1.2, 1.1, 1.0]", b"java.lang"),
    ("", b"Supported protocol versions are 1.2 2.1"),
    ("Virtual hosting is not supported or host is unknown", b""),
]
PASSING = [
    ("", b""),
    ("broker is starting", b""),
    ("Broker: b - Client: c already connected from tcp://127.0.0.1", b""),
    ("connection limit of virtual host '/' reached", b""),
    ("upgrading to version 4", b""),
    ("Invalid heart-beat header:abc", b"\xff" * 1000),
    ("See below", b"Unhandled frame: connect"),
    ("Failed to connect", b"The server is starting."),
    ("CONNECTION ERROR", b"too many connections"),
    ("Connection error: no database", b"CONNECTION ERROR"),
]
SILENCE = [
    ("AMQ229014: Did not receive data from /127.0.0.1:4711 within the 2000ms connection TTL.", b""),
    ("", b"AMQ229014: Did not receive data from /127.0.0.1:4711\nwithin the 2000ms connection TTL."),
    ("heart-beat missing", b"no octet came for 2.5 seconds"),
]
OF_A_FRAME = [
    ("not_found", b"NOT_FOUND - no exchange 'nope' in vhost '/'\n"),
    ("access_refused", b"ACCESS_REFUSED - access to queue 'a' refused"),
    ("Processing error", b"Processing error"),
]


@pytest.mark.parametrize(("message", "body"), CREDENTIALS + FINAL + PASSING)
def test_refusal_when_read_then_told_whether_it_is_about_credentials_and_final(message: str, body: bytes) -> None:
    assert is_authentication_refusal(message, body) is ((message, body) in CREDENTIALS)
    assert is_final_refusal(message, body) is ((message, body) not in PASSING)


@pytest.mark.parametrize(("message", "body"), SILENCE + OF_A_FRAME)
def test_error_when_it_is_about_silence_then_it_says_nothing_of_frames(message: str, body: bytes) -> None:
    assert is_link_trouble(message, body) is ((message, body) in SILENCE)
