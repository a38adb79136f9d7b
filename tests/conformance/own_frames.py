"""Own vectors: lines, ends of line, commands, chunks, heart-beats, bodies and their length."""

from __future__ import annotations

from typing import Final

from tests.conformance.own_form import ALL, PROTOCOL_ERROR, Expected, Vectors, frame, with_bodies

__all__ = ["FRAMES"]

_BAD = Expected(error=PROTOCOL_ERROR)
_PENDING = Expected(pending=True)
_RECEIPT = frame("RECEIPT", [("receipt-id", "1")])
_RECEIPT_BYTES = b"RECEIPT\nreceipt-id:1\n\n\0"

FRAMES: Final = Vectors()

# --- lines and their ends --------------------------------------------------------------------------------

wanted = frame("SEND", [("destination", "/q"), ("k", "v")], b"x")
for version in ("1.0", "1.2"):
    FRAMES.decode(
        f"crlf-everywhere-{version}",
        "every line ends in CRLF",
        "12-FRM-EOL-1 10-FRM-EOL-3 all-FRM-1",
        f"{version} server",
        b"SEND\r\ndestination:/q\r\nk:v\r\n\r\nx\0\r\n\r\n",
        [wanted],
        Expected(heartbeats=2),
        chunks=[[5], [20], [27, 28], [31], [32, 33], [35]],
    )
    FRAMES.decode(
        f"only-the-blank-line-is-crlf-{version}",
        "the blank line alone ends in CRLF",
        "12-FRM-EOL-1 10-FRM-EOL-3",
        f"{version} server",
        b"SEND\ndestination:/q\nk:v\n\r\nx\0",
        [wanted],
    )
    FRAMES.decode(
        f"body-begins-with-cr-{version}",
        "a CR and an LF after the blank line belong to the body",
        "all-FRM-4",
        f"{version} server",
        b"SEND\ndestination:/q\nk:v\n\n\r\nx\0",
        [frame("SEND", [("destination", "/q"), ("k", "v")], b"\r\nx")],
    )
FRAMES.decode(
    "two-crs-1.2",
    "one CR belongs to the end of line, a second one is bare",
    "12-FRM-12 12-FRM-EOL-4",
    "1.2 client",
    b"RECEIPT\nreceipt-id:1\r\r\n\n\0",
    expected=_BAD,
)
FRAMES.decode(
    "two-crs-1.0",
    "one CR belongs to the end of line, a second one is data",
    "10-FRM-EOL-3",
    "1.0 client",
    b"RECEIPT\nreceipt-id:1\r\r\n\n\0",
    [frame("RECEIPT", [("receipt-id", "1\r")])],
)
FRAMES.decode(
    "cr-inside-1.0",
    "a CR inside a line of 1.0 is data",
    "10-FRM-EOL-3",
    "1.0 client",
    b"RECEIPT\nreceipt-id:a\rb\n\n\0",
    [frame("RECEIPT", [("receipt-id", "a\rb")])],
)
FRAMES.decode(
    "cr-in-name-1.1",
    "a CR is an octet of a name",
    "11-FRM-12",
    "1.1 client",
    b"RECEIPT\na\rb:1\n\n\0",
    [frame("RECEIPT", [("a\rb", "1")])],
)
FRAMES.decode(
    "cr-in-name-1.2",
    "a bare CR in a name",
    "12-FRM-12",
    "1.2 client",
    b"RECEIPT\na\rb:1\n\n\0",
    expected=_BAD,
)
FRAMES.decode(
    "cr-in-command-1.2",
    "a bare CR in a command",
    "12-FRM-12 12-FRM-EOL-4",
    "1.2 client",
    b"REC\rEIPT\na:1\n\n\0",
    expected=_BAD,
)
FRAMES.decode(
    "crlf-blank-line-only-1.1",
    "CRLF where the blank line should be: no blank line in 1.1",
    "11-FRM-EOL-2",
    "1.1 server",
    b"BEGIN\ntransaction:t\n\r\n\0",
    expected=_BAD,
)
FRAMES.decode(
    "crlf-headers-1.1",
    "CRLF after headers: the CR belongs to the values",
    "11-FRM-EOL-2",
    "1.1 server",
    b"BEGIN\ntransaction:t\r\nb:\r\n\n\0",
    [frame("BEGIN", [("transaction", "t\r"), ("b", "\r")])],
)
FRAMES.decode(
    "empty-value-crlf-1.2",
    "an empty value before CRLF",
    "1x-FRM-10 12-FRM-EOL-1",
    "1.2 server",
    b"BEGIN\ntransaction:\r\n\r\n\0",
    [frame("BEGIN", [("transaction", "")])],
)
for version in ALL:
    FRAMES.decode(
        f"no-colon-{version}",
        "a line without colon, after good ones",
        "all-FRM-8",
        f"{version} server",
        b"SEND\ndestination:/q\nfoo\n\n\0",
        expected=_BAD,
    )
    FRAMES.decode(
        f"empty-name-{version}",
        "a line that begins with the colon",
        "all-FRM-9",
        f"{version} server",
        b"SEND\ndestination:/q\n:foo\n\n\0",
        expected=_BAD,
    )
    FRAMES.decode(
        f"name-alone-{version}",
        "a name with an empty value, and one whose value is a colon",
        "1x-FRM-10 10-FRM-10 1x-FRM-11",
        f"{version} server",
        b"SEND\ndestination:\na::\n\n\0",
        [frame("SEND", [("destination", ""), ("a", ":")])],
    )
    FRAMES.decode(
        f"nul-in-value-{version}",
        "a NUL inside a value",
        "all-FRM-13",
        f"{version} server",
        b"SEND\ndestination:/q\nk:a\0b\n\nx\0",
        expected=_BAD,
    )
    FRAMES.decode(
        f"nul-ends-command-{version}",
        "a NUL after the command",
        "all-FRM-13",
        f"{version} server",
        b"DISCONNECT\n\0",
        expected=_BAD,
    )
    FRAMES.decode(
        f"nul-in-command-{version}",
        "a NUL inside the command",
        "all-FRM-13",
        f"{version} server",
        b"DISC\0ONNECT\n\n\0",
        expected=_BAD,
    )

