"""Artemis: receipts, errors, DISCONNECT, transactions, flow control."""

from brokers_lib.probe.artemis_delivery import settle
from brokers_lib.probe.raw import Frame, Link, fresh
from brokers_lib.probe.statements import Chapter, Seen, Target
from brokers_lib.probe.talk import fill, left, listen

lifecycle = Chapter("1e receipts, errors, transactions")

ANYWHERE = {"destination": "/topic/probe.x"}


@lifecycle("shape of ERROR", "message, and receipt-id where the frame asked, but not for SUBSCRIBE")
def error_shape(target: Target) -> Seen:
    with target.connect("1.1") as link:
        unsubscribe = link.ask("UNSUBSCRIBE", {"id": "nobody"})
    with target.connect("1.1") as link:
        subscribe = listen(link, f"/topic/{fresh('t')}", selector="= =")
    agrees = bool(unsubscribe and unsubscribe.get("receipt-id") and subscribe and not subscribe.get("receipt-id"))
    return Seen(agrees=agrees, what=f"{unsubscribe}; for SUBSCRIBE: {subscribe}")


@lifecycle("connection after ERROR", "closed in 1.2, open in 1.1 and 1.0")
def after_error(target: Target) -> Seen:
    told: dict[str, str] = {}
    for version in ("1.2", "1.1", "1.0"):
        with target.connect(version) as link:
            error = link.ask("UNSUBSCRIBE", {"id": "nobody"})
            closed = link.ends()
            works = None if closed else link.ask("SEND", ANYWHERE, b"x", seconds=2)
            told[version] = f"{str(error)[:5]}, closed={closed}, next {str(works)[:7]}"
    agrees = "closed=True" in told["1.2"] and all("RECEIPT" in told[version] for version in ("1.1", "1.0"))
    return Seen(agrees=agrees, what=str(told))


@lifecycle("no right to send", "ERROR; open in 1.1")
def no_right(target: Target) -> Seen:
    told: dict[str, str] = {}
    for version in ("1.2", "1.1"):
        with target.connect(version, login="readonly", passcode="readonly") as link:
            error = link.ask("SEND", {"destination": f"/topic/{fresh('t')}"}, b"x")
            told[version] = f"{error} closed={link.ends()}"
    agrees = all("ERROR" in one for one in told.values()) and "closed=False" in told["1.1"]
    return Seen(agrees=agrees, what=str(told))


@lifecycle("RECEIPT after ERROR for the same frame", "never")
def receipt_after_error(target: Target) -> Seen:
    with target.connect("1.1") as link:
        listen(link, f"/queue/{fresh()}")
        listen(link, f"/queue/{fresh()}")
        more = link.gather()
    return Seen(agrees=not more, what=f"after the ERROR came {[str(frame) for frame in more]}")


@lifecycle("receipts for SEND", "in order, persistent and transient mixed")
def receipts_in_order(target: Target) -> Seen:
    queue = f"/queue/{fresh()}"
    with target.connect() as link:
        for number in range(60):
            persistent = "true" if number % 2 else "false"
            headers = {"destination": queue, "persistent": persistent, "receipt": str(number)}
            link.send("SEND", headers, b"x")
        order = [int(frame.get("receipt-id") or -1) for frame in link.gather() if frame.command == "RECEIPT"]
    left(target, queue)
    return Seen(agrees=order == list(range(60)), what=f"{len(order)} receipts, in order={order == sorted(order)}")


@lifecycle("SEND to a topic that nobody listens to", "RECEIPT, message dropped")
def to_nowhere(target: Target) -> Seen:
    with target.connect() as link:
        frame = link.ask("SEND", {"destination": f"/topic/{fresh('t')}"}, b"x")
    return Seen(agrees=str(frame).startswith("RECEIPT"), what=str(frame))


