"""The simulated network: links between a client and a broker that delay, split, slow down, break and fall silent."""

from __future__ import annotations

import hashlib
import math
import random
import re
import sys
import weakref
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Final, Generic, TypeVar

import anyio
from anyio.lowlevel import checkpoint

__all__ = ["Cut", "End", "Link", "Network", "Pipe", "Wrote"]

# About as much as a socket buffers; little, so that writers wait now and then.
_CAPACITY_BYTES: Final = 16 * 1024
_LENGTH: Final = re.compile(rb"\ncontent-length:(\d+)\n")


E = TypeVar("E", bound="End")


class Cut(Enum):
    """How a link breaks."""

    RESET = "both sides see an error at once, and what was on its way is lost"
    END = "both sides see the end of the stream after what was on its way"


class Pipe:
    """One direction of a link."""

    def __init__(self, link: Link) -> None:
        self.link = link
        # What is on its way, each piece with the time at which it arrives.
        self.pieces: deque[tuple[float, bytes]] = deque()
        self.held_bytes = 0
        self.sent_bytes = 0
        self.silent_at = math.inf
        self.cut_at = math.inf
        self.cut = Cut.RESET
        self.is_ended = False
        self._arrival = 0.0
        self._changed: anyio.Event | None = None

    def notify(self) -> None:
        """Wake everything that waits for a change."""
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    async def wait(self, seconds: float = math.inf) -> None:
        """Wait for a change, or a time."""
        self._changed = changed = self._changed or anyio.Event()
        if seconds == math.inf:
            await changed.wait()
        else:
            with anyio.move_on_after(seconds):
                await changed.wait()

    def put(self, piece: bytes) -> None:
        """Send a piece, up to where the link breaks or falls silent."""
        link = self.link
        link.trace(piece)
        if self.sent_bytes + len(piece) > self.silent_at:
            link.fall_silent()
        if link.is_silent:
            self.sent_bytes += len(piece)
            return
        piece = piece[: int(min(len(piece), self.cut_at - self.sent_bytes))]
        self.sent_bytes += len(piece)
        self.held_bytes += len(piece)
        self._arrival = max(self._arrival, anyio.current_time() + link.delay())
        if piece:
            self.pieces.append((self._arrival, piece))
        self.notify()
        if self.sent_bytes >= self.cut_at:
            link.break_(self.cut)

    def take(self, max_bytes: int) -> bytes:
        """Return what has arrived, up to a size that the seed chooses; empty if nothing has."""
        now, pieces = anyio.current_time(), self.pieces
        taken: list[bytes] = []
        left = min(max_bytes, self.link.read_bytes())
        while pieces and pieces[0][0] <= now and left:
            arrival, piece = pieces.popleft()
            if len(piece) > left:
                pieces.appendleft((arrival, piece[left:]))
                piece = piece[:left]
            taken.append(piece)
            left -= len(piece)
        data = b"".join(taken)
        self.link.trace(data)
        self.held_bytes -= len(data)
        self.notify()
        return data

    def clear(self) -> None:
        """Lose what is on its way."""
        self.pieces.clear()
        self.held_bytes = 0


