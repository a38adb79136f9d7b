"""The doctor at ports that answer well, wrongly, or not at all."""

from __future__ import annotations

import datetime as dt
import hashlib
import io
import json
import re
import socket
import ssl
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import NoReturn, Unpack

import anyio
import pytest
import trio
import trio.testing
import trustme
from rich.console import Console

import trio_stomp
from tests.cli.conftest import Cli
from tests.cli.exit_code import ExitCode
from tests.kit.certificates import client_context, self_signed_context, server_context
from tests.kit.tunneling import Tunnels, open_http_proxy, open_silent_port
from trio_stomp.cli.doctor import Finding, Status, Step, diagnose, exit_code_for, print_finding
from trio_stomp.testing import AnswerConnect, BrokerOptions, ThreadedBroker, open_broker
from trio_stomp.types import Command, ConnectOptions

MARKS = {Status.OK: "+", Status.WARNING: "!", Status.FAILED: "x", Status.SKIPPED: "-"}

DAY = dt.timedelta(days=1)

# Talks with one client of a port.
Talk = Callable[[trio.SocketStream], Awaitable[None]]


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


def told(findings: Iterable[Finding]) -> list[str]:
    """Each finding in a line of its own, advice included."""
    return [
        f"{MARKS[each.status]} {each.step}: {each.what}" + "".join(f" -> {advice}" for advice in each.advice)
        for each in findings
    ]


class Resolver(trio.abc.HostnameResolver):
    """Name servers that give these addresses after 230 ms, and each time the next ones, or do not answer at all."""

    def __init__(self, *answers: list[str] | OSError) -> None:
        self._answers = iter(answers)

    async def getaddrinfo(  # type: ignore[override]  # only what is asked here
        self, host: bytes | str | None, port: bytes | str | int | None, *_args: object, **_options: object
    ) -> list[tuple[int, int, int, str, tuple[object, ...]]]:
        answer = next(self._answers, None)
        if answer is None:
            await trio.sleep_forever()
        await trio.sleep(0.23)
        if isinstance(answer, OSError):
            raise answer
        return [
            (socket.AF_INET6 if ":" in each else socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port))
            for each in answer or []
        ]

    async def getnameinfo(self, *_args: object, **_options: object) -> NoReturn:
        raise NotImplementedError


@asynccontextmanager
async def open_port(*talks: Talk) -> AsyncGenerator[int]:
    """A port that has these talks, one with each client that connects, and hangs up after it."""
    left = iter(talks)

    async def serve(stream: trio.SocketStream) -> None:
        async with stream:
            if (talk := next(left, None)) is not None:
                with suppress(trio.BrokenResourceError):
                    await talk(stream)

    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        await nursery.start(trio.serve_listeners, serve, [listener])
        yield int(listener.socket.getsockname()[1])
        nursery.cancel_scope.cancel()


def answering(*pieces: bytes | float, heard: list[bytes] | None = None) -> Talk:
    """Wait for a client's first bytes, and answer with these pieces, a number being a pause in seconds."""

    async def talk(stream: trio.SocketStream) -> None:
        first = bytes(await stream.receive_some())
        if heard is not None:
            heard.append(first)
        for piece in pieces:
            if isinstance(piece, bytes):
                await stream.send_all(piece)
            else:
                await trio.sleep(piece)

    return talk


def answering_over_tls(context: ssl.SSLContext, answer: bytes) -> Talk:
    """Do the handshake, and answer a client's first bytes with these; none: hang up after the handshake."""

    async def talk(stream: trio.SocketStream) -> None:
        secured = trio.SSLStream(stream, context, server_side=True)
        await secured.do_handshake()
        if answer:
            await secured.receive_some()
            await secured.send_all(answer)
            await secured.receive_some()

    return talk


# The marks are of: DNS, TCP, TLS, (WebSocket,) CONNECT, login, vhost, heart-beat, broker.


