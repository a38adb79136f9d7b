"""A subscription that the broker refuses for a while after a reconnection."""

from __future__ import annotations

import itertools
import logging
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import pytest
import trio

from tests.kit.loops import on_loops
from tests.kit.peer import RABBITMQ, Peer, PeerOptions
from tests.kit.reconnecting import AT_ONCE, PeerHost, reconnecting
from trio_stomp import BrokerError, Client, ConnectionLost, Reconnect
from trio_stomp.types import Command, ConnectionState, Frame, Phase

pytestmark = [pytest.mark.anyio, on_loops("trio")]

ACTIVEMQ = "ActiveMQ/6.1"
DOWN = "home node of queue is down"


class Kind(NamedTuple):
    """How a broker refuses to subscribe.

    Attributes:
        server: Its ``server`` header. Without one, the client asks for no RECEIPT.
        names: Whether its ERROR has a receipt-id.
        closes: Whether it closes the connection after an ERROR.
    """

    server: str | None
    names: bool
    closes: bool


CONFIRMING = [
    Kind(RABBITMQ, names=False, closes=True),
    Kind(RABBITMQ, names=False, closes=False),
    Kind(ACTIVEMQ, names=True, closes=False),
    Kind(ACTIVEMQ, names=True, closes=True),
]
NAMES = ["rabbitmq", "rabbitmq goes on", "activemq goes on", "activemq"]
KINDS = pytest.mark.parametrize("kind", CONFIRMING, ids=NAMES)
ALL_KINDS = pytest.mark.parametrize(
    "kind", [*CONFIRMING, Kind(None, names=False, closes=True)], ids=[*NAMES, "unknown broker"]
)


class Site(PeerHost):
    """A host whose broker refuses to subscribe to some destinations.

    Args:
        nursery: Where it runs.
        kind: How it refuses.

    Attributes:
        is_gone: Whether it closes each connection at once.
        refused: The destinations that it refuses, with what it says.
        subscribes: When each destination was subscribed to.
    """

    def __init__(self, nursery: trio.Nursery, kind: Kind) -> None:
        super().__init__(nursery, self._watch, PeerOptions(server=kind.server))
        self._kind = kind
        self.is_gone = False
        self.refused: dict[str, str] = {}
        self.subscribes: list[tuple[float, str]] = []

    async def _serve_peer(self, stream: trio.abc.Stream, number: int) -> None:
        if not self.is_gone:
            await super()._serve_peer(stream, number)

    def _watch(self, peer: Peer, _number: int) -> None:
        peer.on[Command.SUBSCRIBE] = partial(self._subscribed, peer)

    def _subscribed(self, peer: Peer, frame: Frame) -> None:
        destination = frame.headers["destination"]
        self.subscribes.append((trio.current_time(), destination))
        if destination not in self.refused:
            peer.confirm(frame)
            return
        peer.refuse(frame, self.refused[destination], names=self._kind.names)
        if self._kind.closes:
            peer.hang_up()

    def attempts(self, destination: str) -> list[float]:
        """When a destination was subscribed to."""
        return [time for time, each in self.subscribes if each == destination]


@asynccontextmanager
async def connected(kind: Kind = CONFIRMING[0], reconnect: Reconnect = AT_ONCE) -> AsyncGenerator[tuple[Site, Client]]:
    """A site, and a client of it."""
    async with trio.open_nursery() as nursery:
        site = Site(nursery, kind)
        async with reconnecting(site, heart_beat=(0, 0), reconnect=reconnect) as client:
            yield site, client


@ALL_KINDS
async def test_subscription_when_refused_after_a_reconnection_then_it_is_retried_and_the_others_go_on(
    kind: Kind,
) -> None:
    states: list[ConnectionState] = []
    got: list[str] = []
    async with (
        connected(kind) as (site, client),
        client.subscribe("/queue/down", ack="auto") as down,
        client.subscribe("/queue/fine", ack="auto") as fine,
    ):
        await trio.sleep(1)

        async def flow() -> None:
            async for message in fine:
                got.append(message.text)  # noqa: PERF401  # the loop is cancelled

        async def watch() -> None:
            async for state in client.state_changes():
                states.append(state)  # noqa: PERF401  # the loop is cancelled

        async with trio.open_nursery() as tasks:
            tasks.start_soon(flow)
            tasks.start_soon(watch)
            site.refused["/queue/down"] = DOWN
            site.lose()
            for number in range(60):
                await trio.sleep(1)
                if client.state.phase is Phase.CONNECTED:
                    assert client.state.waiting == (down.id,)
                    assert DOWN in (down.statistics().refusal or "")
                    assert fine.statistics().refusal is None
                    site.peers[-1].deliver(fine.id, b"%d" % number)
            # After the first seconds, the only gaps are those after an attempt to subscribe.
            assert len(got) > 40
            refused = site.attempts("/queue/down")
            site.refused.clear()
            with trio.fail_after(30):
                async for state in client.state_changes():
                    if state.healthy and not state.waiting:
                        break
            await site.takes(down)
            assert down.statistics().refusal is None
            # The delays of the policy: they double up to 8 s.
            gaps = [after - before for before, after in itertools.pairwise(refused)]
            assert all(before < 1.5 * after for before, after in itertools.pairwise(gaps[2:]))
            assert 8 <= max(gaps) < 10
            assert len(refused) < 14
            tasks.cancel_scope.cancel()
    assert any(state.waiting for state in states)
    assert "(refused, and retried: s-1)" in str(next(state for state in states if state.waiting))


