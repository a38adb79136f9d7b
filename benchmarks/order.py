"""What a contestant is told to do, and how it answers: JSON in its argument, JSON on its standard output."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import json
import os
import resource
import ssl
import sys
import time
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

__all__ = ["UVLOOP", "Held", "Meter", "Order", "allow_files", "answer", "memory_bytes", "run_on_asyncio"]

# As an argument after the order: run on this event loop.
UVLOOP: Final = "uvloop"


# Two files for each of a thousand connections would be enough; the rest is Python's own.
_FILES: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One measurement.

    Attributes:
        scenario: What to do: ``codec``, ``receive``, ``acknowledge``, ``send``, ``receipts``, ``publisher``, ``echo``,
            and those of the other groups.
        host: Where the broker or the peer is.
        port: Its port.
        scheme: ``stomp``, ``stomps`` (TLS) or ``wss`` (WebSocket over TLS).
        ca_file: The certificate to trust, where there is TLS.
        vhost: Its virtual host.
        login: User.
        passcode: The user's passcode.
        destination: Where to send to or to subscribe to.
        flood: What a second connection subscribes to, where the scenario has one.
        warm_up: Seconds at the start that do not count.
        seconds: How long to measure.
        limit: Stop after so many messages; 0: no limit. What is sent without confirmation then counts until the broker
            has confirmed one more message, sent after it.
        window: Prefetch, and how many confirmations may be outstanding.
        count: How many connections or subscriptions, where the scenario asks.
        body_bytes: How large the body is, where the scenario asks.
        broker_pid: The process of the broker, where its processor time is asked for.
        patience: Seconds more that it may take, beside what it measures.
    """

    scenario: str
    host: str = "127.0.0.1"
    port: int = 0
    scheme: str = "stomp"
    ca_file: str = ""
    vhost: str = "/"
    login: str = "guest"
    passcode: str = "guest"
    destination: str = ""
    flood: str = "/queue/flood"
    warm_up: float = 0.3
    seconds: float = 1.0
    limit: int = 0
    window: int = 256
    count: int = 1
    body_bytes: int = 0
    broker_pid: int = 0
    patience: float = 60.0

    @classmethod
    def from_argument(cls) -> Order:
        """The order of this process."""
        return cls(**json.loads(sys.argv[1]))

    @property
    def url(self) -> str:
        """Where to connect to."""
        return f"{self.scheme}://{self.host}:{self.port}{'/ws' if self.scheme == 'wss' else ''}"

    @property
    def tls(self) -> ssl.SSLContext | None:
        """What a client needs for TLS; None: it is not asked for."""
        return ssl.create_default_context(cafile=self.ca_file) if self.ca_file else None

    def as_argument(self, *, whole: bool = True) -> str:
        """The order for another process, with or without what is as in a new `Order`."""
        options = dataclasses.asdict(self)
        plain = {} if whole else {each.name: each.default for each in dataclasses.fields(self)}
        return json.dumps({name: value for name, value in options.items() if name not in plain or value != plain[name]})


class Meter:
    """Counts messages, and looks at the clock now and then.

    The contestant adds to `count` for each message, and calls `lap` once it has come to `goal`: for all of them the
    same, and cheap next to a message.

    Attributes:
        count: Messages so far.
        goal: When to call `lap`.
        result: ``rate``, messages a second; ``processor``, seconds of processor time of this process for each;
            ``total``, messages with those that did not count.
    """

    __slots__ = ("_begun", "_limit", "_seconds", "_started", "_step", "_warm_up", "count", "goal", "result")

    def __init__(self, order: Order, step: int = 64) -> None:
        self._warm_up = order.warm_up
        self._seconds = order.seconds
        self._limit = order.limit
        self._step = step
        self._begun = 0.0
        self._started: tuple[float, float, int] | None = None
        self.count = 0
        self.goal = 1
        self.result: dict[str, float] = {}

    @property
    def unsettled(self) -> bool:
        """Whether what was sent may still be in buffers: one more message is to be confirmed, and `settled` called."""
        return self._limit > 0

    def settled(self) -> None:
        """All that was counted is with the broker now: this is the end of the measurement."""
        if self._started is not None:
            self._measure(*self._started)

    def _measure(self, begun: float, used: float, before: int) -> None:
        messages = self.count - before
        self.result["rate"] = messages / (time.perf_counter() - begun)
        self.result["processor"] = (time.process_time() - used) / messages

    def lap(self) -> bool:
        """Whether the measurement is over; `result` holds it then."""
        now, count = time.perf_counter(), self.count
        self.goal = count + self._step
        if self._limit:
            self.goal = min(self.goal, self._limit)
        if not self._begun:
            self._begun = now
        if self._started is None:
            if now - self._begun >= self._warm_up:
                self._started = now, time.process_time(), count
            return False
        begun = self._started[0]
        if now - begun < self._seconds and not (self._limit and count >= self._limit):
            return False
        self.result["total"] = float(count)
        self._measure(*self._started)
        return True


class Held:
    """What messages cost that an application keeps: memory, objects that the collector looks at, and its pause.

    Args:
        order: It is over with the message number `limit`.
    """

    def __init__(self, order: Order) -> None:
        self._limit = order.limit
        self._messages: list[object] = []
        gc.collect()
        self._bytes, self._tracked = memory_bytes(), len(gc.get_objects())

    def add(self, message: object) -> None:
        """Keep one more; with the last, the process ends with its answer."""
        self._messages.append(message)
        if len(self._messages) < self._limit:
            return
        gc.collect()
        begun = time.perf_counter()
        gc.collect()
        pause = time.perf_counter() - begun
        answer(
            {
                "bytes": (memory_bytes() - self._bytes) / self._limit,
                "tracked": (len(gc.get_objects()) - self._tracked) / self._limit,
                "pause": pause,
            }
        )


def memory_bytes() -> int:
    """What this process holds now."""
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * resource.getpagesize()


def allow_files() -> None:
    """Let this process have as many connections as are asked for."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(_FILES, hard), hard))


def run_on_asyncio(main: Coroutine[object, object, object]) -> None:
    """Run a client of asyncio's to the end."""
    if UVLOOP in sys.argv:
        import uvloop  # noqa: PLC0415  # there is none for Windows

        uvloop.run(main)
    else:
        asyncio.run(main)


def answer(result: Mapping[str, float]) -> NoReturn:
    """Hand the result over and end the process at once: how long a contestant takes to say goodbye is not asked."""
    sys.stdout.write(json.dumps(result) + "\n")
    sys.stdout.flush()
    os._exit(0)