# --- what lies between frames ----------------------------------------------------------------------------

for version in ALL:
    FRAMES.decode(
        f"many-lfs-{version}",
        "LFs before, between and after frames",
        "all-FRM-5 all-FRM-6 10-HB-14",
        f"{version} client",
        b"\n\n" + _RECEIPT_BYTES + b"\n\n\n" + _RECEIPT_BYTES + b"\n",
        [_RECEIPT, _RECEIPT],
        Expected(heartbeats=6),
        chunks=[[1], [2], [26], [27, 28]],
    )
    FRAMES.decode(
        f"no-lf-between-{version}",
        "three frames back to back",
        "all-FRM-1 all-FRM-5",
        f"{version} client",
        _RECEIPT_BYTES * 3,
        [_RECEIPT] * 3,
        Expected(heartbeats=0),
        chunks=[[22, 23, 46]],
    )
    FRAMES.decode(
        f"nul-between-{version}",
        "a NUL and an LF between frames",
        "all-FRM-14",
        f"{version} client",
        _RECEIPT_BYTES + b"\0\n" + _RECEIPT_BYTES,
        [_RECEIPT],
        _BAD,
    )
    FRAMES.decode(
        f"nul-first-{version}",
        "a NUL before the first frame",
        "all-FRM-14",
        f"{version} client",
        b"\0" + _RECEIPT_BYTES,
        expected=_BAD,
    )
    FRAMES.decode(
        f"spaces-between-{version}",
        "a line of spaces between frames is no end of line",
        "all-FRM-5",
        f"{version} client",
        _RECEIPT_BYTES + b"  \n" + _RECEIPT_BYTES,
        [_RECEIPT],
        _BAD,
    )
    FRAMES.decode(
        f"error-after-two-{version}",
        "two frames, then a bad one, then a good one",
        "all-FRM-20",
        f"{version} client",
        _RECEIPT_BYTES * 2 + b"\nNO\n\n\0" + _RECEIPT_BYTES,
        [_RECEIPT] * 2,
        _BAD,
    )
