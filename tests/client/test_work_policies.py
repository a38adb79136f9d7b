"""The policies of a worker pool: retries, the headers of dead letters, the report of handlers that block."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import pytest
import trio
import trio.testing

import trio_stomp
from tests.client.clients import client_talking_to
from tests.kit.costs import count_calls
from tests.kit.loops import on_loops
from trio_stomp import Client, LocalProtocolError, Message, Retry
from trio_stomp.client.dead_letters import FailureCounts
from trio_stomp.client.work import BlockingReport
from trio_stomp.testing import Broker, ScriptedPeer
from trio_stomp.types import Command, Frame, Headers

pytestmark = [pytest.mark.anyio, on_loops("trio")]


def is_first(error: Exception) -> bool:
    return str(error) == "1"


async def not_plain(_error: Exception) -> bool:  # noqa: ASYNC124  # what is refused
    return True


def test_repr_when_a_policy_is_logged_then_it_shows_no_address_of_its_source_of_chance() -> None:
    assert "random" not in repr(Retry(random=lambda: 0.5))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"attempts": "3"}, "attempts must be an int of at least 1, got '3'"),
        ({"first_delay": "1"}, "delays must be 0 <= first_delay <= max_delay, got '1' and 30.0"),
        (
            {"retry_on": True},
            "retry_on must be an exception class, a tuple of them, or a plain .* function .*, got True",
        ),
        ({"retry_on": int}, "retry_on must be an exception class, .*, got <class 'int'>"),
        ({"retry_on": (OSError, 5)}, r"retry_on must be an exception class, .*, got \(<class 'OSError'>, 5\)"),
        ({"retry_on": [OSError]}, r"retry_on must be an exception class, .*, got \[<class 'OSError'>\]"),
        ({"retry_on": not_plain}, "retry_on must be .* a plain .* function of the error, got <function not_plain"),
    ],
)
def test_retry_when_it_cannot_be_meant_then_it_says_what_was_expected(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(LocalProtocolError, match=said):
        Retry(**wrong)  # type: ignore[arg-type]  # what a program without type checker would pass


@pytest.mark.parametrize(
    ("retry_on", "taken"),
    [
        (OSError, [True, True, False]),
        (TimeoutError, [False, True, False]),
        ((TimeoutError, ValueError), [False, True, True]),
        ((), [False, False, False]),
        (is_first, [True, False, False]),
    ],
)
def test_retry_when_given_classes_or_a_function_then_those_errors_are_worth_another_attempt(
    retry_on: type[Exception] | tuple[type[Exception], ...] | Callable[[Exception], bool], taken: list[bool]
) -> None:
    retry = Retry(retry_on=retry_on)
    assert [retry.takes(error) for error in (OSError("1"), TimeoutError("2"), ValueError("3"))] == taken


def test_counts_when_very_many_then_the_oldest_are_forgotten_first() -> None:
    counts = FailureCounts()
    for number in range(10_000):
        counts.note(f"m-{number}", 1)
    counts.note("m-0", 2)
    counts.note("one more", 1)
    assert counts.of("m-0") == 2
    assert counts.of("m-1") == 0
    assert counts.of("m-2") == 1


# --- dead letters -----------------------------------------------------------------------------------------------------


class Unlucky(Exception):
    """What a handler raises."""


async def dead_letter_of(client: Client, broker: Broker, said: str, headers: dict[str, str] | None = None) -> Headers:
    """The headers of the dead letter of a message whose handler says this each time."""

    async def fail(_message: Message) -> None:
        await trio.lowlevel.checkpoint()
        raise Unlucky(said)

    await client.send("/queue/orders", b"tea", headers=headers)
    async with client.subscribe("/queue/orders") as orders:
        with trio.move_on_after(60):
            await orders.work(fail, retry=Retry(attempts=3, first_delay=0), dead_letter="/queue/dead")
    (letter,) = broker.messages("/queue/dead")
    return letter.headers


async def test_dead_letter_when_a_message_fails_then_its_headers_tell_the_cause(client: Client, broker: Broker) -> None:
    began = time.time()
    given = {"shop": "7", "dedup-id": "d-1", "reply-to": "/queue/answers", "_AMQ_GROUP_ID": "g"}
    headers = dict(await dead_letter_of(client, broker, "no\nluck", given))
    assert began - 1 < int(headers.pop("x-failed-at")) / 1000 < time.time() + 1
    assert headers == {
        "shop": "7",
        "persistent": "true",
        "x-original-destination": "/queue/orders",
        "x-original-message-id": "d-1",
        "x-original-reply-to": "/queue/answers",
        "x-error-type": "tests.client.test_work_policies.Unlucky",
        "x-error-message": "no luck",
        "x-attempts": "3",
    }


async def test_dead_letter_when_it_fails_again_then_the_newest_cause_counts(client: Client, broker: Broker) -> None:
    headers = await dead_letter_of(client, broker, "the second", {"x-error-message": "the first", "x-attempts": "9"})
    assert headers.get_all("x-error-message") == ("the second",)
    assert headers.get_all("x-attempts") == ("3",)


@pytest.mark.parametrize("version", ["1.1", "1.2"])
async def test_dead_letter_when_the_error_says_what_no_header_can_then_every_version_carries_it(
    broker: Broker, version: str, caplog: pytest.LogCaptureFixture
) -> None:
    # pytest-xdist cannot hand on what the log has: its traceback shows the error as it is.
    caplog.set_level(logging.CRITICAL, "trio_stomp")
    async with trio_stomp.connect_stream(broker.connect_stream(), versions=[version]) as client:
        headers = await dead_letter_of(client, broker, "a\0b\r\n: c \ud800")
    assert headers["x-error-message"] == "a b : c ?"


@pytest.mark.parametrize(
    ("said", "carried"),
    [("x" * 500, "x" * 500), ("x" * 501, "x" * 497 + "..."), ("\0 \n", "")],
)
async def test_dead_letter_when_the_error_is_long_then_its_text_has_at_most_500_characters(
    client: Client, broker: Broker, said: str, carried: str
) -> None:
    assert (await dead_letter_of(client, broker, said))["x-error-message"] == carried


OF_THE_DELIVERY = {
    "delivery-count": "1",
    "expiration": "1700000000000",
    "expires": "1700000000000",
    "ingress-timestamp": "1700000000000",
    "receipt-id": "r-9",
    "redelivered": "true",
    "reply-to": "/queue/answers",
    "user-id": "guest",
    "x-acquired-count": "1",
    "x-delivery-count": "1",
}


@pytest.mark.parametrize(("version", "cr"), [("1.1", r"a\x0db"), ("1.2", "a\rb")])
async def test_dead_letter_when_sent_then_it_has_no_header_of_the_delivery_and_those_that_no_frame_can_carry_escaped(
    version: str, cr: str
) -> None:
    """RabbitMQ passes on what AMQP publishers write."""
    dead: list[Frame] = []

    async def serve(peer: ScriptedPeer) -> None:
        await peer.accept_connect(version=version, server="RabbitMQ/4.3.6")
        await peer.confirm(await peer.expect(Command.SUBSCRIBE, id="s"))
        head = b"MESSAGE\nsubscription:s\nmessage-id:m\nack:m\ndestination:/queue/a\nshop:7\ncontent-length:1\n"
        head += b"persistent:false\nreceipt:r-9\ntransaction:t-1\n"
        head += "".join(f"{name}:{value}\n" for name, value in OF_THE_DELIVERY.items()).encode()
        await peer.send_bytes(head + b"nul\0:a\0b\ncr:a\\rb\nbytes:caf\xe9\n:v\n\nx\0")
        while not dead or dead[-1].command is not Command.DISCONNECT:
            dead.append(await peer.next_frame())
            if "receipt" in dead[-1].headers:
                await peer.confirm(dead[-1])

    async def handle(_message: Message) -> None:
        await trio.lowlevel.checkpoint()
        raise Unlucky

    async with client_talking_to(serve) as client, client.subscribe("/queue/a", id="s") as jobs:
        with trio.move_on_after(3):
            await jobs.work(handle, retry=Retry(attempts=1), dead_letter="/queue/dead")

    (letter,) = [frame.headers for frame in dead if frame.command is Command.SEND]
    names = {name for name, _ in letter.items()}
    assert not names & {*OF_THE_DELIVERY, "subscription", "message-id", "ack", ""}
    assert letter.get_all("destination") == ("/queue/dead",)
    assert letter.get_all("persistent") == ("true",)
    assert "t-1" not in letter.get_all("transaction")
    assert "r-9" not in letter.get_all("receipt")
    assert letter["shop"] == "7"
    assert (letter[r"nul\x00"], letter["cr"], letter["bytes"]) == (r"a\x00b", cr, r"caf\udce9")
    assert Command.ACK in [frame.command for frame in dead]


# --- handlers that block ----------------------------------------------------------------------------------------------


class Clock:
    """Real time, as the test says."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("steps", "reported"), [([0.4, 2.25, 0.3], ["2.25"]), ([0.25, 0.49], []), ([0.5], ["0.50"]), ([1, 1], ["1.00"] * 2)]
)
async def test_report_when_steps_take_as_long_as_the_limit_then_name_and_time_are_logged(
    caplog: pytest.LogCaptureFixture, steps: list[float], reported: list[str]
) -> None:
    clock = Clock()

    async def handle() -> None:
        for seconds in steps:
            clock.now += seconds
            await trio.lowlevel.checkpoint()

    with caplog.at_level(logging.WARNING, "trio_stomp"):
        await BlockingReport("orders.handle", after=0.5, clock=clock).watch(handle())
    expected = [f"handler orders.handle has blocked the event loop for {seconds} s" for seconds in reported]
    assert [record.message.partition(",")[0] for record in caplog.records] == expected


