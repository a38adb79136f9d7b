import errno
import os
import signal
import socket
import sys
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

import pytest
import trustme
from click.testing import CliRunner

import trio_stomp.blocking
from tests.cli.exit_code import ExitCode
from tests.cli.processes import OnPipes, OnTerminal, Piped
from trio_stomp.cli.command_line import command_line


class Running(Protocol):
    """Runs a broker in a process of its own; gives the line that it says first."""

    def __call__(self, *arguments: str) -> AbstractContextManager[tuple[Piped, str]]: ...


@pytest.fixture
def running(on_pipes: OnPipes) -> Running:
    @contextmanager
    def run(*arguments: str) -> Generator[tuple[Piped, str]]:
        with on_pipes("broker", "--port", "0", *arguments) as piped:
            yield piped, piped.output.readline().decode()

    return run


def port_in(line: str) -> int:
    return int(line.rpartition(":")[2])


def send(url: str, *arguments: str) -> int:
    return CliRunner().invoke(command_line, ["send", "-u", url, "/queue/a", "one", *arguments]).exit_code


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_broker_when_it_listens_then_serves_until_a_signal_ends_it_well(
    running: Running, number: signal.Signals
) -> None:
    with running("--heart-beat", "1500ms") as (piped, line):
        status = send(f"stomp://127.0.0.1:{port_in(line)}")
        piped.process.send_signal(number)
        ended = piped.finish()

    assert line.startswith("listening on stomp://127.0.0.1:")
    assert status == 0
    assert ended == (0, b"", b"")


def test_broker_when_on_a_terminal_then_says_how_to_end_it_and_what_it_has_done(on_terminal: OnTerminal) -> None:
    terminal = on_terminal("broker", "--port", "0")
    terminal.wait_for(b"messages are kept in memory and lost on exit; press Ctrl-C to stop\r\n")
    terminal.type(b"\x03")

    assert terminal.finish() == 0
    assert terminal.shown.endswith(b"^C0 connections, 0 bytes in, 0 bytes out\r\n")


def test_broker_when_it_has_users_and_vhosts_then_lets_in_those(running: Running, tmp_path: Path) -> None:
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
    assert statuses[1:] == [ExitCode.REFUSED] * 3
    assert "s3cret" not in line


def test_broker_when_it_has_a_certificate_then_speaks_tls(running: Running, tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(tmp_path / "broker.pem")
    with running("--cert", str(tmp_path / "broker.pem")) as (_, line):
        url = f"stomps://127.0.0.1:{port_in(line)}"
        trusted, untrusted = send(url, "--ca", str(tmp_path / "ca.pem")), send(url)

    assert line.startswith("listening on stomps://")
    assert (trusted, untrusted) == (0, ExitCode.NOT_CONNECTED)


def test_broker_when_it_speaks_websocket_then_says_so_in_its_url(running: Running) -> None:
    with running("--websocket") as (_, line):
        url = line.removeprefix("listening on ").strip()
        status = send(url)

    assert url.startswith("ws://127.0.0.1:")
    assert status == 0


def test_broker_when_it_listens_at_a_path_then_it_is_its_url(running: Running, tmp_path: Path) -> None:
    with running("--unix-socket", str(tmp_path / "broker")) as (_, line):
        status = send(f"stomp+unix://{tmp_path}/broker")

    assert line == f"listening on stomp+unix://{tmp_path}/broker\n"
    assert status == 0


@pytest.mark.parametrize(("given", "status"), [((), 403), (("--origin", "http://app.example"), 101)])
def test_broker_when_a_web_page_connects_then_its_origin_has_to_be_allowed(
    running: Running, given: tuple[str, ...], status: int
) -> None:
    upgrade = (
        b"GET /ws HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    )
    with running("--websocket", *given) as (_, line):
        port = urlsplit(line.split()[-1]).port or 0
        with socket.create_connection(("127.0.0.1", port), timeout=60) as page:
            page.sendall(upgrade + b"Origin: http://app.example\r\n\r\n")

            assert page.recv(4096).startswith(b"HTTP/1.1 %d " % status)


def test_broker_when_the_extra_for_websocket_is_missing_then_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wsproto", None)
    monkeypatch.delitem(sys.modules, "trio_stomp.testing.websocket_link", raising=False)

    done = CliRunner().invoke(command_line, ["broker", "--websocket", "--port", "0"])

    assert done.exit_code == ExitCode.USAGE
    assert "pip install 'trio-stomp[websocket]'" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (("--origin", "*"), ExitCode.USAGE, "--origin"),
        (("--prefetch", "0"), ExitCode.USAGE, "--prefetch"),
        (("--heart-beat", "inf"), ExitCode.USAGE, "expected a number"),
        (("--heart-beat", "-1s"), ExitCode.USAGE, "not in the range"),
        (("--unix-socket", "FOLDER/s", "--websocket"), ExitCode.USAGE, "--unix-socket cannot be combined with"),
        (("--unix-socket", "FOLDER/s", "--cert", "FOLDER/own.pem"), ExitCode.USAGE, "cannot be combined with"),
        (("--key", "FOLDER/own.pem"), ExitCode.USAGE, "--key requires --cert"),
        (("--cert", "FOLDER/empty"), ExitCode.USAGE, "expected PEM"),
        (("--host", "\udcff"), ExitCode.FAILED, "cannot listen on "),
        (("--unix-socket", "FOLDER"), ExitCode.USAGE, "'FOLDER' is a directory"),
        (("--unix-socket", "FOLDER/none/s"), ExitCode.FAILED, "cannot listen on FOLDER/none/s"),
    ],
)
def test_broker_when_it_cannot_be_meant_or_done_then_says_why(
    arguments: tuple[str, ...], code: ExitCode, why: str, tmp_path: Path
) -> None:
    trustme.CA().issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(tmp_path / "own.pem")
    (tmp_path / "empty").touch()

    done = CliRunner().invoke(
        command_line, ["broker", "--port", "0", *(each.replace("FOLDER", str(tmp_path)) for each in arguments)]
    )

    assert (done.exit_code, done.stdout) == (code, "")
    assert why.replace("FOLDER", str(tmp_path)) in done.stderr


