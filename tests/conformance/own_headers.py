"""Own vectors: escaping, padding, encoding and repeats of headers; limits; handshakes; the early draft."""

from __future__ import annotations

from typing import Final

from tests.conformance.own_form import ALL, LIMIT_EXCEEDED, PROTOCOL_ERROR, Expected, Vectors, frame

__all__ = ["HEADERS"]

_BAD = Expected(error=PROTOCOL_ERROR)
_TOO_MUCH = Expected(error=LIMIT_EXCEEDED)
_RECEIPT = frame("RECEIPT", [("receipt-id", "1")])
_RECEIPT_BYTES = b"RECEIPT\nreceipt-id:1\n\n\0"

HEADERS: Final = Vectors()

# --- escapes -----------------------------------------------------------------------------------------------

for version in ("1.1", "1.2"):
    for role, command in (("client", "MESSAGE"), ("client", "RECEIPT"), ("client", "ERROR"), ("server", "SEND")):
        HEADERS.decode(
            f"escapes-{command}-{version}",
            f"escapes in names and values of {command}",
            "1x-HDR-ESC-2 1x-HDR-ESC-3 1x-HDR-ESC-4",
            f"{version} {role}",
            command.encode() + b"\na\\cb\\nc\\\\d:\\n\\c\\\\\nx:\\\\\\\\\\\\n\n\n\0",
            [frame(command, [("a:b\nc\\d", "\n:\\"), ("x", "\\\\\\n")])],
        )
    for letter in ("t", "0", "x", "N", "C", "R", " ", "é", "€", ":"):
        HEADERS.decode(
            f"undefined-{letter.encode().hex()}-{version}",
            f"undefined escape {letter!r} in a value",
            "12-HDR-ESC-5 11-HDR-ESC-5",
            f"{version} server",
            f"SEND\ndestination:/q\nk:a\\{letter}b\n\nx\0".encode(),
            expected=_BAD,
        )
    HEADERS.decode(
        f"undefined-in-name-{version}",
        "undefined escape in a name",
        "12-HDR-ESC-5 11-HDR-ESC-5",
        f"{version} server",
        b"SEND\ndestination:/q\na\\tb:v\n\nx\0",
        expected=_BAD,
    )
    HEADERS.decode(
        f"backslash-ends-name-{version}",
        "a name that ends in a backslash: no escape reaches over the colon",
        "12-HDR-ESC-5 11-HDR-ESC-5",
        f"{version} server",
        b"SEND\ndestination:/q\na\\:v\n\nx\0",
        expected=_BAD,
    )
    HEADERS.decode(
        f"backslash-ends-value-{version}",
        "a value that ends in a backslash",
        "12-HDR-ESC-5 11-HDR-ESC-5",
        f"{version} client",
        b"RECEIPT\nreceipt-id:a\\\\\\\n\n\0",
        expected=_BAD,
    )
    HEADERS.decode(
        f"undefined-in-repeat-{version}",
        "undefined escape in a repeated entry",
        "1x-REP-5",
        f"{version} client",
        b"RECEIPT\nreceipt-id:1\nreceipt-id:\\q\n\n\0",
        expected=_BAD,
    )
    HEADERS.decode(
        f"undefined-after-frame-{version}",
        "undefined escape after a good frame",
        "all-FRM-20 12-HDR-ESC-5",
        f"{version} client",
        _RECEIPT_BYTES + b"RECEIPT\nreceipt-id:\\q\n\n\0" + _RECEIPT_BYTES,
        [_RECEIPT],
        _BAD,
    )
    HEADERS.decode(
        f"raw-colons-{version}",
        "raw colons in values: the first colon separates",
        "1x-FRM-11",
        f"{version} client",
        b"RECEIPT\nreceipt-id:a:b::c\n\n\0",
        [frame("RECEIPT", [("receipt-id", "a:b::c")])],
    )
    for role, command in (("client", "CONNECTED"), ("server", "CONNECT"), ("server", "STOMP")):
        HEADERS.decode(
            f"literal-{command}-{version}",
            f"backslashes of {command} are literal, undefined ones too",
            "1x-HDR-ESC-9 1x-HDR-ESC-12",
            f"{version} {role}",
            command.encode() + b"\na\\c:b\\t\\n\\\n\n\0",
            [frame(command, [("a\\c", "b\\t\\n\\")])],
        )
