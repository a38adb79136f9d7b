"""The doctor at ports that answer well, wrongly, or not at all."""

from __future__ import annotations

import datetime as dt
import io
import json
from pathlib import Path
from typing import NoReturn, Unpack

import pytest
import trio
import trio.testing
import trustme
from rich.console import Console

from tests.cli.conftest import Cli
from tests.cli.exit_code import ExitCode
from tests.kit.certificates import client_context, server_context
from tests.kit.tunneling import Tunnels, open_http_proxy, open_silent_port
from trio_stomp.cli.doctor import Finding, Status, Step, diagnose, exit_code_for, print_finding
from trio_stomp.testing import AnswerConnect, BrokerOptions, ThreadedBroker, open_broker
from trio_stomp.types import Command, ConnectOptions

FAILURE = Finding(Step.LOGIN, Status.FAILED, "no\n\x1b[2J", ("try again",))
MARKS = {Status.OK: "+", Status.WARNING: "!", Status.FAILED: "x", Status.SKIPPED: "-"}

DAY = dt.timedelta(days=1)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA(organization_name="test authority")


@pytest.fixture
def stomp_broker_options() -> BrokerOptions:
    # No heart-beats to wait for.
    return BrokerOptions(logins={"guest": "s3cret"}, heart_beat=(0, 0))


async def diagnosed(url: str, **options: Unpack[ConnectOptions]) -> tuple[str, dict[Step, Finding]]:
    """One mark for each step, and the findings."""
    reported: list[Finding] = []
    with trio.fail_after(60):
        findings = await diagnose(url, options, reported.append)
    assert reported == findings
    steps = [step for step in Step if step is not Step.WEBSOCKET or url.startswith("ws")]
    assert [finding.step for finding in findings] == steps
    assert "s3cret" not in str(findings)
    return "".join(MARKS[finding.status] for finding in findings), {finding.step: finding for finding in findings}


# The marks are of: DNS, TCP, TLS, (WebSocket,) CONNECT, login, vhost, heart-beat, broker.


async def test_doctor_when_all_is_well_then_every_step_is() -> None:
    # However busy the machine is: the broker is patient.
    options = BrokerOptions(logins={"ann": "s3cret"}, vhosts={"orders"}, heart_beat=(0.1, 0.1), heart_beat_grace=100)
    async with open_broker(options=options) as broker:
        url = f"stomp://ann:s3cret@localhost:{broker.port}/orders"
        marks, findings = await diagnosed(url, heart_beat=(0.1, 0.1))

        assert marks == "++-+++++"
        assert findings[Step.DNS].what.startswith("localhost is 127.0.0.1")
        assert "the passcode included" in findings[Step.TLS].what
        assert findings[Step.LOGIN].what == "accepted as 'ann'"
        assert "the broker sends every 0.1 s, this side every 0.1 s; the first" in findings[Step.HEART_BEAT].what
        assert findings[Step.BROKER].what.startswith("trio-stomp-testing")
        # It disconnects in order, and sends nothing else.
        assert broker.statistics().received == {Command.CONNECT: 1, Command.DISCONNECT: 1}


async def test_doctor_when_tls_is_requested_then_tells_what_was_agreed(authority: trustme.CA) -> None:
    async with open_broker(tls=server_context(authority), options=BrokerOptions(heart_beat=(0, 0))) as broker:
        marks, findings = await diagnosed(broker.url, tls=client_context(authority))

    assert marks == "-+++++!+"
    assert findings[Step.TLS].what.startswith("TLSv1.3, TLS_")
    assert "the certificate is for localhost, 127.0.0.1, by test authority, until" in findings[Step.TLS].what


async def test_doctor_when_a_websocket_is_well_then_it_is_a_step() -> None:
    options = BrokerOptions(server="RabbitMQ/3.13.0", heart_beat=(60, 60))
    async with open_broker(websocket=True, options=options) as broker:
        marks, findings = await diagnosed(broker.url, heart_beat=(60, 60))

    assert marks == "-+-++++++"
    assert findings[Step.BROKER].what == "RabbitMQ 3.13.0; profile RabbitMQ"
    assert findings[Step.HEART_BEAT].what == "the broker sends every 60 s, this side every 60 s; not waited for"


