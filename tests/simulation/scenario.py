"""A run: the seed chooses a broker, a network, programs and faults; in the end, everything must be as it should."""

from __future__ import annotations

import gc
import logging
import math
import random
import weakref
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

import anyio
import anyio.abc
from anyio.lowlevel import checkpoint

import trio_stomp
from tests.simulation import loops
from tests.simulation.ledger import Ledger, Outcome
from tests.simulation.network import Cut, Link, Network
from tests.simulation.programs import DEAD, SERVICE, Consumer, Job, LeaveError, Producer
from tests.simulation.seams import ClientEnd, serve, under
from trio_stomp import BrokerError, Client, LocalProtocolError, NotSupportedError, Reconnect, StompError
from trio_stomp.testing import (
    AnswerConnect,
    Broker,
    BrokerOptions,
    DelayReceipts,
    DuplicateReceipts,
    Fault,
    open_broker,
)
from trio_stomp.types import Phase

__all__ = ["Result", "simulate"]

DIALECTS: Final = (
    "trio-stomp-testing/1",
    "RabbitMQ/3.10.8",
    "RabbitMQ/4.3.6",
    "ActiveMQ/6.1.8",
    "ActiveMQ-Artemis/2.44.0 ActiveMQ Artemis Messaging Engine",
)
HOSTS: Final = ("h0", "h1", "h2")
AUTO: Final = "/queue/auto"
QUEUES: Final = ("/queue/a", "/queue/b", AUTO, SERVICE)
# Virtual seconds in which a run must be over. Outages take seconds, and a request at most a minute.
MOST_SECONDS: Final = 1000.0
# What is left behind must go by itself in this time: two heart-beats, or a timeout.
MOST_SECONDS_LEFT: Final = 60.0
HEART_BEAT: Final = 10.0
# The beginnings of ERRORs that are about the network, or planned.
_ALLOWED_ERRORS: Final = ("heart-beat missing", "no CONNECT", "starting", "no such destination: the connection of")


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How a run has ended.

    Attributes:
        seed: Its seed.
        counts: How much of each kind of trouble there was.
        troubles: The first of them, in words.
        messages: How many messages were sent.
        confirmed: How many of them the broker has confirmed.
        links: How many connections there were.
        trace: A digest of every byte and its time.
    """

    seed: int
    counts: Counter[str]
    troubles: Sequence[str]
    messages: int
    confirmed: int
    links: int
    trace: str


class _Program:
    """A client, or one after the other, and the tasks that use it.

    Args:
        world: The run.
        jobs: The tasks.
    """

    def __init__(self, world: World, jobs: Sequence[Job]) -> None:
        self._world = world
        self._chance = chance = world.chance
        self.jobs = jobs
        self._urls = [f"stomp://{host}" for host in chance.sample(HOSTS, chance.choice((1, 2, 3)))]
        self._reconnect = None
        if chance.random() < 0.85:
            self._reconnect = Reconnect(
                first_delay=0.1,
                max_delay=2,
                stable_after=chance.choice((0, 1, 10)),
                fail_back_after=chance.choice((None, 5, 20)),
                retry_first=True,
                random=chance.random,
            )
        self._versions = chance.choice((("1.0", "1.1", "1.2"), ("1.1",), ("1.2",)))
        self._outbox_bytes = chance.choice((500, 1 << 20))
        self._unconfirmed = chance.choice((1, 3, 100_000))
        # Only what is tried at a time may come before the first host, and so be left for it.
        self._attempt_delay = None if world.ledger.is_calm else chance.choice((None, 0.02))
        self._leaves_after = math.inf if world.ledger.is_calm else chance.choice((math.inf, math.inf, 2, 10))

    @property
    def is_done(self) -> bool:
        """Whether it has nothing more to do."""
        return self._world.over.is_set() or all(job.is_done for job in self.jobs)

    async def run(self) -> None:
        """Use one client after the other, until it is done."""
        while not self.is_done:
            try:
                async with trio_stomp.connect(
                    self._urls,
                    reconnect=self._reconnect,
                    versions=self._versions,
                    outbox_bytes=self._outbox_bytes,
                    unconfirmed_messages=self._unconfirmed,
                    connect_attempt_delay=self._attempt_delay,
                    heart_beat=(HEART_BEAT, HEART_BEAT),
                ) as client:
                    self._world.clients.add(client)
                    await self._use(client)
            except LeaveError:
                pass
            except StompError as error:
                self._world.failed(self.jobs[0], error)
            await anyio.sleep(0.1)

    async def _use(self, client: Client) -> None:
        with anyio.move_on_after(self._leaves_after) as limit:
            async with anyio.create_task_group() as waiting:
                waiting.start_soon(self._cancel_when_over, waiting.cancel_scope)
                async with anyio.create_task_group() as tasks:
                    for job in self.jobs:
                        if not job.is_done:
                            tasks.start_soon(job.run, client)
                waiting.cancel_scope.cancel()
        if limit.cancelled_caught:
            self._leaves_after = math.inf
            if self._chance.random() < 0.5:
                raise LeaveError
        elif self.is_done:
            await self._check_left(client)

    async def _cancel_when_over(self, scope: anyio.CancelScope) -> None:
        await self._world.over.wait()
        scope.cancel()

    async def _check_left(self, client: Client) -> None:
        """Nothing may be left in a client that is not used any more."""
        left: dict[str, object] = {}
        with anyio.move_on_after(MOST_SECONDS_LEFT):
            while client.state.phase is not Phase.CLOSED:
                now = client.statistics()
                left = {
                    "unconfirmed": now.unconfirmed,
                    "receipts_pending": now.receipts_pending,
                    "undelivered_bytes": now.undelivered_bytes,
                    "subscriptions": now.subscriptions,
                }
                if not any(left.values()):
                    return
                await anyio.sleep(1)
        if any(left.values()) and client.state.phase is not Phase.CLOSED:
            self._world.ledger.trouble("leaked", f"in {client}: {left}")


class World:
    """What runs: a broker, a network, programs and faults.

    Args:
        seed: Decides everything.

    Attributes:
        seed: The seed.
        chance: The seed's generator.
        ledger: What was sent and what arrived.
        network: The links.
        clients: All clients, as long as something keeps them.
        over: Set when all was sent and received.
        cancels: How likely a send is canceled.
        pause: How long a sender rests now and then, in seconds.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = chance = random.Random(f"{seed}/world")  # noqa: S311  # not a secret
        self.ledger = Ledger()
        self.network = Network(chance, self._serve)
        self.ledger.links = self.network.links
        self.ledger.auto = {AUTO}
        self.ledger.is_calm = chance.random() < 0.2
        self.clients: weakref.WeakSet[Client] = weakref.WeakSet()
        self.over = anyio.Event()
        self.cancels = chance.choice((0.0, 0.1, 0.3))
        self.pause = chance.choice((0.1, 3.0))
        self._options = BrokerOptions(
            server=chance.choice(DIALECTS),
            max_deliveries=1000,
            dead_letter=DEAD,
            heart_beat=(HEART_BEAT, HEART_BEAT),
            outbox_bytes=chance.choice((2000, 256 * 1024)),
            linger=0.1,
        )
        self._transactions = 0
        self._broker: Broker | None = None
        self._sessions: anyio.abc.TaskGroup | None = None
        self._generation: anyio.CancelScope | None = None
        self._producers = [
            Producer(self, number, chance.sample(QUEUES[:3], chance.choice((1, 1, 2))), chance.choice((1, 4, 12)))
            for number in range(chance.choice((1, 2, 4)))
        ]
        consumers = [
            Consumer(self, 100 + number, queue, "/queue/b" if queue == "/queue/a" else None)
            for number, queue in enumerate((*QUEUES, *(chance.choices(QUEUES[:2], k=chance.choice((0, 0, 2))))))
        ]
        self.jobs: Sequence[Job] = [*self._producers, *consumers]
        groups: list[list[Job]] = [[] for _ in range(chance.choice((1, 2, 3)))]
        for job in self.jobs:
            chance.choice(groups).append(job)
        self._programs = [_Program(self, group) for group in groups if group]

    # --- what programs call ---------------------------------------------------------------------------------------

    def new_transaction(self) -> int:
        """Number a transaction."""
        self._transactions += 1
        return self._transactions

    def failed(self, job: Job, error: StompError) -> None:
        """A program got an error, for which there must be a reason."""
        is_ours = isinstance(error, (LocalProtocolError, NotSupportedError))
        is_refusal = isinstance(error, BrokerError) and not str(error).startswith(_ALLOWED_ERRORS)
        if self.ledger.is_calm or is_ours or is_refusal:
            self.ledger.trouble("error", f"task {job.number}, {job.now}: {type(error).__name__}: {error}")

    def refused(self, text: str) -> None:
        """The broker sends an ERROR: so what the client has sent is illegal."""
        if self.ledger.is_calm or not text.startswith(_ALLOWED_ERRORS):
            self.ledger.trouble("refused", text)

    # --- the run --------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run the programs until all is sent and received, while faults strike."""
        async with anyio.create_task_group() as tasks:
            await tasks.start(self._run_broker, ())
            before = len(anyio.get_running_tasks())
            with anyio.move_on_after(MOST_SECONDS) as limit:
                async with anyio.create_task_group() as running:
                    for program in self._programs:
                        running.start_soon(program.run)
                    if not self.ledger.is_calm:
                        await self._strike(tasks)
                    self._heal()
                    while not all(producer.is_done for producer in self._producers):  # noqa: ASYNC110  # as below
                        await anyio.sleep(1)
                    await self._wait_drained()
                    self.over.set()
            if limit.cancelled_caught:
                self.ledger.trouble("hang", "; ".join(f"task {job.number} {job.now}" for job in self.jobs))
            await self._check_left(before)
            self._find_dead_letters()
            if self.ledger.is_calm and any(link.is_faulty and link.is_used for link in self.network.links):
                self.ledger.trouble("error", f"without a fault, a link has ended: {self.network.links}")
            tasks.cancel_scope.cancel()
        self.ledger.close()

    async def _wait_drained(self) -> None:
        """Wait until all queues have been empty for some time, in which what is on its way arrives."""
        empty = 0
        while empty < 5:  # noqa: ASYNC110  # nothing tells when the network is empty
            await anyio.sleep(1)
            broker = self._broker
            left = broker is None or any(broker.depth(queue) or broker.unacknowledged(queue) for queue in QUEUES)
            empty = 0 if left else empty + 1

    async def _check_left(self, tasks_before: int) -> None:
        """No session and no task may be left."""
        sessions, tasks = 1, 1
        with anyio.move_on_after(MOST_SECONDS_LEFT):
            while sessions or tasks:
                await anyio.sleep(1)
                sessions = 0 if self._broker is None else len(self._broker.sessions)
                tasks = len(anyio.get_running_tasks()) - tasks_before
        if sessions or tasks:
            names = [task.name for task in anyio.get_running_tasks()]
            self.ledger.trouble("leaked", f"{sessions} sessions and {tasks} tasks are left: {names}")

    def _find_dead_letters(self) -> None:
        if self._broker is None:
            return
        for message in self._broker.messages(DEAD):
            self.ledger.entry_of(message.body).dead = True

    # --- the broker -----------------------------------------------------------------------------------------------

    def _serve(self, link: Link) -> ClientEnd:
        if self._broker is None or self._sessions is None:
            raise ConnectionRefusedError(111, "Connection refused")
        return serve(link, self.ledger.wrote, self._broker, self._sessions)

    async def _run_broker(  # noqa: ASYNC114  # it is started in a task group only
        self,
        kept: Sequence[tuple[str, bytes, Sequence[tuple[str, str]]]],
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        with anyio.CancelScope() as self._generation:
            async with (
                open_broker(listen=False, options=self._options) as broker,
                anyio.create_task_group() as sessions,
            ):
                for destination, body, headers in kept:
                    broker.publish(destination, body, headers)
                self._broker, self._sessions = broker, sessions
                task_status.started()
                await anyio.sleep_forever()

    async def _restart(self, tasks: anyio.abc.TaskGroup) -> None:
        """Restart the broker, which forgets what is not persistent."""
        broker, self._broker = self._broker, None
        if broker is None or self._generation is None:
            return
        for link in self.network.links:
            link.is_faulty = True
        broker.drop_connections()
        await broker.wait_until(lambda: not broker.sessions)
        kept: list[tuple[str, bytes, Sequence[tuple[str, str]]]] = []
        for destination in (*QUEUES, DEAD):
            for message in broker.messages(destination):
                entry = self.ledger.entry_of(message.body)
                if entry.persistent:
                    kept.append((destination, message.body, list(message.headers.items())))
                else:
                    entry.forgotten = True
        self._generation.cancel()
        await anyio.sleep(self.chance.choice((0.0, 1.0, 10.0)))
        await tasks.start(self._run_broker, kept)

    # --- faults ---------------------------------------------------------------------------------------------------

    async def _strike(self, tasks: anyio.abc.TaskGroup) -> None:
        """Let faults strike for a while."""
        chance = self.chance
        faults: Sequence[Callable[[], Awaitable[None]]] = (
            *[self._cut] * 5,
            self._silence,
            self._slow_down,
            self._refuse,
            self._answer_oddly,
            lambda: self._restart(tasks),
        )
        for _ in range(chance.choice((1, 3, 10))):
            await anyio.sleep(chance.choice((0.05, 0.5, 3.0)) * chance.random())
            await chance.choice(faults)()

    async def _cut(self) -> None:
        chance = self.chance
        for link in self.network.links[-chance.choice((1, 2)) :]:
            size, cut = chance.choice((0, 10, 200, 5000)), chance.choice(list(Cut))
            if size:
                link.break_after(chance.randrange(size), cut, from_client=chance.random() < 0.5)
            else:
                link.break_(cut)
        await checkpoint()

    async def _silence(self) -> None:
        chance = self.chance
        for link in self.network.links[-1:]:
            link.fall_silent_after(chance.randrange(500), from_client=chance.random() < 0.5)
        await checkpoint()

    async def _slow_down(self) -> None:
        for link in self.network.links[-2:]:
            # A side may give it up.
            link.is_faulty = True
            link.rate = self.chance.choice((200, 5000))
        await checkpoint()

    async def _refuse(self) -> None:
        """Let some hosts refuse connections for a while, and perhaps break the links to them."""
        self.network.down = set(self.chance.sample(HOSTS, self.chance.choice((1, 2, 3))))
        for link in self.network.links:
            if link.host in self.network.down and self.chance.random() < 0.5:
                link.break_(Cut.RESET)
        await anyio.sleep(self.chance.choice((0.5, 5)))
        self.network.down.clear()

    async def _answer_oddly(self) -> None:
        """Let the broker answer late, or twice, or refuse a connection."""
        chance = self.chance
        faults: Sequence[Fault] = (
            DelayReceipts(seconds=chance.choice((0.05, 1)), skip=chance.randrange(3), count=chance.choice((1, 3))),
            DuplicateReceipts(count=None),
            AnswerConnect(error="starting"),
        )
        if self._broker is not None:
            fault = chance.choice(faults)
            if isinstance(fault, AnswerConnect):
                self._broker.faults.plan(fault)
            else:
                self._broker.faults.now(fault)
        await checkpoint()

    def _heal(self) -> None:
        self.network.down.clear()
        for link in self.network.links:
            link.heal()
        if self._broker is not None:
            self._broker.faults.clear()


class _Errors(logging.Handler):
    """Notes errors inside of the client, which would otherwise only end a connection."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(logging.ERROR)
        self._ledger = ledger

    def emit(self, record: logging.LogRecord) -> None:
        """Note an error."""
        self._ledger.trouble("error", f"in the client: {record.getMessage()}: {record.exc_info}")


def simulate(seed: int, *, loop: str = "trio") -> Result:
    """Run a seed.

    Args:
        seed: Decides everything.
        loop: The event loop, by name.
    """
    world = World(seed)
    logger, handler = logging.getLogger("trio_stomp"), _Errors(world.ledger)
    level, propagates = logger.level, logger.propagate
    logger.setLevel(logging.ERROR)
    logger.propagate = False
    logger.addHandler(handler)
    # When garbage is collected depends on what ran before, and async generators end when they are.
    gc.disable()
    try:
        with under(world.network.open, world.chance, world.refused):
            loops.run(world.run, seed, loop=loop)
    except Exception as error:  # noqa: BLE001  # whatever the run ends with is its result
        world.ledger.trouble("error", f"the run ended with {error!r}")
    finally:
        gc.enable()
        logger.setLevel(level)
        logger.propagate = propagates
        logger.removeHandler(handler)
    gc.collect()
    if world.clients or world.network.ends:
        left = [*world.clients, *world.network.ends]
        world.ledger.trouble("memory", f"{len(left)} objects are left: {left[:5]}")
    entries = world.ledger.entries
    return Result(
        seed=seed,
        counts=world.ledger.counts,
        troubles=world.ledger.troubles,
        messages=len(entries),
        confirmed=sum(entry.outcome is Outcome.CONFIRMED for entry in entries),
        links=len(world.network.links),
        trace=world.network.trace.hexdigest(),
    )