@ALL_KINDS
@pytest.mark.parametrize("policy", [replace(AT_ONCE, attempts=4), replace(AT_ONCE, deadline=20)])
async def test_subscription_when_refused_until_the_policy_gives_up_then_it_alone_fails_with_the_last_words(
    policy: Reconnect, kind: Kind
) -> None:
    async with (
        connected(kind, policy) as (site, client),
        client.subscribe("/queue/fine", ack="auto") as fine,
    ):
        with pytest.raises(BrokerError, match="mirror is being promoted"):
            async with client.subscribe("/queue/down") as down:
                await trio.sleep(1)
                site.refused["/queue/down"] = DOWN
                site.lose()
                await trio.sleep(4)
                site.refused["/queue/down"] = "mirror is being promoted"
                await anext(down)
        await trio.sleep(5)
        assert client.state.waiting == ()
        count = len(site.attempts("/queue/down"))
        await site.takes(fine)
        await trio.sleep(100)
        assert client.state.healthy
        assert len(site.attempts("/queue/down")) == count
        assert policy.attempts is None or count in (1 + 4, 1 + 5)


async def test_subscription_when_refused_again_and_again_then_the_log_has_a_warning_for_each_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "trio_stomp")
    async with connected() as (site, client), client.subscribe("/queue/down") as down:
        site.refused["/queue/down"] = DOWN
        site.lose()
        await trio.sleep(100)
        site.refused["/queue/down"] = "mirror is being promoted"
        await trio.sleep(100)
        site.refused.clear()
        await trio.sleep(20)
        await site.takes(down)
    said = [record.getMessage() for record in caplog.records if "'s-1'" in record.getMessage()]
    assert len(said) == 3
    assert DOWN in said[0]
    assert "mirror" in said[1]
    assert "was accepted again" in said[2]


@KINDS
async def test_subscription_when_refused_at_first_then_raised_at_once(kind: Kind) -> None:
    async with connected(kind) as (site, client), client.subscribe("/queue/fine") as fine:
        site.refused["/queue/down"] = DOWN
        began = trio.current_time()
        with pytest.raises(BrokerError, match=DOWN):
            async with client.subscribe("/queue/down"):
                raise AssertionError
        assert trio.current_time() - began < 2
        await trio.sleep(5)
        await site.takes(fine)
        dialed = len(site.dialed)
        await trio.sleep(100)
        assert len(site.dialed) == dialed <= 3


@ALL_KINDS
async def test_subscription_when_left_while_it_is_retried_then_it_is_not_subscribed_to_again(kind: Kind) -> None:
    async with connected(kind) as (site, client):
        async with client.subscribe("/queue/down"):
            await trio.sleep(1)
            site.refused["/queue/down"] = DOWN
            site.lose()
            await trio.sleep(20)
        count = len(site.attempts("/queue/down"))
        await trio.sleep(100)
        assert len(site.attempts("/queue/down")) == count
        assert client.state.waiting == ()
        assert client.state.healthy


async def test_client_when_left_while_a_subscription_is_retried_then_it_disconnects_at_once() -> None:
    async with connected(CONFIRMING[2]) as (site, client), client.subscribe("/queue/down"):
        site.refused["/queue/down"] = DOWN
        site.lose()
        await trio.sleep(60)
        left = trio.current_time()
    assert trio.current_time() - left < 0.1
    assert site.peers[-1].of(Command.DISCONNECT)


@KINDS
async def test_subscriptions_when_several_are_refused_then_each_is_retried_until_it_is_accepted(kind: Kind) -> None:
    destinations = [f"/queue/{number}" for number in range(4)]
    async with (
        connected(kind, Reconnect()) as (site, client),
        client.subscribe(destinations[0]) as first,
        client.subscribe(destinations[1]) as second,
        client.subscribe(destinations[2]) as third,
        client.subscribe(destinations[3]) as fourth,
    ):
        site.refused.update(dict.fromkeys(destinations[:3], DOWN))
        site.lose()
        await trio.sleep(60)
        del site.refused[destinations[1]]
        await trio.sleep(120)
        site.refused.clear()
        await trio.sleep(120)
        assert client.state.waiting == ()
        for subscription in (first, second, third, fourth):
            await site.takes(subscription)


async def test_subscription_when_the_client_ends_while_it_is_retried_then_its_loop_ends() -> None:
    async with connected(reconnect=replace(AT_ONCE, deadline=100)) as (site, client):
        async with client.subscribe("/queue/down") as down:
            site.refused["/queue/down"] = DOWN
            site.lose()
            await trio.sleep(30)
            site.is_gone = True
            site.lose()
            with pytest.raises(ConnectionLost, match="set to give up"):
                await anext(down)
        assert client.state.waiting == ()


async def test_subscriptions_when_one_after_the_other_is_refused_while_restored_then_delays_grow() -> None:
    async with connected() as (site, client), AsyncExitStack() as subscriptions:
        names = [f"/queue/{number}" for number in range(6)]
        for name in names:
            await subscriptions.enter_async_context(client.subscribe(name))
        await trio.sleep(60)
        site.refused = dict.fromkeys(names, DOWN)
        site.lose()
        await trio.sleep(60)
        gaps = [after - before for before, after in itertools.pairwise(site.dialed[1:7])]
        assert gaps == pytest.approx([1, 1, 2, 2, 4])


async def test_subscription_when_the_only_one_is_refused_after_a_loss_then_the_first_error_is_about_it() -> None:
    async with connected() as (site, client), client.subscribe("/queue/down") as down:
        await trio.sleep(60)
        site.refused["/queue/down"] = DOWN
        site.lose()
        await trio.sleep(0.7)
        assert len(site.attempts("/queue/down")) == 2
        assert DOWN in (down.statistics().refusal or "")
