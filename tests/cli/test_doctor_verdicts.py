import ssl

import pytest

from trio_stomp.brokers import ARTEMIS, GENERIC, Profile
from trio_stomp.cli.doctor_findings import Finding, Status, Step
from trio_stomp.cli.doctor_handshake import Answer, Kind
from trio_stomp.cli.doctor_target import Target
from trio_stomp.cli.doctor_tls import Certificate
from trio_stomp.cli.doctor_verdicts import broker_finding, on_connected, on_refused, on_unanswered
from trio_stomp.errors import BrokerError
from trio_stomp.protocol import ClientProtocol, Command, Connected, Frame, Headers, HeartBeatTerms, Version

CERTIFICATE = Certificate(names=("broker",), issuer="somebody", until="some day", fingerprint="00")
OK, WARNING, FAILED, SKIPPED = Status.OK, Status.WARNING, Status.FAILED, Status.SKIPPED


def target(
    *, login: str | None = None, passcode: str | None = None, vhost: str | None = None, tls: bool = False
) -> Target:
    return Target(host="broker", port=1, login=login, passcode=passcode, vhost=vhost, tls=tls)


def answer(kind: Kind, seen: bytes = b"", error: Exception | None = None) -> Answer:
    return Answer(kind=kind, seconds=0.001, protocol=ClientProtocol(), seen=seen, error=error)


def connected(server: str | None) -> Connected:
    frame = Frame(command=Command.CONNECTED, headers=Headers([]), body=b"")
    terms = HeartBeatTerms(client_sends_ms=0, server_sends_ms=0)
    return Connected(frame=frame, version=Version.V1_2, server=server, session=None, terms=terms)


def refused(message: str, body: str, whom: Target, headers: dict[str, str] | None = None) -> dict[Step, Finding]:
    error = BrokerError(message=message, headers=headers or {}, body=body.encode())
    return {finding.step: finding for finding in on_refused(error, answer(Kind.REFUSED), whom)}


@pytest.mark.parametrize(
    ("message", "body"),
    [
        ("Bad CONNECT", "Access refused for user 'ann'\n"),
        ("User name [ann] or password is invalid.", ""),
        ("Security Error occurred: User name [ann] or password is invalid", ""),
        ("access refused", "user 'ann' is not known, or the passcode is wrong"),
    ],
)
def test_refusal_when_it_is_about_the_login_then_that_step_failed(message: str, body: str) -> None:
    found = refused(message, body, target(login="ann", passcode="x"))

    assert {step: finding.status for step, finding in found.items()} == {Step.CONNECT: OK, Step.LOGIN: FAILED}
    assert message in found[Step.LOGIN].what


@pytest.mark.parametrize(
    ("whom", "advice"),
    [
        (target(), "no login was sent"),
        (target(login="ann"), "no passcode was sent for 'ann'"),
        (target(login="ann", passcode="s3cret"), "is the passcode of 'ann' right?"),
        (target(login="ann", passcode="s3cret "), "white space"),
        (target(login="ann", passcode="s3\\cret"), "--profile"),
        (target(login="guest", passcode="s3cret"), "RabbitMQ lets guest in from its own machine only"),
    ],
)
def test_refusal_when_it_is_about_the_login_then_advises_by_what_was_sent(whom: Target, advice: str) -> None:
    found = refused("Bad CONNECT", "Access refused for user", whom)[Step.LOGIN]

    assert any(advice in line for line in found.advice)
    assert "s3" not in "".join((found.what, *found.advice))


@pytest.mark.parametrize(
    ("whom", "advice"),
    [(target(vhost="nope"), "/%2Fnope"), (target(), "'/' was asked for"), (target(vhost="/nope"), "exist")],
)
def test_refusal_when_it_is_about_the_vhost_then_the_login_was_not(whom: Target, advice: str) -> None:
    found = refused("Bad CONNECT", "Virtual host 'nope' access denied", whom)

    statuses = {step: finding.status for step, finding in found.items()}
    assert statuses == {Step.CONNECT: OK, Step.LOGIN: OK, Step.VHOST: FAILED}
    assert any(advice in line for line in found[Step.VHOST].advice)


