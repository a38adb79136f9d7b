"""Own vectors: encoding, required headers, versions, heart-beats, content types and the server header."""

from __future__ import annotations

from typing import Final

from tests.conformance.own_form import ALL, Vectors

__all__ = ["OTHERS"]

OTHERS: Final = Vectors()

# --- encoding ------------------------------------------------------------------------------------------------

for version in ("1.1", "1.2"):
    for command in ("SEND", "SUBSCRIBE", "ACK", "NACK", "BEGIN", "DISCONNECT", "MESSAGE", "RECEIPT", "ERROR"):
        OTHERS.encode(
            f"encode-escapes-{command}-{version}",
            f"names and values of {command} are escaped",
            "1x-HDR-ESC-6 1x-HDR-ESC-4",
            f"{version} {command}",
            [("a:b\n", "\\n:\n\\"), ("c", "")],
            [command.encode() + b"\na\\cb\\n:\\\\n\\c\\n\\\\\nc:\n\n\0"],
        )
    for command in ("SUBSCRIBE", "ACK", "BEGIN", "DISCONNECT", "CONNECT", "CONNECTED", "RECEIPT"):
        OTHERS.encode(
            f"encode-body-{command}-{version}",
            f"a body on {command}",
            "1x-BODY-1",
            f"{version} {command}",
            [("k", "v")],
            [],
            body_hex="78",
        )
    for command in ("CONNECT", "STOMP", "CONNECTED"):
        OTHERS.encode(
            f"encode-raw-{command}-{version}",
            f"{command} is not escaped",
            "1x-HDR-ESC-10 1x-HDR-ESC-12",
            f"{version} {command}",
            [("a", "b:c\\n\\")],
            [command.encode() + b"\na:b:c\\n\\\n\n\0"],
        )
    OTHERS.encode(
        f"encode-padding-{version}",
        "spaces are neither trimmed nor added",
        "1x-HDR-PAD-2",
        f"{version} SEND",
        [(" a", "b "), ("c", " ")],
        [b"SEND\n a:b \nc: \n\n\0"],
    )
OTHERS.encode(
    "encode-cr-1.2",
    "CR is escaped in names and values of 1.2",
    "12-HDR-ESC-7",
    "1.2 ERROR",
    [("a\r", "\r\n")],
    [b"ERROR\na\\r:\\r\\n\n\n\0"],
)
for version, command, name, value in (
    ("1.1", "SEND", "a\r", "b"),
    ("1.1", "MESSAGE", "a", "b\r"),
    ("1.0", "SEND", "a", "b\r"),
    ("1.0", "SEND", "a\r", "b"),
    ("1.1", "CONNECT", "a", "b\r"),
    ("1.2", "CONNECT", "a", "b\r"),
    ("1.2", "CONNECTED", "a\r", "b"),
    ("1.2", "STOMP", "a", "\r"),
    ("1.0", "CONNECT", "a", "\r"),
):
    OTHERS.encode(
        f"encode-cr-{command}-{name.encode().hex()}-{version}",
        f"a CR that {command} cannot carry",
        "11-HDR-ESC-8 10-FRM-22 1x-HDR-ESC-14 all-HDR-ESC-11",
        f"{version} {command}",
        [(name, value)],
        [],
    )
