"""The other end of each connection: a process that speaks in prepared bytes, so that it is never what is measured.

    python -m benchmarks.peer

Prints its port. Each connection is a thread; all that happens for a message is done by one call in C for many. What
it does is chosen by the destination of the first frame after CONNECT:

==========================  ==========================================================================================
``/queue/flood``            MESSAGE frames without end
``/queue/shared``           the same with small buffers: else a thousand connections fill what the kernel has for TCP
``/queue/window.N``         MESSAGE frames, never more than N that are not acknowledged
``/queue/stock.N.M``        M MESSAGE frames, never more than N of them not acknowledged; an ACK counts for all before
``/queue/ticks.N``          N messages, one each millisecond, each to be sent back; the times are kept for the report
``/queue/spread.N.R``       waits for N subscriptions, then floods them in turn, R messages to each
``/queue/large.N``          one message with a body of N bytes
``/queue/parting.X``        one message, and the end of the connection; the report has the time until the next one
``/queue/quiet``            nothing; heart-beats if they were asked for
a SEND to wherever          takes what comes, and answers each receipt
==========================  ==========================================================================================

The line ``report`` on its standard input makes it wait for the connections that are ending, and print what it saw of
those that ended since the last one, as JSON. It ends with its standard input.
"""

from __future__ import annotations

import functools
import json
import re
import select
import socket
import sys
import threading
import time
from typing import Final

from benchmarks.order import allow_files
from benchmarks.payload import message

__all__ = ["main"]

# Enough that no contestant sees a message-id twice within what a cache of a sane size can hold.
_DISTINCT: Final = 32_768
_CHUNK_BYTES: Final = 256 * 1024
_SHARED_BYTES: Final = 128 * 1024
# A window is filled up when this part of it is free: a send for each ACK would make the peer the slower side.
_WINDOW_PART: Final = 8
_TICK_SECONDS: Final = 0.001
# stompman waits, where a connection has lasted for less than a second.
_PARTING_SECONDS: Final = 1.2
# How long a report waits for connections whose other side has gone; what was in their buffers is still being taken.
_PATIENCE: Final = 5.0
_TAIL_BYTES: Final = 200
_HEART_BEAT: Final = re.compile(rb"\nheart-beat: *(\d+), *(\d+)")
_RECEIPT: Final = re.compile(rb"\nreceipt: *([^\n\r]*)")
_SUBSCRIPTION: Final = re.compile(rb"SUBSCRIBE\r?\n(?:[^\0]*\n)?id: *([^\n\r]*)")
_DESTINATION: Final = re.compile(rb"\ndestination: *([^\n\r]*)")
_ACKNOWLEDGED: Final = re.compile(rb"\nid: *[^\n]*@@(\d{10})")
_NUMBER: Final = re.compile(rb"tick-(\d{8})")

_BUILDING: Final = threading.Lock()
# When the last connection of a contestant was ended, by the destination, which is another one for each contestant.
_PARTED: Final[dict[bytes, float]] = {}

Seen = dict[str, float]


