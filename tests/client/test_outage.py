"""What ends a client that reconnects, and what does not."""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Unpack

import pytest
import trio
import trio.testing

from tests.client.connecting import Credentials
from tests.kit.loops import lasting, on_loops
from tests.kit.reconnecting import AT_ONCE, Host, RawHost, reconnecting
from tests.kit.tapped_stream import TappedStream
from trio_stomp import (
    AuthenticationError,
    Client,
    ConnectError,
    ConnectionLost,
    Reconnect,
    RemoteProtocolError,
    Subscription,
)
from trio_stomp.testing import AnswerConnect, Broker, BrokerOptions, DropLink, open_broker
from trio_stomp.types import AckName, ConnectionState, ConnectOptions, Phase, Version

pytestmark = [pytest.mark.anyio, on_loops("trio")]

# What brokers answer CONNECT with that may take it a moment later.
TEMPORARY = ("broker is starting", "connection limit of virtual host '/' reached", "upgrade to version 4", "")


@pytest.fixture
async def good() -> AsyncGenerator[Broker]:
    """A broker for a user whose passcode is good."""
    async with open_broker(listen=False, options=BrokerOptions(logins={"me": "good"})) as opened:
        yield opened


@pytest.fixture
async def bad() -> AsyncGenerator[Broker]:
    """A broker that refuses this user."""
    async with open_broker(listen=False, options=BrokerOptions(logins={"me": "other"})) as opened:
        yield opened


async def connected_again(client: Client, broker: Broker) -> None:
    with trio.fail_after(1000):
        await client.send("/queue/a", b"", receipt=True)
    assert broker.depth("/queue/a") == 1


# --- credentials= that fail -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [
        OSError("down"),
        RuntimeError("down"),
        TimeoutError("slow"),
        trio.TooSlowError(),
        ExceptionGroup("2", [OSError()]),
    ],
)
async def test_credentials_when_they_fail_in_an_outage_then_the_attempt_has_failed_and_another_follows(
    error: Exception, good: Broker
) -> None:
    credentials = Credentials(("me", "good"), error, error, error, error, error)
    states: list[ConnectionState] = []

    async def watch(client: Client) -> None:
        async for state in client.state_changes():
            states.append(state)  # noqa: PERF401  # the loop is cancelled, and a list that it builds would go with it

    async with reconnecting(good, credentials=credentials) as client, trio.open_nursery() as nursery:
        nursery.start_soon(watch, client)
        await trio.testing.wait_all_tasks_blocked()
        good.faults.now(DropLink())
        await connected_again(client, good)
        nursery.cancel_scope.cancel()
    _lost, *failed = [state.cause for state in states if state.phase is Phase.LOST]
    assert len(failed) == 5
    for cause in failed:
        assert isinstance(cause, ConnectError)
        assert cause.failures[0].step == "credentials"
        assert cause.failures[0].cause is error


async def test_credentials_when_they_fail_and_the_policy_gives_up_then_their_error_is_the_cause(broker: Broker) -> None:
    mine = LookupError("the vault is sealed")
    credentials = Credentials(("guest", "guest"), *[mine] * 9)
    async with reconnecting(broker, credentials=credentials, reconnect=Reconnect(attempts=3)) as client:
        broker.faults.now(DropLink())
        with pytest.raises(ConnectionLost, match=r"no connection after 3 attempts.*the vault is sealed") as caught:
            await client.wait_closed()
    assert isinstance(caught.value.__cause__, ConnectError)
    assert caught.value.__cause__.failures[0].cause is mine


async def test_credentials_when_they_fail_while_moving_back_then_the_connection_stays(broker: Broker) -> None:
    async with open_broker(listen=False) as other:
        first, second = Host(broker, refuses=True), Host(other)
        credentials = Credentials(("guest", "guest"), OSError("down"), OSError("down"), *[("guest", "guest")] * 9)
        policy = Reconnect(fail_back_after=10)
        async with reconnecting(first, second, credentials=credentials, reconnect=policy) as client:
            first.refuses = False
            await trio.sleep(25)
            assert credentials.calls == 3
            assert client.state.endpoint == "stomp://h1:61613"
            assert client.statistics().reconnections == 0
            await trio.sleep(10)
            assert client.state.endpoint == "stomp://h0:61613"


