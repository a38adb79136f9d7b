import dataclasses

import pytest
import trio

import trio_stomp
from tests.cli.conftest import Cli
from trio_stomp.cli.move import Move, Mover, origin_of
from trio_stomp.cli.running import CommandFailed, ExitCode
from trio_stomp.errors import ConnectionLost, OutcomeUnknown, StompError, TransactionLost
from trio_stomp.testing import Broker, DropLink, SwallowReceipts, ThreadedBroker, open_broker
from trio_stomp.types import Command


def publish(broker: ThreadedBroker, *bodies: str) -> None:
    def inside(broker: Broker) -> None:
        for body in bodies:
            broker.publish("/queue/dlq", body, [("x-original-destination", "/queue/orders")] if body != "odd" else [])

    broker.call(inside)


def depth(broker: ThreadedBroker, destination: str) -> int:
    return broker.call(lambda inside: inside.depth(destination))


def test_move_when_done_then_says_how_many(cli: Cli, stomp_broker_thread: ThreadedBroker) -> None:
    publish(stomp_broker_thread, "one", "two", "three")

    one = cli("move", "/queue/dlq", "/queue/b", "-n", "1")
    rest = cli("move", "/queue/dlq", "/queue/b", "--idle", "0.1", "--grep", "two")

    assert (one.exit_code, one.stdout) == (0, "1 message moved\n")
    assert (rest.exit_code, rest.stdout) == (0, "1 message moved, 1 left where they were\n")
    assert (depth(stomp_broker_thread, "/queue/b"), depth(stomp_broker_thread, "/queue/dlq")) == (2, 1)


def test_move_when_some_have_no_origin_then_they_stay_and_it_says_so(
    cli: Cli, stomp_broker_thread: ThreadedBroker
) -> None:
    publish(stomp_broker_thread, "one", "odd", "two")

    done = cli("move", "/queue/dlq", "--to-origin", "--idle", "0.1")

    assert done.exit_code == ExitCode.FAILED
    assert done.stdout == "2 messages moved, 1 left where they were\n"
    assert "1 messages do not say where they came from" in done.stderr
    assert (depth(stomp_broker_thread, "/queue/orders"), depth(stomp_broker_thread, "/queue/dlq")) == (2, 1)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("/queue/a",), "where to?"),
        (("/queue/a", "/queue/b", "--to-origin"), "where to?"),
        (("/queue/a", "/queue/a"), "never end"),
        (("/queue/a", "/queue/b", "--grep", "("), "invalid regular expression"),
    ],
)
def test_move_when_it_cannot_be_meant_then_refused(cli: Cli, arguments: tuple[str, ...], why: str) -> None:
    done = cli("move", *arguments)

    assert done.exit_code == ExitCode.USAGE
    assert why in done.stderr


def test_move_when_it_cannot_connect_then_nothing_was_moved(cli: Cli, stomp_broker_thread: ThreadedBroker) -> None:
    stomp_broker_thread.call(Broker.stop_listening)

    done = cli("move", "/queue/a", "/queue/b")

    assert done.exit_code == ExitCode.NOT_CONNECTED
    assert done.stdout == "0 messages moved\n"


def a_move(
    *, count: int | None = None, match: tuple[tuple[str, str], ...] = (), target: str | None = "/queue/b"
) -> Move:
    return Move(
        source="/queue/a",
        target=target,
        to_origin=target is None,
        count=count,
        batch=3,
        idle=1.0,
        prefetch=5,
        match=match,
        header=(("moved", "yes"),),
    )


async def run(broker: Broker, mover: Mover) -> list[int]:
    """Move, over a link in memory; returns what the progress bar was told."""
    steps: list[int] = []
    async with (
        trio_stomp.connect_stream(broker.connect_stream()) as client,
        client.subscribe("/queue/a", prefetch=mover.prefetch) as subscription,
    ):
        await mover.run(client, subscription, steps.append)
    return steps


def fill(broker: Broker, count: int) -> None:
    for number in range(count):
        broker.publish("/queue/a", f"{number}", [("parity", str(number % 2)), ("priority", "9")])


def bodies(broker: Broker, destination: str) -> list[int]:
    return [int(message.body) for message in broker.messages(destination)]


async def test_move_when_nothing_is_left_then_all_went_in_order(autojump_clock: trio.testing.MockClock) -> None:
    async with open_broker(listen=False) as broker:
        fill(broker, 10)
        mover = Mover(a_move())

        steps = await run(broker, mover)

        assert bodies(broker, "/queue/b") == list(range(10))
        assert broker.depth("/queue/a") == broker.unacknowledged("/queue/a") == 0
        assert (mover.moved, mover.held) == (sum(steps), 0) == (10, 0)
        assert max(steps) <= 3
        headers = broker.messages("/queue/b")[0].headers
        assert (headers["moved"], headers["priority"]) == ("yes", "9")


