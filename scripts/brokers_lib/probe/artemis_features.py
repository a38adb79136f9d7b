"""Artemis: destinations, durable subscriptions, headers with a meaning, TLS and WebSocket."""

import time

from brokers_lib.probe.raw import Frame, Link, fresh
from brokers_lib.probe.statements import Chapter, Seen, Target
from brokers_lib.probe.talk import fill, left, listen

features = Chapter("1f destinations and features")


def bodies(frames: list[Frame]) -> list[str]:
    """The bodies of the MESSAGEs among the frames."""
    return [frame.body.decode() for frame in frames if frame.command == "MESSAGE"]


@features(
    "names without a prefix", "the name is the address, multicast by default; a queue needs ANYCAST on both sides"
)
def bare_names(target: Target) -> Seen:
    told: dict[str, list[str]] = {}
    cases: dict[str, tuple[dict[str, str], dict[str, str]]] = {
        "nothing": ({}, {}),
        "only SEND": ({"destination-type": "ANYCAST"}, {}),
        "both": ({"destination-type": "ANYCAST"}, {"subscription-type": "ANYCAST"}),
    }
    for name, (sending, subscribing) in cases.items():
        address = fresh()
        with target.connect(port="bare") as link:
            first = link.ask("SEND", {"destination": address} | sending, b"early")
            subscribe = {"destination": address, "id": "s1", "ack": "auto"} | subscribing
            second = link.ask("SUBSCRIBE", subscribe)
            told[name] = [str(first)[:7], str(second)[:60], *bodies(link.gather())]
    return Seen(agrees="early" not in told["nothing"] and told["both"][-1] == "early", what=str(told))


@features("anycastPrefix and multicastPrefix", "stripped on input, put back on the destination of MESSAGE")
def prefixes(target: Target) -> Seen:
    told: list[str | None] = []
    for prefix in ("/queue/", "/topic/"):
        name = fresh()
        with target.connect() as link:
            listen(link, prefix + name)
            link.send("SEND", {"destination": prefix + name}, b"x")
            frame = link.until("MESSAGE")
            told.append(frame.get("destination") if frame else None)
            if frame is None or frame.get("destination") != prefix + name:
                return Seen(agrees=False, what=str(frame))
    with target.connect(port="bare") as bare, target.connect() as link:
        name = fresh()
        listen(bare, name)
        link.send("SEND", {"destination": f"/topic/{name}"}, b"x")
        frame = bare.until("MESSAGE")
    agrees = bool(frame and frame.get("destination") == name)
    return Seen(agrees=agrees, what=f"{told}; on the bare port: {frame and frame.get('destination')}")


@features("one name used as queue and as topic", "unknown: reported")
def both_kinds(target: Target) -> Seen:
    name = fresh()
    with target.connect() as queue, target.connect() as topic:
        told = [str(listen(queue, f"/queue/{name}"))[:40], str(listen(topic, f"/topic/{name}"))[:40]]
        queue.ask("SEND", {"destination": f"/queue/{name}"}, b"q")
        queue.ask("SEND", {"destination": f"/topic/{name}"}, b"t")
        told += [f"queue got {bodies(queue.gather())}", f"topic got {bodies(topic.gather())}"]
    return Seen(agrees=True, what=str(told))


@features("address::queue", "works; the colons must be escaped in 1.1 and 1.2, else they are dropped")
def fully_qualified(target: Target) -> Seen:
    address, queue = fresh("a"), fresh("q")
    told: dict[str, list[str]] = {}
    for form in ("\\c\\c", "::"):
        with target.connect() as link:
            listen(link, f"/topic/{address}{form}{queue}")
            link.ask("SEND", {"destination": f"/topic/{address}"}, b"x")
            told[form] = bodies(link.gather())
    return Seen(agrees=told == {"\\c\\c": ["x"], "::": []}, what=str(told))


@features("wildcards", "* one word, # any number")
def wildcards(target: Target) -> Seen:
    root = fresh("w")
    told: dict[str, list[str]] = {}
    for pattern in ("*", "#", ">"):
        with target.connect() as link:
            listen(link, f"/topic/{root}.{pattern}")
            for name in ("a", "a.b"):
                link.ask("SEND", {"destination": f"/topic/{root}.{name}"}, name.encode())
            told[pattern] = bodies(link.gather())
    return Seen(agrees=(told["*"], told["#"]) == (["a"], ["a", "a.b"]), what=str(told))