for version in ALL:
    for name, value in (("a", "b\0"), ("a\0", "b")):
        OTHERS.encode(
            f"encode-nul-{name.encode().hex()}-{version}",
            "a NUL in a header",
            "all-FRM-13",
            f"{version} SEND",
            [(name, value)],
            [],
        )
    for command in ("CONNECT", "CONNECTED"):
        OTHERS.encode(
            f"encode-lf-{command}-{version}",
            f"an LF in a value of {command}",
            "all-HDR-ESC-11",
            f"{version} {command}",
            [("a", "b\nc:d")],
            [],
        )
        OTHERS.encode(
            f"encode-lf-name-{command}-{version}",
            f"an LF in a name of {command}",
            "all-HDR-ESC-11",
            f"{version} {command}",
            [("a\nb", "c")],
            [],
        )
        OTHERS.encode(
            f"encode-colon-name-{command}-{version}",
            f"a colon in a name of {command}",
            "all-HDR-ESC-11",
            f"{version} {command}",
            [("a:b", "c")],
            [],
        )
    OTHERS.encode(
        f"encode-empty-name-{version}", "an empty name", "all-FRM-9", f"{version} SEND", [("a", "b"), ("", "c")], []
    )
    OTHERS.encode(
        f"encode-surrogate-{version}", "a lone surrogate", "1x-ENC-2 1x-ENC-3", f"{version} SEND", [("a", "\ud800")], []
    )
    OTHERS.encode(
        f"encode-utf8-{version}",
        "headers are UTF-8",
        "1x-ENC-1 10-ENC-1",
        f"{version} SEND",
        [("é", "€😀")],
        ["SEND\né:€😀\n\n\0".encode()],
    )
    OTHERS.encode(
        f"encode-empty-value-{version}",
        "an empty value",
        "1x-FRM-10 10-FRM-10",
        f"{version} SEND",
        [("a", "")],
        [b"SEND\na:\n\n\0"],
    )
    OTHERS.encode(
        f"encode-repeats-{version}",
        "repeats in order",
        "12-REP-1 1x-REP-2",
        f"{version} SEND",
        [("a", "1"), ("b", "2"), ("a", "3")],
        [b"SEND\na:1\nb:2\na:3\n\n\0"],
    )
    OTHERS.encode(
        f"encode-auto-{version}",
        "content-length by itself",
        "1x-CLEN-6 10-CLEN-6 all-CLEN-9",
        f"{version} MESSAGE",
        [("a", "b")],
        [b"MESSAGE\na:b\ncontent-length:3\n\n\0\n\xff\0"],
        body_hex="000aff",
        auto_content_length=True,
    )
    OTHERS.encode(
        f"encode-auto-given-{version}",
        "a content-length that is there already",
        "1x-CLEN-6 all-CLEN-9",
        f"{version} SEND",
        [("content-length", "1")],
        [b"SEND\ncontent-length:1\n\nx\0"],
        body_hex="78",
        auto_content_length=True,
    )
    OTHERS.encode(
        f"encode-auto-empty-{version}",
        "no body, no content-length",
        "1x-CLEN-6",
        f"{version} SEND",
        [("a", "b")],
        [b"SEND\na:b\n\n\0"],
        auto_content_length=True,
    )
    OTHERS.encode(
        f"encode-plain-body-{version}",
        "a body without NUL, no content-length wanted: nothing is added",
        "all-CLEN-5",
        f"{version} SEND",
        [("a", "b")],
        [b"SEND\na:b\n\n\nx\n\0"],
        body_hex="0a780a",
    )
    for command in ("PUBLISH", "send", "Connect", "SEND "):
        OTHERS.encode(
            f"encode-unknown-{command.replace(' ', '_')}-{version}",
            f"there is no command {command!r}",
            "all-FRM-21",
            f"{version} {command}",
            [("a", "b")],
            [],
        )
for command in ("NACK", "STOMP"):
    OTHERS.encode(
        f"encode-{command}-1.0",
        f"{command} in 1.0",
        "10-NACK-2 10-FRM-16" if command == "NACK" else "10-FRM-16",
        f"1.0 {command}",
        [("id", "1")],
        [],
    )
OTHERS.encode(
    "encode-literal-1.0",
    "backslashes and colons of 1.0 go out as they are",
    "10-HDR-ESC-13",
    "1.0 SEND",
    [("a\\", "b:c\\n")],
    [b"SEND\na\\:b:c\\n\n\n\0"],
)
OTHERS.encode(
    "encode-body-RECEIPT-1.0",
    "a body on RECEIPT of 1.0",
    "10-BODY-4",
    "1.0 RECEIPT",
    [("receipt-id", "1")],
    [],
    body_hex="78",
)
for version, octets in (("1.0", []), ("1.1", [b"\n"]), ("1.2", [b"\n"])):
    OTHERS.encode(f"encode-beat-{version}", "a heart-beat", "12-HB-10 11-HB-10 10-HB-18", version, [], octets)

# --- required headers: each line of the table, complete and without each of its headers ----------------------