@functools.lru_cache(maxsize=2)
def _built(subscriptions: tuple[bytes, ...], destination: bytes, run: int) -> tuple[bytes, int]:
    """Messages to the subscriptions in turn, `run` to each, and the bytes of one (of the first, where they differ)."""
    turns = max(1, _DISTINCT // (run * len(subscriptions)))
    numbers = iter(range(turns * run * len(subscriptions)))
    frames = [
        message(next(numbers), subscription, destination)
        for _turn in range(turns)
        for subscription in subscriptions
        for _ in range(run)
    ]
    return b"".join(frames), len(frames[0])


def _block(subscriptions: tuple[bytes, ...], destination: bytes, run: int) -> tuple[bytes, int]:
    # A thousand connections ask at once, and one answer serves them all.
    with _BUILDING:
        return _built(subscriptions, destination, run)


class Session(threading.Thread):
    """One connection."""

    def __init__(self, link: socket.socket, seen: list[Seen], beating: list[socket.socket]) -> None:
        super().__init__(daemon=True, name="session")
        self._link = link
        self._seen = seen
        self._beating = beating
        self._rest = b""
        self._saw: Seen = {"frames": 0.0}

    def run(self) -> None:
        """Serve until the other side has gone."""
        try:
            self._serve()
        except (ConnectionError, OSError):
            pass  # contestants leave without a word when their time is over
        finally:
            if self._link in self._beating:
                self._beating.remove(self._link)
            self._link.close()
            self._seen.append(self._saw)

    def _frame(self) -> bytes:
        """The next frame, its NUL included; what follows it stays in `_rest`."""
        while b"\0" not in self._rest:
            self._rest += self._receive()
        frame, _, self._rest = self._rest.partition(b"\0")
        return frame + b"\0"

    def _receive(self) -> bytes:
        data = self._link.recv(_CHUNK_BYTES)
        if not data:
            raise ConnectionError
        return data

    def _greet(self) -> None:
        self._link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        beats = _HEART_BEAT.search(self._frame())
        wanted = beats is not None and beats[2] != b"0"
        self._link.sendall(
            b"CONNECTED\nversion:1.2\nserver:peer/1.0\nheart-beat:%b\n\n\0" % (b"1000,1000" if wanted else b"0,0")
        )
        if wanted:
            self._beating.append(self._link)

    def _serve(self) -> None:
        self._greet()
        first = self._frame()
        found = _DESTINATION.search(first)
        destination = b"" if found is None else found[1]
        if not first.lstrip().startswith(b"SUBSCRIBE"):
            self._rest = first + self._rest
            self._take()
            return
        subscription = _SUBSCRIPTION.search(first)
        name = b"0" if subscription is None else subscription[1]
        kind, *numbers = destination.removeprefix(b"/queue/").split(b".")
        counts = [int(number) for number in numbers]
        match kind:
            case b"flood":
                self._flood((name,), destination, 1)
            case b"shared":
                self._link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SHARED_BYTES)
                self._flood((name,), destination, 1)
            case b"window":
                self._window(name, destination, counts[0])
            case b"stock":
                self._stock(name, destination, counts[0], counts[1])
            case b"ticks":
                self._tick(name, destination, counts[0])
            case b"spread":
                self._spread(name, destination, counts[0], counts[1])
            case b"large":
                self._large(name, destination, counts[0])
            case b"parting":
                self._part(name, destination)
            case _:
                self._take()

    # --- what it can do -------------------------------------------------------------------------------------------

    def _flood(self, subscriptions: tuple[bytes, ...], destination: bytes, run: int) -> None:
        block, _ = _block(subscriptions, destination, run)
        while True:
            self._link.sendall(block)

    def _spread(self, first: bytes, destination: bytes, count: int, run: int) -> None:
        names = [first]
        while len(names) < count:
            found = _SUBSCRIPTION.search(self._frame())
            if found is not None:
                names.append(found[1])
        self._flood(tuple(names), destination, run)

    def _window(self, subscription: bytes, destination: bytes, window: int) -> None:
        block, size = _block((subscription,), destination, 1)
        view, position, free = memoryview(block), 0, window
        while True:
            while free >= window // _WINDOW_PART:
                count = min(free, _DISTINCT - position)
                self._link.sendall(view[position * size : (position + count) * size])
                position = (position + count) % _DISTINCT
                free -= count
            # A NUL ends each ACK; there is nothing else that a contestant sends here. Clients that leave Nagle's
            # algorithm on would wait 40 ms for TCP's own delayed acknowledgment, since this side answers in portions.
            acknowledged = self._receive().count(b"\0")
            if sys.platform == "linux":
                self._link.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
            self._saw["frames"] += acknowledged
            free += acknowledged

    def _stock(self, subscription: bytes, destination: bytes, window: int, total: int) -> None:
        block, size = _block((subscription,), destination, 1)
        view, sent, acknowledged = memoryview(block), 0, 0
        while True:
            while sent < total and window - (sent - acknowledged) >= window // _WINDOW_PART:
                position = sent % _DISTINCT
                count = min(window - (sent - acknowledged), _DISTINCT - position, total - sent)
                self._link.sendall(view[position * size : (position + count) * size])
                sent += count
            whole, nul, self._rest = (self._rest + self._receive()).rpartition(b"\0")
            for number in _ACKNOWLEDGED.findall(whole)[-1:]:
                # The numbers of messages come round again.
                acknowledged += (int(number) + 1 - acknowledged) % _DISTINCT
            names = _RECEIPT.findall(whole + nul)
            if names:
                self._link.sendall(b"".join(b"RECEIPT\nreceipt-id:%b\n\n\0" % name for name in names))

    def _large(self, subscription: bytes, destination: bytes, size: int) -> None:
        head, _, _ = (
            message(0, subscription, destination, b"")
            .replace(b"content-length:0", b"content-length:%d" % size)
            .partition(b"\0")
        )
        piece = bytes(_CHUNK_BYTES)
        self._link.sendall(head)
        for _ in range(size // len(piece)):
            self._link.sendall(piece)
        self._link.sendall(piece[: size % len(piece)] + b"\0")
        self._take()

    def _part(self, subscription: bytes, destination: bytes) -> None:
        self._link.sendall(message(0, subscription, destination))
        if destination in _PARTED:
            self._saw["away"] = time.perf_counter() - _PARTED[destination]
            self._take()
        time.sleep(_PARTING_SECONDS)
        _PARTED[destination] = time.perf_counter()

    def _tick(self, subscription: bytes, destination: bytes, count: int) -> None:
        """Send a message each millisecond, whatever has come back, and note for each when it came back."""
        pad = b"." * 187
        frames = [message(n, subscription, destination, b"tick-%08d" % n + pad) for n in range(count)]
        sent, took, text = [0.0] * count, [0.0] * count, b""
        begin, done, number = time.perf_counter() + 0.1, 0, 0
        while done < count:
            due = begin + number * _TICK_SECONDS
            wait = max(0.0, due - time.perf_counter()) if number < count else 1.0
            if select.select([self._link], [], [], wait)[0]:
                text += self._receive()
                now = time.perf_counter()
                whole, nul, text = text.rpartition(b"\0")
                for tick in _NUMBER.findall(whole + nul):
                    took[int(tick)] = now - sent[int(tick)]
                    done += 1
            elif number < count:
                sent[number] = time.perf_counter()
                self._link.sendall(frames[number])
                number += 1
        # The first tenth is the contestant's warm-up.
        ordered = sorted(took[count // 10 :])
        for name, part in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)):
            self._saw[name] = ordered[min(len(ordered) - 1, int(part * len(ordered)))]
        self._link.sendall(message(0, subscription, destination, b"end"))
        self._take()

    def _take(self) -> None:
        """Take frames, count them, and answer the receipts that they ask for."""
        data, rest = self._rest, b""
        confirms = b"\nreceipt:" in data
        while True:
            self._saw["frames"] += data.count(b"\0")
            # COMMIT and DISCONNECT ask for a receipt whatever the rest does, and are the last of what is sent at once.
            if confirms or b"COMMIT\n" in data[-_TAIL_BYTES:] or b"DISCONNECT\n" in data[-_TAIL_BYTES:]:
                whole, _, rest = (rest + data).rpartition(b"\0")
                names = _RECEIPT.findall(whole)
                if names:
                    joined = b"\n\n\0RECEIPT\nreceipt-id:".join(names)
                    self._link.sendall(b"RECEIPT\nreceipt-id:%b\n\n\0" % joined)
            data = self._receive()


def _beat(links: list[socket.socket]) -> None:
    while True:
        time.sleep(1.0)
        for link in list(links):
            try:
                link.send(b"\n")
            except OSError:
                continue


def _accept(server: socket.socket, seen: list[Seen], beating: list[socket.socket]) -> None:
    while True:
        link, _ = server.accept()
        Session(link, seen, beating).start()


def main() -> None:
    """Listen, and report when asked to."""
    allow_files()
    server = socket.create_server(("127.0.0.1", 0), backlog=2048)
    seen: list[Seen] = []
    beating: list[socket.socket] = []
    threading.Thread(target=_accept, args=(server, seen, beating), daemon=True).start()
    threading.Thread(target=_beat, args=(beating,), daemon=True).start()
    print(server.getsockname()[1], flush=True)
    for line in sys.stdin:
        if line.strip() == "report":
            deadline = time.monotonic() + _PATIENCE
            while time.monotonic() < deadline and any(each.name == "session" for each in threading.enumerate()):
                time.sleep(0.002)
            ended, seen[:] = list(seen), []
            print(json.dumps(ended), flush=True)


if __name__ == "__main__":
    main()
