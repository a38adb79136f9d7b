import json
import logging
import re

import pytest
import trio
from click.testing import CliRunner

import trio_stomp
from tests.cli.conftest import Cli, left
from tests.cli.exit_code import ExitCode
from tests.cli.processes import OnTerminal
from trio_stomp import Limits
from trio_stomp.cli.bench import Bench, Measured, run_bench
from trio_stomp.cli.command_line import command_line
from trio_stomp.cli.running import CommandFailed
from trio_stomp.errors import StompError
from trio_stomp.testing import Broker, BrokerOptions, StallReading, ThreadedBroker, open_broker, run_broker_in_thread


@pytest.fixture
def measured_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is measured: all numbers are known."""

    async def run_bench(*_of: object) -> Measured:
        await trio.lowlevel.checkpoint()
        latencies = [n / 1000 for n in range(1010, 0, -1)]
        return Measured(sent=100, received=100, sending=0.02, total=0.04, latencies=latencies)

    monkeypatch.setattr("trio_stomp.cli.bench.run_bench", run_bench)


@pytest.mark.usefixtures("measured_before")
class TestResults:
    @pytest.fixture
    def stomp_broker_options(self) -> BrokerOptions:
        return BrokerOptions(server=None)

    @pytest.mark.parametrize(("size", "bodies"), [("40", "0.1 MB/s       "), ("1234567", "3,086 MB/s     ")])
    def test_bench_when_run_then_prints_a_table_of_what_was_measured(self, cli: Cli, size: str, bodies: str) -> None:
        done = cli("bench", "-s", size)

        assert (done.exit_code, done.stdout.splitlines()) == (
            0,
            [
                "          unknown broker          ",
                "┌─────────────┬──────────────────┐",
                "│ sent        │ 5,000 messages/s │",
                "│ received    │ 2,500 messages/s │",
                f"│ bodies      │ {bodies}  │",
                "│ 50 % within │ 505 ms           │",
                "│ 95 % within │ 960 ms           │",
                "│ 99 % within │ 1 s              │",
                "│ slowest     │ 1.01 s           │",
                "└─────────────┴──────────────────┘",
            ],
        )

    def test_bench_when_json_is_wanted_then_prints_what_was_measured_as_a_line(self, cli: Cli) -> None:
        done = cli("bench", "-s", "40", "--json")

        assert (done.exit_code, done.stdout.count("\n")) == (0, 1)
        # Each percentile is one of the values.
        assert json.loads(done.stdout) == {
            "server": "unknown broker",
            "messages": 100,
            "sending_seconds": 0.02,
            "total_seconds": 0.04,
            "sent_per_second": 5000.0,
            "received_per_second": 2500.0,
            "bytes_per_second": 100_000.0,
            "latency_p50_seconds": 0.505,
            "latency_p95_seconds": 0.96,
            "latency_p99_seconds": 1.0,
            "latency_p100_seconds": 1.01,
        }


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


@pytest.mark.parametrize(
    ("limits", "arguments", "code", "why"),
    [
        (BrokerOptions(limits=Limits(body_bytes=50)), "", ExitCode.NOT_CONFIRMED, "longer than 50 bytes"),
        (BrokerOptions(limits=Limits(body_bytes=50)), "--no-receipt", ExitCode.FAILED, "longer than 50 bytes"),
        (BrokerOptions(max_queue_bytes=50), "", ExitCode.NOT_CONFIRMED, "the limit is 50"),
        # The command has sent all when the broker refuses it.
        (BrokerOptions(max_queue_bytes=50), "--no-receipt", ExitCode.FAILED, "the limit is 50"),
    ],
)
def test_bench_when_the_broker_accepts_no_body_of_that_size_then_fails_at_once_and_says_the_limit(
    limits: BrokerOptions, arguments: str, code: ExitCode, why: str
) -> None:
    with run_broker_in_thread(options=limits) as broker:
        command = ["bench", "/queue/a", "-n", "1", "-u", broker.url, "--patience", "1h", *arguments.split()]
        done = CliRunner().invoke(command_line, command)

    assert (done.exit_code, done.stdout) == (code, "")
    assert why in done.stderr


def test_bench_when_on_a_terminal_then_shows_how_far_it_is(
    on_terminal: OnTerminal, stomp_broker_thread: ThreadedBroker
) -> None:
    terminal = on_terminal("bench", "-n", "1", "-u", stomp_broker_thread.url)

    assert terminal.finish() == 0
    assert re.search(r"measuring (\x1b\[[\d;]*m)*━.* 1 messages", terminal.shown.decode(), re.DOTALL)


class TestRabbitmq:
    @pytest.fixture
    def stomp_broker_options(self) -> BrokerOptions:
        return BrokerOptions(server="RabbitMQ/3.13.0", ack_is_message_id=True)

    def test_bench_when_the_broker_would_keep_its_queue_for_ever_then_asks_it_not_to(
        self, cli: Cli, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG, "trio_stomp.wire")

        done = cli("bench", "-n", "1")

        assert done.exit_code == 0
        assert "RabbitMQ/3.13.0" in done.stdout
        (subscribe,) = re.findall(r"to .*: SUBSCRIBE .*", caplog.text)
        assert "('auto-delete', 'true')" in subscribe
        assert re.search(r"'/queue/trio-stomp-bench-[0-9a-f]{8}'", subscribe)
        (send,) = re.findall(r"to .*: SEND .*", caplog.text)
        assert "('auto-delete', 'true')" in send
        assert re.search(r"\('content-length', '100'\)\] 100 bytes ", send)


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


@pytest.mark.parametrize(
    ("destination", "ack"), [("/topic/a", "auto"), ("/queue/a", "auto"), ("/queue/a", "client-individual")]
)
async def test_bench_when_subscribe_is_not_answered_then_begins_when_messages_arrive(
    autojump_clock: trio.testing.MockClock, destination: str, ack: str
) -> None:
    """What is sent to a topic before its SUBSCRIBE was handled is lost. A queue keeps it, and it is not measured."""
    bench = Bench(destination=destination, messages=100, receipt=False, ack=ack)
    async with open_broker(listen=False, options=BrokerOptions(prefetch=1)) as broker, trio.open_nursery() as nursery:

        async def let_through() -> None:
            await trio.sleep(0.35)
            broker.faults.resume()

        nursery.start_soon(let_through)
        found = await measured_when_the_subscription_is_late(broker, bench)
        await broker.wait_until(lambda: broker.depth(destination) + broker.unacknowledged(destination) == 0)

    assert (found.sent, found.received) == (100, 100)
    assert len(found.latencies) == 100
    # The wait before is no part of it, and ends soon after.
    assert found.sending <= found.total < 0.1
    assert trio.current_time() < 0.5


async def test_bench_when_nothing_ever_arrives_then_says_so(autojump_clock: trio.testing.MockClock) -> None:
    bench = Bench(destination="/topic/a", messages=100, receipt=False, ack="auto", patience=3)
    async with open_broker(listen=False) as broker:
        with pytest.raises(CommandFailed, match="no probe sent to /topic/a arrived within 3 s") as caught:
            await measured_when_the_subscription_is_late(broker, bench)

    assert int(caught.value.code) == ExitCode.TIMED_OUT