async def test_retry_first_when_the_deadline_comes_within_the_first_attempt_then_the_error_says_what_is_known(
    broker: Broker,
) -> None:
    policy = Reconnect(retry_first=True, deadline=3)
    with pytest.raises(ConnectionLost, match=r"set to give up: no host has answered$"):
        async with reconnecting(Host(broker, silent=100), reconnect=policy):
            raise AssertionError


# --- refused credentials ----------------------------------------------------------------------------------------------


async def test_refusal_when_every_host_refuses_then_it_ends_at_once_with_what_each_said(
    good: Broker, bad: Broker
) -> None:
    first, second = Host(good), Host(bad)
    async with reconnecting(first, second, login="me", passcode="good") as client:
        first.broker, second.silent = bad, 3
        good.faults.now(DropLink())
        with pytest.raises(AuthenticationError) as caught:
            await client.wait_closed()
    assert len(first.dialed) == 2
    assert len(second.dialed) == 1
    assert [failure.address for failure in caught.value.failures] == ["stomp://h0:61613", "stomp://h1:61613"]
    assert all("access refused" in failure.reason for failure in caught.value.failures)


async def test_refusal_when_credentials_are_renewed_each_time_then_another_attempt_follows(good: Broker) -> None:
    stale = [("me", f"stale {number}") for number in range(6)]
    credentials = Credentials(("me", "good"), *stale)
    async with reconnecting(good, credentials=credentials) as client:
        good.faults.now(DropLink())
        await connected_again(client, good)
    assert credentials.calls == 1 + 6 + 1


async def test_refusal_when_credentials_return_what_was_refused_then_it_ends(good: Broker) -> None:
    stale = ("me", "stale")
    # Asked twice, with a failure in between; what was good before is asked for again too.
    for plan in ([stale, OSError("down"), stale], [("me", "older"), stale, stale]):
        credentials = Credentials(("me", "good"), *plan)
        async with reconnecting(good, credentials=credentials) as client:
            good.faults.now(DropLink())
            with pytest.raises(AuthenticationError, match="access refused"):
                await client.wait_closed()
        assert credentials.calls == 1 + 3


async def test_refusal_when_another_host_is_down_then_renewed_credentials_are_tried_at_the_one_that_refused(
    good: Broker,
) -> None:
    credentials = Credentials(("me", "good"), *[("me", "stale")] * 3)
    async with reconnecting(good, Host(good, refuses=True), credentials=credentials) as client:
        good.faults.now(DropLink())
        await connected_again(client, good)


@pytest.mark.parametrize(
    "options",
    [BrokerOptions(vhosts={"/"}), BrokerOptions(vhosts={"/", "other"}, versions=[Version.V1_1])],
    ids=["vhost", "version"],
)
async def test_refusal_when_it_is_about_vhost_or_version_then_it_ends_at_once(
    options: BrokerOptions, broker: Broker
) -> None:
    host = Host(broker)
    async with open_broker(listen=False, options=options) as strict:
        async with reconnecting(host, vhost="other", versions=["1.2"]) as client:
            host.broker = strict
            broker.faults.now(DropLink())
            with pytest.raises(ConnectError, match=r"virtual host|no common version"):
                await client.wait_closed()
    assert len(host.dialed) == 2


async def test_refusal_when_the_outage_is_over_then_the_host_is_dialed_again_in_the_next(
    good: Broker, bad: Broker
) -> None:
    first, second = Host(good), Host(bad)
    async with reconnecting(first, second, login="me", passcode="good") as client:
        for outage in (1, 2):
            await trio.sleep(60)
            first.refuses = True
            good.faults.now(DropLink())
            await trio.sleep(60)
            assert len(second.dialed) == outage
            first.refuses = False
            await trio.sleep(60)
        assert client.state.healthy


# --- refused for a while ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", TEMPORARY)
@pytest.mark.parametrize("is_first", [True, False])
async def test_refusal_when_it_may_be_temporary_then_it_is_retried_until_accepted(
    words: str, broker: Broker, *, is_first: bool
) -> None:
    broker.faults.plan(AnswerConnect(error=words), skip=0 if is_first else 1, connections=20)
    async with reconnecting(broker, reconnect=Reconnect(retry_first=is_first)) as client:
        broker.faults.now(DropLink())
        await connected_again(client, broker)


