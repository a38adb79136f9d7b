import re
import signal
import threading
import time

import pytest
import trio

from tests.cli.conftest import Cli, bodies, left
from tests.cli.exit_code import ExitCode
from tests.cli.links import link_to
from tests.cli.processes import OnTerminal
from trio_stomp.cli.move import Move, Selection, origin_of
from trio_stomp.cli.running import Stop
from trio_stomp.testing import Broker, DelayReceipts, DropLink, SwallowReceipts, ThreadedBroker, open_broker
from trio_stomp.types import Command

MOVE = ("move", "/queue/a", "/queue/b", "--batch", "3", "--prefetch", "5", "--idle", "500ms")


def fill(broker: ThreadedBroker, count: int) -> None:
    def publish(inner: Broker) -> None:
        for number in range(count):
            inner.publish("/queue/a", f"{number}", [("parity", str(number % 2))])

    broker.call(publish)


def numbers(broker: ThreadedBroker, destination: str) -> list[int]:
    return [int(body) for body in bodies(broker, destination)]


def test_move_when_told_a_count_then_so_many_go_in_order_and_the_rest_next_time(
    cli: Cli, stomp_broker_thread: ThreadedBroker
) -> None:
    fill(stomp_broker_thread, 10)

    some = cli(*MOVE, "--count", "4")
    assert (some.exit_code, some.stdout) == (0, "4 messages moved\n")
    assert numbers(stomp_broker_thread, "/queue/b") == [0, 1, 2, 3]
    assert numbers(stomp_broker_thread, "/queue/a") == [4, 5, 6, 7, 8, 9]

    rest = cli(*MOVE)
    assert (rest.exit_code, rest.stdout) == (0, "6 messages moved\n")
    assert numbers(stomp_broker_thread, "/queue/b") == list(range(10))
    assert left(stomp_broker_thread) == 0
    # No more than three in a transaction.
    assert stomp_broker_thread.call(lambda inner: inner.statistics().received[Command.COMMIT]) >= 4


@pytest.mark.parametrize("selection", [("--match", "parity=0"), ("--grep", "[02468]")])
def test_move_when_some_are_not_selected_then_they_stay(
    cli: Cli, stomp_broker_thread: ThreadedBroker, selection: tuple[str, ...]
) -> None:
    fill(stomp_broker_thread, 8)

    done = cli(*MOVE, *selection)

    assert (done.exit_code, done.stdout) == (0, "4 messages moved, 4 left in place\n")
    assert numbers(stomp_broker_thread, "/queue/b") == [0, 2, 4, 6]
    assert numbers(stomp_broker_thread, "/queue/a") == [1, 3, 5, 7]


def test_move_when_those_fill_the_prefetch_then_says_so(cli: Cli, stomp_broker_thread: ThreadedBroker) -> None:
    fill(stomp_broker_thread, 20)

    done = cli(*MOVE, "--match", "parity=0")

    assert done.exit_code == ExitCode.FAILED
    assert re.search(r"\b5 messages that are not selected block the others; raise --prefetch", done.stderr)
    assert len(numbers(stomp_broker_thread, "/queue/a") + numbers(stomp_broker_thread, "/queue/b")) == 20


def test_move_when_back_to_the_origin_then_each_to_its_own_and_others_stay(
    cli: Cli, stomp_broker_thread: ThreadedBroker
) -> None:
    def publish(inner: Broker) -> None:
        inner.publish("/queue/a", "0", [("x-original-destination", "/queue/orders")])
        inner.publish("/queue/a", "1", [("original-destination", "/queue/invoices")])
        inner.publish("/queue/a", "2")

    stomp_broker_thread.call(publish)

    done = cli("move", "/queue/a", "--to-origin", "--idle", "500ms")

    assert done.exit_code == ExitCode.FAILED
    assert done.stdout == "2 messages moved, 1 left in place\n"
    assert "1 message left in the queue, without a header that says where it came from" in done.stderr
    for number, queue in enumerate(("orders", "invoices", "a")):
        assert numbers(stomp_broker_thread, f"/queue/{queue}") == [number]


def test_move_when_a_dead_letter_fails_again_then_it_stays_and_the_command_ends(
    cli: Cli, stomp_broker_thread: ThreadedBroker
) -> None:
    before, later = (str(int((time.time() + seconds) * 1000)) for seconds in (-3600, 3600))

    def publish(inner: Broker) -> None:
        for body, failed_at in [("0", before), ("1", later), ("2", "yesterday")]:
            headers = [("x-original-destination", "/queue/orders"), ("x-failed-at", failed_at)]
            inner.publish("/queue/a", body, headers)

    stomp_broker_thread.call(publish)

    done = cli("move", "/queue/a", "--to-origin", "--idle", "500ms")

    assert (done.exit_code, done.stdout) == (ExitCode.FAILED, "2 messages moved, 1 left in place\n")
    assert "1 message left in the queue: failed again after this command began" in done.stderr
    assert numbers(stomp_broker_thread, "/queue/orders") == [0, 2]


