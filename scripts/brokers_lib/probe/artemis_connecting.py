"""Artemis: CONNECT, versions, logins, heart-beats."""

import time

from brokers_lib.probe.raw import QUIET, Frame
from brokers_lib.probe.statements import Chapter, Seen, Target
from brokers_lib.probe.talk import LOGIN, beats, command, hello, names

connecting = Chapter("1a connecting")
beating = Chapter("1b heart-beats")


@connecting("accept-version absent", "version 1.0: CONNECTED with session and no version")
def version_absent(target: Target) -> Seen:
    frame, link = hello(target, LOGIN)
    with link:
        return Seen(agrees=names(frame) == ["session"], what=str(frame))


@connecting("accept-version with spaces", "'1.1, 1.2' is 1.1; ' 1.2' alone is ERROR")
def version_spaces(target: Target) -> Seen:
    both, link = hello(target, LOGIN | {"accept-version": "1.1, 1.2"})
    link.socket.close()
    alone, link = hello(target, LOGIN | {"accept-version": " 1.2"})
    link.socket.close()
    agrees = bool(both and alone and both.get("version") == "1.1" and alone.command == "ERROR")
    return Seen(agrees=agrees, what=f"{both}; alone: {alone}")


@connecting("no common version", "ERROR with version:1.0,1.1,1.2, closed")
def version_none(target: Target) -> Seen:
    frame, link = hello(target, LOGIN | {"accept-version": "2.0"})
    with link:
        closed = link.ends()
    agrees = bool(frame and frame.command == "ERROR" and frame.get("version") == "1.0,1.1,1.2" and closed)
    return Seen(agrees=agrees, what=f"{frame}; closed={closed}")


@connecting("CONNECTED in 1.1 and 1.2", "version, session, server; heart-beat only if the client sent one")
def connected_headers(target: Target) -> Seen:
    without, link = hello(target, LOGIN | {"accept-version": "1.2"})
    link.socket.close()
    with_beat, link = hello(target, LOGIN | {"accept-version": "1.1", "heart-beat": "0,0"})
    link.socket.close()
    agrees = names(without) == ["version", "session", "server"] and "heart-beat" in names(with_beat)
    return Seen(agrees=agrees, what=f"{without}; with heart-beat: {names(with_beat)}")


@connecting("CONNECTED in 1.0", "version only if accept-version was there")
def connected_one_zero(target: Target) -> Seen:
    frame, link = hello(target, LOGIN | {"accept-version": "1.0"})
    with link:
        return Seen(agrees=sorted(names(frame)) == ["session", "version"], what=str(frame))


@connecting("receipt and request-id on CONNECT", "receipt ignored; request-id comes back as response-id")
def connect_receipt(target: Target) -> Seen:
    frame, link = hello(target, LOGIN | {"accept-version": "1.2", "receipt": "r1", "request-id": "q1"})
    with link:
        more = link.gather()
    agrees = bool(frame and frame.get("response-id") == "q1" and not frame.get("receipt-id") and not more)
    return Seen(agrees=agrees, what=f"{names(frame)}, then {len(more)} frames")


@connecting("escapes in CONNECT", "not decoded: raw s3cret:x logs in, s3cret\\cx does not")
def connect_escapes(target: Target) -> Seen:
    alice = {"host": "/", "login": "alice", "accept-version": "1.2"}
    raw_colon, link = hello(target, alice | {"passcode": "s3cret:x"})
    link.socket.close()
    escaped, link = hello(target, alice | {"passcode": "s3cret\\cx"})
    link.socket.close()
    return Seen(
        agrees=(command(raw_colon), command(escaped)) == ("CONNECTED", "ERROR"),
        what=f"raw colon: {command(raw_colon)}; escaped: {escaped}",
    )


@connecting("CONNECT with CRLF line ends", "1.2 decoder: escapes decoded, raw colons in values dropped")
def connect_crlf(target: Target) -> Seen:
    answers: list[Frame | None] = []
    for passcode in (b"s3cret\\cx", b"s3cret:x"):
        with target.dial() as link:
            head = b"CONNECT\r\naccept-version:1.2\r\nhost:/\r\nlogin:alice\r\npasscode:"
            link.write(head + passcode + b"\r\n\r\n\0")
            answers.append(link.read())
    escaped, raw_colon = answers
    return Seen(
        agrees=(command(escaped), command(raw_colon)) == ("CONNECTED", "ERROR"),
        what=f"escaped: {escaped}; raw colon: {raw_colon}",
    )


@connecting("no login header", "refused where security is on")
def no_login(target: Target) -> Seen:
    frame, link = hello(target, {"accept-version": "1.2", "host": "/"})
    with link:
        closed = link.ends()
    return Seen(agrees=command(frame) == "ERROR", what=f"{frame}; closed={closed}")


