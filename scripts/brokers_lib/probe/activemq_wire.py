"""ActiveMQ Classic: CONNECT, heart-beats, frames. What is expected was seen of 5.17.2."""

import time

from brokers_lib.probe.raw import Frame, fresh
from brokers_lib.probe.statements import Chapter, Seen, Target
from brokers_lib.probe.talk import LOGIN, beats, command, cross, echo_again, hello, listen, names

wire = Chapter("AMQ wire")

PORTS = ("stomp", "stomp+nio")


@wire("no common version", "ERROR Invalid Protocol version[2.0], no version header, body a stack trace, closed")
def version_none(target: Target) -> Seen:
    frame, link = hello(target, LOGIN | {"accept-version": "2.0"})
    with link:
        closed = link.ends()
    agrees = bool(frame and "Invalid Protocol version[2.0]" in str(frame) and not frame.get("version") and closed)
    trace = bool(frame and b"\tat " in frame.body)
    return Seen(agrees=agrees and trace, what=f"{frame}; closed={closed}, stack trace={trace}")


@wire("CONNECTED", "server, heart-beat, session, version")
def connected(target: Target) -> Seen:
    frame, link = hello(target, LOGIN | {"accept-version": "1.2"})
    link.socket.close()
    one_zero, link = hello(target, LOGIN)
    link.socket.close()
    agrees = sorted(names(frame)) == ["heart-beat", "server", "session", "version"]
    return Seen(agrees=agrees, what=f"{frame}; without accept-version: {one_zero}")


@wire("receipt and request-id on CONNECT", "receipt-id and response-id come back; request-id wins")
def connect_receipt(target: Target) -> Seen:
    frame, link = hello(target, LOGIN | {"accept-version": "1.2", "receipt": "r1"})
    link.socket.close()
    both, link = hello(target, LOGIN | {"accept-version": "1.2", "receipt": "r1", "request-id": "q1"})
    link.socket.close()
    agrees = bool(frame and frame.get("receipt-id") == frame.get("response-id") == "r1")
    return Seen(agrees=agrees and bool(both and both.get("receipt-id") == "q1"), what=f"{frame}; both: {both}")


@wire("escapes in CONNECT", "decoded: s3cret\\cx and s3cret:x both log in")
def connect_escapes(target: Target) -> Seen:
    alice = {"host": "/", "login": "alice", "accept-version": "1.2"}
    told: list[str] = []
    for passcode in ("s3cret\\cx", "s3cret:x"):
        frame, link = hello(target, alice | {"passcode": passcode})
        link.socket.close()
        told.append(command(frame))
    return Seen(agrees=told == ["CONNECTED", "CONNECTED"], what=str(told))


@wire("wrong credentials", "ERROR User name [guest] or password is invalid., closed")
def wrong_credentials(target: Target) -> Seen:
    frame, link = hello(target, LOGIN | {"accept-version": "1.2", "passcode": "wrong", "receipt": "r1"})
    with link:
        closed = link.ends()
    agrees = bool(frame and "User name [guest] or password is invalid." in str(frame) and closed)
    return Seen(agrees=agrees, what=f"{frame}; closed={closed}")


@wire("second CONNECT", "ERROR Already connected., stays open")
def second_connect(target: Target) -> Seen:
    told: dict[str, str] = {}
    for port in PORTS:
        with target.connect(port=port) as link:
            link.send("CONNECT", LOGIN | {"accept-version": "1.2"})
            frame, closed = link.read(2), link.ends()
        told[port] = f"{frame}; closed={closed}"
    agrees = all("Already connected." in one and "closed=False" in one for one in told.values())
    return Seen(agrees=agrees, what=str(told))


@wire("frame before CONNECT", "ERROR Not connected. with receipt-id, stays open")
def before_connect(target: Target) -> Seen:
    told: dict[str, str] = {}
    for port in PORTS:
        with target.dial(port) as link:
            link.send("SEND", {"destination": "/queue/probe.x", "receipt": "r1"}, b"x")
            frame, closed = link.read(), link.ends()
        told[port] = f"{frame}; closed={closed}"
    agrees = all("Not connected." in one and "closed=False" in one for one in told.values())
    return Seen(agrees=agrees, what=str(told))


