"""A subscription: messages in batches across the threads, and what becomes of those that were not handed out."""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from types import FrameType

import pytest

import trio_stomp.blocking
from tests.blocking.conftest import QUEUE, await_arrival, bodies, fill, left, left_running, lose, threads
from tests.kit.ctrl_c import CtrlC
from trio_stomp import (
    AckMode,
    ConnectionClosed,
    ConnectionLost,
    LocalProtocolError,
    Reconnect,
    Retry,
)
from trio_stomp.blocking import Client, Message, Subscription
from trio_stomp.blocking.thread import Call
from trio_stomp.testing import Broker, ThreadedBroker
from trio_stomp.types import Settlement

MODULE = inspect.getfile(Subscription)


def test_iteration_when_many_wait_then_all_come_in_order(broker: ThreadedBroker, client: Client) -> None:
    fill(broker, 1000)
    taken: list[int] = []
    with client.subscribe(QUEUE) as subscription:
        for message in subscription:
            with message:
                taken.append(int(message.body))
            if len(taken) == 1000:
                break

    assert taken == list(range(1000))
    client.send("/queue/other", b"", receipt=True)
    assert left(broker) == 0


def test_iteration_when_messages_wait_then_few_crossings_are_made(
    broker: ThreadedBroker, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(broker, 500)
    with client.subscribe(QUEUE, ack="auto", prefetch=500) as subscription:
        link = subscription._calls.link
        crossings: list[object] = []
        run = link.run

        def counted(call: Call[object]) -> object:
            crossings.append(call)
            return run(call)

        monkeypatch.setattr(link, "run", counted)
        for _ in range(500):
            next(subscription)

    assert 1 <= len(crossings) < 100


def test_subscription_when_looked_at_then_shows_what_it_is(broker: ThreadedBroker, client: Client) -> None:
    fill(broker, 5)
    with client.subscribe(QUEUE, id="mine") as subscription:
        assert (subscription.id, subscription.destination) == ("mine", QUEUE)
        assert subscription.ack_mode is AckMode.CLIENT_INDIVIDUAL
        first = next(subscription)
        await_arrival(client, subscription, 4)
        seen = subscription.statistics()
        assert (seen.buffered, seen.unsettled, seen.delivered) == (4, 1, 1)
        first.ack(receipt=True)
        assert subscription.statistics().unsettled == 0


def test_iteration_when_several_threads_do_it_then_each_message_goes_to_one(
    broker: ThreadedBroker, client: Client
) -> None:
    fill(broker, 300)
    taken: list[int] = []
    done = threading.Event()
    with ExitStack() as stack, client.subscribe(QUEUE, prefetch=20) as subscription:

        def consume() -> None:
            for message in subscription:
                with message:
                    taken.append(int(message.body))
                    if len(taken) == 300:
                        done.set()

        stack.enter_context(threads(*[consume] * 4))
        assert done.wait(60)

    assert sorted(taken) == list(range(300))


def test_iteration_when_interrupted_then_nothing_is_lost(broker: ThreadedBroker, client: Client, ctrl_c: CtrlC) -> None:
    waiting = threading.Event()
    with client.subscribe(QUEUE) as subscription:
        ctrl_c(waiting)
        with pytest.raises(KeyboardInterrupt):
            waiting.set()
            next(subscription)
        fill(broker, 1)
        with next(subscription) as message:
            assert message.body == b"0"


class Strike:
    """Ctrl-C at one of the places in the module of subscriptions at which Python may raise it."""

    def __init__(self, place: int) -> None:
        self._left = place

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        if event in {"call", "c_return"} and frame.f_code.co_filename == MODULE:
            self._left -= 1
            if self._left == 0:
                raise KeyboardInterrupt


@pytest.mark.parametrize("batches", [False, True])
def test_receiving_when_interrupted_at_any_place_then_what_is_here_comes_once_and_in_order(
    client: Client, *, batches: bool
) -> None:
    place, struck = 0, True
    while struck:
        place, struck = place + 1, False
        for number in range(3):
            client.send(QUEUE, b"%d" % number, receipt=True)
        with client.subscribe(QUEUE) as messages:
            # The others come with it, and wait in this thread.
            taken = [messages.receive(timeout=60)]
            sys.setprofile(Strike(place))
            try:
                taken += messages.receive_batch(1) if batches else [next(messages)]
            except KeyboardInterrupt:
                struck = True
            finally:
                sys.setprofile(None)
            while len(taken) < 3:
                taken.append(messages.receive(timeout=5))
            assert [each.body for each in taken] == [b"0", b"1", b"2"]
            messages.ack_up_to(taken[-1])
    assert place > 2


def test_program_when_interrupted_in_its_loop_then_leaves_everything_in_order(
    broker: ThreadedBroker, ctrl_c: CtrlC
) -> None:
    fill(broker, 10)
    handled = threading.Event()
    ctrl_c(handled)
    count = 0

    with pytest.raises(KeyboardInterrupt):
        with trio_stomp.blocking.connect(broker.url) as client, client.subscribe(QUEUE) as subscription:
            for message in subscription:
                with message:
                    count += 1
                if count == 10:
                    handled.set()

    assert left(broker) == 0
    assert not left_running()


def test_leaving_when_messages_were_not_handed_out_then_given_back(broker: ThreadedBroker, client: Client) -> None:
    fill(broker, 50)
    with client.subscribe(QUEUE) as subscription:
        with next(subscription):
            pass
        assert subscription.statistics().buffered > 0
    with pytest.raises(StopIteration):
        next(subscription)

    client.send("/queue/other", b"", receipt=True)
    assert len(bodies(broker)) == 49


def test_loss_when_it_ends_the_client_then_raised_and_old_messages_are_not_handed_out(
    broker: ThreadedBroker, client: Client
) -> None:
    fill(broker, 50)
    with client.subscribe(QUEUE) as subscription:
        next(subscription)
        lose(broker, client)

        with pytest.raises(ConnectionLost):
            next(subscription)


def test_loss_when_in_auto_mode_then_what_had_come_is_handed_out_first(broker: ThreadedBroker, client: Client) -> None:
    fill(broker, 50)
    with client.subscribe(QUEUE, ack="auto") as subscription:
        next(subscription)
        await_arrival(client, subscription, 49)
        lose(broker, client)

        assert [int(next(subscription).body) for _ in range(49)] == list(range(1, 50))
        with pytest.raises(ConnectionLost):
            next(subscription)


def test_loss_when_there_is_reconnect_then_redelivered_ones_come_instead_of_stale_ones(
    broker: ThreadedBroker,
) -> None:
    fill(broker, 20)
    with trio_stomp.blocking.connect(broker.url, reconnect=Reconnect(first_delay=0)) as client:
        with client.subscribe(QUEUE) as subscription:
            with next(subscription):
                pass
            client.send("/queue/other", b"", receipt=True)
            broker.call(Broker.drop_connections)
            while client.statistics().reconnections == 0 or not client.state.healthy:
                pass
            rest = [next(subscription) for _ in range(19)]

            assert [int(message.body) for message in rest] == list(range(1, 20))
            assert not any(message.is_stale for message in rest)
            subscription.ack_up_to(rest[-1])

    assert len(bodies(broker)) == 0


# --- bulk verbs -----------------------------------------------------------------------------------------------------


def test_receive_batch_when_more_wait_then_no_more_than_asked_for(broker: ThreadedBroker, client: Client) -> None:
    fill(broker, 10)
    with client.subscribe(QUEUE) as subscription:
        first = subscription.receive_batch(4)
        second = subscription.receive_batch(100, linger=0.05)

        assert 1 <= len(first) <= 4
        assert [int(message.body) for message in first + second] == list(range(10))


def test_receive_batch_when_some_are_here_then_waits_for_more_up_to_a_second_too(
    broker: ThreadedBroker, client: Client
) -> None:
    fill(broker, 10)
    with client.subscribe(QUEUE) as subscription:
        first = next(subscription)
        client.send(QUEUE, b"10", receipt=True)
        # It is complete at once: the second is never waited for.
        batch = subscription.receive_batch(10, linger=1)

        assert [int(message.body) for message in [first, *batch]] == list(range(11))


def test_receive_batch_when_lingering_is_ended_by_a_loss_then_what_is_here_comes_first(
    broker: ThreadedBroker, client: Client
) -> None:
    fill(broker, 3)
    with client.subscribe(QUEUE, ack="auto") as subscription:
        next(subscription)
        await_arrival(client, subscription, 2)
        lose(broker, client)

        batch = subscription.receive_batch(2)
        batch += subscription.receive_batch(5, linger=1) if len(batch) < 2 else []
        assert [int(message.body) for message in batch] == [1, 2]
        with pytest.raises(ConnectionLost):
            subscription.receive_batch(5, linger=1)


def test_ack_up_to_when_called_then_all_up_to_it_are_settled(broker: ThreadedBroker, client: Client) -> None:
    fill(broker, 10)
    with client.subscribe(QUEUE) as subscription:
        messages = [next(subscription) for _ in range(10)]
        subscription.ack_up_to(messages[6])

        assert [message.settlement is Settlement.ACKED for message in messages] == [True] * 7 + [False] * 3
        with pytest.raises(LocalProtocolError):
            subscription.ack_up_to(messages[3])

    client.send("/queue/other", b"", receipt=True)
    assert len(bodies(broker)) == 3


def test_ack_up_to_when_the_message_is_of_another_subscription_then_refused_at_once(
    broker: ThreadedBroker, client: Client
) -> None:
    fill(broker, 2)
    fill(broker, 2, "/queue/other")
    with client.subscribe(QUEUE) as subscription, client.subscribe("/queue/other") as other:
        mine, foreign = next(subscription), next(other)
        with pytest.raises(LocalProtocolError, match="came over subscription"):
            subscription.ack_up_to(foreign)
        assert (mine.settlement, foreign.settlement) == (Settlement.UNSETTLED, Settlement.UNSETTLED)


@pytest.fixture
def dead_end(broker: ThreadedBroker) -> Generator[Client]:
    """A client that takes its broker for one that has no certain dead letters."""
    with trio_stomp.blocking.connect(broker.url, profile="artemis") as connected:
        yield connected


# --- workers --------------------------------------------------------------------------------------------------------


def test_work_when_handlers_settle_by_themselves_then_not_settled_twice(
    broker: ThreadedBroker, client: Client, ctrl_c: CtrlC
) -> None:
    fill(broker, 5)
    handled: list[int] = []
    enough = threading.Event()

    def handle(message: Message) -> None:
        assert isinstance(message, Message)
        message.ack()
        client.send("/queue/done", message.body)
        handled.append(1)
        if len(handled) == 5:
            enough.set()

    ctrl_c(enough)
    with client.subscribe(QUEUE) as subscription, pytest.raises(KeyboardInterrupt):
        subscription.work(handle, workers=2)

    client.send("/queue/other", b"", receipt=True)
    assert (len(bodies(broker)), len(bodies(broker, "/queue/done"))) == (0, 5)


def test_work_when_something_is_around_the_handler_then_it_is_entered_in_its_thread(
    client: Client, ctrl_c: CtrlC
) -> None:
    log: list[str] = []
    left_well = threading.Event()

    @contextmanager
    def noting(message: Message) -> Generator[None]:
        log.append(f"enters {message.text} in {threading.get_ident()}")
        try:
            yield
        except ValueError:
            log.append("sees ValueError")
            raise
        log.append("leaves")
        left_well.set()

    def handle(message: Message) -> None:
        log.append(f"handles in {threading.get_ident()}")
        if len(log) == 2:
            raise ValueError(message.text)

    client.send(QUEUE, "1", receipt=True)
    ctrl_c(left_well)
    with client.subscribe(QUEUE) as jobs, pytest.raises(KeyboardInterrupt):
        jobs.work(handle, workers=1, around=[noting], retry=Retry(first_delay=0))

    # A retry may run in another thread of the pool.
    first, again = (line.rpartition(" ")[2] for line in (log[0], log[3]))
    assert log == [
        f"enters 1 in {first}",
        f"handles in {first}",
        "sees ValueError",
        f"enters 1 in {again}",
        f"handles in {again}",
        "leaves",
    ]


def test_work_when_what_is_around_is_no_context_manager_then_says_so_and_the_message_is_kept(
    broker: ThreadedBroker, client: Client
) -> None:
    @asynccontextmanager
    async def for_async_code(_message: Message) -> AsyncGenerator[None]:
        yield

    client.send(QUEUE, "1", receipt=True)
    with client.subscribe(QUEUE) as jobs, pytest.raises(TypeError, match=r"with @contextlib\.contextmanager"):
        jobs.work(print, around=[for_async_code])  # type: ignore[list-item]  # the mistake
    client.send("/queue/other", b"", receipt=True)
    assert len(bodies(broker)) == 1


def test_work_when_given_functions_then_they_see_synchronous_messages(
    broker: ThreadedBroker, client: Client, ctrl_c: CtrlC
) -> None:
    fill(broker, 6)
    order: dict[str, list[int]] = {"0": [], "1": [], "2": []}
    handled: list[Message] = []
    over = threading.Event()

    def count(message: Message) -> None:
        handled.append(message)
        if len(handled) == 6:
            over.set()

    def handle(message: Message) -> None:
        if message.body == b"5":
            raise ValueError("poison")
        order[message.headers["key"]].append(int(message.body))
        count(message)

    def key(message: Message) -> str:
        assert isinstance(message, Message)
        return message.headers["key"]

    def bury(message: Message) -> str:
        assert isinstance(message, Message)
        count(message)
        return "/queue/dead"

    ctrl_c(over)
    with client.subscribe(QUEUE) as subscription, pytest.raises(KeyboardInterrupt):
        subscription.work(handle, workers=3, key=key, retry=Retry(attempts=1), dead_letter=bury)

    client.send("/queue/other", b"", receipt=True)
    assert (left(broker), len(bodies(broker, "/queue/dead"))) == (0, 1)
    assert (order["0"], order["1"], order["2"]) == ([0, 3], [1, 4], [2])


def test_work_when_a_key_function_waits_for_the_client_then_refused_instead_of_hanging(
    broker: ThreadedBroker, dead_end: Client
) -> None:
    fill(broker, 1)

    def key(message: Message) -> str:
        message.nack()
        return "never"

    with dead_end.subscribe(QUEUE) as subscription, pytest.raises(RuntimeError, match="wait for itself"):
        subscription.work(lambda _message: None, key=key, retry=Retry(attempts=1))


def test_work_when_a_handler_fails_for_good_and_nothing_takes_it_then_raised(
    broker: ThreadedBroker, dead_end: Client
) -> None:
    fill(broker, 1)

    def fail(_message: Message) -> None:
        raise ValueError("poison")

    with dead_end.subscribe(QUEUE) as subscription, pytest.raises(ValueError, match="poison"):
        subscription.work(fail, retry=Retry(attempts=1))


def test_work_when_messages_are_left_over_then_refused(broker: ThreadedBroker, client: Client) -> None:
    fill(broker, 10)
    with client.subscribe(QUEUE) as subscription:
        await_arrival(client, subscription, 10)
        # The others come with it into this thread.
        next(subscription)
        with pytest.raises(LocalProtocolError, match="9 messages are left over"):
            subscription.work(lambda _message: None)


def test_subscription_when_left_after_the_client_then_quiet(broker: ThreadedBroker) -> None:
    with trio_stomp.blocking.connect(broker.url) as client:
        manager = client.subscribe(QUEUE)
        subscription = manager.__enter__()

    with pytest.raises(ConnectionClosed):
        next(subscription)
    manager.__exit__(None, None, None)


# --- what brokers add -----------------------------------------------------------------------------------------------


def test_decode_when_given_then_makes_the_value_of_each_message(broker: ThreadedBroker, client: Client) -> None:
    fill(broker, 2)
    with client.subscribe(QUEUE, decode=int) as subscription:
        values: list[int] = []
        for message in subscription:
            with message:
                values.append(message.value + 1)
            if len(values) == 2:
                break

    assert values == [1, 2]
    assert subscription.codec.chosen


def test_delete_when_durable_then_the_broker_forgets_it_and_iteration_ends(client: Client) -> None:
    with client.subscribe("/topic/a", durable="mine") as subscription:
        for _ in range(3):
            client.send("/topic/a", b"x", receipt=True)
        next(subscription).ack(receipt=True)
        subscription.delete()

        assert list(subscription) == []
        with pytest.raises(LocalProtocolError):
            subscription.delete()
    with client.subscribe("/topic/a", durable="mine") as subscription:
        client.send("/topic/a", b"new", receipt=True)
        assert next(subscription).body == b"new"