FRAMES.decode(
    "crlf-between-1.1",
    "CRLF between frames of 1.1",
    "11-HB-17 11-HB-10",
    "1.1 client",
    _RECEIPT_BYTES + b"\r\n" + _RECEIPT_BYTES,
    [_RECEIPT],
    _BAD,
)
FRAMES.decode(
    "crlf-first-1.1",
    "CRLF before the first frame of 1.1",
    "11-HB-17",
    "1.1 server",
    b"\r\nDISCONNECT\n\n\0",
    expected=_BAD,
)
FRAMES.decode(
    "crlf-between-1.0",
    "CRLF between frames of 1.0",
    "10-FRM-EOL-3",
    "1.0 client",
    _RECEIPT_BYTES + b"\r\n" + _RECEIPT_BYTES,
    [_RECEIPT] * 2,
    Expected(heartbeats=1),
)
FRAMES.decode(
    "crlf-and-lf-between-1.2",
    "LF and CRLF between frames of 1.2",
    "all-FRM-5 1x-HB-13",
    "1.2 client",
    _RECEIPT_BYTES + b"\r\n\n\r\n" + _RECEIPT_BYTES,
    [_RECEIPT] * 2,
    Expected(heartbeats=3),
    chunks=[[24], [25, 27]],
)
FRAMES.decode(
    "cr-first-1.2",
    "a lone CR before the first frame",
    "12-FRM-EOL-4",
    "1.2 client",
    b"\r" + _RECEIPT_BYTES,
    expected=_BAD,
)
FRAMES.decode(
    "two-crs-between-1.2",
    "CR CR LF between frames",
    "12-FRM-EOL-4",
    "1.2 client",
    _RECEIPT_BYTES + b"\r\r\n",
    [_RECEIPT],
    _BAD,
)
FRAMES.decode(
    "half-an-eol-1.2",
    "a CR between frames whose LF has not come: outside of frames",
    "all-FRM-19 1x-HB-13",
    "1.2 client",
    _RECEIPT_BYTES + b"\n\r",
    [_RECEIPT],
    Expected(heartbeats=1),
)

# --- commands --------------------------------------------------------------------------------------------

client = ["CONNECT", "SEND", "SUBSCRIBE", "UNSUBSCRIBE", "ACK", "BEGIN", "COMMIT", "ABORT", "DISCONNECT"]
for version in ALL:
    all_client = client if version == "1.0" else [*client, "NACK", "STOMP"]
    octets = b"".join(f"{name}\nk:v\n\n\0".encode() for name in all_client)
    FRAMES.decode(
        f"client-commands-{version}",
        "every command of a client",
        "1x-FRM-16 10-FRM-16",
        f"{version} server",
        octets,
        [frame(name, [("k", "v")]) for name in all_client],
    )
    names = ["CONNECTED", "MESSAGE", "RECEIPT", "ERROR"]
    octets = b"".join(f"{name}\nk:v\n\n\0\n".encode() for name in names)
    FRAMES.decode(
        f"server-commands-{version}",
        "every command of a server",
        "1x-FRM-15 10-FRM-15",
        f"{version} client",
        octets,
        [frame(name, [("k", "v")]) for name in names],
        Expected(heartbeats=4),
    )
    for name in (*all_client, "NOPE", "Receipt", "RECEIPTS", "RECEIP", " RECEIPT", "RECEIPT:"):
        FRAMES.decode(
            f"not-for-clients-{name.replace(' ', '_').replace(':', '+')}-{version}",
            f"{name!r} at a client",
            "1x-FRM-15 10-FRM-15" + (" 1x-FRM-7 10-FRM-7" if name != name.upper() else ""),
            f"{version} client",
            f"{name}\nk:v\n\n\0".encode(),
            expected=_BAD,
        )
    for name in (*names, "NOPE", "Send", "send", "SENDX", "SEND "):
        FRAMES.decode(
            f"not-for-servers-{name.replace(' ', '_')}-{version}",
            f"{name!r} at a server",
            "all-FRM-21 12-FRM-18 11-FRM-18" + (" 1x-FRM-7 10-FRM-7" if name != name.upper() else ""),
            f"{version} server",
            f"{name}\nk:v\n\n\0".encode(),
            expected=_BAD,
        )
    FRAMES.decode(
        f"command-not-utf8-{version}",
        "a command that is not UTF-8",
        "1x-ENC-2",
        f"{version} client",
        b"\xff\xfe\nk:v\n\n\0",
        expected=_BAD,
    )
