import io
import json
import threading
from collections.abc import Generator
from pathlib import Path

import pytest
import trio

import trio_stomp
from tests.cli.conftest import Cli, wait_until_left
from tests.cli.exit_code import ExitCode
from trio_stomp.cli.options import Link
from trio_stomp.cli.request import Request
from trio_stomp.cli.running import Stop
from trio_stomp.testing import Broker, ThreadedBroker
from trio_stomp.types import ConnectOptions


@pytest.fixture
def _echo(stomp_broker_thread: ThreadedBroker) -> Generator[None]:
    """A service that answers each request with its body, and says which shop it is for."""
    stop = threading.Event()

    async def serve() -> None:
        async with (
            trio_stomp.connect(stomp_broker_thread.url) as client,
            client.subscribe("/queue/echo") as requests,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(_answer, client, requests)
            await trio.to_thread.run_sync(stop.wait)
            nursery.cancel_scope.cancel()

    thread = threading.Thread(target=trio.run, args=(serve,))
    thread.start()
    yield
    stop.set()
    thread.join()


async def _answer(client: trio_stomp.Client, requests: trio_stomp.Subscription) -> None:
    async for request in requests:
        async with request:
            headers = {name: request.headers[name] for name in ("correlation-id", "shop") if name in request.headers}
            await client.send(request.headers["reply-to"], b"echo of " + request.body, headers=headers)


@pytest.mark.usefixtures("_echo")
def test_request_when_answered_then_prints_the_reply(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("tea", "utf-8")

    given = cli("request", "/queue/echo", "tea")
    read = cli("request", "/queue/echo", "--text", "-i", "-H", "shop:7", input="tea")
    of_a_file = cli("request", "/queue/echo", "--file", str(tmp_path / "a"))
    as_json = cli("request", "/queue/echo", "tea", "--json")

    assert (given.exit_code, given.stdout) == (of_a_file.exit_code, of_a_file.stdout) == (0, "echo of tea\n")
    assert "shop: 7\n" in read.stdout
    assert json.loads(as_json.stdout)["body"] == "echo of tea"


def test_request_when_nobody_answers_then_times_out(cli: Cli) -> None:
    done = cli("request", "/queue/unanswered", "tea", "-w", "0.1")

    assert done.exit_code == ExitCode.TIMED_OUT
    assert "no reply to the request to '/queue/unanswered' within 0.1 s" in done.stderr


def test_request_when_the_link_breaks_while_it_waits_then_says_so_and_prints_nothing(
    cli: Cli, stomp_broker_thread: ThreadedBroker
) -> None:
    def break_link() -> None:
        wait_until_left(stomp_broker_thread, 1, "/queue/unanswered")
        stomp_broker_thread.call(Broker.drop_connections)

    breaking = threading.Thread(target=break_link)
    breaking.start()
    done = cli("request", "/queue/unanswered", "tea")
    breaking.join()

    assert (done.exit_code, done.stdout) == (ExitCode.NOT_CONFIRMED, "")


async def test_request_when_canceled_while_it_waits_for_its_input_then_does_not_wait_for_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reading, may_end = threading.Event(), threading.Event()

    class Waiting(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            reading.set()
            may_end.wait(10)
            return super().read(size)

    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(Waiting()))
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(Request(destination="/queue/a").run, Link((), ConnectOptions()), Stop())
            await trio.to_thread.run_sync(reading.wait)
            nursery.cancel_scope.cancel()
    finally:
        may_end.set()


@pytest.mark.usefixtures("_echo")
def test_request_when_an_empty_input_is_meant_then_sent(cli: Cli) -> None:
    assert cli("request", "/queue/echo", "--empty", input=b"").stdout == "echo of \n"
