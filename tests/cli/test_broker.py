import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import trio
import trio.testing
import trustme
from click.testing import CliRunner

from trio_stomp.cli.broker import BrokerArguments, read_users, serve
from trio_stomp.cli.command_line import command_line
from trio_stomp.cli.running import CommandFailed, ExitCode, Stop
from trio_stomp.testing import BrokerStatistics


@contextmanager
def running(*arguments: str) -> Generator[tuple[subprocess.Popen[str], str]]:
    """A broker in a process of its own, and the line that it says first."""
    command = [sys.executable, "-m", "trio_stomp.cli", "broker", "--port", "0", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process, process.stdout.readline()
    finally:
        process.kill()
        process.communicate()


def port_in(line: str) -> int:
    return int(line.rpartition(":")[2])


def send(url: str, *arguments: str) -> int:
    return CliRunner().invoke(command_line, ["send", "-u", url, "/queue/a", "one", *arguments]).exit_code


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_broker_when_it_listens_then_serves_until_a_signal_ends_it_well(number: signal.Signals) -> None:
    with running() as (process, line):
        status = send(f"stomp://127.0.0.1:{port_in(line)}")
        process.send_signal(number)
        output, errors = process.communicate(timeout=120)

    assert line.startswith("listening on stomp://127.0.0.1:")
    assert status == 0
    assert (process.returncode, output, errors) == (0, "", "")


def test_broker_when_it_has_users_and_vhosts_then_lets_in_those(tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text("# who may\n\nann:s3cret:x\n", "utf-8")
    with running("--users", str(users), "--vhost", "orders") as (_, line):
        port = port_in(line)
        statuses = [
            send(f"stomp://ann:s3cret%3Ax@127.0.0.1:{port}/orders"),
            send(f"stomp://ann:wrong@127.0.0.1:{port}/orders"),
            send(f"stomp://127.0.0.1:{port}/orders"),
            send(f"stomp://ann:s3cret%3Ax@127.0.0.1:{port}/other"),
        ]

    assert statuses[0] == 0
    assert statuses[1] == statuses[2] == ExitCode.REFUSED
    assert statuses[3] != 0
    assert "s3cret" not in line


def test_users_when_the_file_is_not_utf_8_then_said_without_its_content(tmp_path: Path) -> None:
    (tmp_path / "users").write_bytes(b"ann:s3cret\xff\n")

    with pytest.raises(CommandFailed, match="it is not UTF-8 text") as caught:
        read_users(tmp_path / "users")

    assert "s3cret" not in str(caught.value)


def test_broker_when_it_has_a_certificate_then_speaks_tls(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(tmp_path / "broker.pem")
    with running("--cert", str(tmp_path / "broker.pem")) as (_, line):
        url = f"stomps://127.0.0.1:{port_in(line)}"
        trusted, untrusted = send(url, "--ca", str(tmp_path / "ca.pem")), send(url)

    assert line.startswith("listening on stomps://")
    assert (trusted, untrusted) == (0, ExitCode.NOT_CONNECTED)


def test_broker_when_it_speaks_websocket_then_says_so_in_its_url() -> None:
    with running("--websocket") as (_, line):
        url = line.removeprefix("listening on ").strip()
        status = send(url)

    assert url.startswith("ws://127.0.0.1:")
    assert status == 0


def test_broker_when_it_listens_at_a_path_then_it_is_its_url(tmp_path: Path) -> None:
    with running("--unix-socket", str(tmp_path / "broker")) as (_, line):
        status = send(f"stomp+unix://{tmp_path}/broker")

    assert line == f"listening on stomp+unix://{tmp_path}/broker\n"
    assert status == 0


def test_broker_when_an_origin_is_given_without_websocket_then_refused() -> None:
    done = CliRunner().invoke(command_line, ["broker", "--port", "0", "--origin", "*"])

    assert (done.exit_code, done.stdout) == (ExitCode.USAGE, "")
    assert "--origin" in done.stderr


@pytest.mark.parametrize(("given", "status"), [((), 403), (("--origin", "http://app.example"), 101)])
def test_broker_when_a_web_page_connects_then_its_origin_has_to_be_allowed(given: tuple[str, ...], status: int) -> None:
    upgrade = (
        b"GET /ws HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    )
    with running("--websocket", *given) as (_, line):
        port = urlsplit(line.split()[-1]).port or 0
        with socket.create_connection(("127.0.0.1", port), timeout=60) as page:
            page.sendall(upgrade + b"Origin: http://app.example\r\n\r\n")

            assert page.recv(4096).startswith(b"HTTP/1.1 %d " % status)


@pytest.mark.parametrize("besides", ["--websocket", "--cert"])
def test_broker_when_a_unix_socket_is_to_carry_more_then_a_matter_of_usage(besides: str, tmp_path: Path) -> None:
    authority, pem = trustme.CA(), tmp_path / "broker.pem"
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(pem)
    more = [besides, str(pem)] if besides == "--cert" else [besides]

    done = CliRunner().invoke(command_line, ["broker", "--unix-socket", str(tmp_path / "broker"), *more])

    assert done.exit_code == ExitCode.USAGE
    assert "--unix-socket cannot be combined with" in done.stderr


def test_broker_when_the_extra_for_websocket_is_missing_then_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wsproto", None)
    monkeypatch.delitem(sys.modules, "trio_stomp.testing.websocket_link", raising=False)

    done = CliRunner().invoke(command_line, ["broker", "--websocket", "--port", "0"])

    assert done.exit_code == ExitCode.USAGE
    assert "pip install 'trio-stomp[websocket]'" in done.stderr


def test_broker_when_the_path_cannot_be_had_then_says_so(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "broker"

    done = CliRunner().invoke(command_line, ["broker", "--unix-socket", str(path)])

    assert done.exit_code == ExitCode.FAILED
    assert f"cannot listen on {path}" in done.stderr


@pytest.mark.parametrize("tls", [True, False])
async def test_broker_when_told_to_stop_then_tells_what_it_did(
    tls: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "broker.pem"
    trustme.CA().issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(file)
    arguments = BrokerArguments(
        host="127.0.0.1",
        port=0,
        websocket=False,
        unix_socket=None,
        users=None,
        vhost=(),
        cert=file if tls else None,
        key=None,
        nack="requeue",
        max_deliveries=5,
        dead_letter="",
        prefetch=None,
        heart_beat=1.0,
        server="RabbitMQ/3",
        bare_queues=False,
        max_message_bytes=1000,
        max_queue_bytes=10_000,
        max_stored_bytes=100_000,
        max_connections=10,
    )
    stop = Stop()
    found: list[BrokerStatistics] = []

    async def run() -> None:
        found.append(await serve(arguments, stop))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await trio.testing.wait_all_tasks_blocked()
        line = capsys.readouterr().out
        async with await trio.open_tcp_stream("127.0.0.1", port_in(line)):
            await trio.testing.wait_all_tasks_blocked(0.01)
        stop.request(signal.SIGINT)

    assert line.startswith("listening on stomps://" if tls else "listening on stomp://")
    assert found[0].connections == 1
    assert stop.code is ExitCode.OK
    options = arguments.options()
    assert (options.dead_letter, options.server, options.logins) == (None, "RabbitMQ/3", None)


def test_broker_when_an_option_makes_no_sense_then_a_matter_of_usage() -> None:
    done = CliRunner().invoke(command_line, ["broker", "--port", "0", "--heart-beat", "inf", "--prefetch", "0"])

    assert done.exit_code == ExitCode.USAGE


def test_broker_when_the_port_is_taken_then_says_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = CliRunner().invoke(command_line, ["broker", "--port", str(port)])

    assert done.exit_code == ExitCode.FAILED
    assert f"cannot listen on 127.0.0.1 port {port}" in done.stderr


def test_broker_when_a_file_cannot_be_used_then_says_which(tmp_path: Path) -> None:
    file = tmp_path / "broker.pem"
    file.touch()

    done = CliRunner().invoke(command_line, ["broker", "--cert", str(file)])

    assert done.exit_code == ExitCode.USAGE
    assert "expected PEM" in done.stderr


@pytest.mark.parametrize(
    ("text", "why"),
    [("", "has no users"), ("ann:x\ns3cret\n", ":2: expected user:passcode"), (":x\n", ":1: expected")],
)
def test_users_when_the_file_has_none_then_said_so_without_showing_it(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "users"
    file.write_text(text, "utf-8")

    with pytest.raises(CommandFailed, match=why) as caught:
        read_users(file)

    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "warned"),
    [(["--host", "::"], True), (["--host", "localhost"], False), (["--host", "127.0.0.1"], False)],
)
def test_broker_when_others_can_reach_it_and_all_may_enter_then_warns(arguments: list[str], warned: bool) -> None:
    with running(*arguments) as (process, line):
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=120)

    assert line.startswith("listening on ")
    assert ("WARNING" in errors and "--users" in errors) is warned


def test_broker_when_users_are_named_then_does_not_warn(tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text("ann:s3cret\n", "utf-8")
    with running("--host", "::", "--users", str(users)) as (process, _):
        process.send_signal(signal.SIGTERM)
        assert "WARNING" not in process.communicate(timeout=120)[1]


def test_broker_when_told_its_limits_then_has_them() -> None:
    with running("--max-message-bytes", "10", "--bare-queues") as (_, line):
        url = f"stomp://127.0.0.1:{port_in(line)}"
        short = CliRunner().invoke(command_line, ["send", "-u", url, "bare", "0123456789"])
        long = CliRunner().invoke(command_line, ["send", "-u", url, "bare", "0123456789x"])

    assert short.exit_code == 0
    assert long.exit_code != 0
