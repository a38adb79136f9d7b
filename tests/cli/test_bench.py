import json

import pytest
import trio

import trio_stomp
from tests.cli.conftest import Cli
from trio_stomp.cli.bench import Bench, Measured, percentile, results, run_bench
from trio_stomp.cli.running import CommandFailed, ExitCode
from trio_stomp.errors import BrokerError, StompError
from trio_stomp.testing import Broker, BrokerOptions, MemoryLink, ThreadedBroker, open_broker


def test_bench_when_run_then_prints_a_table(cli: Cli) -> None:
    done = cli("bench", "-n", "200")

    assert done.exit_code == 0
    for name in ("sent", "received", "bodies", "50 % within", "slowest"):
        assert name in done.stdout


def test_bench_when_json_is_wanted_then_prints_numbers(cli: Cli, stomp_broker_thread: ThreadedBroker) -> None:
    done = cli("bench", "/queue/a", "-n", "200", "-s", "50", "--no-receipt", "--json")

    assert done.exit_code == 0, done.output
    numbers = json.loads(done.stdout)
    assert numbers["server"].startswith("trio-stomp-testing")
    assert numbers["messages"] == 200
    assert 0 < numbers["latency_p50_seconds"] <= numbers["latency_p100_seconds"] < numbers["total_seconds"]
    assert stomp_broker_thread.call(lambda inside: inside.depth("/queue/a")) == 0


def test_bench_when_the_size_is_too_small_then_refused(cli: Cli) -> None:
    assert cli("bench", "-s", "7").exit_code == ExitCode.USAGE


def test_results_when_computed_then_rates_and_percentiles() -> None:
    measured = Measured(sent=100, received=100, sending=2.0, total=4.0, latencies=[n / 1000 for n in range(1, 101)])

    assert results(measured, 40) == {
        "messages": 100,
        "sending_seconds": 2.0,
        "total_seconds": 4.0,
        "sent_per_second": 50.0,
        "received_per_second": 25.0,
        "bytes_per_second": 1000.0,
        "latency_p50_seconds": 0.05,
        "latency_p95_seconds": 0.095,
        "latency_p99_seconds": 0.099,
        "latency_p100_seconds": 0.1,
    }


class TestRabbitmq:
    @pytest.fixture
    def stomp_broker_options(self) -> BrokerOptions:
        return BrokerOptions(server="RabbitMQ/3.13.0", ack_is_message_id=True)

    def test_bench_when_the_broker_would_keep_its_queue_for_ever_then_asks_it_not_to(
        self, cli: Cli, stomp_broker_thread: ThreadedBroker
    ) -> None:
        done = cli("bench", "-n", "10")

        assert done.exit_code == 0
        assert "RabbitMQ/3.13.0" in done.stdout


class SlowStream(trio.abc.Stream):
    """A stream on which what is sent after the CONNECT arrives late."""

    def __init__(self, stream: MemoryLink, seconds: float) -> None:
        self._stream = stream
        self._seconds = seconds
        self._sent = 0

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        self._sent += 1
        if self._sent > 1:
            await trio.sleep(self._seconds)
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return await self._stream.receive_some(max_bytes)

    async def aclose(self) -> None:
        await self._stream.aclose()


def _uncounted(_messages: int) -> None:
    """No progress bar."""


async def measured(broker: Broker, bench: Bench) -> tuple[Measured, int]:
    """What was measured, and what the progress bar was told."""
    steps: list[int] = []
    async with (
        trio_stomp.connect_stream(broker.connect_stream()) as sender,
        trio_stomp.connect_stream(broker.connect_stream()) as receiver,
    ):
        found = await run_bench(bench, sender, receiver, steps.append)
    return found, sum(steps)


@pytest.mark.parametrize("receipt", [True, False])
@pytest.mark.parametrize("ack", ["client-individual", "client", "auto"])
async def test_bench_when_run_then_every_message_was_out_and_back(
    receipt: bool, ack: str, autojump_clock: trio.testing.MockClock
) -> None:
    bench = Bench(destination="/queue/a", messages=2500, receipt=receipt, ack=ack, prefetch=10)
    async with open_broker(listen=False) as broker:
        found, advanced = await measured(broker, bench)

        assert (found.sent, found.received, len(found.latencies), advanced) == (2500, 2500, 2500, 2500)
        assert broker.depth("/queue/a") == broker.unacknowledged("/queue/a") == 0


