"""CONNECT, good and refused; TLS; leaving."""

from __future__ import annotations

import pytest
import trio

import trio_stomp
from tests.interop.broker_facts import Broker
from trio_stomp import AuthenticationError, ConnectError


async def refused(broker_url: str, **options: object) -> ConnectError:
    with trio.fail_after(30), pytest.raises(ConnectError) as caught:
        async with trio_stomp.connect(broker_url, **options):  # type: ignore[arg-type]  # passed on as given
            raise AssertionError
    return caught.value


async def test_connect_when_all_is_right_then_version_server_and_heart_beat(broker: Broker, version: str) -> None:
    with trio.fail_after(30):
        async with trio_stomp.connect(broker.url(), **broker.options(version)) as client:
            assert client.version == version
            if version != "1.0" or broker.facts.names_itself_in_1_0:
                assert client.server is not None
                assert client.server.startswith(broker.facts.server)
            assert client.profile.name != "unknown broker"
            expected = 0 if version == "1.0" else 10_000
            assert client.heart_beat.client_sends_ms == expected
            assert await client.disconnect() is trio_stomp.DisconnectResult.RECEIPT


async def test_connect_when_the_passcode_is_wrong_then_authentication_error(broker: Broker) -> None:
    error = await refused(broker.url(user="guest:hush-hush"))
    assert isinstance(error, AuthenticationError)
    assert "hush-hush" not in str(error)
    assert "are login and passcode right" in str(error)


async def test_connect_when_the_passcode_has_a_colon_then_it_arrives(broker: Broker) -> None:
    with trio.fail_after(30):
        async with trio_stomp.connect(broker.url(), login="alice", passcode="s3cret:x", vhost="/test"):
            pass


async def test_connect_when_the_virtual_host_is_unknown_then_as_the_broker_does(broker: Broker) -> None:
    if broker.facts.refuses_vhosts:
        error = await refused(broker.url(), vhost="nowhere")
        assert isinstance(error, AuthenticationError)
        assert "name one that exists and that this user may use, by vhost=" in str(error)
        return
    with trio.fail_after(30):
        async with trio_stomp.connect(broker.url(), vhost="nowhere") as client:
            assert client.version == "1.2"


async def test_connect_when_over_tls_then_the_same(broker: Broker) -> None:
    with trio.fail_after(30):
        async with trio_stomp.connect(broker.url("stomp+ssl"), tls=broker.context()) as client:
            await client.send("/queue/interop.tls", b"x" * 100_000, receipt=True)
            async with client.subscribe("/queue/interop.tls") as subscription, await anext(subscription) as message:
                assert len(message.body) == 100_000
            assert await client.disconnect() is trio_stomp.DisconnectResult.RECEIPT


async def test_connect_when_the_certificate_is_not_trusted_then_said_so(broker: Broker) -> None:
    error = await refused(broker.url("stomp+ssl"), tls=broker.context(ca=broker.tls["other_ca"]))
    assert error.failures[0].step == "tls"
    assert "certificate is not trusted" in str(error)


async def test_connect_when_tls_meets_a_plain_port_then_it_fails_and_hints(broker: Broker) -> None:
    url = broker.url().replace("stomp://", "stomps://")
    error = await refused(url, tls=broker.context(), connect_timeout=2)
    assert "plain STOMP port" in str(error)


async def test_connect_when_plain_meets_a_tls_port_then_it_fails_and_hints(broker: Broker) -> None:
    url = broker.url("stomp+ssl").replace("stomps://", "stomp://")
    assert "TLS port" in str(await refused(url, connect_timeout=5))


async def test_mutual_tls_when_the_certificate_is_shown_then_connected_and_not_without(broker: Broker) -> None:
    if "mtls" not in broker.ports:
        # RabbitMQ has one TLS port here, which takes clients without a certificate, and with one.
        port = "stomp+ssl"
    else:
        port = "mtls"
        error = await refused(broker.url(port), tls=broker.context(), connect_timeout=5)
        assert "demands a client certificate" in str(error)
        assert "load_cert_chain()" in str(error)
    with trio.fail_after(30):
        async with trio_stomp.connect(broker.url(port), tls=broker.context(certificate=True)) as client:
            assert client.version == "1.2"


async def test_connect_when_one_host_is_down_then_the_next_is_used(broker: Broker) -> None:
    with trio.fail_after(30):
        async with trio_stomp.connect(["stomp://127.0.0.1:1", broker.url()]) as client:
            assert client.version == "1.2"


async def test_sends_when_disconnect_follows_at_once_then_all_are_stored(broker: Broker) -> None:
    """Row 12-RECEIPT-4."""
    queue = "/queue/interop.disconnect"
    with trio.fail_after(30):
        async with trio_stomp.connect(broker.url()) as client:
            for number in range(100):
                await client.send(queue, b"%d" % number, headers={"persistent": "true"})
        async with trio_stomp.connect(broker.url()) as client, client.subscribe(queue) as subscription:
            for number in range(100):
                async with await anext(subscription) as message:
                    assert message.body == b"%d" % number


async def test_rapid_connections_when_many_then_all_are_served(broker: Broker) -> None:
    """Rows 12-LING-1, 11-LING-1."""
    with trio.fail_after(30):
        for _ in range(20):
            async with trio_stomp.connect(broker.url()):
                pass