@lifecycle("DISCONNECT with receipt", "all earlier receipts, then its RECEIPT, then closed")
def disconnect_receipt(target: Target) -> Seen:
    queue = f"/queue/{fresh()}"
    with target.connect() as link:
        for number in range(20):
            link.send("SEND", {"destination": queue, "persistent": "true", "receipt": str(number)}, b"x")
        link.send("DISCONNECT", {"receipt": "bye"})
        receipts = [frame.get("receipt-id") for frame in link.gather(2)]
        closed = link.closed
    stored = len(left(target, queue))
    agrees = receipts == [*map(str, range(20)), "bye"] and closed
    return Seen(agrees=agrees, what=f"receipts {receipts[-3:]} ({len(receipts)}), closed={closed}, stored {stored}")


@lifecycle("DISCONNECT without receipt", "closed")
def disconnect_plain(target: Target) -> Seen:
    with target.connect() as link:
        link.send("DISCONNECT")
        closed = link.ends(1)
    return Seen(agrees=closed and not link.buffer.strip(b"\n"), what=f"closed={closed}, octets {link.buffer!r}")


@lifecycle("frames after DISCONNECT", "unknown: reported")
def after_disconnect(target: Target) -> Seen:
    queue = f"/queue/{fresh()}"
    with target.connect() as link:
        link.write(f"DISCONNECT\n\n\0SEND\ndestination:{queue}\nreceipt:r1\n\nx\0".encode())
        frames = [str(frame) for frame in link.gather(1)]
    return Seen(agrees=True, what=f"{frames}, stored {left(target, queue)}")


@lifecycle("client half-closes (SHUT_WR)", "unknown: reported")
def half_close(target: Target) -> Seen:
    queue = f"/queue/{fresh()}"
    with target.connect() as link:
        link.send("SEND", {"destination": queue, "receipt": "r1"}, b"x")
        link.socket.shutdown(1)
        frames = [str(frame) for frame in link.gather(1)]
        closed = link.closed
    return Seen(agrees=True, what=f"{frames}, closed={closed}, stored {left(target, queue)}")


@lifecycle("abrupt close after 20 SENDs", "all arrive")
def abrupt_close(target: Target) -> Seen:
    queue = f"/queue/{fresh()}"
    with target.connect() as link:
        for number in range(20):
            link.send("SEND", {"destination": queue}, str(number).encode())
    stored = len(left(target, queue))
    return Seen(agrees=stored == 20, what=f"{stored} of 20 arrived")


@lifecycle("SEND in a transaction never begun", "accepted with RECEIPT, then lost; COMMIT is ERROR")
def never_begun(target: Target) -> Seen:
    queue = f"/queue/{fresh()}"
    with target.connect() as link:
        sent = link.ask("SEND", {"destination": queue, "transaction": "t1"}, b"x")
        commit = link.ask("COMMIT", {"transaction": "t1"})
    stored = left(target, queue)
    with target.connect() as link:
        bare = link.ask("COMMIT", {"transaction": "t2"})
    agrees = str(sent).startswith("RECEIPT") and not stored and str(commit).startswith("ERROR")
    return Seen(agrees=agrees, what=f"SEND: {sent}; COMMIT: {commit}; stored {stored}; COMMIT alone: {bare}")


@lifecycle("BEGIN twice", "ERROR")
def begin_twice(target: Target) -> Seen:
    with target.connect() as link:
        link.ask("BEGIN", {"transaction": "t1"})
        frame, closed = link.ask("BEGIN", {"transaction": "t1"}), link.ends()
    return Seen(agrees=str(frame).startswith("ERROR"), what=f"{frame}; closed={closed}")


@lifecycle("SEND in a transaction", "stored at COMMIT, dropped at ABORT; each receipt comes at once")
def transaction_send(target: Target) -> Seen:
    told: list[str] = []
    agrees = True
    for end, wanted in (("COMMIT", ["m0", "m1"]), ("ABORT", [])):
        queue = f"/queue/{fresh()}"
        with target.connect() as link:
            link.ask("BEGIN", {"transaction": "t1"})
            fill(link, queue, 2, transaction="t1")
            early = left(target, queue)
            answer = link.ask(end, {"transaction": "t1"})
            late = left(target, queue)
        agrees &= early == [] and late == wanted and str(answer).startswith("RECEIPT")
        told.append(f"before {end} {early}, after {late}")
    return Seen(agrees=agrees, what="; ".join(told))


