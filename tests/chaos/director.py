"""Lets the faults of a schedule happen, one after the other, and waits each time until all is well again."""

from __future__ import annotations

import functools
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import trio

from tests.chaos.crew import HEADERS, PUBLISHERS, Member, Plant
from tests.chaos.faults import PARTIES, Fault, Kind, Party
from tests.chaos.looking import wait_until
from tests.chaos.outcome import Row
from tests.chaos.victims import EmbeddedVictim, Victim
from tests.chaos.wires import Befalls, Toward, Trap
from trio_stomp import PoisonMessage
from trio_stomp.testing import AnswerConnect, Broker, RefuseConnection, StallReading, StallWriting, SwallowReceipts
from trio_stomp.types import Command

__all__ = ["CALM", "Director", "NoRecovery"]

logger: Final = logging.getLogger("tests.chaos")

# What the table calls the time before the first fault.
CALM: Final = "before the first"
# A trap that counts bytes is sprung after this, however few have passed.
_TRAP_SECONDS: Final = 5.0
# Heart-beats are of one second here: a client bears 2.5 seconds of silence, brokers between 1.5 and 3.
_STALL_SECONDS: Final = 1.2
_LONG_STALL_SECONDS: Final = 5.0
_SLOW_SECONDS: Final = 3.0
_SLOW_BYTES_PER_SECOND: Final = 1024
_ALARM_SECONDS: Final = 3.0
_DOWN_SECONDS: Final = 0.5
_REFUSING_SECONDS: Final = 1.5
_RECOVERY_SECONDS: Final = 60.0
# The part of its share that is handled before a fault strikes, however much was borrowed from it.
_LEAST_PART: Final = 0.1

_MOVES: Final = frozenset({Kind.MOVE, Kind.MOVE_CUT})
_HOLDS: Final = {Kind.STALL: _STALL_SECONDS, Kind.LONG_STALL: _LONG_STALL_SECONDS}
_TRAPS: Final[dict[Kind, tuple[Befalls, Toward]]] = {
    Kind.RESET_UP: (Befalls.RESET, Toward.BROKER),
    Kind.RESET_DOWN: (Befalls.RESET, Toward.CLIENT),
    Kind.END_UP: (Befalls.END, Toward.BROKER),
    Kind.END_DOWN: (Befalls.END, Toward.CLIENT),
    Kind.SILENCE: (Befalls.SILENCE, Toward.BROKER),
    Kind.BROKER_GONE: (Befalls.BROKER_GONE, Toward.BROKER),
    Kind.CLIENT_GONE: (Befalls.CLIENT_GONE, Toward.CLIENT),
    Kind.DEAF_BROKER: (Befalls.DEAF_BROKER, Toward.BROKER),
    Kind.DEAF_CLIENT: (Befalls.DEAF_CLIENT, Toward.CLIENT),
    Kind.RESET_AGAIN: (Befalls.RESET, Toward.BROKER),
    Kind.SILENCE_AGAIN: (Befalls.SILENCE, Toward.BROKER),
}


class NoRecovery(AssertionError):
    """After a fault somebody did not come back."""


async def _slowest(strike: Callable[[Member], Awaitable[float]], members: Sequence[Member]) -> float:
    """Strike all members at once; returns the seconds of the slowest recovery."""
    seconds: list[float] = []

    async def one(member: Member) -> None:
        seconds.append(await strike(member))

    async with trio.open_nursery() as nursery:
        for member in members:
            nursery.start_soon(one, member)
    return max(seconds, default=0.0)


