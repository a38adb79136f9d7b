"""CONNECT: taken and refused, in the clear and over TLS."""

from __future__ import annotations

import socket

import pytest
import trio

import trio_stomp
from tests.interop.bench import PATIENCE, Bench
from tests.interop.brokers import ALICE, GUEST, READ_ONLY, Account, Broker
from trio_stomp import AuthenticationError, ConnectError, ConnectFailure, NotSupported

WITH_CLIENT_CERTIFICATES = pytest.mark.parametrize("broker", ["activemq", "artemis"], indirect=True)


def only(caught: pytest.ExceptionInfo[ConnectError]) -> ConnectFailure:
    (failure,) = caught.value.failures
    return failure


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def test_connect_when_the_credentials_are_right_then_the_broker_is_known(bench: Bench) -> None:
    async with bench.connect() as client:
        assert client.version == bench.version
        assert client.profile.name == bench.behavior.profile
        # 1.0 has no server header; all three send it.
        assert client.server
        assert client.session
        await client.send(bench.topic(), "hello", receipt=True)


async def test_connect_when_all_versions_are_offered_then_the_highest_is_agreed(broker: Broker) -> None:
    async with trio_stomp.connect(broker.url(), login="guest", passcode="guest") as client:
        assert client.version == "1.2"


async def test_connect_when_the_passcode_is_wrong_then_authentication_error(bench: Bench) -> None:
    wrong = Account(login="guest", passcode="not-the-passcode", vhost="/")
    with trio.fail_after(PATIENCE), pytest.raises(AuthenticationError) as caught:
        async with bench.connect(wrong):
            pytest.fail("the broker took a wrong passcode")
    assert only(caught).step == "connect"
    assert "not-the-passcode" not in str(caught.value)


async def test_connect_when_the_passcode_has_a_colon_then_it_is_taken_as_it_is(bench: Bench) -> None:
    async with bench.connect(ALICE) as client:
        await client.send(bench.topic(), "hello", receipt=True)


async def test_connect_when_the_url_holds_login_and_vhost_then_they_are_used(broker: Broker) -> None:
    url = f"stomp://alice:s3cret%3Ax@{broker.host}:{broker.ports['stomp']}/%2Ftest"
    async with trio_stomp.connect(url) as client:
        await client.send("/topic/it.url", "hello", receipt=True)


async def test_connect_when_the_vhost_is_unknown_then_only_a_broker_that_has_vhosts_refuses(bench: Bench) -> None:
    nowhere = Account(login="guest", passcode="guest", vhost="nowhere")
    if not bench.behavior.checks_vhosts:
        async with bench.connect(nowhere) as client:
            await client.send(bench.topic(), "hello", receipt=True)
        return
    with pytest.raises(AuthenticationError, match="nowhere"):
        async with bench.connect(nowhere):
            pytest.fail("the broker took an unknown vhost")


async def test_connect_when_the_vhost_is_not_the_users_then_only_a_broker_that_has_vhosts_refuses(
    newest: Bench,
) -> None:
    elsewhere = Account(login="alice", passcode="s3cret:x", vhost="/")
    if not newest.behavior.checks_vhosts:
        async with newest.connect(elsewhere) as client:
            await client.send(newest.topic(), "hello", receipt=True)
        return
    with pytest.raises(AuthenticationError):
        async with newest.connect(elsewhere):
            pytest.fail("the broker let alice into a vhost that is not hers")


async def test_connect_when_a_backslash_is_in_the_passcode_and_the_profile_is_named_then_it_arrives_as_written(
    newest: Bench,
) -> None:
    # Brokers that decode escapes in CONNECT would read alice's passcode in this one, were it sent as it is.
    escaped = Account(login="alice", passcode="s3cret\\cx", vhost="/test")
    with pytest.raises(AuthenticationError):
        async with newest.connect(escaped, profile=newest.broker.name):
            pytest.fail("the passcode was not sent as it was written")


async def test_connect_when_nothing_listens_then_the_tcp_step_is_named(broker: Broker) -> None:
    with pytest.raises(ConnectError) as caught:
        async with trio_stomp.connect(broker.url(port=unused_port())):
            pytest.fail("nothing listens there")
    assert only(caught).step == "tcp"
    assert "refused" in only(caught).reason.lower()