FRAMES.decode("stomp-1.0", "a STOMP frame in 1.0", "10-FRM-16", "1.0 server", b"STOMP\nhost:h\n\n\0", expected=_BAD)
for version in ("1.1", "1.2"):
    FRAMES.decode(
        f"no-headers-{version}",
        "a frame without headers",
        "12-FRM-3 11-FRM-3",
        f"{version} server",
        b"DISCONNECT\n\n\0",
        [frame("DISCONNECT")],
    )

# --- unfinished frames -----------------------------------------------------------------------------------

whole = b"MESSAGE\nsubscription:s\nmessage-id:1\ndestination:/q\ncontent-length:3\n\na\0b\0"
for version in ALL:
    for size in (1, 7, 8, 20, 22, 66, 67, 68, 69, 70):
        FRAMES.decode(
            f"first-{size}-octets-{version}",
            f"the first {size} octets of a frame",
            "all-FRM-19",
            f"{version} client",
            whole[:size],
            expected=_PENDING,
        )
FRAMES.decode(
    "half-a-crlf-1.2",
    "the CR of the blank line",
    "all-FRM-19 12-FRM-EOL-1",
    "1.2 client",
    b"ERROR\r\nmessage:x\r\n\r",
    expected=_PENDING,
)

# --- bodies ----------------------------------------------------------------------------------------------

for version in ALL:
    for index, body in enumerate((b"\n", b"\n\n\n", b"SEND\n\n", b"\r\n\r\n", bytes(range(1, 256)), b"\\c:\\n")):
        FRAMES.decode(
            f"body-{index}-{version}",
            "an uncounted body is taken as it is",
            "all-FRM-4 all-CLEN-5",
            f"{version} server",
            b"SEND\ndestination:/q\n\n" + body + b"\0\n",
            [frame("SEND", [("destination", "/q")], body)],
            Expected(heartbeats=1),
        )
    for index, body in enumerate((b"\0", b"\0\0\0", b"\0a", b"a\0", b"\n\0\n", bytes(range(256)))):
        FRAMES.decode(
            f"nul-body-{index}-{version}",
            "a counted body with NULs",
            "1x-CLEN-3 10-CLEN-3",
            f"{version} client",
            f"ERROR\ncontent-length:{len(body)}\n\n".encode() + body + b"\0" + _RECEIPT_BYTES,
            [frame("ERROR", [("content-length", str(len(body)))], body), _RECEIPT],
        )
for version in ("1.1", "1.2"):
    for name in ("CONNECT", "STOMP", "SUBSCRIBE", "UNSUBSCRIBE", "ACK", "NACK", "BEGIN", "COMMIT", "DISCONNECT"):
        FRAMES.decode(
            f"body-on-{name}-{version}",
            f"a body on {name}",
            "1x-BODY-2",
            f"{version} server",
            f"{name}\nk:v\n\n\n\0".encode(),
            expected=_BAD,
        )
    for name in ("CONNECTED", "RECEIPT"):
        FRAMES.decode(
            f"counted-body-on-{name}-{version}",
            f"a counted body on {name}, not sent yet",
            "1x-BODY-2",
            f"{version} client",
            f"{name}\ncontent-length:1\n\n".encode(),
            expected=_BAD,
        )
for name in ("SUBSCRIBE", "BEGIN", "DISCONNECT", "CONNECT"):
    FRAMES.decode(
        f"body-on-{name}-1.0",
        f"a body on {name} of 1.0: shown or dropped",
        "10-BODY-5 10-BODY-3" if name == "SUBSCRIBE" else "10-BODY-5",
        "1.0 server",
        f"{name}\nk:v\n\nzz\0\n".encode(),
        [with_bodies(frame(name, [("k", "v")], b"zz"), b"zz", b"")],
        Expected(heartbeats=1),
    )
FRAMES.decode(
    "body-on-RECEIPT-1.0",
    "a body on RECEIPT of 1.0: tolerated",
    "10-BODY-5 10-BODY-4",
    "1.0 client",
    b"RECEIPT\nreceipt-id:1\n\nzz\0",
    [with_bodies(_RECEIPT, b"zz", b"")],
)