async def test_report_when_other_tasks_block_while_the_handler_waits_then_it_is_not_its_business(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()

    async def block() -> None:
        await trio.sleep(0.5)
        clock.now += 10

    async def handle() -> None:
        await trio.sleep(1)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(block)
        await BlockingReport("handle", after=0.5, clock=clock).watch(handle())
    assert caplog.records == []


async def test_report_when_the_handler_raises_at_the_end_of_a_long_step_then_both_are_seen(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock, mine = Clock(), RuntimeError("mine")

    async def handle() -> None:
        await trio.lowlevel.checkpoint()
        clock.now += 1
        raise mine

    with caplog.at_level(logging.WARNING, "trio_stomp"), pytest.raises(RuntimeError) as caught:
        await BlockingReport("handle", after=0.5, clock=clock).watch(handle())
    assert caught.value is mine
    assert len(caplog.records) == 1


async def test_watched_handler_when_it_is_cancelled_then_it_cleans_up_and_the_cancellation_goes_on() -> None:
    seen: list[str] = []

    async def handle() -> None:
        with trio.move_on_after(1):
            await trio.sleep(5)
        seen.append("own timeout")
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(1)
            seen.append("cleaned up")

    with trio.move_on_after(3) as scope:
        await BlockingReport("handle", after=0.5).watch(handle())
    assert scope.cancelled_caught
    assert seen == ["own timeout", "cleaned up"]


async def test_work_when_idle_then_a_step_of_another_task_costs_nothing_more(client: Client) -> None:
    async def calls_of_steps() -> int:
        await trio.testing.wait_all_tasks_blocked()
        with count_calls() as calls:
            for _ in range(100):
                await trio.lowlevel.checkpoint()
        return calls.count

    async def fewest_calls_of_steps() -> int:
        # A collection of garbage in the middle of a round adds calls of its own.
        return min([await calls_of_steps() for _ in range(3)])

    async def handle(_message: Message) -> None:
        await trio.lowlevel.checkpoint()

    alone = await fewest_calls_of_steps()
    async with (
        client.subscribe("/queue/a") as first,
        client.subscribe("/queue/b") as second,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(first.work, handle)
        nursery.start_soon(second.work, handle)
        assert await fewest_calls_of_steps() <= alone
        nursery.cancel_scope.cancel()
