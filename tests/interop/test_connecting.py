"""CONNECT, good and refused; TLS; heart-beats; leaving."""

from __future__ import annotations

import trio

import trio_stomp
from tests.interop.bench import Bench
from tests.interop.broker_facts import Broker


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


async def test_connect_when_the_certificate_is_not_trusted_then_said_so(newest: Bench) -> None:
    broker = newest.broker
    error = await newest.refused(broker.url("stomp+ssl"), tls=broker.context(ca=broker.tls["other_ca"]))
    assert error.failures[0].step == "tls"
    assert "certificate is not trusted" in str(error)


async def test_connect_when_tls_meets_a_plain_port_then_it_fails_and_hints(newest: Bench) -> None:
    url = newest.broker.url().replace("stomp://", "stomps://")
    error = await newest.refused(url, tls=newest.broker.context(), connect_timeout=2)
    assert "plain STOMP port" in str(error)


async def test_connect_when_plain_meets_a_tls_port_then_it_fails_and_hints(newest: Bench) -> None:
    url = newest.broker.url("stomp+ssl").replace("stomps://", "stomp://")
    assert "TLS port" in str(await newest.refused(url, connect_timeout=5))


async def test_mutual_tls_when_the_certificate_is_shown_then_connected_and_not_without(newest: Bench) -> None:
    broker = newest.broker
    # RabbitMQ has one TLS port here, which takes clients without a certificate, and with one.
    port = "mtls" if "mtls" in broker.ports else "stomp+ssl"
    if port == "mtls":
        error = await newest.refused(broker.url(port), tls=broker.context(), connect_timeout=5)
        assert "demands a client certificate" in str(error)
        assert "load_cert_chain()" in str(error)
    async with newest.connect(url=broker.url(port), tls=broker.context(certificate=True)) as client:
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


async def test_heart_beats_when_idle_for_three_intervals_then_both_sides_are_content(newest: Bench) -> None:
    async with newest.connect(heart_beat=(1, 1)) as client:
        assert client.heart_beat.client_sends_ms == client.heart_beat.server_sends_ms == 1000
        await trio.sleep(4.5)
        assert client.statistics().heart_beats_sent >= 4
        assert client.statistics().seconds_since_read < 2.5
        await client.send(newest.queue(), b"1", receipt=True)