# --- content-length --------------------------------------------------------------------------------------

for version in ALL:
    for value in ("-1", "+3", "abc", "", "1_0", "3.0", "0x3", "3a", "\u0663", "\uff13", "\u00b2", "\t3", "3\t", "3,3"):
        FRAMES.decode(
            f"length-{value.encode().hex() or 'empty'}-{version}",
            f"content-length {value!r}",
            "all-CLEN-8 all-CLEN-10",
            f"{version} client",
            f"ERROR\ncontent-length:{value}\n\nabc\0".encode(),
            expected=_BAD,
        )
    for value in ("0", "00", "0000000000000000000000000000000"):
        FRAMES.decode(
            f"length-zeros-{len(value)}-{version}",
            f"content-length {value}",
            "all-CLEN-8",
            f"{version} client",
            f"RECEIPT\ncontent-length:{value}\n\n\0".encode(),
            [frame("RECEIPT", [("content-length", value)])],
        )
    FRAMES.decode(
        f"length-short-{version}",
        "the octet after a counted body is no NUL",
        "all-CLEN-4",
        f"{version} client",
        b"ERROR\ncontent-length:2\n\nabc\0",
        expected=_BAD,
    )
    FRAMES.decode(
        f"length-then-lf-{version}",
        "an LF between a counted body and its NUL",
        "all-CLEN-4",
        f"{version} server",
        b"SEND\ndestination:/q\ncontent-length:2\n\nab\n\0",
        expected=_BAD,
    )
    FRAMES.decode(
        f"length-long-{version}",
        "a counted body that reaches into the next frame",
        "all-CLEN-4 all-FRM-19",
        f"{version} client",
        b"ERROR\ncontent-length:5\n\nabc\0" + _RECEIPT_BYTES,
        expected=_BAD,
    )
    FRAMES.decode(
        f"length-repeated-{version}",
        "the first content-length counts, even where the second is no number",
        "all-REP-4 12-REP-1 11-REP-1 10-REP-3",
        f"{version} client",
        b"ERROR\ncontent-length:2\ncontent-length:x\n\na\0\0",
        [frame("ERROR", [("content-length", "2"), ("content-length", "x")], b"a\0")],
    )
    FRAMES.decode(
        f"length-bad-then-good-{version}",
        "a first content-length that is no number",
        "all-REP-4 all-CLEN-8",
        f"{version} client",
        b"ERROR\ncontent-length:x\ncontent-length:2\n\nab\0",
        expected=_BAD,
    )
    FRAMES.decode(
        f"length-octets-{version}",
        "content-length counts octets",
        "all-CLEN-2",
        f"{version} server",
        "SEND\ndestination:/q\ncontent-length:8\n\n€ 😀\0".encode(),
        [frame("SEND", [("destination", "/q"), ("content-length", "8")], "€ 😀".encode())],
    )
for version in ("1.1", "1.2"):
    for value in (" 3", "3 "):
        FRAMES.decode(
            f"length-{value.encode().hex()}-{version}",
            f"content-length {value!r}: never trimmed",
            "all-CLEN-10",
            f"{version} client",
            f"ERROR\ncontent-length:{value}\n\nabc\0".encode(),
            expected=_BAD,
        )
    FRAMES.decode(
        f"length-escaped-name-{version}",
        "an escape inside a name makes another name",
        "1x-HDR-ESC-3 all-CLEN-5",
        f"{version} client",
        b"ERROR\ncontent-length\\c:9\n\nabc\0",
        [frame("ERROR", [("content-length:", "9")], b"abc")],
    )
FRAMES.decode(
    "length-padded-1.0",
    "content-length of 1.0 padded on both sides",
    "all-CLEN-10 10-HDR-PAD-4",
    "1.0 client",
    b"ERROR\ncontent-length:  3 \r\n\na\0c\0",
    [frame("ERROR", [("content-length", "3")], b"a\0c")],
)
FRAMES.decode(
    "length-on-connected-1.2",
    "content-length 0 on CONNECTED",
    "12-CLEN-1",
    "1.2 client",
    b"CONNECTED\nversion:1.2\ncontent-length:0\n\n\0",
    [frame("CONNECTED", [("version", "1.2"), ("content-length", "0")])],
)
