"""One run: a crew, a broker, a schedule of faults, and what has to hold when all is over."""

from __future__ import annotations

import gc
import os
import traceback
import uuid
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import trio

import trio_stomp
from tests.chaos.crew import Member, Plant, at_work
from tests.chaos.director import Director, NoRecovery
from tests.chaos.faults import PARTIES, Fault, Kind, Party, kinds_of, plan
from tests.chaos.ledger import Ledger
from tests.chaos.looking import wait_until
from tests.chaos.outcome import Outcome
from tests.chaos.pacer import Pacer
from tests.chaos.victims import BrokerScriptFailed, RealVictim, Victim, open_victim
from tests.chaos.wires import open_wire
from trio_stomp import StompError

__all__ = ["Order", "run"]

# The part of the messages after which the process should have all the memory that it will ever need.
_WARM: Final = 0.4
# What allocators and fragmentation may add to that. What leaked with each message would be more; so would each fault's.
_MOST_GROWTH_BYTES: Final = 16 * 2**20
_SAMPLE_SECONDS: Final = 0.25
# The longest that a broker keeps messages of a client that is gone without a word: heart-beats are of one second.
_QUIET_SECONDS: Final = 4.0
# Nothing moves for so long, and no fault is at work: somebody holds messages back.
_STILL_SECONDS: Final = 20.0
# Brokers that do that, or are suspected of it: docs/reliability.md, under the table.
HOLDS_BACK: Final = frozenset({"artemis", "activemq"})
# Where a broker puts what it gives up delivering, and only ActiveMQ has a place of its own for that.
_DEAD_LETTERS: Final = {"activemq": "/queue/ActiveMQ.DLQ"}
# How long a queue is watched that must be empty.
_EMPTY_SECONDS: Final = 1.5
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_SHOWN: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What to run.

    Attributes:
        broker: Which broker.
        messages: How many to move.
        faults: How many are to strike.
        seed: Decides the schedule.
        deadline: Seconds for all of it.
        only: The kinds of fault to choose from; none: all that the broker can have.
    """

    broker: str
    messages: int
    faults: int
    seed: int
    deadline: float
    only: tuple[Kind, ...] = ()

    @property
    def schedule(self) -> tuple[Fault, ...]:
        """The faults, in order."""
        # Each broker a schedule of its own, out of one seed.
        return plan(self.seed * 1000 + len(self.broker), self.faults, self.only or kinds_of(self.broker))


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * _PAGE_BYTES


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def _watch_memory(ledger: Ledger, outcome: Outcome) -> None:
    """Keep the largest size while warming up, and the newest after."""
    while True:
        resident = _resident_bytes()
        if ledger.distinct < ledger.total * _WARM:
            outcome.warm_bytes = max(outcome.warm_bytes, resident)
        outcome.end_bytes = resident
        await trio.sleep(_SAMPLE_SECONDS)


async def _drain(director: Director, plant: Plant, outcome: Outcome) -> None:
    """Wait until all is handled, and nothing has come for a while: not even what belonged to a half-open link."""
    ledger = plant.ledger
    while not ledger.is_complete:
        before = ledger.handled
        with trio.move_on_after(_STILL_SECONDS):
            await wait_until(lambda: ledger.is_complete, _SAMPLE_SECONDS)
        if not outcome.freed and _stands_still(ledger, before):
            await _free(director, plant, outcome)
    handled = -1
    while handled != ledger.handled:
        handled = ledger.handled
        await trio.sleep(_QUIET_SECONDS)


def _stands_still(ledger: Ledger, before: int) -> bool:
    return ledger.handled == before and not ledger.is_complete


async def _free(director: Director, plant: Plant, outcome: Outcome) -> None:
    """Restart a broker that holds messages back, so that it delivers them.

    First, check that it is the broker: that no client holds a message, that no client has an older connection open, and
    that the broker has sent the missing messages on none of the open connections.
    """
    missing = [number for numbers in plant.ledger.missing().values() for number in numbers]
    for member in plant.members.values():
        for subscription in () if member.client is None else member.client.statistics().subscriptions:
            if subscription.buffered or subscription.unsettled:
                plant.ledger.trouble(f"{member.party} holds messages, and nothing moves: {subscription}")
        if member.wire.open > 1:
            plant.ledger.trouble(f"{member.party} has left {member.wire.open - 1} connections open")
        if member.wire.newest is not None and (given := member.wire.newest.delivered.intersection(missing)):
            plant.ledger.trouble(f"{member.party} was given messages on its connection, and lost them: {sorted(given)}")
    dead = await _dead_lettered(director.victim, plant.ledger, outcome.broker)
    if dead:
        plant.ledger.trouble(f"dead-lettered by the broker: {sorted(dead)}")
    plant.ledger.phase += 1
    await director.restart()
    outcome.freed = len(missing)


async def _dead_lettered(victim: Victim, ledger: Ledger, broker: str) -> set[int]:
    """The numbers of the messages that the broker has given up delivering, for brokers that keep those."""
    queue = _DEAD_LETTERS.get(broker)
    found: set[int] = set()
    if queue is None:
        return found
    async with (
        trio_stomp.connect(f"stomp://guest:guest@127.0.0.1:{victim.port}") as client,
        client.subscribe(queue, ack="auto", browse=True) as subscription,
    ):
        async for message in subscription:
            found.update(int(number) for number in ledger.mark.findall(message.body))
    return found


async def _left_over(victim: Victim, queue: str) -> int:
    """How many messages the broker still has, although each was acknowledged."""
    left = 0
    async with (
        trio_stomp.connect(f"stomp://guest:guest@127.0.0.1:{victim.port}") as client,
        client.subscribe(queue, ack="auto") as subscription,
    ):
        with trio.move_on_after(_EMPTY_SECONDS):
            async for _message in subscription:
                left += 1
    return left


async def _watch_clock(order: Order, director: Director, plant: Plant, scope: trio.CancelScope) -> None:
    """Nothing may hang: past the deadline, say how things are, and end it."""
    await trio.sleep(order.deadline)
    plant.ledger.trouble(f"not over after {order.deadline:g} s")
    _explain(order, director, plant)
    scope.cancel()


def _explain(order: Order, director: Director, plant: Plant) -> None:
    """Note what is missing, since which fault, and how everybody is."""
    ledger = plant.ledger
    schedule = {fault.number: str(fault) for fault in order.schedule}
    so_far = f"sent {ledger.sent}, confirmed {ledger.confirmed}, handled {ledger.distinct} of {ledger.total}"
    ledger.trouble(f"seed {order.seed}, at {director.present}: {so_far}")
    for phase, numbers in ledger.missing().items():
        since = schedule.get(phase, director.present)
        ledger.trouble(f"{len(numbers)} confirmed and not handled, sent since {since}: {numbers[:_SHOWN]}")
    unconfirmed = ledger.unconfirmed()
    if unconfirmed:
        ledger.trouble(f"{len(unconfirmed)} sent and not confirmed: {unconfirmed[:_SHOWN]}")
    for member in plant.members.values():
        if member.client is not None:
            ledger.trouble(f"{member.party}: {member.client.state}; {member.client.statistics()}")


async def run(order: Order) -> Outcome:
    """Run a scenario.

    Returns:
        What came out; its troubles tell whether all was well.
    """
    outcome = Outcome(broker=order.broker, seed=order.seed, messages=order.messages, faults=order.faults)
    ledger = Ledger(uuid.uuid4().hex[:8], order.messages)
    queue = f"/queue/chaos.{ledger.run}"
    began = trio.current_time()
    tasks = trio.lowlevel.current_statistics().tasks_living
    files = _open_files()
    async with open_victim(order.broker) as victim:
        await _operate(order, victim, queue, ledger, outcome)
        if ledger.is_complete:
            left = await _left_over(victim, queue)
            if left:
                ledger.trouble(f"{left} messages are left in the queue, although all were acknowledged")
            if isinstance(victim, RealVictim):
                await victim.forget(queue)
    if outcome.freed and order.broker not in HOLDS_BACK:
        ledger.trouble(f"the broker held back {outcome.freed} messages until it was restarted")
    outcome.seconds = trio.current_time() - began
    outcome.troubles = ledger.troubles
    # Trio's thread cache and wake-up socket were there before; a cycle may still hold a socket.
    gc.collect()
    if (now := trio.lowlevel.current_statistics().tasks_living) > tasks:
        ledger.trouble(f"{now - tasks} tasks are left")
    if (now := _open_files()) > files:
        ledger.trouble(f"{now - files} files or sockets are left open")
    if ledger.is_complete and outcome.end_bytes - outcome.warm_bytes > _MOST_GROWTH_BYTES:
        ledger.trouble(f"memory has grown from {outcome.warm_bytes} bytes to {outcome.end_bytes}")
    return outcome


async def _operate(order: Order, victim: Victim, queue: str, ledger: Ledger, outcome: Outcome) -> None:
    faults = order.schedule
    async with AsyncExitStack() as stack:
        members: dict[Party, Member] = {}
        for party in PARTIES:
            wire = await stack.enter_async_context(open_wire("127.0.0.1", victim.port, ports=2, mark=ledger.mark))
            members[party] = Member(party=party, wire=wire)
        pacer = Pacer(ledger, len(faults) + 1)
        plant = Plant(queue=queue, ledger=ledger, pacer=pacer, members=members)
        director = Director(plant, victim, faults)
        try:
            async with trio.open_nursery() as watch:
                watch.start_soon(_watch_memory, ledger, outcome)
                watch.start_soon(_watch_clock, order, director, plant, watch.cancel_scope)
                async with trio.open_nursery() as crew:
                    for member in members.values():
                        crew.start_soon(at_work, plant, member)
                    try:
                        await director.run()
                        await _drain(director, plant, outcome)
                    except NoRecovery:
                        _explain(order, director, plant)
                        raise
                    plant.closing.set()
                watch.cancel_scope.cancel()
        except* (StompError, NoRecovery, BrokerScriptFailed) as failed:
            # A client that gave up, or that did not come back, has ended the run.
            ledger.trouble("".join(traceback.format_exception(failed)))
        director.account()
    outcome.rows = list(director.rows.values())
    for member in members.values():
        if member.client is not None:
            outcome.server = member.client.server or "?"
        if member.last is not None:
            outcome.resent += member.last.resent
            outcome.stale += member.last.stale_messages
