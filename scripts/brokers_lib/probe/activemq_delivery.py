"""ActiveMQ Classic: delivery, transactions, features. What is expected was seen of 5.17.2."""

from brokers_lib.probe.raw import Frame, Link, fresh
from brokers_lib.probe.statements import Chapter, Seen, Target
from brokers_lib.probe.talk import fill, left, listen

work = Chapter("AMQ delivery")


def given(target: Target, prefix: str = "", ack: str = "client-individual", **send: str) -> tuple[str, Link, Frame]:
    """A queue of one message, a connection that was given it, and the message."""
    queue, link = f"/queue/{prefix}{fresh()}", target.connect()
    fill(link, queue, 1, **send)
    listen(link, queue, ack)
    frame = link.until("MESSAGE")
    if frame is None:
        raise ConnectionError(f"no MESSAGE came from {queue}")
    return queue, link, frame


def settle(link: Link, command: str, frame: Frame, **headers: str) -> Frame | None:
    """ACK or NACK by the ack header, which here differs from message-id."""
    return link.ask(command, {"id": frame.get("ack") or ""} | headers)


@work("ack header on MESSAGE", "in 1.2 where ack is not auto; differs from message-id")
def ack_header(target: Target) -> Seen:
    _, link, frame = given(target)
    with link:
        settle(link, "ACK", frame)
    agrees = bool(frame.get("ack") and frame.get("ack") != frame.get("message-id"))
    return Seen(agrees=agrees, what=f"ack:{frame.get('ack')} message-id:{frame.get('message-id')}")


@work("redelivered", "only redelivered:true; absent is false")
def redelivered(target: Target) -> Seen:
    queue, link, frame = given(target)
    with link:
        link.ask("DISCONNECT")
    with target.connect() as link:
        listen(link, queue)
        again = link.until("MESSAGE")
    told = [frame.get("redelivered"), again.get("redelivered") if again else "nothing"]
    return Seen(agrees=told == [None, "true"], what=str(told))


@work("ACK twice", "ERROR Unexpected ACK received ... with receipt-id, open")
def ack_twice(target: Target) -> Seen:
    _, link, frame = given(target)
    with link:
        settle(link, "ACK", frame)
        again, closed = settle(link, "ACK", frame), link.ends()
    agrees = "Unexpected ACK" in str(again) and "receipt-id" in str(again) and not closed
    return Seen(agrees=agrees, what=f"{again}; closed={closed}")


@work("NACK", "straight to the dead-letter queue where persistent, lost where not, unless the policy says otherwise")
def nack(target: Target) -> Seen:
    told: dict[str, list[str]] = {}
    for name, persistent in (("persistent", "true"), ("transient", "false")):
        queue, link, frame = given(target, persistent=persistent)
        with link:
            settle(link, "NACK", frame)
        with target.connect() as link:
            listen(link, "/queue/ActiveMQ.DLQ", selector=f"OriginalDestination = '{queue}'")
            listen_all = listen(link, "/queue/ActiveMQ.DLQ")
            dead = [one for one in link.gather() if one.get("original-destination") == queue]
        told[name] = [*left(target, queue), *(f"dead:{one.body.decode()}" for one in dead)]
        if listen_all is None:
            told[name].append("no answer")
    return Seen(agrees=told == {"persistent": ["dead:m0"], "transient": []}, what=str(told))


@work("NACK where the policy keeps transient ones", "dlq-src.x to dlq; dlq.x to DLQ.dlq.x")
def nack_policy(target: Target) -> Seen:
    told: list[list[str]] = []
    for prefix, dead in (("dlq-src.", "/queue/dlq"), ("dlq.", None)):
        queue, link, frame = given(target, prefix)
        with link:
            settle(link, "NACK", frame)
        told.append(left(target, dead or queue.replace("/queue/", "/queue/DLQ.")))
    return Seen(agrees=told == [["m0"], ["m0"]], what=str(told))


@work("NACK in a transaction", "ERROR Poison ack cannot be transacted")
def nack_transaction(target: Target) -> Seen:
    _, link, frame = given(target)
    with link:
        link.ask("BEGIN", {"transaction": "t1"})
        answer, closed = settle(link, "NACK", frame, transaction="t1"), link.ends()
    return Seen(agrees="cannot be transacted" in str(answer), what=f"{answer}; closed={closed}")


@work("ACK in a transaction, then ABORT", "stays unacknowledged, is not redelivered on this connection")
def ack_abort(target: Target) -> Seen:
    queue, link, frame = given(target)
    with link:
        link.ask("BEGIN", {"transaction": "t1"})
        settle(link, "ACK", frame, transaction="t1")
        link.ask("ABORT", {"transaction": "t1"})
        again = [one.body.decode() for one in link.gather()]
        link.ask("DISCONNECT")
    rest = left(target, queue)
    return Seen(agrees=again == [] and rest == ["m0"], what=f"again {again}; after the end {rest}")


