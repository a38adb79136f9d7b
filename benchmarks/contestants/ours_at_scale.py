"""trio_stomp with many connections, many subscriptions, many messages, and one large body."""

from __future__ import annotations

import gc
import resource
import subprocess
import sys
import tempfile
import time
from typing import Final, NoReturn

import trio

import trio_stomp
from benchmarks.contestants.ours import connection
from benchmarks.order import Meter, Order, allow_files, answer, memory_bytes
from trio_stomp import Limits

__all__ = ["main"]

# How many connections are opened at a time: more would wait for each other's deadlines.
_DIALING: Final = 50
_BEATS: Final = (1.0, 1.0)
_SPOOL_OVER: Final = 1024 * 1024 - 1
# Once the caches and the buffers of the first messages are there.
_WARM_MESSAGES: Final = 50_000


def collected_bytes() -> int:
    """What this process holds now, without garbage."""
    gc.collect()
    return memory_bytes()


def peak_bytes() -> int:
    """The most that this process has ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


class Steps(trio.abc.Instrument):
    """Counts how often a task is given the processor."""

    def __init__(self) -> None:
        self.count = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """One more."""
        if task is not trio.lowlevel.current_root_task():
            self.count += 1


class Crowd:
    """Many connections, open for as long as the nursery is."""

    def __init__(self, order: Order, heart_beat: tuple[float, float]) -> None:
        self._order = order
        self._heart_beat = heart_beat
        self._limiter = trio.CapacityLimiter(_DIALING)
        self._opened = trio.Event()
        self._wanted = 0
        self.clients: list[trio_stomp.Client] = []

    async def open(self, nursery: trio.Nursery, count: int) -> None:
        """Open so many more, and return when all are there."""
        self._opened, self._wanted = trio.Event(), len(self.clients) + count
        for _ in range(count):
            nursery.start_soon(self._hold)
        await self._opened.wait()

    async def _hold(self) -> None:
        await self._limiter.acquire()
        async with connection(self._order, heart_beat=self._heart_beat) as client:
            self._limiter.release()
            self.clients.append(client)
            if len(self.clients) == self._wanted:
                self._opened.set()
            await trio.sleep_forever()


async def idle(order: Order) -> NoReturn:
    """Memory of a connection that does nothing, and what it takes of the processor, with heart-beats and without."""
    result: dict[str, float] = {}
    for name, heart_beat in (("silent", (0.0, 0.0)), ("beating", _BEATS)):
        steps = Steps()
        async with trio.open_nursery() as nursery:
            crowd = Crowd(order, heart_beat)
            await crowd.open(nursery, 1)
            before = collected_bytes()
            await crowd.open(nursery, order.count)
            # The second time, what the first left behind would be used again.
            result.setdefault("bytes", (collected_bytes() - before) / order.count)
            # SUBSCRIBE to nothing: the peer only listens to a connection whose first frame it has seen.
            for client in crowd.clients:
                nursery.start_soon(_listen, client)
            await trio.sleep(0.5)
            trio.lowlevel.add_instrument(steps)
            begun, used = time.perf_counter(), time.process_time()
            await trio.sleep(order.seconds)
            took, used = time.perf_counter() - begun, time.process_time() - used
            trio.lowlevel.remove_instrument(steps)
            result[f"{name}/cpu"] = used / took
            # This task itself was woken once.
            result[f"{name}/steps"] = (steps.count - 1) / took / len(crowd.clients)
            nursery.cancel_scope.cancel()
    answer(result)


async def _listen(client: trio_stomp.Client) -> None:
    async with client.subscribe("/queue/quiet", ack="auto") as subscription:
        async for _message in subscription:
            raise AssertionError


async def crowd(order: Order) -> NoReturn:
    """Receive on many connections at once: the rate of all together."""
    meter = Meter(order)

    async def consume(client: trio_stomp.Client) -> None:
        # The same id on each: the peer then needs to keep one set of bytes for all.
        async with client.subscribe(order.destination, ack="auto", id="s-1", prefetch=order.window) as subscription:
            async for _message in subscription:
                meter.count += 1
                if meter.count >= meter.goal and meter.lap():
                    answer(meter.result)

    async with trio.open_nursery() as nursery:
        many = Crowd(order, (0.0, 0.0))
        await many.open(nursery, order.count)
        for client in many.clients:
            nursery.start_soon(consume, client)
    raise AssertionError


async def dispatch(order: Order) -> NoReturn:
    """Many subscriptions on one connection, and nobody who takes the messages: what it costs to bring them there."""
    async with connection(order) as client, trio.open_nursery() as nursery:

        async def hold(*, task_status: trio.TaskStatus[None]) -> None:  # noqa: ASYNC114  # not used elsewhere
            async with client.subscribe(order.destination, ack="auto", prefetch=1, overflow="drop-oldest"):
                task_status.started()
                await trio.sleep_forever()

        before = collected_bytes()
        for _ in range(order.count):
            await nursery.start(hold)
        memory = (collected_bytes() - before) / order.count
        while not client.statistics().messages_received:  # noqa: ASYNC110  # nothing tells of it: nobody takes them
            await trio.sleep(0.01)
        await trio.sleep(order.warm_up)
        begun, used = time.perf_counter(), time.process_time()
        count = client.statistics().messages_received
        await trio.sleep(order.seconds)
        took, used = time.perf_counter() - begun, time.process_time() - used
        # One at least: on a busy machine, a short time may be over before the peer has had its turn.
        count = max(1, client.statistics().messages_received - count)
        answer({"rate": count / took, "microseconds": used / count * 1e6, "bytes": memory})
    raise AssertionError


async def tasks(order: Order) -> NoReturn:
    """Many subscriptions on one connection, each with a task that takes its messages, and the share of each."""
    meter = Meter(order)
    taken = [0] * order.count
    async with connection(order) as client, trio.open_nursery() as nursery:

        async def consume(number: int) -> None:
            async with client.subscribe(order.destination, ack="auto", prefetch=order.window) as subscription:
                async for _message in subscription:
                    meter.count += 1
                    taken[number] += 1
                    if meter.count >= meter.goal and meter.lap():
                        answer({**meter.result, "least": min(taken) * order.count / sum(taken)})

        for number in range(order.count):
            nursery.start_soon(consume, number)
    raise AssertionError


async def flow(order: Order) -> NoReturn:
    """Memory while many messages flow by, each acknowledged."""
    count, early, begun = 0, 0, time.perf_counter()
    async with (
        connection(order) as client,
        client.subscribe(order.destination, ack="client-individual", prefetch=order.window) as subscription,
    ):
        async for message in subscription:
            async with message:
                count += 1
            if count == _WARM_MESSAGES:
                early = collected_bytes()
            if count == order.limit:
                grown = collected_bytes() - early
                answer({"grown": float(grown), "rate": count / (time.perf_counter() - begun)})
    raise AssertionError


async def large(order: Order) -> NoReturn:
    """The memory that one large body takes while it arrives."""
    async with connection(order, limits=Limits(body_bytes=order.body_bytes)) as client:
        async with client.subscribe("/queue/large.1024", ack="auto", id="small"):
            await trio.sleep(0.1)
        before = collected_bytes()
    async with (
        connection(order, limits=Limits(body_bytes=order.body_bytes)) as client,
        client.subscribe(f"/queue/large.{order.body_bytes}", ack="auto") as subscription,
    ):
        begun = time.perf_counter()
        async for message in subscription:
            if len(message.body) != order.body_bytes:
                raise AssertionError
            took = time.perf_counter() - begun
            answer({"bodies": (peak_bytes() - before) / order.body_bytes, "bytes_per_second": order.body_bytes / took})
    raise AssertionError


async def spooled(order: Order) -> NoReturn:
    """The memory that one large body takes while it goes into a file."""
    async with (
        connection(order, limits=Limits(body_bytes=order.body_bytes)) as client,
        client.subscribe("/queue/large.1048576", ack="auto", id="small", spool_threshold_bytes=_SPOOL_OVER) as warm,
    ):
        await anext(warm)
        before = collected_bytes()
    async with (
        connection(order, limits=Limits(body_bytes=order.body_bytes)) as client,
        client.subscribe(
            f"/queue/large.{order.body_bytes}", ack="auto", spool_threshold_bytes=_SPOOL_OVER
        ) as subscription,
    ):
        begun = time.perf_counter()
        async for message in subscription:
            if message.body_size != order.body_bytes or not message.is_spooled:
                raise AssertionError
            took = time.perf_counter() - begun
            answer({"bodies": (peak_bytes() - before) / order.body_bytes, "bytes_per_second": order.body_bytes / took})
    raise AssertionError


async def sent(order: Order) -> NoReturn:
    """The memory that one large body takes while it is sent from a file."""
    with tempfile.TemporaryFile() as file:
        async with connection(order) as client:
            file.truncate(_SPOOL_OVER)
            await client.send("/queue/taken", file, receipt=True)
            before = collected_bytes()
            file.truncate(order.body_bytes)
            file.seek(0)
            begun = time.perf_counter()
            await client.send("/queue/taken", file, receipt=True)
            took = time.perf_counter() - begun
            answer({"bodies": (peak_bytes() - before) / order.body_bytes, "bytes_per_second": order.body_bytes / took})
    raise AssertionError


async def reopen(order: Order) -> NoReturn:
    """Open many subscriptions on one connection, and have them restored after it is lost.

    The embedded broker, in a process of its own, answers each SUBSCRIBE with its RECEIPT.
    """
    opened = trio.Event()
    waiting = order.count

    async def hold(client: trio_stomp.Client, number: int) -> None:
        nonlocal waiting
        async with client.subscribe(f"/queue/{number}"):
            waiting -= 1
            if not waiting:
                opened.set()
            await trio.sleep_forever()

    broker = subprocess.Popen(  # noqa: ASYNC220  # nothing else runs yet
        [sys.executable, "-m", "benchmarks.broker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    if broker.stdin is None or broker.stdout is None:
        raise AssertionError  # both were asked for
    url = broker.stdout.readline().strip()
    reconnect = trio_stomp.Reconnect(first_delay=0)
    async with trio_stomp.connect(url, reconnect=reconnect) as client, trio.open_nursery() as nursery:
        begun = time.perf_counter()
        for number in range(order.count):
            nursery.start_soon(hold, client, number)
        await opened.wait()
        took = time.perf_counter() - begun
        states = client.state_changes()
        begun = time.perf_counter()
        broker.stdin.write("drop\n")
        broker.stdin.flush()
        async for state in states:
            if state.healthy and client.statistics().reconnections:
                answer({"open": took, "restore": time.perf_counter() - begun})
    raise AssertionError


SCENARIOS = {each.__name__: each for each in (idle, crowd, dispatch, tasks, flow, large, spooled, sent, reopen)}


def main() -> NoReturn:
    """Do what the order says."""
    allow_files()
    order = Order.from_argument()
    trio.run(SCENARIOS[order.scenario], order)
    raise AssertionError


if __name__ == "__main__":
    main()
