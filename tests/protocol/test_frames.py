from __future__ import annotations

import pytest

from trio_stomp.protocol.frames import (
    BODY_COMMANDS,
    CLIENT_COMMANDS,
    SERVER_COMMANDS,
    UNESCAPED_COMMANDS,
    Command,
    Frame,
    Role,
)
from trio_stomp.protocol.headers import Headers


def test_role_when_asked_for_its_peer_then_names_the_other_side() -> None:
    assert Role.CLIENT.peer is Role.SERVER
    assert Role.SERVER.peer is Role.CLIENT


def test_commands_when_split_by_sender_then_none_is_missing_or_in_both() -> None:
    assert len(CLIENT_COMMANDS) == 11
    assert set(Command) == CLIENT_COMMANDS | SERVER_COMMANDS
    assert not CLIENT_COMMANDS & SERVER_COMMANDS
    assert {"SEND", "MESSAGE", "ERROR"} == BODY_COMMANDS
    assert {"CONNECT", "STOMP", "CONNECTED"} == UNESCAPED_COMMANDS


def test_frames_when_equal_in_all_parts_then_are_equal_and_hash_alike() -> None:
    one = Frame(command=Command.SEND, headers=Headers({"a": "b"}), body=b"x")
    other = Frame(command=Command.SEND, headers=Headers({"a": "b"}), body=b"x")

    assert one == other
    assert hash(one) == hash(other)
    assert one != Frame(command=Command.SEND)


@pytest.mark.parametrize(
    ("frame", "shown"),
    [
        (Frame(command=Command.DISCONNECT), "DISCONNECT []"),
        (Frame(command=Command.SEND, headers=Headers({"a": "b"}), body=b"x\0"), "SEND [('a', 'b')] 2 bytes b'x\\x00'"),
    ],
)
def test_frame_when_printed_then_shows_command_headers_and_body(frame: Frame, shown: str) -> None:
    assert str(frame) == shown
    assert repr(frame) == shown


def test_frame_when_printed_with_much_in_it_then_is_cut_short() -> None:
    frame = Frame(command=Command.SEND, headers=Headers({"a": "b" * 10_000}), body=b"x" * 10_000)

    assert len(str(frame)) < 500
    assert "b... 10000 bytes b'x" in str(frame)
    assert str(frame).endswith("...")


@pytest.mark.parametrize("beyond", [0, 1])
def test_frame_when_printed_then_headers_are_cut_at_320_characters_and_the_body_at_80_bytes(beyond: int) -> None:
    value, body = "b" * (320 - len("[('a', '')]") + beyond), b"x" * (80 + beyond)
    headers = f"[('a', '{value}')]"

    shown = str(Frame(command=Command.SEND, headers=Headers({"a": value}), body=body))

    cut = "..." if beyond else ""
    assert shown == f"SEND {headers[:320]}{cut} {80 + beyond} bytes {body[:80]!r}{cut}"


def test_frame_when_printed_with_a_passcode_then_hides_it() -> None:
    frame = Frame(command=Command.CONNECT, headers=Headers([("login", "guest"), ("passcode", "s3cret")]))

    assert "s3cret" not in str(frame)
    assert "guest" in str(frame)