async def test_doctor_when_there_is_a_proxy_then_goes_through_it() -> None:
    async with open_broker(options=BrokerOptions(heart_beat=(0, 0))) as broker, open_http_proxy(Tunnels()) as proxy:
        marks, findings = await diagnosed(f"stomp://guest:guest@localhost:{broker.port}", proxy=proxy.url)

    assert marks == "-+-+++!+"
    assert findings[Step.TCP].what == f"the proxy {proxy.url} connects to localhost:{broker.port}"


async def test_doctor_when_there_is_a_unix_socket_then_goes_through_it(tmp_path: Path) -> None:
    async with open_broker(unix_socket=tmp_path / "s", options=BrokerOptions(heart_beat=(0, 0))) as broker:
        marks, _ = await diagnosed(broker.url)

    assert marks == "-+-+++!+"


async def test_doctor_when_the_name_is_wrong_then_it_ends_there() -> None:
    marks, findings = await diagnosed("stomp://no-such-host.invalid")

    assert marks == "x-------"
    assert "'no-such-host.invalid' cannot be looked up" in findings[Step.DNS].what
    assert findings[Step.TCP].what == "not reached"


async def test_doctor_when_the_name_servers_do_not_answer_then_the_name_failed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    class Silent(trio.abc.HostnameResolver):
        async def getaddrinfo(self, *_arguments: object, **_options: object) -> NoReturn:
            await trio.sleep_forever()
            raise AssertionError

        async def getnameinfo(self, *_arguments: object, **_options: object) -> NoReturn:
            raise NotImplementedError

    trio.socket.set_custom_hostname_resolver(Silent())
    marks, findings = await diagnosed("stomp://broker.test")

    assert marks == "x-------"
    assert findings[Step.DNS].what == "broker.test: no answer from the name servers within 10 s (--connect-timeout)"


