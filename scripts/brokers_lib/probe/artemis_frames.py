"""Artemis: frames, bodies, escaping, header rules, limits."""

from brokers_lib.probe.raw import fresh
from brokers_lib.probe.statements import Chapter, Seen, Target
from brokers_lib.probe.talk import cross, echo, echo_again, listen

frames = Chapter("1c frames")

NEVER_UTF8 = bytes(range(1, 256))


@frames("octets after NUL", "one LF after every frame")
def after_nul(target: Target) -> Seen:
    with target.connect() as link:
        link.ask("SEND", {"destination": "/topic/probe.x"}, b"x")
        link.ends(0.4)
        whole = b"".join(octets for _, octets in link.arrivals)
    return Seen(agrees=whole.count(b"\0") == whole.count(b"\0\n") == 2, what=repr(whole[-40:]))


@frames("content-length on MESSAGE", "1.1 and 1.2 where the body is not empty; 1.0 only where the sender gave one")
def message_length(target: Target) -> Seen:
    told: dict[str, list[str | None]] = {}
    cases = [(b"", b"ab"), (b"content-length:2\n", b"ab"), (b"", b""), (b"content-length:0\n", b"")]
    for version in ("1.2", "1.1", "1.0"):
        seen = [echo_again(target, version, headers, body) for headers, body in cases]
        told[version] = [frame.get("content-length") if frame else "nothing" for frame in seen]
    wanted = {"1.2": ["2", "2", None, None], "1.1": ["2", "2", None, None], "1.0": [None, "2", None, None]}
    return Seen(agrees=told == wanted, what=f"text, bytes, empty text, empty bytes: {told}")


@frames("content-length on ERROR", "where there is a body")
def error_length(target: Target) -> Seen:
    with target.connect() as link:
        without = link.ask("UNSUBSCRIBE", {"id": "nobody"})
    with target.connect() as link:
        frame = link.ask("FOO")
    agrees = bool(frame and frame.body and frame.get("content-length") == str(len(frame.body)))
    agrees &= bool(without and not without.body and not without.get("content-length"))
    return Seen(agrees=agrees, what=f"{frame}; {without}")


@frames("NUL in a body without content-length", "the body is cut, the rest is a bad command")
def nul_in_body(target: Target) -> Seen:
    with target.connect() as link:
        first = echo(link, b"", b"ab\0cd")
        rest = link.ask("SEND", {"destination": "/topic/probe.x"}, b"x", seconds=2)
        closed = link.ends()
    agrees = bool(first and first.body == b"ab" and rest and rest.command == "ERROR")
    return Seen(agrees=agrees, what=f"{first}; then {rest}; closed={closed}")


@frames("content-length shorter than the body", "the extra octets are skipped up to NUL in 1.1 and 1.2")
def short_length(target: Target) -> Seen:
    told: dict[str, str] = {}
    agrees = True
    for version in ("1.2", "1.1", "1.0"):
        with target.connect(version) as link:
            first = echo(link, b"content-length:2\n", b"abcd")
            after = link.ask("SEND", {"destination": "/topic/probe.x"}, b"x", seconds=2)
            told[version] = f"{first}; next {after}"
        if version != "1.0":
            agrees &= bool(first and first.body == b"ab" and after and after.command == "RECEIPT")
    return Seen(agrees=agrees, what=str(told))


@frames("content-length no number or negative", "logged only: the connection is stuck or garbled")
def bad_length(target: Target) -> Seen:
    told: dict[str, str] = {}
    for value in (b"abc", b"-1", b""):
        with target.connect() as link:
            first = echo(link, b"content-length:" + value + b"\n", b"abcd")
            after = link.ask("SEND", {"destination": "/topic/probe.x"}, b"x", seconds=2)
            told[value.decode()] = f"{first}; next {after}; closed={link.ends(0.2)}"
    return Seen(agrees=all(one.startswith("None; next None") for one in told.values()), what=str(told))


@frames("content-length on other frames", "honored on all: a body with NUL on UNSUBSCRIBE is skipped")
def length_elsewhere(target: Target) -> Seen:
    with target.connect() as link:
        listen(link, f"/queue/{fresh()}")
        frame = link.ask("UNSUBSCRIBE", {"id": "s1", "content-length": "3"}, b"a\0b")
        after = link.ask("SEND", {"destination": "/topic/probe.x"}, b"x", seconds=2)
    agrees = [one.command if one else None for one in (frame, after)] == ["RECEIPT", "RECEIPT"]
    return Seen(agrees=agrees, what=f"{frame}; next {after}")


@frames("body that is not UTF-8", "exact with content-length, damaged without")
def binary_body(target: Target) -> Seen:
    told: dict[str, str] = {}
    for version in ("1.2", "1.0"):
        for name, headers in (("with", b"content-length:255\n"), ("without", b"")):
            frame = echo_again(target, version, headers, NEVER_UTF8)
            told[f"{version} {name}"] = "exact" if frame and frame.body == NEVER_UTF8 else "damaged"
    agrees = told["1.2 with"] == told["1.0 with"] == "exact" and told["1.2 without"] == "damaged"
    return Seen(agrees=agrees, what=str(told))