HEADERS.decode(
    "backslash-r-1.2",
    "an escaped CR in a name and a value",
    "12-HDR-ESC-1",
    "1.2 server",
    b"SEND\na\\r:\\r\\n\n\n\0",
    [frame("SEND", [("a\r", "\r\n")])],
)
for name, line in (("name", b"a\\r:v"), ("value", b"a:\\r")):
    HEADERS.decode(
        f"backslash-r-in-{name}-1.1",
        f"an escaped CR in a {name}",
        "11-HDR-ESC-5",
        "1.1 client",
        b"RECEIPT\n" + line + b"\n\n\0",
        expected=_BAD,
    )
HEADERS.decode(
    "escaped-crlf-1.2",
    "an escaped CR before CRLF",
    "12-HDR-ESC-1 12-FRM-EOL-1",
    "1.2 client",
    b"RECEIPT\r\nreceipt-id:a\\r\r\n\r\n\0",
    [frame("RECEIPT", [("receipt-id", "a\r")])],
)
HEADERS.decode(
    "literal-1.0",
    "backslashes and colons of 1.0, in a name too",
    "10-HDR-ESC-13",
    "1.0 server",
    b"SEND\na\\c:b\\t:\\\n\n\0",
    [frame("SEND", [("a\\c", "b\\t:\\")])],
)

# --- padding, encoding, repeats ------------------------------------------------------------------------------

for version in ("1.1", "1.2"):
    HEADERS.decode(
        f"padding-{version}",
        "spaces and tabs around names and values are kept",
        "1x-HDR-PAD-1",
        f"{version} client",
        b"ERROR\n message : a b \n\t:\t\nx:\xc2\xa0\n\n\0",
        [frame("ERROR", [(" message ", " a b "), ("\t", "\t"), ("x", "\xa0")])],
    )
HEADERS.decode(
    "padding-1.0",
    "spaces around values are trimmed, around names kept; other white space is kept",
    "10-HDR-PAD-3 10-HDR-PAD-4 10-HDR-PAD-5",
    "1.0 client",
    b"ERROR\n message :  a b  \nt:\t x\t\nn:\xc2\xa0\ns:   \n\n\0",
    [frame("ERROR", [(" message ", "a b"), ("t", "\t x\t"), ("n", "\xa0"), ("s", "")])],
)
for version in ALL:
    HEADERS.decode(
        f"utf8-{version}",
        "names and values of 2, 3 and 4 octets a character, cut inside each",
        "1x-ENC-1 10-ENC-1",
        f"{version} client",
        "ERROR\né€:😀é\n\n\0".encode(),
        [frame("ERROR", [("é€", "😀é")])],
        chunks=[[7], [9], [10], [13], [15]],
    )
    for name, octets in (
        ("lone", b"\x80"),
        ("cut", b"\xe2\x82"),
        ("latin-1", b"caf\xe9"),
        ("overlong", b"\xc0\xaf"),
        ("overlong-nul", b"\xc0\x80"),
        ("surrogate", b"\xed\xa0\x80"),
        ("too-high", b"\xf4\x90\x80\x80"),
    ):
        HEADERS.decode(
            f"not-utf8-{name}-{version}",
            f"a value that is not UTF-8: {name}",
            "1x-ENC-2 1x-ENC-3 10-ENC-1",
            f"{version} client",
            b"ERROR\nmessage:" + octets + b"\n\n\0",
            expected=_BAD,
        )
        HEADERS.decode(
            f"not-utf8-name-{name}-{version}",
            f"a name that is not UTF-8: {name}",
            "1x-ENC-2 1x-ENC-3 10-ENC-1",
            f"{version} client",
            b"ERROR\n" + octets + b":v\n\n\0",
            expected=_BAD,
        )
    HEADERS.decode(
        f"case-{version}",
        "names that differ in case are different",
        "1x-FRM-7 10-FRM-7",
        f"{version} client",
        b"ERROR\nMessage:a\nmessage:b\nCONTENT-LENGTH:99\n\nxy\0",
        [frame("ERROR", [("Message", "a"), ("message", "b"), ("CONTENT-LENGTH", "99")], b"xy")],
    )
    for role, command in (("client", "ERROR"), ("server", "SEND")):
        HEADERS.decode(
            f"repeats-{command}-{version}",
            "the first of repeats is in force, all are kept in order",
            "12-REP-1 11-REP-1 10-REP-3 1x-REP-2",
            f"{version} {role}",
            command.encode() + b"\na:1\nb:1\na:2\na:\nb:1\n\n\0",
            [frame(command, [("a", "1"), ("b", "1"), ("a", "2"), ("a", ""), ("b", "1")])],
        )
