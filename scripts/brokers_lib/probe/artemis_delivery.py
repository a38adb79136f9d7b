"""Artemis: SUBSCRIBE, ACK, NACK, redelivery, prefetch, selectors."""

import json
import subprocess
from pathlib import Path

from brokers_lib.probe.raw import Frame, Link, fresh
from brokers_lib.probe.statements import Chapter, Seen, Target
from brokers_lib.probe.talk import fill, left, listen

delivery = Chapter("1d delivery")

BROKERS = Path(__file__).resolve().parents[2] / "brokers"


def settle(link: Link, command: str, frame: Frame | None, version: str = "1.2", **headers: str) -> Frame | None:
    """ACK or NACK a message in the way of the version, and return the answer."""
    if frame is None:
        return None
    message = frame.get("message-id") or ""
    wanted = {"1.2": {"id": message}, "1.1": {"message-id": message, "subscription": "s1"}}
    return link.ask(command, wanted.get(version, {"message-id": message}) | headers)


def filled(target: Target, count: int, ack: str = "client-individual", version: str = "1.2") -> tuple[str, Link]:
    """A fresh queue of messages and a connection that listens to it."""
    queue, link = f"/queue/{fresh()}", target.connect(version)
    fill(link, queue, count)
    listen(link, queue, ack=ack)
    return queue, link


@delivery("ack header on MESSAGE", "only in 1.2 and where ack is not auto; equals message-id")
def ack_header(target: Target) -> Seen:
    told: dict[str, str] = {}
    for version, ack in (("1.2", "client"), ("1.2", "client-individual"), ("1.2", "auto"), ("1.1", "client")):
        _, link = filled(target, 1, ack, version)
        with link:
            frame = link.until("MESSAGE")
        same = bool(frame and frame.get("ack") == frame.get("message-id"))
        told[f"{version} {ack}"] = "absent" if frame and frame.get("ack") is None else f"same={same}"
    return Seen(agrees=list(told.values()) == ["same=True", "same=True", "absent", "absent"], what=str(told))


@delivery("message-id and redelivered", "<consumer>,<message>; redelivered always there, true or false")
def message_id(target: Target) -> Seen:
    queue, link = filled(target, 1)
    with link:
        first = link.until("MESSAGE")
    with target.connect() as link:
        listen(link, queue)
        second = link.until("MESSAGE")
    told = [(frame.get("message-id"), frame.get("redelivered")) if frame else None for frame in (first, second)]
    agrees = bool(first and first.get("redelivered") == "false" and second and second.get("redelivered") == "true")
    return Seen(agrees=agrees and "," in str(told[0]), what=str(told))


@delivery("what ACK needs", "1.2 id; 1.1 message-id and subscription; 1.0 message-id")
def ack_needs(target: Target) -> Seen:
    told: dict[str, str] = {}
    for version in ("1.2", "1.1", "1.0"):
        _, link = filled(target, 1, "client", version)
        with link:
            told[version] = str(settle(link, "ACK", link.until("MESSAGE"), version))
    _, link = filled(target, 1, "client", "1.1")
    with link:
        frame = link.until("MESSAGE")
        lone = link.ask("ACK", {"message-id": (frame.get("message-id") or "") if frame else ""})
    agrees = all(one.startswith("RECEIPT") for one in told.values()) and str(lone).startswith("ERROR")
    return Seen(agrees=agrees, what=f"{told}; 1.1 without subscription: {lone}")


@delivery("ack:client is cumulative", "over that subscription alone")
def cumulative(target: Target) -> Seen:
    one, two = f"/queue/{fresh()}", f"/queue/{fresh()}"
    with target.connect() as link:
        fill(link, one, 3)
        fill(link, two, 2)
        link.ask("SUBSCRIBE", {"destination": one, "id": "s1", "ack": "client"})
        got = [link.until("MESSAGE") for _ in range(3)]
        link.ask("SUBSCRIBE", {"destination": two, "id": "s2", "ack": "client"})
        link.gather()
        settle(link, "ACK", got[1])
    rest = left(target, one), left(target, two)
    return Seen(agrees=rest == (["m2"], ["m0", "m1"]), what=f"after ACK of the 2nd of 3 there remain {rest}")