class Link:
    """A connection of the network.

    Attributes:
        number: Its number; later ones are higher.
        host: Where it leads.
        is_faulty: Whether what was sent on it may be lost, because something has ended it before DISCONNECT.
        is_used: Whether the client has written more than CONNECT.
        was_left: Whether the client has written DISCONNECT.
        is_silent: Whether nothing arrives any more, in either direction.
        rate: Bytes in a second.
        writes_at_once: Whether the client may write to it without waiting, as to a socket.
    """

    def __init__(self, chance: random.Random, trace: hashlib.blake2b, number: int, host: str) -> None:
        self.number = number
        self.host = host
        self.is_faulty = self.is_used = self.was_left = False
        self.is_silent = False
        self.rate = math.inf
        self._chance = chance
        self.writes_at_once = chance.random() < 0.5
        self._trace = trace
        self._is_broken = self._is_reset = False
        self._latency = chance.choice((0.0, 0.0, 0.001, 0.02, 0.2))
        self._piece = chance.choice((1, 7, 100, 100_000, 100_000, 100_000))
        self._read = chance.choice((1, 5, 50, 100_000, 100_000, 100_000))
        self.from_client, self.to_client = Pipe(self), Pipe(self)

    def __repr__(self) -> str:
        return f"<Link {self.number} to {self.host}{' faulty' * self.is_faulty}>"

    def trace(self, data: bytes) -> None:
        """Add what is sent or received now to the trace of the run."""
        self._trace.update(b"%d %.6f " % (self.number, anyio.current_time()))
        self._trace.update(data)

    def delay(self) -> float:
        """Seconds until the next piece arrives."""
        return self._latency * self._chance.random() if self._latency else 0.0

    def piece_bytes(self) -> int:
        """The size of the next piece that is sent, at most."""
        return self._piece if self._chance.random() < 0.5 else 1 + self._chance.randrange(2000)

    def may_write_at_once(self) -> bool:
        """Whether a write that does not wait may send anything now."""
        return self.writes_at_once and self.rate == math.inf and self._chance.random() < 0.8

    def read_bytes(self) -> int:
        """The size of the next read, at most."""
        return self._read if self._chance.random() < 0.5 else 1 + self._chance.randrange(4000)

    def fall_silent(self) -> None:
        """Let nothing arrive any more."""
        self.is_faulty = self.is_silent = True
        self.from_client.clear()
        self.to_client.clear()
        self._notify()

    def break_(self, cut: Cut) -> None:
        """Break it now."""
        self.is_faulty = self._is_broken = True
        for pipe in (self.from_client, self.to_client):
            pipe.is_ended = True
            if cut is Cut.RESET:
                self._is_reset = True
                pipe.clear()
        self._notify()

    def break_after(self, size: int, cut: Cut, *, from_client: bool) -> None:
        """Break it after this many more bytes in one direction."""
        pipe = self.from_client if from_client else self.to_client
        pipe.cut_at, pipe.cut = pipe.sent_bytes + size, cut

    def fall_silent_after(self, size: int, *, from_client: bool) -> None:
        """Let nothing arrive after this many more bytes in one direction."""
        pipe = self.from_client if from_client else self.to_client
        pipe.silent_at = pipe.sent_bytes + size

    def heal(self) -> None:
        """Let nothing more happen to it; what is silent stays so."""
        self.rate = math.inf
        for pipe in (self.from_client, self.to_client):
            pipe.cut_at = pipe.silent_at = math.inf
        self._notify()

    def is_broken(self, *, sends: bool) -> bool:
        """Whether it is broken for one who sends or receives."""
        return self._is_reset or (sends and self._is_broken)

    def _notify(self) -> None:
        self.from_client.notify()
        self.to_client.notify()


# Called with a link, the body of each message that a client writes to it, and whether that is all of the body.
Wrote = Callable[[Link, bytes, bool], None]