async def test_refusal_when_it_lasts_then_it_is_logged_once_for_each_text(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "trio_stomp")
    async with reconnecting(broker) as client:
        for number in range(30):
            words = "starting, {} s" if number < 20 else "node {} is down"
            broker.faults.plan(AnswerConnect(error=words.format(number)), skip=number)
        broker.faults.now(DropLink())
        await connected_again(client, broker)
    said = [record for record in caplog.records if "the broker refused" in record.getMessage()]
    assert [record.levelno for record in said] == [logging.WARNING] * 2
    assert "starting, 0 s" in said[0].getMessage()
    assert "node 20 is down" in said[1].getMessage()


@pytest.mark.parametrize("policy", [replace(AT_ONCE, attempts=5), replace(AT_ONCE, deadline=30)])
async def test_refusal_when_the_policy_gives_up_then_the_error_has_the_brokers_last_words(
    broker: Broker, policy: Reconnect
) -> None:
    host = Host(broker)
    async with reconnecting(host, reconnect=policy) as client:
        broker.faults.plan(AnswerConnect(error="starting"), connections=2)
        broker.faults.now(DropLink())
        await trio.sleep(2)
        host.refuses = True  # nothing is left that listens
        with pytest.raises(ConnectionLost, match=r"give up: .*Connection refused.*broker had refused: starting"):
            await client.wait_closed()


async def test_refusal_when_another_host_is_down_then_both_are_tried_until_one_accepts(broker: Broker) -> None:
    async with open_broker(listen=False) as other:
        first, second = Host(broker), Host(other)
        async with reconnecting(first, second) as client:
            first.refuses = True
            other.faults.plan(AnswerConnect(error="No way, stranger"), connections=None)
            broker.faults.now(DropLink())
            await trio.sleep(100)
            first.refuses = False
            await connected_again(client, broker)
            assert len(second.dialed) > 5


# --- a peer that breaks the protocol ----------------------------------------------------------------------------------

CONNECTED = b"CONNECTED\nversion:1.2\n\n\0"
POISON = b"nul\0inside"


def message(body: bytes) -> bytes:
    return b"MESSAGE\nsubscription:s-1\nmessage-id:1\nack:1\ndestination:/queue/a\n\n%b\0\n" % body


@asynccontextmanager
async def served(
    serve: Callable[[trio.abc.Stream, int], Awaitable[None]],
    make_host: type[RawHost] = RawHost,
    ack: AckName = "client-individual",
    **options: Unpack[ConnectOptions],
) -> AsyncGenerator[tuple[Client, RawHost, Subscription]]:
    """A client of a server that is a function, its host, and a subscription."""
    options.setdefault("heart_beat", (0, 0))
    async with trio.open_nursery() as nursery:
        host = make_host(serve, nursery)
        async with reconnecting(host, **options) as client, client.subscribe("/queue/a", ack=ack) as subscription:
            yield client, host, subscription


class Queue:
    """A server with a queue of which one message cannot be decoded: what is acknowledged does not come again."""

    def __init__(self, *bodies: bytes) -> None:
        self.left = {f"{number}": body for number, body in enumerate(bodies, 1)}

    async def serve(self, stream: trio.abc.Stream, number: int) -> None:
        del number
        async for data in stream:
            if b"CONNECT" in data:
                await stream.send_all(CONNECTED)
            for acked in re.findall(rb"ACK\nid:(\d+)", bytes(data)):
                del self.left[acked.decode()]
            if b"SUBSCRIBE" in data:
                head = b"MESSAGE\nsubscription:s-1\nmessage-id:%b\nack:%b\ndestination:/queue/a\n\n%b\0\n"
                frames = [head % (id_.encode(), id_.encode(), body) for id_, body in self.left.items()]
                await stream.send_all(b"".join(frames))


async def test_violation_when_it_comes_again_without_progress_then_it_ends_at_the_third_with_its_cause() -> None:
    async with served(Queue(POISON).serve) as (_, host, subscription):
        with pytest.raises(RemoteProtocolError, match="a NUL in its body may have cut it short"):
            await anext(subscription)
        assert len(host.dialed) == 3


