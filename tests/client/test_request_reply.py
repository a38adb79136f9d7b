"""Requests and their replies."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio

import trio_stomp
from tests.client.clients import client_of, client_of_peer, lose_after
from tests.kit.loops import lasting, on_loops
from tests.kit.peer import RABBITMQ, PeerOptions
from tests.kit.reconnecting import Host, reconnecting
from trio_stomp import (
    BrokerError,
    Client,
    LocalProtocolError,
    OutcomeUnknown,
    RemoteProtocolError,
    RequestTimeout,
)
from trio_stomp.testing import (
    Broker,
    BrokerOptions,
    ScriptedPeer,
    SwallowReceipts,
    open_broker,
    open_scripted_peer,
)
from trio_stomp.types import Command, Frame

pytestmark = [pytest.mark.anyio, on_loops("trio")]


@asynccontextmanager
async def replier(broker: Broker, delay: float = 0.0) -> AsyncGenerator[Client]:
    """Somebody who doubles numbers."""

    async def serve(client: Client) -> None:
        async with client.subscribe("/queue/double") as requests:
            async for request in requests:
                await trio.sleep(delay)
                answer = str(2 * int(request.text))
                correlation = {"correlation-id": request.headers["correlation-id"]}
                await client.send(request.headers["reply-to"], answer, headers=correlation)
                await request.ack()

    async with trio_stomp.connect_stream(broker.connect_stream()) as client, trio.open_nursery() as nursery:
        nursery.start_soon(serve, client)  # noqa: ASYNC113  # requests wait in the queue until it is there
        yield client
        nursery.cancel_scope.cancel()


async def test_request_when_answered_then_the_reply_has_the_value_that_its_decoder_makes(
    broker: Broker, client: Client
) -> None:
    async with replier(broker):
        decoded = await client.request("/queue/double", "21", timeout=5, decode=int)
        plain = await client.request("/queue/double", "21", timeout=5)
    assert (decoded.value, plain.value, plain.text) == (42, "42", "42")
    assert plain.settlement is trio_stomp.types.Settlement.AUTO
    assert (decoded.sequence, plain.sequence) == (1, 2)
    assert decoded.subscription.destination == plain.subscription.destination
    assert decoded.subscription.ack_mode is trio_stomp.AckMode.AUTO


async def test_request_when_it_says_where_replies_go_then_they_come_there(broker: Broker, client: Client) -> None:
    async with replier(broker):
        for _ in range(2):
            mine = await client.request("/queue/double", "21", timeout=5, reply_to="/queue/mine")
            other = await client.request("/queue/double", "4", timeout=5, reply_to="/topic/other")
            usual = await client.request("/queue/double", "5", timeout=5)
            assert (mine.text, other.text, usual.text) == ("42", "8", "10")
            assert (mine.destination, other.destination) == ("/queue/mine", "/topic/other")
            assert mine.subscription.destination == "/queue/mine"
    assert client.statistics().messages_unroutable == 0


async def test_request_when_the_broker_is_unknown_then_it_does_not_wait_for_a_receipt_of_subscribe() -> None:
    async with client_of("Other/1") as (client, broker), replier(broker):
        assert (await client.request("/queue/double", "21", timeout=5, reply_to="/queue/mine")).text == "42"


async def test_request_when_no_frame_can_name_where_replies_go_then_no_receipt_is_awaited(client: Client) -> None:
    with pytest.raises(LocalProtocolError):
        await client.request("/queue/double", "21", timeout=5, reply_to="/queue/\0")
    assert client.statistics().receipts_pending == 0


async def test_request_when_many_are_in_flight_then_each_gets_its_own_reply(broker: Broker, client: Client) -> None:
    replies: dict[int, str] = {}

    async def ask(number: int) -> None:
        replies[number] = (await client.request("/queue/double", str(number), timeout=5)).text

    async with replier(broker), trio.open_nursery() as nursery:
        for number in range(100):
            nursery.start_soon(ask, number)
    assert replies == {number: str(2 * number) for number in range(100)}
    # One subscription served them all.
    assert client.statistics().subscriptions == ()


async def test_request_when_the_reply_comes_too_late_then_it_is_counted_and_nothing_else(
    broker: Broker, client: Client
) -> None:
    async with replier(broker, delay=5):
        with pytest.raises(RequestTimeout):
            await client.request("/queue/double", "1", timeout=1)
        await trio.sleep(10)
        assert client.statistics().messages_unroutable == 1
        assert (await client.request("/queue/double", "2", timeout=20)).text == "4"


@pytest.mark.parametrize("reply_to", [None, "/queue/mine"])
async def test_request_when_the_client_reconnects_then_those_in_flight_fail_and_the_next_are_answered(
    broker: Broker, reply_to: str | None
) -> None:
    async with reconnecting(broker) as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lose_after, 1, broker)
            with pytest.raises(OutcomeUnknown, match="'/queue/nobody' was sent and may have been handled"):
                await client.request("/queue/nobody", "1", timeout=100, reply_to=reply_to)
        async with replier(broker):
            assert (await client.request("/queue/double", "2", timeout=20, reply_to=reply_to)).text == "4"
        assert client.statistics().reconnections == 1


async def test_request_when_there_is_no_connection_in_time_then_it_says_that_nothing_was_sent(host: Host) -> None:
    async with reconnecting(host) as client:
        host.go_down()
        await trio.sleep(1)
        with pytest.raises(RequestTimeout, match="there was no connection to send it on"):
            await client.request("/queue/double", "2", timeout=3)


async def test_request_when_the_broker_does_not_answer_subscribe_then_the_error_does_not_blame_the_connection(
    broker: Broker, client: Client
) -> None:
    broker.faults.now(SwallowReceipts())
    with pytest.raises(RequestTimeout, match="within 3 s; it was not sent, because the broker has not answered"):
        await client.request("/queue/double", "1", timeout=3, reply_to="/queue/mine")


async def test_request_when_replies_are_refused_then_the_broker_says_why_and_the_next_may_try_again() -> None:
    async with client_of("ActiveMQ/6.1") as (client, broker):

        async def refuse() -> None:
            await trio.sleep(1)
            broker.faults.send_error("no more queues", receipt_id="r-1", close=False)

        broker.faults.now(SwallowReceipts())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(refuse)
            with pytest.raises(BrokerError, match="no more queues"):
                await client.request("/queue/double", "4", timeout=5)
        # That ERROR was a lie, and the broker has the subscription: its answer shows that SUBSCRIBE was sent again.
        with pytest.raises(BrokerError, match="subscription exists"):
            await client.request("/queue/double", "4", timeout=5)
        with pytest.raises(trio_stomp.ConnectionLost):
            await client.wait_closed()


@pytest.mark.parametrize(
    ("name", "why"),
    [("reply-to", r"of a request is set by request.*; pass reply_to=$"), ("correlation-id", "of a request is set by")],
)
async def test_request_when_a_header_is_its_own_then_it_is_refused(client: Client, name: str, why: str) -> None:
    with pytest.raises(LocalProtocolError, match=f"header '{name}' {why}"):
        await client.request("/queue/a", b"", timeout=1, headers={name: "x"})


async def test_request_when_the_link_goes_before_replies_stand_then_it_is_sent_on_the_next_one() -> None:
    async with open_broker(listen=False, options=BrokerOptions(server="ActiveMQ/6.1")) as broker:
        broker.faults.plan(SwallowReceipts(command=Command.SUBSCRIBE))
        async with reconnecting(broker) as client:

            async def ask() -> None:
                assert (await client.request("/queue/double", "21", timeout=60)).text == "42"

            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask)
                await trio.sleep(1)
                broker.faults.drop()
                async with replier(broker):
                    await trio.sleep(10)
            assert client.statistics().reconnections == 1


async def test_request_when_rabbitmq_answers_then_its_subscription_is_the_destination_and_nobody_subscribed() -> None:
    """As RabbitMQ does it: a reply comes unasked, and names the temporary queue as its subscription."""

    async with client_of_peer(PeerOptions(server=RABBITMQ)) as (client, peer):

        def reply(request: Frame) -> None:
            where = request.headers["reply-to"]
            assert where.startswith("/temp-queue/")
            peer.deliver(where, b"42", [("correlation-id", request.headers["correlation-id"])])

        peer.on[Command.SEND] = reply
        assert (await client.request("/queue/double", "21", timeout=5)).text == "42"
        assert Command.SUBSCRIBE not in peer.commands


async def test_request_when_the_broker_cancels_the_subscription_for_replies_then_the_next_one_subscribes() -> None:
    async with client_of_peer(PeerOptions(server=RABBITMQ)) as (client, peer):

        def take(request: Frame) -> None:
            (*cancelled, subscribe) = peer.of(Command.SUBSCRIBE)
            if cancelled:
                peer.deliver(subscribe.headers["id"], b"42", [("correlation-id", request.headers["correlation-id"])])
            else:
                del peer.ledger.subscriptions[subscribe.headers["id"]]
                peer.error("Server cancelled subscription", [("subscription", subscribe.headers["id"])])

        peer.on[Command.SEND] = take
        with pytest.raises(OutcomeUnknown, match="Server cancelled subscription") as caught:
            await client.request("/queue/double", "1", timeout=5, reply_to="/queue/mine")
        assert isinstance(caught.value.__cause__, BrokerError)
        reply = await client.request("/queue/double", "21", timeout=5, reply_to="/queue/mine")
    assert reply.text == "42"


async def test_request_when_its_reply_comes_in_one_chunk_with_a_stray_one_then_it_is_returned(
    broker: Broker, client: Client
) -> None:
    async with client.subscribe("/queue/ask", ack="auto") as service:
        texts: list[str] = []

        async def ask() -> None:
            texts.append((await client.request("/queue/ask", "?", timeout=5)).text)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            request = await anext(service)
            where, correlation_id = request.headers["reply-to"], request.headers["correlation-id"]
            for known in ("unknown", correlation_id):
                broker.publish(where, known, [("correlation-id", known)])
    assert texts == [correlation_id]
    assert client.statistics().messages_unroutable == 1


async def test_request_when_the_broker_breaks_the_rules_then_it_fails_at_once() -> None:
    async def serve(peer: ScriptedPeer) -> None:
        await peer.accept_connect(server="RabbitMQ/3.13.7")
        await peer.expect(Command.SEND, destination="/queue/double")
        await peer.send_bytes(b"NONSENSE\n\n\0")
        await peer.expect_eof()

    async with open_scripted_peer() as peer, trio.open_nursery() as nursery:
        nursery.start_soon(serve, peer)
        with pytest.raises(RemoteProtocolError):
            async with trio_stomp.connect_stream(peer.connect_stream(), heart_beat=(0, 0)) as client:
                with lasting(0), pytest.raises(OutcomeUnknown, match="unknown command 'NONSENSE'"):
                    await client.request("/queue/double", "21", timeout=60)
