"""The supervisor and the receipts against a simple model: random interleavings, on virtual time.

There are two hosts, and the client moves to the first whenever that answers. Each is a peer that does what the machine
tells it: it keeps RECEIPTs back, answers them, refuses with and without a name, and its links break in every way. It
complains by itself of what no broker could accept: an ACK of what it never delivered on that link, a second SUBSCRIBE
with one id, a COMMIT without its BEGIN.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import ClassVar

import anyio
import anyio.abc
import anyio.lowlevel
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.kit.guest import guest
from tests.kit.loops import LOOPS_OF_CLIENT, LoopName, wait_all_tasks_blocked
from tests.kit.peer import Peer, PeerOptions
from tests.kit.reconnecting import Host, reconnecting
from tests.kit.wire import Ending, Wire, WireEnd
from trio_stomp import BrokerError, Client, Message, Reconnect, StaleMessage, StompError
from trio_stomp.types import Command, Frame, Phase

FAIL_BACK_AFTER = 3.0
POLICY = Reconnect(first_delay=1, max_delay=4, stable_after=0, fail_back_after=FAIL_BACK_AFTER, random=lambda: 1.0)
ENDINGS = st.sampled_from(list(Ending))
MOST_PENDING = 12


class World:
    """What runs inside of the loop: a client, its peers, its senders and its consumer.

    Attributes:
        wires: The links, in order; each has the peer of the same number.
        outcomes: How each send ended, in order of ending.
        links_at_confirmation: How many links there had been when a send was confirmed.
        held: Messages that were taken and not settled.
    """

    def __init__(self) -> None:
        self.client: Client | None = None
        self.wires: list[Wire] = []
        self.peers: list[Peer] = []
        self.refusing = False
        self.preferred_refuses = True
        # The RECEIPT of a DISCONNECT is what a move waits for.
        self.silent = frozenset({Command.SEND, Command.DISCONNECT})
        self.senders: dict[int, anyio.CancelScope] = {}
        self.outcomes: list[tuple[int, str]] = []
        self.links_at_confirmation: dict[int, int] = {}
        self.held: list[Message] = []
        self.consumer: anyio.CancelScope | None = None
        self.failed_after_accepted: list[BrokerError] = []
        self.is_starting = False
        # How SUBSCRIBE is refused: whether the ERROR names it, and whether the connection is closed; None if it is not.
        self.subscribe_refusal: tuple[bool, bool] | None = None
        self._leaves: anyio.Event | None = None
        self._group: anyio.abc.TaskGroup | None = None

    @property
    def group(self) -> anyio.abc.TaskGroup:
        assert self._group is not None
        return self._group

    def leave(self) -> None:
        """Let the client's block end."""
        assert self._leaves is not None
        self._leaves.set()

    async def run(self) -> None:
        self._leaves = anyio.Event()
        hosts = (WorldHost(self, is_preferred=True), WorldHost(self, is_preferred=False))
        async with anyio.create_task_group() as self._group:
            async with reconnecting(*hosts, reconnect=POLICY, heart_beat=(0, 0)) as self.client:
                await self._leaves.wait()
            self.group.cancel_scope.cancel()

    async def open_stream(self, *, is_preferred: bool) -> WireEnd:
        await anyio.lowlevel.checkpoint()
        if self.refusing or (self.preferred_refuses and is_preferred):
            raise ConnectionRefusedError(111, "Connection refused")
        wire = Wire()
        peer = Peer(wire.server, PeerOptions(silent=self.silent))
        peer.on[Command.SUBSCRIBE] = partial(self._subscribed, peer)
        peer.on[Command.CONNECT] = peer.on[Command.STOMP] = partial(self._connected, peer)
        self.wires.append(wire)
        self.peers.append(peer)
        self.group.start_soon(peer.serve)
        return wire.client

    def _connected(self, peer: Peer, frame: Frame) -> None:
        del frame
        if self.is_starting:
            peer.error("broker is starting")
            peer.hang_up()
        else:
            peer.accept()

    def _subscribed(self, peer: Peer, frame: Frame) -> None:
        if self.subscribe_refusal is None:
            peer.confirm(frame)
            return
        names, closes = self.subscribe_refusal
        peer.refuse(frame, "home node of queue is down", names=names)
        if closes:
            peer.hang_up()

    async def send(self, number: int) -> None:
        assert self.client is not None
        outcome = "cancelled"
        with self.senders[number]:
            try:
                await self.client.send("/queue/out", str(number), receipt=True)
                outcome = "confirmed"
                self.links_at_confirmation[number] = len(self.wires)
            except BrokerError:
                outcome = "rejected"
            except StompError:
                outcome = "unknown"
        self.outcomes.append((number, outcome))
        del self.senders[number]

    async def consume(self) -> None:
        assert self.client is not None
        assert self.consumer is not None
        is_accepted = False
        with self.consumer:
            try:
                async with self.client.subscribe("/queue/in", id="in") as subscription:
                    is_accepted = True
                    async for message in subscription:
                        self.held.append(message)
            except BrokerError as error:
                if is_accepted:
                    self.failed_after_accepted.append(error)
        self.consumer = None
        self.held.clear()

    @property
    def peer(self) -> Peer | None:
        """The peer of the connection in use, if its link stands."""
        if self.client is None:
            return None
        stream = self.client._session.link.stream
        stream = getattr(stream, "stream", stream)
        for wire, peer in zip(self.wires, self.peers, strict=True):
            if wire.client is stream and wire.ending is None and not peer.ended.is_set():
                return peer
        return None


