"""Heart-beats held, temporary queues, refusals, slow consumers. What brokers add is in test_broker_features."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest
import trio

import trio_stomp
from tests.interop.broker_facts import Broker
from trio_stomp import BrokerError, Client, ConnectionLost, HeartBeatTimeout, StompError

Destination = Callable[[str], str]


async def test_heart_beats_when_idle_for_three_intervals_then_both_sides_are_content(
    broker: Broker, destination: Destination
) -> None:
    with trio.fail_after(30):
        async with trio_stomp.connect(broker.url(), heart_beat=(1, 1)) as client:
            assert client.heart_beat.client_sends_ms == client.heart_beat.server_sends_ms == 1000
            await trio.sleep(4.5)
            assert client.statistics().heart_beats_sent >= 4
            assert client.statistics().seconds_since_read < 2.5
            await client.send(destination("alive"), b"1", receipt=True)


async def relay(source: trio.SocketStream, target: trio.SocketStream, silent: trio.Event) -> None:
    """Pass bytes on until told to be silent; then take them and say nothing, as a dead route does."""
    async for chunk in source:
        if not silent.is_set():
            await target.send_all(chunk)


async def test_heart_beats_when_the_broker_falls_silent_then_noticed(broker: Broker) -> None:
    silent = trio.Event()

    async def serve(stream: trio.SocketStream) -> None:
        async with (
            await trio.open_tcp_stream("127.0.0.1", broker.ports["stomp"]) as upstream,
            trio.open_nursery() as both,
        ):
            both.start_soon(relay, stream, upstream, silent)
            both.start_soon(relay, upstream, stream, silent)

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            listeners: list[trio.SocketListener] = await nursery.start(
                trio.serve_listeners, serve, await trio.open_tcp_listeners(0, host="127.0.0.1")
            )
            port: int = listeners[0].socket.getsockname()[1]
            start = trio.current_time()
            with pytest.raises(HeartBeatTimeout):
                async with trio_stomp.connect(f"stomp://guest:guest@127.0.0.1:{port}", heart_beat=(1, 1)) as client:
                    await trio.sleep(1.2)
                    silent.set()
                    await client.wait_closed()
            assert trio.current_time() - start < 8
            nursery.cancel_scope.cancel()


async def answer_one(client: Client, queue: str) -> None:
    async with client.subscribe(queue) as requests, await anext(requests) as request:
        await client.send(request.headers["reply-to"], request.body * 2, receipt=True)


async def test_temporary_queue_when_used_for_replies_then_the_answer_comes(
    broker: Broker, destination: Destination
) -> None:
    queue = destination("requests")
    if not broker.facts.temporary_needs_subscribe:
        pytest.skip("RabbitMQ delivers replies unasked, to no SUBSCRIBE: shown by test_rabbitmq_replies_when_unasked")
    name = uuid.uuid4().hex[:8]
    reply = f"/temp-queue/{name}" if broker.name == "activemq" else f"/queue/reply.{name}"
    with trio.fail_after(30):
        async with (
            trio_stomp.connect(broker.url()) as asking,
            trio_stomp.connect(broker.url()) as answering,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(answer_one, answering, queue)
            async with asking.subscribe(reply) as replies:
                await asking.send(queue, b"2", headers={"reply-to": reply}, receipt=True)
                async with await anext(replies) as message:
                    assert message.body == b"22"


async def test_send_when_forbidden_then_broker_error_where_it_is_awaited(
    broker: Broker, destination: Destination
) -> None:
    queue = destination("forbidden")
    with trio.fail_after(30):
        async with trio_stomp.connect(broker.url()) as client:
            await client.send(queue, b"so that it exists", receipt=True)
        async with trio_stomp.connect(broker.url(user="readonly:readonly")) as client:
            with pytest.raises(BrokerError):
                await client.send(queue, b"x", receipt=True)
            if broker.facts.ends_session_on_forbidden:
                with pytest.raises(StompError):
                    await client.send(queue, b"y", receipt=True)
            else:
                async with client.subscribe(queue) as subscription:
                    assert (await anext(subscription)).body == b"so that it exists"


async def test_auto_mode_when_the_consumer_is_slow_then_all_messages_come_and_receipts_too(
    broker: Broker, destination: Destination
) -> None:
    queue = destination("slow")
    with trio.fail_after(60):
        async with trio_stomp.connect(broker.url()) as client:
            for number in range(3000):
                await client.send(queue, b"%d" % number + b" " * 1000)
            await client.send(destination("other"), b"", receipt=True)
            async with client.subscribe(queue, ack="auto", prefetch=10) as subscription:
                for number in range(3000):
                    message = await anext(subscription)
                    assert int(message.body) == number
                    if number % 300 == 0:
                        await client.send(destination("other"), b"", receipt=True)


async def test_loss_when_the_broker_closes_then_connection_lost(broker: Broker) -> None:
    """A client that lies about its heart-beats is dropped; what waits is told."""
    with trio.fail_after(30), pytest.raises((ConnectionLost, BrokerError)):
        async with trio_stomp.connect(broker.url(), heart_beat=(0, 0), headers={}) as client:
            # A frame that the broker cannot read ends the session at each of them.
            client._session.connection.outbox.append(b"NONSENSE\nk\n\n\0SEND\nk\n\n\0")
            await client.wait_closed()
