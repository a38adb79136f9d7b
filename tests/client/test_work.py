"""Pools of workers."""

import logging
import math
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Hashable
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio

import trio_stomp
from tests.kit.loops import on_loops
from tests.kit.reconnecting import reconnecting
from trio_stomp import BrokerError, Client, ConnectionLost, LocalProtocolError, Message, Retry, Subscription
from trio_stomp.testing import Broker, BrokerOptions, DropLink, open_broker

pytestmark = [pytest.mark.anyio, on_loops("trio")]

ONCE = Retry(attempts=1)
AT_ONCE = Retry(attempts=3, first_delay=0, max_delay=0)


async def put(broker: Broker, *bodies: str, headers: dict[str, str] | None = None) -> None:
    async with trio_stomp.connect_stream(broker.connect_stream()) as client:
        for body in bodies:
            await client.send("/queue/jobs", body, headers=headers)


@asynccontextmanager
async def jobs(
    broker: Broker, *bodies: str, prefetch: int = 100, seconds: float = math.inf
) -> AsyncGenerator[Subscription]:
    """A subscription to these jobs, and a time after which its block is canceled."""
    await put(broker, *bodies)
    async with (
        trio_stomp.connect_stream(broker.connect_stream()) as client,
        client.subscribe("/queue/jobs", prefetch=prefetch) as subscription,
    ):
        with trio.move_on_after(seconds):  # noqa: ASYNC100  # it is the block that waits
            yield subscription


class Handler:
    """Notes the text of each message that it handles, and fails with some of them."""

    def __init__(self, *bad: str, seconds: float = 0) -> None:
        self.handled: list[str] = []
        self._bad = bad
        self._seconds = seconds

    async def __call__(self, message: Message) -> None:
        await trio.sleep(self._seconds)
        self.handled.append(message.text)
        if message.text in self._bad:
            raise ValueError("never")


def left(broker: Broker) -> int:
    return broker.depth("/queue/jobs")


async def test_work_when_handlers_return_then_all_are_acknowledged_and_no_more_than_workers_run(broker: Broker) -> None:
    running, most = 0, 0
    handled: list[str] = []

    async def handle(message: Message) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await trio.sleep(1)
        running -= 1
        handled.append(message.text)

    async with jobs(broker, *map(str, range(50)), seconds=20) as subscription:
        await subscription.work(handle, workers=5)
    assert sorted(handled, key=int) == [str(number) for number in range(50)]
    assert most == 5
    assert left(broker) == 0


async def test_work_when_messages_have_a_key_then_each_key_keeps_its_order_even_across_retries(broker: Broker) -> None:
    async with trio_stomp.connect_stream(broker.connect_stream()) as client:
        for number in range(60):
            await client.send("/queue/jobs", str(number), headers={"account": str(number % 3)})
    handled: dict[str, list[int]] = defaultdict(list)
    failed: set[str] = set()

    async def handle(message: Message) -> None:
        await trio.sleep(0.5 if message.headers["account"] == "1" else 0.1)
        if int(message.text) % 7 == 0 and message.text not in failed:
            failed.add(message.text)
            raise RuntimeError("not yet")
        handled[message.headers["account"]].append(int(message.text))

    async with jobs(broker, seconds=100) as subscription:
        await subscription.work(handle, workers=8, key="account", retry=Retry(first_delay=3, random=lambda: 1.0))
    assert {key: len(numbers) for key, numbers in handled.items()} == {"0": 20, "1": 20, "2": 20}
    assert all(numbers == sorted(numbers) for numbers in handled.values())
    assert failed


async def test_work_when_one_key_backs_off_then_the_others_go_on(broker: Broker) -> None:
    times: list[tuple[str, float]] = []
    began = trio.current_time()

    async def handle(message: Message) -> None:
        await trio.lowlevel.checkpoint()
        times.append((message.text, trio.current_time() - began))
        if message.text == "bad" and len(times) < 4:
            raise RuntimeError("later")

    async with jobs(broker, "bad", "good", "good", seconds=100) as subscription:
        await subscription.work(
            handle, workers=1, key=lambda message: message.text, retry=Retry(first_delay=10, random=lambda: 1.0)
        )
    assert [text for text, _ in times] == ["bad", "good", "good", "bad"]
    assert times[2][1] < 1
    assert times[3][1] >= 10