async def test_move_when_it_is_enough_then_the_rest_stays(autojump_clock: trio.testing.MockClock) -> None:
    async with open_broker(listen=False) as broker:
        fill(broker, 10)

        await run(broker, Mover(a_move(count=4)))

        assert bodies(broker, "/queue/b") == [0, 1, 2, 3]
        assert bodies(broker, "/queue/a") == [4, 5, 6, 7, 8, 9]


async def test_move_when_some_are_not_meant_then_they_stay(autojump_clock: trio.testing.MockClock) -> None:
    async with open_broker(listen=False) as broker:
        fill(broker, 8)
        mover = Mover(a_move(match=(("parity", "0"),)))

        await run(broker, mover)

        assert bodies(broker, "/queue/b") == [0, 2, 4, 6]
        assert bodies(broker, "/queue/a") == [1, 3, 5, 7]
        assert mover.held == 4


async def test_move_when_those_fill_the_prefetch_then_says_so(autojump_clock: trio.testing.MockClock) -> None:
    async with open_broker(listen=False) as broker:
        fill(broker, 20)

        with pytest.raises(CommandFailed, match="raise --prefetch"):
            await run(broker, Mover(a_move(match=(("parity", "0"),))))

        assert broker.depth("/queue/a") + broker.depth("/queue/b") == 20


async def test_move_when_back_to_the_origin_then_each_to_its_own(autojump_clock: trio.testing.MockClock) -> None:
    async with open_broker(listen=False) as broker:
        broker.publish("/queue/a", "0", [("x-original-destination", "/queue/orders")])
        broker.publish("/queue/a", "1", [("original-destination", "/queue/invoices")])
        broker.publish("/queue/a", "2")
        mover = Mover(a_move(target=None))

        await run(broker, mover)

        assert bodies(broker, "/queue/orders") == [0]
        assert bodies(broker, "/queue/invoices") == [1]
        assert bodies(broker, "/queue/a") == [2]
        assert (mover.moved, mover.held, mover.homeless) == (2, 1, 1)


@pytest.mark.parametrize("size", range(100, 900, 100))
async def test_move_when_the_link_breaks_anywhere_then_no_message_is_lost(
    size: int, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_broker(listen=False) as broker:
        fill(broker, 5)
        broker.faults.plan(DropLink(after_received_bytes=size))

        with pytest.raises(StompError) as caught:
            await run(broker, Mover(a_move()))

        assert isinstance(caught.value, TransactionLost | OutcomeUnknown | ConnectionLost | trio_stomp.ConnectError)
        await broker.wait_until(lambda: not broker.sessions)
        assert sorted(bodies(broker, "/queue/a") + bodies(broker, "/queue/b")) == list(range(5))


@pytest.mark.parametrize("size", [500, 600, 700, 800, 900])
async def test_move_when_told_to_keep_on_then_goes_on_with_the_next_connection(size: int) -> None:
    async with open_broker() as broker:
        fill(broker, 30)
        broker.faults.plan(DropLink(after_received_bytes=size), connections=2)
        mover = Mover(dataclasses.replace(a_move(), idle=1.0), keep_on=True)
        reconnect = trio_stomp.Reconnect(first_delay=0)
        async with (
            trio_stomp.connect(broker.url, reconnect=reconnect) as client,
            client.subscribe("/queue/a", prefetch=5) as subscription,
        ):
            with trio.fail_after(60):
                await mover.run(client, subscription, lambda _: None)

        assert bodies(broker, "/queue/b") == list(range(30))
        assert broker.statistics().connections == 3
        assert mover.moved <= 30 <= mover.moved + mover.uncertain


async def test_move_when_commit_is_not_answered_then_the_outcome_is_unknown(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_broker(listen=False) as broker:
        fill(broker, 3)
        broker.faults.plan(SwallowReceipts(command=Command.COMMIT))

        async def drop() -> None:
            await broker.wait_until(lambda: broker.depth("/queue/b") == 3)
            broker.drop_connections()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(drop)
            with pytest.raises(OutcomeUnknown):
                await run(broker, Mover(a_move()))


@pytest.mark.parametrize(
    ("headers", "lies_in", "expected"),
    [
        ({"x-original-destination": "/queue/a", "x-first-death-queue": "b"}, "/queue/dlq", "/queue/a"),
        ({"x-first-death-queue": "a"}, "/queue/dlq", "/amq/queue/a"),
        ({"original-destination": "/queue/a"}, "/queue/ActiveMQ.DLQ", "/queue/a"),
        ({"_AMQ_ORIG_ADDRESS": "a"}, "/queue/DLQ", "/queue/a"),
        ({"_AMQ_ORIG_ADDRESS": "a"}, "DLQ", "a"),
        ({"dead-letter-source": "/queue/a"}, "/queue/dead-letter", "/queue/a"),
        ({"shop": "7"}, "/queue/dlq", None),
    ],
)
def test_origin_when_a_dead_letter_tells_it_then_found(
    headers: dict[str, str], lies_in: str, expected: str | None
) -> None:
    assert origin_of(headers, lies_in) == expected
