from __future__ import annotations

import pytest

from trio_stomp.errors import RemoteProtocolError
from trio_stomp.protocol.frames import CLIENT_COMMANDS, SERVER_COMMANDS, Command, Frame, Role
from trio_stomp.protocol.header_rules import commands_from, missing_header, needed_headers, require_headers
from trio_stomp.protocol.headers import Headers
from trio_stomp.protocol.versions import Version

V1_0, V1_1, V1_2 = Version.V1_0, Version.V1_1, Version.V1_2


@pytest.mark.parametrize(
    ("role", "version", "commands"),
    [
        (Role.CLIENT, None, {"CONNECT", "STOMP"}),
        (Role.SERVER, None, {"CONNECTED", "ERROR"}),
        (Role.CLIENT, V1_0, CLIENT_COMMANDS - {"NACK", "STOMP"}),
        (Role.CLIENT, V1_1, CLIENT_COMMANDS),
        (Role.CLIENT, V1_2, CLIENT_COMMANDS),
        (Role.SERVER, V1_0, SERVER_COMMANDS),
        (Role.SERVER, V1_2, SERVER_COMMANDS),
    ],
)
def test_commands_when_asked_by_sender_and_version_then_are_those_it_has(
    role: Role, version: Version | None, commands: set[str]
) -> None:
    """Rows 1x-FRM-15, 10-FRM-15, 1x-FRM-16, 10-FRM-16."""
    found = commands_from(role, version, longest_bytes=64)

    assert set(found) == set(commands)
    assert all(name == command.value for name, command in found.items())


def test_commands_when_the_limit_is_short_then_leave_out_longer_ones() -> None:
    assert set(commands_from(Role.SERVER, V1_2, longest_bytes=7)) == {"MESSAGE", "RECEIPT", "ERROR"}


# 1.2, "Frames and Headers", and what 1.0 and 1.1 say of each frame. All of a frame's headers, by version.
NEEDED = {
    Command.CONNECT: ((), ("accept-version", "host"), ("accept-version", "host")),
    Command.STOMP: ((), ("accept-version", "host"), ("accept-version", "host")),
    Command.CONNECTED: ((), ("version",), ("version",)),
    Command.SEND: (("destination",),) * 3,
    Command.SUBSCRIBE: (("destination",), ("destination", "id"), ("destination", "id")),
    Command.UNSUBSCRIBE: ((), ("id",), ("id",)),
    Command.ACK: (("message-id",), ("message-id", "subscription"), ("id",)),
    Command.NACK: ((), ("message-id", "subscription"), ("id",)),
    Command.BEGIN: (("transaction",),) * 3,
    Command.COMMIT: (("transaction",),) * 3,
    Command.ABORT: (("transaction",),) * 3,
    Command.DISCONNECT: ((),) * 3,
    Command.MESSAGE: (("destination", "message-id"), *((("destination", "message-id", "subscription"),) * 2)),
    Command.RECEIPT: (("receipt-id",),) * 3,
    Command.ERROR: ((),) * 3,
}
CELLS = [
    (command, version, needed[index]) for command, needed in NEEDED.items() for index, version in enumerate(Version)
]


@pytest.mark.parametrize(("command", "version", "needed"), CELLS)
def test_needed_headers_when_asked_by_command_and_version_then_are_those_of_the_table(
    command: Command, version: Version, needed: tuple[str, ...]
) -> None:
    assert needed_headers(command, version) == needed


@pytest.mark.parametrize(("command", "version", "needed"), CELLS)
def test_missing_header_when_one_is_absent_then_is_named(
    command: Command, version: Version, needed: tuple[str, ...]
) -> None:
    """Row 12-TAB-1."""
    for absent in needed:
        headers = Headers({name: "v" for name in (*needed, "x") if name != absent})
        assert missing_header(Frame(command=command, headers=headers), version) == absent


@pytest.mark.parametrize(("command", "version", "needed"), CELLS)
def test_missing_header_when_all_are_there_then_is_none(
    command: Command, version: Version, needed: tuple[str, ...]
) -> None:
    headers = Headers(dict.fromkeys(needed, "v") | {"id": "v"})

    assert missing_header(Frame(command=command, headers=headers), version) is None


@pytest.mark.parametrize("version", list(Version))
@pytest.mark.parametrize("mode", ["auto", "client", "client-individual", "never", ""])
def test_missing_header_when_subscribe_has_an_ack_mode_then_judges_it(version: Version, mode: str) -> None:
    """Rows 1x-SUB-6, 10-SUB-6, 10-SUB-18."""
    frame = Frame(command=Command.SUBSCRIBE, headers=Headers({"id": "1", "destination": "/q", "ack": mode}))

    allowed = {"auto", "client"} if version is V1_0 else {"auto", "client", "client-individual"}
    assert missing_header(frame, version) == (None if mode in allowed else "ack")


@pytest.mark.parametrize(
    ("version", "mode", "headers", "missing"),
    [
        (V1_2, "client", {}, "ack"),
        (V1_2, "client-individual", {}, "ack"),
        (V1_2, "client", {"ack": "1"}, None),
        (V1_2, "auto", {}, None),
        (V1_2, None, {}, None),
        (V1_1, "client", {}, None),
        (V1_0, "client", {}, None),
    ],
)
def test_missing_header_when_a_message_must_be_acknowledged_then_1_2_wants_ack(
    version: Version, mode: str | None, headers: dict[str, str], missing: str | None
) -> None:
    """Row 12-MSG-3."""
    complete = Headers({"destination": "/q", "message-id": "1", "subscription": "s"} | headers)

    assert missing_header(Frame(command=Command.MESSAGE, headers=complete), version, ack_mode=mode) == missing


@pytest.mark.parametrize(
    ("headers", "missing"), [({"destination": "/q"}, None), ({"id": "1"}, None), ({"x": "y"}, "destination")]
)
def test_missing_header_when_unsubscribe_of_1_0_names_nothing_then_is_destination(
    headers: dict[str, str], missing: str | None
) -> None:
    """Row 10-UNSUB-3."""
    assert missing_header(Frame(command=Command.UNSUBSCRIBE, headers=Headers(headers)), V1_0) == missing


def test_frame_when_it_lacks_a_header_then_refused_by_name() -> None:
    frame = Frame(command=Command.RECEIPT)

    with pytest.raises(RemoteProtocolError, match=r"RECEIPT frame of STOMP 1[.]2 must have a receipt-id header"):
        require_headers(frame, Version.V1_2)
    require_headers(Frame(command=Command.RECEIPT, headers=Headers({"receipt-id": "1"})), Version.V1_2)