async def test_doctor_when_all_is_well_then_every_step_is(autojump_clock: trio.testing.MockClock) -> None:
    trio.socket.set_custom_hostname_resolver(Resolver(*2 * [["127.0.0.1", "127.0.0.1", "::1"]]))
    await trio.sleep(7)
    options = BrokerOptions(server="RabbitMQ/3.13.0", logins={"ann": "s3cret"}, vhosts={"orders"})
    async with open_broker(options=options) as broker:
        _, findings = await diagnosed(f"stomp://ann:s3cret@broker.test:{broker.port}/orders", heart_beat=(20, 7))

        # It disconnects in order, and sends nothing else.
        assert broker.statistics().received == {Command.CONNECT: 1, Command.DISCONNECT: 1}
    assert told(findings.values()) == [
        "+ DNS: broker.test is 127.0.0.1, ::1 (230 ms)",
        f"+ TCP: port {broker.port} accepts connections",
        "- TLS: not requested: what is sent, the passcode included, can be read on the way",
        "+ CONNECT: the broker answers, and speaks STOMP 1.2 (230 ms)",
        "+ login: accepted as 'ann'",
        "+ vhost: 'orders'",
        "+ heart-beat: the broker sends every 7 s, this side every 20 s; not waited for",
        "+ broker: RabbitMQ 3.13.0; profile RabbitMQ",
    ]