@work("transactions", "each RECEIPT at once; BEGIN twice is ERROR; an unknown one is ERROR")
def transactions(target: Target) -> Seen:
    queue = f"/queue/{fresh()}"
    with target.connect() as link:
        link.ask("BEGIN", {"transaction": "t1"})
        sent = link.ask("SEND", {"destination": queue, "transaction": "t1"}, b"x")
        twice = link.ask("BEGIN", {"transaction": "t1"})
        unknown = link.ask("COMMIT", {"transaction": "nobody"})
    agrees = str(sent).startswith("RECEIPT") and all(str(one).startswith("ERROR") for one in (twice, unknown))
    return Seen(agrees=agrees, what=f"{str(sent)[:7]}; twice: {twice}; unknown: {unknown}")


@work("UNSUBSCRIBE with unacknowledged messages", "back to others at once")
def unsubscribe_unacked(target: Target) -> Seen:
    queue, link, frame = given(target)
    with link:
        link.ask("UNSUBSCRIBE", {"id": "s1"})
        rest = left(target, queue)
        late = settle(link, "ACK", frame)
    return Seen(agrees=rest == ["m0"], what=f"{rest}; late ACK: {late}")


@work("the same subscription id twice", "accepted")
def same_id(target: Target) -> Seen:
    with target.connect() as link:
        told = [str(listen(link, f"/queue/{fresh()}"))[:7] for _ in range(2)]
    return Seen(agrees=told == ["RECEIPT", "RECEIPT"], what=str(told))


@work("UNSUBSCRIBE of an unknown id", "ERROR No subscription matched. with receipt-id, open")
def unsubscribe_unknown(target: Target) -> Seen:
    with target.connect() as link:
        frame, closed = link.ask("UNSUBSCRIBE", {"id": "nobody"}), link.ends()
    agrees = "No subscription matched" in str(frame) and not closed
    return Seen(agrees=agrees, what=f"{frame}; closed={closed}, stack trace={bool(frame and b'at ' in frame.body)}")


@work("no right to send", "ERROR, open")
def no_right(target: Target) -> Seen:
    with target.connect(login="readonly", passcode="readonly") as link:
        frame, closed = link.ask("SEND", {"destination": f"/queue/{fresh()}"}, b"x"), link.ends()
    return Seen(agrees=str(frame).startswith("ERROR") and not closed, what=f"{frame}; closed={closed}")


@work("prefetch", "activemq.prefetchSize in messages; 0 and nothing ever comes; 1000 by default")
def prefetch(target: Target) -> Seen:
    told: dict[str, int] = {}
    for size in ("0", "3", ""):
        queue = f"/queue/{fresh()}"
        more = {"activemq.prefetchSize": size} if size else {}
        with target.connect() as link:
            fill(link, queue, 10)
            link.ask("SUBSCRIBE", {"destination": queue, "id": "s1", "ack": "client-individual"} | more)
            told[size] = len(link.gather())
    return Seen(agrees=told == {"0": 0, "3": 3, "": 10}, what=f"of 10 came {told}")


@work("selector", "SQL-92; strings compared to numbers are converted; a bad one is ERROR with receipt-id, open")
def selector(target: Target) -> Seen:
    name = f"/topic/{fresh('t')}"
    with target.connect() as link:
        listen(link, name, selector="weight > 5")
        for weight in ("9", "1"):
            link.ask("SEND", {"destination": name, "weight": weight}, weight.encode())
        got = [frame.body.decode() for frame in link.gather()]
    with target.connect() as link:
        bad, closed = listen(link, name, selector="= ="), link.ends()
    agrees = got == ["9"] and "receipt-id" in str(bad) and not closed
    return Seen(agrees=agrees, what=f"weight > 5 lets through {got}; bad: {bad}, closed={closed}")


@work(
    "durable subscription",
    "client-id and activemq.subscriptionName; in use: ERROR; deleted by UNSUBSCRIBE with the name",
)
def durable(target: Target) -> Seen:
    topic, client = f"/topic/{fresh('t')}", fresh("c")
    subscribe = {"destination": topic, "id": "s1", "ack": "auto", "activemq.subscriptionName": "news"}
    with target.connect(client_id=client) as link:
        link.ask("SUBSCRIBE", subscribe)
        in_use = link.ask("SUBSCRIBE", subscribe | {"id": "s2"})
        link.ask("DISCONNECT")
    with target.connect() as link:
        fill(link, topic, 1, persistent="true")
    with target.connect(client_id=client) as link:
        link.ask("SUBSCRIBE", subscribe)
        kept = [frame.body.decode() for frame in link.gather()]
        link.ask("UNSUBSCRIBE", {"id": "s1"})
        deleted = link.ask("UNSUBSCRIBE", {"id": "s1", "activemq.subscriptionName": "news"})
    agrees = kept == ["m0"] and "in use" in str(in_use) and str(deleted).startswith("RECEIPT")
    return Seen(agrees=agrees, what=f"kept {kept}; in use: {in_use}; deletion: {deleted}")


