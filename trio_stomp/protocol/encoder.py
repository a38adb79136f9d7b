"""Frames to octets. Strict: what cannot be represented is refused, never altered or dropped.

Spec: "STOMP Frames", "Value Encoding", "Header content-length", "Body".
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from trio_stomp.errors import LocalProtocolError
from trio_stomp.protocol.frames import BODY_COMMANDS, UNESCAPED_COMMANDS, Command
from trio_stomp.protocol.headers import REDACTED, SECRET_NAMES
from trio_stomp.protocol.versions import Version

__all__ = ["encode_ack", "encode_frame", "encode_head", "encode_heart_beat", "without_repeats"]

_V1_0: Final = Version.V1_0
_NO_1_0: Final = frozenset({Command.NACK, Command.STOMP})
# In place of the delimiters while a head is escaped: one that no header may hold, and one that hardly any does.
_LINE: Final = "\0"
_COLON: Final = "\1"
# The backslash first, so that the backslashes of the other escapes are not escaped again; str.translate is one pass.
_ESCAPES_1_1: Final = str.maketrans({"\\": "\\\\", "\n": "\\n", ":": "\\c"})
_ESCAPES_1_2: Final = str.maketrans({"\\": "\\\\", "\n": "\\n", ":": "\\c", "\r": "\\r"})


def encode_frame(
    command: Command,
    headers: Collection[tuple[str, str]],
    body: bytes = b"",
    *,
    version: Version,
    add_content_length: bool = True,
    escape_in_1_0: bool = False,
) -> bytes:
    """Encode one frame: LF only, headers in the given order, no octet after the NUL.

    Args:
        command: Its command.
        headers: Its headers in order, repeats allowed.
        body: Its body.
        version: The version in force; for CONNECT, STOMP and CONNECTED any, since they are never escaped.
        add_content_length: Add ``content-length`` to a frame that has a body and no such header. Without it, it is
            still added where the body holds a NUL, which could not be read back otherwise.
        escape_in_1_0: Escape in 1.0 too, for a broker that decodes escapes in every version (RabbitMQ).

    Returns:
        The octets of the frame.

    Raises:
        LocalProtocolError: The frame cannot be represented in this version; nothing is encoded.

    Spec: STOMP Frames; Value Encoding; Body; Header content-length.
    """
    head = _head(command, headers, version, escape_in_1_0)
    given = _first(headers, "content-length") if "content-length" in head else None
    if given is not None or (body and command not in BODY_COMMANDS):
        _check_body(command, body, version, given)
    # STOMP 1.2, Header content-length: a body with NUL octets MUST have it.
    if body and given is None and (add_content_length or b"\0" in body):
        head = f"{head}\ncontent-length:{len(body)}"
    try:
        return b"".join((head.encode(), b"\n\n", body, b"\0"))
    except UnicodeEncodeError as error:
        raise _not_utf_8(command, error) from None


def encode_head(
    command: Command, headers: Collection[tuple[str, str]], *, version: Version, escape_in_1_0: bool = False
) -> bytes:
    """Encode the command and the headers of a frame, without the end of the last line.

    Args:
        command: Its command.
        headers: Its headers in order, repeats allowed.
        version: The version in force; for CONNECT, STOMP and CONNECTED any, since they are never escaped.
        escape_in_1_0: Escape in 1.0 too.

    Raises:
        LocalProtocolError: They cannot be represented in this version.

    Spec: STOMP Frames; Value Encoding.
    """
    try:
        return _head(command, headers, version, escape_in_1_0).encode()
    except UnicodeEncodeError as error:
        raise _not_utf_8(command, error) from None


def _head(command: Command, headers: Collection[tuple[str, str]], version: Version, escape_in_1_0: bool) -> str:  # noqa: FBT001  # called for each frame, and names cost a tenth of it
    """The head up to its blank line."""
    if version is _V1_0 and command in _NO_1_0:
        msg = f"STOMP 1.0 has no {command.value} frame"
        raise LocalProtocolError(msg)
    head = "\n".join((command, *map(":".join, headers)))
    # One look at the whole for what nearly no header holds: an extra colon or line end, a backslash, a CR, a NUL,
    # an empty name. Six scans in C cost less than one check of each name and value.
    count = len(headers)
    if (
        head.count(":") != count
        or head.count("\n") != count
        or "\\" in head
        or "\r" in head
        or "\0" in head
        or "\n:" in head
    ):
        return _escaped(command, headers, version, escape_in_1_0=escape_in_1_0)
    return head


def _not_utf_8(command: Command, error: UnicodeEncodeError) -> LocalProtocolError:
    msg = f"{command.value} header text cannot be encoded as UTF-8: it holds a lone surrogate at {error.start}"
    return LocalProtocolError(msg)


def without_repeats(
    command: Command, own: list[tuple[str, str]], given: Collection[tuple[str, str]]
) -> list[tuple[str, str]]:
    """The headers that a call sets itself, and those that its caller gives.

    Raises:
        LocalProtocolError: The caller gives one that the call sets.

    Spec: Repeated Header Entries.
    """
    taken = dict(own)
    for name, _ in given:
        # The first wins, so ours would; better to say so than to send both.
        if name in taken:
            msg = f"header {name!r} of {command.value} is set by an argument of the call; don't repeat it"
            raise LocalProtocolError(msg)
    return [*own, *given]


def encode_ack(command: Command, ack: str, version: Version) -> bytes:
    """Encode an ACK or NACK of 1.2 that has no other header than its id: nearly every one, and one for each message.

    Raises:
        LocalProtocolError: The id cannot be represented.

    Spec: ACK; NACK.
    """
    if ack.isascii() and ack.isprintable() and ":" not in ack and "\\" not in ack:
        return f"{command}\nid:{ack}\n\n\0".encode()
    return encode_frame(command, [("id", ack)], version=version)


def _escaped(command: Command, headers: Collection[tuple[str, str]], version: Version, *, escape_in_1_0: bool) -> str:
    """The head up to its blank line, each name and value checked and escaped."""
    if command in UNESCAPED_COMMANDS or (version is Version.V1_0 and not escape_in_1_0):
        for name, value in headers:
            _refuse(command, name, value, name_octets=":\n\r\0", value_octets="\n\r\0", version=version)
        return "\n".join((command, *map(":".join, headers)))
    escaped = _escaped_at_once(command, headers, version)
    if escaped is not None:
        return escaped
    # 1.1 has no escape for CR, and peers disagree on a raw one: row 11-HDR-ESC-8.
    octets = "\0" if version is Version.V1_2 else "\r\0"
    table = _ESCAPES_1_2 if version is Version.V1_2 else _ESCAPES_1_1
    lines: list[str] = [command]
    for name, value in headers:
        _refuse(command, name, value, name_octets=octets, value_octets=octets, version=version)
        lines.append(f"{name.translate(table)}:{value.translate(table)}")
    return "\n".join(lines)


def _escaped_at_once(command: Command, headers: Collection[tuple[str, str]], version: Version) -> str | None:
    """The head up to its blank line, escaped as a whole; None where a name or a value has to be looked at by itself.

    Names and values are joined by characters that are no delimiters, and those become delimiters at the end: that is a
    handful of calls in C for all of them, in place of two for each.
    """
    head = _LINE.join((command, *map(_COLON.join, headers)))
    count = len(headers)
    if (
        head.count(_LINE) != count
        or head.count(_COLON) != count
        or _LINE + _COLON in head
        or ("\r" in head and version is not Version.V1_2)
    ):
        return None
    # The backslash first, as above.
    head = head.replace("\\", "\\\\").replace("\n", "\\n").replace(":", "\\c").replace("\r", "\\r")
    return head.replace(_LINE, "\n").replace(_COLON, ":")


def _refuse(command: Command, name: str, value: str, *, name_octets: str, value_octets: str, version: Version) -> None:
    """Raise for a header that the frame cannot carry: the guard against header injection."""
    if not name:
        msg = f"a header of {command.value} has an empty name"
        raise LocalProtocolError(msg)
    for kind, text, octets in (("name", name, name_octets), ("value", value, value_octets)):
        bad = next((octet for octet in octets if octet in text), None)
        if bad is not None:
            shown = REDACTED if kind == "value" and name.lower() in SECRET_NAMES else repr(text[:80])
            of_version = "" if command in UNESCAPED_COMMANDS else f" of STOMP {version.value}"
            msg = (
                f"the {kind} of header {name[:80]!r} holds {bad!r}, which a {command.value} frame{of_version} "
                f"cannot carry: {shown}"
            )
            raise LocalProtocolError(msg)


def _first(headers: Collection[tuple[str, str]], wanted: str) -> str | None:
    return next((value for name, value in headers if name == wanted), None)


def _check_body(command: Command, body: bytes, version: Version, given: str | None) -> None:
    """Raise for a body that the frame may not have, or that its own ``content-length`` does not fit."""
    if body and command not in BODY_COMMANDS and (version is not Version.V1_0 or command is Command.RECEIPT):
        # Row 10-BODY-4: in 1.0 any frame may have a body but RECEIPT.
        msg = f"a {command.value} frame has no body in STOMP {version.value}, got {len(body)} octets"
        raise LocalProtocolError(msg)
    if given is not None and given != str(len(body)):
        msg = f"content-length is {given!r}, but the body has {len(body)} octets; leave the header to the encoder"
        raise LocalProtocolError(msg)


def encode_heart_beat(version: Version) -> bytes:
    """The octet of a heart-beat: a bare LF, the one form that all of 1.1 and 1.2 take.

    Raises:
        LocalProtocolError: STOMP 1.0 has no heart-beats.
    """
    if version is Version.V1_0:
        msg = "STOMP 1.0 has no heart-beats"
        raise LocalProtocolError(msg)
    return b"\n"