HEADERS.decode(
    "repeats-by-escape-1.2",
    "names that are equal once they are decoded",
    "12-REP-1 1x-HDR-ESC-3",
    "1.2 client",
    b"ERROR\na\\cb:1\na\\cb:2\n\n\0",
    [frame("ERROR", [("a:b", "1"), ("a:b", "2")])],
)

# --- limits --------------------------------------------------------------------------------------------------

_LIMIT_ROWS: Final = {
    "max_command": "1x-CONF-1",
    "max_header_line": "1x-LIM-2",
    "max_headers": "1x-LIM-1",
    "max_body": "1x-LIM-3",
}
for version in ALL:
    for name, limit, octets in (
        ("command", {"max_command": 6}, b"ERRORRR"),
        ("command-cut", {"max_command": 6}, b"RECEIPT\nreceipt-id:1\n\n\0"),
        ("line", {"max_header_line": 5}, b"ERROR\nabc:de"),
        ("line-utf8", {"max_header_line": 5}, "ERROR\na:€é".encode()),
        ("line-without-colon", {"max_header_line": 5}, b"ERROR\nabcdef\n\n\0"),
        ("second-line", {"max_header_line": 5}, b"ERROR\na:b\nabc:de"),
        ("count", {"max_headers": 2}, b"ERROR\na:1\nb:2\nc"),
        ("count-repeats", {"max_headers": 2}, b"ERROR\na:1\na:2\na:3\n\n\0"),
        ("count-0", {"max_headers": 0}, b"ERROR\na"),
        ("count-before-grammar", {"max_headers": 1}, b"ERROR\na:1\n:\n\n\0"),
        ("body", {"max_body": 3}, b"ERROR\n\nabcd"),
        ("body-whole", {"max_body": 3}, b"ERROR\n\nabcd\0"),
        ("body-0", {"max_body": 0}, b"ERROR\n\na"),
        ("counted-body", {"max_body": 3}, b"ERROR\ncontent-length:4\n\n"),
        ("counted-body-huge", {"max_body": 3}, b"ERROR\ncontent-length:99999999999999999999999999\n\n"),
        ("counted-body-0", {"max_body": 0}, b"ERROR\ncontent-length:1\n\n"),
    ):
        HEADERS.decode(
            f"limit-{name}-{version}",
            f"past a limit: {name}",
            "all-LIM-5 "
            + " ".join(_LIMIT_ROWS[limited] for limited in limit)
            + (" all-LIM-6" if not octets.endswith(b"\0") else "")
            + (" 1x-LIM-7" if name == "count-repeats" else ""),
            f"{version} client",
            octets,
            expected=_TOO_MUCH,
            limits={**limit},
        )
    for name, limit, octets, wanted in (
        ("command", {"max_command": 5}, b"ERROR\n\n\0", frame("ERROR")),
        ("line", {"max_header_line": 5}, b"ERROR\na:b\nabc:d\n\n\0", frame("ERROR", [("a", "b"), ("abc", "d")])),
        ("line-utf8", {"max_header_line": 5}, "ERROR\na:€\n\n\0".encode(), frame("ERROR", [("a", "€")])),
        ("count", {"max_headers": 2}, b"ERROR\na:1\na:2\n\n\0", frame("ERROR", [("a", "1"), ("a", "2")])),
        ("count-0", {"max_headers": 0}, b"ERROR\n\nx\0", frame("ERROR", (), b"x")),
        ("body", {"max_body": 3}, b"ERROR\n\nabc\0", frame("ERROR", (), b"abc")),
        ("body-0", {"max_body": 0}, b"ERROR\n\n\0", frame("ERROR")),
        (
            "counted-body",
            {"max_body": 3},
            b"ERROR\ncontent-length:3\n\na\0c\0",
            frame("ERROR", [("content-length", "3")], b"a\0c"),
        ),
    ):
        HEADERS.decode(
            f"within-{name}-{version}",
            f"exactly at a limit: {name}",
            "all-LIM-5 " + " ".join(_LIMIT_ROWS[limited] for limited in limit),
            f"{version} client",
            octets,
            [wanted],
            limits={**limit},
        )
    HEADERS.decode(
        f"limit-second-frame-{version}",
        "the counts begin anew with each frame",
        "1x-LIM-1 all-FRM-20",
        f"{version} client",
        b"ERROR\na:1\nb:2\n\n\0\nERROR\na:1\nb:2\nc:3\n\n\0",
        [frame("ERROR", [("a", "1"), ("b", "2")])],
        _TOO_MUCH,
        limits={"max_headers": 2},
    )
