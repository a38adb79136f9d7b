"""A task of the sink without Spark: Arrow batches in, an embedded broker at the other end."""

import contextlib
import dataclasses
import itertools
import threading
from collections.abc import Generator, Iterator

import pyarrow as pa
import pytest
import trio

import trio_stomp.blocking
from tests.crashes.sink_steps import SinkStep, watched_task
from trio_stomp import Reconnect
from trio_stomp.errors import ConnectionLost, OutcomeUnknown, StompError, TransactionLost
from trio_stomp.spark.sink_identity import DedupIds
from trio_stomp.spark.sink_rows import RowRules
from trio_stomp.spark.sink_writer import SinkOptions, WriteMode, Written, write_task
from trio_stomp.testing import (
    Broker,
    BrokerOptions,
    DropLink,
    ScriptedPeer,
    ScriptMismatchError,
    SwallowReceipts,
    ThreadedBroker,
    open_scripted_peer,
    run_broker_in_thread,
)
from trio_stomp.types import Command, Frame

QUEUE = "/queue/a"
ARTEMIS = "ActiveMQ-Artemis/2.44.0 ActiveMQ Artemis Messaging Engine"
CLASSIC = "ActiveMQ/6.1.7"
ALL_MODES = pytest.mark.parametrize("mode", list(WriteMode))


@dataclasses.dataclass(frozen=True)
class Connection:
    """It reconnects at once."""

    url: str

    def dial_blocking(self) -> contextlib.AbstractContextManager[trio_stomp.blocking.Client]:
        policy = Reconnect(first_delay=0.01, max_delay=0.05, deadline=120)
        return trio_stomp.blocking.connect(self.url, reconnect=policy)


def options_for(broker: ThreadedBroker, mode: WriteMode) -> SinkOptions:
    return options_for_url(broker.url, mode)


def options_for_url(url: str, mode: WriteMode) -> SinkOptions:
    return SinkOptions(
        connection=Connection(url),
        rules=RowRules(destination=QUEUE),
        mode=mode,
        dedup_ids=DedupIds.CONTENT,
        dedup_header=None,
        receipt_window=10,
        in_flight_bytes=10_000,
        transaction_bytes=1024 * 1024,
    )


def write(options: SinkOptions, batches: Iterator[pa.RecordBatch], scope: str = "query.7.0") -> Written:
    return write_task(options, scope, batches)


def rows(count: int, per_batch: int = 20) -> Iterator[pa.RecordBatch]:
    yield pa.record_batch({"body": pa.array([], pa.string())})
    for start in range(0, count, per_batch):
        values = [str(number) for number in range(start, min(count, start + per_batch))]
        yield pa.record_batch({"body": pa.array(values, pa.string())})


def texts(broker: ThreadedBroker) -> list[str]:
    return [message.body.decode() for message in broker.call(lambda inner: inner.messages(QUEUE))]


@pytest.fixture
def bulk_broker() -> Generator[ThreadedBroker]:
    """A broker that calls itself ActiveMQ Classic, where the mode `auto` is transactions."""
    with run_broker_in_thread(options=BrokerOptions(server=CLASSIC)) as broker:
        yield broker


def ids(broker: ThreadedBroker) -> list[str | None]:
    return [message.headers.get("dedup-id") for message in broker.call(lambda inner: inner.messages(QUEUE))]


@ALL_MODES
def test_task_when_all_goes_well_then_each_row_is_there_once_and_in_order(
    threaded_broker: ThreadedBroker, mode: WriteMode
) -> None:
    steps: list[SinkStep] = []

    with watched_task(steps.append):
        written = write(options_for(threaded_broker, mode), rows(50))

    assert written == Written(rows=50)
    assert texts(threaded_broker) == [str(number) for number in range(50)]
    assert steps == [SinkStep.CONNECTED, *[SinkStep.SENDING] * 3, SinkStep.ROWS_SENT]


@ALL_MODES
def test_task_when_it_has_no_rows_then_it_does_not_even_connect(
    threaded_broker: ThreadedBroker, mode: WriteMode
) -> None:
    assert write(options_for(threaded_broker, mode), rows(0)) == Written(rows=0)
    assert threaded_broker.call(Broker.statistics).connections == 0