async def test_connect_when_the_first_of_two_brokers_is_down_then_the_second_is_used(newest: Bench) -> None:
    urls = [newest.broker.url(port=unused_port()), newest.broker.url()]
    async with trio_stomp.connect(urls, login="guest", passcode="guest") as client:
        await client.send(newest.topic(), "hello", receipt=True)


# --- TLS --------------------------------------------------------------------------------------------------------------


async def test_tls_when_the_certificate_is_trusted_then_messages_flow(bench: Bench) -> None:
    queue = bench.queue()
    url = bench.broker.url("stomp+ssl", host="localhost")
    async with bench.connect(url=url, tls=bench.broker.trust()) as client:
        await bench.fill(client, queue, 3)
        assert await bench.left(client, queue) == ["0", "1", "2"]


async def test_tls_when_the_certificate_is_not_trusted_then_the_tls_step_is_named(broker: Broker) -> None:
    with pytest.raises(ConnectError) as caught:
        async with trio_stomp.connect(
            broker.url("stomp+ssl", host="localhost"), login="guest", passcode="guest", tls=broker.trust(ca="other_ca")
        ):
            pytest.fail("a certificate of an unknown authority was trusted")
    assert only(caught).step == "tls"
    assert "not trusted" in only(caught).reason


async def test_tls_when_the_port_is_a_plain_one_then_the_error_says_so(broker: Broker) -> None:
    url = f"stomps://localhost:{broker.ports['stomp']}"
    with pytest.raises(ConnectError) as caught:
        async with trio_stomp.connect(url, tls=broker.trust(), connect_timeout=2):
            pytest.fail("a plain port spoke TLS")
    # Each of them waits for a frame in silence; RabbitMQ may take the ClientHello for a bad one, and close at once.
    assert only(caught).step in {"timeout", "tls"}
    assert "plain STOMP port" in only(caught).reason


async def test_cleartext_when_the_port_is_a_tls_one_then_the_error_says_so(broker: Broker) -> None:
    with trio.fail_after(PATIENCE), pytest.raises(ConnectError) as caught:
        async with trio_stomp.connect(broker.url(port=broker.ports["stomp+ssl"]), login="guest", passcode="guest"):
            pytest.fail("a TLS port spoke STOMP in the clear")
    assert only(caught).step == "connect"
    assert ("this is a TLS port" in only(caught).reason) == broker.behavior.alerts_cleartext


@WITH_CLIENT_CERTIFICATES
async def test_mutual_tls_when_the_client_has_a_certificate_then_messages_flow(newest: Bench) -> None:
    queue = newest.queue()
    context = newest.broker.trust(client_certificate=True)
    async with newest.connect(url=newest.broker.url("mtls", host="localhost"), tls=context) as client:
        await newest.fill(client, queue, 2)
        assert await newest.left(client, queue) == ["0", "1"]


@WITH_CLIENT_CERTIFICATES
async def test_mutual_tls_when_the_client_has_no_certificate_then_the_error_says_so(newest: Bench) -> None:
    with trio.fail_after(PATIENCE), pytest.raises(ConnectError) as caught:
        async with newest.connect(url=newest.broker.url("mtls", host="localhost"), tls=newest.broker.trust()):
            pytest.fail("no certificate was asked for")
    # In TLS 1.3 the handshake is over for the client when the broker finds that the certificate is missing.
    assert only(caught).step in {"tls", "connect"}
    assert "certificate" in only(caught).reason


# --- rights -----------------------------------------------------------------------------------------------------------


async def test_connect_when_the_user_may_only_read_then_reading_works(newest: Bench) -> None:
    queue = newest.queue()
    async with newest.connect() as writer, newest.connect(READ_ONLY) as reader:
        # The queue has to be there: who may only read may not create it.
        await newest.fill(writer, queue, 2)
        assert await newest.left(reader, queue) == ["0", "1"]


async def test_client_individual_when_version_1_0_then_not_supported(broker: Broker) -> None:
    bench = Bench(broker=broker, version="1.0")
    async with bench.connect(GUEST) as client:
        with pytest.raises(NotSupported, match="client-individual"):
            async with client.subscribe(bench.queue(), ack="client-individual"):
                pytest.fail("1.0 has no such mode")