@delivery("unknown ack value", "treated like client")
def unknown_ack(target: Target) -> Seen:
    queue = f"/queue/{fresh()}"
    with target.connect() as link:
        fill(link, queue, 3)
        answer = listen(link, queue, ack="sometimes")
        got = [link.until("MESSAGE", 1) for _ in range(3)]
        acked = settle(link, "ACK", got[1])
    rest = left(target, queue)
    return Seen(agrees=rest == ["m2"], what=f"{answer}; ACK of the 2nd of 3: {acked}; remain {rest}")


@delivery("ACK twice, and in auto mode", "ERROR AMQ339025 with receipt-id, closed in 1.2")
def ack_twice(target: Target) -> Seen:
    told: list[str] = []
    for version, ack in (("1.2", "client-individual"), ("1.1", "client-individual"), ("1.2", "auto")):
        _, link = filled(target, 1, ack, version)
        with link:
            frame = link.until("MESSAGE")
            if ack != "auto":
                settle(link, "ACK", frame, version)
            told.append(f"{version} {ack}: {settle(link, 'ACK', frame, version)} closed={link.ends()}")
    agrees = all("339025" in one and "receipt-id" in one for one in told) and "closed=False" in told[1]
    return Seen(agrees=agrees, what="; ".join(told))


@delivery("RECEIPT for ACK", "the message is gone by then")
def ack_receipt(target: Target) -> Seen:
    queue, link = filled(target, 1)
    with link:
        answer = settle(link, "ACK", link.until("MESSAGE"))
        link.socket.close()
    rest = left(target, queue)
    return Seen(agrees=rest == [] and str(answer).startswith("RECEIPT"), what=f"{answer}; remain {rest}")


@delivery("NACK", "the same as ACK: the message is discarded, also where a dead-letter address is set")
def nack(target: Target) -> Seen:
    queue, link = f"/queue/dlq-src.{fresh()}", target.connect()
    fill(link, queue, 2)
    listen(link, queue, ack="client-individual")
    with link:
        answer = settle(link, "NACK", link.until("MESSAGE"))
        again = [frame.body for frame in link.gather()]
    rest = left(target, queue)
    with target.connect() as link:
        listen(link, "/queue/dlq", selector=f"_AMQ_ORIG_ADDRESS = '{queue.removeprefix('/queue/')}'")
        dead = [frame.body for frame in link.gather()]
    what = f"{answer}; then comes {again}; remain {rest}; dead letters {dead}"
    return Seen(agrees=rest == ["m1"] and not dead, what=what)


@delivery("NACK with ack:client", "cumulative, and discards")
def nack_cumulative(target: Target) -> Seen:
    queue, link = filled(target, 3, "client")
    with link:
        got = [link.until("MESSAGE") for _ in range(3)]
        answer = settle(link, "NACK", got[1])
    rest = left(target, queue)
    return Seen(agrees=rest == ["m2"], what=f"{answer}; remain {rest}")


@delivery("NACK in 1.0", "unknown command: ERROR")
def nack_one_zero(target: Target) -> Seen:
    queue, link = filled(target, 1, "client", "1.0")
    with link:
        answer, closed = settle(link, "NACK", link.until("MESSAGE"), "1.0"), link.ends()
    rest = left(target, queue)
    return Seen(agrees=str(answer).startswith("ERROR"), what=f"{answer}; closed={closed}; remain {rest}")