async def test_doctor_when_tls_is_requested_then_tells_what_was_agreed(
    authority: trustme.CA, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_broker(tls=server_context(authority), options=BrokerOptions(heart_beat=(0, 0))) as broker:
        _, findings = await diagnosed(broker.url, tls=client_context(authority))

        # Of the second look.
        await broker.wait_until(lambda: broker.statistics().open_connections == 0)
        assert broker.statistics().connections == 2
    dns, tcp, tls, *_ = told(findings.values())
    assert (dns, tcp) == ("- DNS: 127.0.0.1 is an address", f"+ TCP: port {broker.port} accepts connections")
    assert re.fullmatch(
        r"\+ TLS: TLSv1\.3, TLS_[A-Z0-9_]+; the certificate is trusted: "
        r"the certificate is for localhost, 127\.0\.0\.1, by test authority, "
        r"until Jan  1 00:00:00 3000 GMT \(SHA-256 [0-9a-f]{64}\)",
        tls,
    )


async def test_doctor_when_tls_fails_at_the_second_look_then_the_certificate_is_still_trusted(
    authority: trustme.CA, autojump_clock: trio.testing.MockClock
) -> None:
    talk = answering_over_tls(server_context(authority), b"CONNECTED\nversion:1.2\n\n\0")
    async with open_port(talk) as port:
        _, findings = await diagnosed(f"stomps://127.0.0.1:{port}", tls=client_context(authority))

    assert told(findings.values())[2:5] == [
        "+ TLS: the certificate is trusted",
        "+ CONNECT: the broker answers, and speaks STOMP 1.2 (0 ms)",
        "+ login: no login was sent, and none was required",
    ]


async def test_doctor_when_a_websocket_is_well_then_it_is_a_step(autojump_clock: trio.testing.MockClock) -> None:
    async with open_broker(websocket=True, options=BrokerOptions(heart_beat=(0, 0))) as broker:
        marks, findings = await diagnosed(broker.url)

    assert marks == "-+-++++!+"
    assert told([findings[Step.WEBSOCKET]]) == ["+ WebSocket: the server speaks WebSocket"]


async def test_doctor_when_there_is_a_proxy_then_goes_through_it() -> None:
    async with open_broker(options=BrokerOptions(heart_beat=(0, 0))) as broker, open_http_proxy(Tunnels()) as proxy:
        url = f"stomp://guest@localhost:{broker.port}/a"
        # The options come before the URL.
        marks, findings = await diagnosed(url, proxy=proxy.url, login="ann", passcode="s3cret", vhost="b")

    assert marks == "-+-+++!+"
    dns, tcp, tls, _connect, login, vhost, *_ = told(findings.values())
    assert [dns, tcp, tls, login, vhost] == [
        "- DNS: the proxy looks up localhost",
        f"+ TCP: the proxy {proxy.url} connects to localhost:{broker.port}",
        "- TLS: not requested: what is sent, the passcode included, can be read on the way",
        "+ login: accepted as 'ann'",
        "+ vhost: 'b'",
    ]


async def test_doctor_when_there_is_a_unix_socket_then_goes_through_it(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    path = tmp_path / "s"
    async with open_broker(unix_socket=path, options=BrokerOptions(server=None, heart_beat=(0, 0))) as broker:
        _, findings = await diagnosed(f"stomp+unix://{path}")
        broker.faults.plan(AnswerConnect(close=True))
        marks, failed = await diagnosed(f"stomp+unix://{path}")

    assert told(findings.values()) == [
        "- DNS: a Unix socket has no host name",
        f"+ TCP: {path} accepts connections",
        "- TLS: a Unix socket has no TLS",
        "+ CONNECT: the broker answers, and speaks STOMP 1.2 (0 ms)",
        "+ login: no login was sent, and none was required",
        "+ vhost: '/', the default",
        (
            "! heart-beat: the broker sends none, this side none"
            " -> the broker or --heart-beat turned them off; a dead connection goes unnoticed"
        ),
        (
            "! broker: the broker does not name itself"
            " -> no profile for this broker, so only plain STOMP is used; if it is a known one, pass --profile"
        ),
    ]
    assert marks == "-+-x----"
    assert failed[Step.CONNECT].advice == ("is it a STOMP broker?",)


async def test_doctor_when_the_name_is_wrong_then_it_ends_there() -> None:
    marks, findings = await diagnosed("stomp://no-such-host.invalid")

    assert marks == "x-------"
    assert "'no-such-host.invalid' cannot be looked up" in findings[Step.DNS].what
    assert findings[Step.TCP].what == "not reached"


async def test_doctor_when_the_name_servers_do_not_answer_then_the_name_failed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    trio.socket.set_custom_hostname_resolver(Resolver())
    marks, findings = await diagnosed("stomp://broker.test")

    assert marks == "x-------"
    assert told([findings[Step.DNS]]) == [
        (
            "x DNS: broker.test: no answer from the name servers within 10 s (--connect-timeout)"
            " -> is this machine connected to a network?"
        )
    ]


async def test_doctor_when_the_name_servers_fail_after_connecting_then_a_warning(
    autojump_clock: trio.testing.MockClock,
) -> None:
    trio.socket.set_custom_hostname_resolver(Resolver(["127.0.0.1"], OSError("no route")))
    async with open_broker(options=BrokerOptions(heart_beat=(0, 0))) as broker:
        marks, findings = await diagnosed(f"stomp://broker.test:{broker.port}")

    assert marks == "!+-+++!+"
    assert told([findings[Step.DNS]]) == ["! DNS: broker.test cannot be looked up any more: no route"]


@pytest.mark.parametrize(
    ("address", "listening", "what", "found"),
    [
        ("stomp://127.0.0.1:1", {61613, 61614}, "Connection refused", [61613, 61614]),
        ("stomp://127.0.0.1:1", {61614}, "Connection refused", [61614]),
        ("stomp://127.0.0.1:1", {1}, "Connection refused", []),
        # No host has this address.
        ("stomp://224.0.0.1:61613", {61613, 61614}, "", [61614]),
        # Others might listen at the host of the proxy, or here.
        ("proxy", {61613, 61614}, "the proxy http://127.0.0.1:1 cannot be reached: Connection refused", []),
        ("socket", {61613, 61614}, "No such file or directory", []),
    ],
)
async def test_doctor_when_nothing_listens_then_names_the_usual_ports_that_do(
    address: str,
    listening: set[int],
    what: str,
    found: list[int],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    autojump_clock: trio.testing.MockClock,
) -> None:
    genuine = anyio.connect_tcp

    async def connect_tcp(_host: str, port: int) -> anyio.abc.SocketStream:
        if port not in listening:
            raise OSError
        return await genuine("127.0.0.1", broker.port)

    options: ConnectOptions = {"proxy": "http://127.0.0.1:1"} if address == "proxy" else {}
    url = {"proxy": "stomp://127.0.0.1:2", "socket": f"stomp+unix://{tmp_path}/none"}.get(address, address)
    async with open_broker() as broker:
        monkeypatch.setattr(anyio, "connect_tcp", connect_tcp)
        marks, findings = await diagnosed(url, **options)

        await broker.wait_until(lambda: broker.statistics().open_connections == 0)
        assert broker.statistics().connections == len(found)
    assert marks == "-x------"
    assert what in findings[Step.TCP].what
    assert [each for each in findings[Step.TCP].advice if each.startswith("port")] == [
        f"port {port} of this host accepts connections, and is a usual one: is that the broker?" for port in found
    ]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"", "the broker closed the connection instead of answering CONNECT -> is it a TLS port? Then use stomps://"),
        (
            b"AMQP\x00\x00\x09\x01",
            (
                "the answer to CONNECT is not STOMP: NUL where a command or an end of line should be: "
                r"b'AMQP\x00\x00\t\x01' -> this port speaks AMQP: use the broker's STOMP port, usually 61613"
            ),
        ),
        (
            b"ERROR\nmessage:Version mismatch\nversion:1.0\n\n\0",
            "the broker refused: Version mismatch (it speaks 1.0) -> offer a version that it supports: --stomp-version",
        ),
        (b"ERROR\nmessage:too busy\n\n\0", "the broker refused: too busy -> the broker's log may say more"),
    ],
)
async def test_doctor_when_connect_is_not_answered_well_then_says_by_what(
    answer: bytes, expected: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_broker() as broker:
        broker.faults.plan(AnswerConnect(data=answer, close=True), connections=None)
        marks, findings = await diagnosed(broker.url)

    assert marks == "-+-x----"
    assert told([findings[Step.CONNECT]]) == [f"x CONNECT: {expected}"]


async def test_doctor_when_connect_is_not_answered_well_over_tls_then_says_by_what(
    authority: trustme.CA, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_broker(tls=server_context(authority)) as broker:
        broker.faults.plan(AnswerConnect(data=b"AMQP\x00\x00\x09\x01", close=True), connections=None)
        marks, findings = await diagnosed(broker.url, tls=client_context(authority))

    assert marks == "-++x----"
    assert findings[Step.CONNECT].advice == ("this port speaks AMQP: use the broker's STOMP port, usually 61613",)


CREDENTIALS = "are login and passcode right? See --login, --ask-passcode and --passcode-file"
UNCLEAR = "brokers read a backslash in the passcode in different ways: name the broker with --profile"


@pytest.mark.parametrize(
    ("login", "options", "words", "advice"),
    [
        ("", {}, "", ["no login was sent: pass --login USER, and the passcode by --ask-passcode or --passcode-file"]),
        ("ann@", {}, "", ["no passcode was sent for 'ann': pass --ask-passcode or --passcode-file"]),
        ("ann:s3cret@", {}, "", [CREDENTIALS]),
        (
            "ann:s3cret%20@",
            {},
            "",
            [CREDENTIALS, "the passcode begins or ends with white space; is that part of it?"],
        ),
        ("ann:s3%5Ccret@", {}, "", [CREDENTIALS, UNCLEAR]),
        ("ann:s3%5Ccret@", {"profile": "artemis"}, "", [CREDENTIALS]),
        (
            "guest:s3cret@",
            {},
            "",
            [CREDENTIALS, "by default, RabbitMQ accepts guest only from its own machine"],
        ),
        # Of ActiveMQ Classic.
        ("guest:s3cret@", {}, "User name [guest] or password is invalid.", [CREDENTIALS]),
    ],
)
async def test_doctor_when_the_login_is_refused_then_advises_by_what_was_sent(
    login: str, options: ConnectOptions, words: str, advice: list[str], autojump_clock: trio.testing.MockClock
) -> None:
    async with open_broker(options=BrokerOptions(logins={"guest": "another"})) as broker:
        if words:
            broker.faults.plan(AnswerConnect(error=words))
        marks, findings = await diagnosed(f"stomp://{login}127.0.0.1:{broker.port}", **options)

    assert marks == "-+-+x---"
    assert findings[Step.CONNECT].what == "the broker answers, and speaks STOMP"
    assert findings[Step.LOGIN].what.startswith(f"the broker refused: {words.removesuffix('.') or 'access refused'}")
    assert list(findings[Step.LOGIN].advice) == advice
    assert "s3" not in str(findings)


@pytest.mark.parametrize(("path", "slashed"), [("/odrers", ["odrers"]), ("/%2Fodrers", []), ("", [])])
async def test_doctor_when_the_vhost_is_wrong_then_that_step_failed(
    path: str, slashed: list[str], autojump_clock: trio.testing.MockClock
) -> None:
    async with open_broker(options=BrokerOptions(vhosts={"orders"})) as broker:
        marks, findings = await diagnosed(f"stomp://guest:guest@127.0.0.1:{broker.port}{path}")

    assert marks == "-+-++x--"
    assert told([findings[Step.CONNECT], findings[Step.LOGIN]]) == [
        "+ CONNECT: the broker answers, and speaks STOMP",
        "+ login: not refused",
    ]
    assert "unknown virtual host" in findings[Step.VHOST].what
    assert list(findings[Step.VHOST].advice) == [
        "name one that exists and that this user may use, by --vhost or as the path of a stomp:// URL",
        *(f"a name that begins with a slash is written /%2F{name} in a URL" for name in slashed),
    ]


@pytest.mark.parametrize(
    ("server", "vhost", "expected"),
    [
        ("ActiveMQ/6.1.8", "", "- vhost: ActiveMQ Classic has no virtual hosts"),
        ("ActiveMQ/6.1.8", "/b", "! vhost: ActiveMQ Classic has no virtual hosts -> 'b' is ignored; leave it out"),
        ("ActiveMQ-Artemis/2.44.0", "", "- vhost: ActiveMQ Artemis has no virtual hosts"),
        ("x", "/b", "+ vhost: 'b'"),
    ],
)
async def test_doctor_when_the_broker_has_vhosts_or_not_then_says_so(
    server: str, vhost: str, expected: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_broker(options=BrokerOptions(server=server, heart_beat=(0, 0))) as broker:
        _, findings = await diagnosed(broker.url + vhost)

    assert told([findings[Step.VHOST]]) == [expected]


@pytest.mark.parametrize(
    ("server", "options", "expected"),
    [
        ("ActiveMQ-Artemis/2.44.0 x", {}, "+ broker: ActiveMQ-Artemis 2.44.0; profile ActiveMQ Artemis"),
        (
            "odd  header",
            {},
            (
                "! broker: 'odd  header'"
                " -> no profile for this broker, so only plain STOMP is used; if it is a known one, pass --profile"
            ),
        ),
        ("Spring", {"profile": "artemis"}, "+ broker: Spring; treated as ActiveMQ Artemis, as --profile says"),
    ],
)
async def test_doctor_when_the_broker_names_itself_then_says_what_that_means(
    server: str, options: ConnectOptions, expected: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_broker(options=BrokerOptions(server=server, heart_beat=(0, 0))) as broker:
        _, findings = await diagnosed(broker.url, **options)

    assert told([findings[Step.BROKER]]) == [expected]


PLAIN = (
    "x TLS: this is a plain STOMP port, without TLS (the server does not speak TLS on this port)"
    " -> write stomp:// for this port, or find the broker's port for TLS, usually 61614"
)


@pytest.mark.parametrize("logins", [None, {"ann": "another"}])
async def test_doctor_when_tls_goes_to_a_plain_port_then_says_so(
    logins: dict[str, str] | None, autojump_clock: trio.testing.MockClock
) -> None:
    # It is one whether it accepts a client without a login or refuses it.
    async with open_broker(options=BrokerOptions(logins=logins)) as broker:
        marks, findings = await diagnosed(f"stomps://guest:s3cret@127.0.0.1:{broker.port}")

        assert broker.statistics().received[Command.CONNECT] == 1
    assert marks == "-+x-----"
    assert told([findings[Step.TLS]]) == [PLAIN]


async def test_doctor_when_it_looks_at_a_plain_port_then_sends_no_login_and_asks_for_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    heard: list[bytes] = []
    # The second time, the connection is lost after CONNECTED.
    talks = answering(b"ERROR\n\n\0"), answering(b"CONNECTED\n\n\0ERROR\nmessage:go away\n\n\0", heard=heard)
    async with open_port(*talks) as port:
        marks, findings = await diagnosed(f"stomps://guest:s3cret@127.0.0.1:{port}")

    assert marks == "-+x-----"
    assert told([findings[Step.TLS]]) == [PLAIN]
    assert heard == [b"CONNECT\naccept-version:1.0,1.1,1.2\nhost:/\nheart-beat:0,0\n\n\0"]


async def test_doctor_when_plain_goes_to_a_tls_port_then_says_so_and_whose_it_is(
    authority: trustme.CA, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_broker(tls=server_context(authority)) as broker:
        marks, findings = await diagnosed(f"stomp://guest:s3cret@127.0.0.1:{broker.port}")

    assert marks == "-+-x----"
    assert re.sub("[0-9a-f]{64}", "...", told([findings[Step.CONNECT]])[0]) == (
        "x CONNECT: this port speaks TLS (the broker closed the connection instead of answering CONNECT); "
        "the certificate is for localhost, 127.0.0.1, by test authority, until Jan  1 00:00:00 3000 GMT (SHA-256 ...)"
        " -> write stomps:// for this port"
    )


async def test_doctor_when_a_certificate_is_shown_once_then_tells_its_fingerprint_alone(
    authority: trustme.CA, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_port(answering(), answering_over_tls(server_context(authority), b"")) as port:
        marks, findings = await diagnosed(f"stomp://127.0.0.1:{port}")

    assert marks == "-+-x----"
    assert re.search(
        r"the certificate is for unknown names, by an unknown issuer, until an unknown date \(SHA-256 [0-9a-f]{64}\)$",
        findings[Step.CONNECT].what,
    )


async def test_doctor_when_a_certificate_is_self_signed_then_tells_the_name_that_it_has_and_its_fingerprint(
    autojump_clock: trio.testing.MockClock,
) -> None:
    context, certificate = self_signed_context("Ann's own")
    async with open_broker(tls=context) as broker:
        marks, findings = await diagnosed(f"stomps://127.0.0.1:{broker.port}")

    assert marks == "-+x-----"
    assert findings[Step.TLS].what == (
        "the broker's certificate is not trusted: self-signed certificate; the certificate is for unknown names, "
        f"by Ann's own, until Jan  1 00:00:00 2900 GMT (SHA-256 {hashlib.sha256(certificate).hexdigest()})"
    )


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
    assert findings[Step.TLS].advice == ("pass one that it trusts: --cert FILE --key FILE",)


@pytest.mark.parametrize(
    ("scheme", "expected"),
    [
        (
            "stomp",
            (
                "x CONNECT: no answer within 10 s (--connect-timeout) at this step: connect"
                " -> is the port a STOMP port without TLS? A TLS port waits silently for TLS"
            ),
        ),
        (
            "stomps",
            (
                "x TLS: no answer within 10 s (--connect-timeout) at this step: tls"
                " -> is this its plain STOMP port? Then try stomp://, or its port for TLS, usually 61614."
                " A plain port waits silently for a frame"
            ),
        ),
    ],
)
async def test_doctor_when_the_host_is_silent_then_says_at_which_step(
    scheme: str, expected: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_silent_port() as port:
        marks, findings = await diagnosed(f"{scheme}://127.0.0.1:{port}")

    assert marks == ("-+-x----" if scheme == "stomp" else "-+x-----")
    assert told(each for each in findings.values() if each.status is Status.FAILED) == [expected]


async def test_doctor_when_a_plain_port_is_taken_for_a_websocket_then_says_so() -> None:
    async with open_broker() as broker:
        marks, findings = await diagnosed(f"ws://ann:s3cret@127.0.0.1:{broker.port}/ws?token=s3cret")

    assert marks == "-+-x-----"
    assert "this is a plain STOMP port: use stomp://" in findings[Step.WEBSOCKET].advice


@pytest.mark.parametrize(
    ("offer", "pause", "options", "expected"),
    [
        # By default, both sides ask for what RabbitMQ grants at most.
        (0.1, 0.4, {}, "every 1 s, this side every 1 s; the first one came after 200 ms"),
        (5, 4.96, {"heart_beat": (5, 5)}, "every 5 s, this side every 5 s; the first one came after 4.75 s"),
        (6, 0, {"heart_beat": (0, 6)}, "every 6 s, this side none; not waited for"),
    ],
)
async def test_doctor_when_heart_beats_come_then_says_after_how_long(
    offer: float, pause: float, options: ConnectOptions, expected: str, autojump_clock: trio.testing.MockClock
) -> None:
    # The name is looked up again before that.
    trio.socket.set_custom_hostname_resolver(Resolver(["127.0.0.1"], ["127.0.0.1"]))
    # From here on, the difference of two times is exact.
    await trio.sleep(64)
    begin = b"CONNECTED\nversion:1.2\nheart-beat:%d,%d\n\n\0" % (1000 * offer, 1000 * offer)
    async with open_port(answering(begin, pause, b"\n", 60)) as port:
        _, findings = await diagnosed(f"stomp://broker.test:{port}", **options)

    assert told([findings[Step.HEART_BEAT]]) == [f"+ heart-beat: the broker sends {expected}"]


@pytest.mark.parametrize(
    ("margin", "why"),
    [
        (2.5, "{url} sent nothing for 10 s (heart-beat 4 s, margin 2.5)"),
        # More patient than the doctor.
        (3, "none came within 10.4 s"),
    ],
)
async def test_doctor_when_heart_beats_do_not_come_then_that_step_failed(
    margin: float, why: str, autojump_clock: trio.testing.MockClock
) -> None:
    await trio.sleep(7)
    begin = b"CONNECTED\nversion:1.2\nheart-beat:4000,4000\nserver:RabbitMQ/3.13.0\n\n\0"
    async with open_port(answering(begin, 60)) as port:
        url = f"stomp://127.0.0.1:{port}"
        marks, findings = await diagnosed(url, heart_beat=(4, 4), heart_beat_margin=margin)

    assert marks == "-+-+++x+"
    assert told([findings[Step.HEART_BEAT]]) == [
        (
            f"x heart-beat: the broker sends every 4 s, this side every 4 s, but {why.format(url=url)}"
            " -> clients drop such a connection again and again: does a proxy hold back small packets?"
        )
    ]


async def test_doctor_when_the_broker_fails_after_connected_then_that_is_told(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_broker() as broker:
        given = b"CONNECTED\nversion:1.2\nheart-beat:100,100\n\n\0ERROR\nmessage:go away\n\n\0"
        broker.faults.plan(AnswerConnect(data=given, close=True))
        marks, findings = await diagnosed(broker.url, heart_beat=(0.1, 0.1))

    assert marks == "-+-+++x!"
    assert findings[Step.HEART_BEAT].what == "the broker sends every 0.1 s, this side every 0.1 s, but go away"


async def test_doctor_when_there_are_no_heart_beats_then_a_warning(autojump_clock: trio.testing.MockClock) -> None:
    async with open_broker() as broker:
        _, findings = await diagnosed(broker.url, versions=["1.0"])

    assert told([findings[Step.HEART_BEAT]]) == [
        (
            "! heart-beat: the broker sends none, this side none"
            " -> STOMP 1.0 has no heart-beats; a dead connection goes unnoticed"
        )
    ]


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def colored(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """The command on a terminal that has colors, and is narrower than any line."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "10")
    return cli


STYLES = {"0": "/", "1": "bold", "2": "dim", "32": "green", "33": "yellow", "36": "cyan", "1;31": "bold red"}


def shown(written: str) -> list[str]:
    """The lines of a command, the names of styles in brackets, without what differs from run to run."""
    text = re.sub(r"\([\d.]+ m?s\)", "(0 ms)", written)
    return re.sub(r"\x1b\[([\d;]*)m", lambda code: f"[{STYLES[code[1]]}]", text).splitlines()


def test_doctor_when_all_is_well_then_prints_each_step(colored: Cli, stomp_broker_thread: ThreadedBroker) -> None:
    done = colored("doctor")

    assert done.exit_code == 0
    assert shown(done.stdout) == [
        f"[bold]stomp://127.0.0.1:{stomp_broker_thread.port}[/]",
        "[dim]- DNS         [/][dim]127.0.0.1 is an address[/]",
        f"[green]✓ TCP         [/]port {stomp_broker_thread.port} accepts connections",
        "[dim]- TLS         [/][dim]not requested: what is sent, the passcode included, can be read on the way[/]",
        "[green]✓ CONNECT     [/]the broker answers, and speaks STOMP 1.2 (0 ms)",
        "[green]✓ login       [/]accepted as 'guest'",
        "[green]✓ vhost       [/]'/', the default",
        "[yellow]! heart-beat  [/]the broker sends none, this side none",
        "[cyan]              -> the broker or --heart-beat turned them off; a dead connection goes unnoticed[/]",
        f"[green]✓ broker      [/]trio-stomp-testing {trio_stomp.__version__}; profile trio_stomp.testing",
        "[green]the connection works[/]",
    ]


def test_doctor_when_the_login_is_refused_then_advises_and_ends_with_its_code(
    colored: Cli, stomp_broker_thread: ThreadedBroker
) -> None:
    done = colored("doctor", "-u", f"stomp://guest@127.0.0.1:{stomp_broker_thread.port}")

    assert done.exit_code == ExitCode.REFUSED
    assert shown(done.stdout)[4:] == [
        "[green]✓ CONNECT     [/]the broker answers, and speaks STOMP",
        "[bold red]✗ login       [/]the broker refused: access refused: unknown user 'guest' or wrong passcode",
        "[cyan]              -> no passcode was sent for 'guest': pass --ask-passcode or --passcode-file[/]",
        "[dim]- vhost       [/][dim]not reached[/]",
        "[dim]- heart-beat  [/][dim]not reached[/]",
        "[dim]- broker      [/][dim]not reached[/]",
        "[bold red]it does not work[/]",
    ]


def test_doctor_when_told_to_reconnect_then_a_connection_that_is_lost_is_still_a_failure(
    cli: Cli, stomp_broker_thread: ThreadedBroker
) -> None:
    given = b"CONNECTED\nversion:1.2\nheart-beat:100,100\n\n\0ERROR\nmessage:go away\n\n\0"
    stomp_broker_thread.call(lambda broker: broker.faults.plan(AnswerConnect(data=given, close=True)))

    done = cli("doctor", "--reconnect", "--heart-beat", "0.1,0.1")

    assert done.exit_code == ExitCode.FAILED
    assert "go away" in done.stdout
    assert stomp_broker_thread.call(lambda broker: broker.statistics().connections) == 1


def test_doctor_when_several_brokers_are_named_then_each_is_examined_and_a_line_of_json(
    cli: Cli, stomp_broker_thread: ThreadedBroker
) -> None:
    host = f"127.0.0.1:{stomp_broker_thread.port}"
    urls = stomp_broker_thread.url, f"stomp://%C3%A4nn:incorrect@{host}", "stomp://127.0.0.1:1"
    done = cli("doctor", "--json", *(f"--url={url}" for url in urls))

    # The first that fails decides.
    assert done.exit_code == ExitCode.REFUSED
    well, refused, closed = map(json.loads, done.stdout.splitlines())
    assert (well["healthy"], closed["healthy"]) == (True, False)
    assert {each["status"] for each in well["steps"]} == {"ok", "skipped", "warning"}
    rows = [
        ("DNS", "skipped", "127.0.0.1 is an address"),
        ("TCP", "ok", f"port {stomp_broker_thread.port} accepts connections"),
        ("TLS", "skipped", "not requested: what is sent, the passcode included, can be read on the way"),
        ("CONNECT", "ok", "the broker answers, and speaks STOMP"),
        ("login", "failed", "the broker refused: access refused: unknown user 'änn' or wrong passcode", CREDENTIALS),
        *((step, "skipped", "not reached") for step in ("vhost", "heart-beat", "broker")),
    ]
    assert refused == {
        "address": f"stomp://{host}",
        "healthy": False,
        "steps": [{"step": row[0], "status": row[1], "what": row[2], "advice": [*row[3:]]} for row in rows],
    }
    # Letters are not escaped, so people can read them.
    assert "'änn'" in done.stdout


def test_doctor_when_the_extra_for_websocket_is_missing_then_it_is_named(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wsproto", None)
    monkeypatch.delitem(sys.modules, "trio_stomp.transport.websocket", raising=False)

    done = cli("doctor", "-u", "ws://127.0.0.1:1/ws")

    assert done.exit_code == ExitCode.USAGE
    assert "pip install 'trio-stomp[websocket]'" in done.stderr


@pytest.mark.parametrize(("encoding", "marks"), [("utf-8", "✓!✗-"), ("ascii", "+!x-")])
def test_finding_when_printed_then_harmless_and_in_what_the_output_can_hold(encoding: str, marks: str) -> None:
    given = io.BytesIO()
    file = io.TextIOWrapper(given, encoding=encoding)

    for status in Status:
        print_finding(Finding(Step.LOGIN, status, "no\n\x1b[2J", ("try again",)), Console(file=file))

    file.flush()
    assert given.getvalue().decode(encoding) == "".join(
        f"{mark} login       no\\n\\x1b[2J\n              -> try again\n" for mark in marks
    )


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
