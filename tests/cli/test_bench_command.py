import json

import pytest

from tests.cli.conftest import Cli
from trio_stomp.cli.bench_command import results
from trio_stomp.cli.benchmark import Measured
from trio_stomp.cli.exit_codes import ExitCode
from trio_stomp.testing import BrokerOptions, ThreadedBroker


def test_bench_when_run_then_prints_a_table(cli: Cli) -> None:
    done = cli("bench", "-n", "200")

    assert done.exit_code == 0
    for name in ("sent", "received", "bodies", "50 % within", "slowest"):
        assert name in done.stdout


def test_bench_when_json_is_wanted_then_prints_numbers(cli: Cli, stomp_broker_thread: ThreadedBroker) -> None:
    done = cli("bench", "/queue/a", "-n", "200", "-s", "50", "--no-receipt", "--json")

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
        "octets_per_second": 1000.0,
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