@features("reply-to", "an ordinary address, passed through; there are no temporary queues")
def reply_to(target: Target) -> Seen:
    name = fresh()
    with target.connect() as server, target.connect() as client:
        listen(server, f"/queue/{name}")
        listen(client, f"/queue/reply.{name}")
        ask = {"destination": f"/queue/{name}", "reply-to": f"/queue/reply.{name}", "correlation-id": "c1"}
        client.send("SEND", ask, b"?")
        question = server.until("MESSAGE")
        answer_to = (question.get("reply-to") or "") if question else ""
        server.send("SEND", {"destination": answer_to, "correlation-id": "c1"}, b"!")
        answer = client.until("MESSAGE")
    agrees = bool(answer and answer.get("correlation-id") == "c1" and answer_to == f"/queue/reply.{name}")
    return Seen(agrees=agrees, what=f"reply-to came as {answer_to}; answer {answer and answer.body!r}")


@features("/temp-queue/ names", "unknown: reported")
def temporary(target: Target) -> Seen:
    name = f"/temp-queue/{fresh()}"
    with target.connect() as link:
        first = listen(link, name)
        link.ask("SEND", {"destination": name}, b"x")
        got = bodies(link.gather())
    return Seen(agrees=True, what=f"{str(first)[:60]}, got {got}: a name like any other")


@features("durable subscription", "client-id and durable-subscription-name: queue client-id.name; kept while away")
def durable(target: Target) -> Seen:
    topic, client, name = f"/topic/{fresh('t')}", fresh("c"), "news"
    with target.connect(client_id=client) as link:
        listen(link, topic, durable_subscription_name=name)
        link.ask("UNSUBSCRIBE", {"id": "s1"})
        link.ask("DISCONNECT")
    with target.connect() as link:
        fill(link, topic, 1)
    peek = f"{topic}\\c\\c{client}.{name}"
    with target.connect(client_id=client) as link:
        listen(link, topic, durable_subscription_name=name)
        kept = bodies(link.gather())
        link.ask("UNSUBSCRIBE", {"id": "s1", "durable-subscription-name": name})
    with target.connect() as link:
        fill(link, topic, 1)
    with target.connect(client_id=client) as link:
        listen(link, topic, durable_subscription_name=name)
        after = bodies(link.gather())
        link.ask("UNSUBSCRIBE", {"id": "s1", "durable-subscription-name": name})
    return Seen(agrees=(kept, after) == (["m0"], []), what=f"kept {kept}; after deletion {after}; queue {peek}")


@features("durable subscription without client-id", "unknown: reported")
def durable_anonymous(target: Target) -> Seen:
    with target.connect() as link:
        frame = listen(link, f"/topic/{fresh('t')}", durable_subscription_name="news")
        closed = link.ends()
    return Seen(agrees=True, what=f"{frame}; closed={closed}")


@features(
    "names of the durable header", "durable-subscription-name, durable-subscriber-name, activemq.subscriptionName"
)
def durable_names(target: Target) -> Seen:
    told: dict[str, list[str]] = {}
    for header in ("durable-subscription-name", "durable-subscriber-name", "activemq.subscriptionName"):
        topic, client = f"/topic/{fresh('t')}", fresh("c")
        subscribe = {"destination": topic, "id": "s1", "ack": "auto", header: "news"}
        with target.connect(client_id=client) as link:
            link.ask("SUBSCRIBE", subscribe)
            link.ask("DISCONNECT")
        with target.connect() as link:
            fill(link, topic, 1)
        with target.connect(client_id=client) as link:
            link.ask("SUBSCRIBE", subscribe)
            told[header] = bodies(link.gather())
            link.ask("UNSUBSCRIBE", {"id": "s1", header: "news"})
    return Seen(agrees=all(one == ["m0"] for one in told.values()), what=str(told))


@features("one durable subscription, two connections", "shared: each message goes to one of them")
def durable_shared(target: Target) -> Seen:
    topic, client = f"/topic/{fresh('t')}", fresh("c")
    with target.connect(client_id=client) as one, target.connect(client_id=client) as two:
        answers = [str(listen(link, topic, durable_subscription_name="n"))[:7] for link in (one, two)]
        fill(one, topic, 4)
        got = [len(bodies(link.gather())) for link in (one, two)]
    return Seen(agrees=answers == ["RECEIPT", "RECEIPT"] and sum(got) == 4, what=f"{answers}, {got} of 4")


def expiring(link: Link, queue: str, when: str) -> str:
    """Send with an expiry and wait; tell what comes of it."""
    answer = link.ask("SEND", {"destination": queue, "expires": when}, b"x")
    time.sleep(0.5)
    return str(answer)


@features("expires", "milliseconds since the epoch; what is not a number is ERROR")
def expires(target: Target) -> Seen:
    told: dict[str, list[str]] = {}
    now = int(time.time() * 1000)
    for name, when in (("past", now + 100), ("future", now + 60_000), ("word", "soon")):
        queue = f"/queue/{fresh()}"
        with target.connect() as link:
            answer = expiring(link, queue, str(when))
        told[name] = [answer[:60], *left(target, queue)]
    agrees = told["past"][1:] == [] and told["future"][1:] == ["x"] and told["word"][0].startswith("ERROR")
    return Seen(agrees=agrees, what=str(told))


