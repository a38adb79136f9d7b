"""The live view, against an HTTP server that answers as the management interfaces of the brokers document it."""

from __future__ import annotations

import base64
import dataclasses
import fnmatch
import json
import re
import signal
import socket
import ssl
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import trio
import trustme
from rich.cells import cell_len

import trio_stomp
from tests.cli.conftest import Cli
from tests.cli.exit_code import ExitCode
from tests.cli.processes import PATIENCE, OnPipes, OnTerminal
from tests.kit.certificates import server_context
from trio_stomp.cli.management import Management, Queue
from trio_stomp.cli.saved_contexts import is_array, is_object
from trio_stomp.cli.top import ConnectionView, QueueView, Shown
from trio_stomp.errors import ConnectionLost
from trio_stomp.testing import BrokerOptions, ThreadedBroker, open_broker

# Answers a path, and the content of a POST, with a status and JSON or bytes.
Answer = Callable[[str, object], tuple[int, object]]

LOGIN = f"Basic {base64.b64encode(b'ann:s3cret').decode()}"


@dataclass
class Site:
    """An HTTP server: what it has, and what it was asked."""

    answer: Answer
    scheme: str
    port: int = 0
    asked: list[tuple[str, str | None]] = field(default_factory=list[tuple[str, str | None]])

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"