_TABLE: Final = {
    "CONNECT": {"1.0": "", "1.1": "accept-version host", "1.2": "accept-version host"},
    "STOMP": {"1.1": "accept-version host", "1.2": "accept-version host"},
    "CONNECTED": {"1.0": "", "1.1": "version", "1.2": "version"},
    "SEND": dict.fromkeys(ALL, "destination"),
    "SUBSCRIBE": {"1.0": "destination", "1.1": "destination id", "1.2": "destination id"},
    "UNSUBSCRIBE": {"1.1": "id", "1.2": "id"},
    "ACK": {"1.0": "message-id", "1.1": "message-id subscription", "1.2": "id"},
    "NACK": {"1.1": "message-id subscription", "1.2": "id"},
    "BEGIN": dict.fromkeys(ALL, "transaction"),
    "COMMIT": dict.fromkeys(ALL, "transaction"),
    "ABORT": dict.fromkeys(ALL, "transaction"),
    "DISCONNECT": dict.fromkeys(ALL, ""),
    "MESSAGE": {
        "1.0": "destination message-id",
        "1.1": "destination message-id subscription",
        "1.2": "destination message-id subscription",
    },
    "RECEIPT": dict.fromkeys(ALL, "receipt-id"),
    "ERROR": dict.fromkeys(ALL, ""),
}
_TABLE_ROWS: Final = {
    "CONNECT": "1x-CONN-16",
    "STOMP": "1x-CONN-16",
    "CONNECTED": "1x-CONN-17",
    "SEND": "all-SEND-1",
    "SUBSCRIBE": "all-SUB-1 1x-SUB-2 10-SUB-2",
    "UNSUBSCRIBE": "1x-UNSUB-1",
    "ACK": "12-ACK-1 11-ACK-1 10-ACK-1",
    "NACK": "1x-NACK-1",
    "BEGIN": "all-TX-1",
    "COMMIT": "all-TX-1",
    "ABORT": "all-TX-1",
    "DISCONNECT": "",
    "MESSAGE": "12-MSG-1 11-MSG-1 10-MSG-1",
    "RECEIPT": "12-RECEIPT-1 11-RECEIPT-1 10-RECEIPT-1",
    "ERROR": "all-ERR-3",
}
for command, versions in _TABLE.items():
    role = "client" if command in {"CONNECTED", "MESSAGE", "RECEIPT", "ERROR"} else "server"
    for version, listed in versions.items():
        needed = listed.split()
        lines = {name: f"{name}:v\n" for name in needed}
        whole = f"{command}\n{''.join(lines.values())}\n\0"
        OTHERS.validate(
            f"needs-{command}-{version}",
            f"{command} with all that it needs",
            f"12-TAB-1 {_TABLE_ROWS[command]}",
            f"{version} {role}",
            whole.encode(),
            None,
        )
        for name in needed:
            OTHERS.validate(
                f"needs-{command}-{name}-{version}",
                f"{command} without {name}",
                f"12-TAB-1 {_TABLE_ROWS[command]}",
                f"{version} {role}",
                whole.replace(lines[name], f"X-{name}:v\n").encode(),
                name,
            )
for name in ("destination", "id"):
    OTHERS.validate(
        f"needs-UNSUBSCRIBE-by-{name}-1.0",
        f"UNSUBSCRIBE by {name}",
        "10-UNSUB-3",
        "1.0 server",
        f"UNSUBSCRIBE\n{name}:v\n\n\0".encode(),
        None,
    )
OTHERS.validate(
    "needs-UNSUBSCRIBE-1.0",
    "UNSUBSCRIBE by nothing",
    "10-UNSUB-3",
    "1.0 server",
    b"UNSUBSCRIBE\nx:v\n\n\0",
    "destination",
)
for version in ALL:
    for mode in ("auto", "client", "client-individual", "AUTO", "", "never"):
        allowed = mode in {"auto", "client"} or (mode == "client-individual" and version != "1.0")
        OTHERS.validate(
            f"ack-mode-{mode}-{version}",
            f"SUBSCRIBE with ack mode {mode!r}",
            "1x-SUB-6 10-SUB-6 10-SUB-18",
            f"{version} server",
            f"SUBSCRIBE\nid:1\ndestination:/q\nack:{mode}\n\n\0".encode(),
            None if allowed else "ack",
        )
    for mode in ("auto", "client", "client-individual"):
        message = b"MESSAGE\ndestination:/q\nmessage-id:1\nsubscription:s\n"
        needs = version == "1.2" and mode != "auto"
        OTHERS.validate(
            f"message-{mode}-{version}",
            f"MESSAGE without ack in mode {mode}",
            "12-MSG-3",
            f"{version} client",
            message + b"\n\0",
            "ack" if needs else None,
            ack_mode=mode,
        )
        OTHERS.validate(
            f"message-ack-{mode}-{version}",
            f"MESSAGE with ack in mode {mode}",
            "12-MSG-3",
            f"{version} client",
            message + b"ack:a\n\n\0",
            None,
            ack_mode=mode,
        )