@ALL_MODES
def test_task_when_run_again_with_its_rows_in_another_order_then_the_ids_are_the_same(
    threaded_broker: ThreadedBroker, mode: WriteMode
) -> None:
    forward = list(rows(30))
    write(options_for(threaded_broker, mode), iter(forward))
    first = ids(threaded_broker)
    write(options_for(threaded_broker, mode), iter(forward[::-1]))

    again = ids(threaded_broker)[30:]
    assert None not in first
    assert again != first
    assert sorted(map(str, again)) == sorted(map(str, first))


@ALL_MODES
def test_task_when_artemis_may_take_its_destination_for_a_topic_then_warned_once(
    bulk_broker: ThreadedBroker, mode: WriteMode, caplog: pytest.LogCaptureFixture
) -> None:
    bare = RowRules(destination="orders")
    write(dataclasses.replace(options_for(bulk_broker, mode), rules=bare), rows(3))
    with run_broker_in_thread(options=BrokerOptions(server=ARTEMIS, bare_queues=True)) as broker:
        options = options_for(broker, mode)
        queue = RowRules(destination="orders", headers={"destination-type": "ANYCAST"})
        for rules in (RowRules(destination="/queue/a"), RowRules(destination="/topic/a"), queue):
            write(dataclasses.replace(options, rules=rules), rows(3))
        assert caplog.text == ""

        write(dataclasses.replace(options, rules=bare), rows(3), "query.8.0")

    (record,) = caplog.records
    assert record.name == "trio_stomp.spark"
    assert record.getMessage().startswith("the option 'destination' is 'orders', without /queue/ or /topic/ in front")


@pytest.mark.parametrize(("mode", "there"), [(WriteMode.AUTO, 40), (WriteMode.RECEIPT, 40), (WriteMode.TRANSACTION, 0)])
def test_task_when_a_row_cannot_be_sent_then_those_before_it_are_there_unless_in_its_transaction(
    threaded_broker: ThreadedBroker, mode: WriteMode, there: int
) -> None:
    batches = [*rows(40), pa.record_batch({"body": pa.array([None], pa.string())})]

    with pytest.raises(ValueError, match="row 41 of this task cannot be sent"):
        write(options_for(threaded_broker, mode), iter(batches))

    assert texts(threaded_broker) == [str(number) for number in range(there)]


def test_auto_when_the_broker_confirms_in_bulk_then_each_chunk_of_rows_is_a_transaction(
    bulk_broker: ThreadedBroker,
) -> None:
    seen: list[int] = []

    def passed(step: SinkStep) -> None:
        # The next chunk is asked for when this one is confirmed.
        if step is SinkStep.SENDING:
            seen.append(len(texts(bulk_broker)))

    with watched_task(passed):
        written = write(options_for(bulk_broker, WriteMode.AUTO), rows(50))

    assert written == Written(rows=50)
    assert seen == [20, 40, 50]
    assert texts(bulk_broker) == [str(number) for number in range(50)]


def test_auto_when_chunks_are_transactions_then_rows_of_any_size_go(bulk_broker: ThreadedBroker) -> None:
    options = dataclasses.replace(options_for(bulk_broker, WriteMode.AUTO), transaction_bytes=100)

    assert write(options, rows(100)) == Written(rows=100)


def test_auto_when_a_row_cannot_be_sent_in_a_transaction_then_its_chunk_is_not_there(
    bulk_broker: ThreadedBroker,
) -> None:
    batches = [*rows(40), pa.record_batch({"body": pa.array(["40", None], pa.string())})]

    with pytest.raises(ValueError, match="row 42 of this task cannot be sent"):
        write(options_for(bulk_broker, WriteMode.AUTO), iter(batches))

    assert texts(bulk_broker) == [str(number) for number in range(40)]