async def test_work_when_a_message_is_poison_then_it_is_put_aside_and_never_loops(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    handle = Handler("poison")
    async with jobs(broker, "poison", "fine", seconds=100) as subscription:
        await subscription.work(handle, workers=1, retry=AT_ONCE, dead_letter="/queue/dead")
    assert sorted(handle.handled) == ["fine", "poison", "poison", "poison"]
    assert left(broker) == 0
    (letter,) = broker.messages("/queue/dead")
    assert letter.body == b"poison"
    assert "after 3 attempts: " in caplog.text


async def test_work_when_the_broker_has_dead_letters_then_they_are_used_without_a_destination(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    handle = Handler("poison")
    async with jobs(broker, "poison", seconds=10) as subscription:
        await subscription.work(handle, retry=ONCE)
    assert handle.handled == ["poison"]
    assert "after 1 attempt: " in caplog.text
    assert left(broker) == 0
    assert broker.depth("/queue/dead-letter") == 1


async def test_work_when_there_are_no_dead_letters_then_the_handlers_error_ends_it_as_itself(broker: Broker) -> None:
    await put(broker, "poison")
    mine = ValueError("never")

    async def handle(_message: Message) -> None:
        await trio.lowlevel.checkpoint()
        raise mine

    async with trio_stomp.connect_stream(broker.connect_stream(), profile="generic") as client:
        async with client.subscribe("/queue/jobs") as subscription:
            with pytest.raises(ValueError, match="never") as caught:
                await subscription.work(handle, retry=ONCE)
    assert caught.value is mine
    assert "failed in 1 attempt and stays unsettled" in caught.value.__notes__[0]
    assert "pass dead_letter= to work()" in caught.value.__notes__[0]
    assert left(broker) == 1


async def test_work_when_an_error_is_not_worth_a_retry_then_it_is_put_aside_at_once(broker: Broker) -> None:
    handle = Handler("a")
    retry = Retry(attempts=9, retry_on=lambda error: not isinstance(error, ValueError))
    async with jobs(broker, "a", seconds=10) as subscription:
        await subscription.work(handle, retry=retry, dead_letter=lambda message: f"/queue/{'dead'}")
    assert handle.handled == ["a"]
    assert broker.depth("/queue/dead") == 1


async def test_work_when_its_function_names_no_destination_then_the_error_says_so_and_the_message_stays(
    broker: Broker,
) -> None:
    async with jobs(broker, "a", seconds=10) as subscription:
        with pytest.raises(LocalProtocolError, match=r"what the function of dead_letter= returns must be .* None"):
            await subscription.work(Handler("a"), retry=AT_ONCE, dead_letter=lambda _message: None)  # type: ignore[arg-type,return-value]  # the mistake
    assert left(broker) == 1


async def test_work_when_the_broker_has_delivered_before_then_its_deliveries_count(broker: Broker) -> None:
    await put(broker, "a")
    for _ in range(2):
        async with jobs(broker) as subscription:
            await anext(subscription)  # and die of it
    handle = Handler("a")
    async with jobs(broker, seconds=10) as subscription:
        await subscription.work(handle, retry=AT_ONCE, dead_letter="/queue/dead")
    assert handle.handled == ["a"]
    (letter,) = broker.messages("/queue/dead")
    assert letter.headers["x-attempts"] == "3"


async def test_work_when_the_handler_settles_by_itself_then_that_stands(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    async def handle(message: Message) -> None:
        if message.text == "refuse":
            await message.nack(requeue=False)
        else:
            await message.ack()
            raise RuntimeError("too late")

    async with jobs(broker, "refuse", "ack and fail", seconds=10) as subscription:
        await subscription.work(handle)
    assert left(broker) == 0
    assert broker.depth("/queue/dead-letter") == 1
    assert "failed after it had settled" in caplog.text


def five_or_a_list(text: str) -> object:
    return text if text == "5" else [text]


@pytest.mark.parametrize(
    ("key", "error"),
    [
        pytest.param(int, "builtins.ValueError", id="fails"),
        pytest.param(five_or_a_list, "builtins.TypeError", id="cannot be hashed"),
    ],
)
async def test_work_when_the_key_is_of_no_use_then_that_is_the_messages_failure(
    broker: Broker, key: Callable[[str], Hashable], error: str
) -> None:
    handle = Handler()
    async with jobs(broker, "no number", "5", seconds=10) as subscription:
        await subscription.work(handle, key=lambda message: key(message.text), retry=AT_ONCE, dead_letter="/queue/dead")
    assert handle.handled == ["5"]
    (letter,) = broker.messages("/queue/dead")
    assert letter.headers["x-error-type"] == error


async def test_work_when_a_key_comes_again_after_its_messages_are_finished_then_it_is_handled(broker: Broker) -> None:
    handle = Handler()
    async with jobs(broker) as subscription, trio.open_nursery() as nursery:
        nursery.start_soon(partial(subscription.work, handle, key="account"))
        for body in "abc":
            await put(broker, body, headers={"account": "1"})
            await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert handle.handled == ["a", "b", "c"]


async def test_work_when_handlers_acknowledge_early_then_the_pool_holds_no_more_than_the_prefetch(
    broker: Broker,
) -> None:
    async def handle(message: Message) -> None:
        await message.ack()
        await trio.sleep(10)

    taken: list[int] = []
    async with jobs(broker, *map(str, range(12)), prefetch=3) as subscription, trio.open_nursery() as nursery:
        nursery.start_soon(partial(subscription.work, handle, workers=2))
        for _ in range(4):
            await trio.sleep(1)
            taken.append(subscription.statistics().delivered)
            await trio.sleep(9)
        nursery.cancel_scope.cancel()
    assert taken == [3, 5, 7, 9]


async def test_work_when_the_key_function_fails_for_several_then_none_waits_for_another(broker: Broker) -> None:
    began = trio.current_time()
    buried: list[float] = []

    def bury(_message: Message) -> str:
        buried.append(trio.current_time() - began)
        return "/queue/dead"

    async with jobs(broker, *"abc", seconds=30) as subscription:
        await subscription.work(
            Handler(),
            key=lambda message: int(message.text),
            retry=Retry(attempts=2, first_delay=5, max_delay=5, random=lambda: 1.0),
            dead_letter=bury,
        )
    assert buried == pytest.approx([5, 5, 5])


async def test_work_when_it_may_hold_a_single_message_then_it_takes_one_after_the_other(broker: Broker) -> None:
    handle = Handler(seconds=1)
    async with jobs(broker, *"abc", prefetch=1, seconds=10) as subscription:
        await subscription.work(handle, workers=1)
    assert handle.handled == ["a", "b", "c"]


async def test_work_when_a_message_lacks_the_key_header_then_it_is_handled_by_itself(broker: Broker) -> None:
    handle = Handler(seconds=1)
    async with jobs(broker, *"abc", seconds=1.5) as subscription:
        await subscription.work(handle, key="account", drain_timeout=0)
    assert sorted(handle.handled) == ["a", "b", "c"]


async def test_drain_when_cancelled_then_what_runs_ends_and_the_rest_is_given_back(broker: Broker) -> None:
    begun: list[str] = []
    ended: list[str] = []

    async def handle(message: Message) -> None:
        begun.append(message.text)
        await trio.sleep(5)
        ended.append(message.text)

    async with jobs(broker, *map(str, range(10))) as subscription:
        with trio.move_on_after(1):
            await subscription.work(handle, workers=3, drain_timeout=10)
        assert begun == sorted(ended) == ["0", "1", "2"]
    assert left(broker) == 7


async def test_drain_when_the_client_is_cancelled_too_then_what_was_handled_is_acknowledged(broker: Broker) -> None:
    handle = Handler(seconds=1)
    with trio.move_on_after(0.5):
        async with jobs(broker, "a", "b") as subscription:
            await subscription.work(handle, workers=1)
    await broker.wait_until(lambda: broker.unacknowledged("/queue/jobs") == 0)
    assert handle.handled == ["a"]
    assert left(broker) == 1


@pytest.mark.parametrize("seconds", [0, 2])
async def test_drain_when_handlers_take_too_long_then_they_are_cancelled_and_their_messages_come_again(
    seconds: int, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    began = trio.current_time()
    async with jobs(broker, "a", "b", seconds=1) as subscription:
        await subscription.work(Handler(seconds=math.inf), drain_timeout=seconds)
    assert trio.current_time() - began == pytest.approx(1 + seconds)
    assert left(broker) == 2
    assert "2 handlers" in caplog.text


async def test_drain_when_a_handler_fails_for_good_then_its_error_is_not_lost_with_the_cancellation(
    broker: Broker,
) -> None:
    await put(broker, "poison")
    mine = ValueError("never")

    async def handle(_message: Message) -> None:
        await trio.sleep(5)
        raise mine

    async with trio_stomp.connect_stream(broker.connect_stream(), profile="generic") as client:
        async with client.subscribe("/queue/jobs") as subscription:
            with pytest.raises(ValueError, match="never") as caught:
                with trio.move_on_after(1):
                    await subscription.work(handle, retry=ONCE, drain_timeout=10)
    assert caught.value is mine


async def test_drain_when_a_message_waits_for_its_retry_then_it_is_not_waited_for(broker: Broker) -> None:
    began = trio.current_time()
    async with jobs(broker, "a", seconds=1) as subscription:
        await subscription.work(Handler("a"), retry=Retry(first_delay=30, random=lambda: 1.0), drain_timeout=20)
    assert trio.current_time() - began == pytest.approx(1)
    assert left(broker) == 1


async def test_work_when_the_link_is_lost_then_it_raises_that_and_running_handlers_may_end(broker: Broker) -> None:
    ended: list[str] = []

    async def handle(message: Message) -> None:
        broker.faults.now(DropLink())
        await trio.sleep(3)
        ended.append(message.text)

    async with jobs(broker, "a") as subscription:
        with pytest.raises(ConnectionLost):
            await subscription.work(handle)
    assert ended == ["a"]
    assert left(broker) == 1


async def test_work_when_the_client_reconnects_then_it_goes_on_and_stale_messages_are_not_begun(broker: Broker) -> None:
    await put(broker, *map(str, range(20)))
    handled: list[str] = []

    async def handle(message: Message) -> None:
        await trio.sleep(1)
        handled.append(message.text)
        if len(handled) == 5:
            broker.faults.now(DropLink())

    async with reconnecting(broker) as client, client.subscribe("/queue/jobs") as subscription:
        with trio.move_on_after(60):
            await subscription.work(handle, workers=2)
        assert client.statistics().reconnections == 1
    assert set(handled) == {str(number) for number in range(20)}
    # What was running at the loss came twice, and what was acknowledged into the outbox in vain; nothing that waited.
    assert len(handled) <= 20 + 6
    assert left(broker) == 0


async def test_work_when_the_dead_letter_destination_is_refused_then_the_broker_error_ends_it() -> None:
    async with open_broker(listen=False, options=BrokerOptions(max_queue_length=1)) as broker:
        async with trio_stomp.connect_stream(broker.connect_stream()) as client:
            await client.send("/queue/dead", "it is full", receipt=True)
        async with jobs(broker, "poison") as subscription:
            with pytest.raises(BrokerError):
                await subscription.work(Handler("poison"), retry=ONCE, dead_letter="/queue/dead")


async def test_work_when_a_policy_raises_then_that_ends_it_as_itself(broker: Broker) -> None:
    def choose(_message: Message) -> str:
        raise LookupError("nowhere")

    async with jobs(broker, "poison") as subscription:
        with pytest.raises(LookupError, match="nowhere"):
            await subscription.work(Handler("poison"), retry=ONCE, dead_letter=choose)
    assert left(broker) == 1


async def test_work_when_the_function_returns_where_the_message_came_from_then_refused_and_the_message_stays(
    broker: Broker,
) -> None:
    said = r"what the function of dead_letter= returns must not be what the subscription reads, got '/queue/jobs'"
    handle = Handler("poison")
    async with jobs(broker, "poison", seconds=60) as subscription:
        with pytest.raises(LocalProtocolError, match=said):
            await subscription.work(handle, retry=ONCE, dead_letter=lambda message: message.destination)
    assert handle.handled == ["poison"]
    assert left(broker) == 1


def own_destination(message: Message) -> str:
    return message.destination


def destination_read(message: Message) -> str:
    return message.subscription.destination


@pytest.mark.parametrize("dead_letter", ["/topic/jobs.7", own_destination, destination_read])
async def test_work_when_a_dead_letter_would_come_back_through_a_pattern_then_refused(
    client: Client, dead_letter: str | Callable[[Message], str]
) -> None:
    handle = Handler("poison")
    async with client.subscribe("/topic/jobs.*") as subscription:
        await client.send("/topic/jobs.7", "poison")
        with trio.fail_after(60), pytest.raises(LocalProtocolError, match="would come back without end"):
            await subscription.work(handle, retry=ONCE, dead_letter=dead_letter)
    assert handle.handled == ["poison"]


async def test_work_when_a_handler_blocks_then_its_name_is_reported_unless_turned_off(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    async def a_slow_handler(_message: Message) -> None:
        await trio.lowlevel.checkpoint()
        # The clock of the test is virtual; here real time has to pass.
        began = time.perf_counter()
        while time.perf_counter() - began < 0.02:
            pass

    caplog.set_level(logging.WARNING, "trio_stomp")
    reports: list[list[str]] = []
    async with jobs(broker, "a") as subscription:
        for after in (0.01, math.inf):
            with trio.move_on_after(10):
                await subscription.work(a_slow_handler, report_blocking_after=after)
            await put(broker, "b")
            reports.append(caplog.messages)
            caplog.clear()
    # On a busy machine, the step before the slow one may take long too.
    assert reports[0]
    assert all("a_slow_handler has blocked the event loop for " in each for each in reports[0])
    assert not reports[1]


async def test_work_when_the_subscription_is_left_meanwhile_then_it_ends_well(broker: Broker, client: Client) -> None:
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            async with client.subscribe("/queue/jobs") as subscription:
                nursery.start_soon(subscription.work, Handler())  # noqa: ASYNC111  # it ends with the subscription
                await trio.sleep(1)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"workers": "5"}, "workers must be an int of at least 1, got '5'"),
        ({"drain_timeout": -1}, "drain_timeout must be a number of seconds, 0 or more, got -1"),
        ({"report_blocking_after": "1"}, "report_blocking_after must be a number of seconds, 0 or more, got '1'"),
        ({"retry": True}, r"retry must be a Retry, such as Retry\(attempts=3\), got True"),
        ({"key": 5}, "key must be the name of a header, or a plain .* function of the message, got 5"),
        ({"dead_letter": 5}, "dead_letter must be a destination, or a plain .* function of the message, got 5"),
        ({"dead_letter": ""}, "dead_letter must be a destination, or a plain .* function of the message, got ''"),
        ({"around": 5}, "around must be a list of functions of the message that return context managers, got 5"),
        ({"around": "trace"}, "around must be a list of functions .*, got 'trace'"),
    ],
)
async def test_work_when_an_argument_cannot_be_meant_then_it_says_so(
    broker: Broker, wrong: dict[str, object], said: str
) -> None:
    async with jobs(broker) as subscription:
        with pytest.raises(LocalProtocolError, match=said):
            await subscription.work(Handler(), **wrong)  # type: ignore[arg-type]  # the point of the test


async def test_work_when_the_subscription_settles_nothing_then_it_is_refused(client: Client) -> None:
    async with client.subscribe("/queue/jobs", ack="auto") as subscription:
        with pytest.raises(LocalProtocolError, match=r"needs ack='client-individual', not 'auto'$"):
            await subscription.work(Handler())


async def test_work_when_a_handler_fails_for_good_then_no_further_message_is_begun() -> None:
    handle = Handler("bad", "next", "last")
    # It has no certain dead letters, so that the error ends the pool.
    async with open_broker(listen=False, options=BrokerOptions(server="RabbitMQ/4.1")) as broker:
        began = trio.current_time()
        async with jobs(broker, "bad", "next", "last") as subscription:
            with trio.move_on_after(60), pytest.raises(ValueError, match="never"):
                await subscription.work(handle, workers=1, retry=ONCE)
        assert trio.current_time() - began < 1
    assert handle.handled == ["bad"]


@pytest.mark.parametrize("recovers", [True, False])
async def test_work_when_a_message_is_finished_then_another_one_with_its_id_has_all_attempts_again(
    broker: Broker, *, recovers: bool
) -> None:
    attempts = 0

    async def handle(_message: Message) -> None:
        nonlocal attempts
        await trio.lowlevel.checkpoint()
        attempts += 1
        if not recovers or attempts % 2:
            raise ValueError

    retry = Retry(attempts=2, first_delay=0)
    async with jobs(broker) as subscription, trio.open_nursery() as nursery:
        nursery.start_soon(partial(subscription.work, handle, retry=retry, dead_letter="/queue/dead"))
        for _ in range(2):
            await put(broker, "1", headers={"dedup-id": "same"})
            await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert attempts == 4
    assert broker.depth("/queue/dead") == (0 if recovers else 2)


@pytest.mark.parametrize(
    ("headers", "handled"), [(None, ["1", "1", "2", "2"]), ({"dedup-id": "same"}, ["1", "1", "2"])], ids=["two", "one"]
)
async def test_work_when_it_comes_twice_by_its_stable_id_then_attempts_count_together_and_otherwise_each_by_itself(
    broker: Broker, headers: dict[str, str] | None, handled: list[str]
) -> None:
    handle = Handler("1", "2")
    retry = Retry(attempts=2, first_delay=5, max_delay=5, random=lambda: 1.0)
    async with jobs(broker) as subscription, trio.open_nursery() as nursery:
        nursery.start_soon(partial(subscription.work, handle, retry=retry, dead_letter="/queue/dead"))
        await put(broker, "1", headers=headers)
        # The second fails while the first waits for its second attempt.
        await trio.sleep(1)
        await put(broker, "2", headers=headers)
        await trio.sleep(20)
        nursery.cancel_scope.cancel()
    assert sorted(handle.handled) == handled