def test_broker_when_the_port_is_taken_then_says_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = CliRunner().invoke(command_line, ["broker", "--port", str(port)])

    assert done.exit_code == ExitCode.FAILED
    assert done.stderr == f"trio-stomp: cannot listen on 127.0.0.1 port {port}: {os.strerror(errno.EADDRINUSE)}\n"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "has no users"),
        (b"ann:x\ns3cret\n", ":2: expected user:passcode"),
        (b":s3cret\n", ":1: expected"),
        (b"ann:s3cret\xff\n", "it is not UTF-8 text"),
    ],
)
def test_broker_when_its_users_cannot_be_read_then_says_why_without_showing_them(
    content: bytes, why: str, tmp_path: Path
) -> None:
    (tmp_path / "users").write_bytes(content)

    done = CliRunner().invoke(command_line, ["broker", "--port", "0", "--users", str(tmp_path / "users")])

    assert done.exit_code == ExitCode.USAGE
    assert why in done.stderr
    assert "s3cret" not in done.output


@pytest.mark.parametrize(
    ("arguments", "warned"),
    [
        (("--host", "::"), True),
        (("--host", "::", "--users", "USERS"), False),
        (("--host", "localhost"), False),
    ],
)
def test_broker_when_others_can_reach_it_and_all_may_enter_then_warns(
    running: Running, arguments: tuple[str, ...], warned: bool, tmp_path: Path
) -> None:
    (tmp_path / "users").write_text("ann:s3cret\n", "utf-8")
    with running(*(each.replace("USERS", str(tmp_path / "users")) for each in arguments)) as (piped, line):
        piped.process.send_signal(signal.SIGTERM)
        _, _, errors = piped.finish()

    assert line.startswith("listening on ")
    assert (b"WARNING" in errors and b"--users" in errors) is warned


def test_broker_when_told_its_limits_then_has_them(running: Running) -> None:
    with running("--max-message-bytes", "10", "--bare-queues") as (_, line):
        url = f"stomp://127.0.0.1:{port_in(line)}"
        short = CliRunner().invoke(command_line, ["send", "-u", url, "bare", "0123456789"])
        long = CliRunner().invoke(command_line, ["send", "-u", url, "bare", "0123456789x"])

    assert short.exit_code == 0
    assert long.exit_code != 0


def test_broker_when_dead_letters_go_nowhere_then_dropped(running: Running) -> None:
    with running("--server", "own/1", "--nack", "dead-letter", "--dead-letter", "") as (_, line):
        with trio_stomp.blocking.connect(f"stomp://127.0.0.1:{port_in(line)}") as client:
            assert client.server == "own/1"
            client.send("/queue/a", b"one")
            with client.subscribe("/queue/a") as messages, client.subscribe("/queue/dead-letter") as dead_letters:
                messages.receive(timeout=60).nack(receipt=True)
                with pytest.raises(TimeoutError):
                    dead_letters.receive(timeout=0.05)
                with pytest.raises(TimeoutError):
                    messages.receive(timeout=0)