@pytest.mark.parametrize("ack", ["auto", "client-individual"])
async def test_violation_when_nothing_has_to_be_settled_then_the_connection_ends_at_once(
    ack: AckName,
) -> None:
    kept = message(b"kept") if ack == "auto" else b""

    async def poisoned_once(stream: trio.abc.Stream, number: int) -> None:
        async for data in stream:
            if b"CONNECT" in data:
                await stream.send_all(CONNECTED)
            if b"SUBSCRIBE" in data and number == 1:
                await stream.send_all(kept + message(POISON))

    async with served(poisoned_once, disconnect_timeout=1, ack=ack) as (_, host, subscription):
        await trio.sleep(20)
        first, second = host.dialed
        assert second - first == pytest.approx(AT_ONCE.first_delay)
        assert not kept or (await anext(subscription)).text == "kept"


async def test_violation_when_messages_are_settled_in_between_then_the_client_goes_on() -> None:
    async def slowly_poisoned(stream: trio.abc.Stream, number: int) -> None:
        """Each connection gets a message settled; then comes what cannot be decoded, until it is gone for good."""
        async for data in stream:
            if b"CONNECT" in data:
                await stream.send_all(CONNECTED)
            if b"SUBSCRIBE" in data:
                await stream.send_all(message(b"%d" % number))
            if b"ACK" in data and number < 8:
                await stream.send_all(message(POISON))

    bodies: list[str] = []
    async with served(slowly_poisoned, disconnect_timeout=1) as (_, host, subscription):
        async for received in subscription:
            async with received:
                bodies.append(received.text)
            if len(host.dialed) == 8:
                break
    assert bodies == [str(number) for number in range(1, 9)]


async def test_violation_when_connections_last_in_between_then_the_client_goes_on() -> None:
    async def seldom(stream: trio.abc.Stream, number: int) -> None:
        async for data in stream:
            if b"CONNECT" in data:
                await stream.send_all(CONNECTED)
                await trio.sleep(60)
                if number < 6:
                    await stream.send_all(b"NONSENSE\n\n\0")

    async with served(seldom, disconnect_timeout=1) as (client, host, _):
        await trio.sleep(600)
        assert client.state.healthy
        assert len(host.dialed) == 6


# --- what came before it ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ack", ["client-individual", "client"])
@pytest.mark.parametrize("reconnect", [AT_ONCE, None])
async def test_violation_when_good_messages_came_in_the_same_bytes_then_they_are_handed_out_and_settled(
    ack: AckName, reconnect: Reconnect | None
) -> None:
    queue = Queue(b"1", b"2", b"3", POISON, b"5")
    bodies: list[str] = []
    settled_at = trio.current_time()
    async with served(queue.serve, heart_beat=(2, 2), reconnect=reconnect, ack=ack) as (_, host, subscription):
        with pytest.raises(RemoteProtocolError, match="NUL"):
            async for received in subscription:
                await trio.sleep(1)
                bodies.append(received.text)
                await received.ack()
                settled_at = trio.current_time()
        # It ends as soon as the last one is settled.
        assert reconnect is not None or trio.current_time() - settled_at < 0.1
    assert bodies == ["1", "2", "3"]
    assert list(queue.left) == ["4", "5"]
    # The fault has come three times, and between them nothing was settled.
    assert len(host.dialed) == (1 if reconnect is None else 3)


async def test_violation_when_earlier_messages_are_not_taken_then_the_connection_still_ends() -> None:
    async with served(Queue(b"1", POISON).serve, reconnect=None) as (client, _, subscription):
        with lasting(5, tolerance=0.1), pytest.raises(RemoteProtocolError, match="NUL"):
            await client.wait_closed()
        with pytest.raises(RemoteProtocolError, match="NUL"):
            await anext(subscription)


class SlowHost(RawHost):
    """A host to which each write takes half a second."""

    async def open_stream(self) -> trio.abc.Stream:
        return SlowStream(await super().open_stream())


class SlowStream(TappedStream):
    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await trio.sleep(0.5)
        await super().send_all(data)


async def test_violation_when_the_last_message_is_settled_then_the_connection_lasts_until_that_is_written() -> None:
    queue = Queue(b"1", POISON)
    async with served(queue.serve, SlowHost, reconnect=None) as (client, _, subscription):
        await (await anext(subscription)).ack()
        with pytest.raises(RemoteProtocolError, match="NUL"):
            await client.wait_closed()
    assert list(queue.left) == ["2"]


async def test_violation_when_the_block_is_left_meanwhile_then_it_does_not_wait_for_consumers() -> None:
    async with served(Queue(b"1", POISON).serve, reconnect=None) as (_, _, subscription):
        await anext(subscription)
        began = trio.current_time()
    assert trio.current_time() - began < 0.1