for version in ("1.0", "1.2"):
    HEADERS.decode(
        f"limits-without-cr-{version}",
        "the CR of an end of line is not counted",
        "1x-LIM-2 12-FRM-EOL-1",
        f"{version} client",
        b"ERROR\r\nabc:d\r\n\r\n\0",
        [frame("ERROR", [("abc", "d")])],
        limits={"max_command": 5, "max_header_line": 5, "max_headers": 1},
    )
HEADERS.decode(
    "limit-with-cr-1.1",
    "in 1.1 a CR is an octet of the line",
    "1x-LIM-2 11-FRM-EOL-2",
    "1.1 client",
    b"ERROR\nabc:d\r",
    expected=_TOO_MUCH,
    limits={"max_header_line": 5},
)
HEADERS.decode(
    "limit-escapes-1.2",
    "lines are measured as they come, escapes included",
    "1x-LIM-2",
    "1.2 client",
    b"ERROR\na:\\n\\n\n\n\0",
    expected=_TOO_MUCH,
    limits={"max_header_line": 5},
)

# --- handshakes ----------------------------------------------------------------------------------------------

HEADERS.decode(
    "handshake-client-1.1-crlf-after",
    "a CRLF behind the CONNECTED of 1.1",
    "11-HB-17 1x-CONN-6 all-CONN-5",
    "negotiate client",
    b"CONNECTED\nversion:1.1\n\n\0\r\n",
    [frame("CONNECTED", [("version", "1.1")])],
    Expected(error=PROTOCOL_ERROR, session_version="1.1"),
)
HEADERS.decode(
    "handshake-client-beats",
    "LFs around CONNECTED",
    "all-FRM-6 1x-HB-13",
    "negotiate client",
    b"\n\nCONNECTED\nversion:1.2\n\n\0\n\r\n",
    [frame("CONNECTED", [("version", "1.2")])],
    Expected(heartbeats=4, session_version="1.2"),
)
HEADERS.decode(
    "handshake-client-1.0-padded-length",
    "a padded content-length before 1.0 is known",
    "all-CLEN-10 1x-CONN-18",
    "negotiate client",
    b"CONNECTED\nsession: a \ncontent-length: 0 \n\n\0",
    [frame("CONNECTED", [("session", "a"), ("content-length", "0")])],
    Expected(session_version="1.0"),
)
HEADERS.decode(
    "handshake-client-1.2-padded-length",
    "a padded content-length of 1.2",
    "all-CLEN-10",
    "negotiate client",
    b"CONNECTED\nversion:1.2\ncontent-length: 0\n\n\0",
    expected=_BAD,
)
HEADERS.decode(
    "handshake-client-1.2-bare-cr",
    "a bare CR in the CONNECTED of 1.2",
    "12-FRM-12 1x-CONN-6",
    "negotiate client",
    b"CONNECTED\nversion:1.2\nsession:a\rb\n\n\0",
    expected=_BAD,
)
HEADERS.decode(
    "handshake-client-1.1-bare-cr",
    "a bare CR in the CONNECTED of 1.1",
    "11-FRM-12 1x-CONN-6",
    "negotiate client",
    b"CONNECTED\nversion:1.1\nsession:a\rb\n\n\0",
    [frame("CONNECTED", [("version", "1.1"), ("session", "a\rb")])],
    Expected(session_version="1.1"),
)
HEADERS.decode(
    "handshake-client-body",
    "a body on the CONNECTED of 1.2",
    "1x-BODY-2",
    "negotiate client",
    b"CONNECTED\nversion:1.2\n\nx\0",
    expected=_BAD,
)
HEADERS.decode(
    "handshake-client-pending",
    "half a CONNECTED",
    "all-FRM-19",
    "negotiate client",
    b"CONNECTED\nversion:1.2\n",
    expected=Expected(pending=True),
)
HEADERS.decode(
    "handshake-client-not-offered",
    "a version that was not offered",
    "1x-NEG-6",
    "negotiate client",
    b"CONNECTED\nversion:1.0\n\n\0",
    expected=_BAD,
    offered=["1.2"],
)
HEADERS.decode(
    "handshake-client-error",
    "an ERROR in place of CONNECTED, with all escapes and a body",
    "1x-CONN-4 1x-CONN-6",
    "negotiate client",
    b"ERROR\r\nmessage:a\\cb\\nc\\rd\\\\e\\\r\n\r\nwhy\0\n",
    [frame("ERROR", [("message", "a:b\nc\rd\\e\\")], b"why")],
    Expected(heartbeats=1),
)
for command in ("MESSAGE", "RECEIPT", "CONNECT", "NOPE"):
    HEADERS.decode(
        f"handshake-client-{command}",
        f"{command} before CONNECTED",
        "all-CONN-2",
        "negotiate client",
        command.encode() + b"\nk:v\n\n\0",
        expected=_BAD,
    )
