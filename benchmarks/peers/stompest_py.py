"""stompest: synchronous, one call a frame."""

import sys
from pathlib import Path

from stompest.config import StompConfig
from stompest.error import StompConnectionError
from stompest.protocol import StompFrame, StompParser
from stompest.sync import Stomp

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.contestants.codec_cases import decode_rates, encode_rates
from benchmarks.order import Held, Meter, Order, answer
from benchmarks.payload import BODY, outgoing_headers, prefetch_headers

order = Order.from_argument()


def connected():
    """A connection."""
    uri = f"{'ssl' if order.ca_file else 'tcp'}://{order.host}:{order.port}"
    config = StompConfig(uri, login=order.login, passcode=order.passcode, version="1.2", sslContext=order.tls)
    client = Stomp(config)
    client.connect(versions=["1.2"], host=order.vhost, heartBeats=(0, 0))
    return client


def consume():
    """Receive, and acknowledge or send back where it has to."""
    meter, client = Meter(order), connected()
    mode = "client-individual" if order.scenario == "acknowledge" else "auto"
    client.subscribe(order.destination, {"id": "s-1", "ack": mode, **prefetch_headers(order.window, mode)})
    while True:
        frame = client.receiveFrame()
        if order.scenario == "echo":
            if frame.body == b"end":
                answer({})
            client.send(order.destination, frame.body)
            continue
        if mode == "client-individual":
            client.ack(frame)
        meter.count += 1
        if meter.count >= meter.goal and meter.lap():
            answer(meter.result)


def keep():
    """Keep all messages."""
    held, client = Held(order), connected()
    client.subscribe(order.destination, {"id": "s-1", "ack": "auto"})
    while True:
        held.add(client.receiveFrame())


def come_back():
    """Receive from a broker that ends the first connection; connect() subscribes again."""
    client, count = connected(), 0
    client.subscribe(order.destination, {"id": "s-1", "ack": "auto"})
    while True:
        try:
            client.receiveFrame()
        except StompConnectionError:
            client.connect(versions=["1.2"], host=order.vhost, heartBeats=(0, 0))
            continue
        count += 1
        if count == order.limit:
            answer({})


def produce():
    """Send, confirmed or not."""
    window = {"send": 0, "receipts": 1, "publisher": order.window}[order.scenario]
    client, meter, in_flight = connected(), Meter(order, step=8 if window == 1 else 64), 0
    while True:
        headers = {"content-type": "application/json", "content-length": str(len(BODY))}
        headers |= outgoing_headers(meter.count)
        client.send(order.destination, BODY, headers, receipt=f"r-{meter.count}" if window else None)
        in_flight += 1
        while window and in_flight >= window:
            client.receiveFrame()
            in_flight -= 1
        meter.count += 1
        if meter.count >= meter.goal and meter.lap():
            if not window and meter.unsettled:
                client.send(order.destination, BODY, {"content-length": str(len(BODY))}, receipt="last")
                client.receiveFrame()
                meter.settled()
            answer(meter.result)


def codec():
    """Its parser, and its frame."""
    parser = StompParser("1.2")

    def decode(chunks):
        count = 0
        for chunk in chunks:
            parser.add(chunk)
            while parser.canRead():
                if parser.get():
                    count += 1
        return count

    def encode(messages):
        return [
            bytes(StompFrame("SEND", {**headers, "content-length": str(len(body))}, body, version="1.2"))
            for headers, body in messages
        ]

    answer({**decode_rates(order.seconds, decode), **encode_rates(order.seconds, encode)})


if order.scenario == "codec":
    codec()
elif order.scenario in {"send", "receipts", "publisher"}:
    produce()
elif order.scenario in {"held", "parting"}:
    {"held": keep, "parting": come_back}[order.scenario]()
else:
    consume()