OTHERS.validate(
    "needs-repeat-1.2",
    "a repeated header is there",
    "12-REP-1",
    "1.2 server",
    b"SEND\ndestination:/a\ndestination:/b\n\n\0",
    None,
)
OTHERS.validate(
    "nack-1.0",
    "NACK in 1.0",
    "10-NACK-2 10-FRM-16",
    "1.0 server",
    b"NACK\nmessage-id:1\n\n\0",
    None,
    expected={"valid": False},
)

# --- versions ------------------------------------------------------------------------------------------------

for index, (accept, supported, agreed) in enumerate(
    (
        ("1.2", ALL, "1.2"),
        ("1.2,1.1,1.0", ALL, "1.2"),
        ("1.0", ALL, "1.0"),
        ("1.1,1.0", ALL, "1.1"),
        ("1.0,1.2", ("1.0", "1.1"), "1.0"),
        ("1.1", ("1.0", "1.2"), None),
        ("2.0", ALL, None),
        ("", ALL, None),
        ("1.2,", ALL, "1.2"),
        (",", ALL, None),
        (" 1.1 , 1.2 ", ALL, "1.2"),
        ("1.10", ALL, None),
        ("1", ALL, None),
        ("1.1;1.2", ALL, None),
        ("1.2", ("1.2",), "1.2"),
        ("0.9,1.1,3.0", ALL, "1.1"),
        ("\t1.2", ALL, None),
        ("1.1,1.1", ALL, "1.1"),
        ("01.2", ALL, None),
    )
):
    for command in ("CONNECT", "STOMP"):
        OTHERS.negotiate(
            f"accept-{index}-{command}",
            f"accept-version {accept!r} at a server of {', '.join(supported)}",
            ("12-NEG-4 11-NEG-4" if agreed is None else "1x-NEG-3")
            + (" 1x-NEG-7" if " " in accept or accept in {"", ","} else "")
            + (" 12-CONN-7 11-CONN-7" if command == "STOMP" else ""),
            "server",
            f"{command}\naccept-version:{accept}\nhost:h\n\n\0".encode(),
            supported,
            agreed,
        )
OTHERS.negotiate(
    "accept-none",
    "no accept-version at a server without 1.0",
    "1x-NEG-2",
    "server",
    b"CONNECT\n\n\0",
    ("1.1", "1.2"),
    None,
)
OTHERS.negotiate(
    "accept-case",
    "Accept-Version is another header",
    "1x-NEG-8",
    "server",
    b"CONNECT\nAccept-Version:1.2\nhost:h\n\n\0",
    ALL,
    "1.0",
)
OTHERS.negotiate(
    "accept-not-connect", "the first frame is a SEND", "all-CONN-22", "server", b"SEND\ndestination:/q\n\n\0", ALL, None
)
for index, (version_header, offered, agreed) in enumerate(
    (
        ("version:1.2\n", ALL, "1.2"),
        ("version:1.0\n", ALL, "1.0"),
        ("version:1.1\n", ("1.1",), "1.1"),
        ("", ALL, "1.0"),
        ("", ("1.1", "1.2"), None),
        ("version:2.0\n", ALL, None),
        ("version:\n", ALL, None),
        ("version: 1.2\n", ALL, None),
        ("version:1.0,1.1\n", ALL, None),
        ("version:1.1\nversion:1.2\n", ALL, "1.1"),
        ("Version:1.2\n", ALL, "1.0"),
        ("version:1.2\n", ("1.0", "1.1"), None),
    )
):
    OTHERS.negotiate(
        f"connected-{index}",
        f"CONNECTED with {version_header!r} after an offer of {', '.join(offered)}",
        ("1x-NEG-6" if agreed is None else "1x-NEG-3")
        + ("" if version_header.startswith("version") else " 1x-CONN-18"),
        "client",
        f"CONNECTED\n{version_header}session:s\n\n\0".encode(),
        offered,
        agreed,
    )
OTHERS.negotiate("connected-not", "the first frame is a MESSAGE", "all-CONN-2", "client", b"MESSAGE\n\n\0", ALL, None)

# --- heart-beats ---------------------------------------------------------------------------------------------

