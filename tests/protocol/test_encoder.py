from __future__ import annotations

import pytest

from trio_stomp.errors import LocalProtocolError
from trio_stomp.protocol import encode_frame
from trio_stomp.types import Command, Version

V1_0, V1_1, V1_2 = Version.V1_0, Version.V1_1, Version.V1_2
SEND, RECEIPT = Command.SEND, Command.RECEIPT


def test_headers_when_given_as_the_items_of_a_dict_then_are_taken() -> None:
    assert encode_frame(SEND, {"a": "b"}.items(), version=V1_2) == b"SEND\na:b\n\n\0"


def test_special_bytes_when_a_broker_decodes_them_in_1_0_then_are_escaped_there() -> None:
    data = encode_frame(SEND, [("a", "b:c\\\n")], version=V1_0, escape_in_1_0=True)

    assert data == b"SEND\na:b\\cc\\\\\\n\n\n\0"


@pytest.mark.parametrize("version", list(Version))
@pytest.mark.parametrize("command", [Command.CONNECT, Command.CONNECTED])
@pytest.mark.parametrize("escape_in_1_0", [False, True])
def test_handshake_when_it_holds_special_bytes_then_is_never_escaped(
    version: Version, command: Command, escape_in_1_0: bool
) -> None:
    """Row 1x-HDR-ESC-10."""
    data = encode_frame(command, [("a\\n", "b:c\\")], version=version, escape_in_1_0=escape_in_1_0)

    assert data == command.encode() + b"\na\\n:b:c\\\n\n\0"


# Most of what cannot be sent is in the vectors.
@pytest.mark.parametrize(
    ("command", "version", "name", "value"),
    [
        (SEND, V1_0, "a\n", "c"),
        (SEND, V1_2, "", "b:c"),
        (SEND, V1_2, "a:\udfff", "b"),
        (Command.STOMP, V1_2, "", "b"),
    ],
)
def test_header_when_the_frame_cannot_carry_it_then_is_refused(
    command: Command, version: Version, name: str, value: str
) -> None:
    for headers in [("ok", "ok"), (name, value)], [(name, value), ("ok", "ok")]:
        with pytest.raises(LocalProtocolError):
            encode_frame(command, headers, version=version)


@pytest.mark.parametrize(("header", "kind"), [(("a\0", "b"), "name"), (("a", "b\0"), "value")])
def test_header_when_it_is_refused_then_the_error_says_which_part_of_it(header: tuple[str, str], kind: str) -> None:
    with pytest.raises(LocalProtocolError, match=f"the {kind} of header"):
        encode_frame(SEND, [header], version=V1_2)


def test_passcode_when_it_is_refused_then_is_not_told() -> None:
    with pytest.raises(LocalProtocolError, match=r"\[redacted\]") as caught:
        encode_frame(Command.CONNECT, [("Passcode", "s3cret\n")], version=V1_2)
    assert "s3cret" not in str(caught.value)


def test_value_when_it_is_refused_then_is_told_in_short() -> None:
    with pytest.raises(LocalProtocolError, match="xxxx") as caught:
        encode_frame(SEND, [("a", "x" * 10_000 + "\0")], version=V1_2)
    assert str(caught.value).endswith(f"cannot carry: {'x' * 80!r}")


@pytest.mark.parametrize("accelerate", [True, False])
@pytest.mark.parametrize(
    ("command", "version"), [(SEND, V1_0), (SEND, V1_1), (SEND, V1_2), (Command.CONNECT, V1_2)], ids=str
)
def test_header_when_nothing_in_it_has_a_meaning_then_is_carried_as_it_is(
    command: Command, version: Version, *, accelerate: bool
) -> None:
    visible = "".join(map(chr, range(0x20, 0x7F))).translate({ord(":"): None, ord("\\"): None})

    data = encode_frame(command, [(visible, visible)], version=version, accelerate=accelerate)

    assert data == f"{command.value}\n{visible}:{visible}\n\n\0".encode()


@pytest.mark.parametrize(
    ("body", "wanted", "line"),
    [
        (b"", True, b""),
        (b"ab", True, b"content-length:2\n"),
        (b"ab", False, b""),
        (b"\0", False, b"content-length:1\n"),
    ],
)
@pytest.mark.parametrize("version", list(Version))
def test_content_length_when_wanted_or_needed_then_is_added_last(
    version: Version, body: bytes, wanted: bool, line: bytes
) -> None:
    """Rows 1x-CLEN-6, 10-CLEN-6, 1x-CLEN-7, 10-CTYPE-9."""
    data = encode_frame(SEND, [("a", "b")], body, version=version, add_content_length=wanted)

    assert data == b"SEND\na:b\n" + line + b"\n" + body + b"\0"


@pytest.mark.parametrize(("given", "body"), [("3", b"ab"), ("02", b"ab"), ("x", b""), ("1", b""), ("", b"ab")])
def test_content_length_when_given_and_wrong_then_is_refused(given: str, body: bytes) -> None:
    """Row all-CLEN-9."""
    with pytest.raises(LocalProtocolError, match=f"content-length is '{given}', but the body has {len(body)} bytes"):
        encode_frame(SEND, [("content-length", given)], body, version=V1_2)


def test_content_length_when_only_named_in_other_headers_then_is_added() -> None:
    data = encode_frame(SEND, [("x-content-length", "9"), ("a", "content-length:9")], b"x", version=V1_2)

    assert data == b"SEND\nx-content-length:9\na:content-length\\c9\ncontent-length:1\n\nx\0"


@pytest.mark.parametrize("version", list(Version))
@pytest.mark.parametrize("command", list(Command))
def test_body_when_the_command_may_not_have_one_then_is_refused(command: Command, version: Version) -> None:
    """Rows 1x-BODY-1, 10-BODY-4, 10-NACK-2, 10-FRM-16."""
    if version is V1_0 and command in {Command.NACK, Command.STOMP}:
        with pytest.raises(LocalProtocolError, match=f"1.0 has no {command.value} frame"):
            encode_frame(command, [], version=version)
        return
    may = command in {"SEND", "MESSAGE", "ERROR"} or (version is V1_0 and command is not RECEIPT)
    if may:
        assert encode_frame(command, [], b"x", version=version).endswith(b"\n\nx\0")
    else:
        with pytest.raises(LocalProtocolError, match="has no body"):
            encode_frame(command, [], b"x", version=version)


@pytest.mark.parametrize("kept", ["", "\1"])
def test_special_bytes_when_in_many_headers_then_each_is_escaped_once_and_other_bytes_stay(kept: str) -> None:
    headers = [("a:b", "\\c\\\n"), ("c\\", kept), ("d\n", ":\r:")]
    assert encode_frame(Command.SEND, headers, version=Version.V1_2) == (
        b"SEND\na\\cb:\\\\c\\\\\\n\nc\\\\:" + kept.encode() + b"\nd\\n:\\c\\r\\c\n\n\0"
    )


@pytest.mark.parametrize("name", ["", "\1"])
def test_headers_when_one_has_bytes_that_stand_for_delimiters_meanwhile_then_nothing_is_taken_for_one(
    name: str,
) -> None:
    with pytest.raises(LocalProtocolError):
        encode_frame(Command.SEND, [("a", "b:c"), (name, "\0\1")], version=Version.V1_2)
    with pytest.raises(LocalProtocolError):
        encode_frame(Command.SEND, [("a", "b:c"), (name, "\r")], version=Version.V1_1)