class WorldHost(Host):
    """One of the two hosts of a world."""

    def __init__(self, world: World, *, is_preferred: bool) -> None:
        self._world = world
        self._is_preferred = is_preferred

    async def open_stream(self) -> WireEnd:
        return await self._world.open_stream(is_preferred=self._is_preferred)


async def nothing() -> None:
    await anyio.lowlevel.checkpoint()


class Reconnection(RuleBasedStateMachine):
    """A client that reconnects, and everything that can happen to it."""

    loop: ClassVar[LoopName]

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.guest = guest(self.loop, self.world.run)
        self.sent = 0
        self.errors = 0

    @initialize(sends=st.integers(0, 4), subscribes=st.booleans(), delivers=st.integers(0, 3))
    def connect(self, sends: int, subscribes: bool, delivers: int) -> None:
        self.guest.do(nothing)
        assert self.world.client is not None
        assert self.world.client.state.healthy
        self.send(sends)
        if subscribes:
            self.subscribe()
            self.deliver(delivers)

    # --- what the program does --------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.world.senders) < MOST_PENDING)
    @rule(count=st.integers(1, 4))
    def send(self, count: int) -> None:
        first = self.sent
        self.sent += count

        async def start() -> None:
            await anyio.lowlevel.checkpoint()
            for number in range(first, self.sent):
                self.world.senders[number] = anyio.CancelScope()
                self.world.group.start_soon(self.world.send, number)
                # One after the other: tasks that are started together run in any order.
                await wait_all_tasks_blocked()

        self.guest.do(start)

    @precondition(lambda self: self.world.senders)
    @rule(data=st.data())
    def cancel_a_sender(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.world.senders)))

        async def cancel() -> None:
            await anyio.lowlevel.checkpoint()
            self.world.senders[number].cancel()

        self.guest.do(cancel)
        assert (number, "cancelled") in self.world.outcomes

    @precondition(lambda self: self.world.consumer is None)
    @rule()
    def subscribe(self) -> None:
        async def start() -> None:
            await anyio.lowlevel.checkpoint()
            self.world.consumer = anyio.CancelScope()
            self.world.group.start_soon(self.world.consume)

        self.guest.do(start)

    @precondition(lambda self: self.world.consumer is not None)
    @rule()
    def leave_the_subscription(self) -> None:
        async def cancel() -> None:
            await anyio.lowlevel.checkpoint()
            if self.world.consumer is not None:
                self.world.consumer.cancel()

        self.guest.do(cancel)
        assert self.world.consumer is None

    @precondition(lambda self: self.world.held)
    @rule(data=st.data())
    def acknowledge(self, data: st.DataObject) -> None:
        message = self.world.held.pop(data.draw(st.integers(0, len(self.world.held) - 1)))

        async def ack() -> None:
            if message.is_stale:
                with pytest.raises(StaleMessage):
                    await message.ack()
            else:
                await message.ack()

        self.guest.do(ack)

    # --- what the broker does ---------------------------------------------------------------------------------------

    @precondition(lambda self: self.world.peer is not None and self.world.peer.kept_back)
    @rule(data=st.data())
    def confirm_some(self, data: st.DataObject) -> None:
        peer = self.world.peer
        assert peer is not None
        receipt_id = data.draw(st.sampled_from(list(peer.kept_back)))

        async def answer() -> None:
            await anyio.lowlevel.checkpoint()
            peer.kept_back.remove(receipt_id)
            peer.answer(receipt_id)

        self.guest.do(answer)

    @precondition(lambda self: self.world.peer is not None and self.world.peer.kept_back)
    @rule()
    def confirm_all(self) -> None:
        async def answer() -> None:
            await anyio.lowlevel.checkpoint()
            peer = self.world.peer
            if peer is not None:
                peer.answer_kept_back()

        self.guest.do(answer)

    @precondition(lambda self: self.world.peer is not None and "in" in self.world.peer.ledger.subscriptions)
    @rule(count=st.integers(1, 3))
    def deliver(self, count: int) -> None:
        async def deliver() -> None:
            await anyio.lowlevel.checkpoint()
            if self.world.peer is not None:
                for _ in range(count):
                    self.world.peer.deliver("in", b"x")

        self.guest.do(deliver)

    @precondition(lambda self: self.world.peer is not None and self.world.peer.kept_back)
    @rule(data=st.data())
    def refuse_by_name(self, data: st.DataObject) -> None:
        peer = self.world.peer
        assert peer is not None
        self.errors += 1
        receipt_id = data.draw(st.sampled_from(list(peer.kept_back)))

        async def refuse() -> None:
            await anyio.lowlevel.checkpoint()
            peer.error("not this one", [("receipt-id", receipt_id)])
            peer.hang_up()

        self.guest.do(refuse)

    @precondition(lambda self: self.world.peer is not None)
    @rule()
    def refuse_without_a_name(self) -> None:
        self.errors += 1

        async def refuse() -> None:
            await anyio.lowlevel.checkpoint()
            peer = self.world.peer
            if peer is not None:
                peer.error("something is wrong")
                peer.hang_up()

        self.guest.do(refuse)

    # --- what the network does --------------------------------------------------------------------------------------

    @precondition(lambda self: self.world.peer is not None)
    @rule(ending=ENDINGS, after=st.integers(0, 200), outward=st.booleans())
    def cut(self, ending: Ending, after: int, outward: bool) -> None:
        """At once, or in the middle of what follows."""

        async def cut() -> None:
            await anyio.lowlevel.checkpoint()
            wire = self.world.wires[-1]
            lane = wire.to_server if outward else wire.to_client
            lane.cut_after(lane.carried + after, ending)

        self.guest.do(cut)

    # Most of what is drawn lets the client go on: else it would hardly ever be connected.
    @rule(
        refusing=st.sampled_from([False, False, True]),
        starting=st.sampled_from([False, False, True]),
        refusal=st.none() | st.tuples(st.booleans(), st.booleans()),
    )
    def refuse_or_accept(self, refusing: bool, starting: bool, refusal: tuple[bool, bool] | None) -> None:
        self.world.refusing = refusing
        self.world.is_starting = starting
        self.errors += refusal is not None
        self.world.subscribe_refusal = refusal

    @precondition(lambda self: self.world.preferred_refuses)
    @rule()
    def move_to_the_preferred_host(self) -> None:
        self.world.preferred_refuses = False
        self.guest.pass_time(FAIL_BACK_AFTER)

    @precondition(lambda self: not self.world.preferred_refuses and self.world.peer is not None)
    @rule(ending=ENDINGS)
    def lose_the_preferred_host(self, ending: Ending) -> None:
        self.world.preferred_refuses = True
        self.cut(ending, 0, outward=True)

    @rule(seconds=st.sampled_from([0.5, 1.0, 5.0, 60.0]))
    def pass_time(self, seconds: float) -> None:
        self.guest.pass_time(seconds)

    # --- what must hold ---------------------------------------------------------------------------------------------

    @invariant()
    def each_send_ends_once(self) -> None:
        counts = Counter(number for number, _ in self.world.outcomes)
        assert all(count == 1 for count in counts.values()), counts
        assert not counts.keys() & self.world.senders.keys()
        if not self.errors:
            assert "rejected" not in {outcome for _, outcome in self.world.outcomes}

    @invariant()
    def each_link_sees_the_order_of_the_calls(self) -> None:
        for peer in self.world.peers:
            numbers = [int(body) for body in peer.ledger.arrived]
            assert numbers == sorted(set(numbers)), numbers

    @invariant()
    def what_was_confirmed_had_arrived_and_is_never_sent_again(self) -> None:
        arrived = [{int(body) for body in peer.ledger.arrived} for peer in self.world.peers]
        for number, links in self.world.links_at_confirmation.items():
            assert any(number in numbers for numbers in arrived[:links])
            assert not any(number in numbers for numbers in arrived[links:])

    @invariant()
    def a_subscription_stands_wherever_the_client_is_connected(self) -> None:
        client, peer = self.world.client, self.world.peer
        if client is None or peer is None or not client._session.connection.is_open:
            return
        if client.state.healthy:
            subscribed = self.world.consumer is not None and "in" not in client.state.waiting
            assert ("in" in peer.ledger.subscriptions) == subscribed

    @invariant()
    def a_subscription_that_was_accepted_never_fails(self) -> None:
        assert not self.world.failed_after_accepted

    @invariant()
    def the_client_never_gives_up(self) -> None:
        assert self.world.client is None or self.world.client.state.phase is not Phase.CLOSED

    def teardown(self) -> None:
        try:
            self._come_to_rest()
        finally:
            self.guest.kill()

    def _come_to_rest(self) -> None:
        """Each send ends, nothing is left, and leaving is quick."""

        async def relent() -> None:
            await anyio.lowlevel.checkpoint()
            self.world.refusing = self.world.is_starting = False
            self.world.subscribe_refusal = None
            self.world.silent = frozenset()
            for peer in self.world.peers:
                peer.silent.clear()
            if self.world.peer is not None:
                self.world.peer.answer_kept_back()

        self.guest.do(relent)
        for _ in range(10):
            if self.world.senders:
                self.guest.pass_time(5.0)
                self.guest.do(relent)
        assert not self.world.senders
        assert len(self.world.outcomes) == self.sent
        assert self.world.client is not None
        statistics = self.world.client.statistics()
        assert statistics.unconfirmed == 0
        assert [each.id for each in statistics.subscriptions] == ([] if self.world.consumer is None else ["in"])
        for _ in range(10):
            # Each delay begins when the one before is over, and the clock jumps.
            self.guest.pass_time(POLICY.max_delay)
        assert self.world.client.state.waiting == ()
        self.a_subscription_stands_wherever_the_client_is_connected()

        async def leave() -> None:
            await anyio.lowlevel.checkpoint()
            if self.world.consumer is not None:
                self.world.consumer.cancel()
            self.world.leave()

        self.guest.do(leave)
        self.guest.pass_time(60.0)
        self.guest.end()


def machine(name: LoopName) -> type[Reconnection]:
    class Machine(Reconnection):
        loop = name

    return Machine


COMMON = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])


@pytest.mark.parametrize("loop", LOOPS_OF_CLIENT)
def test_client_when_anything_happens_then_it_does_what_the_model_says(loop: LoopName) -> None:
    run_state_machine_as_test(machine(loop), settings=settings(COMMON, max_examples=40, stateful_step_count=30))


@pytest.mark.slow
@pytest.mark.parametrize("loop", LOOPS_OF_CLIENT)
def test_client_when_much_happens_then_it_does_what_the_model_says(loop: LoopName) -> None:
    run_state_machine_as_test(machine(loop), settings=settings(COMMON, max_examples=600, stateful_step_count=50))