class End:
    """One end of a link: what a stream of either side does; see `seams` for what it is to the client and the broker.

    Args:
        link: The link.
        incoming: What the other end sends.
        outgoing: What this end sends.
        wrote: Called with the messages that are sent.

    Attributes:
        link: The link.
    """

    def __init__(self, link: Link, incoming: Pipe, outgoing: Pipe, wrote: Wrote | None = None) -> None:
        self.link = link
        self._in = incoming
        self._out = outgoing
        self._wrote = wrote
        # What is written of the frame that is not complete.
        self._frame = bytearray()
        self._is_closed = False

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes, in pieces; wait while too many are on their way."""
        link, pipe, rest = self.link, self._out, memoryview(data)
        if self._wrote is not None:
            self._note(bytes(data), self._wrote)
        await checkpoint()
        while rest:
            self._check(sends=True)
            if pipe.is_ended:
                raise anyio.BrokenResourceError("the other end is closed")
            room = _CAPACITY_BYTES - pipe.held_bytes
            if room <= 0:
                await pipe.wait()
                continue
            size = min(len(rest), room, link.piece_bytes())
            pipe.put(bytes(rest[:size]))
            rest = rest[size:]
            # A link that has become fast meanwhile does not make its senders wait any longer.
            until = anyio.current_time() + size / link.rate
            while link.rate != math.inf and anyio.current_time() < until:
                await pipe.wait(until - anyio.current_time())

    def write_now(self, data: bytes, /) -> int:
        """Send what may be sent without waiting; return how much, which may be nothing."""
        link, pipe = self.link, self._out
        room = _CAPACITY_BYTES - pipe.held_bytes
        if self._is_closed or pipe.is_ended or room <= 0 or not link.may_write_at_once():
            return 0
        piece = data[: min(room, link.piece_bytes())]
        if self._wrote is not None:
            self._note(piece, self._wrote)
        pipe.put(piece)
        return len(piece)

    def _note(self, data: bytes, wrote: Wrote) -> None:
        """Take what is written apart into frames."""
        self._frame += data
        while self._frame:
            command, _, size = self._measure()
            self.link.is_used |= command not in (b"CONNECT", b"STOMP", b"")
            self.link.was_left |= command == b"DISCONNECT"
            if size > len(self._frame):
                return
            self._report(wrote, is_whole=True)
            del self._frame[:size]

    def _measure(self) -> tuple[bytes, int, int]:
        """The command of the frame that is being written, where its body begins, and its size; huge if unknown."""
        frame = self._frame
        if frame.startswith(b"\n"):
            return b"", 1, 1  # a heart-beat
        begin = frame.find(b"\n\n") + 2
        length = _LENGTH.search(frame, 0, begin)
        end = begin + int(length[1]) if length else frame.find(b"\0", begin)
        command = bytes(frame[: frame.find(b"\n")])
        return command, begin, sys.maxsize if begin < 2 or end < 0 else end + 1

    def _report(self, wrote: Wrote, *, is_whole: bool) -> None:
        command, begin, size = self._measure()
        if command == b"SEND" and begin > 1:
            end = len(self._frame) if size == sys.maxsize else size - 1
            wrote(self.link, bytes(self._frame[begin:end]), is_whole)

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Receive at least one byte; empty is the end of the stream."""
        pipe = self._in
        await checkpoint()
        while True:  # noqa: ASYNC913  # each round returns or waits
            self._check(sends=False)
            if pipe.pieces:
                data = pipe.take(max_bytes or 65536)
                if data:
                    return data
                await pipe.wait(pipe.pieces[0][0] - anyio.current_time())
            elif pipe.is_ended:
                return b""
            else:
                await pipe.wait()

    def _check(self, *, sends: bool) -> None:
        if self._is_closed:
            raise anyio.ClosedResourceError("this end is closed")
        if self.link.is_broken(sends=sends):
            raise anyio.BrokenResourceError("the simulated network has broken the link")

    async def aclose(self) -> None:
        """Close this end: the other one sees the end of the stream after what was sent, and cannot send any more."""
        if not self._is_closed:
            self._is_closed = True
            self.link.is_faulty |= not self.link.was_left
            if self._wrote is not None and self._frame:
                self._report(self._wrote, is_whole=False)
            self._in.clear()
            # A link that is silent does not tell the other end.
            for pipe in (self._in, self._out):
                pipe.is_ended |= not self.link.is_silent
                pipe.notify()
        await checkpoint()


class Network(Generic[E]):
    """The hosts and the links to them.

    Args:
        chance: The seed's generator.
        serve: Begins to serve a new link at the broker, and returns the end of the client.

    Attributes:
        links: All links so far.
        ends: The client's ends of them, as long as something keeps them.
        down: The hosts that refuse connections.
        trace: A digest of all that was sent and received, and when.
    """

    def __init__(self, chance: random.Random, serve: Callable[[Link], E]) -> None:
        self.chance = chance
        self._serve = serve
        self.links: list[Link] = []
        self.ends: weakref.WeakSet[E] = weakref.WeakSet()
        self.down: set[str] = set()
        self.trace = hashlib.blake2b(digest_size=8)

    async def open(self, host: str) -> E:
        """Connect to a host.

        Raises:
            OSError: It refuses.
        """
        await anyio.sleep(self.chance.choice((0.0, 0.001, 0.05)))
        if host in self.down:
            raise ConnectionRefusedError(111, "Connection refused")
        link = Link(self.chance, self.trace, len(self.links), host)
        end = self._serve(link)
        self.links.append(link)
        self.ends.add(end)
        return end
