"""A subscription at which the broker closes the connection without an ERROR."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import pytest
import trio

from tests.kit.loops import on_loops
from tests.kit.peer import RABBITMQ, Peer, PeerOptions
from tests.kit.reconnecting import AT_ONCE, PeerHost, reconnecting, reconnecting_to_peers
from trio_stomp import (
    Client,
    ConnectionLost,
    PoisonMessage,
    PoisonSubscription,
    Reconnect,
)
from trio_stomp.types import AckName, Command, Frame

pytestmark = [pytest.mark.anyio, on_loops("trio")]

QUICK = Reconnect(first_delay=0.01, max_delay=0.01)
SERVERS = pytest.mark.parametrize("server", [RABBITMQ, None], ids=["confirms", "does not confirm"])


class Site(PeerHost):
    """A host whose broker closes the connection, without a word, when it is sent SUBSCRIBE for some destinations.

    Attributes:
        bad: These destinations.
        is_bad: Whether it closes the connection at this frame, on the connection with this number.
        poison: The body of a message at which it closes the connection too.
        subscribes: When each destination was subscribed to.
    """

    def __init__(self, nursery: trio.Nursery, server: str | None = RABBITMQ) -> None:
        super().__init__(nursery, self._watch, PeerOptions(server=server))
        self.bad: set[str] = set()
        self.is_bad: Callable[[Frame, int], bool] = lambda frame, _number: frame.headers["destination"] in self.bad
        self.poison = b"POISON"
        self.subscribes: list[tuple[float, str]] = []

    def _watch(self, peer: Peer, number: int) -> None:
        is_closed = False

        def take(frame: Frame) -> None:
            nonlocal is_closed
            if frame.command is Command.SUBSCRIBE:
                self.subscribes.append((trio.current_time(), frame.headers["destination"]))
                is_closed = is_closed or self.is_bad(frame, number)
            else:
                is_closed = is_closed or frame.body == self.poison
            if is_closed:
                peer.hang_up()
            else:
                peer.confirm(frame)

        peer.on.update({Command.SUBSCRIBE: take, Command.SEND: take})

    def attempts(self, destination: str) -> list[float]:
        """When a destination was subscribed to."""
        return [time for time, each in self.subscribes if each == destination]


@asynccontextmanager
async def client_of(
    server: str | None = RABBITMQ, reconnect: Reconnect = AT_ONCE
) -> AsyncGenerator[tuple[Client, Site]]:
    async with trio.open_nursery() as nursery:
        site = Site(nursery, server)
        async with reconnecting(site, heart_beat=(0, 0), reconnect=reconnect) as client:
            yield client, site
        nursery.cancel_scope.cancel()


@SERVERS
@pytest.mark.parametrize("place", [0, 1, 4, 9])
async def test_subscription_when_the_broker_closes_at_it_then_it_is_found_and_retried_while_others_go_on(
    server: str | None, place: int
) -> None:
    async with client_of(server) as (client, site), AsyncExitStack() as stack:
        subscriptions = [
            await stack.enter_async_context(client.subscribe(f"/queue/{number}", ack="auto")) for number in range(10)
        ]
        await trio.sleep(2)
        guilty = subscriptions.pop(place)
        site.bad.add(guilty.destination)
        site.lose()
        await trio.sleep(60)
        assert len(site.dialed) < 20
        count = len(site.attempts(guilty.destination))
        served = 0
        for _ in range(60):
            await trio.sleep(1)
            if client.state.healthy:
                served += 1
                assert client.state.waiting == (guilty.id,)
                refusal = guilty.statistics().refusal or ""
                assert f"{guilty.id!r} to {guilty.destination!r}" in refusal
                assert "without an ERROR" in refusal
                for subscription in subscriptions:
                    assert subscription.statistics().refusal is None
                    await site.takes(subscription)
        assert served > 50
        # The delays of the policy, 8 s at most, and one close for each attempt.
        assert 5 <= len(site.attempts(guilty.destination)) - count <= 8
        site.bad.clear()
        await trio.sleep(20)
        assert client.state.waiting == ()
        assert guilty.statistics().refusal is None
        await site.takes(guilty)


@SERVERS
@pytest.mark.parametrize("policy", [replace(AT_ONCE, attempts=2), replace(AT_ONCE, deadline=30)])
async def test_subscription_when_the_policy_gives_up_then_it_alone_fails_and_the_error_names_it(
    policy: Reconnect, *, server: str | None
) -> None:
    async with client_of(server, policy) as (client, site), client.subscribe("/queue/fine", ack="auto") as fine:
        with pytest.raises(PoisonSubscription, match="'s-2' to '/queue/bad'") as caught:
            async with client.subscribe("/queue/bad") as bad:
                await trio.sleep(20)
                site.bad.add("/queue/bad")
                site.lose()
                with trio.fail_after(100):
                    await anext(bad)
        assert isinstance(caught.value, ConnectionLost)
        await trio.sleep(20)
        assert client.state.waiting == ()
        dialed = len(site.dialed)
        await site.takes(fine)
        await trio.sleep(100)
        assert client.state.healthy
        assert len(site.dialed) == dialed


@pytest.mark.parametrize("others", [0, 3])
async def test_subscription_when_the_broker_closes_at_it_at_first_then_the_third_close_is_raised(others: int) -> None:
    async with client_of(reconnect=QUICK) as (client, site), AsyncExitStack() as stack:
        fine = [await stack.enter_async_context(client.subscribe(f"/queue/{number}")) for number in range(others)]
        site.bad.add("/queue/bad")
        with trio.fail_after(10), pytest.raises(PoisonSubscription, match="to '/queue/bad'"):
            async with client.subscribe("/queue/bad"):
                raise AssertionError
        assert len(site.attempts("/queue/bad")) == 3
        assert len(site.dialed) == 4
        assert client.state.waiting == ()
        for each in fine:
            await site.takes(each)


async def test_subscription_when_a_silent_broker_closes_at_it_at_first_then_its_loop_raises() -> None:
    async with client_of(None, QUICK) as (client, site), client.subscribe("/queue/fine", ack="auto") as fine:
        await trio.sleep(5)
        site.bad.add("/queue/bad")
        with trio.fail_after(10), pytest.raises(PoisonSubscription, match="to '/queue/bad'"):
            async with client.subscribe("/queue/bad") as bad:
                await anext(bad)
        await trio.sleep(1)
        assert len(site.attempts("/queue/bad")) == 3
        await site.takes(fine)


async def test_subscriptions_when_several_are_bad_then_each_is_found_and_the_rest_go_on() -> None:
    async with client_of() as (client, site), AsyncExitStack() as stack:
        subscriptions = [
            await stack.enter_async_context(client.subscribe(f"/queue/{number}", ack="auto")) for number in range(12)
        ]
        bad = [subscriptions[number] for number in (2, 3, 7)]
        site.bad.update(each.destination for each in bad)
        site.lose()
        await trio.sleep(305)
        assert set(client.state.waiting) == {each.id for each in bad}
        for subscription in subscriptions:
            if subscription not in bad:
                await site.takes(subscription)


@SERVERS
async def test_subscription_and_message_when_the_broker_closes_at_both_then_both_are_found(server: str | None) -> None:
    async with (
        client_of(server, QUICK) as (client, site),
        client.subscribe("/queue/bad") as bad,
        client.subscribe("/queue/fine", ack="auto") as fine,
    ):
        await trio.sleep(2)
        site.bad.add("/queue/bad")
        errors: list[Exception] = []

        async def send(body: bytes) -> None:
            try:
                await client.send("/queue/a", body, receipt=True)
            except ConnectionLost as error:
                errors.append(error)

        with trio.fail_after(100):
            async with trio.open_nursery() as nursery:
                for body in (b"a", site.poison, b"b"):
                    nursery.start_soon(send, body)
        assert [type(error) for error in errors] == [PoisonMessage]
        assert client.state.waiting == (bad.id,)
        with trio.fail_after(10):
            async for state in client.state_changes():
                if state.healthy:
                    break
        await site.takes(fine)


async def test_confirmed_sends_when_a_bad_subscription_is_retried_then_all_are_confirmed() -> None:
    async with client_of(reconnect=Reconnect(first_delay=0.1, max_delay=1)) as (client, site):
        async with client.subscribe("/queue/bad"):
            site.bad.add("/queue/bad")
            site.lose()

            async def send() -> None:
                for _ in range(200):
                    await client.send("/queue/a", b"x", receipt=True)
                    await trio.sleep(0.1)

            with trio.fail_after(200):
                async with trio.open_nursery() as nursery:
                    for _ in range(3):
                        nursery.start_soon(send)
            assert len(site.attempts("/queue/bad")) > 10


async def test_subscription_when_left_while_its_closes_are_counted_then_the_next_connection_is_fine() -> None:
    async with client_of() as (client, site), client.subscribe("/queue/fine") as fine:
        async with client.subscribe("/queue/bad"):
            site.bad.add("/queue/bad")
            site.lose()
            await trio.sleep(1)
        await trio.sleep(20)
        assert client.state.healthy
        await site.takes(fine)


# --- what is no such subscription -------------------------------------------------------------------------------------


async def test_subscription_when_accepted_at_the_third_time_then_it_goes_on() -> None:
    async with client_of(reconnect=QUICK) as (client, site):
        site.is_bad = lambda _frame, number: number < 3
        async with client.subscribe("/queue/a") as subscription:
            # A new row begins.
            site.is_bad = lambda _frame, number: number < 6
            site.lose()
            await trio.sleep(10)
            assert client.state.healthy
            assert len(site.dialed) == 6
            await site.takes(subscription)


async def test_subscription_when_links_end_before_it_is_made_then_they_do_not_count() -> None:
    async with client_of(reconnect=QUICK) as (client, site), client.subscribe("/queue/a") as subscription:
        # The next one ends at SUBSCRIBE, and the others before the pause is over.
        site.is_bad = lambda _frame, number: number == 2
        serve = site._serve

        async def brief(stream: trio.abc.Stream, number: int) -> None:
            with trio.move_on_after(0.05 if 2 < number < 20 else 1000):
                await serve(stream, number)

        site._serve = brief
        site.lose()
        await trio.sleep(30)
        assert len(site.dialed) == 20
        assert client.state.waiting == ()
        await site.takes(subscription)


@pytest.mark.parametrize("ack", ["auto", "client-individual"])
async def test_subscription_when_each_link_ends_after_a_message_has_come_then_it_is_not_blamed(ack: AckName) -> None:
    def prepare(peer: Peer, _number: int) -> None:
        def deliver(frame: Frame) -> None:
            peer.deliver(frame.headers["id"], b"x")
            peer.hang_up()

        peer.on[Command.SUBSCRIBE] = deliver

    async with (
        reconnecting_to_peers(prepare, PeerOptions(server=None), reconnect=QUICK, heart_beat=(0, 0)) as (client, _),
        client.subscribe("/queue/a", ack=ack) as subscription,
    ):
        for _ in range(10):
            assert (await anext(subscription)).body == b"x"


@pytest.mark.parametrize("seed", range(10))
async def test_subscriptions_when_links_are_cut_at_random_then_none_is_refused(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311  # not a secret
    policy = Reconnect(first_delay=0.05, max_delay=0.5, attempts=1000)
    async with client_of(reconnect=policy) as (client, site), AsyncExitStack() as stack:
        serve = site._serve
        # A link that is cut at a SUBSCRIBE, at random: at most two such in a row.
        site.is_bad = lambda _frame, number: number < 200 and number % 3 != 0 and chance.random() < 0.2

        async def flaky(stream: trio.abc.Stream, number: int) -> None:
            with trio.move_on_after(3 * chance.random() if number < 200 else 1000):
                await serve(stream, number)

        site._serve = flaky
        site.lose()
        subscriptions = [
            await stack.enter_async_context(client.subscribe(f"/queue/{number}", ack="auto"))
            for number in range(chance.choice([1, 2, 10, 30]))
        ]
        while len(site.dialed) < 200:
            await trio.sleep(1)
            assert client.state.waiting == ()
        await trio.sleep(30)
        assert client.state.healthy
        for subscription in subscriptions:
            await site.takes(subscription)