def test_move_when_headers_are_given_then_in_place_of_the_messages_own(
    cli: Cli, stomp_broker_thread: ThreadedBroker
) -> None:
    own = [("shop", "7"), ("shop", "8"), ("priority", "9"), ("content-type", "application/json")]
    stomp_broker_thread.call(lambda inner: inner.publish("/queue/a", b"{}", own))

    cli("move", "/queue/a", "/queue/b", "--count", "1")
    (plain,) = stomp_broker_thread.call(lambda inner: inner.messages("/queue/b"))
    cli("move", "/queue/b", "/queue/c", "--count", "1", "-H", "shop:9", "-H", "content-type:text/plain")
    (changed,) = stomp_broker_thread.call(lambda inner: inner.messages("/queue/c"))

    assert (plain.body, plain.headers["priority"], plain.headers["content-type"]) == (b"{}", "9", "application/json")
    assert plain.headers.get_all("shop") == ("7",)
    assert (changed.body, changed.headers["priority"], changed.headers["content-type"]) == (b"{}", "9", "text/plain")
    assert changed.headers.get_all("shop") == ("9",)


def test_move_when_no_send_can_carry_a_message_then_it_is_named_and_nothing_is_lost(
    cli: Cli, stomp_broker_thread: ThreadedBroker
) -> None:
    def publish(inner: Broker) -> None:
        for body, content_type in [("0", "text/plain"), ("1", "text/plain"), ("2", "no type"), ("3", "text/plain")]:
            inner.publish("/queue/a", body, [("content-type", content_type)])

    stomp_broker_thread.call(publish)

    done = cli(*MOVE, "--batch", "2")

    assert (done.exit_code, done.stdout) == (ExitCode.FAILED, "2 messages moved\n")
    named = r"message '.+' in /queue/a cannot be sent to /queue/b: content_type must be .*, got 'no type'\."
    assert re.search(named, done.stderr)
    assert "--header content-type:TYPE" in done.stderr
    assert numbers(stomp_broker_thread, "/queue/a") == [2, 3]
    assert numbers(stomp_broker_thread, "/queue/b") == [0, 1]

    # As the error says.
    assert cli(*MOVE, "--count", "1", "--header", "content-type:text/plain").exit_code == 0
    assert cli(*MOVE).exit_code == 0
    assert numbers(stomp_broker_thread, "/queue/b") == [0, 1, 2, 3]


def test_move_when_it_cannot_connect_then_nothing_was_moved(cli: Cli, stomp_broker_thread: ThreadedBroker) -> None:
    stomp_broker_thread.call(Broker.stop_listening)

    done = cli(*MOVE)

    assert done.exit_code == ExitCode.NOT_CONNECTED
    assert done.stdout == "0 messages moved\n"


@pytest.mark.parametrize("size", range(100, 900, 100))
def test_move_when_the_link_breaks_anywhere_then_no_message_is_lost(
    cli: Cli, stomp_broker_thread: ThreadedBroker, size: int
) -> None:
    fill(stomp_broker_thread, 5)
    stomp_broker_thread.call(lambda inner: inner.faults.plan(DropLink(after_received_bytes=size)))

    done = cli(*MOVE)

    assert done.exit_code in {ExitCode.NOT_CONNECTED, ExitCode.LOST, ExitCode.NOT_CONFIRMED}
    stomp_broker_thread.call(lambda inner: inner.wait_until(lambda: not inner.sessions))
    kept = numbers(stomp_broker_thread, "/queue/a") + numbers(stomp_broker_thread, "/queue/b")
    assert sorted(kept) == list(range(5))


@pytest.mark.parametrize("size", [500, 600, 700, 800, 900])
def test_move_when_told_to_reconnect_then_goes_on_with_the_next_connection(
    cli: Cli, stomp_broker_thread: ThreadedBroker, size: int
) -> None:
    fill(stomp_broker_thread, 30)
    stomp_broker_thread.call(lambda inner: inner.faults.plan(DropLink(after_received_bytes=size), connections=2))

    # Longer than it takes to reconnect.
    done = cli(*MOVE, "--idle", "1s", "--reconnect")

    # It starts anew to count those that it leaves in place, and there are none.
    assert (done.exit_code, "left" in done.output) == (0, False)
    assert numbers(stomp_broker_thread, "/queue/b") == list(range(30))
    assert stomp_broker_thread.call(lambda inner: inner.statistics().connections) == 3
    moved, perhaps = map(int, re.findall(r"-?\d+", done.stdout + " 0")[:2])
    assert moved <= 30 <= moved + perhaps


