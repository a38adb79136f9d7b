"""Refusing late deliveries, against a model of RabbitMQ: a message that somebody may be handling is never refused.

The model does what RabbitMQ was seen to do. A channel picks messages for its consumers and numbers them; the reader of
STOMP writes what was picked, as a MESSAGE, or as an ERROR where the subscription is gone by then; each side sees what
the other wrote some time later. Hypothesis chooses the order of all that, and what the program does meanwhile.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

import anyio
import anyio.abc
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trio_stomp
from tests.kit.loops import LOOPS_OF_CLIENT, LoopName, run_on, wait_all_tasks_blocked
from tests.kit.streams import Changes, KitStream
from trio_stomp import Client, Message, Subscription
from trio_stomp.protocol import FrameReceived, ServerProtocol, encode_frame
from trio_stomp.types import AckName, Command, Frame, Settlement, Version

SESSION = "session-x"
QUEUES = ("/queue/a", "/queue/b")
MODES: tuple[AckName, ...] = ("client-individual", "client", "auto")
PREFETCH = 3
SLOTS = 2


@dataclass
class Consumer:
    """A subscription at the broker."""

    queue: str
    settles: bool


@dataclass
class Picked:
    """A message that the channel has numbered for a consumer."""

    number: int
    subscription_id: str
    queue: str
    body: bytes
    settles: bool
    swallowed: bool = False


@dataclass
class RabbitMQ(KitStream):
    """The broker, and the client's end of the link to it.

    Attributes:
        gaps: The numbers before which one is left out, as no known RabbitMQ does.
        nameless: The deliveries whose message-id has no number in it, as no known RabbitMQ has.
        refused: The numbers that were refused outside of a transaction, in order.
        complaints: What no client may do.
    """

    gaps: frozenset[int] = frozenset()
    nameless: frozenset[int] = frozenset()
    queues: defaultdict[str, deque[bytes]] = field(default_factory=lambda: defaultdict(deque))
    consumers: dict[str, Consumer] = field(default_factory=dict[str, Consumer])
    unsettled: dict[int, Picked] = field(default_factory=dict[int, Picked])
    refused: list[Picked] = field(default_factory=list[Picked])
    complaints: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        self._protocol = ServerProtocol()
        self._number = 0
        self._picked: deque[Picked] = deque()
        self._frames: deque[Frame] = deque()
        self._transaction: list[Frame] = []
        self._written = b""
        self._readable = b""
        self._changed = Changes()

    # --- the link -------------------------------------------------------------------------------------------------

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await anyio.lowlevel.checkpoint()
        for each in self._protocol.receive_data(bytes(data)):
            if isinstance(each, FrameReceived):
                self._frames.append(each.frame)
            else:
                server = [("version", "1.2"), ("server", "RabbitMQ/3.10.8"), ("session", SESSION)]
                self._written += self._protocol.send_frame(Command.CONNECTED, server)
                self.flush()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await anyio.lowlevel.checkpoint()
        while not self._readable:
            await self._changed.wait()
        stream_bytes, self._readable = self._readable[:max_bytes], self._readable[max_bytes or len(self._readable) :]
        return stream_bytes

    async def aclose(self) -> None:
        await anyio.lowlevel.checkpoint()

    # --- steps ----------------------------------------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        return not (self._frames or self._picked or self._written or self._readable)

    def flush(self) -> None:
        """What was written arrives."""
        self._readable += self._written
        self._written = b""
        self._changed.tell()

    def _may_pick(self) -> list[str]:
        return [
            id_
            for id_, consumer in self.consumers.items()
            if self.queues[consumer.queue]
            and (
                not consumer.settles or sum(each.subscription_id == id_ for each in self.unsettled.values()) < PREFETCH
            )
        ]

    def pick(self, choice: int) -> None:
        """The channel picks a message for one of its consumers."""
        ready = self._may_pick()
        if not ready:
            return
        id_ = ready[choice % len(ready)]
        consumer = self.consumers[id_]
        self._number += 2 if self._number + 1 in self.gaps else 1
        body = self.queues[consumer.queue].popleft()
        picked = Picked(self._number, id_, consumer.queue, body, consumer.settles)
        self._picked.append(picked)
        if consumer.settles:
            self.unsettled[picked.number] = picked

    def deliver(self) -> None:
        """The oldest message that was picked is written."""
        if not self._picked:
            return
        picked = self._picked.popleft()
        id_ = picked.subscription_id
        if id_ not in self.consumers:
            picked.swallowed = True
            body = f"There is no current subscription with tag 'T_{id_}'.".encode()
            self._send(Command.ERROR, [("message", "Subscription not found")], body)
            return
        name = "nameless" if picked.number in self.nameless else f"T_{id_}@@{SESSION}@@{picked.number}"
        headers = [("subscription", id_), ("destination", picked.queue), ("message-id", name)]
        if picked.settles:
            headers.append(("ack", f"T_{id_}@@{SESSION}@@{picked.number}"))
        self._send(Command.MESSAGE, headers, picked.body)

    def carry_out(self) -> None:
        """The oldest frame of the client is carried out."""
        if not self._frames:
            return
        frame = self._frames.popleft()
        headers = frame.headers
        match frame.command:
            case Command.SUBSCRIBE:
                self.consumers[headers["id"]] = Consumer(headers["destination"], headers["ack"] != "auto")
            case Command.UNSUBSCRIBE:
                if self.consumers.pop(headers["id"], None) is None:
                    self.complaints.append(f"No subscription found: {frame}")
            case Command.ACK | Command.NACK if "transaction" in headers:
                self._transaction.append(frame)
            case Command.ACK | Command.NACK:
                self._settle(frame)
            case Command.COMMIT:
                for each in self._transaction:
                    self._settle(each)
                self._transaction.clear()
            case _:
                pass
        if "receipt" in headers:
            self._send(Command.RECEIPT, [("receipt-id", headers["receipt"])])

    def answer(self) -> None:
        """All frames of the client are carried out, and what was written arrives."""
        while self._frames:
            self.carry_out()
        self.flush()

    def _settle(self, frame: Frame) -> None:
        tag, _, number = frame.headers["id"].rpartition("@@")
        id_ = tag.removeprefix("T_").removesuffix(f"@@{SESSION}")
        in_transaction = "transaction" in frame.headers
        if not in_transaction and id_ not in self.consumers:
            self.complaints.append(f"Subscription not found: {frame}")
        picked = self.unsettled.pop(int(number), None)
        if picked is None:
            self.complaints.append(f"unknown delivery tag: {frame}")
        elif frame.command is Command.NACK:
            self.queues[picked.queue].appendleft(picked.body)
            if not in_transaction:
                self.refused.append(picked)

    def _send(self, command: Command, headers: list[tuple[str, str]], body: bytes = b"") -> None:
        # Not by the protocol of a server, which sends nothing after an ERROR.
        self._written += encode_frame(command, headers, body, version=Version.V1_2)


class Program:
    """What uses the client: some subscriptions, each in a task of its own.

    Args:
        taken: Gets the numbers of all messages that a consumer was given.
    """

    def __init__(self, client: Client, group: anyio.abc.TaskGroup, taken: set[int]) -> None:
        self._client = client
        self._group = group
        self._count = 0
        self._leave: list[anyio.Event | None] = [None] * SLOTS
        self._open: list[Subscription | None] = [None] * SLOTS
        self._held: list[Message] = []
        self.taken = taken

    async def _subscribe(self, slot: int, queue: str, ack: AckName, own_id: str, leave: anyio.Event) -> None:
        async with self._client.subscribe(queue, id=own_id, ack=ack, prefetch=PREFETCH) as subscription:
            self._open[slot] = subscription
            await leave.wait()
            self._open[slot] = None
            self._held = [message for message in self._held if message.subscription is not subscription]

    def toggle(self, choice: int) -> None:
        """Open a subscription in a slot, or leave the one that is open there."""
        choice, slot = divmod(choice, SLOTS)
        leave = self._leave[slot]
        if leave is not None:
            # While its RECEIPT is awaited there is nobody yet who would leave it.
            if self._open[slot] is not None:
                leave.set()
                self._leave[slot] = None
            return
        choice, queue = divmod(choice, len(QUEUES))
        takes_the_same_id, mode = divmod(choice, len(MODES))
        self._count += 1
        own_id = f"s{slot}-{self._count}"
        if takes_the_same_id:
            # What comes late for the old one goes to the new one, so that the two must be alike.
            own_id, queue, mode = f"s{slot}", slot % len(QUEUES), slot % len(MODES)
        leave = self._leave[slot] = anyio.Event()
        self._group.start_soon(self._subscribe, slot, QUEUES[queue], MODES[mode], own_id, leave)

    async def take(self, choice: int) -> bool:
        """Take a message, if one is there; returns whether one was."""
        subscription = self._open[choice % SLOTS]
        if subscription is None or not subscription.statistics().buffered:
            return False
        message = await anext(subscription)
        _, _, number = (message.headers.get("ack") or "").rpartition("@@")
        if number:
            self.taken.add(int(number))
        if subscription.ack_mode != "auto":
            self._held.append(message)
        return True

    async def ack(self, choice: int) -> None:
        """Acknowledge a message that was taken, if there is one."""
        if self._held:
            await self._held[choice % len(self._held)].ack()
            self._held = [each for each in self._held if each.settlement is Settlement.UNSETTLED]

    async def take_all(self) -> None:
        """Take what waits on any subscription."""
        for slot in range(SLOTS):
            while await self.take(slot):
                pass


async def play(broker: RabbitMQ, steps: list[tuple[str, int]]) -> set[int]:
    """Do the steps; in the end everything that was written arrives, and is answered.

    Returns:
        The numbers of all messages that a consumer was given.
    """
    taken: set[int] = set()
    for queue in QUEUES:
        broker.queues[queue].extend(b"%d" % number for number in range(20))
    async with anyio.create_task_group() as group, trio_stomp.connect_stream(broker, heart_beat=(0, 0)) as client:
        program = Program(client, group, taken)
        at_broker: dict[str, Callable[[int], None]] = {
            "pick": broker.pick,
            "deliver": lambda _: broker.deliver(),
            "carry out": lambda _: broker.carry_out(),
            "flush": lambda _: broker.flush(),
            "answer": lambda _: broker.answer(),
            "toggle": program.toggle,
        }
        by_program = {"take": program.take, "ack": program.ack}
        # RabbitMQ takes a refusal of any late delivery through any subscription that is open.
        group.start_soon(client_keeps_open, client, "/queue/none")  # noqa: ASYNC111  # cancelled within the client's block
        for name, choice in steps:
            if name in at_broker:
                at_broker[name](choice)
            else:
                await by_program[name](choice)
            await wait_all_tasks_blocked()
        while not broker.is_idle:
            broker.deliver()
            broker.carry_out()
            broker.flush()
            await wait_all_tasks_blocked()
            # A full buffer holds the reader.
            await program.take_all()
        assert client.state.healthy
        group.cancel_scope.cancel()
    return taken


async def client_keeps_open(client: Client, destination: str) -> None:
    async with client.subscribe(destination, id="keeper"):
        await anyio.sleep_forever()


STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["pick", "pick", "take", "ack"]), st.integers(0, 7)),
        st.tuples(st.sampled_from(["deliver", "carry out", "flush"]), st.just(0)),
        # Else it would be rare that a subscription stands, has been sent something, and is left.
        st.tuples(st.just("answer"), st.just(0)),
        st.tuples(st.just("toggle"), st.integers(0, SLOTS * len(QUEUES) * len(MODES) * 2 - 1)),
    ),
    min_size=20,
    max_size=100,
)


@pytest.mark.parametrize("loop", LOOPS_OF_CLIENT)
def test_refusals_when_all_happens_in_any_order_then_no_live_message_is_refused_and_none_stays_locked(
    loop: LoopName,
) -> None:
    swallowed, late = 0, 0

    @given(steps=STEPS)
    def refuses_only_late_ones(steps: list[tuple[str, int]]) -> None:
        nonlocal swallowed, late
        broker = RabbitMQ()
        taken = run_on(loop, play, broker, steps)
        assert broker.complaints == []
        assert taken.isdisjoint(picked.number for picked in broker.refused)
        assert [picked.number for picked in broker.unsettled.values() if picked.swallowed] == []
        swallowed += sum(picked.swallowed for picked in broker.refused)
        late += sum(not picked.swallowed for picked in broker.refused)

    refuses_only_late_ones()
    # Else the steps have led nowhere near what is tried.
    assert swallowed > 10
    assert late > 3


@pytest.mark.parametrize("loop", LOOPS_OF_CLIENT)
@given(steps=STEPS, gaps=st.frozensets(st.integers(1, 12)), nameless=st.frozensets(st.integers(1, 12)))
def test_refusals_when_the_broker_numbers_in_another_way_then_no_live_message_is_refused(
    loop: LoopName, steps: list[tuple[str, int]], gaps: frozenset[int], nameless: frozenset[int]
) -> None:
    broker = RabbitMQ(gaps=gaps, nameless=nameless)
    taken = run_on(loop, play, broker, steps)
    assert taken.isdisjoint(picked.number for picked in broker.refused)
