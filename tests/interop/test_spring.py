"""Spring's simple broker, in an application that leaves everything at its default."""

from __future__ import annotations

import uuid

import pytest
import trio

import trio_stomp
from tests.interop.bench import PATIENCE, take
from trio_stomp import (
    BrokerError,
    Client,
    ConnectionLost,
    DisconnectResult,
    NotSupportedError,
    StompError,
    Subscription,
)
from trio_stomp.brokers import SPRING

BIG = 60_000


def topic() -> str:
    return f"/topic/interop.{uuid.uuid4().hex[:12]}"


async def settled(client: Client, subscription: Subscription, destination: str) -> None:
    """Wait until a subscription is in place: nothing answers SUBSCRIBE, and frames are handled by several threads."""
    with trio.fail_after(PATIENCE):
        while True:
            await client.send(destination, "probe")
            with trio.move_on_after(0.1):
                assert (await anext(subscription)).text == "probe"
                break
    # Whatever other probes are still on their way.
    with trio.move_on_after(0.3):
        while True:
            assert (await anext(subscription)).text == "probe"


async def test_spring_when_connected_then_known_by_what_it_says(spring: str) -> None:
    async with trio_stomp.connect(spring) as client:
        assert client.server is None
        assert client.profile.name == SPRING.name
        assert client.version == "1.2"
    async with trio_stomp.connect(spring, profile="spring", versions=["1.1"]) as client:
        assert client.version == "1.1"


async def test_spring_when_left_then_its_receipt_ends_it(spring: str) -> None:
    async with trio_stomp.connect(spring) as client:
        assert await client.disconnect() is DisconnectResult.RECEIPT


@pytest.mark.parametrize("kind", ["topic", "queue"])
async def test_spring_when_subscribed_in_auto_mode_then_messages_come(spring: str, kind: str) -> None:
    destination = topic().replace("topic", kind)
    async with trio_stomp.connect(spring) as client, client.subscribe(destination, ack="auto") as messages:
        await settled(client, messages, destination)
        await client.send(destination, "text: ü", headers={"k": "a:b\\c\n"})
        (message,) = await take(messages, 1)
        assert (message.text, message.headers["k"], message.destination) == ("text: ü", "a:b\\c\n", destination)
        await client.send(destination, b"")
        (message,) = await take(messages, 1)
        assert message.body == b""


async def test_spring_when_a_subscription_is_left_then_no_more_comes(spring: str) -> None:
    destination = topic()
    async with trio_stomp.connect(spring) as client:
        async with client.subscribe(destination, ack="auto") as messages:
            await settled(client, messages, destination)
        await trio.sleep(0.3)
        before = client.statistics().messages_received
        await client.send(destination, "nobody")
        await trio.sleep(0.5)
        assert client.statistics().messages_received == before


@pytest.mark.parametrize(
    ("body", "content_type"),
    [("x" * BIG, None), ("€" * (BIG // 3), None), (b"\xff\0\n" * (BIG // 3), "application/octet-stream")],
    ids=["text", "not ASCII", "octets"],
)
async def test_spring_when_a_message_is_longer_than_its_buffers_then_it_goes_in_pieces(
    spring: str, body: str | bytes, content_type: str | None
) -> None:
    destination = topic()
    async with trio_stomp.connect(spring) as client, client.subscribe(destination, ack="auto") as messages:
        await settled(client, messages, destination)
        await client.send(destination, body, content_type=content_type)
        (message,) = await take(messages, 1)
        assert message.body == (body.encode() if isinstance(body, str) else body)


async def test_spring_when_a_long_message_goes_in_one_piece_then_the_error_names_the_option(spring: str) -> None:
    with trio.fail_after(30), pytest.raises(ConnectionLost, match=r"message too big.*websocket_message_bytes=8192"):
        async with trio_stomp.connect(spring, websocket_message_bytes=1_000_000) as client:
            await client.send(topic(), "x" * BIG)
            await client.wait_closed()


async def test_spring_when_a_frame_is_over_its_own_limit_then_its_error_is_raised(spring: str) -> None:
    with trio.fail_after(30), pytest.raises(BrokerError, match="exceeds configured buffer size limit 65536"):
        async with trio_stomp.connect(spring) as client:
            await client.send(topic(), "x" * 70_000)
            await client.wait_closed()


async def test_spring_when_asked_for_what_it_does_not_have_then_refused_before_anything_is_sent(spring: str) -> None:
    async with trio_stomp.connect(spring) as client:
        sent = client.statistics().frames_sent
        for ack in ("client", "client-individual"):
            with pytest.raises(NotSupportedError, match="use ack='auto'"):
                async with client.subscribe(topic(), ack=ack):
                    raise AssertionError
        with pytest.raises(NotSupportedError, match="sends no RECEIPT"):
            await client.send(topic(), "x", receipt=True)
        with pytest.raises(StompError, match="sends no RECEIPT"):
            async with client.publisher() as publisher:
                await publisher.send(topic(), "x")
        with pytest.raises(NotSupportedError, match="has no transactions"):
            async with client.transaction():
                raise AssertionError
        with pytest.raises(NotSupportedError, match="content_type='application/octet-stream'"):
            await client.send(topic(), b"\xff")
        with pytest.raises(NotSupportedError, match="selectors"):
            async with client.subscribe(topic(), ack="auto", selector="a = 1"):
                raise AssertionError
        assert client.statistics().frames_sent == sent


async def test_spring_when_taken_for_another_broker_then_the_error_says_which_ack_mode(spring: str) -> None:
    destination = topic()
    with pytest.raises(trio_stomp.RemoteProtocolError, match=r"must have the header ack: .*subscribe with ack='auto'"):
        async with (
            trio_stomp.connect(spring, profile="generic") as client,
            client.subscribe(destination) as messages,
        ):
            with trio.fail_after(PATIENCE):
                while True:
                    await client.send(destination, "x")
                    with trio.move_on_after(0.2):
                        await anext(messages)


async def test_spring_when_a_request_is_answered_then_the_reply_is_returned(spring: str) -> None:
    requests = topic()

    async def serve(client: Client, subscription: Subscription) -> None:
        async for request in subscription:
            if "reply-to" in request.headers:
                headers = {"correlation-id": request.headers["correlation-id"]}
                await client.send(request.headers["reply-to"], request.text.upper(), headers=headers)

    async with (
        trio_stomp.connect(spring) as client,
        client.subscribe(requests, ack="auto") as subscription,
        trio.open_nursery() as nursery,
    ):
        await settled(client, subscription, requests)
        nursery.start_soon(serve, client, subscription)
        for reply_to in (None, "/queue/interop.replies"):
            # The first may overtake its own SUBSCRIBE.
            for _ in range(5):
                try:
                    reply = await client.request(requests, "ask", timeout=2, reply_to=reply_to)
                except trio_stomp.RequestTimeout:
                    continue
                assert reply.text == "ASK"
                break
            else:
                pytest.fail("no reply")
        nursery.cancel_scope.cancel()


async def test_spring_when_nothing_is_said_then_heart_beats_keep_it(spring: str) -> None:
    async with trio_stomp.connect(spring, heart_beat=(1, 1)) as client:
        assert client.heart_beat.client_sends_ms == client.heart_beat.server_sends_ms == 1000
        await trio.sleep(4)
        assert client.statistics().heart_beats_sent > 0
        assert client.statistics().seconds_since_read < 2.5
