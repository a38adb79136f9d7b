"""A long run of the streaming source, with random kills: ``make spark-soak``. Prints what is lost and doubled.

A sender puts numbers into a queue of a private broker. Receivers on the executors of Spark take them into a spool, and
a query writes them to a table. Meanwhile receivers, executors, planner, driver and broker are killed, and all links
are cut, at random moments. With the spool on S3, the store refuses and is slow, too. The sender has a link of its own,
and rests while the broker is down, so it sends each number once: each copy in the table is the fault of the source. The
queue and the spool stay short, and the table is counted while it grows.
"""

from __future__ import annotations

import argparse
import enum
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final

import trio
from pipeline.faulty_proxy import FaultyProxy, open_faulty_proxy

import trio_stomp
from tests.chaos.victims import EMBEDDED, VICTIMS, Victim, open_victim, real_brokers
from tests.crashes.soak_table import SoakTable
from tests.spark.s3_server import S3Proxy, run_s3_server
from trio_stomp import OutgoingMessage
from trio_stomp.spark import ReceiverState, SpoolError, SpoolStatus, status
from trio_stomp.spark.spool_store import SpoolLocation

__all__ = ["Kill", "Outcome", "main", "plan"]

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = ROOT / "build" / "spark-soak"
CLUSTER: Final = ROOT / "scripts" / "spark-cluster"
# Not that of `make pipeline` and the benchmarks.
PORT: Final = 44713
# How far the sender may be ahead of the table.
WINDOW: Final = 50_000
CHUNK: Final = 500
SPOOL_BYTES: Final = 200 * 2**20
# A victim that is just starting is waited for.
VICTIM_SECONDS: Final = 180.0
# After the last number has come, copies may still: RabbitMQ has delivered some again after 20 seconds.
SETTLE_SECONDS: Final = 30.0
# Without a new row for so long, with nothing left to kill, rows are lost.
STALL_SECONDS: Final = 300.0
# The longest time for which the object store refuses, or is slow.
STORE_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 0.5
_TELL_SECONDS: Final = 15.0
_MEBIBYTE: Final = 2**20


class Kill(enum.StrEnum):
    """What happens; the values are what the table calls it."""

    RECEIVER = "receiver process killed"
    LINKS = "all links cut"
    EXECUTOR = "executor killed, with its receivers"
    DRIVER = "driver killed, with its JVM and planner"
    PLANNER = "planner process killed"
    BROKER = "broker killed (-9), started again"
    REFUSED = "object store refuses segments for a while"
    SLOW = "object store takes segments only after a while"


# What needs a spool on S3.
_STORE: Final = (Kill.REFUSED, Kill.SLOW)
_WEIGHTS: Final[Mapping[Kill, float]] = {
    Kill.RECEIVER: 40,
    Kill.LINKS: 27,
    Kill.EXECUTOR: 12,
    Kill.DRIVER: 7,
    Kill.PLANNER: 8,
    Kill.BROKER: 6,
    Kill.REFUSED: 10,
    Kill.SLOW: 10,
}