for command in ("SEND", "DISCONNECT", "CONNECTED", "NOPE", "connect"):
    HEADERS.decode(
        f"handshake-server-{command}",
        f"{command} before CONNECT",
        "all-CONN-22 all-FRM-21",
        "negotiate server",
        command.encode() + b"\nk:v\n\n\0",
        expected=_BAD,
    )
for command in ("CONNECT", "STOMP"):
    HEADERS.decode(
        f"handshake-server-{command}-1.2",
        f"{command} for 1.2, with CRLF, then a SEND by the rules of 1.2",
        "1x-NEG-3 12-HDR-ESC-1" + (" 12-CONN-7" if command == "STOMP" else ""),
        "negotiate server",
        command.encode() + b"\r\naccept-version:1.2,1.0,1.1\r\nhost:a\\cb\r\n\r\n\0\r\nSEND\r\nx: \\r\r\n\r\n\0",
        [frame(command, [("accept-version", "1.2,1.0,1.1"), ("host", "a\\cb")]), frame("SEND", [("x", " \r")])],
        Expected(heartbeats=1, session_version="1.2"),
    )
    HEADERS.decode(
        f"handshake-server-{command}-1.1",
        f"{command} for 1.1, then a CR that is data",
        "11-FRM-EOL-2" + (" 11-CONN-7" if command == "STOMP" else ""),
        "negotiate server",
        command.encode() + b"\naccept-version:1.1\nhost:h\n\n\0SEND\nx:y\r\n\n\0",
        [frame(command, [("accept-version", "1.1"), ("host", "h")]), frame("SEND", [("x", "y\r")])],
        Expected(session_version="1.1"),
    )