@delivery("redelivery limit", "max-delivery-attempts, counted by lost connections, then the dead-letter address")
def redelivery_limit(target: Target) -> Seen:
    name = f"dlq-src.{fresh()}"
    with target.connect() as link:
        fill(link, f"/queue/{name}", 1)
    deliveries = 0
    for _ in range(6):
        with target.connect() as link:
            listen(link, f"/queue/{name}", ack="client-individual")
            frame = link.until("MESSAGE", 1)
            deliveries += frame is not None
    with target.connect() as link:
        listen(link, "/queue/dlq", selector=f"_AMQ_ORIG_ADDRESS = '{name}'")
        dead = next(iter(link.gather()), None)
    extra = [line for line in dead.lines if line.startswith("_")] if dead else []
    what = f"delivered {deliveries} times of a limit of 3, then at /queue/dlq with {extra}"
    return Seen(agrees=deliveries == 3 and dead is not None, what=what)


@delivery("dead letters without a queue declared", "at DLQ::DLQ.<address>, where the address setting says so")
def dead_letter_own(target: Target) -> Seen:
    name = fresh()
    with target.connect() as link:
        fill(link, f"/queue/{name}", 1)
    for _ in range(10):
        with target.connect() as link:
            listen(link, f"/queue/{name}", ack="client-individual")
            link.until("MESSAGE", 1)
    told = {form: left(target, f"{form}DLQ\\c\\cDLQ.{name}") for form in ("/queue/", "/topic/")}
    return Seen(agrees=["m0"] in told.values(), what=str(told))


@delivery("UNSUBSCRIBE with unacknowledged messages", "they return to the queue at once")
def unsubscribe_unacked(target: Target) -> Seen:
    queue, link = filled(target, 1)
    with link:
        frame = link.until("MESSAGE")
        link.ask("UNSUBSCRIBE", {"id": "s1"})
        rest = left(target, queue)
        late = settle(link, "ACK", frame)
    return Seen(agrees=rest == ["m0"], what=f"another consumer is given {rest}; a late ACK: {late}")


@delivery("UNSUBSCRIBE of an unknown id", "ERROR")
def unsubscribe_unknown(target: Target) -> Seen:
    with target.connect() as link:
        frame, closed = link.ask("UNSUBSCRIBE", {"id": "nobody"}), link.ends()
    return Seen(agrees=str(frame).startswith("ERROR"), what=f"{frame}; closed={closed}")


@delivery("the same subscription id twice", "ERROR There already is a subscription for: ...")
def same_id(target: Target) -> Seen:
    with target.connect() as link:
        listen(link, f"/queue/{fresh()}")
        frame, closed = listen(link, f"/queue/{fresh()}"), link.ends()
    return Seen(agrees="already is a subscription for" in str(frame), what=f"{frame}; closed={closed}")


@delivery("SUBSCRIBE without id", "accepted in 1.1 and 1.2; the id is subscription/<destination>")
def without_id(target: Target) -> Seen:
    told: list[str] = []
    for version in ("1.2", "1.1", "1.0"):
        name = f"/topic/{fresh('t')}"
        with target.connect(version) as link:
            answer = link.ask("SUBSCRIBE", {"destination": name, "ack": "auto"})
            link.send("SEND", {"destination": name}, b"x")
            frame = link.read(2)
            told.append(f"{version}: {str(answer)[:90]}, {frame.get('subscription') if frame else None}")
    return Seen(agrees=all("subscription/" in one for one in told), what="; ".join(told))


@delivery("RECEIPT or first MESSAGE", "RECEIPT for the SUBSCRIBE first")
def receipt_first(target: Target) -> Seen:
    first: list[str] = []
    for _ in range(10):
        queue = f"/queue/{fresh()}"
        with target.connect() as link:
            fill(link, queue, 1)
            link.send("SUBSCRIBE", {"destination": queue, "id": "s1", "ack": "auto", "receipt": "r1"})
            first.append(str(link.read()).split(" ")[0])
    return Seen(agrees=set(first) == {"RECEIPT"}, what=f"{first.count('RECEIPT')} of {len(first)} RECEIPT first")


