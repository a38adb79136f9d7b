"""`trio-stomp reply`, and a client that asks in another thread."""

import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import trio

import trio_stomp
from tests.cli.conftest import Cli, left
from tests.cli.exit_code import ExitCode
from tests.cli.processes import COMMAND, PATIENCE, OnPipes, OnTerminal
from trio_stomp import blocking
from trio_stomp.cli.reply import Reply
from trio_stomp.cli.running import Stop
from trio_stomp.testing import Broker, ScriptedPeer, ThreadedBroker, open_scripted_peer
from trio_stomp.types import Command

TO_B = [("reply-to", "/queue/b")]

Ask = Callable[[bytes], Callable[[], blocking.Message]]


@pytest.fixture
def ask(stomp_broker_thread: ThreadedBroker) -> Ask:
    """Send a request to /queue/ask; what it returns waits for the reply."""

    def start(body: bytes) -> Callable[[], blocking.Message]:
        replies: list[blocking.Message] = []

        def request() -> None:
            with blocking.connect(stomp_broker_thread.url) as client:
                replies.append(client.request("/queue/ask", body, timeout=PATIENCE, content_type="text/x-asked"))

        thread = threading.Thread(target=request)
        thread.start()

        def reply() -> blocking.Message:
            thread.join()
            return replies[0]

        return reply

    return start


def test_reply_when_given_a_text_then_each_request_gets_it(
    cli: Cli, ask: Ask, stomp_broker_thread: ThreadedBroker
) -> None:
    replies = [ask(b"1"), ask(b"2")]

    done = cli("reply", "/queue/ask", "ok", "-H", "shop:7", "-t", "text/plain", "--count", "2", "--timeout", "60s")

    assert (done.exit_code, done.stdout) == (0, "")
    for reply in replies:
        found = reply()
        assert (found.body, found.headers["shop"], found.content_type) == (b"ok", "7", "text/plain")
    assert left(stomp_broker_thread, "/queue/ask") == 0


@pytest.mark.parametrize(("given", "kind"), [((), "text/x-asked"), (("-t", "text/x-told"), "text/x-told")])
def test_reply_when_it_echoes_then_body_and_type_come_back_unless_told(
    cli: Cli, ask: Ask, given: tuple[str, ...], kind: str
) -> None:
    reply = ask(b"\0\xff")

    assert cli("reply", "/queue/ask", "--echo", "--count", "1", *given).exit_code == 0

    assert (reply().body, reply().content_type) == (b"\0\xff", kind)


def test_reply_when_there_is_a_command_then_it_reads_the_request_and_prints_the_reply(cli: Cli, ask: Ask) -> None:
    reply = ask(b"tea")

    assert cli("reply", "/queue/ask", "--shell", "tr a-z A-Z", "--count", "1").exit_code == 0

    assert reply().body == b"TEA"
    assert "exit-status" not in reply().headers


def test_reply_when_the_command_fails_then_the_reply_says_so_and_the_service_goes_on(cli: Cli, ask: Ask) -> None:
    replies = [ask(b"1"), ask(b"2")]

    done = cli("reply", "/queue/ask", "--shell", "echo sorry; exit 3", "--count", "2")

    assert done.exit_code == 0
    assert done.stderr.count("the command ended with status 3") == 2
    assert [(each().body, each().headers["exit-status"]) for each in replies] == [(b"sorry\n", "3")] * 2


def test_reply_when_a_message_is_no_request_then_it_stays_in_the_queue(
    cli: Cli, stomp_broker_thread: ThreadedBroker
) -> None:
    stomp_broker_thread.call(partial(Broker.publish, destination="/queue/ask", body=b"hello"))

    done = cli("reply", "/queue/ask", "ok", "--count", "1")

    assert done.exit_code == ExitCode.FAILED
    why = "has no reply-to header: it is not a request; it stays in the queue"
    assert re.fullmatch(f"trio-stomp: message '[^']+' {why}\n", done.stderr)
    # It was not refused: some brokers would dead-letter it.
    assert stomp_broker_thread.call(lambda inside: inside.statistics().received[Command.NACK]) == 0
    assert left(stomp_broker_thread, "/queue/ask") == 1


def test_reply_when_no_send_can_carry_it_then_the_request_is_named_and_stays(
    cli: Cli, stomp_broker_thread: ThreadedBroker
) -> None:
    headers = [("reply-to", "/queue/b"), ("content-type", "no type"), ("message-id", "m-1")]
    stomp_broker_thread.call(lambda inside: inside.publish("/queue/ask", b"hello", headers))

    done = cli("reply", "/queue/ask", "--echo", "--count", "1")

    assert done.exit_code == ExitCode.FAILED
    assert re.search(r"no reply to message '.+' can be sent: content_type must be .* 'no type'", done.stderr)
    assert (left(stomp_broker_thread, "/queue/ask"), left(stomp_broker_thread, "/queue/b")) == (1, 0)