def plan(seed: int, count: int, total: int, among: Sequence[Kill]) -> list[tuple[int, Kill]]:
    """What is killed, and at how many rows in the table: each kind in proportion, in random order, at random moments.

    Args:
        seed: Decides everything.
        count: How many kills.
        total: How many rows the table will have.
        among: The kinds.
    """
    chance = random.Random(seed)  # noqa: S311  # not a secret
    kinds = list(among[:count])
    kinds += chance.choices(among, [_WEIGHTS[each] for each in among], k=count - len(kinds))
    chance.shuffle(kinds)
    # Spark itself cannot continue if it dies in the first batch of all.
    moments = sorted(chance.randint(total // 50, total * 49 // 50) for _ in kinds)
    return list(zip(moments, kinds, strict=True))


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What a run has shown.

    Attributes:
        broker: The broker.
        receivers: How many receivers there were.
        spool: Where the spool was: ``local`` or ``s3``.
        master: Where Spark ran: ``cluster`` or ``local``.
        seed: The seed of the kills.
        sent: Messages that the broker has confirmed.
        different: Different ones of them in the table.
        doubled: Rows that are copies.
        strange: Rows that were not sent.
        left: Messages still in the queue.
        kills: What was killed, and how often.
        starts: How often the job was started.
        failures: Why queries and jobs failed that were not killed.
        seconds: How long it took.
        spool_bytes: The largest size of the spool that was seen.
        planner_bytes: The most memory that a planner had.
    """

    broker: str
    receivers: int
    spool: str
    master: str
    seed: int
    sent: int = 0
    different: int = 0
    doubled: int = 0
    strange: int = 0
    left: int = 0
    kills: Counter[Kill] = field(default_factory=Counter[Kill])
    starts: int = 0
    failures: list[str] = field(default_factory=list[str])
    seconds: float = 0.0
    spool_bytes: int = 0
    planner_bytes: int = 0

    @property
    def is_good(self) -> bool:
        """Whether each message is in the table once."""
        return self.sent == self.different and not (self.doubled or self.strange or self.left)

    def lines(self) -> Iterator[str]:
        """The table."""
        where = f"{self.receivers} receivers on executors ({self.master}), spool: {self.spool}"
        yield f"{self.broker}, {where}, seed {self.seed}"
        rows: list[tuple[str, int]] = [
            ("sent", self.sent),
            ("in the table", self.different),
            ("lost", self.sent - self.different),
            ("doubled", self.doubled),
            ("never sent", self.strange),
            ("left in the queue", self.left),
            ("kills", self.kills.total()),
            *((f"  {kind}", self.kills[kind]) for kind in Kill if self.kills[kind]),
            ("starts of the job", self.starts),
            ("failures of queries and jobs", len(self.failures)),
            ("largest spool, MiB", self.spool_bytes // _MEBIBYTE),
            ("largest planner, MiB", self.planner_bytes // _MEBIBYTE),
            ("minutes", round(self.seconds / 60)),
        ]
        yield from (f"  {name:44}{value:12,}" for name, value in rows)


# --- processes --------------------------------------------------------------------------------------------------------


def command_line(pid: int) -> str:
    """The command line of a process; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""


def parent_of(pid: int) -> int:
    """The parent of a process; 0 if it has ended."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[1])
    except OSError:
        return 0


def runs_below(pid: int, ancestors: set[int]) -> bool:
    """Whether a process is a descendant of one of these: a pid in a file may be that of another process by now."""
    while pid > 1:
        if pid in ancestors:
            return True
        pid = parent_of(pid)
    return False


def peak_bytes(pid: int) -> int:
    """The most memory that a process has had."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text("utf-8").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)


# --- the cluster ------------------------------------------------------------------------------------------------------


async def cluster(action: str) -> str:
    """Run an action of scripts/spark-cluster; returns what it says."""
    environment = {**os.environ, "PORT": str(PORT), "CORES": "3"}
    done = await trio.run_process(
        [sys.executable, str(CLUSTER), action], env=environment, capture_stdout=True, capture_stderr=True, check=False
    )
    return (done.stdout + done.stderr).decode()


async def members() -> set[int]:
    """The processes of the cluster."""
    words = (await cluster("status")).split()
    return {int(pid) for word, pid in pairwise(words) if word == "pid" and pid.isdigit()}


# --- the job ----------------------------------------------------------------------------------------------------------


class Job:
    """The Spark job, which is started again until it is told to stop.

    Args:
        folder: The folder of the run.
        options: The options of the source.
        outcome: What is noted about it.
    """

    def __init__(self, folder: Path, options: Mapping[str, str], outcome: Outcome) -> None:
        self._folder = folder
        self._options = options
        self._outcome = outcome
        self._process: trio.Process | None = None
        self.stage = "starting"

    async def run(self) -> None:
        """Run it until it is done.

        Cancellation: it is killed.
        """
        while self.stage != "done":
            await self._run_once()

    async def _run_once(self) -> None:
        self._outcome.starts += 1
        self.stage = "starting"
        receivers = self._outcome.receivers
        is_local = self._outcome.master == "local"
        master = f"local[{receivers + 2},4]" if is_local else f"spark://127.0.0.1:{PORT}"
        arguments = [master, str(self._folder), str(receivers)]
        command = [sys.executable, "-m", "tests.crashes.soak_job", *arguments, json.dumps(dict(self._options))]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}
        with (self._folder / "job.log").open("ab") as log:
            process = await trio.lowlevel.open_process(
                command, stdout=subprocess.PIPE, stderr=log, env=environment, cwd=ROOT, start_new_session=True
            )
        self._process = process
        try:
            await self._listen(process)
            code = await process.wait()
        finally:
            self._process = None
            self._kill_group(process.pid)
            with trio.CancelScope(shield=True):
                await process.wait()
        if code not in (0, -signal.SIGKILL):
            self._outcome.failures.append(f"the job ended with status {code}")

    async def _listen(self, process: trio.Process) -> None:
        assert process.stdout is not None
        rest = b""
        async with process.stdout as output:
            async for data in output:
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self._hear(line)

    def _hear(self, line: bytes) -> None:
        match json.loads(line):
            case {"stage": str(stage), **more}:
                self.stage = stage
                if "reason" in more:
                    self._outcome.failures.append(str(more["reason"]))
            case _:
                raise AssertionError(line)

    @staticmethod
    def _kill_group(leader: int) -> bool:
        try:
            os.killpg(leader, signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True

    def kill(self) -> bool:
        """Kill the driver, its JVM, and what the JVM has started; the executors live on for a moment."""
        return self._process is not None and self._kill_group(self._process.pid)

    def processes(self) -> set[int]:
        """Its first process, the driver."""
        return set() if self._process is None else {self._process.pid}

    def planner(self) -> int | None:
        """The process that plans the batches."""
        for entry in Path("/proc").iterdir():
            pid = int(entry.name) if entry.name.isdigit() else 0
            if "streaming_source_runner" in command_line(pid) and runs_below(pid, self.processes()):
                return pid
        return None


# --- the run ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class Soak:
    """A run."""

    total: int
    minutes: float
    chance: random.Random
    outcome: Outcome
    queue: str
    folder: Path
    spool: SpoolLocation
    store: S3Proxy | None
    victim: Victim
    proxy: FaultyProxy
    job: Job
    table: SoakTable
    # Held while a chunk is sent, and while the broker is down.
    gate: trio.Lock = field(default_factory=trio.Lock)
    is_sent: bool = False
    is_killed: bool = False

    @property
    def url(self) -> str:
        """The broker, without the proxy."""
        return f"stomp://guest:guest@127.0.0.1:{self.victim.port}"

    async def run(self, kills: Sequence[tuple[int, Kill]]) -> None:
        """Send, kill and count until everything has come."""
        begun = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._send, begun + 60 * self.minutes)
            nursery.start_soon(self._kill_all, kills)
            nursery.start_soon(self._tell, begun)
            nursery.start_soon(self._stop_at_the_end)
            await self.job.run()
            nursery.cancel_scope.cancel()
        self._count()
        self.outcome.left = await self._count_left()
        self.outcome.seconds = trio.current_time() - begun
        notes = {
            "missing": self.table.missing(self.outcome.sent),
            "repeated": self.table.repeated(),
            "failures": self.outcome.failures,
        }
        (self.folder / "outcome.json").write_text(json.dumps(notes), "utf-8")

    async def _send(self, until: float) -> None:
        policy = trio_stomp.Reconnect(max_delay=1)
        async with trio_stomp.connect(self.url, reconnect=policy) as client:
            for start in range(0, self.total, CHUNK):
                while self._is_far_ahead() and trio.current_time() <= until:  # noqa: ASYNC110  # as below
                    await trio.sleep(_LOOK_SECONDS / 5)
                if trio.current_time() > until:
                    break
                numbers = range(start, min(start + CHUNK, self.total))
                async with self.gate, client.publisher() as publisher:
                    await publisher.send_many([self._message(client, each) for each in numbers])
                self.outcome.sent += len(numbers)
        self.is_sent = True

    def _is_far_ahead(self) -> bool:
        return self.outcome.sent - self.table.different > WINDOW

    def _never_comes(self, moment: int) -> bool:
        """Whether the sender ran out of time before it had sent so many messages."""
        return self.is_sent and self.outcome.sent < moment

    def _message(self, client: trio_stomp.Client, number: int) -> OutgoingMessage:
        headers = [*client.profile.stable_id(f"{self.queue}-{number}"), ("persistent", "true")]
        return OutgoingMessage(self.queue, str(number), headers=headers)

    async def _kill_all(self, kills: Sequence[tuple[int, Kill]]) -> None:
        for moment, kill in kills:
            # The table is read periodically, so there is no event to wait for.
            while self.table.different < moment and not self._never_comes(moment):  # noqa: ASYNC110
                await trio.sleep(self.chance.uniform(0.05, 0.2))
            if self.table.different < moment:
                break
            if await self._do(kill):
                self.outcome.kills[kill] += 1
                say(f"{self.outcome.kills.total():4}. {kill}, at {self.table.different:,} rows")
            else:
                say(f"      {kill}: there was none to kill")
        self.is_killed = True

    async def _do(self, kill: Kill) -> bool:
        with trio.move_on_after(VICTIM_SECONDS):
            while not await self._try(kill):  # noqa: ASYNC110  # processes come without an event
                await trio.sleep(_LOOK_SECONDS)
            return True
        return False

    async def _try(self, kill: Kill) -> bool:
        deeds: dict[Kill, Callable[[], Awaitable[bool]]] = {
            Kill.RECEIVER: self._kill_receiver,
            Kill.LINKS: self._cut_links,
            Kill.EXECUTOR: self._kill_executor,
            Kill.DRIVER: self._kill_driver,
            Kill.PLANNER: self._kill_planner,
            Kill.BROKER: self._kill_broker,
            Kill.REFUSED: self._have_the_store_refuse,
            Kill.SLOW: self._slow_the_store_down,
        }
        return await deeds[kill]()

    async def _cut_links(self) -> bool:
        await trio.lowlevel.checkpoint()
        return self.proxy.cut_all() > 0

    async def _kill_executor(self) -> bool:
        return "killed" in await cluster("kill-executor")

    async def _kill_driver(self) -> bool:
        await trio.lowlevel.checkpoint()
        return self.job.stage == "flowing" and self.job.kill()

    async def _kill_planner(self) -> bool:
        await trio.lowlevel.checkpoint()
        return killed(self.job.planner())

    async def _have_the_store_refuse(self) -> bool:
        assert self.store is not None
        self.store.refuses = True
        await trio.sleep(self.chance.uniform(1, STORE_SECONDS))
        self.store.refuses = False
        return True

    async def _slow_the_store_down(self) -> bool:
        assert self.store is not None
        self.store.is_open.clear()
        await trio.sleep(self.chance.uniform(1, STORE_SECONDS))
        self.store.is_open.set()
        return True

    async def _kill_broker(self) -> bool:
        async with self.gate:
            await self.victim.kill()
            await trio.sleep(self.chance.uniform(0, 3))
            await self.victim.start()
        return True

    async def _kill_receiver(self) -> bool:
        own = self.job.processes()
        if self.outcome.master == "cluster":
            own |= await members()
        try:
            found = await self._spool_status()
        except SpoolError:
            return False
        receivers = [each for destination in found.destinations for each in destination.receivers]
        states = {ReceiverState.RECEIVING, ReceiverState.IDLE, ReceiverState.FULL, ReceiverState.CONNECTING}
        pids = [each.pid for each in receivers if each.state in states and not each.is_over()]
        pids = [pid for pid in pids if runs_below(pid, own)]
        return killed(self.chance.choice(pids) if pids else None)

    def _count(self) -> None:
        self.table.read_new()
        self.outcome.different, self.outcome.doubled = self.table.different, self.table.doubled
        self.outcome.strange = self.table.strange

    async def _spool_status(self) -> SpoolStatus:
        return await trio.to_thread.run_sync(status, self.spool.uri, dict(self.spool.settings))

    async def _tell(self, begun: float) -> None:
        outcome = self.outcome
        told = begun - _TELL_SECONDS
        while True:
            self._count()
            now = trio.current_time()
            if now - told > _TELL_SECONDS:
                told = now
                await self._weigh()
                if self.store is not None:
                    # It notes each request.
                    self.store.writes.clear()
                where = f"{outcome.sent:10,} sent {outcome.different:10,} in the table {outcome.doubled:6,} doubled"
                say(f"{now - begun:6.0f} s  {self.job.stage:12} {where}")
            await trio.sleep(_LOOK_SECONDS)

    async def _weigh(self) -> None:
        try:
            found = await self._spool_status()
            self.outcome.spool_bytes = max(self.outcome.spool_bytes, found.size)
        except SpoolError:
            say("      the spool cannot be read just now")
        if (planner := self.job.planner()) is not None:
            self.outcome.planner_bytes = max(self.outcome.planner_bytes, peak_bytes(planner))

    async def _stop_at_the_end(self) -> None:
        seen, since = 0, trio.current_time()
        while True:
            await trio.sleep(_LOOK_SECONDS)
            now = trio.current_time()
            # Copies may still come, so the query must have run all the time.
            is_quiet = self.is_sent and self.is_killed and self.job.stage == "flowing"
            if self.table.rows != seen or not is_quiet:
                seen, since = self.table.rows, now
            is_all = self.table.different == self.outcome.sent and await self._is_spool_empty()
            if now - since > (SETTLE_SECONDS if is_all else STALL_SECONDS):
                (self.folder / "stop").touch()
                return

    async def _is_spool_empty(self) -> bool:
        try:
            return (await self._spool_status()).rows == 0
        except SpoolError:
            return False

    async def _count_left(self) -> int:
        left = 0
        async with trio_stomp.connect(self.url) as client, client.subscribe(self.queue, prefetch=1000) as rest:
            while True:
                batch: list[trio_stomp.Message] = []
                with trio.move_on_after(SETTLE_SECONDS / 3):
                    batch = await rest.receive_batch(1000)
                if not batch:
                    return left
                left += len(batch)
                for message in batch:
                    await message.ack()


def killed(pid: int | None) -> bool:
    """Kill a process; returns whether there was one."""
    if pid is None:
        return False
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def say(text: str) -> None:
    """Print a line at once: the run is long."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def source_options(port: int, queue: str, spool: SpoolLocation) -> dict[str, str]:
    """The options of the source."""
    return {
        "brokers": f"127.0.0.1:{port}",
        "login": "guest",
        "password": "guest",
        "subscribe": queue,
        "spoolLocation": spool.uri,
        "spoolOptions": json.dumps(dict(spool.settings)),
        "prefetch": "2000",
        "maxOffsetsPerTrigger": "20000",
        "maxSpoolBytes": str(SPOOL_BYTES),
    }


@contextmanager
def open_spool(where: str, folder: Path) -> Generator[tuple[SpoolLocation, S3Proxy | None]]:
    """The spool of a run, for the length of a block, and the proxy of its store, if it is S3."""
    if where == "local":
        yield SpoolLocation.of(str(folder / "spool"), ()), None
        return
    with run_s3_server() as s3:
        yield s3.location(f"spool-{folder.name}"), s3


async def soak(outcome: Outcome, messages: int, kills: Sequence[tuple[int, Kill]], minutes: float) -> None:
    """Start everything, run, and stop everything."""
    run = f"{outcome.broker}-{outcome.seed}"
    folder = FOLDER / run
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    queue = f"/queue/soak-{run}-{os.getpid()}"
    if outcome.master == "cluster":
        said = await cluster("start")
        if not await members():
            raise SystemExit(f"the cluster does not start: {said}")
    try:
        with open_spool(outcome.spool, folder) as (spool, store):
            async with open_victim(outcome.broker) as victim, open_faulty_proxy("127.0.0.1", victim.port) as proxy:
                whole = Soak(
                    total=messages,
                    minutes=minutes,
                    chance=random.Random(outcome.seed),  # noqa: S311  # not a secret
                    outcome=outcome,
                    queue=queue,
                    folder=folder,
                    spool=spool,
                    store=store,
                    victim=victim,
                    proxy=proxy,
                    job=Job(folder, source_options(proxy.port, queue, spool), outcome),
                    table=SoakTable(folder / "table", messages),
                )
                await whole.run(kills)
    finally:
        with trio.CancelScope(shield=True):
            if outcome.master == "cluster":
                await cluster("stop")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; returns 0 if each message is in the table once."""
    parser = argparse.ArgumentParser(prog="make spark-soak", description=__doc__)
    add = parser.add_argument
    add("broker", nargs="?", default="rabbitmq", choices=VICTIMS, help="a private one is started; default: rabbitmq")
    add("--messages", type=int, default=1_000_000)
    add("--kills", type=int, default=100)
    add("--receivers", type=int, default=4, help="on executors")
    add("--master", default="cluster", choices=["cluster", "local"], help="local: one JVM has all; default: cluster")
    add("--spool", default="local", choices=["local", "s3"], help="s3: the server of moto; default: local")
    add("--only", nargs="+", choices=[each.name.lower() for each in Kill], help="kinds of kills; default: all")
    add("--seed", type=int, help="of the kills; default: another one each time")
    add("--minutes", type=float, default=24 * 60.0, help="send no more after this time, and judge what was sent")
    given = parser.parse_args(arguments)
    # A run in the background is ended by SIGTERM, and stops its broker and its cluster too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    seed = random.SystemRandom().randrange(1, 100_000) if given.seed is None else int(given.seed)
    outcome = Outcome(
        broker=str(given.broker),
        receivers=int(given.receivers),
        spool=str(given.spool),
        master=str(given.master),
        seed=seed,
    )
    missing = {*(() if outcome.spool == "s3" else _STORE), *(() if outcome.master == "cluster" else [Kill.EXECUTOR])}
    if given.only and (strange := [name for name in given.only if Kill[name.upper()] in missing]):
        parser.error(f"{strange[0]!r} is not possible with --master {outcome.master} --spool {outcome.spool}")
    names: list[str] = given.only or [each.name.lower() for each in Kill if each not in missing]
    messages = int(given.messages)
    kills = plan(seed, int(given.kills), messages, [Kill[name.upper()] for name in names])
    with real_brokers([] if outcome.broker == EMBEDDED else [outcome.broker]):
        trio.run(soak, outcome, messages, kills, float(given.minutes))
    for line in outcome.lines():
        say(line)
    return 0 if outcome.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