@features("priority", "0 to 9, 4 where not given; higher ones first")
def priority(target: Target) -> Seen:
    queue = f"/queue/{fresh()}"
    with target.connect() as link:
        for value in ("1", "9", None, "12", "abc"):
            more = {"priority": value} if value else {}
            link.ask("SEND", {"destination": queue} | more, str(value).encode(), seconds=2)
            if link.closed:
                break
    with target.connect() as link:
        listen(link, queue)
        got = [(frame.body.decode(), frame.get("priority")) for frame in link.gather()]
    return Seen(agrees=("None", "4") in got and got[-1] == ("1", "1"), what=str(got))


@features("persistent", "persistent:true is stored to disk; the default is not")
def persistent(target: Target) -> Seen:
    queue = f"/queue/{fresh()}"
    with target.connect() as link:
        link.ask("SEND", {"destination": queue, "persistent": "true"}, b"x")
        link.ask("SEND", {"destination": queue}, b"x")
        listen(link, queue)
        told = [frame.get("persistent") for frame in link.gather()]
    return Seen(agrees=told == ["true", "false"], what=f"MESSAGE says persistent: {told}")


@features("scheduling", "AMQ_SCHEDULED_DELAY in ms, AMQ_SCHEDULED_TIME in ms since the epoch")
def scheduled(target: Target) -> Seen:
    told: dict[str, str] = {}
    for name in ("AMQ_SCHEDULED_DELAY", "AMQ_SCHEDULED_TIME"):
        queue = f"/queue/{fresh()}"
        value = 1000 if name.endswith("DELAY") else int(time.time() * 1000) + 1000
        with target.connect() as link:
            listen(link, queue)
            started = time.monotonic()
            link.ask("SEND", {"destination": queue, name: str(value)}, b"x")
            frame = link.until("MESSAGE", 4)
            told[name] = f"{time.monotonic() - started:.1f}" if frame else "never"
    return Seen(agrees=all(one.startswith("1.") or one == "0.9" for one in told.values()), what=f"seconds: {told}")


@features("duplicate detection", "_AMQ_DUPL_ID: a duplicate is dropped and confirmed; in a transaction COMMIT fails")
def duplicates(target: Target) -> Seen:
    queue, token = f"/queue/{fresh()}", fresh("d")
    with target.connect() as link:
        answers = [str(link.ask("SEND", {"destination": queue, "_AMQ_DUPL_ID": token}, b"x"))[:7] for _ in range(2)]
        closed = link.ends(0.3)
    with target.connect() as link:
        link.ask("BEGIN", {"transaction": "t1"})
        link.ask("SEND", {"destination": queue, "_AMQ_DUPL_ID": token, "transaction": "t1"}, b"y")
        commit = link.ask("COMMIT", {"transaction": "t1"})
    rest = left(target, queue)
    agrees = answers == ["RECEIPT", "RECEIPT"] and rest == ["x"] and str(commit).startswith("ERROR")
    return Seen(agrees=agrees, what=f"{answers}, closed={closed}; COMMIT: {commit}; stored {rest}")


@features("message groups", "JMSXGroupID: a group stays with one consumer")
def groups(target: Target) -> Seen:
    queue = f"/queue/{fresh()}"
    with target.connect() as one, target.connect() as two, target.connect() as sender:
        for link in (one, two):
            listen(link, queue, ack="client-individual")
        for number in range(6):
            sender.ask("SEND", {"destination": queue, "JMSXGroupID": "g"}, str(number).encode())
        got = [link.gather() for link in (one, two)]
        lines = " ".join((got[0] or got[1])[0].lines) if got[0] or got[1] else ""
    counts = sorted(len(frames) for frames in got)
    return Seen(agrees=counts == [0, 6], what=f"{counts}; header back as JMSXGroupID={'JMSXGroupID:g' in lines}")


@features(
    "headers of MESSAGE that Artemis fills in",
    "destination, expires, redelivered, priority, persistent, timestamp, ...",
)
def message_headers(target: Target) -> Seen:
    queue = f"/queue/{fresh()}"
    given = {"correlation-id": "c", "type": "t", "content-type": "text/x", "reply-to": "/queue/r", "JMSXUserID": "u"}
    with target.connect() as link:
        listen(link, queue)
        link.ask("SEND", {"destination": queue} | given, b"x")
        frame = link.until("MESSAGE")
    have = set(frame.lines) if frame else set[str]()
    agrees = {f"{name}:{value}" for name, value in given.items() if name != "JMSXUserID"} <= have
    return Seen(agrees=agrees, what=str(sorted(have)))
