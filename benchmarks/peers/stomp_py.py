"""stomp.py: a thread reads and calls listeners, the main thread sends."""

import queue
import sys
import threading
import time
from collections import deque
from pathlib import Path

import stomp
from stomp.utils import Frame, convert_frame, pack, parse_frame

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.contestants.codec_cases import ENCODED, decode_rates, encode_rates
from benchmarks.order import Held, Meter, Order, answer
from benchmarks.payload import BODY, outgoing_headers, prefetch_headers

order = Order.from_argument()
TYPE = "application/json"


class Consumer(stomp.ConnectionListener):
    """Counts messages, and acknowledges or sends back where it has to."""

    def __init__(self, connection):
        self.connection = connection
        self.meter = Meter(order)

    def on_message(self, frame):
        """One message."""
        if order.scenario in {"echo", "flooded"}:
            if frame.body == "end":
                answer({})
            self.connection.send(order.destination, frame.body)
            return
        if order.scenario == "acknowledge":
            self.connection.ack(frame.headers["ack"])
        meter = self.meter
        meter.count += 1
        if meter.count >= meter.goal and meter.lap():
            answer(meter.result)


class Keeper(stomp.ConnectionListener):
    """Keeps all messages."""

    def __init__(self):
        self.held = Held(order)

    def on_message(self, frame):
        """One message."""
        self.held.add(frame)


class Drowning(stomp.ConnectionListener):
    """Takes all messages."""

    def on_message(self, _frame):
        """One message."""


class Returning(stomp.ConnectionListener):
    """Connects again when the connection is lost."""

    def __init__(self, connection):
        self.connection = connection
        self.count = 0

    def subscribed(self):
        """Connect and subscribe."""
        self.connection.connect(order.login, order.passcode, wait=True)
        self.connection.subscribe(order.destination, id="s-1", ack="auto")

    def on_message(self, _frame):
        """One message."""
        self.count += 1
        if self.count == order.limit:
            answer({})

    def on_disconnected(self):
        """As its manual has it."""
        self.subscribed()


class Receipts(stomp.ConnectionListener):
    """Hands each receipt to whoever waits."""

    def __init__(self, window):
        self.came = queue.SimpleQueue() if window == 1 else threading.Semaphore(window)
        self.on_receipt = self._one if window == 1 else self._free

    def _one(self, frame):
        self.came.put(frame.headers["receipt-id"])

    def _free(self, _frame):
        self.came.release()


def connected(*listeners):
    """A connection with the listeners."""
    place = [(order.host, order.port)]
    if order.scheme == "wss":
        connection = stomp.WSStompConnection(place, heartbeats=(0, 0), vhost=order.vhost, ws_path="/ws")
    else:
        connection = stomp.Connection12(place, heartbeats=(0, 0), vhost=order.vhost)
    if order.ca_file:
        connection.set_ssl(place, ca_certs=order.ca_file)
    for number, listener in enumerate(listeners):
        connection.set_listener(str(number), listener)
    connection.connect(order.login, order.passcode, wait=True)
    return connection


def come_back():
    """Receive from a broker that ends the first connection."""
    connection = stomp.Connection12([(order.host, order.port)], vhost=order.vhost)
    listener = Returning(connection)
    connection.set_listener("returning", listener)
    listener.subscribed()
    while True:
        time.sleep(60)


def consume():
    """Subscribe, and let the other thread work."""
    if order.scenario == "flooded":
        connected(Drowning()).subscribe(order.flood, id="s-0", ack="auto")
        time.sleep(order.warm_up)
    connection = connected()
    connection.set_listener("consumer", Keeper() if order.scenario == "held" else Consumer(connection))
    ack = "client-individual" if order.scenario == "acknowledge" else "auto"
    connection.subscribe(order.destination, id="s-1", ack=ack, headers=prefetch_headers(order.window, ack))
    while True:
        time.sleep(60)


def produce():
    """Send, confirmed or not."""
    window = {"send": 0, "receipts": 1, "publisher": order.window}[order.scenario]
    listener = Receipts(window or 1)
    # Where nothing is confirmed before the end, no listener slows it down.
    connection = connected(listener) if window or order.limit else connected()
    meter = Meter(order, step=8 if window == 1 else 64)
    while True:
        count = meter.count
        if not window:
            connection.send(order.destination, BODY, TYPE, outgoing_headers(count))
        elif window == 1:
            connection.send(order.destination, BODY, TYPE, outgoing_headers(count), receipt=f"r-{count}")
            listener.came.get()
        else:
            listener.came.acquire()
            connection.send(order.destination, BODY, TYPE, outgoing_headers(count), receipt=f"r-{count}")
        meter.count += 1
        if meter.count >= meter.goal and meter.lap():
            if not window and meter.unsettled:
                connection.send(order.destination, BODY, TYPE, receipt="last")
                listener.came.get()
                meter.settled()
            time.sleep(0.2)  # until the last ones are out
            answer(meter.result)


def codec():
    """Its reader, its parse function given whole frames, and its way to encode."""
    transport = stomp.transport.BaseTransport()
    transport.running = True
    # It is private, and the only one that finds the ends of frames.
    read = transport._BaseTransport__read

    def decode(chunks):
        count = 0
        left = deque(chunks)
        transport.receive = left.popleft
        while left:
            for frame in read():
                parse_frame(frame)
                count += 1
        return count

    def parse(frames):
        for frame in frames:
            parse_frame(frame)
        return len(frames)

    escape = stomp.connect.StompConnection12([(order.host, 1)])._escape_headers

    def bare(messages):
        return [
            pack(convert_frame(Frame("SEND", {**headers, "content-length": len(body)}, body)))
            for headers, body in messages
        ]

    def encode(messages):
        frames = []
        for headers, body in messages:
            whole = {**headers, "content-length": str(len(body))}
            escape(whole)
            frames.append(pack(convert_frame(Frame("SEND", whole, body))))
        return frames

    unescaped = [case for case in ENCODED if case != "escapes"]
    answer(
        {
            **decode_rates(order.seconds, decode),
            # Without the search for their ends; it is what others have timed.
            **decode_rates(order.seconds, parse, kind="whole", whole_frames=True),
            **encode_rates(order.seconds, encode),
            # Without the step that makes frames of any headers; it is what others have timed.
            **encode_rates(order.seconds, bare, kind="bare", cases=unescaped),
        }
    )


if order.scenario == "codec":
    codec()
elif order.scenario in {"send", "receipts", "publisher"}:
    produce()
elif order.scenario == "parting":
    come_back()
else:
    consume()