@connecting("wrong credentials", "ERROR Security Error occurred: User name [guest] or password is invalid, closed")
def wrong_credentials(target: Target) -> Seen:
    frame, link = hello(target, LOGIN | {"accept-version": "1.2", "passcode": "wrong"})
    with link:
        closed = link.ends()
    wanted = "Security Error occurred: User name [guest] or password is invalid"
    return Seen(agrees=bool(frame and wanted in str(frame) and closed), what=f"{frame}; closed={closed}")


@connecting("wrong or missing host", "ignored")
def host_ignored(target: Target) -> Seen:
    login = {"login": "guest", "passcode": "guest", "accept-version": "1.2"}
    answers: list[str] = []
    for extra in ({"host": "nowhere"}, {"host": ""}, {}):
        frame, link = hello(target, login | extra)
        link.socket.close()
        answers.append(command(frame))
    return Seen(agrees=set(answers) == {"CONNECTED"}, what=f"unknown, empty, missing: {answers}")


@connecting("nothing sent", "closed silently after 10 s")
def nothing_sent(target: Target) -> Seen:
    with target.dial() as link:
        started = time.monotonic()
        closed = link.ends(15)
        seconds = time.monotonic() - started
    agrees = closed and not link.buffer and 9 < seconds < 12
    return Seen(agrees=agrees, what=f"closed={closed} after {seconds:.1f} s, octets={link.buffer!r}")


@connecting("second CONNECT", "an answer of some kind")
def second_connect(target: Target) -> Seen:
    with target.connect() as link:
        link.send("CONNECT", LOGIN | {"accept-version": "1.1"})
        frame, closed = link.read(2), link.ends()
    return Seen(agrees=frame is not None or closed, what=f"{frame}; closed={closed}")


@connecting("frame before CONNECT", "ERROR AMQ339008")
def before_connect(target: Target) -> Seen:
    with target.dial() as link:
        link.send("SEND", {"destination": "/queue/x", "receipt": "r1"}, b"x")
        frame, closed = link.read(), link.ends(12)
    return Seen(agrees=bool(frame and "AMQ339008" in str(frame)), what=f"{frame}; closed={closed} within 17 s")


@connecting("client-id twice", "both connect; it only names durable subscriptions")
def client_id_twice(target: Target) -> Seen:
    with target.connect(client_id="probe-twice") as first, target.connect(client_id="probe-twice") as second:
        alive = [link.ask("SEND", {"destination": "/queue/probe.x"}, b"x") for link in (first, second)]
        what = f"first: {command(alive[0])}, second: {command(alive[1])}"
    with target.connect() as link:
        link.send("SUBSCRIBE", {"destination": "/queue/probe.x", "id": "1", "ack": "auto"})
        link.gather()
    return Seen(agrees=[command(frame) for frame in alive] == ["RECEIPT", "RECEIPT"], what=what)


@connecting("CRLF line ends", "understood in 1.2, not in 1.1 and 1.0")
def crlf(target: Target) -> Seen:
    told: dict[str, str] = {}
    for version in ("1.2", "1.1", "1.0"):
        with target.connect(version) as link:
            link.write(b"SEND\r\ndestination:/topic/probe.crlf\r\nreceipt:r1\r\n\r\nx\0")
            frame = link.read(1.5)
            told[version] = str(frame)
    good = "RECEIPT receipt-id:r1"
    agrees = told["1.2"] == good and told["1.1"] != good and told["1.0"] != good
    return Seen(agrees=agrees, what=str(told))


@connecting("end-of-lines before CONNECT", "LF and CRLF fine, two CR are an error")
def eol_before_connect(target: Target) -> Seen:
    told: dict[str, str] = {}
    for octets in (b"\n\n", b"\r\n\r\n", b"\r\r\n"):
        with target.dial() as link:
            link.write(octets)
            link.send("CONNECT", LOGIN | {"accept-version": "1.2"})
            frame = link.read(2)
            told[repr(octets)] = command(frame)
    agrees = list(told.values())[:2] == ["CONNECTED", "CONNECTED"] and told[repr(b"\r\r\n")] != "CONNECTED"
    return Seen(agrees=agrees, what=str(told))


@connecting("frames right behind CONNECT", "answered in order")
def pipelined(target: Target) -> Seen:
    with target.dial() as link:
        head = b"CONNECT\naccept-version:1.2\nhost:/\nlogin:guest\npasscode:guest\n\n\0"
        link.write(head + b"SEND\ndestination:/topic/probe.pipe\nreceipt:r1\n\nx\0DISCONNECT\nreceipt:r2\n\n\0")
        frames = [frame.command for frame in link.gather(2)]
    return Seen(agrees=frames == ["CONNECTED", "RECEIPT", "RECEIPT"], what=str(frames))


@beating("answer to the client's heart-beat", "max(cy,500),cx with cx raised to 500")
def beat_answer(target: Target) -> Seen:
    wanted = {"100,100": "500,500", "1500,2500": "2500,1500", "10000,20000": "20000,10000"}
    told: dict[str, str | None] = {}
    for offer in wanted:
        with target.dial() as link:
            link.send("CONNECT", LOGIN | {"accept-version": "1.2", "heart-beat": offer})
            frame = link.read()
            told[offer] = frame.get("heart-beat") if frame else None
    return Seen(agrees=told == wanted, what=str(told))