async def test_doctor_when_nothing_listens_then_names_a_usual_port_that_does(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_broker() as broker:
        monkeypatch.setattr("trio_stomp.cli.doctor._USUAL_PORTS", (1, broker.port))
        marks, findings = await diagnosed("stomp://127.0.0.1:1")

    assert marks == "-x------"
    assert findings[Step.TCP].what == "Connection refused"
    assert [str(broker.port) in line for line in findings[Step.TCP].advice] == [False, True]


async def test_doctor_when_there_is_no_such_socket_then_says_so(tmp_path: Path) -> None:
    marks, findings = await diagnosed(f"stomp+unix://{tmp_path}/none")

    assert marks == "-x------"
    assert "No such file" in findings[Step.TCP].what


@pytest.mark.parametrize(
    ("answer", "what", "advice"),
    [
        (b"", "the broker closed the connection instead of answering CONNECT", ""),
        (b"AMQP\x00\x00\x09\x01", "", "this port speaks AMQP: use the broker's STOMP port, usually 61613"),
        (b"ERROR\nmessage:Version mismatch\nversion:1.0\n\n\0", "(it speaks 1.0)", "--stomp-version"),
    ],
)
async def test_doctor_when_connect_is_not_answered_well_then_says_by_what(
    answer: bytes, what: str, advice: str
) -> None:
    async with open_broker() as broker:
        broker.faults.plan(AnswerConnect(data=answer, close=True), connections=None)
        marks, findings = await diagnosed(broker.url)

    assert marks == "-+-x----"
    assert findings[Step.CONNECT].what.endswith(what)
    assert advice in "".join(findings[Step.CONNECT].advice)


@pytest.mark.parametrize(
    ("login", "advice"),
    [
        ("", ["no login was sent"]),
        ("ann@", ["no passcode was sent for 'ann'"]),
        ("ann:s3cret@", ["are login and passcode right?"]),
        ("ann:s3cret%20@", ["are login and passcode right?", "white space"]),
        ("ann:s3%5Ccret@", ["are login and passcode right?", "--profile"]),
        ("guest:s3cret@", ["are login and passcode right?", "RabbitMQ accepts guest only from its own machine"]),
    ],
)
async def test_doctor_when_the_login_is_refused_then_advises_by_what_was_sent(login: str, advice: list[str]) -> None:
    async with open_broker(options=BrokerOptions(logins={"guest": "another"})) as broker:
        marks, findings = await diagnosed(f"stomp://{login}127.0.0.1:{broker.port}")

    assert marks == "-+-+x---"
    assert "access refused" in findings[Step.LOGIN].what
    for expected, line in zip(advice, findings[Step.LOGIN].advice, strict=True):
        assert expected in line
    assert "s3" not in str(findings)


@pytest.mark.parametrize(("path", "slashed"), [("/odrers", ["odrers"]), ("/%2Fodrers", []), ("", [])])
async def test_doctor_when_the_vhost_is_wrong_then_that_step_failed(path: str, slashed: list[str]) -> None:
    async with open_broker(options=BrokerOptions(vhosts={"orders"})) as broker:
        marks, findings = await diagnosed(f"stomp://guest:guest@127.0.0.1:{broker.port}{path}")

    assert marks == "-+-++x--"
    assert "unknown virtual host" in findings[Step.VHOST].what
    hint, *more = findings[Step.VHOST].advice
    assert "--vhost" in hint
    assert more == [f"a name that begins with a slash is written /%2F{name} in a URL" for name in slashed]


@pytest.mark.parametrize(
    ("server", "vhost", "status"),
    [("ActiveMQ/6.1.8", "", Status.SKIPPED), ("ActiveMQ/6.1.8", "/test", Status.WARNING), ("x", "/test", Status.OK)],
)
async def test_doctor_when_the_broker_has_vhosts_or_not_then_says_so(server: str, vhost: str, status: Status) -> None:
    async with open_broker(options=BrokerOptions(server=server, heart_beat=(0, 0))) as broker:
        _, findings = await diagnosed(broker.url + vhost)

    assert findings[Step.VHOST].status is status


@pytest.mark.parametrize(
    ("server", "options", "status", "what"),
    [
        ("ActiveMQ-Artemis/2.44.0 x", {}, Status.OK, "ActiveMQ-Artemis 2.44.0; profile ActiveMQ Artemis"),
        ("odd  header", {}, Status.WARNING, "'odd  header'"),
        ("Spring", {"profile": "artemis"}, Status.OK, "Spring; treated as ActiveMQ Artemis, as --profile says"),
    ],
)
async def test_doctor_when_the_broker_names_itself_then_says_what_that_means(
    server: str, options: ConnectOptions, status: Status, what: str
) -> None:
    async with open_broker(options=BrokerOptions(server=server, heart_beat=(0, 0))) as broker:
        _, findings = await diagnosed(broker.url, **options)

    assert (findings[Step.BROKER].status, findings[Step.BROKER].what) == (status, what)


async def test_doctor_when_tls_goes_to_a_plain_port_then_says_so(authority: trustme.CA) -> None:
    async with open_broker() as broker:
        marks, findings = await diagnosed(f"stomps://guest:s3cret@127.0.0.1:{broker.port}", connect_timeout=3)

        assert broker.statistics().received.get(Command.CONNECT) == 1
    assert marks == "-+x-----"
    assert findings[Step.TLS].what.startswith("this is a plain STOMP port, without TLS")
    assert "stomp://" in findings[Step.TLS].advice[0]


async def test_doctor_when_plain_goes_to_a_tls_port_then_says_so_and_whose_it_is(authority: trustme.CA) -> None:
    async with open_broker(tls=server_context(authority)) as broker:
        marks, findings = await diagnosed(f"stomp://guest:s3cret@127.0.0.1:{broker.port}")

    assert marks == "-+-x----"
    assert "this port speaks TLS" in findings[Step.CONNECT].what
    assert "the certificate is for localhost" in findings[Step.CONNECT].what
    assert findings[Step.CONNECT].advice == ("write stomps:// for this port",)


@pytest.mark.parametrize(
    ("trusted", "name", "begins", "advice"),
    [
        (False, "localhost", None, "--ca FILE"),
        (True, "other.test", None, "connect to a name that it is for"),
        (True, "localhost", -2 * DAY, "it has expired"),
    ],
)
async def test_doctor_when_the_certificate_is_not_trusted_then_says_whose_it_is_and_what_to_do(
    authority: trustme.CA, trusted: bool, name: str, begins: dt.timedelta | None, advice: str
) -> None:
    now = dt.datetime.now(dt.UTC)
    times = (None, None) if begins is None else (now + begins, now + begins + DAY)
    async with open_broker(tls=server_context(authority, name, begins=times[0], ends=times[1])) as broker:
        tls = client_context(authority if trusted else trustme.CA())
        marks, findings = await diagnosed(f"stomps://localhost:{broker.port}", tls=tls)

    assert marks == "++x-----"
    assert "is not trusted: " in findings[Step.TLS].what
    assert f"the certificate is for {name}, by test authority, until" in findings[Step.TLS].what
    assert "SHA-256" in findings[Step.TLS].what
    assert advice in findings[Step.TLS].advice[0]


async def test_doctor_when_a_client_certificate_is_required_then_names_the_option() -> None:
    # The alert "bad certificate".
    async with open_silent_port(b"\x15\x03\x03\x00\x02\x02\x2a") as port:
        marks, findings = await diagnosed(f"stomps://127.0.0.1:{port}")

    assert marks == "-+x-----"
    assert "demands a client certificate" in findings[Step.TLS].what
    assert "--cert FILE --key FILE" in findings[Step.TLS].advice[0]


@pytest.mark.parametrize(
    ("scheme", "step", "advice"),
    [("stomp", Step.CONNECT, "is the port a STOMP port"), ("stomps", Step.TLS, "plain STOMP port")],
)
async def test_doctor_when_the_host_is_silent_then_says_at_which_step(
    scheme: str, step: Step, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trio_stomp.cli.doctor._GLANCE", 0.1)
    async with open_silent_port() as port:
        # These are real sockets: as short as a busy machine allows.
        marks, findings = await diagnosed(f"{scheme}://127.0.0.1:{port}", connect_timeout=2)

    assert marks == ("-+-x----" if step is Step.CONNECT else "-+x-----")
    assert findings[step].what == (
        f"no answer within 2 s (--connect-timeout) at this step: {'connect' if step is Step.CONNECT else 'tls'}"
    )
    assert advice in findings[step].advice[0]


async def test_doctor_when_a_plain_port_is_taken_for_a_websocket_then_says_so() -> None:
    async with open_broker() as broker:
        marks, findings = await diagnosed(f"ws://ann:s3cret@127.0.0.1:{broker.port}/ws?token=s3cret")

    assert marks == "-+-x-----"
    assert "this is a plain STOMP port: use stomp://" in findings[Step.WEBSOCKET].advice


async def test_doctor_when_heart_beats_do_not_come_then_that_step_failed() -> None:
    async def promises(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(b"CONNECTED\nversion:1.2\nheart-beat:100,100\nserver:RabbitMQ/3.13.0\n\n\0")
        async for _bytes in stream:
            pass

    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, promises, [listener])
        url = f"stomp://127.0.0.1:{listener.socket.getsockname()[1]}"
        marks, findings = await diagnosed(url, heart_beat=(0.1, 0.1), disconnect_timeout=0.1)
        nursery.cancel_scope.cancel()

    assert marks == "-+-+++x+"
    what = findings[Step.HEART_BEAT].what
    assert what.startswith("the broker sends every 0.1 s, this side every 0.1 s, but ")


async def test_doctor_when_the_broker_fails_after_connected_then_that_is_told() -> None:
    async with open_broker() as broker:
        given = b"CONNECTED\nversion:1.2\nheart-beat:100,100\n\n\0ERROR\nmessage:go away\n\n\0"
        broker.faults.plan(AnswerConnect(data=given, close=True))
        marks, findings = await diagnosed(broker.url, heart_beat=(0.1, 0.1))

    assert marks == "-+-+++x!"
    assert "go away" in findings[Step.HEART_BEAT].what


async def test_doctor_when_there_are_no_heart_beats_then_a_warning() -> None:
    async with open_broker() as broker:
        _, switched_off = await diagnosed(broker.url, heart_beat=(0, 0))
        _, none = await diagnosed(broker.url, versions=["1.0"])

    assert "--heart-beat turned them off" in switched_off[Step.HEART_BEAT].advice[0]
    assert "STOMP 1.0 has no heart-beats" in none[Step.HEART_BEAT].advice[0]


# --- the command ------------------------------------------------------------------------------------------------------


def test_doctor_when_all_is_well_then_prints_each_step(cli: Cli) -> None:
    done = cli("doctor")

    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[-1] == "the connection works"
    assert [line.split()[1] for line in lines if line[:1] in "✓!✗-"] == [
        step for step in Step if step is not Step.WEBSOCKET
    ]
    assert "s3cret" not in done.output


def test_doctor_when_the_login_is_refused_then_advises_and_ends_with_its_code(
    cli: Cli, stomp_broker_thread: ThreadedBroker
) -> None:
    done = cli("doctor", "-u", f"stomp://guest@127.0.0.1:{stomp_broker_thread.port}")

    assert done.exit_code == ExitCode.REFUSED
    assert "✗ login" in done.stdout
    assert "-> no passcode was sent for 'guest'" in done.stdout
    assert done.stdout.endswith("it does not work\n")


def test_doctor_when_told_to_reconnect_then_a_connection_that_is_lost_is_still_a_failure(
    cli: Cli, stomp_broker_thread: ThreadedBroker
) -> None:
    given = b"CONNECTED\nversion:1.2\nheart-beat:100,100\n\n\0ERROR\nmessage:go away\n\n\0"
    stomp_broker_thread.call(lambda broker: broker.faults.plan(AnswerConnect(data=given, close=True)))

    done = cli("doctor", "--reconnect", "--heart-beat", "0.1,0.1")

    assert done.exit_code == ExitCode.FAILED
    assert "go away" in done.stdout
    assert stomp_broker_thread.call(lambda broker: broker.statistics().connections) == 1


def test_doctor_when_several_brokers_are_named_then_each_is_examined(
    cli: Cli, stomp_broker_thread: ThreadedBroker
) -> None:
    done = cli("doctor", "--json", "-u", stomp_broker_thread.url, "-u", "stomp://127.0.0.1:1")

    well, refused = map(json.loads, done.stdout.splitlines())
    assert done.exit_code == ExitCode.NOT_CONNECTED
    assert (well["healthy"], refused["healthy"]) == (True, False)
    assert refused["address"] == "stomp://127.0.0.1:1"
    assert refused["steps"][1]["status"] == "failed"
    assert set(refused["steps"][1]) == {"step", "status", "what", "advice"}


@pytest.mark.parametrize(("encoding", "mark"), [("utf-8", "✗"), ("ascii", "x")])
def test_finding_when_printed_then_harmless_and_in_what_the_output_can_hold(encoding: str, mark: str) -> None:
    given = io.BytesIO()
    file = io.TextIOWrapper(given, encoding=encoding)

    print_finding(FAILURE, Console(file=file))

    file.flush()
    assert given.getvalue().decode(encoding) == (f"{mark} login       no\\n\\x1b[2J\n              -> try again\n")


@pytest.mark.parametrize(
    ("failed", "code"),
    [
        (None, ExitCode.OK),
        (Step.DNS, ExitCode.NOT_CONNECTED),
        (Step.TLS, ExitCode.NOT_CONNECTED),
        (Step.CONNECT, ExitCode.NOT_CONNECTED),
        (Step.LOGIN, ExitCode.REFUSED),
        (Step.VHOST, ExitCode.REFUSED),
        (Step.HEART_BEAT, ExitCode.FAILED),
    ],
)
def test_exit_code_when_a_step_failed_then_that_of_connecting(failed: Step | None, code: ExitCode) -> None:
    findings = [Finding(step, Status.FAILED if step is failed else Status.WARNING, "") for step in Step]

    assert int(exit_code_for(findings)) == code