@frames(
    "escapes decoded from the client", "1.0 none; 1.1 \\n \\c \\\\ with \\r an error; 1.2 \\r too; names and values"
)
def escapes_in(target: Target) -> Seen:
    told: dict[str, str] = {}
    for version in ("1.0", "1.1", "1.2"):
        frame = echo_again(target, version, b"a\\cb:1\\n2\\c3\\\\4\n")
        carriage = echo_again(target, version, b"x:1\\r2\n")
        lines = [line for line in frame.lines if line.startswith("a")] if frame else []
        told[version] = f"{lines} / {carriage and (carriage.get('x') or carriage)}"
    # They come back escaped in 1.1 and 1.2, which alone would not show that they were decoded.
    seen_raw = cross(target, "1.2", "1.0", b"a\\cb:1\\c3\\\\4\n")
    agrees = bool(
        told["1.0"].startswith("['a\\\\cb:1\\\\n2")
        and "ERROR" in told["1.1"]
        and told["1.2"].endswith("1\\r2")
        and seen_raw
        and "a:b:1:3\\4" in seen_raw.lines
    )
    return Seen(agrees=agrees, what=f"{told}; sent in 1.2, read in 1.0: {seen_raw}")


@frames("undefined escape", "ERROR AMQ339040, closed")
def undefined_escape(target: Target) -> Seen:
    told: list[str] = []
    agrees = True
    for version, header in (("1.2", b"x:a\\tb\n"), ("1.1", b"x:a\\tb\n"), ("1.2", b"x:a\\\n")):
        with target.connect(version) as link:
            frame = echo(link, header)
            closed = link.ends()
        agrees &= bool(frame and "339040" in str(frame) and closed)
        told.append(f"{version} {header!r}: {frame} closed={closed}")
    return Seen(agrees=agrees, what="; ".join(told))


@frames("raw colon in a value", "dropped silently in 1.1 and 1.2, kept in 1.0")
def raw_colon(target: Target) -> Seen:
    told: dict[str, str | None] = {}
    for version in ("1.0", "1.1", "1.2"):
        frame = echo_again(target, version, b"when:12:30\n")
        told[version] = frame.get("when") if frame else "nothing"
    return Seen(agrees=told == {"1.0": "12:30", "1.1": "1230", "1.2": "1230"}, what=str(told))


@frames("raw CR in a value", "unknown: reported")
def raw_carriage_return(target: Target) -> Seen:
    told = {version: str(echo_again(target, version, b"x:a\rb\n")) for version in ("1.0", "1.1", "1.2")}
    return Seen(agrees=True, what=str(told))


@frames("escapes sent to the client", "1.0 none; 1.1 and 1.2 all four, names and values, CR as \\r in 1.1 too")
def escapes_out(target: Target) -> Seen:
    told: dict[str, list[str]] = {}
    for reader in ("1.0", "1.1", "1.2"):
        frame = cross(target, "1.2", reader, b"a\\cb:1\\c2\\\\3\\r4\n")
        told[reader] = [line for line in frame.lines if line.startswith("a")] if frame else []
    wanted = {"1.0": ["a:b:1:2\\3\r4"], "1.1": ["a\\cb:1\\c2\\\\3\\r4"], "1.2": ["a\\cb:1\\c2\\\\3\\r4"]}
    return Seen(agrees=told == wanted, what=str(told))


@frames("LF in a value, read in 1.0", "not escaped: it breaks the frame")
def line_feed_out(target: Target) -> Seen:
    frame = cross(target, "1.2", "1.0", b"x:1\\n2\n")
    return Seen(agrees=bool(frame and "x:1" in frame.lines and "2" in frame.lines), what=str(frame))


@frames("repeated header", "the last wins in 1.0 and 1.1, the first in 1.2")
def repeated(target: Target) -> Seen:
    told: dict[str, list[str]] = {}
    for version in ("1.0", "1.1", "1.2"):
        frame = echo_again(target, version, b"x:first\nx:last\n")
        told[version] = frame.all("x") if frame else []
    return Seen(agrees=told == {"1.0": ["last"], "1.1": ["last"], "1.2": ["first"]}, what=str(told))


@frames("repeated content-length", "the last wins, in 1.2 too")
def repeated_length(target: Target) -> Seen:
    frame = echo_again(target, "1.2", b"content-length:2\ncontent-length:4\n", b"abcd")
    return Seen(agrees=bool(frame and frame.body == b"abcd"), what=str(frame))