@work("temporary queues", "SUBSCRIBE /temp-queue/x first; the peer sees /remote-temp-queue/...")
def temporary(target: Target) -> Seen:
    queue = f"/queue/{fresh()}"
    with target.connect() as client, target.connect() as server:
        listen(server, queue)
        listen(client, "/temp-queue/foo")
        client.send("SEND", {"destination": queue, "reply-to": "/temp-queue/foo"}, b"?")
        question = server.until("MESSAGE")
        where = (question.get("reply-to") or "") if question else ""
        server.send("SEND", {"destination": where}, b"!")
        answer = client.until("MESSAGE")
    with target.connect() as server:
        dead = server.ask("SEND", {"destination": where}, b"!")
    agrees = where.startswith("/remote-temp-queue/") and bool(answer) and str(dead).startswith("ERROR")
    return Seen(agrees=agrees, what=f"{where}; answer on {answer and answer.get('destination')}; dead: {dead}")


@work("DISCONNECT with receipt", "all earlier receipts, then its own, then EOF")
def disconnect(target: Target) -> Seen:
    queue = f"/queue/{fresh()}"
    with target.connect() as link:
        for number in range(20):
            link.send("SEND", {"destination": queue, "persistent": "true", "receipt": str(number)}, b"x")
        link.send("DISCONNECT", {"receipt": "bye"})
        receipts = [frame.get("receipt-id") for frame in link.gather(2)]
    left(target, queue)
    agrees = receipts == [*map(str, range(20)), "bye"] and link.closed
    return Seen(agrees=agrees, what=f"{len(receipts)} receipts, closed={link.closed}")


@work("sender's words that are no numbers", "priority:abc and expires:abc close the connection without ERROR")
def bad_numbers(target: Target) -> Seen:
    told: dict[str, str] = {}
    for header in ("priority", "expires", "AMQ_SCHEDULED_DELAY"):
        with target.connect() as link:
            frame = link.ask("SEND", {"destination": f"/queue/{fresh()}", header: "abc"}, b"x", seconds=2)
            told[header] = f"{frame} closed={link.ends()}"
    return Seen(agrees=all(one == "None closed=True" for one in told.values()), what=str(told))


@work("scheduling", "AMQ_SCHEDULED_DELAY in ms")
def scheduling(target: Target) -> Seen:
    queue = f"/queue/{fresh()}"
    with target.connect() as link:
        listen(link, queue)
        link.ask("SEND", {"destination": queue, "AMQ_SCHEDULED_DELAY": "700"}, b"x")
        early, late = link.read(0.4), link.until("MESSAGE", 3)
    return Seen(agrees=early is None and late is not None, what=f"early {early}; then {late}")


@work("browsing", "browser:true gives the messages, then browser:end")
def browsing(target: Target) -> Seen:
    queue = f"/queue/{fresh()}"
    with target.connect() as link:
        fill(link, queue, 2)
        listen(link, queue, browser="true")
        frames = link.gather()
    rest = left(target, queue)
    agrees = bool(frames and frames[-1].get("browser") == "end") and rest == ["m0", "m1"]
    return Seen(agrees=agrees, what=f"{len(frames)} frames, the last: {frames[-1:] and str(frames[-1])}; remain {rest}")


@work("unacknowledged messages after an abrupt close", "all are delivered again")
def abrupt(target: Target) -> Seen:
    short = 0
    rounds = 20
    for _ in range(rounds):
        one, two = f"/queue/{fresh()}", f"/queue/{fresh()}"
        with target.connect() as link:
            fill(link, one, 2)
            fill(link, two, 2)
            for number, queue in enumerate((one, two)):
                link.ask("SUBSCRIBE", {"destination": queue, "id": f"s{number}", "ack": "client-individual"})
            got = [link.until("MESSAGE") for _ in range(4)]
            mine = next((frame for frame in got if frame and frame.get("subscription") == "s0"), None)
            if mine is not None:
                settle(link, "ACK", mine)
        short += len(left(target, two)) < 2
    return Seen(agrees=short == 0, what=f"in {short} of {rounds} runs a message was not delivered again")
