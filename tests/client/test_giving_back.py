"""Giving back what met an UNSUBSCRIBE: the service, against a peer that does what RabbitMQ was seen to do."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

import trio_stomp
from trio_stomp import AckName, BrokerError, Client, NotSupported
from trio_stomp.protocol import Command, Frame
from trio_stomp.testing import ScriptedPeer, open_scripted_peer

SESSION = "session-x"


@asynccontextmanager
async def rabbitmq(version: str = "1.2") -> AsyncGenerator[tuple[ScriptedPeer, Client]]:
    """A peer that says it is RabbitMQ, and a client connected to it; the test ends with the body."""
    async with open_scripted_peer(listen=False) as peer, trio.open_nursery() as nursery:
        connected: list[Client] = []

        async def accept() -> None:
            await peer.accept_connect(version=version, server="RabbitMQ/3.10.8", headers={"session": SESSION})

        async def connect() -> None:
            async with trio_stomp.connect_stream(peer.connect_stream(), heart_beat=(0, 0)) as client:
                connected.append(client)
                await trio.sleep_forever()

        nursery.start_soon(accept)
        nursery.start_soon(connect)
        await trio.testing.wait_all_tasks_blocked()
        yield peer, connected[0]
        nursery.cancel_scope.cancel()


async def deliver(peer: ScriptedPeer, subscription_id: str, number: int) -> None:
    name = f"T_{subscription_id}@@{SESSION}@@{number}"
    headers = {"subscription": subscription_id, "destination": "/queue/a", "message-id": name, "ack": name}
    await peer.send(Command.MESSAGE, headers, b"%d" % number)


async def swallow(peer: ScriptedPeer, subscription_id: str) -> None:
    body = f"There is no current subscription with tag 'T_{subscription_id}'.".encode()
    await peer.send(Command.ERROR, {"message": "Subscription not found"}, body)


class Subscribed:
    """A subscription of the client, kept in a task of its own until `leave`."""

    def __init__(self, client: Client, destination: str, subscription_id: str, ack: AckName) -> None:
        self._client, self._destination, self._id = client, destination, subscription_id
        self._ack: AckName = ack
        self._left = trio.Event()

    async def run(self) -> None:
        async with self._client.subscribe(self._destination, id=self._id, ack=self._ack, headers={"x-own": "1"}):
            await self._left.wait()

    def leave(self) -> None:
        self._left.set()


async def subscribed(
    peer: ScriptedPeer,
    client: Client,
    nursery: trio.Nursery,
    destination: str = "/queue/a",
    subscription_id: str = "mine",
    ack: AckName = "client-individual",
) -> Subscribed:
    subscription = Subscribed(client, destination, subscription_id, ack)
    nursery.start_soon(subscription.run)
    await peer.confirm(await peer.expect(Command.SUBSCRIBE, id=subscription_id))
    await trio.testing.wait_all_tasks_blocked()
    return subscription


async def refused(peer: ScriptedPeer) -> Frame:
    return await peer.expect(Command.NACK)


async def test_late_when_another_subscription_is_open_then_refused_through_that_one(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with rabbitmq() as (peer, client), trio.open_nursery() as nursery:
        other = await subscribed(peer, client, nursery, "/queue/b", "other")
        mine = await subscribed(peer, client, nursery)
        mine.leave()
        await peer.expect(Command.UNSUBSCRIBE, id="mine")
        await deliver(peer, "mine", 1)
        await swallow(peer, "mine")
        numbers = [(await refused(peer)).headers["id"] for _ in range(2)]
        assert numbers == [f"T_other@@{SESSION}@@1", f"T_other@@{SESSION}@@2"]
        assert client.statistics().messages_unroutable == 2
        other.leave()


async def test_late_when_no_other_subscription_is_open_then_a_helper_refuses_and_goes(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with rabbitmq() as (peer, client), trio.open_nursery() as nursery:
        (await subscribed(peer, client, nursery)).leave()
        await peer.expect(Command.UNSUBSCRIBE, id="mine")
        await swallow(peer, "mine")
        helper = await peer.expect(Command.SUBSCRIBE, destination="/queue/a", prefetch_count="1", x_own="1")
        id_ = helper.headers["id"]
        await peer.confirm(helper)
        assert (await refused(peer)).headers["id"] == f"T_{id_}@@{SESSION}@@1"
        # It is given the message again, and holds it until its credit is used up and nothing can meet its leaving.
        await deliver(peer, id_, 2)
        for command in (Command.BEGIN, Command.NACK, Command.UNSUBSCRIBE, Command.COMMIT):
            await peer.expect(command)
        assert client.statistics().subscriptions == ()


async def test_late_when_the_helper_gets_nothing_then_it_goes_after_a_while(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with rabbitmq() as (peer, client), trio.open_nursery() as nursery:
        (await subscribed(peer, client, nursery)).leave()
        await peer.expect(Command.UNSUBSCRIBE, id="mine")
        await swallow(peer, "mine")
        await peer.confirm(await peer.expect(Command.SUBSCRIBE, destination="/queue/a"))
        await refused(peer)
        await peer.expect(Command.UNSUBSCRIBE)
        await client.send("/queue/b", b"the connection lives")
        await peer.expect(Command.SEND)


async def test_late_when_helpers_are_needed_again_and_again_then_each_has_an_id_of_its_own(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with rabbitmq() as (peer, client), trio.open_nursery() as nursery:
        ids: list[str] = []
        for _ in range(3):
            (await subscribed(peer, client, nursery)).leave()
            await peer.expect(Command.UNSUBSCRIBE, id="mine")
            await swallow(peer, "mine")
            helper = await peer.expect(Command.SUBSCRIBE, destination="/queue/a", prefetch_count="1")
            ids.append(helper.headers["id"])
            await peer.confirm(helper)
            await refused(peer)
            await peer.expect(Command.UNSUBSCRIBE, id=ids[-1])
        assert ids == ["give-back-1", "give-back-2", "give-back-3"]


async def test_late_when_the_queue_went_with_its_subscriber_then_refused_at_the_next_occasion(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with rabbitmq() as (peer, client), trio.open_nursery() as nursery:
        (await subscribed(peer, client, nursery, "/topic/a")).leave()
        await peer.expect(Command.UNSUBSCRIBE, id="mine")
        await swallow(peer, "mine")
        await trio.testing.wait_all_tasks_blocked()
        next_one = await subscribed(peer, client, nursery, "/queue/b", "next")
        assert (await refused(peer)).headers["id"] == f"T_next@@{SESSION}@@1"
        next_one.leave()


async def test_late_when_the_helper_is_refused_then_the_connection_has_ended_with_that(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with rabbitmq() as (peer, client), trio.open_nursery() as nursery:
        (await subscribed(peer, client, nursery)).leave()
        await peer.expect(Command.UNSUBSCRIBE, id="mine")
        await swallow(peer, "mine")
        await peer.expect(Command.SUBSCRIBE, destination="/queue/a")
        await peer.send(Command.ERROR, {"message": "access_refused"}, b"the rights were taken away")
        with pytest.raises(BrokerError, match="access_refused"):
            await client.wait_closed()
        await trio.testing.wait_all_tasks_blocked()
        assert client.statistics().subscriptions == ()


async def test_late_when_version_1_0_then_no_nack_and_a_warning_says_so(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with rabbitmq("1.0") as (peer, client), trio.open_nursery() as nursery:
        (await subscribed(peer, client, nursery, ack="client")).leave()
        await peer.expect(Command.UNSUBSCRIBE, id="mine")
        with caplog.at_level(logging.WARNING, "trio_stomp"):
            await swallow(peer, "mine")
            await trio.testing.wait_all_tasks_blocked()
        assert "1 late messages stay locked" in caplog.text
        # Nor may another subscription acknowledge: its ACK would reach the locked one too.
        with pytest.raises(NotSupported, match="one such subscription for each connection"):
            async with client.subscribe("/queue/a", ack="client"):
                pass
        (await subscribed(peer, client, nursery, subscription_id="auto", ack="auto")).leave()