for index, (connect, connected, terms) in enumerate(
    (
        ("0,0", "0,0", (0, 0)),
        ("1,1", "1,1", (1, 1)),
        ("0,5", "7,0", (0, 7)),
        ("5,0", "0,7", (7, 0)),
        ("5,0", "7,0", (0, 0)),
        ("0,5", "0,7", (0, 0)),
        ("10000,20", "30,4", (10000, 30)),
        (None, None, (0, 0)),
        (None, "5,5", (0, 0)),
        ("5,5", None, (0, 0)),
        ("5,5", "0,0", (0, 0)),
        (" 5 , 6 ", "7,8", (8, 7)),
        ("007,08", "5,5", (7, 8)),
        ("86400000000,1", "1,1", (86400000000, 1)),
        ("5,5,5", "1,1", None),
        ("", "1,1", None),
        (",", "1,1", None),
        ("5,", "1,1", None),
        (",5", "1,1", None),
        ("a,5", "1,1", None),
        ("5,-5", "1,1", None),
        ("+5,5", "1,1", None),
        ("5.0,5", "1,1", None),
        ("5;5", "1,1", None),
        ("5 5", "1,1", None),
        ("\u0665,\u0665", "1,1", None),
        ("1_0,5", "1,1", None),
        ("0x5,5", "1,1", None),
        ("5\t,5", "1,1", None),
        ("1,1", "5", None),
        ("1,1", "5,-5", None),
        ("1,1", "a,b", None),
        ("1,1", "", None),
        ("1 0,5", "1,1", None),
    )
):
    OTHERS.heartbeat(
        f"beat-{index}",
        f"{connect!r} against {connected!r}",
        "1x-HB-2 1x-HB-15"
        if terms is None or " " in f"{connect}{connected}"
        else "1x-HB-5"
        if None in (connect, connected)
        else "1x-HB-3 1x-HB-4 1x-HB-6 1x-HB-7",
        connect,
        connected,
        terms,
    )

# --- content types and the server header ---------------------------------------------------------------------

for index, (content_type, body, text, rows) in enumerate(
    (
        ("text/plain", "é€😀".encode(), "é€😀", "1x-CTYPE-4 1x-CTYPE-7"),
        ("text/html", b"", "", "1x-CTYPE-4"),
        ("TEXT/Plain", b"x", "x", "1x-CTYPE-4"),
        ("text/plain;charset=iso-8859-1", b"caf\xe9", "café", "1x-CTYPE-5"),
        ('text/plain; charset="ISO-8859-2"', b"\xe8", "č", "1x-CTYPE-5"),
        ("text/plain ; Charset=UTF-8", "č".encode(), "č", "1x-CTYPE-5"),
        ("text/plain;format=flowed", b"a", "a", "1x-CTYPE-4"),
        ("text/plain;a=b;charset=utf-16-be", b"\0a", "a", "1x-CTYPE-5"),
        ("application/json", b"{}", None, "1x-CTYPE-6"),
        ("application/json;charset=utf-8", b"{}", "{}", "1x-CTYPE-6"),
        ("application/xml;charset=utf-16", b"\xff\xfe<\0", "<", "1x-CTYPE-6"),
        ("image/png", b"\x89", None, "1x-CTYPE-6"),
        (None, b"text", None, "1x-CTYPE-3"),
        ("", b"text", None, "1x-CTYPE-3"),
        ("text", b"x", None, "12-CTYPE-2 11-CTYPE-2"),
        ("text/", b"x", None, "12-CTYPE-2 11-CTYPE-2"),
        ("/plain", b"x", None, "12-CTYPE-2 11-CTYPE-2"),
        ("textual/plain", b"x", None, "1x-CTYPE-6"),
        ("text/plain;charset=no-such", b"x", None, "1x-CTYPE-5"),
        ("text/plain;charset=hex", b"78", None, "1x-CTYPE-5"),
        ("text/plain;charset=", b"x", "x", "1x-CTYPE-4"),
    )
):
    OTHERS.content_type(
        f"type-{index}",
        f"content-type {content_type!r}",
        rows,
        content_type,
        body,
        text,
    )
_PARSED: Final[tuple[tuple[str, tuple[str, str | None, list[str]] | None], ...]] = (
    ("RabbitMQ/3.10.8", ("RabbitMQ", "3.10.8", [])),
    ("ActiveMQ/5.17.2", ("ActiveMQ", "5.17.2", [])),
    ("a", ("a", None, [])),
    ("a b", ("a", None, ["b"])),
    ("a/1 b/2 c", ("a", "1", ["b/2", "c"])),
    ("a/1/2", ("a", "1/2", [])),
    ("é/ü", ("é", "ü", [])),
    ("", None),
    ("/1", None),
    ("a/", None),
    (" a/1", None),
    ("a/1 ", None),
    ("a/1  b", None),
    ("a/ b", None),
)
for index, (value, parsed) in enumerate(_PARSED):
    OTHERS.server_header(
        f"server-{index}", f"server {value!r}", "1x-CONN-20" if parsed else "1x-CONN-23", value, parsed
    )
