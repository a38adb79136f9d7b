"""The floor under every client in a thread of its own: bare bytes to a trio thread, out, in, and back to the caller."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import NoReturn

import trio

from benchmarks.contestants.raw import connected, send_bytes
from benchmarks.order import Meter, Order, answer

__all__ = ["main"]

_CHUNK_BYTES = 64 * 1024


class _Thread:
    """A thread that runs trio, with one connection: it writes what it is told to, and reports each NUL that comes."""

    def __init__(self, order: Order) -> None:
        self.answered: Callable[[], object] = lambda: None
        self._order = order
        self._frame = send_bytes(order.destination, b"receipt:r-00000000\n")
        self._ready = threading.Event()
        threading.Thread(target=trio.run, args=(self._serve,), daemon=True).start()
        self._ready.wait()

    async def _serve(self) -> None:
        stream = await connected(self._order)
        self._socket, self._token = stream.socket, trio.lowlevel.current_trio_token()
        self._ready.set()
        while data := await stream.receive_some(_CHUNK_BYTES):
            if b"\0" in data:
                self.answered()

    def send(self) -> None:
        """Have the frame written, by trio."""
        self._token.run_sync_soon(self._write)

    def _write(self) -> None:
        # Two hundred bytes, with nothing before them: the system takes them whole.
        os.write(self._socket.fileno(), self._frame)


def synchronous(order: Order) -> NoReturn:
    """A caller that blocks."""
    thread, meter, lock = _Thread(order), Meter(order, step=8), threading.Lock()
    lock.acquire()
    thread.answered = lock.release
    while True:
        thread.send()
        lock.acquire()
        meter.count += 1
        if meter.count >= meter.goal and meter.lap():
            answer(meter.result)


def main() -> NoReturn:
    """Do what the order says."""
    synchronous(Order.from_argument())


if __name__ == "__main__":
    main()