@pytest.mark.parametrize("after", range(200, 6000, 450))
def test_auto_when_the_link_breaks_in_a_transaction_then_its_rows_are_sent_again(
    bulk_broker: ThreadedBroker, after: int
) -> None:
    bulk_broker.call(lambda broker: broker.faults.plan(DropLink(after_received_bytes=after)))

    written = write(options_for(bulk_broker, WriteMode.AUTO), rows(60))

    assert written == Written(rows=60)
    by_id = dict(zip(ids(bulk_broker), texts(bulk_broker), strict=True))
    assert sorted(by_id.values()) == sorted(str(number) for number in range(60))


@pytest.mark.parametrize(("mode", "there"), [(WriteMode.AUTO, 20), (WriteMode.TRANSACTION, 0)])
def test_transaction_when_the_link_breaks_each_time_then_it_is_given_up_and_those_before_it_are_there(
    bulk_broker: ThreadedBroker, mode: WriteMode, there: int
) -> None:
    bulk_broker.call(lambda broker: broker.faults.plan(DropLink(after_received_bytes=8000), connections=None))

    # The later rows are too many for any of these connections; COMMIT may be written before the loss is noticed.
    with pytest.raises((TransactionLost, ConnectionLost, OutcomeUnknown)):
        write(options_for(bulk_broker, mode), itertools.chain(rows(20), rows(1000, per_batch=1000)))

    assert texts(bulk_broker) == [str(number) for number in range(there)]


@pytest.mark.parametrize("dedup_ids", [DedupIds.CONTENT, DedupIds.NONE])
def test_auto_when_the_receipt_of_a_commit_is_lost_then_its_rows_are_sent_again_as_with_receipts(
    bulk_broker: ThreadedBroker, dedup_ids: DedupIds
) -> None:
    options = dataclasses.replace(options_for(bulk_broker, WriteMode.AUTO), dedup_ids=dedup_ids)

    with without_receipt_of_commit(bulk_broker, at=SinkStep.CONNECTED):
        written = write(options, rows(60))

    assert written == Written(rows=60)
    assert sorted(map(int, texts(bulk_broker))) == sorted([*range(20), *range(60)])
    assert len(set(ids(bulk_broker))) == (60 if dedup_ids is DedupIds.CONTENT else 1)


@ALL_MODES
def test_task_when_the_link_breaks_on_the_way_then_every_row_is_there_and_copies_bear_the_same_id(
    threaded_broker: ThreadedBroker, mode: WriteMode
) -> None:
    threaded_broker.call(lambda broker: broker.faults.plan(DropLink(after_received_bytes=3000)))

    written = write(options_for(threaded_broker, mode), rows(100))

    assert written == Written(rows=100)
    by_id = dict(zip(ids(threaded_broker), texts(threaded_broker), strict=True))
    assert sorted(by_id.values()) == sorted(str(number) for number in range(100))
    if mode is WriteMode.TRANSACTION:
        assert len(texts(threaded_broker)) == 100


@contextlib.contextmanager
def without_receipt_of_commit(broker: ThreadedBroker, at: SinkStep = SinkStep.ROWS_SENT) -> Generator[None]:
    """Swallow the RECEIPT of the first COMMIT, and break the link behind it; `at` is a step before that."""
    broker.call(lambda inner: inner.faults.plan(SwallowReceipts(command=Command.COMMIT)))

    def cut() -> None:
        # Rows can be seen once they are committed.
        broker.call(lambda inner: inner.wait_until(lambda: inner.depth(QUEUE) >= 20, timeout=60))
        broker.call(Broker.drop_connections)

    cutter = threading.Thread(target=cut)

    def passed(step: SinkStep) -> None:
        if step is at and cutter.ident is None:
            cutter.start()

    with watched_task(passed):
        yield
    cutter.join()


def test_transaction_when_the_receipt_of_commit_is_lost_then_run_again_with_the_same_ids(
    threaded_broker: ThreadedBroker,
) -> None:
    with without_receipt_of_commit(threaded_broker):
        written = write(options_for(threaded_broker, WriteMode.TRANSACTION), rows(20))

    assert written == Written(rows=20)
    assert len(texts(threaded_broker)) == 40
    assert len(set(ids(threaded_broker))) == 20


