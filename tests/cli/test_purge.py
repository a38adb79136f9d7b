"""`trio-stomp purge`: what is removed, and what is asked before."""

import pytest

from tests.cli.conftest import Cli, bodies, left, publish
from tests.cli.exit_code import ExitCode
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


@pytest.mark.parametrize(
    ("selection", "which"),
    [((), "messages"), (("--count", "1"), "selected messages"), (("--match", "shop=2"), "selected messages")],
)
def test_purge_when_asked_and_told_no_then_says_what_it_would_remove_and_all_stay(
    cli: Cli,
    stomp_broker_thread: ThreadedBroker,
    queue: str,
    monkeypatch: pytest.MonkeyPatch,
    selection: tuple[str, ...],
    which: str,
) -> None:
    monkeypatch.setattr("trio_stomp.cli.move.can_ask", lambda: True)

    done = cli("purge", queue, *selection, input="n\n")

    assert done.exit_code == ExitCode.INTERRUPTED
    assert done.stderr.startswith(f"Remove the {which} of /queue/a? [y/N]:")
    assert left(stomp_broker_thread) == 4
