from __future__ import annotations

import pytest

from trio_stomp.errors import RemoteProtocolError
from trio_stomp.protocol.frames import Command, Frame
from trio_stomp.protocol.handshake import settle
from trio_stomp.protocol.headers import Headers
from trio_stomp.protocol.versions import ALL_VERSIONS, Version


def frame(command: Command, *pairs: tuple[str, str], body: bytes = b"") -> Frame:
    return Frame(command=command, headers=Headers(pairs), body=body)


@pytest.mark.parametrize("command", [Command.CONNECT, Command.STOMP])
def test_server_when_the_client_lists_versions_then_takes_the_highest(command: Command) -> None:
    asked = frame(command, ("accept-version", "1.0,1.1"), ("host", " h "))

    assert settle(asked, ALL_VERSIONS) == (Version.V1_1, asked)


def test_client_when_the_server_names_a_version_then_takes_it() -> None:
    answer = frame(Command.CONNECTED, ("version", "1.2"), ("session", " s "))

    assert settle(answer, ALL_VERSIONS) == (Version.V1_2, answer)


@pytest.mark.parametrize("command", [Command.CONNECT, Command.CONNECTED])
def test_either_side_when_the_version_is_1_0_then_trims_and_takes_a_body(command: Command) -> None:
    version, settled = settle(frame(command, ("a", "  b "), ("a", " c"), body=b"x"), ALL_VERSIONS)

    assert version is Version.V1_0
    assert settled == frame(command, ("a", "b"), ("a", "c"), body=b"x")


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (frame(Command.CONNECTED, ("version", "1.2"), body=b"x"), "no body, got 1 bytes"),
        (frame(Command.CONNECT, ("accept-version", "1.1"), body=b"x"), "no body"),
        (frame(Command.CONNECTED, ("version", "1.1"), ("content-length", " 0")), "spaces are not trimmed"),
        (frame(Command.CONNECTED, ("version", "1.2"), ("a", "b\rc")), "CR inside a header line"),
        (frame(Command.CONNECTED, ("version", "1.2"), ("a\rb", "c")), "CR inside a header line"),
        (frame(Command.CONNECTED, ("version", "2.0")), "not offered|offered only"),
        (frame(Command.CONNECT, ("accept-version", "2.0")), "no common version"),
    ],
)
def test_frame_when_its_version_forbids_it_then_is_refused(asked: Frame, told: str) -> None:
    with pytest.raises(RemoteProtocolError, match=told):
        settle(asked, ALL_VERSIONS)


def test_frame_when_its_version_is_1_1_then_may_hold_a_cr() -> None:
    answer = frame(Command.CONNECTED, ("version", "1.1"), ("a", "b\rc"))

    assert settle(answer, ALL_VERSIONS) == (Version.V1_1, answer)