def test_reply_when_too_few_requests_come_then_fails_with_a_timeout(cli: Cli) -> None:
    done = cli("reply", "/queue/ask", "ok", "--count", "1", "--timeout", "50ms")

    assert done.exit_code == ExitCode.TIMED_OUT
    assert "only 0 of 1 requests came in time" in done.stderr
    assert cli("reply", "/queue/ask", "ok", "--timeout", "50ms").exit_code == 0


def test_reply_when_a_signal_ends_it_and_its_command_then_the_request_stays_unanswered(
    stomp_broker_thread: ThreadedBroker,
) -> None:
    stomp_broker_thread.call(lambda inside: inside.publish("/queue/ask", b"1", TO_B))

    # As Ctrl-C does at a terminal, to this process and to those that it has started.
    arguments = ["reply", "/queue/ask", "--shell", "kill -INT $PPID $$; sleep 60", "-u", stomp_broker_thread.url]
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, timeout=PATIENCE, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (ExitCode.INTERRUPTED, b"", b"")
    assert (left(stomp_broker_thread, "/queue/ask"), left(stomp_broker_thread, "/queue/b")) == (1, 0)


def test_reply_when_terminated_while_its_command_runs_then_ends_at_once_and_has_held_only_that_request(
    on_pipes: OnPipes, stomp_broker_thread: ThreadedBroker, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "gate")
    for body in (b"1", b"2"):
        stomp_broker_thread.call(partial(Broker.publish, destination="/queue/ask", body=body, headers=TO_B))
    shell = f"echo started >&2; exec 2>/dev/null; cat {tmp_path}/gate"

    with on_pipes("reply", "/queue/ask", "--shell", shell, "-u", stomp_broker_thread.url) as piped:
        # Open for writing, too: the command ends when this does.
        gate = os.open(tmp_path / "gate", os.O_RDWR)
        try:
            assert piped.errors.readline() == b"started\n"
            held = stomp_broker_thread.call(lambda inside: inside.unacknowledged("/queue/ask"))
            piped.process.send_signal(signal.SIGTERM)
            ended = piped.finish()
        finally:
            os.close(gate)

    assert (held, ended) == (1, (ExitCode.TERMINATED, b"", b""))
    assert (left(stomp_broker_thread, "/queue/ask"), left(stomp_broker_thread, "/queue/b")) == (2, 0)


def test_reply_when_on_a_terminal_then_says_where_it_answers(
    on_terminal: OnTerminal, stomp_broker_thread: ThreadedBroker
) -> None:
    stomp_broker_thread.call(partial(Broker.publish, destination="/queue/ask", body=b"1", headers=TO_B))

    terminal = on_terminal("reply", "/queue/ask", "ok", "--count", "1", "-u", stomp_broker_thread.url)

    assert terminal.finish() == 0
    assert terminal.shown == b"answering requests at /queue/ask; press Ctrl-C to stop\r\n"


@pytest.mark.parametrize("reads", [True, False])
async def test_reply_when_interrupted_while_the_broker_does_not_read_then_acknowledges_if_it_reads_in_time(
    autojump_clock: trio.testing.MockClock, reads: bool
) -> None:
    stop, ended = Stop(), trio.Event()
    # More than fits between the two, so that there is no room for the ACK until the broker reads.
    body = b"x" * 5_000_000

    async def play(peer: ScriptedPeer) -> None:
        await peer.accept_connect()
        subscribe = await peer.expect(Command.SUBSCRIBE)
        headers = {"subscription": subscribe.headers["id"], "message-id": "m-1", "destination": "/queue/ask"}
        await peer.send(Command.MESSAGE, {**headers, "ack": "a-1", "reply-to": "/queue/b"}, body)
        await trio.testing.wait_all_tasks_blocked()
        stop.request(signal.SIGINT)
        await trio.testing.wait_all_tasks_blocked()
        if not reads:
            await ended.wait()
        await peer.expect(Command.SEND, destination="/queue/b")
        if reads:
            await peer.expect(Command.ACK, id="a-1")
        await peer.expect(Command.UNSUBSCRIBE)
        await peer.expect_disconnect()

    async with open_scripted_peer(listen=False) as peer, trio.open_nursery() as nursery:
        stream = peer.connect_stream()
        nursery.start_soon(play, peer)
        async with (
            trio_stomp.connect_stream(stream, heart_beat=(0, 0)) as client,
            client.subscribe("/queue/ask", prefetch=1) as requests,
        ):
            started = trio.current_time()
            await Reply(destination="/queue/ask", echo=True).serve(requests, stop)
            took = trio.current_time() - started
            ended.set()

    assert took == (0 if reads else 2)
