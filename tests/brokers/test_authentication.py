"""Which refusals are about credentials: by the brokers' own words."""

from __future__ import annotations

import pytest

from trio_stomp.brokers import is_authentication_refusal


@pytest.mark.parametrize(
    ("message", "body"),
    [
        ("Bad CONNECT", b"Access refused for user 'guest'\n"),
        ("Bad CONNECT", b"Virtual host 'x' access denied\n"),
        ("User name [guest] or password is invalid.", b"java.lang.SecurityException: ..."),
        ("Security Error occurred: User name [x] or password is invalid", b""),
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
    ],
)
def test_refusal_when_about_something_else_then_not_taken_for_it(message: str, body: bytes) -> None:
    assert not is_authentication_refusal(message, body)
