import base64
import io
import json
import signal
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trio
from typing_extensions import Buffer

from tests.cli.conftest import Cli, bodies, publish, wait_until_left
from tests.cli.exit_code import ExitCode
from tests.cli.links import link_to
from tests.cli.processes import PATIENCE, OnPipes, OnTerminal
from tests.kit.full_disk import file_size_limit
from trio_stomp.cli.running import Stop
from trio_stomp.cli.subscribe import Subscribe
from trio_stomp.testing import Broker, ThreadedBroker, open_broker
from trio_stomp.types import Command

# Headers of which a copy has its own.
OWN = {"ack", "content-length", "content-type", "dedup-id", "destination", "message-id", "subscription"}


def test_subscribe_when_there_were_enough_then_ends_and_leaves_the_rest(
    cli: Cli, stomp_broker_thread: ThreadedBroker
) -> None:
    publish(stomp_broker_thread, "one", "two", "three")

    done = cli("subscribe", "/queue/a", "-n", "2")

    assert (done.exit_code, done.stdout) == (0, "one\ntwo\n")
    assert bodies(stomp_broker_thread) == [b"three"]


def test_subscribe_when_told_a_folder_then_each_body_is_a_file_there(
    cli: Cli, stomp_broker_thread: ThreadedBroker, tmp_path: Path
) -> None:
    folder = tmp_path / "new" / "bodies"
    publish(stomp_broker_thread, "one", "two")
    stomp_broker_thread.call(
        lambda inside: inside.publish("/queue/a", b"{}", [("content-type", "application/json; charset=utf-8")])
    )

    done = cli("subscribe", "/queue/a", "-n", "2", "-o", str(folder))
    written = [(folder / name) for name in ("000001.body", "000002.body")]
    assert [file.read_bytes() for file in written] == [b"one", b"two"]
    # Its number is not used again.
    written[0].unlink()
    more = cli("subscribe", "/queue/a", "-n", "1", "-o", str(folder))

    assert (done.exit_code, more.exit_code) == (0, 0)
    assert done.stdout.splitlines() == [f"{folder}/000001.body", f"{folder}/000002.body"]
    assert more.stdout == f"{folder}/000003.json\n"
    assert (folder / "000003.json").read_bytes() == b"{}"
    assert bodies(stomp_broker_thread) == []