@contextmanager
def serving(answer: Answer, tls: ssl.SSLContext | None = None) -> Generator[Site]:
    site = Site(answer, "http" if tls is None else "https")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:  # http.server's name
            self._reply(None)

        def do_POST(self) -> None:  # http.server's name
            self._reply(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _reply(self, content: object) -> None:
            site.asked.append((self.path, self.headers["Authorization"]))
            found: object
            if self.headers["Authorization"] != LOGIN:
                status, found = 401, {"error": "not_authorized", "reason": "Login failed"}
            elif self.headers["Accept"] != "application/json":
                status, found = 406, b""
            elif content is not None and self.headers["Content-Type"] != "application/json":
                status, found = 415, b""
            elif content is not None and self.headers["Origin"] != site.url:
                status, found = 403, {"error": "Origin null is not allowed to call this agent"}
            else:
                status, found = site.answer(self.path, content)
            body = found if isinstance(found, bytes) else json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # http.server's name
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        site.port = server.server_address[1]
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield site
        finally:
            server.shutdown()
            thread.join()


def rabbitmq(path: str, content: object) -> tuple[int, object]:
    place, _, columns = path.partition("?columns=")
    if place != "/api/queues" or content is not None:
        return 404, {"error": "Object Not Found", "reason": "Not Found"}
    orders: dict[str, object] = {
        "consumers": 2,
        "message_stats": {
            "deliver_get": 90,
            "deliver_get_details": {"rate": 2.5},
            "publish": 100,
            "publish_details": {"rate": 10.0},
        },
        "messages_ready": 7,
        "messages_unacknowledged": 3,
        "name": "orders",
        "vhost": "/",
    }
    # Never used, so without counters.
    unused: dict[str, object] = {
        "consumers": 0,
        "messages_ready": 0,
        "messages_unacknowledged": 0,
        "name": "a\x1b[2Jb",
        "vhost": "test",
    }
    wanted = [column.split(".") for column in columns.split(",")]
    return 200, [only(wanted, queue) for queue in (orders, unused)]


def only(wanted: list[list[str]], found: dict[str, object]) -> dict[str, object]:
    """The columns of an object, and those of the objects in it."""
    picked: dict[str, object] = {}
    for name, value in found.items():
        inner = [column[1:] for column in wanted if column[0] == name]
        if [] in inner:
            picked[name] = value
        elif inner and is_object(value):
            picked[name] = only(inner, value)
    return picked


def jolokia(place: str, beans: dict[str, dict[str, object]]) -> Answer:
    """Answers as Jolokia's protocol says, to a list of requests with a list of answers."""

    def one(request: dict[str, object]) -> dict[str, object]:
        wanted = dict(part.split("=") for part in str(request["mbean"]).partition(":")[2].split(","))
        domain = str(request["mbean"]).partition(":")[0]
        found = {
            name: attributes
            for name, attributes in beans.items()
            if name.partition(":")[0] == domain
            for keys in [dict(part.split("=") for part in name.partition(":")[2].split(","))]
            if keys.keys() == wanted.keys() and all(fnmatch.fnmatchcase(keys[key], wanted[key]) for key in keys)
        }
        if request["type"] == "search":
            return {"request": request, "status": 200, "timestamp": 1, "value": list(found)}
        assert request["type"] == "read"
        if not found:
            error = f"javax.management.InstanceNotFoundException : No MBean with pattern {request['mbean']} found"
            return {"request": request, "status": 404, "error": error, "error_type": error.partition(" ")[0]}
        names = request["attribute"]
        assert is_array(names)
        value = {name: {str(each): attributes[str(each)] for each in names} for name, attributes in found.items()}
        return {"request": request, "status": 200, "timestamp": 1, "value": value}

    def answer(path: str, content: object) -> tuple[int, object]:
        if path != place:
            return 404, b"<html>Not Found</html>"
        assert is_array(content)
        return 200, [one(request) for request in content if is_object(request)]

    return answer


CLASSIC: dict[str, dict[str, object]] = {
    "org.apache.activemq:type=Broker,brokerName=localhost": {"BrokerVersion": "5.18.3"},
    "org.apache.activemq:type=Broker,brokerName=localhost,destinationType=Queue,destinationName=orders": {
        "Name": "orders",
        "ConsumerCount": 2,
        "QueueSize": 10,
        "InFlightCount": 3,
        "EnqueueCount": 100,
        "DequeueCount": 90,
    },
}
ARTEMIS: dict[str, dict[str, object]] = {
    'org.apache.activemq.artemis:broker="0.0.0.0"': {"Version": "2.40.0"},
    'org.apache.activemq.artemis:broker="0.0.0.0",component=addresses,address="orders",subcomponent=queues,'
    'routing-type="anycast",queue="orders"': {
        "Name": "orders",
        "ConsumerCount": 2,
        "MessageCount": 10,
        "DeliveringCount": 3,
        "MessagesAdded": 100,
        "MessagesAcknowledged": 90,
    },
}
ORDERS = Queue(name="orders", ready=7, unacknowledged=3, consumers=2, received=100, delivered=90)


def management(url: str) -> Management:
    return Management(url, login="ann", passcode="s3cret", tls=None)


@pytest.mark.parametrize(
    ("answer", "path"),
    [
        (rabbitmq, ""),
        (jolokia("/api/jolokia", CLASSIC), ""),
        (jolokia("/api/jolokia", CLASSIC), "/api/jolokia/"),
        (jolokia("/jolokia/", CLASSIC), "/jolokia"),
        (jolokia("/console/jolokia", ARTEMIS), ""),
        (jolokia("/broker/jolokia", ARTEMIS), "/broker/jolokia"),
    ],
    ids=["RabbitMQ", "Classic", "Classic, its Jolokia", "Classic, the JVM's agent", "Artemis", "Artemis, its Jolokia"],
)
async def test_queues_when_a_broker_tells_them_then_the_same_figures_for_each_kind(answer: Answer, path: str) -> None:
    with serving(answer) as site:
        asked = management(f"{site.url}{path}")
        first, number = await asked.queues(), len(site.asked)
        second = await asked.queues()

    for orders, *_ in (first, second):
        assert dataclasses.replace(orders, received_per_second=None, delivered_per_second=None) == ORDERS
    # What it found out, it does not ask again.
    assert len(site.asked) == number + 1


async def test_queues_when_canceled_then_does_not_wait_for_the_answer() -> None:
    asked, token, ended = trio.Event(), trio.lowlevel.current_trio_token(), threading.Event()

    def answer(_path: str, _content: object) -> tuple[int, object]:
        trio.from_thread.run_sync(asked.set, trio_token=token)
        ended.wait(PATIENCE)
        return 404, b""

    with serving(answer) as site:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(management(site.url).queues)
            await asked.wait()
            nursery.cancel_scope.cancel()
        ended.set()

    assert len(site.asked) == 1


@pytest.fixture
def logged_in(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.delenv("TRIO_STOMP_URL")
    monkeypatch.setenv("TRIO_STOMP_LOGIN", "ann")
    monkeypatch.setenv("TRIO_STOMP_PASSCODE", "s3cret")
    monkeypatch.setenv("COLUMNS", "80")
    return cli


def always(status: int, body: bytes = b"") -> Answer:
    return lambda _path, _content: (status, body)


def jolokia_says(text: str) -> Answer:
    return lambda path, _content: (200 if path == "/api/jolokia" else 404, text.encode())


ELSE = "is not a management interface of RabbitMQ, ActiveMQ Classic or Artemis"


@pytest.mark.parametrize(
    ("answer", "why", "code"),
    [
        (always(404), f"URL {ELSE}", ExitCode.FAILED),
        (always(200, b"<html>"), f"URL {ELSE}", ExitCode.FAILED),
        (always(200, b"[" * 100_000), f"URL {ELSE}", ExitCode.FAILED),
        (always(500), "URL answers with HTTP status 500 and 0 bytes", ExitCode.FAILED),
        (always(302), "URL answers with HTTP status 302 and 0 bytes", ExitCode.FAILED),
        (
            always(403),
            "URL refuses this user (HTTP 403); is the passcode right, and may it see this? (RabbitMQ: tag management)",
            ExitCode.REFUSED,
        ),
        (jolokia_says("{}"), "Jolokia finds no broker", ExitCode.FAILED),
        (jolokia_says('[{"value": []}, {}, {"value": 1}, {}]'), "Jolokia finds no broker", ExitCode.FAILED),
        (
            jolokia_says('[{"error": "first"}, {"error": "second"}, {"error": "first"}]'),
            "Jolokia finds no broker: first; second",
            ExitCode.FAILED,
        ),
    ],
)
def test_top_when_there_are_no_queues_to_be_had_then_says_why(
    logged_in: Cli, answer: Answer, why: str, code: ExitCode
) -> None:
    with serving(answer) as site:
        done = logged_in("top", "--once", "--management", site.url)

    assert (done.exit_code, done.stderr) == (code, f"trio-stomp: {why.replace('URL', site.url)}\n")


def test_top_when_what_listens_there_does_not_speak_http_then_says_so(
    logged_in: Cli, stomp_broker_thread: ThreadedBroker
) -> None:
    url = f"http://127.0.0.1:{stomp_broker_thread.port}"
    done = logged_in("top", "--once", "--management", url)

    assert (done.exit_code, done.stdout) == (ExitCode.NOT_CONNECTED, "")
    assert done.stderr.startswith(f"trio-stomp: {url} does not speak HTTP: BadStatusLine('ERROR")


def test_top_when_jolokia_says_more_or_less_than_a_broker_would_then_shows_what_can_be_read(logged_in: Cli) -> None:
    beans = '{"a": 1, "b": {"Name": "q", "QueueSize": 2, "InFlightCount": 3}}'
    with serving(jolokia_says(f'[{{"value": ["broker"]}}, {{"value": {beans}}}]')) as site:
        done = logged_in("top", "--once", "--json", "--management", site.url)

    (queue,) = json.loads(done.stdout)["queues"]
    numbers = {"ready": 0, "unacknowledged": 3, "consumers": 0, "received": 0, "delivered": 0}
    assert queue == {"name": "q", **numbers, "received_per_second": None, "delivered_per_second": None}


@pytest.mark.parametrize(("most", "code"), [(2, ExitCode.OK), (1, ExitCode.FAILED)])
def test_top_when_the_answer_is_longer_than_any_broker_sends_then_refused(
    logged_in: Cli, monkeypatch: pytest.MonkeyPatch, most: int, code: ExitCode
) -> None:
    monkeypatch.setattr("trio_stomp.cli.management._MAX_BYTES", most)
    with serving(always(200, b"[]")) as site:
        done = logged_in("top", "--once", "--json", "--management", site.url)

    assert done.exit_code == code
    assert ("HTTP status 200 and 2 bytes" in done.stderr) == (code is not ExitCode.OK)


def test_top_when_the_login_is_wrong_or_missing_then_refused(logged_in: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(rabbitmq) as site:
        monkeypatch.setenv("TRIO_STOMP_PASSCODE", "wrong")
        wrong = logged_in("top", "--once", "--management", site.url)
        monkeypatch.setenv("TRIO_STOMP_LOGIN", "ann\udcff")
        not_utf_8 = logged_in("top", "--once", "--management", site.url)
        monkeypatch.delenv("TRIO_STOMP_LOGIN")
        missing = logged_in("top", "--once", "--management", site.url)

    assert wrong.exit_code == not_utf_8.exit_code == missing.exit_code == ExitCode.REFUSED
    assert re.search(r"refuses this user .*is the passcode right", wrong.stderr)
    assert "pass --login" in missing.stderr


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_top_when_no_interface_is_there_then_says_so(logged_in: Cli, host: str) -> None:
    done = logged_in("top", "--once", "--management", f"http://{host}:1/")

    assert done.exit_code == ExitCode.NOT_CONNECTED
    # Not every machine has IPv6.
    assert re.fullmatch(
        rf"trio-stomp: http://{re.escape(host)}:1 does not answer: (Connection refused|Cannot assign .+)\n", done.stderr
    )


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost."])
def test_top_when_over_tls_then_the_certificate_is_checked_for_the_name_without_a_final_dot(
    logged_in: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    genuine = socket.getaddrinfo
    # Not every system resolves the absolute form of "localhost".
    monkeypatch.setattr(socket, "getaddrinfo", lambda _host, port, *_: genuine("127.0.0.1", port))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]  # untyped by its place
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    with serving(rabbitmq, server_context(authority)) as site:
        arguments = ("top", "--once", "--management", site.url.replace("127.0.0.1", host), "--url", "stomps://a")
        trusted = logged_in(*arguments, "--ca", str(tmp_path / "ca.pem"))
        untrusted = logged_in(*arguments)

    assert trusted.exit_code == 0, trusted.output
    assert untrusted.exit_code == ExitCode.NOT_CONNECTED
    assert re.search(r"does not answer.*certificate", untrusted.stderr)


def growing() -> Answer:
    """ActiveMQ with a queue that takes in 20 messages, and passes on 5, from one look to the next."""
    looks = iter(range(100))

    def answer(path: str, content: object) -> tuple[int, object]:
        if path != "/api/jolokia":
            return 404, b""
        look = next(looks)
        beans = {name: bean for name, bean in CLASSIC.items() if "destinationName" not in name}
        for index, (name, factor) in enumerate({"quiet": 0, "busy": 1, "fülle" * 20: 0}.items()):
            beans[f"org.apache.activemq:type=Broker,brokerName=a,destinationType=Queue,destinationName={name}"] = {
                "Name": name,
                "ConsumerCount": 1,
                "QueueSize": 5 - index,
                "InFlightCount": 0,
                "EnqueueCount": 20 * look * factor,
                "DequeueCount": 5 * look * factor,
            }
        return jolokia("/api/jolokia", beans)(path, content)

    return answer


def test_count_when_one_queue_is_named_then_its_number_alone(cli: Cli) -> None:
    with serving(rabbitmq) as site:
        options = ("--management", site.url.replace("://", "://ann:s3cret@"))
        one = cli("count", "/queue/orders", *options)
        all_of_them = cli("count", "*", *options)
        none = cli("count", *options)

    assert (one.exit_code, one.stdout) == (0, "10\n")
    # The name is text that others chose.
    assert (all_of_them.exit_code, all_of_them.stdout) == (0, "10 orders\n0 test/a\\x1b[2Jb\n")
    assert none.exit_code == ExitCode.USAGE


def test_count_when_a_name_has_brackets_then_they_are_no_pattern(cli: Cli) -> None:
    with serving(always(200, b'[{"name": "X[b]", "messages_ready": 4}, {"name": "Xb", "messages_ready": 5}]')) as site:
        done = cli("count", "X[b]", "--management", site.url.replace("://", "://ann:s3cret@"))

    assert (done.exit_code, done.stdout) == (0, "4\n")


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999", "9" * 1000, str(2**63), '"7"', "null"])
def test_top_when_a_number_is_none_that_a_broker_counts_then_as_if_it_was_left_out(logged_in: Cli, number: str) -> None:
    rates = f'"publish_details": {{"rate": {number}}}, "deliver_get_details": {{"rate": 2.5}}'
    line = f'[{{"name": "a", "messages_ready": {number}, "consumers": 3, "message_stats": {{{rates}}}}}]'
    with serving(always(200, line.encode())) as site:
        done = logged_in("top", "--once", "--management", site.url)

    assert (done.exit_code, done.stderr) == (0, ""), done.exception
    assert done.stdout.splitlines()[-1].split() == ["a", "0", "0", "3", "0.0", "2.5"]


def test_count_when_a_queue_is_missing_then_says_which(cli: Cli) -> None:
    with serving(rabbitmq) as site:
        done = cli("count", "orders", "oders", "--management", site.url.replace("://", "://ann:s3cret@"))

    assert (done.exit_code, done.stdout) == (ExitCode.FAILED, "10 orders\n")
    assert "has no queue 'oders'" in done.stderr


async def test_view_when_looked_at_twice_then_shows_rates(autojump_clock: trio.testing.MockClock) -> None:
    with serving(growing()) as site:
        view = QueueView(management(site.url), sort="in")
        await view.look()
        # No time has passed.
        first = await view.look()
        await trio.sleep(2)
        second = await view.look()

    assert first.rows == [
        ("busy", "4", "0", "1", "-", "-"),
        ("fülle" * 20, "3", "0", "1", "-", "-"),
        ("quiet", "5", "0", "1", "-", "-"),
    ]
    assert second.rows == [
        ("busy", "4", "0", "1", "10.0", "2.5"),
        ("fülle" * 20, "3", "0", "1", "0.0", "0.0"),
        ("quiet", "5", "0", "1", "0.0", "0.0"),
    ]


async def test_view_when_the_broker_was_started_again_then_no_rate_until_the_look_after_that(
    autojump_clock: trio.testing.MockClock,
) -> None:
    received = iter([100, 3, 13])

    def answer(path: str, content: object) -> tuple[int, object]:
        if path != "/api/jolokia":
            return 404, b""
        name, queue = [*CLASSIC.items()][-1]
        return jolokia(path, {**CLASSIC, name: {**queue, "EnqueueCount": next(received)}})(path, content)

    rates: list[str] = []
    with serving(answer) as site:
        view = QueueView(management(site.url))
        for _ in range(3):
            rates.append((await view.look()).rows[0][4])
            await trio.sleep(2)

    assert rates == ["-", "-", "5.0"]


@pytest.mark.parametrize(
    ("width", "height", "lines"),
    [
        (80, 5, ["two queues of a broker", "QUEUE       READY", "a-long-one      5", "    note", "ä             100"]),
        (17, 5, ["two queues of a b", "QUEUE       READY", "a-long-one      5", "    note", "ä             100"]),
        (11, 4, ["two queues ", "QUEU  READY", "a-lo      5", "... and 2 more"]),
        (2, 2, ["tw", "... and 4 more"]),
        # Numbers are left whole.
        (2, 9, ["tw", "Q  READY", "a      5", "", "ä    100"]),
    ],
)
def test_look_when_the_screen_is_small_then_its_lines_fit(width: int, height: int, lines: list[str]) -> None:
    rows = [("a-long-one", "5"), ("    note",), ("ä", "100")]

    assert Shown("two queues of a broker", ("QUEUE", "READY"), rows, {}).lines(width, height) == lines


async def test_view_when_names_are_long_or_evil_then_its_lines_fit_the_screen() -> None:
    with serving(growing()) as site:
        shown = await QueueView(management(site.url)).look()
    with serving(rabbitmq) as site:
        evil = await QueueView(management(site.url), sort="name").look()

    lines = shown.lines(79, 24)
    assert max(map(cell_len, lines)) <= 79
    assert len({cell_len(line) for line in lines[1:]}) == 1
    assert evil.lines(79, 24)[-1].startswith("test/a\\x1b[2Jb ")


async def test_view_when_of_a_connection_then_shows_its_statistics(autojump_clock: trio.testing.MockClock) -> None:
    options = BrokerOptions(server=None, heart_beat=(0, 0))
    async with (
        open_broker(listen=False, options=options) as broker,
        trio_stomp.connect_stream(broker.connect_stream(), vhost="/") as client,
    ):
        view = ConnectionView(client)
        with trio.testing.assert_checkpoints():
            await view.look()
        await client.send("/queue/a", b"x" * 1000, receipt=True)
        await trio.sleep(1.28)
        shown = await view.look()
        statistics = client.statistics()

    assert shown == Shown(
        "unknown broker, STOMP 1.2, connected",
        ("CONNECTION", "TOTAL", "PER SECOND"),
        [
            ("bytes received", str(statistics.bytes_received), "20.3"),
            ("bytes sent", str(statistics.bytes_sent), "852"),
            ("frames sent", "1", "0.8"),
            ("heart beats sent", "0", "0.0"),
            ("errors received", "0", "0.0"),
            ("reconnections", "0", "0.0"),
            ("seconds connected", "1.3", ""),
            ("seconds since read", "1.3", ""),
            ("seconds since write", "1.3", ""),
        ],
        {
            "server": None,
            "version": "1.2",
            "phase": "connected",
            "bytes_received": statistics.bytes_received,
            "bytes_sent": statistics.bytes_sent,
            "frames_sent": 1,
            "heart_beats_sent": 0,
            "errors_received": 0,
            "reconnections": 0,
            "seconds_connected": 1.3,
            "seconds_since_read": 1.3,
            "seconds_since_write": 1.3,
        },
    )


async def test_view_when_its_connection_is_lost_then_says_why(autojump_clock: trio.testing.MockClock) -> None:
    async with open_broker(listen=False) as broker:
        with suppress(ConnectionLost):
            async with trio_stomp.connect_stream(broker.connect_stream()) as client:
                view = ConnectionView(client)
                await view.look()
                broker.drop_connections()
                await trio.sleep(1)
                with pytest.raises(ConnectionLost):
                    await view.look()


def test_top_when_once_then_prints_a_table_or_json(logged_in: Cli) -> None:
    with serving(rabbitmq) as site:
        table = logged_in("top", "--once", "--management", site.url)
        line = logged_in("top", "orders", "--once", "--json", "--management", site.url)

    assert (table.exit_code, line.exit_code) == (0, 0), table.output
    assert table.stdout == (
        f"2 queues at {site.url}, 7 messages ready\n"
        "QUEUE           READY  UNACKED  CONSUMERS  IN/s  OUT/s\n"
        "orders              7        3          2  10.0    2.5\n"
        "test/a\\x1b[2Jb      0        0          0   0.0    0.0\n"
    )
    assert json.loads(line.stdout) == {
        "queues": [
            {
                "name": "orders",
                "ready": 7,
                "unacknowledged": 3,
                "consumers": 2,
                "received": 100,
                "delivered": 90,
                "received_per_second": 10.0,
                "delivered_per_second": 2.5,
            }
        ]
    }


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ((), ["orders", "test/a\x1b[2Jb"]),
        (("--sort", "out"), ["orders", "test/a\x1b[2Jb"]),
        (("ord*",), ["orders"]),
        (("x", "orders"), ["orders"]),
    ],
)
def test_top_when_queues_are_named_then_shows_those(
    logged_in: Cli, arguments: tuple[str, ...], names: list[str]
) -> None:
    with serving(rabbitmq) as site:
        done = logged_in("top", *arguments, "--once", "--json", "--management", site.url)

    assert [queue["name"] for queue in json.loads(done.stdout)["queues"]] == names


@pytest.mark.parametrize(
    ("sort", "names"),
    [
        ("name", "abc"),
        ("ready", "cab"),
        ("unacknowledged", "acb"),
        ("consumers", "bac"),
        ("in", "bca"),
        # A rate that is not known counts as none; by name where the rest is equal.
        ("out", "cab"),
    ],
)
def test_top_when_sorted_by_a_column_then_the_largest_first(logged_in: Cli, sort: str, names: str) -> None:
    def queue(name: str, ready: int, held: int, consumers: int, *rates: float) -> dict[str, object]:
        kinds = zip(("publish", "deliver_get"), rates, strict=False)
        told = {f"{kind}_details": {"rate": rate} for kind, rate in kinds}
        numbers = {"messages_ready": ready, "messages_unacknowledged": held, "consumers": consumers}
        return {"name": name, "message_stats": told, **numbers}

    queues = [queue("b", 1, 1, 3, 0.9, 0.0), queue("a", 2, 3, 2, 0.5), queue("c", 3, 2, 1, 0.7, 0.3)]
    with serving(lambda _path, _content: (200, queues)) as site:
        done = logged_in("top", "--once", "--json", "--sort", sort, "--management", site.url)
        default = logged_in("top", "--once", "--json", "--management", site.url)

    assert "".join(each["name"] for each in json.loads(done.stdout)["queues"]) == names
    assert "".join(each["name"] for each in json.loads(default.stdout)["queues"]) == "cab"


def test_top_when_the_broker_has_no_queues_then_none(logged_in: Cli) -> None:
    only_brokers = {name: bean for name, bean in CLASSIC.items() if "destinationName" not in name}
    with serving(jolokia("/api/jolokia", only_brokers)) as site:
        done = logged_in("top", "--once", "--json", "--management", site.url)

    assert json.loads(done.stdout) == {"queues": []}


def test_top_when_a_context_has_the_management_interface_then_asks_there(logged_in: Cli) -> None:
    with serving(rabbitmq) as site:
        logged_in("context", "add", "here", "--url", "stomp://127.0.0.1:1", "--management", site.url)
        done = logged_in("top", "--once", "--context", "here")

    assert done.exit_code == 0, done.output
    assert "orders" in done.stdout


def test_top_when_the_user_is_in_a_url_then_that_one(cli: Cli) -> None:
    with serving(rabbitmq) as site:
        of_broker = cli("top", "--once", "--url", "stomp://ann:s3cret@localhost", "--management", site.url)
        # Before the user in the URL of the broker.
        of_interface = cli("top", "--once", "--management", site.url.replace("//", "//ann:s3cret@"))

    for done in (of_broker, of_interface):
        assert done.exit_code == 0, done.output
        assert "s3cret" not in done.output


def test_top_when_it_has_no_management_interface_then_shows_a_connection_but_no_queues(
    cli: Cli, stomp_broker_thread: ThreadedBroker
) -> None:
    done = cli("top", "--once", "--json")
    queue = cli("top", "orders", "--once")

    assert json.loads(done.stdout)["phase"] == "connected"
    assert queue.exit_code == ExitCode.USAGE
    assert "pass --management URL" in queue.stderr


def test_top_when_it_watches_then_shows_the_last_look_and_a_note_until_it_is_refused(
    logged_in: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "29")
    looks = iter(range(1000))

    def answer(path: str, content: object) -> tuple[int, object]:
        match next(looks):
            case 0 | 2:
                return rabbitmq(path, content)
            case 1:
                raise ConnectionError
            case _:
                return 403, b""

    began = time.monotonic()
    with serving(answer) as site:
        done = logged_in("top", "ord*", "--interval", "0.02", "--management", site.url)
    took = time.monotonic() - began

    assert done.exit_code == ExitCode.REFUSED
    look = (
        "1 queue at http://127.0.0.1:\n"
        "Q  READY  UNACKED  CONSUMERS  IN/s  OUT/s\n"
        "o      7        3          2  10.0    2.5\n"
    )
    note = f"{site.url} does not answer"[:28]
    assert done.stdout == f"{look}\n{look}{note}\n\n{look}"
    # It looks again after each interval.
    assert took >= 3 * 0.02


@pytest.mark.parametrize("arguments", [("--once",), ("--json", "--interval", "0.01")])
def test_top_when_on_a_terminal_without_a_view_to_redraw_then_does_not_control_it(
    on_terminal: OnTerminal, stomp_broker_thread: ThreadedBroker, arguments: tuple[str, ...]
) -> None:
    terminal = on_terminal("top", *arguments, "-u", stomp_broker_thread.url)
    if "--once" not in arguments:
        terminal.wait_for(b"connected", times=2)
        terminal.type(b"\x03")

    assert terminal.finish() == 0
    assert b"\x1b" not in terminal.shown


def test_top_when_on_a_terminal_then_draws_what_fits_over_what_was_there(
    on_terminal: OnTerminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIO_STOMP_LOGIN", "ann")
    monkeypatch.setenv("TRIO_STOMP_PASSCODE", "s3cret")
    monkeypatch.setenv("LINES", "5")
    with serving(rabbitmq) as site:
        terminal = on_terminal("top", "--interval", "0.01", "--management", site.url)
        terminal.wait_for(b"\x1b[J", times=3)
        terminal.type(b"\x03")
        status = terminal.finish()

    assert status == 0
    screen = (
        f"\x1b[H2 queues at {site.url}, 7 messages ready\x1b[K\r\n"
        "QUEUE           READY  UNACKED  CONSUMERS  IN/s  OUT/s\x1b[K\r\n"
        "... and 2 more\x1b[K\r\n"
        "\x1b[J"
    )
    assert terminal.shown.decode().startswith(f"\x1b[2J{2 * screen}")


def test_top_when_it_watches_then_goes_on_through_an_outage_until_ctrl_c(
    on_pipes: OnPipes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIO_STOMP_LOGIN", "ann")
    monkeypatch.setenv("TRIO_STOMP_PASSCODE", "s3cret")
    looks = iter(range(1000))

    def answer(path: str, content: object) -> tuple[int, object]:
        if next(looks) == 1:
            raise ConnectionError
        return rabbitmq(path, content)

    with serving(answer) as site:
        with on_pipes("top", "--interval", "0.05", "--management", site.url) as piped:
            seen = b""
            while seen.count(b"2 queues at") < 3:
                seen += piped.output.readline()
            piped.process.send_signal(signal.SIGINT)
            status, _, errors = piped.finish()

    assert (status, errors) == (0, b"")
    assert b"does not answer" in seen
    assert b"\x1b" not in seen
