"""Messages that would be redelivered for ever: the broker closes the connection for their dead letter, or their ACK."""

from __future__ import annotations

import errno
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio

from tests.kit.loops import on_loops
from tests.kit.peer import RABBITMQ, Peer, PeerOptions, Reaction
from tests.kit.reconnecting import RawHost, reconnecting
from tests.kit.streams import ByteStream, KitBrokenError
from tests.kit.tapped_stream import TappedStream
from trio_stomp import BrokerError, Client, ConnectionLost, Message, PoisonMessage, Reconnect, Retry
from trio_stomp.types import Command, Frame

pytestmark = [pytest.mark.anyio, on_loops("trio")]

ACTIVEMQ = "ActiveMQ/6.1"
QUICK = Reconnect(first_delay=0.01, max_delay=0.01)
ONCE = Retry(attempts=1)
BAD = b"bad"


class Queue:
    """A broker with one queue, which redelivers what is not acknowledged when a connection ends.

    Args:
        nursery: Where it runs.
        server: Its ``server`` header.

    Attributes:
        host: Its host.
        messages: What is in the queue.
        letters: The bodies of the dead letters that it has stored.
        closes: Whether it closes the connection at this frame, on the connection with this number.
        says: What its ERROR says before it closes a connection; None if it sends none.
        lasts: How many seconds the connection with this number lasts.
    """

    def __init__(self, nursery: trio.Nursery, server: str) -> None:
        self.host = RawHost(self._serve, nursery)
        self._server = server
        self.messages: list[bytes] = []
        self.letters: list[bytes] = []
        self.closes: Callable[[Frame, int], bool] = lambda frame, _number: (
            frame.command is Command.SEND and frame.body == BAD
        )
        self.says: str | None = None
        self.lasts: Callable[[int], float] = lambda _number: 10_000

    async def _serve(self, stream: trio.abc.Stream, number: int) -> None:
        with trio.move_on_after(self.lasts(number)):
            await _Link(self, Peer(stream, PeerOptions(server=self._server)), number).peer.serve()


class _Link:
    """One connection to a queue."""

    def __init__(self, queue: Queue, peer: Peer, number: int) -> None:
        self.peer = peer
        self._queue = queue
        self._number = number
        self._delivered: dict[str, bytes] = {}
        self._pending: list[Frame] = []
        self._is_closed = False
        reactions = {
            Command.SUBSCRIBE: self._deliver,
            Command.SEND: self._apply,
            Command.ACK: self._apply,
            Command.COMMIT: self._commit,
        }
        for command, reaction in reactions.items():
            peer.on[command] = partial(self._take, reaction)

    def _take(self, reaction: Reaction, frame: Frame) -> None:
        if self._is_closed:
            return
        if self._queue.closes(frame, self._number):
            self._is_closed = True
            if self._queue.says is not None:
                self.peer.error(self._queue.says)
            self.peer.hang_up()
        elif "transaction" in frame.headers and frame.command is not Command.COMMIT:
            self._pending.append(frame)
        else:
            reaction(frame)
            self.peer.confirm(frame)

    def _deliver(self, frame: Frame) -> None:
        for body in self._queue.messages:
            self._delivered["ack-" + self.peer.deliver(frame.headers["id"], body)] = body

    def _apply(self, frame: Frame) -> None:
        if frame.command is Command.SEND:
            self._queue.letters.append(frame.body)
        else:
            self._queue.messages.remove(self._delivered.pop(frame.headers["id"]))

    def _commit(self, _frame: Frame) -> None:
        for frame in self._pending:
            self._apply(frame)
            self.peer.confirm(frame)
        self._pending.clear()


@asynccontextmanager
async def queue_of(
    *messages: bytes, server: str = RABBITMQ, reconnect: Reconnect = QUICK
) -> AsyncGenerator[tuple[Client, Queue]]:
    async with trio.open_nursery() as nursery:
        queue = Queue(nursery, server)
        queue.messages += messages
        async with reconnecting(queue.host, heart_beat=(0, 0), reconnect=reconnect) as client:
            yield client, queue
        nursery.cancel_scope.cancel()


async def fail(message: Message) -> None:
    """A handler that fails, after a short time."""
    await trio.sleep(0.001 * len(message.body))
    raise ValueError("never")


@pytest.mark.parametrize("server", [RABBITMQ, ACTIVEMQ])
@pytest.mark.parametrize("at", [Command.SEND, Command.ACK, Command.COMMIT])
async def test_work_when_the_broker_closes_at_a_dead_letter_then_it_ends_with_an_error_that_names_both(
    *, server: str, at: Command
) -> None:
    async with queue_of(BAD, server=server) as (client, queue), client.subscribe("/queue/jobs") as jobs:
        closed: set[int] = set()

        def closes(frame: Frame, number: int) -> bool:
            if frame.command is at:
                closed.add(number)
            return frame.command is at

        queue.closes = closes
        with trio.fail_after(60), pytest.raises(PoisonMessage) as caught:
            await jobs.work(fail, retry=ONCE, dead_letter="/queue/dead")
        assert closed == {1, 2, 3}
    for named in ("message 'm-1'", "'/queue/dead'", "3 bytes", "4 MiB", "100 headers"):
        assert named in str(caught.value)
    assert isinstance(caught.value.__cause__, ValueError)
    assert queue.messages == [BAD]