def test_subscribe_when_the_folder_cannot_be_written_then_the_message_stays(
    cli: Cli, stomp_broker_thread: ThreadedBroker, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    publish(stomp_broker_thread, "one")

    done = cli("subscribe", "/queue/a", "-n", "1", "-o", str(tmp_path / "file" / "in"))

    assert done.exit_code == ExitCode.FAILED
    assert "the file for a message cannot be written: Not a directory" in done.stderr
    assert bodies(stomp_broker_thread) == [b"one"]


@pytest.mark.parametrize("size", [10, 100_000], ids=["small", "larger than a buffer"])
def test_subscribe_when_the_disk_is_full_then_the_message_stays_and_there_is_no_half_of_its_file(
    cli: Cli, stomp_broker_thread: ThreadedBroker, tmp_path: Path, size: int
) -> None:
    folder = tmp_path / "bodies"
    publish(stomp_broker_thread, "x" * size)

    with file_size_limit(5):
        done = cli("subscribe", "/queue/a", "-n", "1", "-o", str(folder))

    assert (done.exit_code, done.stdout) == (ExitCode.FAILED, "")
    assert f"the file for a message cannot be written: File too large: {folder}" in done.stderr
    assert list(folder.iterdir()) == []
    assert bodies(stomp_broker_thread) == [b"x" * size]


def test_subscribe_when_told_timestamps_then_each_message_has_one(
    cli: Cli, stomp_broker_thread: ThreadedBroker
) -> None:
    publish(stomp_broker_thread, "one", "two")

    plain = cli("subscribe", "/queue/a", "-n", "1", "--timestamps").stdout
    with_headers = cli("subscribe", "/queue/a", "-n", "1", "--timestamps", "--headers").stdout

    time, _, body = plain.partition(" ")
    assert datetime.fromisoformat(time).tzinfo is UTC
    assert body == "one\n"
    assert datetime.fromisoformat(with_headers.splitlines()[0]).tzinfo is UTC
    assert "\nshop: 7\n" in with_headers


def test_tail_when_asked_for_then_the_same_command(cli: Cli, stomp_broker_thread: ThreadedBroker) -> None:
    publish(stomp_broker_thread, "one")

    assert cli("tail", "/queue/a", "-n", "1").stdout == "one\n"


def test_subscribe_when_nothing_comes_in_time_then_ends(cli: Cli, stomp_broker_thread: ThreadedBroker) -> None:
    publish(stomp_broker_thread, "one")

    enough = cli("subscribe", "/queue/a", "-w", "0.1")
    too_few = cli("subscribe", "/queue/a", "-w", "0.1", "-n", "1")

    assert (enough.exit_code, enough.stdout) == (0, "one\n")
    assert too_few.exit_code == ExitCode.TIMED_OUT
    assert "only 0 of 1 messages came in time" in too_few.stderr


@pytest.mark.parametrize(
    ("given", "code", "printed"), [((), ExitCode.LOST, "one\n"), (("--reconnect",), ExitCode.OK, "one\ntwo\n")]
)
def test_subscribe_when_the_link_breaks_then_fails_unless_told_to_reconnect(
    cli: Cli, stomp_broker_thread: ThreadedBroker, given: tuple[str, ...], code: ExitCode, printed: str
) -> None:
    publish(stomp_broker_thread, "one")

    def break_link() -> None:
        wait_until_left(stomp_broker_thread, 0)
        stomp_broker_thread.call(Broker.drop_connections)
        publish(stomp_broker_thread, "two")

    breaking = threading.Thread(target=break_link)
    breaking.start()
    done = cli("subscribe", "/queue/a", "-n", "2", *given)
    breaking.join()

    assert (done.exit_code, done.stdout) == (code, printed)
    assert bodies(stomp_broker_thread) == ([] if given else [b"two"])


def test_subscribe_when_browsing_then_all_is_printed_and_stays_and_it_ends(
    cli: Cli, stomp_broker_thread: ThreadedBroker
) -> None:
    publish(stomp_broker_thread, "one", "two")

    all_of_it, some = cli("subscribe", "/queue/a", "--browse"), cli("subscribe", "/queue/a", "--browse", "-n", "5")

    assert (all_of_it.exit_code, all_of_it.stdout) == (0, "one\ntwo\n")
    assert (some.exit_code, some.stdout) == (0, "one\ntwo\n")
    assert bodies(stomp_broker_thread) == [b"one", b"two"]


def test_subscribe_when_peeking_then_all_stays_in_its_place(cli: Cli, stomp_broker_thread: ThreadedBroker) -> None:
    publish(stomp_broker_thread, "one", "two", "three")

    some = cli("subscribe", "/queue/a", "--peek", "-n", "2")
    all_that_fit = cli("subscribe", "/queue/a", "--peek", "--prefetch", "2")

    assert some.stdout == all_that_fit.stdout == "one\ntwo\n"
    assert all_that_fit.exit_code == 0
    assert bodies(stomp_broker_thread) == [b"one", b"two", b"three"]


def test_subscribe_when_filtered_then_the_others_go_back(cli: Cli, stomp_broker_thread: ThreadedBroker) -> None:
    publish(stomp_broker_thread, "coffee", "grüner tea", "milk", shop="a=b")
    publish(stomp_broker_thread, "schwarzer tea", shop="8")
    both = ("--match", "destination=/queue/a", "--match", "shop=a=b")

    done = cli("subscribe", "/queue/a", "-w", "0.1", *both, "--grep", "ü.*tea$")

    assert done.stdout == "grüner tea\n"
    assert bodies(stomp_broker_thread) == [b"coffee", b"milk", b"schwarzer tea"]


def test_subscribe_when_a_pattern_is_not_utf_8_then_its_bytes_are_found(
    cli: Cli, stomp_broker_thread: ThreadedBroker
) -> None:
    stomp_broker_thread.call(lambda inside: inside.publish("/queue/a", b"caf\xe9"))

    assert cli("subscribe", "/queue/a", "-n", "1", "--grep", "f\udce9$").stdout_bytes == b"caf\xe9\n"


def test_subscribe_when_a_pattern_has_a_bracket_in_brackets_then_no_warning_of_python_is_shown(
    cli: Cli, stomp_broker_thread: ThreadedBroker
) -> None:
    publish(stomp_broker_thread, "a[1]")

    done = cli("subscribe", "/queue/a", "-n", "1", "--grep", "[[(]1")

    assert (done.exit_code, done.output) == (0, "a[1]\n")


@pytest.mark.parametrize("peek", [(), ("--peek",)])
def test_subscribe_when_messages_in_the_way_fill_the_prefetch_then_says_so(
    cli: Cli, stomp_broker_thread: ThreadedBroker, peek: tuple[str, ...]
) -> None:
    publish(stomp_broker_thread, "one", "two", "three")

    done = cli("subscribe", "/queue/a", "--grep", "three", "--prefetch", "2", *peek)

    assert done.exit_code == ExitCode.FAILED
    assert "2 messages that are not selected block the others; raise --prefetch" in done.stderr
    assert bodies(stomp_broker_thread) == [b"one", b"two", b"three"]


def test_subscribe_when_its_json_is_sent_then_the_copies_are_the_same(
    cli: Cli, stomp_broker_thread: ThreadedBroker
) -> None:
    every_octet = bytes(range(256))
    originals: list[tuple[bytes, list[tuple[str, str]]]] = [
        (b"", []),
        (every_octet, [("content-length", "256")]),
        ("tea für zwei\n\x1b\u2028".encode(), [("content-type", "text/plain")]),
        (b"caf\xe9", [("content-type", "text/plain;charset=latin-1"), ("content-length", "4")]),
        (b'{"tea": 2}', [("content-type", "application/json"), ("shop", "7\t:\\\n"), ("shop", "second")]),
    ]

    def inside(broker: Broker) -> None:
        for body, headers in originals:
            broker.publish("/queue/a", body, headers)

    stomp_broker_thread.call(inside)

    first = cli("subscribe", "/queue/a", "-n", "5", "--json").stdout_bytes
    sent = cli("send", "/queue/b", "--json", input=first)
    second = cli("subscribe", "/queue/b", "-n", "5", "--json").stdout_bytes

    def shapes(lines: bytes) -> list[dict[str, object]]:
        found = [json.loads(line) for line in lines.splitlines()]
        for line in found:
            line["destination"] = None
            line["headers"] = {name: value for name, value in line["headers"].items() if name not in OWN}
        return found

    assert sent.exit_code == 0, sent.output
    assert shapes(first) == shapes(second)
    assert json.loads(first.splitlines()[0]).keys() == {"destination", "headers", "body"}
    assert [json.loads(line).get("body_base64") for line in second.splitlines()][1] == (
        base64.b64encode(every_octet).decode()
    )


def test_subscribe_when_given_a_format_then_prints_that(cli: Cli, stomp_broker_thread: ThreadedBroker) -> None:
    publish(stomp_broker_thread, "one", "two")

    done = cli("subscribe", "/queue/a", "-n", "2", "--format", r"{header:shop}\t{body}\n")

    assert done.stdout == "7\tone\n7\ttwo\n"


@pytest.mark.parametrize("given", [(), ("--ack", "auto")])
def test_subscribe_when_to_a_topic_then_prints_what_comes(
    cli: Cli, stomp_broker_thread: ThreadedBroker, given: tuple[str, ...]
) -> None:
    async def publish_when_it_stands(broker: Broker) -> None:
        await broker.wait_until(lambda: broker.consumers("/topic/a") == 1)
        broker.publish("/topic/a", "one")

    publisher = threading.Thread(target=stomp_broker_thread.call, args=(publish_when_it_stands,))
    publisher.start()
    done = cli("subscribe", "/topic/a", "-n", "1", *given)
    publisher.join()

    assert done.stdout == "one\n"
    acked = stomp_broker_thread.call(lambda inside: inside.statistics().received)
    assert Command.ACK not in acked


def test_subscribe_when_the_broker_has_no_acknowledgments_then_ack_auto_goes_with_a_count(
    cli: Cli, stomp_broker_thread: ThreadedBroker
) -> None:
    publish(stomp_broker_thread, "one")

    done = cli("subscribe", "/queue/a", "--ack", "auto", "-n", "1", "--profile", "spring")

    assert (done.exit_code, done.stdout) == (0, "one\n")


async def test_subscribe_when_interrupted_while_its_output_is_stuck_then_waits_two_seconds(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop, may_end = Stop(), threading.Event()

    class Full(io.BytesIO):
        def write(self, octets: Buffer, /) -> int:
            trio.from_thread.run_sync(stop.request, signal.SIGINT)
            may_end.wait(10)
            return super().write(octets)

    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(Full()))
    try:
        async with open_broker(listen=False) as broker:
            broker.publish("/queue/a", "one")
            await Subscribe(destination="/queue/a").run(link_to(broker), stop)
            assert broker.depth("/queue/a") == 1
    finally:
        may_end.set()

    assert trio.current_time() == pytest.approx(2)


def test_subscribe_when_on_a_terminal_then_says_how_to_stop(
    on_terminal: OnTerminal, stomp_broker_thread: ThreadedBroker
) -> None:
    publish(stomp_broker_thread, "one")

    terminal = on_terminal("subscribe", "/queue/a", "-n", "1", "-u", stomp_broker_thread.url)

    assert terminal.finish() == 0
    assert terminal.shown == b"subscribed to /queue/a; press Ctrl-C to stop\r\none\r\n"


def test_subscribe_when_interrupted_then_leaves_in_order_and_says_nothing(
    on_pipes: OnPipes, stomp_broker_thread: ThreadedBroker
) -> None:
    publish(stomp_broker_thread, "one")
    with on_pipes("subscribe", "/queue/a", "-u", stomp_broker_thread.url) as piped:
        assert piped.output.readline() == b"one\n"
        stomp_broker_thread.call(lambda broker: broker.wait_until(lambda: not broker.unacknowledged("/queue/a")))
        piped.process.send_signal(signal.SIGINT)
        ended = piped.finish()

    assert ended == (ExitCode.INTERRUPTED, b"", b"")
    received = stomp_broker_thread.call(lambda inside: inside.statistics().received)
    assert {command.value: count for command, count in received.items()}["DISCONNECT"] == 1
    assert bodies(stomp_broker_thread) == []


def test_subscribe_when_head_has_read_enough_then_ends_quietly_and_loses_nothing(
    on_pipes: OnPipes, stomp_broker_thread: ThreadedBroker
) -> None:
    publish(stomp_broker_thread, "one")
    with on_pipes("subscribe", "/queue/a", "-u", stomp_broker_thread.url) as piped:
        assert piped.output.readline() == b"one\n"
        piped.output.close()
        publish(stomp_broker_thread, "two")
        status, errors = piped.process.wait(PATIENCE), piped.errors.read()

    assert (status, errors) == (ExitCode.PIPE_CLOSED, b"")
    assert bodies(stomp_broker_thread) == [b"two"]