@beating("client offers 0", "the server announces 30000 as what it wants")
def beat_zero(target: Target) -> Seen:
    frame, link = hello(target, LOGIN | {"accept-version": "1.2", "heart-beat": "0,0"})
    link.socket.close()
    only_receive, link = hello(target, LOGIN | {"accept-version": "1.2", "heart-beat": "0,2000"})
    link.socket.close()
    told = [one.get("heart-beat") if one else None for one in (frame, only_receive)]
    return Seen(agrees=all(one and one.endswith(",30000") for one in told), what=f"0,0 and 0,2000 get {told}")


@beating("malformed heart-beat", "ERROR")
def beat_malformed(target: Target) -> Seen:
    told: list[str] = []
    for offer in ("abc", "1000", "-1,-1", " 1000 , 1000 "):
        frame, link = hello(target, LOGIN | {"accept-version": "1.2", "heart-beat": offer})
        with link:
            told.append(f"{offer!r}: {frame} closed={link.ends(0.3)}")
    return Seen(agrees=all(": ERROR" in one for one in told), what="; ".join(told))


@beating("the server's rhythm", "one LF each interval, also while other frames flow")
def beat_rhythm(target: Target) -> Seen:
    with target.connect(heart_beat="0,1000") as link:
        idle = beats(link, 4.3)
    with target.connect(heart_beat="0,1000") as link:
        counted, started = 0, time.monotonic()
        while time.monotonic() - started < 4.3:
            link.between = b""
            link.ask("SEND", {"destination": "/topic/probe.rhythm"}, b"x")
            time.sleep(0.1)
            # Each RECEIPT is followed by one LF of its own.
            counted += max(link.between.count(b"\n") - 1, 0)
    what = f"idle: beats at {[round(when, 2) for when in idle]} s; while sending: {counted} beats in 4.3 s"
    return Seen(agrees=len(idle) == 4 and counted >= 3, what=what)


@beating("the client falls silent", "after 2 intervals ERROR AMQ229014, closed")
def beat_missed(target: Target) -> Seen:
    told: list[str] = []
    agrees = True
    for interval in (1000, 2000):
        with target.connect(heart_beat=f"{interval},0") as link:
            started = time.monotonic()
            frame = link.read(12)
            seconds = time.monotonic() - started
            closed = link.ends()
        # Silence is looked for every two seconds, and that comes on top.
        agrees &= bool(frame and "AMQ229014" in str(frame) and closed) and seconds < interval / 1000 * 2 + 2.5
        told.append(f"{interval} ms: {frame} after {seconds:.1f} s, closed={closed}")
    return Seen(agrees=agrees, what="; ".join(told))


@beating("idle clients that offered no beats, and 1.0 clients", "dropped after 60 s")
def beat_idle(target: Target) -> Seen:
    links = {
        "0,0": target.connect(heart_beat="0,0"),
        "1.0": target.connect("1.0"),
        "no header": target.connect("1.2"),
    }
    started = time.monotonic()
    told: list[str] = []
    agrees = True
    for name, link in links.items():
        with link:
            frame = link.read(max(70 - (time.monotonic() - started), 1))
            seconds = time.monotonic() - started
            closed = link.ends()
        agrees &= closed and 55 < seconds < 66
        told.append(f"{name}: {frame} after {seconds:.1f} s, closed={closed}")
    return Seen(agrees=agrees, what="; ".join(told))


@beating("beats that come 40 % late", "tolerated")
def beat_late(target: Target) -> Seen:
    with target.connect(heart_beat="1000,0") as link:
        for _ in range(5):
            if link.ends(1.4):
                break
            link.write(b"\n")
        return Seen(agrees=not link.closed, what=f"after 5 late beats: closed={link.closed} {link.buffer!r}")


@beating("what counts as life", "any octets: a frame that trickles in")
def beat_trickle(target: Target) -> Seen:
    with target.connect(heart_beat="1000,0") as link:
        for octet in b"SEND\ndestin":
            link.write(bytes([octet]))
            if link.ends(0.5):
                break
        return Seen(agrees=not link.closed, what=f"after 5.5 s of trickling: closed={link.closed} {link.buffer!r}")


@beating("CRLF as the client's beat", "fine in 1.2")
def beat_crlf(target: Target) -> Seen:
    told: dict[str, bool] = {}
    for version in ("1.2", "1.1"):
        with target.connect(version, heart_beat="1000,0") as link:
            for _ in range(4):
                link.write(b"\r\n")
                link.ends(QUIET)
            told[version] = command(link.ask("SEND", {"destination": "/topic/probe.beat"}, b"x")) == "RECEIPT"
    return Seen(agrees=told["1.2"], what=f"still answers: {told}")