def test_move_when_commit_is_not_answered_then_the_outcome_is_unknown(
    cli: Cli, stomp_broker_thread: ThreadedBroker
) -> None:
    fill(stomp_broker_thread, 3)
    stomp_broker_thread.call(lambda inner: inner.faults.plan(SwallowReceipts(command=Command.COMMIT)))

    async def drop(inner: Broker) -> None:
        await inner.wait_until(lambda: inner.depth("/queue/b") == 3)
        inner.drop_connections()

    dropping = threading.Thread(target=stomp_broker_thread.call, args=(drop,))
    dropping.start()
    done = cli(*MOVE)
    dropping.join()

    assert (done.exit_code, done.stdout) == (ExitCode.NOT_CONFIRMED, "0 messages moved, perhaps 3 more\n")


@pytest.mark.parametrize(("receipt", "moved"), [(True, "1 message moved"), (False, "0 messages moved, perhaps 1 more")])
async def test_move_when_interrupted_during_a_commit_then_waits_ten_seconds_for_its_answer(
    autojump_clock: trio.testing.MockClock, capsys: pytest.CaptureFixture[str], receipt: bool, moved: str
) -> None:
    stop = Stop()

    async def interrupt(broker: Broker) -> None:
        await broker.wait_until(lambda: broker.depth("/queue/b") == 1)
        stop.request(signal.SIGINT)

    async with open_broker(listen=False) as broker, trio.open_nursery() as nursery:
        broker.publish("/queue/a", "one")
        broker.faults.plan(DelayReceipts(command=Command.COMMIT, seconds=9.5 if receipt else 10.5))
        nursery.start_soon(interrupt, broker)
        await Move(source="/queue/a", target="/queue/b", selection=Selection(count=1)).run(link_to(broker), stop)

    assert capsys.readouterr().out == f"{moved}\n"


async def test_move_when_no_more_messages_come_then_ends_after_the_idle_time(
    autojump_clock: trio.testing.MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    async with open_broker(listen=False) as broker:
        broker.publish("/queue/a", "one")
        await Move(source="/queue/a", target="/queue/b", selection=Selection(idle=2.0)).run(link_to(broker), Stop())

    assert capsys.readouterr().out == "1 message moved\n"
    # Nothing else made the user wait.
    assert trio.current_time() == pytest.approx(2, abs=0.2)


@pytest.mark.parametrize(("parity", "moved"), [("0", b"4"), ("7", b"0")])
def test_move_when_on_a_terminal_then_shows_how_many_are_moved(
    on_terminal: OnTerminal,
    stomp_broker_thread: ThreadedBroker,
    monkeypatch: pytest.MonkeyPatch,
    parity: str,
    moved: bytes,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    fill(stomp_broker_thread, 8)

    terminal = on_terminal(*MOVE, "--prefetch", "20", "--match", f"parity={parity}", "-u", stomp_broker_thread.url)

    assert terminal.finish() == 0
    assert b" moving " in terminal.shown
    assert re.findall(rb"(\d+) messages,", terminal.shown)[-1] == moved


@pytest.mark.parametrize(
    ("headers", "lies_in", "expected"),
    [
        ({"x-original-destination": "/queue/a", "x-first-death-queue": "b"}, "/queue/dlq", "/queue/a"),
        ({"x-first-death-queue": "a"}, "/queue/dlq", "/amq/queue/a"),
        ({"original-destination": "/queue/a"}, "/queue/ActiveMQ.DLQ", "/queue/a"),
        ({"_AMQ_ORIG_ADDRESS": "a"}, "/queue/DLQ", "/queue/a"),
        ({"_AMQ_ORIG_ADDRESS": "a"}, "/topic/DLQ", "/topic/a"),
        ({"_AMQ_ORIG_ADDRESS": "a"}, "DLQ", "a"),
        ({"dead-letter-source": "/queue/a"}, "/queue/dead-letter", "/queue/a"),
        ({"shop": "7"}, "/queue/dlq", None),
    ],
)
def test_origin_when_a_dead_letter_tells_it_then_found(
    headers: dict[str, str], lies_in: str, expected: str | None
) -> None:
    assert origin_of(headers, lies_in) == expected
