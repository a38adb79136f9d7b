"""`trio-stomp purge`: what is removed, and what is asked before."""

import pytest

from tests.cli.conftest import Cli
from tests.cli.exit_code import ExitCode
from trio_stomp.testing import Broker, ThreadedBroker


@pytest.fixture
def queue(stomp_broker_thread: ThreadedBroker) -> str:
    """A queue with four messages, 0 to 3."""

    def fill(broker: Broker) -> None:
        for text in "0123":
            broker.publish("/queue/a", text, [("shop", text)])

    stomp_broker_thread.call(fill)
    return "/queue/a"


def left(broker: ThreadedBroker) -> list[bytes]:
    return broker.call(lambda inside: [message.body for message in inside.messages("/queue/a")])


def test_purge_when_told_yes_then_the_queue_is_empty(cli: Cli, stomp_broker_thread: ThreadedBroker, queue: str) -> None:
    done = cli("purge", queue, "--yes", "--idle", "500ms")

    assert (done.exit_code, done.stdout) == (0, "4 messages removed\n")
    assert left(stomp_broker_thread) == []
    assert stomp_broker_thread.call(lambda inside: inside.unacknowledged("/queue/a")) == 0


def test_purge_when_some_are_selected_then_the_others_stay(
    cli: Cli, stomp_broker_thread: ThreadedBroker, queue: str
) -> None:
    matched = cli("purge", queue, "-y", "--idle", "500ms", "--match", "shop=2")
    counted = cli("purge", queue, "-y", "--count", "1")

    assert (matched.exit_code, matched.stdout) == (0, "1 message removed, 3 left where they were\n")
    assert (counted.exit_code, counted.stdout) == (0, "1 message removed\n")
    assert left(stomp_broker_thread) == [b"1", b"3"]


def test_purge_when_it_cannot_ask_then_refused(cli: Cli, stomp_broker_thread: ThreadedBroker, queue: str) -> None:
    done = cli("purge", queue)

    assert done.exit_code == ExitCode.USAGE
    assert "pass --yes" in done.stderr
    assert len(left(stomp_broker_thread)) == 4