@wire("client-id twice", "second: ERROR ... already connected from ..., closed")
def client_id_twice(target: Target) -> Seen:
    client = fresh("c")
    with target.connect(client_id=client):
        frame, link = hello(target, LOGIN | {"accept-version": "1.2", "client-id": client})
        with link:
            closed = link.ends()
    return Seen(agrees="already connected from" in str(frame) and closed, what=f"{frame}; closed={closed}")


@wire("end-of-lines before CONNECT", "fine on tcp")
def eol_before_connect(target: Target) -> Seen:
    told: dict[str, str] = {}
    for port in PORTS:
        for octets in (b"\n\n", b"\r\n\r\n"):
            with target.dial(port) as link:
                link.write(octets)
                link.send("CONNECT", LOGIN | {"accept-version": "1.2"})
                told[f"{port} {octets!r}"] = command(link.read(2))
    agrees = all(told[f"stomp {octets!r}"] == "CONNECTED" for octets in (b"\n\n", b"\r\n\r\n"))
    return Seen(agrees=agrees, what=str(told))


@wire("answer to the client's heart-beat", "echo: cy,cx unchanged, even 5,5; 0,0 where none was sent")
def beat_answer(target: Target) -> Seen:
    wanted = {"5,7": "7,5", "1500,2500": "2500,1500", "": "0,0"}
    told: dict[str, str | None] = {}
    for offer in wanted:
        frame, link = hello(target, LOGIN | {"accept-version": "1.2"} | ({"heart-beat": offer} if offer else {}))
        link.socket.close()
        told[offer] = frame.get("heart-beat") if frame else None
    return Seen(agrees=told == wanted, what=str(told))


@wire("default heart-beat of the connector", "1000,3000 unasked on the port `small`, and it beats")
def beat_default(target: Target) -> Seen:
    frame, link = hello(target, LOGIN | {"accept-version": "1.2"}, "small")
    with link:
        times = beats(link, 3.5)
    agrees = bool(frame and frame.get("heart-beat") == "1000,3000" and times)
    return Seen(agrees=agrees, what=f"{frame and frame.get('heart-beat')}, beats at {[round(one, 1) for one in times]}")


@wire("the server's rhythm", "each interval when idle; the first gap up to 2 intervals")
def beat_rhythm(target: Target) -> Seen:
    with target.connect(heart_beat="0,1000") as link:
        times = [round(one, 1) for one in beats(link, 5.3)]
    return Seen(agrees=len(times) >= 3, what=f"beats at {times} s")


@wire("the client falls silent", "closed without ERROR after 3 intervals on tcp, 2 on nio")
def beat_missed(target: Target) -> Seen:
    told: dict[str, str] = {}
    agrees = True
    for port, factor in (("stomp", 3), ("stomp+nio", 2)):
        with target.connect(port=port, heart_beat="1000,0") as link:
            started = time.monotonic()
            frame = link.read(8)
            seconds = time.monotonic() - started
        agrees &= frame is None and link.closed and abs(seconds - factor) < 0.6
        told[port] = f"{frame} closed={link.closed} after {seconds:.1f} s"
    return Seen(agrees=agrees, what=str(told))


@wire("beats that come 40 % late", "closed after some")
def beat_late(target: Target) -> Seen:
    told: dict[str, str] = {}
    for port in PORTS:
        with target.connect(port=port, heart_beat="1000,0") as link:
            count = 0
            while count < 6 and not link.ends(1.4):
                link.write(b"\n")
                count += 1
            told[port] = f"closed={link.closed} after {count} late beats"
    return Seen(agrees="closed=True" in told["stomp"], what=str(told))


@wire("CRLF as the client's beat", "fine on tcp; nio closes at the second")
def beat_crlf(target: Target) -> Seen:
    told: dict[str, str] = {}
    for port in PORTS:
        with target.connect(port=port) as link:
            for _ in range(3):
                link.write(b"\r\n")
                link.ends(0.2)
            told[port] = str(link.ask("SEND", {"destination": "/topic/probe.beat"}, b"x", seconds=2))[:7]
    return Seen(agrees=told == {"stomp": "RECEIPT", "stomp+nio": "None"}, what=str(told))


