"""The commands of each side in each version, and the headers they must have.

Spec: "Frames and Headers" (the table), and the section of each frame.
"""

from __future__ import annotations

from typing import Final

from trio_stomp.errors import RemoteProtocolError
from trio_stomp.protocol.frames import CLIENT_COMMANDS, SERVER_COMMANDS, Command, Frame, Role
from trio_stomp.protocol.headers import Headers
from trio_stomp.protocol.versions import Version

__all__ = ["ACK_MODES", "commands_from", "missing_header", "needed_headers", "require_headers"]

_V1_0, _V1_1, _V1_2 = Version.V1_0, Version.V1_1, Version.V1_2

# STOMP 1.2, Frames and Headers, "REQUIRED"; a pair that is not listed needs none.
_REQUIRED: Final[dict[tuple[Command, Version], tuple[str, ...]]] = {
    # Row 1x-CONN-9, 10: 1.0 requires nothing, and brokers accept a CONNECT without login.
    (Command.CONNECT, _V1_1): ("accept-version", "host"),
    (Command.CONNECT, _V1_2): ("accept-version", "host"),
    (Command.STOMP, _V1_1): ("accept-version", "host"),
    (Command.STOMP, _V1_2): ("accept-version", "host"),
    (Command.CONNECTED, _V1_1): ("version",),
    (Command.CONNECTED, _V1_2): ("version",),
    (Command.SEND, _V1_0): ("destination",),
    (Command.SEND, _V1_1): ("destination",),
    (Command.SEND, _V1_2): ("destination",),
    (Command.SUBSCRIBE, _V1_0): ("destination",),
    (Command.SUBSCRIBE, _V1_1): ("destination", "id"),
    (Command.SUBSCRIBE, _V1_2): ("destination", "id"),
    # 1.0 requires destination or id: see missing_header.
    (Command.UNSUBSCRIBE, _V1_1): ("id",),
    (Command.UNSUBSCRIBE, _V1_2): ("id",),
    (Command.ACK, _V1_0): ("message-id",),
    (Command.ACK, _V1_1): ("message-id", "subscription"),
    (Command.ACK, _V1_2): ("id",),
    (Command.NACK, _V1_1): ("message-id", "subscription"),
    (Command.NACK, _V1_2): ("id",),
    **{
        (command, version): ("transaction",)
        for command in (Command.BEGIN, Command.COMMIT, Command.ABORT)
        for version in Version
    },
    (Command.MESSAGE, _V1_0): ("destination", "message-id"),
    (Command.MESSAGE, _V1_1): ("destination", "message-id", "subscription"),
    (Command.MESSAGE, _V1_2): ("destination", "message-id", "subscription"),
    **{(Command.RECEIPT, version): ("receipt-id",) for version in Version},
}

# Row 10-SUB-18: 1.0 has no client-individual.
ACK_MODES: Final[dict[Version, frozenset[str]]] = {
    _V1_0: frozenset({"auto", "client"}),
    _V1_1: frozenset({"auto", "client", "client-individual"}),
    _V1_2: frozenset({"auto", "client", "client-individual"}),
}

_HANDSHAKE: Final[dict[Role, frozenset[Command]]] = {
    Role.CLIENT: frozenset({Command.CONNECT, Command.STOMP}),
    Role.SERVER: frozenset({Command.CONNECTED, Command.ERROR}),
}


def commands_from(role: Role, version: Version | None, *, longest_bytes: int) -> dict[str, Command]:
    """The commands that `role` may send, by their text; None is the handshake, before a version is agreed.

    Commands longer than `longest_bytes` are left out: a limit below them is a limit on them too.
    """
    if version is None:
        commands = _HANDSHAKE[role]
    elif role is Role.SERVER:
        commands = SERVER_COMMANDS
    elif version is Version.V1_0:
        # Row 10-FRM-16: 1.0 has neither NACK nor STOMP.
        commands = CLIENT_COMMANDS - {Command.NACK, Command.STOMP}
    else:
        commands = CLIENT_COMMANDS
    return {command.value: command for command in sorted(commands) if len(command) <= longest_bytes}


def needed_headers(command: Command, version: Version) -> tuple[str, ...]:
    """The headers that every frame of `command` must have in `version`."""
    return _REQUIRED.get((command, version), ())


def missing_header(frame: Frame, version: Version, *, ack_mode: str | None = None) -> str | None:
    """The first required header that `frame` lacks in `version`, or has with a value that is not allowed.

    Args:
        frame: The frame to look at.
        version: The STOMP version.
        ack_mode: For a MESSAGE, the ack mode of its subscription: in the client modes 1.2 requires an ``ack`` header.

    Returns:
        The header's name, or None.

    Spec: Frames and Headers.
    """
    headers = frame.headers
    for name in needed_headers(frame.command, version):
        if name not in headers:
            return name
    match frame.command:
        case Command.SUBSCRIBE if headers.get("ack", "auto") not in ACK_MODES[version]:
            return "ack"
        case Command.MESSAGE if version is _V1_2 and ack_mode not in (None, "auto") and "ack" not in headers:
            return "ack"
        case Command.UNSUBSCRIBE if version is _V1_0 and _names_nothing(headers):
            return "destination"
        case _:
            return None


def require_headers(frame: Frame, version: Version) -> None:
    """Raise for a frame of the peer that lacks a header; see `missing_header`.

    Raises:
        RemoteProtocolError: A required header is missing.
    """
    missing = missing_header(frame, version)
    if missing is not None:
        raise RemoteProtocolError(
            f"a {frame.command.value} frame of STOMP {version.value} must have the header {missing}: {frame}"
        )


def _names_nothing(headers: Headers) -> bool:
    return "destination" not in headers and "id" not in headers
