import json

import pytest
import trio

import trio_stomp
from tests.cli.conftest import Cli, left
from tests.cli.exit_code import ExitCode
from trio_stomp.cli.bench import Bench, Measured, results, run_bench
from trio_stomp.cli.running import CommandFailed
from trio_stomp.errors import StompError
from trio_stomp.testing import Broker, BrokerOptions, StallReading, ThreadedBroker, open_broker


def test_bench_when_run_then_prints_a_table(cli: Cli) -> None:
    done = cli("bench", "-n", "200")

    assert done.exit_code == 0
    for name in ("sent", "received", "bodies", "50 % within", "slowest"):
        assert name in done.stdout


@pytest.mark.parametrize("receipt", ["--receipt", "--no-receipt"])
@pytest.mark.parametrize("ack", ["client-individual", "client", "auto"])
def test_bench_when_json_is_wanted_then_prints_numbers_and_every_message_was_out_and_back(
    cli: Cli, stomp_broker_thread: ThreadedBroker, receipt: str, ack: str
) -> None:
    # More than the command hands over at once.
    done = cli("bench", "/queue/a", "-n", "1100", "-s", "50", "--prefetch", "10", "--ack", ack, receipt, "--json")

    assert done.exit_code == 0, done.output
    numbers = json.loads(done.stdout)
    assert numbers["server"].startswith("trio-stomp-testing")
    assert numbers["messages"] == 1100
    assert 0 < numbers["latency_p50_seconds"] <= numbers["latency_p100_seconds"] < numbers["total_seconds"]
    assert left(stomp_broker_thread) == 0


def test_bench_when_the_broker_refuses_its_queue_then_says_why(cli: Cli) -> None:
    done = cli("bench", "/nowhere/a")

    assert done.exit_code == ExitCode.FAILED
    assert "/nowhere/a" in done.stderr


def test_results_when_computed_then_rates_and_percentiles() -> None:
    latencies = [n / 1000 for n in range(30, 0, -1)]
    measured = Measured(sent=100, received=100, sending=2.0, total=4.0, latencies=latencies)

    # Each percentile is one of the values.
    assert results(measured, 40) == {
        "messages": 100,
        "sending_seconds": 2.0,
        "total_seconds": 4.0,
        "sent_per_second": 50.0,
        "received_per_second": 25.0,
        "bytes_per_second": 1000.0,
        "latency_p50_seconds": 0.015,
        "latency_p95_seconds": 0.029,
        "latency_p99_seconds": 0.03,
        "latency_p100_seconds": 0.03,
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


async def measured(broker: Broker, bench: Bench) -> Measured:
    async with (
        trio_stomp.connect_stream(broker.connect_stream()) as sender,
        trio_stomp.connect_stream(broker.connect_stream()) as receiver,
    ):
        return await run_bench(bench, sender, receiver, lambda _messages: None)


async def measured_when_the_subscription_is_late(broker: Broker, bench: Bench) -> Measured:
    """As at a broker that does not answer SUBSCRIBE, and gets it when its faults end."""
    async with (
        trio_stomp.connect_stream(broker.connect_stream(), profile="generic") as sender,
        trio_stomp.connect_stream(broker.connect_stream(), profile="generic") as receiver,
    ):
        broker.faults.now(StallReading(), session_id=receiver.session_id)
        return await run_bench(bench, sender, receiver, lambda _messages: None)


async def test_bench_when_messages_do_not_come_back_then_says_so(autojump_clock: trio.testing.MockClock) -> None:
    async with open_broker(listen=False, options=BrokerOptions(max_queue_length=10)) as broker:
        # A topic that overflows loses its oldest messages.
        bench = Bench(destination="/topic/a", messages=1000, receipt=False, prefetch=1, patience=3)

        with pytest.raises(CommandFailed, match="of 1000 messages came back, none in the last 3 s") as caught:
            await measured(broker, bench)

    assert int(caught.value.code) == ExitCode.TIMED_OUT


async def test_bench_when_the_broker_goes_away_then_that_is_the_error(autojump_clock: trio.testing.MockClock) -> None:
    async with open_broker(listen=False) as broker, trio.open_nursery() as nursery:

        async def drop() -> None:
            await broker.wait_until(lambda: broker.statistics().received_bytes > 20_000)
            broker.drop_connections()

        nursery.start_soon(drop)
        with pytest.raises(StompError):
            await measured(broker, Bench(destination="/queue/a", messages=100_000))


@pytest.mark.parametrize("destination", ["/topic/a", "/queue/a"])
async def test_bench_when_subscribe_is_not_answered_then_begins_when_messages_arrive(
    autojump_clock: trio.testing.MockClock, destination: str
) -> None:
    """What is sent to a topic before its SUBSCRIBE was handled is lost. A queue keeps it, and it is not measured."""
    bench = Bench(destination=destination, messages=100, receipt=False, ack="auto")
    async with open_broker(listen=False) as broker, trio.open_nursery() as nursery:

        async def let_through() -> None:
            await trio.sleep(0.35)
            broker.faults.resume()

        nursery.start_soon(let_through)
        found = await measured_when_the_subscription_is_late(broker, bench)

    assert (found.sent, found.received) == (100, 100)
    assert len(found.latencies) == 100
    # The wait before is no part of it.
    assert found.sending <= found.total < 0.1


async def test_bench_when_nothing_ever_arrives_then_says_so(autojump_clock: trio.testing.MockClock) -> None:
    bench = Bench(destination="/topic/a", messages=100, receipt=False, ack="auto", patience=3)
    async with open_broker(listen=False) as broker:
        with pytest.raises(CommandFailed, match="no probe sent to /topic/a arrived within 3 s") as caught:
            await measured_when_the_subscription_is_late(broker, bench)

    assert int(caught.value.code) == ExitCode.TIMED_OUT