@wire("content-length on MESSAGE and ERROR", "MESSAGE only where the sender gave one; ERROR never")
def lengths(target: Target) -> Seen:
    told = [echo_again(target, "1.2", headers, b"ab") for headers in (b"", b"content-length:2\n")]
    with target.connect() as link:
        error = link.ask("UNSUBSCRIBE", {"id": "nobody"})
    seen = [frame.get("content-length") if frame else "nothing" for frame in (*told, error)]
    return Seen(agrees=seen == [None, "2", None], what=f"text, bytes, ERROR: {seen}")


@wire("content-length shorter than the body", "ERROR ... no trailing null byte, closed")
def short_length(target: Target) -> Seen:
    frame = echo_again(target, "1.2", b"content-length:2\n", b"abcd")
    return Seen(agrees="trailing null byte" in str(frame), what=str(frame))


@wire("escapes", "in: \\n \\c \\\\ in every version, \\r in 1.2; out: names never; 1.0 none")
def escapes(target: Target) -> Seen:
    told: dict[str, list[str]] = {}
    for reader in ("1.0", "1.1", "1.2"):
        frame = cross(target, "1.2", reader, b"a\\cb:1\\c2\\\\3\\r4\n")
        told[reader] = [line for line in frame.lines if line.startswith("a")] if frame else []
    wanted = {"1.0": ["a\\cb:1:2\\3\r4"], "1.1": ["a\\cb:1\\c2\\\\3\r4"], "1.2": ["a\\cb:1\\c2\\\\3\\r4"]}
    return Seen(agrees=told == wanted, what=str(told))


@wire("undefined escape", "kept literally, comes back as \\\\t")
def undefined_escape(target: Target) -> Seen:
    frame = echo_again(target, "1.2", b"x:a\\tb\n")
    return Seen(agrees=bool(frame and frame.get("x") == "a\\\\tb"), what=str(frame))


@wire("raw colon in a value; repeated header", "accepted; the first wins and alone comes back")
def colon_and_repeat(target: Target) -> Seen:
    frame = echo_again(target, "1.2", b"when:12:30\nx:first\nx:last\n")
    agrees = bool(frame and frame.get("when") == "12\\c30" and frame.all("x") == ["first"])
    return Seen(agrees=agrees, what=str(frame))


@wire("forged ack header", "comes back in MESSAGE where the mode is auto")
def forged(target: Target) -> Seen:
    name = f"/queue/{fresh()}"
    told: dict[str, list[str]] = {}
    for ack in ("auto", "client-individual"):
        with target.connect() as link:
            link.ask("SEND", {"destination": name, "ack": "forged", "message-id": "forged", "receipt": "r"}, b"x")
            listen(link, name, ack)
            frame = link.until("MESSAGE")
            told[ack] = frame.all("ack") if frame else []
    return Seen(agrees=told["auto"] == ["forged"] and told["client-individual"][:1] != ["forged"], what=str(told))


@wire("large header", "over 10 240 octets: ERROR The maximum header length was exceeded, closed")
def large_header(target: Target) -> Seen:
    with target.connect() as link:
        frame = link.ask("SEND", {"destination": "/topic/probe.x", "x": "h" * 11000}, b"x")
        more = [str(one)[:60] for one in link.gather(1)]
        closed = link.closed
    return Seen(agrees="maximum header length" in str(frame), what=f"{frame}; then {more}; closed={closed}")


@wire("large body on the port `small`", "ERROR naming the limit, closed")
def large_body(target: Target) -> Seen:
    told: dict[int, str] = {}
    for size in (60_000, 70_000):
        with target.connect(port="small") as link:
            frame: Frame | None = link.ask(
                "SEND", {"destination": "/topic/probe.x", "content-length": str(size)}, b"b" * size
            )
            told[size] = f"{frame} closed={link.ends()}"
    return Seen(agrees="RECEIPT" in told[60_000] and "ERROR" in told[70_000], what=str(told))


@wire("unknown command", "ERROR Unknown STOMP action: FOO with receipt-id, closed")
def unknown_command(target: Target) -> Seen:
    with target.connect() as link:
        frame, closed = link.ask("FOO"), link.ends()
    agrees = "Unknown STOMP action" in str(frame) and closed
    return Seen(agrees=agrees and "receipt-id" in str(frame), what=f"{frame}; closed={closed}")