def test_transaction_when_the_receipt_of_commit_is_lost_and_rows_bear_no_ids_then_the_outcome_is_unknown(
    threaded_broker: ThreadedBroker,
) -> None:
    options = options_for(threaded_broker, WriteMode.TRANSACTION)

    with without_receipt_of_commit(threaded_broker), pytest.raises(OutcomeUnknown):
        write(dataclasses.replace(options, dedup_ids=DedupIds.NONE), rows(20))

    assert len(texts(threaded_broker)) == 20


def test_transaction_when_its_rows_are_too_many_then_refused_and_told_what_to_do(
    threaded_broker: ThreadedBroker,
) -> None:
    options = dataclasses.replace(options_for(threaded_broker, WriteMode.TRANSACTION), transaction_bytes=100)

    with pytest.raises(ValueError, match="'maxTransactionBytes'"):
        write(options, rows(100))

    assert texts(threaded_broker) == []


@ALL_MODES
def test_task_when_the_broker_refuses_then_its_text_is_raised(mode: WriteMode) -> None:
    options = BrokerOptions(logins={"guest": "guest"}, read_only=("guest",))
    with run_broker_in_thread(options=options) as broker, pytest.raises(StompError, match="access refused"):
        write(options_for(broker, mode), rows(5))


def test_dedup_header_when_named_then_it_carries_the_ids(threaded_broker: ThreadedBroker) -> None:
    options = dataclasses.replace(options_for(threaded_broker, WriteMode.TRANSACTION), dedup_header="x-id")

    write(options, rows(3))

    messages = threaded_broker.call(lambda inner: inner.messages(QUEUE))
    assert len({message.headers["x-id"] for message in messages}) == 3


async def refuse_transaction(peer: ScriptedPeer) -> list[str]:
    """What Artemis does with a transaction that has a message which was there before; returns the ids in it."""
    await peer.accept_connect(server=ARTEMIS)
    await peer.expect(Command.BEGIN)
    sent = [await peer.expect(Command.SEND) for _ in range(3)]
    commit = await peer.expect(Command.COMMIT)
    refusal = {"message": "AMQ339013 Error committing tx-1", "receipt-id": commit.headers["receipt"]}
    await peer.send(Command.ERROR, refusal)
    await peer.send_eof()
    return [frame.headers["_AMQ_DUPL_ID"] for frame in sent]


async def confirm_each(peer: ScriptedPeer, rows: int) -> list[str]:
    """What it does with single messages: a RECEIPT for each, also for those that it drops; returns their ids."""
    sent: list[Frame] = []
    while len(sent) < rows:
        await peer.accept()
        # The connection that was refused may have connected again before it was left: anywhere up to its DISCONNECT.
        with contextlib.suppress(ScriptMismatchError):
            await peer.accept_connect(server=ARTEMIS)
            while len(sent) < rows:
                frame = await peer.next_frame()
                if frame.command is Command.DISCONNECT:
                    await peer.confirm(frame)
                    break
                sent.append(frame)
    for frame in sent:
        await peer.confirm(frame)
    await peer.expect_disconnect()
    return [frame.headers["_AMQ_DUPL_ID"] for frame in sent]


@pytest.mark.parametrize(
    ("mode", "count"),
    [(WriteMode.TRANSACTION, 3), (WriteMode.AUTO, 3), (WriteMode.AUTO, 6)],
    ids=["transaction", "auto", "auto, and the rest of the task too"],
)
async def test_transaction_when_a_broker_that_drops_duplicates_refuses_it_then_rows_are_sent_one_by_one(
    mode: WriteMode, count: int
) -> None:
    async with open_scripted_peer(listen=True) as peer:
        rules = RowRules(destination=QUEUE, headers={"x": "y"})
        options = dataclasses.replace(options_for_url(peer.url, mode), rules=rules)
        results: list[Written] = []

        async def run() -> None:
            results.append(await trio.to_thread.run_sync(write, options, rows(count, per_batch=3)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            refused = await refuse_transaction(peer)
            confirmed = await confirm_each(peer, count)

    assert results == [Written(rows=count, repeated=True)]
    assert len(set(refused)) == 3
    assert confirmed[:3] == refused
    assert len(set(confirmed)) == count
