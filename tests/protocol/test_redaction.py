"""Secrets: which headers hold them, and how they are taken out of text that quotes them."""

from __future__ import annotations

import base64
import json
import re
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_stomp.protocol import (
    ClientProtocol,
    DraftClientProtocol,
    ErrorReceived,
    Secrets,
    Violation,
    is_secret_header,
)
from trio_stomp.types import Command, Frame, Headers

SECRET = "s3cr3t:p@ss\\w/rd"


@pytest.mark.parametrize(
    "name",
    [
        *("passcode", "Password", "user-pass", "Authorization", "proxy-authorization", "x-auth-token", "X-Api-Key"),
        *("ssl-key-password", "client_secret", "set-cookie", "x-amz-signature", "jwt", "x-authentication", "pwd"),
    ],
)
def test_header_when_its_name_says_so_then_is_secret(name: str) -> None:
    assert is_secret_header(name)


@pytest.mark.parametrize(
    "name", ["destination", "author", "authority", "x-dead-letter-routing-key", "passengers", "login", "client-id", ""]
)
def test_header_when_its_name_does_not_say_so_then_is_not_secret(name: str) -> None:
    assert not is_secret_header(name)


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        *((name, True) for name in ("x-session", "x", "passcode")),
        *((name, False) for name in ("accept-version", "client-id", "client-type", "content-length", "content-type")),
        *((name, False) for name in ("heart-beat", "host", "Login", "origin", "receipt", "request-id", "user-agent")),
        *((name, False) for name in ("username", "version")),
    ],
)
def test_header_when_sent_to_connect_then_is_secret_unless_known_to_be_harmless(name: str, *, secret: bool) -> None:
    assert is_secret_header(name, of_connect=True) is secret


def test_connect_when_shown_then_only_harmless_headers_are() -> None:
    shown = str(Frame(Command.CONNECT, Headers({"host": "/", "client-id": "me", "x-session": "hush", "passcode": "p"})))

    assert "hush" not in shown
    assert shown.count("[redacted]") == 2
    assert "('client-id', 'me')" in shown
    # Elsewhere the name decides.
    assert "hush" in str(Frame(Command.SEND, Headers({"x-session": "hush"})))


@pytest.mark.parametrize(
    "spelled",
    [
        SECRET,
        SECRET.replace("\\", "\\\\"),
        SECRET.replace("\\", "\\\\").replace(":", "\\c"),
        quote(SECRET),
        quote(SECRET, safe=""),
        quote(SECRET, safe="").replace("%3A", "%3a").replace("%5C", "%5c").replace("%2F", "%2f"),
        json.dumps(SECRET)[1:-1],
        base64.b64encode(SECRET.encode()).decode(),
        base64.b64encode(f"joe:{SECRET}".encode()).decode(),
        base64.urlsafe_b64encode(f"joe:{SECRET}".encode()).decode().rstrip("="),
    ],
)
@pytest.mark.parametrize("sent", [SECRET, SECRET.replace("\\", "\\\\")])
def test_text_when_it_spells_a_secret_in_any_way_then_masked(spelled: str, sent: str) -> None:
    secrets = Secrets([("login", "joe"), ("passcode", sent)])

    for text in (spelled, f"a{spelled}b", f"passcode:{spelled}\nhost:/", f"stomp://joe:{spelled}@broker"):
        masked = secrets.masked(text)
        assert spelled.rstrip("=") not in masked
        assert "[redacted]" in masked


def test_text_when_python_spells_a_secret_then_masked_to_its_last_character() -> None:
    secret = "p4ss\x07w0rd\x1b"

    shown = Secrets([("login", "joe"), ("passcode", secret)]).masked(f"no user with {secret!r}, sorry")

    assert shown == "no user with '[redacted]', sorry"


@pytest.mark.parametrize("login", ["guest", "joe"])
@pytest.mark.parametrize("quoted", ["passcode:guest", "password = 'guest'", '"passcode": "guest"', "token,(guest)"])
def test_text_when_a_name_stands_before_a_secret_then_any_word_is_masked(login: str, quoted: str) -> None:
    masked = Secrets([("login", login), ("passcode", "guest")]).masked(f"bad frame: {quoted}, sorry")

    assert "guest" not in masked
    assert masked.endswith(", sorry")


@pytest.mark.parametrize(
    ("login", "passcode", "text"),
    [
        ("guest", "guest", "Access refused for user 'guest'"),
        ("joe", "password", "User name [joe] or password is invalid."),
        ("joe", "abc", "ABC or abc"),
        ("joe", "hush", "hushed, unhushable"),
        # Only what follows the scheme of a header is a secret by itself, and a phrase has none.
        ("joe", "hush these words", "these words are in other texts too"),
        ("joe", "", "nothing: '' [] passcode:"),
    ],
)
def test_text_when_a_passcode_is_a_word_of_it_then_stays(login: str, passcode: str, text: str) -> None:
    assert Secrets([("login", login), ("passcode", passcode)]).masked(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "Access refused for user. Virtual host access denied",
        "User name or password is invalid. The login account is not valid",
        "Failed to connect. Authentication failed. Security Error",
        "Client not authorized; client not authorised; bad username or passcode",
        "Unknown queue, topic or subscription in the current session",
        "Server error. Invalid header of a message frame; no heart-beat (heartbeat) on the broker connection",
        "Version not supported",
    ],
)
def test_text_when_a_passcode_is_any_word_that_brokers_use_then_stays(text: str) -> None:
    for word in re.findall("[A-Za-z-]+", text):
        assert Secrets([("passcode", word)]).masked(text) == text