@frames(
    "sender's subscription and message-id", "echoed after the real ones in 1.1 and 1.2; message-id overwrites in 1.0"
)
def forged(target: Target) -> Seen:
    told: dict[str, tuple[list[str], list[str]]] = {}
    for version in ("1.0", "1.1", "1.2"):
        frame = echo_again(target, version, b"subscription:forged\nmessage-id:forged\n")
        told[version] = (frame.all("subscription"), frame.all("message-id")) if frame else ([], [])
    modern = all(
        told[version][0] == ["s1", "forged"] and len(told[version][1]) > 1 and told[version][1][0] != "forged"
        for version in ("1.1", "1.2")
    )
    return Seen(agrees=modern and told["1.0"][1] == ["forged"], what=str(told))


@frames("sender's headers that reach the consumer", "all but receipt, transaction, content-length, destination-type")
def leaked(target: Target) -> Seen:
    sent = b"receipt:r9\ndestination-type:MULTICAST\nack:forged\nredelivered:forged\nx-own:1\nlogin:l\nselector:s\n"
    with target.connect() as link:
        name = f"/topic/{fresh('t')}"
        listen(link, name, ack="client-individual")
        link.write(b"SEND\ndestination:" + name.encode() + b"\n" + sent + b"\nx\0")
        frame = link.until("MESSAGE")
    have = frame.lines if frame else ()
    hidden = not any(line.startswith(("receipt:", "destination-type:")) for line in have)
    return Seen(agrees=hidden and "x-own:1" in have and "ack:forged" in have, what=" ".join(have))


@frames("space after the colon", "kept in 1.1 and 1.2, trimmed on the left in 1.0")
def space_after_colon(target: Target) -> Seen:
    told: dict[str, str | None] = {}
    for version in ("1.0", "1.1", "1.2"):
        frame = echo_again(target, version, b"x: a \n")
        told[version] = frame.get("x") if frame else "nothing"
    return Seen(agrees=told == {"1.0": "a ", "1.1": " a ", "1.2": " a "}, what=str(told))


@frames("order of headers in MESSAGE", "broker's own first, then the sender's in the order sent")
def header_order(target: Target) -> Seen:
    frame = echo_again(target, "1.2", b"zeta:1\nalpha:2\nmid:3\n")
    have = [line.partition(":")[0] for line in frame.lines] if frame else []
    own = [name for name in have if name in {"zeta", "alpha", "mid"}]
    return Seen(agrees=own == ["zeta", "alpha", "mid"], what=str(have))


@frames("header without a colon; empty name", "unknown: reported")
def odd_headers(target: Target) -> Seen:
    told: dict[str, str] = {}
    for header in (b"nocolon\n", b":empty\n"):
        with target.connect() as link:
            told[repr(header)] = f"{echo(link, header)} closed={link.ends(0.3)}"
    return Seen(agrees=True, what=str(told))


@frames("header that is not UTF-8", "U+FFFD for what is invalid")
def invalid_header(target: Target) -> Seen:
    frame = echo_again(target, "1.2", b"x:a\xff\xc3b\ny:\xc3\xa9\n")
    told = (frame.get("x"), frame.get("y")) if frame else ()
    return Seen(agrees=bool(told and "\ufffd" in (told[0] or "") and told[1] == "é"), what=repr(told))


@frames("large headers", "over 100 KiB of headers: ERROR AMQ339028 where the body is large")
def large_headers(target: Target) -> Seen:
    told: dict[str, str] = {}
    for name, header, body in (
        ("headers 120 KiB, body 1", 120_000, 1),
        ("headers 120 KiB, body 200 KiB", 120_000, 200_000),
        ("headers 1 KiB, body 10 MiB", 1000, 10 * 2**20),
    ):
        with target.connect() as link:
            destination = f"/queue/{fresh()}"
            listen(link, destination)
            headers = {"destination": destination, "x": "h" * header, "content-length": str(body)}
            answer = link.ask("SEND", headers, b"b" * body, seconds=15)
            message = link.until("MESSAGE", 15) if answer and answer.command == "RECEIPT" else None
            whole = message is not None and len(message.body) == body
            told[name] = f"{str(answer)[:60]} ... {str(answer)[-60:]}, delivered whole={whole}"
    cases = list(told.values())
    agrees = cases[0].startswith("RECEIPT") and "339028" in cases[1] and cases[2].endswith("whole=True")
    return Seen(agrees=agrees, what=str(told))


@frames("spaces between frames", "ERROR")
def spaces_between(target: Target) -> Seen:
    with target.connect() as link:
        link.write(b"  \n")
        frame = link.ask("SEND", {"destination": "/topic/probe.x"}, b"x", seconds=2)
        closed = link.ends()
    return Seen(agrees=bool(frame and frame.command == "ERROR"), what=f"{frame}; closed={closed}")


@frames("unknown and lower-case commands", "ERROR AMQ339023, closed")
def unknown_command(target: Target) -> Seen:
    told: dict[str, str] = {}
    for command in ("FOO", "send", "SENDX", "SEND "):
        with target.connect() as link:
            frame = link.ask(command, {"destination": "/topic/probe.x"}, b"x", seconds=2)
            told[command] = f"{frame} closed={link.ends(0.3)}"
    return Seen(agrees=all("AMQ339023" in one and "closed=True" in one for one in told.values()), what=str(told))