HEADERS.decode(
    "handshake-server-nack-1.0",
    "a NACK after the CONNECT of 1.0",
    "10-FRM-16 1x-NEG-2",
    "negotiate server",
    b"CONNECT\n\n\0NACK\nmessage-id:1\n\n\0",
    [frame("CONNECT")],
    Expected(error=PROTOCOL_ERROR, session_version="1.0"),
)
HEADERS.decode(
    "handshake-server-no-version",
    "no common version",
    "12-NEG-4 11-NEG-4",
    "negotiate server",
    b"CONNECT\naccept-version:2.0\nhost:h\n\n\0",
    expected=_BAD,
)
HEADERS.decode(
    "handshake-server-other-case",
    "Accept-Version is another header, so the session is one of 1.0",
    "1x-NEG-8",
    "negotiate server",
    b"CONNECT\nAccept-Version:1.2\nhost: h\n\n\0",
    [frame("CONNECT", [("Accept-Version", "1.2"), ("host", "h")])],
    Expected(session_version="1.0"),
)
HEADERS.decode(
    "handshake-server-repeat",
    "the first accept-version counts",
    "12-REP-1",
    "negotiate server",
    b"CONNECT\naccept-version:1.1\naccept-version:1.2\nhost:h\n\n\0",
    [frame("CONNECT", [("accept-version", "1.1"), ("accept-version", "1.2"), ("host", "h")])],
    Expected(session_version="1.1"),
)
HEADERS.decode(
    "handshake-limits",
    "limits hold before CONNECT",
    "1x-LIM-2 1x-CONF-1",
    "negotiate server",
    b"CONNECT\naccept-version:1.2",
    expected=_TOO_MUCH,
    limits={"max_header_line": 16},
)

# --- the early draft -----------------------------------------------------------------------------------------

HEADERS.decode(
    "draft-server",
    "any case, any padding, CRs and spaces at the ends of lines",
    "draft-LEN-1 draft-LEN-3 draft-LEN-5",
    "1.0 server",
    b" \r\n\nsend \r\r\nDestination:  /q \r\nCONTENT-LENGTH:3\n  \na\0b\0",
    [frame("SEND", [("destination", "/q"), ("content-length", "3")], b"a\0b")],
    Expected(heartbeats=2),
    lenient=True,
)
HEADERS.decode(
    "draft-username",
    "the CONNECT of the draft",
    "draft-CONN-15 draft-LEN-3",
    "1.0 server",
    b"connect\nUserName: u\npasscode: p\n\n\0",
    [frame("CONNECT", [("username", "u"), ("passcode", "p")])],
    lenient=True,
)
HEADERS.decode(
    "draft-inner-space",
    "spaces and CRs inside of values stay",
    "draft-LEN-1 draft-LEN-4",
    "1.0 client",
    b"Error\nmessage:   a \r b\n\n\0",
    [frame("ERROR", [("message", "a \r b")])],
    lenient=True,
)
HEADERS.decode(
    "draft-repeats",
    "names that are equal but for their case: the first counts",
    "draft-LEN-5 10-REP-3",
    "1.0 client",
    b"ERROR\nMessage:a\nmessage:b\n\n\0",
    [frame("ERROR", [("message", "a"), ("message", "b")])],
    lenient=True,
)
HEADERS.decode(
    "draft-unknown",
    "an unknown command of the draft",
    "10-FRM-15",
    "1.0 client",
    b"Notice\na:b\n\n\0",
    expected=_BAD,
    lenient=True,
)
HEADERS.decode(
    "draft-no-colon",
    "a line without colon in the draft",
    "all-FRM-8",
    "1.0 client",
    b"ERROR\nab\n\n\0",
    expected=_BAD,
    lenient=True,
)
HEADERS.decode(
    "draft-limit",
    "limits in the draft",
    "1x-LIM-1",
    "1.0 client",
    b"ERROR\na:1\n   \r  b",
    expected=_TOO_MUCH,
    limits={"max_headers": 1},
    lenient=True,
)