class Director:
    """Runs a schedule against a plant and its broker.

    Args:
        plant: Who works.
        victim: The broker.
        faults: The schedule.

    Attributes:
        victim: The broker.
        rows: What happened, by kind of fault.
        present: What is happening now, for whoever has to explain a failure.
    """

    def __init__(self, plant: Plant, victim: Victim, faults: Sequence[Fault]) -> None:
        self._plant = plant
        self.victim = victim
        self._faults = faults
        self.rows: dict[str, Row] = {}
        self.present = CALM
        self._name = CALM
        self._seen = Row(fault="")

    async def run(self) -> None:
        """Let everything happen; returns when the last fault is recovered from and the last share is open.

        Raises:
            NoRecovery: Somebody did not come back.
        """
        pacer, ledger = self._plant.pacer, self._plant.ledger
        for fault in self._faults:
            share = pacer.open_share(fault.number - 1)
            # What is left of earlier shares goes first; at least some of this one, though it may be borrowed from.
            goal = max(share.start + fault.after * len(share), ledger.distinct + _LEAST_PART * len(share))
            await wait_until(functools.partial(self._has_handled, goal))
            self.account()
            pacer.spread()
            ledger.phase = fault.number
            self._name, self.present = fault.kind, str(fault)
            logger.info("fault %s", fault)
            seconds = await self._strike(fault)
            logger.info("fault %d is recovered from after %.2f s", fault.number, seconds)
            self._row.add(Row(fault="", times=1, recovery=seconds))
        pacer.open_share(len(self._faults))

    def _has_handled(self, goal: float) -> bool:
        return self._plant.ledger.distinct >= goal or self._plant.pacer.is_done

    @property
    def _row(self) -> Row:
        return self.rows.setdefault(self._name, Row(fault=self._name))

    def account(self) -> None:
        """Put what has happened since last time into the row of the kind of fault that struck last."""
        ledger = self._plant.ledger
        now = Row(
            fault="",
            sent=ledger.sent,
            confirmed=ledger.confirmed,
            handled=ledger.handled,
            duplicates=ledger.duplicates,
            reconnections=sum(member.reconnections for member in self._plant.members.values()),
            moves=sum(member.moves for member in self._plant.members.values()),
        )
        self._row.add(now, since=self._seen)
        self._seen = now

    async def restart(self) -> None:
        """Stop the broker and start it again; returns when everybody is back."""
        before = {member.party: member.reconnections for member in self._everybody}
        await self._outage(self.victim.stop)
        for member in self._everybody:
            with trio.fail_after(_RECOVERY_SECONDS):
                await wait_until(functools.partial(self._is_back, member, before[member.party]))

    @staticmethod
    def _is_back(member: Member, beyond: int) -> bool:
        return member.healthy and member.reconnections > beyond

    # --- faults -----------------------------------------------------------------------------------------------------

    async def _strike(self, fault: Fault) -> float:
        """Let a fault happen; returns the seconds of the slowest recovery."""
        members = [self._plant.members[party] for party in fault.parties]
        if fault.kind in _TRAPS:
            return await self._trap(fault, members)
        if fault.kind in _MOVES:
            return await self._move(fault, members)
        if fault.kind in _HOLDS:
            return await self._hold(members, _HOLDS[fault.kind])
        if fault.kind in (Kind.SLOW, Kind.POISON):
            return await (self._slow(members) if fault.kind is Kind.SLOW else self._poison(fault, members))
        before = {member.party: member.reconnections for member in self._everybody}
        match fault.kind:
            case Kind.ALARM:
                await self._alarm()
                # Nobody's link is lost by it.
                return await self._all_back(self._everybody)
            case Kind.STARTING:
                await self._refuse_for_a_while()
            case Kind.RESTART:
                await self._outage(self.victim.stop)
            case Kind.KILL:
                await self._outage(self.victim.kill)
            case _:
                assert isinstance(self.victim, EmbeddedVictim)
                await self._misbehave(fault, self.victim.broker)
        return await self._all_back(self._everybody, before)

    @property
    def _everybody(self) -> list[Member]:
        return [self._plant.members[party] for party in PARTIES]

    async def _trap(self, fault: Fault, members: Sequence[Member]) -> float:
        async def one(member: Member) -> float:
            before = member.reconnections
            what, toward = _TRAPS[fault.kind]
            traps = [Trap(what, toward, fault.after_bytes)]
            traps += [Trap(what, Toward.BROKER if count % 2 else Toward.CLIENT, count) for count in fault.again]
            member.wire.following += traps[1:]
            member.wire.set_trap(traps[0])
            for trap in traps:
                await self._spring(trap, member)
            return await self._back(member, beyond=before)

        return await _slowest(one, members)

    async def _move(self, fault: Fault, members: Sequence[Member]) -> float:
        """Have members fail over to their other port, and fail back to the first; both while they work."""

        async def one(member: Member) -> float:
            wire = member.wire
            preferred, other = wire.ports
            wire.shut(preferred)
            away = Trap(Befalls.END if fault.after_bytes % 2 else Befalls.RESET, Toward.BROKER, fault.after_bytes)
            wire.set_trap(away)
            await self._spring(away, member)
            await self._works(member, lambda: member.is_at(other))
            # What follows is the connection to move to.
            cuts = [Trap(Befalls.RESET, Toward.BROKER if count % 2 else Toward.CLIENT, count) for count in fault.again]
            wire.following += cuts
            wire.reopen(preferred)
            for cut in cuts:
                await self._spring(cut, member)
            return await self._works(member, lambda: member.is_at(preferred))

        return await _slowest(one, members)

    async def _spring(self, trap: Trap, member: Member) -> None:
        """Wait for a trap to spring; help it where too little passes.

        Raises:
            NoRecovery: No connection comes that it could befall.
        """
        with trio.move_on_after(_TRAP_SECONDS):
            await trap.sprung.wait()
        with trio.move_on_after(_RECOVERY_SECONDS):
            await wait_until(lambda: trap is member.wire.trap or trap.sprung.is_set())
            if not trap.sprung.is_set():
                member.wire.spring()
            return
        raise NoRecovery(f"{member.party}: no further connection within {_RECOVERY_SECONDS:g} s of {self.present}")

    async def _poison(self, fault: Fault, members: Sequence[Member]) -> float:
        """Send a message at which the wire ends each connection: it fails alone, while all others are confirmed."""
        publishers = [member for member in members if member.party in PUBLISHERS] or [self._plant.members[Party.WINDOW]]

        async def one(member: Member) -> None:
            assert member.client is not None
            member.wire.at_poison = Befalls.END if fault.after_bytes % 2 else Befalls.RESET
            member.wire.poison = b"poison %d" % fault.number
            with trio.move_on_after(_RECOVERY_SECONDS):
                try:
                    await member.client.send(self._plant.queue, member.wire.poison, headers=HEADERS, receipt=True)
                    self._plant.ledger.trouble(f"{member.party}: poison was confirmed")
                except PoisonMessage:
                    return
            self._plant.ledger.trouble(f"{member.party}: poison has not failed")

        async with trio.open_nursery() as nursery:
            for member in publishers:
                nursery.start_soon(one, member)
        return await self._all_back(publishers)

    async def _refuse_for_a_while(self) -> None:
        for member in self._everybody:
            member.wire.refuses = True
            member.wire.set_trap(Trap(Befalls.RESET, Toward.BROKER, 0))
            member.wire.spring()
        await trio.sleep(_REFUSING_SECONDS)
        for member in self._everybody:
            member.wire.refuses = False

    async def _hold(self, members: Sequence[Member], seconds: float) -> float:
        for member in members:
            member.wire.hold()
        await trio.sleep(seconds)
        for member in members:
            member.wire.release()
        return await self._all_back(members)

    async def _slow(self, members: Sequence[Member]) -> float:
        for member in members:
            member.wire.slow_down(_SLOW_BYTES_PER_SECOND)
        await trio.sleep(_SLOW_SECONDS)
        for member in members:
            member.wire.slow_down(None)
        return await self._all_back(members)

    async def _alarm(self) -> None:
        await self.victim.alarm(up=True)
        await trio.sleep(_ALARM_SECONDS)
        await self.victim.alarm(up=False)

    async def _outage(self, end: Callable[[], Awaitable[None]]) -> None:
        await end()
        await trio.sleep(_DOWN_SECONDS)
        await self.victim.start()

    async def _misbehave(self, fault: Fault, broker: Broker) -> None:
        """What only the embedded broker does at our word."""
        if fault.kind is Kind.SWALLOWED:
            broker.faults.now(SwallowReceipts(command=Command.SEND, count=None))
            await trio.sleep(_REFUSING_SECONDS)
        elif fault.kind is Kind.BROKER_STALL:
            # Were it to write for some bytes more, heart-beats could be these for a long time.
            broker.faults.now(StallReading(after_bytes=fault.after_bytes), StallWriting())
            return
        elif fault.kind is Kind.REFUSED:
            # Two rounds, of two ports each.
            broker.faults.plan(RefuseConnection(), connections=4 * len(PARTIES))
        elif fault.kind is Kind.UNANSWERED:
            broker.faults.plan(AnswerConnect(), connections=len(PARTIES))
        else:
            raise AssertionError(fault)
        broker.drop_connections()

    # --- recovery ---------------------------------------------------------------------------------------------------

    async def _all_back(self, members: Sequence[Member], before: dict[Party, int] | None = None) -> float:
        async def one(member: Member) -> float:
            return await self._back(member, beyond=None if before is None else before[member.party])

        return await _slowest(one, members)

    async def _back(self, member: Member, *, beyond: int | None) -> float:
        """Wait until a member works again.

        Args:
            member: Who.
            beyond: It is to have had more reconnections than these.

        Raises:
            NoRecovery: It does not.
        """
        return await self._works(member, lambda: member.healthy and (beyond is None or member.reconnections > beyond))

    async def _works(self, member: Member, condition: Callable[[], bool]) -> float:
        """Wait until a condition holds for a member, and a message was moved by it then; returns the seconds.

        Raises:
            NoRecovery: That does not come to be.
        """
        began = trio.current_time()
        with trio.move_on_after(_RECOVERY_SECONDS):
            await wait_until(condition)
            moved = member.moved
            await wait_until(lambda: member.moved > moved or self._plant.pacer.is_done)
            return trio.current_time() - began
        state = None if member.client is None else member.client.state
        waited = f"no recovery within {_RECOVERY_SECONDS:g} s"
        raise NoRecovery(f"{member.party}: {waited} from {self.present}; it is {state}")