@delivery("the server ends a subscription", "ERROR, body: consumer with ID ... disconnected by server")
def queue_deleted(target: Target) -> Seen:
    name = fresh()
    with target.connect() as link:
        listen(link, f"/queue/{name}", ack="client")
        delete = ["queue", "delete", f"--name={name}", "--removeConsumers", "--autoDeleteAddress"]
        done = subprocess.run([BROKERS, "ctl", "artemis", *delete], check=False, capture_output=True, text=True)
        frame, closed = link.read(), link.ends()
        works = None if closed else link.ask("SEND", {"destination": "/topic/probe.x"}, b"x", seconds=2)
    what = f"{frame}; closed={closed}; next {works}; deletion: {done.returncode}"
    return Seen(agrees=frame is not None and b"disconnected by server" in frame.body, what=what)


@delivery("prefetch", "consumer-window-size in octets: 0 is one at a time, -1 no limit; default 10240 in client modes")
def prefetch(target: Target) -> Seen:
    told: dict[str, int] = {}
    cases: tuple[tuple[str, dict[str, str]], ...] = (
        ("0", {"consumer-window-size": "0"}),
        ("4096", {"consumer-window-size": "4096"}),
        ("-1", {"consumer-window-size": "-1"}),
        ("default", {}),
        ("activemq.prefetchSize 4096", {"activemq.prefetchSize": "4096"}),
        ("prefetch-count 1", {"prefetch-count": "1"}),
    )
    for name, headers in cases:
        queue = f"/queue/{fresh()}"
        with target.connect() as link:
            for _ in range(30):
                link.send("SEND", {"destination": queue}, b"b" * 1024)
            link.ask("SUBSCRIBE", {"destination": queue, "id": "s1", "ack": "client-individual"} | headers)
            told[name] = len(link.gather())
        left(target, queue)
    agrees = (
        told["0"] == 1
        and told["-1"] == 30
        and 1 < told["4096"] == told["activemq.prefetchSize 4096"] < told["default"] < 30
    )
    return Seen(agrees=agrees, what=f"of 30 messages of 1 KiB came at once: {json.dumps(told)}")


@delivery("prefetch in auto mode", "no limit")
def prefetch_auto(target: Target) -> Seen:
    queue = f"/queue/{fresh()}"
    with target.connect() as link:
        for _ in range(50):
            link.send("SEND", {"destination": queue}, b"b" * 1024)
        listen(link, queue)
        count = len(link.gather())
    return Seen(agrees=count == 50, what=f"{count} of 50 came")


@delivery("selector", "SQL-92 in selector; a bad one is ERROR")
def selector(target: Target) -> Seen:
    told: dict[str, list[str]] = {}
    for rule in ("kind = 'a'", "weight > 5", "convert_string_expressions\\cweight > 5"):
        name = f"/topic/{fresh('t')}"
        with target.connect() as link:
            listen(link, name, selector=rule)
            for weight in ("9", "1"):
                link.ask("SEND", {"destination": name, "kind": "a", "weight": weight}, weight.encode())
            told[rule] = [frame.body.decode() for frame in link.gather()]
    with target.connect() as link:
        bad = listen(link, f"/topic/{fresh('t')}", selector="kind = = 'a")
    agrees = [*told.values()] == [["9", "1"], [], ["9"]] and str(bad).startswith("ERROR")
    return Seen(agrees=agrees, what=f"{told}: headers are strings; bad: {bad}")


@delivery("no-local", "no-local:true keeps own messages away")
def no_local(target: Target) -> Seen:
    name = f"/topic/{fresh('t')}"
    with target.connect() as link, target.connect() as other:
        listen(link, name, no_local="true")
        link.ask("SEND", {"destination": name}, b"own")
        other.ask("SEND", {"destination": name}, b"other")
        got = [frame.body.decode() for frame in link.gather()]
    return Seen(agrees=got == ["other"], what=f"came: {got}")
