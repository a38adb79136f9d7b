import pytest

from tests.cli.conftest import Cli
from trio_stomp.cli.exit_codes import ExitCode
from trio_stomp.testing import Broker, ThreadedBroker


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
    assert "1 messages do not tell where they came from" in done.stderr
    assert (depth(stomp_broker_thread, "/queue/orders"), depth(stomp_broker_thread, "/queue/dlq")) == (2, 1)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("/queue/a",), "where to?"),
        (("/queue/a", "/queue/b", "--to-origin"), "where to?"),
        (("/queue/a", "/queue/a"), "never end"),
        (("/queue/a", "/queue/b", "--grep", "("), "no regular expression"),
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