@pytest.mark.parametrize("server", [RABBITMQ, ACTIVEMQ])
async def test_work_when_the_broker_refuses_a_dead_letter_each_time_then_it_ends_with_its_words(server: str) -> None:
    async with queue_of(BAD, server=server) as (client, queue), client.subscribe("/queue/jobs") as jobs:
        queue.says = "access refused"
        with trio.fail_after(60), pytest.raises(BrokerError, match="access refused") as caught:
            await jobs.work(fail, retry=ONCE, dead_letter="/queue/dead")
        assert len(queue.host.dialed) <= 4
    (note,) = caught.value.__notes__
    assert "message 'm-1' to '/queue/dead'" in note


async def test_work_when_one_of_many_dead_letters_is_bad_then_the_others_are_sent_and_the_error_is_about_it() -> None:
    bodies = [b"%d" % number for number in range(20)]
    async with queue_of(*bodies[:7], BAD, *bodies[7:]) as (client, queue), client.subscribe("/queue/jobs") as jobs:
        with trio.fail_after(60), pytest.raises(PoisonMessage, match="a body of 3 bytes"):
            await jobs.work(fail, retry=ONCE, dead_letter="/queue/dead")
        # One that shared a connection with the bad one may be there twice.
        assert set(queue.letters) == set(bodies)
        assert queue.messages == [BAD]


@pytest.mark.parametrize("seed", range(10))
async def test_work_when_links_are_cut_at_random_then_no_dead_letter_is_blamed(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311  # not a secret
    bodies = [b"%d" % number for number in range(100)]
    async with queue_of(*bodies) as (client, queue):
        queue.closes = lambda frame, number: (
            # At most two in a row.
            number < 100 and number % 3 != 0 and frame.command is Command.SEND and chance.random() < 0.3
        )
        queue.lasts = lambda number: chance.choice([0.01, 0.5, 2]) * chance.random() if number < 100 else 10_000
        async with client.subscribe("/queue/jobs") as jobs:
            with trio.move_on_after(1000):
                await jobs.work(fail, retry=ONCE, dead_letter="/queue/dead")
        assert len(queue.host.dialed) > 5
    assert not queue.messages
    assert set(queue.letters) == set(bodies)


class TimingOut(TappedStream):
    """A link that TCP gives up at a dead letter: a read has the timeout, and the write a broken pipe."""

    _reading = trio.CancelScope()

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        if BAD in bytes(data):
            self._reading.cancel()
            await trio.lowlevel.checkpoint()
            raise KitBrokenError from BrokenPipeError(errno.EPIPE, "Broken pipe")
        await super().send_all(data)

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        with trio.CancelScope() as self._reading:
            return await super().receive_some(max_bytes)
        raise KitBrokenError from TimeoutError(errno.ETIMEDOUT, "Connection timed out")


async def test_work_when_the_network_fails_at_a_dead_letter_each_time_then_it_is_not_blamed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with queue_of(BAD) as (client, queue), client.subscribe("/queue/jobs") as jobs:
        open_stream = queue.host.open_stream

        async def open_bad_link() -> ByteStream:
            stream = await open_stream()
            return TimingOut(stream) if len(queue.host.dialed) < 30 else stream

        monkeypatch.setattr(queue.host, "open_stream", open_bad_link)
        queue.closes = lambda frame, number: number == 1 and frame.command is Command.SEND
        with trio.move_on_after(1000):
            await jobs.work(fail, retry=ONCE, dead_letter="/queue/dead")
        assert len(queue.host.dialed) == 30
    assert queue.letters == [BAD]


# --- acknowledgments --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pool", [False, True])
async def test_ack_when_the_broker_closes_at_it_each_time_then_it_is_repeated_as_the_policy_says(*, pool: bool) -> None:
    """The client does not send it again: the broker redelivers the message."""
    policy = Reconnect(first_delay=1, max_delay=60, attempts=8, random=lambda: 1.0)
    handled: list[float] = []

    async def handle(message: Message) -> None:
        await trio.lowlevel.checkpoint()
        handled.append(trio.current_time())

    async with queue_of(b"x", reconnect=policy) as (client, queue):
        queue.closes = lambda frame, _number: frame.command is Command.ACK
        with pytest.raises(ConnectionLost, match="set to give up"):
            async with client.subscribe("/queue/jobs") as jobs:
                if pool:
                    await jobs.work(handle)
                async for message in jobs:
                    async with message:
                        await handle(message)
    assert len(handled) == 9
    assert handled[-1] - handled[-2] == 60
