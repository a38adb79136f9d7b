"""`trio-stomp ping`: round trips, and what is said of those without an answer."""

import json

import trio_stomp
from tests.cli.conftest import Cli
from tests.cli.exit_code import ExitCode
from trio_stomp.testing import SwallowReceipts, ThreadedBroker


def test_ping_when_the_broker_answers_then_says_how_long_each_took(cli: Cli) -> None:
    done = cli("ping", "--count", "3", "--interval", "1ms")

    *lines, last = done.stdout.splitlines()
    assert done.exit_code == 0
    assert [line.partition(" answered in ")[0] for line in lines] == [
        f"{number}: trio-stomp-testing/{trio_stomp.__version__}" for number in (1, 2, 3)
    ]
    assert last.startswith("3 round trips, 0 without an answer: fastest ")
    assert ", 50 % within " in last
    assert ", slowest " in last


def test_ping_when_told_json_then_each_line_is(cli: Cli) -> None:
    done = cli("ping", "--count", "2", "--interval", "1ms", "--json")

    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["number"] for line in lines] == [1, 2]
    assert all(0 < line["seconds"] < 60 for line in lines)


def test_ping_when_answers_do_not_come_then_each_is_counted(cli: Cli, stomp_broker_thread: ThreadedBroker) -> None:
    for _ in range(2):
        stomp_broker_thread.call(lambda broker: broker.faults.plan(SwallowReceipts()))

    done = cli("ping", "--count", "2", "--interval", "1ms", "--timeout", "50ms")

    first, second, last = done.stdout.splitlines()
    assert done.exit_code == ExitCode.TIMED_OUT
    assert first.startswith("1: no answer: ")
    assert second.startswith("2: no answer: ")
    assert last == "2 round trips, 2 without an answer"
