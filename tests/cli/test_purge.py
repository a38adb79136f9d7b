"""`trio-stomp purge`: what is removed, and what is asked before."""

import pytest

from tests.cli.conftest import Cli, bodies, left, publish
from trio_stomp.testing import ThreadedBroker


@pytest.fixture
def queue(stomp_broker_thread: ThreadedBroker) -> str:
    """A queue with four messages, 0 to 3."""
    for text in "0123":
        publish(stomp_broker_thread, text, shop=text)
    return "/queue/a"


def test_purge_when_told_yes_then_the_queue_is_empty(cli: Cli, stomp_broker_thread: ThreadedBroker, queue: str) -> None:
    done = cli("purge", queue, "--yes", "--idle", "500ms")

    assert (done.exit_code, done.stdout) == (0, "4 messages removed\n")
    assert left(stomp_broker_thread) == 0


def test_purge_when_some_are_selected_then_the_others_stay(
    cli: Cli, stomp_broker_thread: ThreadedBroker, queue: str
) -> None:
    matched = cli("purge", queue, "-y", "--idle", "500ms", "--match", "shop=2")
    counted = cli("purge", queue, "-y", "--count", "1")

    assert (matched.exit_code, matched.stdout) == (0, "1 message removed, 3 left in place\n")
    assert (counted.exit_code, counted.stdout) == (0, "1 message removed\n")
    assert bodies(stomp_broker_thread) == [b"1", b"3"]
