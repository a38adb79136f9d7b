import dataclasses
import ssl

import pytest
import trio

from tests.cli.fake_network import FakeNetwork, Port, says, silent
from tests.cli.tls_ports import HOST, Authority
from trio_stomp.cli.doctor_findings import Finding, Status, Step
from trio_stomp.cli.doctor_target import Target
from trio_stomp.cli.doctor_tls import certificate_at, refusal_of_client, secure

ADDRESS = "10.0.0.1"
CONNECTED = says(b"CONNECTED\nversion:1.2\n\n\0")


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.new()


def target(context: ssl.SSLContext | None = None) -> Target:
    return Target(host=HOST, port=1000, tls=True, context=context, login="ann", passcode="s3cret")


async def secured(port: Port, asked: Target, nursery: trio.Nursery) -> tuple[Finding, trio.abc.Stream | None]:
    network = FakeNetwork(nursery, {(ADDRESS, asked.port): port})
    stream = await network.open(ADDRESS, asked.port)
    finding, inner = await secure(stream, ADDRESS, asked, network)
    assert finding.step is Step.TLS
    return finding, inner


async def test_tls_when_the_certificate_is_trusted_then_well(
    authority: Authority, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    finding, stream = await secured(authority.port(CONNECTED), target(authority.trusted()), nursery)

    assert finding.status is Status.OK
    assert finding.what.startswith("TLSv1.3, TLS_")
    assert stream is not None
    await stream.send_all(b"x")
    assert (await stream.receive_some()).startswith(b"CONNECTED")


async def test_tls_when_the_authority_is_not_trusted_then_says_whose_certificate_it_is(
    authority: Authority, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    finding, stream = await secured(authority.port(CONNECTED), target(), nursery)

    assert (finding.status, stream) == (Status.FAILED, None)
    assert "is not trusted: " in finding.what
    assert f"the certificate is for {HOST}, by test authority, until" in finding.what
    assert "SHA-256" in finding.what
    assert "--ca FILE" in finding.advice[0]


async def test_tls_when_the_certificate_is_for_another_host_then_names_it(
    authority: Authority, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    port = authority.port(CONNECTED, authority.context("other.test"))

    finding, _ = await secured(port, target(authority.trusted()), nursery)

    assert finding.status is Status.FAILED
    assert finding.advice[0].startswith("write the host as the certificate has it, one of other.test")


async def test_tls_when_the_certificate_has_expired_then_says_so(
    authority: Authority, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    port = authority.port(CONNECTED, authority.context(expired=True))

    finding, _ = await secured(port, target(authority.trusted()), nursery)

    assert "expired" in finding.what
    assert "must be renewed" in finding.advice[0]


@pytest.mark.parametrize("rude", [True, False])
async def test_tls_when_the_port_is_plain_then_found_out_without_telling_the_passcode(
    rude: bool, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    seen: list[bytes] = []

    async def plain(stream: trio.abc.Stream) -> None:
        octets = bytes(await stream.receive_some())
        seen.append(octets)
        if octets.startswith(b"CONNECT"):
            await stream.send_all(b"CONNECTED\nversion:1.2\n\n\0")
        elif rude:
            await stream.aclose()
        await trio.sleep_forever()

    finding, _ = await secured(plain, target(), nursery)

    assert finding.status is Status.FAILED
    assert finding.what.startswith("this is a plain STOMP port, without TLS")
    assert "stomp://" in finding.advice[0]
    assert len(seen) == 2
    assert b"s3cret" not in seen[1]


async def test_tls_when_the_host_is_silent_then_says_so(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    finding, _ = await secured(silent, target(), nursery)

    assert finding.what == "no answer to TLS within 10 s, nor to plain STOMP: the host takes connections and is silent"


async def test_tls_when_something_else_answers_then_the_handshake_failed(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    finding, _ = await secured(says(b"HTTP/1.1 400 Bad Request\r\n\r\n"), target(), nursery)

    assert finding.status is Status.FAILED
    assert finding.what.startswith("the server does not speak TLS on this port: it answered HTTP")


async def test_tls_when_a_certificate_of_ours_is_wanted_then_says_so(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    # The alert "bad certificate", as a broker sends it that demands one; before TLS 1.3 within the handshake.
    finding, _ = await secured(says(b"\x15\x03\x03\x00\x02\x02\x2a"), target(), nursery)

    assert finding.status is Status.FAILED
    assert "wants another certificate of this client" in finding.what
    assert "--cert" in finding.advice[0]


@pytest.mark.parametrize("port", [silent, says(b"no"), ConnectionRefusedError(111, "no")])
async def test_certificate_when_there_is_no_tls_then_none(
    port: Port | OSError, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    network = FakeNetwork(nursery, {(ADDRESS, 1000): port})

    assert await certificate_at(ADDRESS, target(), network) is None


async def test_certificate_when_there_is_tls_then_read_even_though_nobody_trusts_it(
    authority: Authority, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    network = FakeNetwork(nursery, {(ADDRESS, 1000): authority.port(silent)})

    certificate = await certificate_at(ADDRESS, dataclasses.replace(target(), tls=False), network)

    assert certificate is not None
    assert (certificate.names, certificate.issuer) == ((HOST,), "test authority")
    assert len(bytes.fromhex(certificate.fingerprint)) == 32


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", True),
        ("SSLV3_ALERT_BAD_CERTIFICATE", True),
        ("WRONG_VERSION_NUMBER", False),
    ],
)
def test_refusal_when_tls_gives_its_reason_then_known(reason: str, expected: bool) -> None:
    error = ssl.SSLError(1, "x")
    error.reason = reason

    assert refusal_of_client(error) is expected
