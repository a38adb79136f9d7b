"""Exactly once, by a model: random histories of receivers, links, crashes, late writes, clocks and lost files.

A broker gives messages to receivers, and gives them again where it has not taken an ACK, however late. The receivers
write segments as the real ones do. The planner is the real one. Spark is modelled by its logs: an offset is logged
before its batch runs, a batch that is run again has the same rows, and the sink writes each batch once.

At the end, the table has each message once. Where rows were taken out of the spool, or an old checkpoint was restored,
the planner may say so instead; it must never leave rows out without a word.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from tests.spark.memory_store import Killed, MemoryStore
from tests.spark.receiving import segment_of
from trio_stomp.spark import ReceiverState, ReceiverStatus, SpoolError
from trio_stomp.spark.planner import DataLoss, Planner
from trio_stomp.spark.receiver_status import read_status, write_status
from trio_stomp.spark.recent_ids import Window
from trio_stomp.spark.segment_slices import SegmentSlice
from trio_stomp.spark.segments import Segment, list_spool, open_batches
from trio_stomp.spark.stream_offsets import Offset

# For a long run: TRIO_STOMP_HISTORIES=10000.
HISTORIES = int(os.environ.get("TRIO_STOMP_HISTORIES", "60"))
# Only ids whose ACK is in doubt, and those of the last moments: the hardest case.
WINDOW = Window(rows=1_000_000, seconds=0)


@dataclass
class Receiver:
    """What a receiver and its connection know."""

    shard: str
    clock: float
    last: int = 0
    confirmed: int = 0
    in_doubt: int = 0
    taken: list[int] = field(default_factory=list[int])


class History(RuleBasedStateMachine):
    """One history."""

    def __init__(self) -> None:
        super().__init__()
        self.store = MemoryStore()
        self.published = 0
        # At the broker, in order; and which it would mark.
        self.queue: list[int] = []
        self.redelivered: set[int] = set()
        self.receivers: list[Receiver] = []
        self.shards = 0
        # Writes that hang, of receivers that have given up.
        self.late: list[tuple[Segment, bytes]] = []
        self.planner: Planner | None = None
        self.checkpoint: Offset | None = None
        self.batch: tuple[Offset, Offset] | None = None
        self.batch_rows: list[int] | None = None
        # Committed batches: the offset at their end, and their rows.
        self.table: list[tuple[Offset, list[int]]] = []
        # Whether something was done to files that may cost rows.
        self.is_damaged = False
        self.is_over = False

    @initialize(marks=st.booleans())
    def begin(self, marks: bool) -> None:
        self.marks = marks

    # --- broker and receivers -----------------------------------------------------------------------------------------

    @rule(count=st.integers(1, 6))
    def publish(self, count: int) -> None:
        self.queue += range(self.published, self.published + count)
        self.published += count

    @rule(offset=st.sampled_from([0.0, -100.0, 5000.0]))
    @precondition(lambda self: len(self.receivers) < 3)
    def start_receiver(self, offset: float) -> None:
        self.shards += 1
        receiver = Receiver(f"s{self.shards:04}", offset)
        self.receivers.append(receiver)
        self.say(receiver, ReceiverState.RECEIVING)

    def say(self, receiver: Receiver, state: ReceiverState) -> None:
        write_status(
            self.store,
            ReceiverStatus(shard=receiver.shard, state=state, rows=receiver.last, confirmed=receiver.confirmed),
        )

    def pick(self, number: int) -> Receiver:
        return self.receivers[number % len(self.receivers)]

    def segment(self, receiver: Receiver, messages: list[int]) -> tuple[Segment, bytes]:
        marked = [place for place, each in enumerate(messages) if each in self.redelivered]
        return segment_of(
            receiver.shard,
            receiver.last + 1,
            [str(each) for each in messages],
            redelivered=marked,
            suspects=None if self.marks else len(messages),
            in_doubt=receiver.in_doubt,
            time=int((self.store.now + receiver.clock) * 1000),
        )

    def give_back(self, messages: list[int]) -> None:
        self.queue[:0] = messages
        self.redelivered.update(messages)

    @rule(
        number=st.integers(0, 2),
        count=st.integers(1, 5),
        end=st.sampled_from(
            ["ok", "ok", "ok", "ack lost", "receipt lost", "dead before", "dead after", "dead acked", "gave up"]
        ),
    )
    @precondition(lambda self: self.receivers and self.queue)
    def receive(self, number: int, count: int, end: str) -> None:
        receiver = self.pick(number)
        messages, self.queue = self.queue[:count], self.queue[count:]
        segment, octets = self.segment(receiver, messages)
        if end == "dead before":
            self.give_back(messages)
            self.receivers.remove(receiver)
            return
        if end == "gave up":
            # Its write hangs. It says so, fails, and the broker delivers again.
            self.late.append((segment, octets))
            self.store.put_json(segment.void_name, {})
            self.say(receiver, ReceiverState.FAILED)
            self.give_back(messages)
            self.receivers.remove(receiver)
            return
        self.store.put(segment.name, octets)
        receiver.last = segment.last
        receiver.in_doubt = len(messages)
        if end in {"ack lost", "dead after"}:
            self.give_back(messages)
        if end == "ok":
            receiver.confirmed = segment.last
            receiver.in_doubt = 0
        if end.startswith("dead"):
            self.receivers.remove(receiver)

    @rule(number=st.integers(0, 2), ends=st.booleans())
    @precondition(lambda self: self.receivers)
    def beat(self, number: int, ends: bool) -> None:
        receiver = self.pick(number)
        self.say(receiver, ReceiverState.ENDED if ends else ReceiverState.IDLE)
        if ends:
            self.receivers.remove(receiver)

    @rule()
    @precondition(lambda self: self.late)
    def late_write(self) -> None:
        segment, octets = self.late.pop()
        self.store.put(segment.name, octets)

    @rule(seconds=st.sampled_from([1.0, 40.0, 4000.0]))
    def wait(self, seconds: float) -> None:
        self.store.now += seconds
        for each in self.receivers:
            self.say(each, ReceiverState.IDLE)

    # --- the planner, as Spark calls it -------------------------------------------------------------------------------

    def started(self) -> Planner:
        if self.planner is None:
            self.planner = Planner(
                self.store,
                destination="/queue/a",
                window=WINDOW,
                max_bytes=1,
                fail_on_data_loss=True,
                monotonic=lambda: self.store.now,
            )
            begun = self.batch[0] if self.batch else self.checkpoint
            if begun is None:
                begun = self.checkpoint = self.planner.first()
            self.planner.begin(begun)
        return self.planner

    def step(self, most: int | None, most_bytes: int | None = None) -> bool:
        """Run one batch; return whether there was something to do."""
        planner = self.started()
        assert self.checkpoint is not None
        if self.batch is None:
            end = planner.next(self.checkpoint.rows, most, most_bytes=most_bytes)
            if end == self.checkpoint.rows:
                return False
            self.batch = self.checkpoint, Offset(spool=planner.spool, rows=end, retired=planner.retired)
        begun, ended = self.batch
        rows = [row for each in planner.slices(begun.rows, ended.rows) for row in self.rows_of(each)]
        assert self.batch_rows is None or rows == self.batch_rows, "a batch that was run again has other rows"
        self.batch_rows = rows
        # Spark may die here, with the batch planned and not written.
        self.store._live()
        self.table.append((ended, rows))
        self.checkpoint, self.batch, self.batch_rows = ended, None, None
        return True

    def rows_of(self, wanted: SegmentSlice) -> list[int]:
        (batch,) = open_batches(self.store, wanted.path, ["stable_id"])
        places = range(wanted.skip, wanted.skip + wanted.rows)
        ids = batch.to_pydict()["stable_id"]
        return [int(ids[place]) for place in places if place not in wanted.copies]

    @rule(
        most=st.sampled_from([None, 1, 3]),
        most_bytes=st.sampled_from([None, 1, 1500]),
        lives=st.one_of(st.none(), st.integers(0, 8)),
    )
    @precondition(lambda self: not self.is_over)
    def plan(self, most: int | None, most_bytes: int | None, lives: int | None) -> None:
        self.store.lives = lives
        try:
            self.step(most, most_bytes)
        except Killed:
            self.planner = None
        except (DataLoss, SpoolError):
            assert self.is_damaged
            self.is_over = True
        finally:
            self.store.lives = None

    @rule()
    def kill_planner(self) -> None:
        self.planner = None

    # --- what users and disks do --------------------------------------------------------------------------------------

    @rule(back=st.integers(1, 3))
    @precondition(lambda self: len(self.table) > 1 and not self.is_over)
    def restore_a_backup(self, back: int) -> None:
        """The checkpoint and the table are those of some batches before."""
        self.table = self.table[: max(1, len(self.table) - back)]
        self.checkpoint, self.batch, self.batch_rows = self.table[-1][0], None, None
        self.planner = None
        self.is_damaged = True

    @rule(number=st.integers(0, 9), whole=st.booleans())
    @precondition(lambda self: not self.is_over)
    def delete_files(self, number: int, whole: bool) -> None:
        """A segment that Spark is not done with, or the folder of a shard.

        Receivers have said that they wrote it: that takes seconds. Of what a receiver wrote in its last seconds before
        it was killed, and what was deleted before a planner had seen it, nothing is left that could be known.
        """
        for each in self.receivers:
            self.say(each, ReceiverState.IDLE)
        begun = self.batch[0] if self.batch else self.checkpoint
        done = {} if begun is None else begun.rows
        said = {shard: read_status(self.store, shard) for shard in list_spool(self.store).statuses}
        shards = [
            segments
            for shard, segments in list_spool(self.store).segments.items()
            # Ids of rows in doubt are gone with them, and then copies cannot be known.
            if segments[0].last > done.get(shard, 0) and segments[-1].last <= getattr(said.get(shard), "rows", 0)
        ]
        if shards:
            segments = shards[number % len(shards)]
            gone = segments if whole else [segments[number % len(segments)]]
            self.store.delete(each.name for each in gone)
            self.is_damaged = True

    def teardown(self) -> None:
        self.store.lives = None
        while self.late:
            self.late_write()
        receiver = Receiver("s9999", 0.0)
        self.receivers = [receiver]
        while self.queue:
            self.receive(0, 5, "ok")
        self.say(receiver, ReceiverState.IDLE)
        try:
            while not self.is_over and self.step(None):
                self.planner = None
        except (DataLoss, SpoolError):
            assert self.is_damaged
            self.is_over = True
        rows = sorted(row for _, batch in self.table for row in batch)
        assert len(rows) == len(set(rows)), f"doubled: {rows}"
        assert self.is_over or rows == list(range(self.published)), f"lost without a word: {rows} of {self.published}"


def test_planner_when_anything_happens_then_each_message_is_in_the_table_once_or_the_error_says_otherwise() -> None:
    checks = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
    run_state_machine_as_test(
        History,
        settings=settings(
            max_examples=HISTORIES,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=checks,
            derandomize=True,
        ),
    )