def test_text_when_it_has_the_part_of_a_header_behind_its_scheme_then_masked() -> None:
    basic = base64.b64encode(b"joe:s3cr3t-passcode").decode()
    secrets = Secrets([("authorization", "Bearer t0k3n-t0k3n"), ("proxy-authorization", f"Basic {basic}")])

    assert secrets.masked("t0k3n-t0k3n") == secrets.masked(basic) == secrets.masked("s3cr3t-passcode") == "[redacted]"


@pytest.mark.parametrize("before", ["", "token: "])
def test_text_when_one_secret_begins_like_another_then_the_longer_is_masked_to_its_end(before: str) -> None:
    secrets = Secrets([("passcode", "s3cr3t-1"), ("x-token", "s3cr3t-1-and-more")])

    assert secrets.masked(f"{before}s3cr3t-1-and-more") == f"{before}[redacted]"


def test_text_when_it_ends_in_the_middle_of_a_secret_then_the_rest_is_masked() -> None:
    secrets = Secrets([("passcode", "s3cr3t-passcode")])

    assert secrets.masked_quotation("got 'CONNECT s3cr3t-pa'... and more") == "got 'CONNECT [redacted]'... and more"
    assert secrets.masked_quotation("CONNECT s3cr3") == "CONNECT [redacted]"


@given(value=st.text(min_size=8), login=st.text(), before=st.text(), after=st.text())
def test_text_when_any_long_secret_with_a_digit_is_in_it_then_masked(
    value: str, login: str, before: str, after: str
) -> None:
    secret = f"{value}7{value}"
    secrets = Secrets([("login", login), ("passcode", secret)])

    assert secret not in secrets.masked(f"{before}{secret}{after}")


@pytest.mark.parametrize("size", [1_000, 100_000])
def test_text_when_hostile_then_masked_in_linear_time(size: int) -> None:
    secrets = Secrets([("login", "joe"), ("passcode", "guest"), ("authorization", "Bearer " + "a" * 200)])

    for text in ("pass" * size, "pass" + " " * size, "passcode:" * size, "a" * size, "[redacted]" * size):
        assert "guest" not in secrets.masked_quotation(text)


# --- in the session ---------------------------------------------------------------------------------------------------


def refused_with(answer: bytes, headers: list[tuple[str, str]]) -> object:
    protocol = ClientProtocol()
    protocol.connect(host="/", headers=headers)
    (event,) = protocol.receive_data(answer)
    return event


def test_error_when_it_quotes_secrets_then_message_headers_and_body_are_masked() -> None:
    answer = (
        b"ERROR\nmessage:bad passcode s3cr3t-1\npasscode:s3cr3t-1\nx-echo:t0k3n\nreceipt-id:r-1\n\n"
        b"CONNECT\nlogin:joe\npasscode:s3cr3t-1\nx-gateway:t0k3n\xff\n\0"
    )
    event = refused_with(answer, [("login", "joe"), ("passcode", "s3cr3t-1"), ("x-gateway", "t0k3n")])

    assert isinstance(event, ErrorReceived)
    error = event.as_exception()
    for shown in (str(error), repr(error), str(dict(error.headers)), str(error.body), str(event.frame)):
        assert "s3cr3t" not in shown
        assert "t0k3n" not in shown
    assert error.receipt_id == "r-1"
    assert error.body.endswith(b"login:joe\npasscode:[redacted]\nx-gateway:[redacted]\xff\n")


@pytest.mark.parametrize("name", ["content-length", "content-type", "receipt-id", "subscription", "version"])
def test_error_when_a_header_is_no_text_then_a_secret_that_it_equals_stays(name: str) -> None:
    answer = b"ERROR\nmessage:not 2024\n%b:2024\n\n%b\0" % (name.encode(), b"x" * 2024)
    event = refused_with(answer, [("passcode", "2024")])

    assert isinstance(event, ErrorReceived)
    assert dict(event.frame.headers) == {"message": "not [redacted]", name: "2024"}


def test_error_when_the_session_is_of_the_draft_then_masked_too() -> None:
    protocol = DraftClientProtocol()
    protocol.connect(host="/", headers=[("login", "joe"), ("passcode", "s3cr3t-1")])
    (event,) = protocol.receive_data(b"ERROR\nmessage:not s3cr3t-1, joe\n\n\0")

    assert isinstance(event, ErrorReceived)
    assert event.frame.headers["message"] == "not [redacted], joe"


def test_error_when_nothing_secret_was_sent_then_is_as_it_came() -> None:
    event = refused_with(b"ERROR\nmessage:no passcode\n\npasscode:\0", [("login", "joe")])

    assert isinstance(event, ErrorReceived)
    assert (event.frame.headers["message"], event.frame.body) == ("no passcode", b"passcode:")


@pytest.mark.parametrize(
    "answer", [b"s3cr3t-passcode\n", b"got: CONNECT s3cr3t-passcode and so on, but what is this for a frame\n"]
)
def test_violation_when_it_quotes_a_secret_then_masked(answer: bytes) -> None:
    event = refused_with(answer, [("passcode", "s3cr3t-passcode")])

    assert isinstance(event, Violation)
    assert "s3cr3t" not in str(event.error)