def test_refusal_when_it_is_about_the_version_then_says_which_there_are() -> None:
    found = refused("Version mismatch", "Supported versions are 1.0", target(), {"version": "1.0"})

    assert found[Step.CONNECT].status is FAILED
    assert found[Step.CONNECT].what.endswith("it speaks 1.0")


def test_refusal_when_it_is_about_something_else_then_in_the_brokers_words() -> None:
    found = refused("client-id in use", "", target())

    assert found[Step.CONNECT].what == "the broker says: client-id in use"


@pytest.mark.parametrize(
    ("given", "certificate", "what", "advice"),
    [
        (answer(Kind.STRANGE, b"\x15\x03\x03"), None, "this port speaks TLS", "stomps://"),
        (answer(Kind.CLOSED), CERTIFICATE, "the certificate is for broker, by somebody", "stomps://"),
        (answer(Kind.SILENT), CERTIFICATE, "no answer to CONNECT within 10 s", "stomps://"),
        (answer(Kind.STRANGE, b"AMQP"), None, "it is AMQP", "find the port"),
        (answer(Kind.SILENT), None, "no answer to CONNECT within 10 s", "silent"),
        (answer(Kind.CLOSED), None, "closed in place of an answer", "is it the port for STOMP?"),
        (answer(Kind.BROKEN, error=OSError("reset")), None, "broke at CONNECT: reset", "is it the port"),
    ],
)
def test_silence_when_no_stomp_comes_back_then_explained(
    given: Answer, certificate: Certificate | None, what: str, advice: str
) -> None:
    finding = on_unanswered(given, certificate, target())

    assert (finding.step, finding.status) == (Step.CONNECT, FAILED)
    assert what in finding.what
    assert advice in finding.advice[0]


def test_silence_when_tls_wants_a_certificate_then_said_so() -> None:
    error = ssl.SSLError(1, "alert")
    error.reason = "TLSV13_ALERT_CERTIFICATE_REQUIRED"

    finding = on_unanswered(answer(Kind.BROKEN, error=error), None, target(tls=True))

    assert "wants another certificate" in finding.what
    assert "--cert" in finding.advice[0]


@pytest.mark.parametrize(
    ("server", "vhost", "status", "what"),
    [
        ("RabbitMQ/3.13.0", None, OK, "'/', the default"),
        ("RabbitMQ/3.13.0", "test", OK, "'test'"),
        ("ActiveMQ/6.1.8", None, SKIPPED, "ActiveMQ Classic has no virtual hosts"),
        ("ActiveMQ/6.1.8", "test", WARNING, "ActiveMQ Classic has no virtual hosts"),
    ],
)
def test_welcome_when_the_broker_has_vhosts_or_not_then_told(
    server: str, vhost: str | None, status: Status, what: str
) -> None:
    steps = on_connected(connected(server), answer(Kind.CONNECTED), target(vhost=vhost, login="ann"))

    assert [finding.step for finding in steps] == [Step.CONNECT, Step.LOGIN, Step.VHOST]
    assert [finding.status for finding in steps] == [OK, OK, status]
    assert steps[1].what == "let in as 'ann'"
    assert steps[2].what == what


@pytest.mark.parametrize(
    ("server", "profile", "status", "what"),
    [
        ("RabbitMQ/3.13.0", None, OK, "RabbitMQ 3.13.0; its ways are known here"),
        ("ActiveMQ-Artemis/2.44.0 ActiveMQ Artemis", None, OK, "ActiveMQ-Artemis 2.44.0; its ways are known here"),
        ("Spring", None, WARNING, "Spring"),
        ("odd  header", None, WARNING, "'odd  header'"),
        (None, None, WARNING, "it does not say what it is"),
        (None, ARTEMIS, OK, "it does not say what it is; taken for ActiveMQ Artemis, as you say"),
        ("Spring", GENERIC, OK, "Spring; taken for unknown broker, as you say"),
    ],
)
def test_broker_when_it_names_itself_or_not_then_told(
    server: str | None, profile: Profile | None, status: Status, what: str
) -> None:
    finding = broker_finding(server, profile)

    assert (finding.status, finding.what) == (status, what)
