"""A requester that has gone: the refusal of its reply ends neither the service nor its turn for the next requester."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial

import pytest
import trio

import trio_stomp
from tests.kit.loops import on_loops
from tests.kit.peer import Peer
from tests.kit.reconnecting import reconnecting, reconnecting_to_peers
from trio_stomp import BrokerError, Client, Message, Reconnect, Retry
from trio_stomp.testing import Broker, BrokerOptions, open_broker
from trio_stomp.types import Command, Frame

pytestmark = [pytest.mark.anyio, on_loops("trio")]

POLICY = Reconnect(first_delay=0.1, random=lambda: 1.0)


async def _reply(client: Client, request: Message, *, receipt: bool = False) -> None:
    await trio.sleep(1)
    known = {"correlation-id": request.headers["correlation-id"]}
    await client.send(request.headers["reply-to"], request.text * 2, headers=known, receipt=receipt)


async def _iterates(client: Client) -> None:
    async with client.subscribe("/queue/double") as requests:
        async for request in requests:
            async with request:
                await _reply(client, request)


async def _works(client: Client) -> None:
    async with client.subscribe("/queue/double") as requests:
        await requests.work(partial(_reply, client), retry=Retry(attempts=1))


Service = Callable[[Client], Awaitable[None]]


async def _give_up(broker: Broker) -> None:
    async with trio_stomp.connect_stream(broker.connect_stream()) as client:
        with pytest.raises(trio_stomp.RequestTimeout):
            await client.request("/queue/double", "1", timeout=0.5)


async def _ask(broker: Broker) -> str:
    async with trio_stomp.connect_stream(broker.connect_stream()) as client:
        return (await client.request("/queue/double", "21", timeout=30)).text


@pytest.mark.parametrize("service", [_iterates, _works])
@pytest.mark.parametrize("closes", [False, True])
async def test_service_when_a_requester_has_gone_then_the_next_one_gets_its_reply(
    caplog: pytest.LogCaptureFixture, service: Service, *, closes: bool
) -> None:
    """Without reconnect= on a broker that goes on after an ERROR, with it on one that closes."""
    caplog.set_level(logging.WARNING, "trio_stomp")
    options = BrokerOptions(errors_leave_open=not closes, server="trio-stomp-testing/1" if closes else "ActiveMQ/5.18")
    async with open_broker(listen=False, options=options) as broker, trio.open_nursery() as nursery:
        async with reconnecting(broker, reconnect=POLICY if closes else None) as client:
            nursery.start_soon(service, client)  # noqa: ASYNC111  # the nursery is canceled first
            await _give_up(broker)
            assert await _ask(broker) == "2121"
            await trio.sleep(10)
            # Where the broker closes, the second request is redelivered too, to a requester that has gone by then.
            assert broker.statistics().sent[Command.ERROR] == (2 if closes else 1)
            assert (broker.depth("/queue/double"), broker.unacknowledged("/queue/double")) == (0, 0)
            nursery.cancel_scope.cancel()
    assert "was refused, because its requester has gone" in caplog.text


async def test_service_when_errors_name_no_frame_then_a_reply_that_is_refused_twice_is_not_sent_again() -> None:
    pending = {"/remote-temp-queue/gone": b"1", "/remote-temp-queue/here": b"2"}
    replies: list[str] = []

    def prepare(peer: Peer, _number: int) -> None:
        def subscribe(frame: Frame) -> None:
            peer.confirm(frame)
            for reply_to, body in pending.items():
                headers = [("reply-to", reply_to), ("correlation-id", "c")]
                peer.deliver(frame.headers["id"], body, headers)

        def send(frame: Frame) -> None:
            replies.append(frame.headers["destination"])
            if replies[-1].endswith("gone"):
                peer.error("no such destination")
                peer.hang_up()
            else:
                peer.confirm(frame)

        peer.on.update({Command.SUBSCRIBE: subscribe, Command.SEND: send})

    async with reconnecting_to_peers(prepare, reconnect=POLICY) as (client, _):
        with trio.move_on_after(60):
            await _iterates(client)
    assert replies.count("/remote-temp-queue/gone") == 2
    assert replies[-1] == "/remote-temp-queue/here"


async def test_reply_when_its_caller_asked_for_a_receipt_then_the_refusal_is_raised_and_not_provoked_again() -> None:
    async with open_broker(listen=False) as broker, reconnecting(broker, reconnect=POLICY) as client:
        for _ in range(2):
            with pytest.raises(BrokerError, match="no such destination"):
                await client.send("/remote-temp-queue/session-99.x", b"", receipt=True)
        assert broker.statistics().sent[Command.ERROR] == 1