def opened(target: Target, ack: str = "client-individual") -> tuple[str, Link, Frame | None]:
    """A queue of one message, which a connection with an open transaction has been given."""
    queue, link = f"/queue/{fresh()}", target.connect()
    fill(link, queue, 1)
    listen(link, queue, ack=ack)
    frame = link.until("MESSAGE")
    link.ask("BEGIN", {"transaction": "t1"})
    return queue, link, frame


@lifecycle("ACK in a transaction", "takes effect at once, the transaction header is ignored; ABORT does not undo it")
def transaction_ack(target: Target) -> Seen:
    told: dict[str, list[str]] = {}
    for ack in ("client-individual", "client"):
        queue, link, frame = opened(target, ack)
        with link:
            settle(link, "ACK", frame, transaction="t1")
            link.ask("ABORT", {"transaction": "t1"})
            link.ask("DISCONNECT")
        told[ack] = left(target, queue)
    return Seen(agrees=not any(told.values()), what=f"after ABORT remain {told}")


@lifecycle("NACK in a transaction", "discarded at once")
def transaction_nack(target: Target) -> Seen:
    queue, link, frame = opened(target)
    with link:
        answer = settle(link, "NACK", frame, transaction="t1")
        link.ask("ABORT", {"transaction": "t1"})
        link.ask("DISCONNECT")
    rest = left(target, queue)
    return Seen(agrees=rest == [], what=f"{answer}; after ABORT remain {rest}")


@lifecycle("open transaction at DISCONNECT", "rolled back")
def transaction_open(target: Target) -> Seen:
    queue = f"/queue/{fresh()}"
    with target.connect() as link:
        link.ask("BEGIN", {"transaction": "t1"})
        fill(link, queue, 1, transaction="t1")
        link.ask("DISCONNECT")
    rest = left(target, queue)
    return Seen(agrees=rest == [], what=f"stored {rest}")


def pour(target: Target, queue: str) -> str:
    """Send 8 KiB messages with receipts until one is not confirmed, and tell how that looked."""
    with target.connect(heart_beat="0,1000") as link:
        for number in range(40):
            frame = link.ask("SEND", {"destination": queue}, b"b" * 8192, seconds=3)
            if frame is None:
                link.between = b""
                closed = link.ends(2.2)
                return f"after {number} confirmed it hangs, closed={closed}, beats go on={bool(link.buffer)}"
            if frame.command == "ERROR":
                return f"after {number} confirmed {frame}, closed={link.ends()}"
    return "never full"


@lifecycle("two subscriptions with unacknowledged messages, then an abrupt close", "all are delivered again")
def stuck_in_delivery(target: Target) -> Seen:
    # A race in the broker: what does not come again stays "in delivery" until the broker restarts.
    short = 0
    rounds = 30
    for _ in range(rounds):
        one, two = f"/queue/{fresh()}", f"/queue/{fresh()}"
        with target.connect() as link:
            fill(link, one, 2)
            fill(link, two, 2)
            for number, queue in enumerate((one, two)):
                headers = {"destination": queue, "id": f"s{number}", "ack": "client-individual"}
                link.ask("SUBSCRIBE", headers)
            got = [link.until("MESSAGE") for _ in range(4)]
            settle(link, "ACK", next((frame for frame in got if frame and frame.get("subscription") == "s0"), None))
        short += len(left(target, two)) < 2
    return Seen(agrees=short == 0, what=f"in {short} of {rounds} runs a message was never delivered again")


@lifecycle("a full address, policy BLOCK", "the sender is blocked")
def full_block(target: Target) -> Seen:
    queue = f"/queue/blocking.{fresh()}"
    told = pour(target, queue)
    left(target, queue)
    return Seen(agrees="hangs" in told, what=told)


@lifecycle("a full address, policy FAIL", "unknown: reported")
def full_fail(target: Target) -> Seen:
    queue = f"/queue/failing.{fresh()}"
    told = pour(target, queue)
    left(target, queue)
    return Seen(agrees=True, what=told)
