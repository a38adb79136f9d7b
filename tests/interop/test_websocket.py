"""STOMP over WebSocket, and through proxies, as each broker has it."""

from __future__ import annotations

import pytest
import trio

import trio_stomp
from tests.chaos.wires import Befalls, open_wire
from tests.interop.bench import PATIENCE, Bench, take, whatever_comes
from tests.kit.tunneling import Tunnels, open_http_proxy, open_socks_proxy
from trio_stomp import ConnectionLost, DisconnectResult, NotSupportedError, OutgoingMessage

# No UTF-8, with NUL and line ends in it.
OCTETS = b"\xff\0\n\0\xfe" * 1000


async def test_websocket_when_text_is_sent_then_it_comes_back_in_each_version(bench: Bench) -> None:
    queue = bench.queue()
    body = "grüße €😀 " * 1000
    async with bench.connect(url=bench.broker.url("ws")) as client:
        async with client.subscribe(queue, ack=bench.modes[0]) as messages:
            await client.send(queue, body, headers={"odd": "ünïcode"}, receipt=True)
            (message,) = await take(messages, 1)
            assert message.text == body
            assert message.headers["odd"] == "ünïcode"
            await message.ack()
        expected = DisconnectResult.RECEIPT if bench.facts.websocket_says_bye else DisconnectResult.CLOSED
        assert await client.disconnect() is expected
    async with bench.connect() as client:
        assert await bench.left(client, queue) == []


async def test_websocket_when_many_frames_are_written_at_once_then_each_arrives(newest: Bench) -> None:
    queue = newest.queue()
    async with newest.connect(url=newest.broker.url("ws")) as client, client.subscribe(queue, ack="auto") as messages:
        await client.send_many([OutgoingMessage(destination=queue, body=str(number)) for number in range(500)])
        assert [message.text for message in await take(messages, 500)] == [str(number) for number in range(500)]


async def test_websocket_when_bodies_are_no_text_then_as_the_broker_does(newest: Bench) -> None:
    queue, broker = newest.queue(), newest.broker
    async with newest.connect(url=broker.url("ws")) as client:
        if broker.name == "activemq":
            with pytest.raises(NotSupportedError, match="drops bodies that are not UTF-8"):
                await client.send(queue, OCTETS)
            return
        await client.send(queue, OCTETS, receipt=True)
    # Written as bytes, it arrives as bytes: seen over TCP.
    async with newest.connect() as client, client.subscribe(queue) as messages:
        (message,) = await take(messages, 1)
        assert message.body == OCTETS
    if broker.name == "artemis":
        async with newest.connect(url=broker.url("ws")) as client, client.subscribe(queue) as messages:
            (message,) = await take(messages, 1)
            assert message.body == OCTETS
        return
    # RabbitMQ hands it out as text, which it is not, until it is told to hand out bytes.
    with pytest.raises(ConnectionLost, match=r"web_stomp\.ws_frame = binary"):
        async with newest.connect(url=broker.url("ws")) as client, client.subscribe(queue) as messages:
            await take(messages, 1)


async def test_websocket_when_a_message_is_long_then_fragments_or_the_brokers_limit(newest: Bench) -> None:
    queue, broker = newest.queue(), newest.broker
    body = "€" * 200_000
    if broker.facts.websocket_bytes is not None:
        with pytest.raises(ConnectionLost, match=r"message too big.*raise the broker's limit for WebSocket messages"):
            async with newest.connect(url=broker.url("ws")) as client:
                await client.send(queue, body, receipt=True)
        body = "x" * (broker.facts.websocket_bytes - 1000)
    async with newest.connect(url=broker.url("ws")) as client, client.subscribe(queue) as messages:
        await client.send(queue, body, receipt=True)
        async with await anext(messages) as message:
            assert message.text == body


async def test_websocket_when_nothing_is_said_then_heart_beats_keep_it(newest: Bench) -> None:
    async with newest.connect(url=newest.broker.url("ws"), heart_beat=(1, 1), heart_beat_margin=2.5) as client:
        await trio.sleep(4)
        await client.send(newest.queue(), "still here", receipt=True)
        assert client.statistics().heart_beats_sent > 0


async def test_websocket_when_the_path_is_wrong_then_as_the_broker_does(newest: Bench) -> None:
    url = newest.broker.url("ws") + "/elsewhere"
    if newest.broker.name != "rabbitmq":
        # Any path will do.
        async with newest.connect(url=url):
            return
    error = await newest.refused(url)
    assert error.failures[0].step == "websocket"
    assert "404 Not Found" in str(error)
    assert "is the path right?" in str(error)


async def test_websocket_when_the_port_is_a_plain_one_then_hint(newest: Bench) -> None:
    broker = newest.broker
    url = broker.url().replace("stomp://", "ws://") + "/ws"
    if broker.name == "artemis":
        # One port for both.
        async with newest.connect(url=url):
            return
    error = await newest.refused(url, connect_timeout=3)
    assert "is this" in str(error)


async def test_plain_when_the_port_is_for_websocket_then_hint(newest: Bench) -> None:
    if newest.broker.name == "artemis":
        pytest.skip("Artemis speaks both at one port")
    error = await newest.refused(f"stomp://guest:guest@127.0.0.1:{newest.broker.ports['ws']}", connect_timeout=5)
    assert "STOMP over WebSocket needs a URL like ws://host:port/ws" in str(error)


async def test_websocket_when_the_line_is_cut_then_reconnected_and_nothing_is_lost(newest: Bench) -> None:
    queue = newest.queue()
    policy = trio_stomp.Reconnect(first_delay=0.05)
    async with open_wire("127.0.0.1", newest.broker.ports["ws"]) as wire:
        url = f"ws://guest:guest@127.0.0.1:{wire.port}/ws"
        async with newest.connect(url=url, reconnect=policy) as client:
            with trio.fail_after(PATIENCE * 3):
                for number in range(10):
                    if number in {3, 7}:
                        wire.befall(Befalls.RESET)
                    await client.send(queue, str(number), receipt=True)
            assert client.statistics().reconnections == 2
    async with newest.connect() as client, client.subscribe(queue, ack="auto", prefetch=100) as messages:
        seen = {message.text for message in await whatever_comes(messages, quiet=1.0)}
    assert seen == {str(number) for number in range(10)}


@pytest.mark.parametrize("kind", ["socks5", "http"])
async def test_proxy_when_it_is_in_between_then_tls_and_websocket_go_through(newest: Bench, kind: str) -> None:
    broker = newest.broker
    tunnels = Tunnels(login=("ann", "secret"), names={"localhost": "127.0.0.1"})
    async with open_socks_proxy(tunnels) if kind == "socks5" else open_http_proxy(tunnels):
        proxy = tunnels.url.replace("://", "://ann:secret@")
        for port in ("stomp", "stomp+ssl", "wss"):
            url = broker.url(port).replace("127.0.0.1", "localhost")
            tls = False if port == "stomp" else broker.context()
            async with newest.connect(url=url, proxy=proxy, tls=tls) as client:
                await client.send(newest.queue(), port, receipt=True)
    assert [name for name, _port in tunnels.asked] == ["localhost"] * 3