async def test_bench_when_messages_do_not_come_back_then_says_so(autojump_clock: trio.testing.MockClock) -> None:
    async with open_broker(listen=False, options=BrokerOptions(max_queue_length=10)) as broker:
        # A topic that overflows loses its oldest messages.
        bench = Bench(destination="/topic/a", messages=1000, receipt=False, prefetch=1, patience=3)

        with pytest.raises(CommandFailed, match="of 1000 messages came back, none in the last 3 s") as caught:
            await measured(broker, bench)

    assert caught.value.code is ExitCode.TIMED_OUT


async def test_bench_when_the_broker_refuses_then_that_is_the_error(autojump_clock: trio.testing.MockClock) -> None:
    async with open_broker(listen=False) as broker:
        with pytest.raises(BrokerError):
            await measured(broker, Bench(destination="/nowhere/a", messages=10))


async def test_bench_when_the_broker_goes_away_then_that_is_the_error(autojump_clock: trio.testing.MockClock) -> None:
    async with open_broker(listen=False) as broker, trio.open_nursery() as nursery:

        async def drop() -> None:
            await broker.wait_until(lambda: broker.statistics().received_bytes > 20_000)
            broker.drop_connections()

        nursery.start_soon(drop)
        with pytest.raises(StompError):
            await measured(broker, Bench(destination="/queue/a", messages=100_000))


@pytest.mark.parametrize(("percent", "value"), [(0, 1), (50, 2), (75, 3), (76, 4), (100, 4)])
def test_percentile_when_of_four_values_then_one_of_them(percent: float, value: float) -> None:
    assert percentile([3, 1, 4, 2], percent) == value


def test_percentile_when_of_nothing_then_refused() -> None:
    with pytest.raises(ValueError, match="no percentile"):
        percentile([], 50)


async def test_bench_when_subscribe_is_not_answered_then_begins_when_messages_arrive(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """What is sent to a topic before its SUBSCRIBE was handled is lost."""
    bench = Bench(destination="/topic/a", messages=100, receipt=False, ack="auto")
    steps: list[int] = []
    async with (
        open_broker(listen=False) as broker,
        trio_stomp.connect_stream(broker.connect_stream(), profile="generic") as sender,
        trio_stomp.connect_stream(SlowStream(broker.connect_stream(), 0.35), profile="generic") as receiver,
    ):
        found = await run_bench(bench, sender, receiver, steps.append)

    assert (found.sent, found.received, sum(steps)) == (100, 100, 100)


async def test_bench_when_nothing_ever_arrives_then_says_so(autojump_clock: trio.testing.MockClock) -> None:
    bench = Bench(destination="/topic/a", messages=100, receipt=False, ack="auto", patience=3)
    with pytest.raises(CommandFailed, match="no probe sent to /topic/a arrived within 3 s") as caught:
        async with (
            open_broker(listen=False) as broker,
            trio_stomp.connect_stream(broker.connect_stream(), profile="generic") as sender,
            trio_stomp.connect_stream(SlowStream(broker.connect_stream(), 60), profile="generic") as receiver,
        ):
            await run_bench(bench, sender, receiver, _uncounted)

    assert caught.value.code is ExitCode.TIMED_OUT


@pytest.mark.parametrize(
    ("bench", "option"),
    [
        (Bench(destination="/topic/a", messages=1, ack="auto"), "--no-receipt"),
        (Bench(destination="/topic/a", messages=1, receipt=False), "--ack auto"),
    ],
)
async def test_bench_when_the_broker_cannot_do_that_then_names_the_option(
    bench: Bench, option: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with (
        open_broker(listen=False) as broker,
        trio_stomp.connect_stream(broker.connect_stream(), profile="spring") as client,
    ):
        with pytest.raises(CommandFailed, match=f"use {option}") as caught:
            await run_bench(bench, client, client, _uncounted)

    assert caught.value.code is ExitCode.USAGE
