"""Verbs that race with the move to a preferred host: each stage of the move, by name.

A client that moves awaits the pending receipts of the old connection ("before DISCONNECT"), says DISCONNECT, and awaits
its RECEIPT ("after DISCONNECT"). Then it goes on at the preferred host.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final, Unpack

import pytest
import trio
import trio.testing

import trio_stomp
from tests.client.ways import EACH_WAY, Send
from tests.kit.loops import on_loops
from tests.kit.reconnecting import Host, TappedHost, reconnecting
from trio_stomp import (
    Client,
    DisconnectResult,
    Hooks,
    Message,
    OutcomeUnknown,
    Reconnect,
    Retry,
    StaleMessage,
    StompError,
    Subscription,
    Transaction,
    TransactionLost,
    UnconfirmedError,
)
from trio_stomp.testing import Broker, BrokerOptions, DelayReceipts, DropLink, Fault, SwallowReceipts, open_broker
from trio_stomp.types import Command, ConnectionInfo, ConnectOptions, Phase, Settlement

pytestmark = [pytest.mark.anyio, on_loops("trio")]

FAIL_BACK_AFTER: Final = 10.0
# A receipt that comes this late leaves time to look at each stage.
DELAY: Final = 4.0
LATE_SEND: Final = DelayReceipts(command=Command.SEND, seconds=FAIL_BACK_AFTER + DELAY)
LATE_DISCONNECT: Final = DelayReceipts(command=Command.DISCONNECT, seconds=DELAY)
ONCE: Final = Retry(attempts=1)


@dataclass(kw_only=True)
class Hosts:
    """A client on the second of two hosts, whose first one answers again.

    Attributes:
        client: The client.
        first: The preferred host.
        second: The host that the client is connected to.
    """

    client: Client
    first: Host
    second: Host

    @property
    def preferred(self) -> Broker:
        return self.first.broker

    @property
    def old(self) -> Broker:
        return self.second.broker

    async def move(self, *faults: Fault) -> None:
        """Wait until the move has begun, at a broker with these faults."""
        self.old.faults.now(*faults)
        await trio.sleep_until(FAIL_BACK_AFTER + 0.5)
        assert self.client.state.endpoint == "stomp://h1:61613"
        assert self.preferred.sessions

    async def arrive(self) -> None:
        """Wait until the client has moved."""
        with trio.fail_after(60):
            async for state in self.client.state_changes():
                if state.healthy and state.endpoint == "stomp://h0:61613":
                    return


@asynccontextmanager
async def hosts(
    server: str | None = None, make_second: type[Host] = Host, **options: Unpack[ConnectOptions]
) -> AsyncGenerator[Hosts]:
    chosen = BrokerOptions() if server is None else BrokerOptions(server=server)
    async with open_broker(listen=False, options=chosen) as preferred, open_broker(listen=False, options=chosen) as old:
        first, second = Host(preferred, refuses=True), make_second(old)
        options.setdefault("reconnect", Reconnect(first_delay=0.5, fail_back_after=FAIL_BACK_AFTER, random=lambda: 1.0))
        async with reconnecting(first, second, **options) as client:
            first.refuses = False
            yield Hosts(client=client, first=first, second=second)


@asynccontextmanager
async def pending_send(of: Hosts, late: Fault = LATE_SEND) -> AsyncGenerator[None]:
    """Keep the move before its DISCONNECT: a message is on its way, and its RECEIPT comes late."""
    of.old.faults.now(late)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(of.client.send, "/queue/pending", b"", receipt=True))
        await trio.testing.wait_all_tasks_blocked()
        yield


async def take(of: Hosts, subscription: Subscription, body: bytes = b"job") -> Message:
    of.old.publish(subscription.destination, body)
    message = await anext(subscription)
    assert message.body == body
    return message


# --- acknowledging ----------------------------------------------------------------------------------------------------


async def by_ack(message: Message, _of: Hosts, _subscription: Subscription) -> None:
    await message.ack()


async def by_ack_with_receipt(message: Message, _of: Hosts, _subscription: Subscription) -> None:
    await message.ack(receipt=True)


async def by_block(message: Message, _of: Hosts, _subscription: Subscription) -> None:
    async with message:
        await trio.lowlevel.checkpoint()


async def by_ack_up_to(message: Message, _of: Hosts, subscription: Subscription) -> None:
    await subscription.ack_up_to(message)


Settle = Callable[[Message, Hosts, Subscription], Awaitable[None]]


@pytest.mark.parametrize("settle", [by_ack, by_ack_with_receipt, by_block, by_ack_up_to])
async def test_ack_when_it_comes_before_disconnect_then_it_takes_effect(settle: Settle) -> None:
    async with hosts() as of, of.client.subscribe("/queue/a") as subscription:
        message = await take(of, subscription)
        async with pending_send(of):
            await of.move()
            assert not message.is_stale
            await settle(message, of, subscription)
            assert message.settlement is Settlement.ACKED
        await of.arrive()
        assert of.old.depth("/queue/a") == 0
        assert of.client.statistics().stale_messages == 0


@pytest.mark.parametrize("settle", [by_ack, by_ack_with_receipt, by_ack_up_to])
async def test_ack_when_it_comes_after_disconnect_then_the_message_is_stale(settle: Settle) -> None:
    async with hosts() as of, of.client.subscribe("/queue/a") as subscription:
        message = await take(of, subscription)
        await of.move(LATE_DISCONNECT)
        assert message.is_stale
        with pytest.raises(StaleMessage, match="the connection to stomp://h1:61613 was left for stomp://h0:61613"):
            await settle(message, of, subscription)
        assert of.client.statistics().stale_messages == 1
        await of.arrive()
        assert of.old.depth("/queue/a") == 1


async def test_block_when_it_ends_after_disconnect_then_that_is_logged_and_the_message_comes_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with hosts() as of, of.client.subscribe("/queue/a") as subscription:
        async with await take(of, subscription):
            await of.move(LATE_DISCONNECT)
        assert "handled but is stale" in caplog.text
        await of.arrive()
        assert of.old.depth("/queue/a") == 1


async def test_block_when_it_raises_after_disconnect_then_its_exception_leaves_as_itself() -> None:
    mine = ValueError("mine")
    async with hosts() as of, of.client.subscribe("/queue/a") as subscription:
        message = await take(of, subscription)
        await of.move(LATE_DISCONNECT)
        with pytest.raises(ValueError, match="mine") as caught:
            async with message:
                raise mine
        assert caught.value is mine


async def test_ack_when_its_receipt_pends_as_the_move_begins_then_the_move_waits_for_it() -> None:
    async with hosts() as of, of.client.subscribe("/queue/a") as subscription:
        message = await take(of, subscription)
        of.old.faults.now(DelayReceipts(command=Command.ACK, seconds=FAIL_BACK_AFTER + DELAY))
        await message.ack(receipt=True)
        # It was confirmed: only then does DISCONNECT go.
        assert of.client.state.endpoint == "stomp://h1:61613"
        await of.arrive()
        assert of.old.depth("/queue/a") == 0


async def test_ack_when_its_receipt_never_comes_then_the_message_is_stale_and_the_move_goes_on() -> None:
    async with hosts(disconnect_timeout=3) as of, of.client.subscribe("/queue/a") as subscription:
        message = await take(of, subscription)
        of.old.faults.now(SwallowReceipts(command=Command.ACK))
        with pytest.raises(StaleMessage, match="was left for"):
            await message.ack(receipt=True)
        await of.arrive()


# --- consuming --------------------------------------------------------------------------------------------------------


async def test_iteration_when_the_client_moves_then_it_waits_and_goes_on_at_the_next_host() -> None:
    got: list[bytes] = []
    async with hosts() as of, of.client.subscribe("/queue/a", prefetch=2) as subscription:
        first = await take(of, subscription)
        of.old.publish("/queue/a", b"fetched ahead")
        of.preferred.publish("/queue/a", b"at the next host")

        async def consume() -> None:
            async for message in subscription:
                async with message:
                    got.append(message.body)

        async with pending_send(of), trio.open_nursery() as nursery:
            await of.move()
            nursery.start_soon(consume)
            # This ACK gives the broker credit for more, and what it sends now would be stale in a moment.
            of.old.publish("/queue/a", b"too late")
            await first.ack()
            await trio.sleep(DELAY / 2)
            assert got == []
            await of.arrive()
            await trio.sleep(1)
            assert got == [b"at the next host"]
            nursery.cancel_scope.cancel()
        assert of.old.depth("/queue/a") == 2


async def test_receive_batch_when_it_lingers_as_the_move_begins_then_it_goes_on_at_the_next_host() -> None:
    async with hosts() as of, of.client.subscribe("/queue/a") as subscription:
        of.preferred.publish("/queue/a", b"at the next host")
        await trio.sleep(FAIL_BACK_AFTER - 1)
        of.old.publish("/queue/a", b"stale in a moment")
        batch = await subscription.receive_batch(10, linger=2)
        assert [message.body for message in batch] == [b"at the next host"]
        assert of.client.state.endpoint == "stomp://h0:61613"


async def test_auto_mode_when_the_client_moves_then_all_that_came_is_handed_out() -> None:
    async with hosts() as of, of.client.subscribe("/queue/a", ack="auto") as subscription:
        of.old.publish("/queue/a", b"before")
        await of.move(LATE_DISCONNECT)
        of.old.publish("/queue/a", b"after DISCONNECT")
        of.preferred.publish("/queue/a", b"at the next host")
        bodies = [(await anext(subscription)).body]
        await of.arrive()
        bodies.append((await anext(subscription)).body)
        # The embedded broker delivers nothing after DISCONNECT, and keeps what nobody got.
        assert of.old.depth("/queue/a") == 1
        assert bodies == [b"before", b"at the next host"]


@pytest.mark.parametrize("late", [LATE_DISCONNECT, None])
async def test_work_when_the_client_moves_then_it_goes_on(late: DelayReceipts | None) -> None:
    handled: list[bytes] = []

    async def handle(message: Message) -> None:
        await trio.sleep(0.7)
        handled.append(message.body)

    async with hosts() as of, of.client.subscribe("/queue/a", prefetch=10) as subscription:
        for number in range(40):
            of.old.publish("/queue/a", b"%d" % number)
            of.preferred.publish("/queue/a", b"%d" % (100 + number))
        if late is not None:
            of.old.faults.now(late)
        with trio.move_on_after(60):
            await subscription.work(handle, workers=2)
        assert of.client.state.endpoint == "stomp://h0:61613"
        assert of.preferred.depth("/queue/a") == 0
        assert {b"%d" % (100 + number) for number in range(40)} <= set(handled)
        assert len(handled) == len(set(handled))
        # What its handlers ended before the move is acknowledged; what was running is stale, and nothing else.
        assert of.old.depth("/queue/a") >= 40 - len([body for body in handled if len(body) < 3])


# Before DISCONNECT it is not stale yet; the transaction for its dead letter, being new, waits for the next host.
@pytest.mark.parametrize(
    ("dead_letter", "late"), [("/queue/dead", LATE_DISCONNECT), (None, LATE_DISCONNECT), ("/queue/dead", LATE_SEND)]
)
async def test_work_when_a_message_fails_for_good_as_the_client_moves_then_it_comes_again_and_work_goes_on(
    dead_letter: str | None, late: DelayReceipts
) -> None:
    handled: list[bytes] = []

    async def handle(message: Message) -> None:
        if message.body == b"poison":
            # The move has begun by then.
            await trio.sleep_until(FAIL_BACK_AFTER + 1)
            raise ValueError
        handled.append(message.body)

    async with hosts() as of, of.client.subscribe("/queue/a") as subscription:
        of.old.publish("/queue/a", b"poison")
        of.preferred.publish("/queue/a", b"good")
        async with pending_send(of, late):
            with trio.move_on_after(30):
                await subscription.work(handle, retry=ONCE, dead_letter=dead_letter)
        assert handled == [b"good"]
        assert of.old.depth("/queue/a") == 1
        assert of.preferred.depth("/queue/dead") == 0


# --- sending ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("late", [LATE_SEND, LATE_DISCONNECT])
@pytest.mark.parametrize("send", EACH_WAY)
async def test_send_when_the_move_has_begun_then_it_waits_for_the_next_host(send: Send, late: DelayReceipts) -> None:
    async with hosts() as of:
        async with pending_send(of, late):
            await of.move()
            await send(of.client, "/queue/new", b"")
            assert of.client.state.endpoint == "stomp://h0:61613"
            await of.client.send("/queue/other", b"", receipt=True)
        assert (of.old.depth("/queue/new"), of.preferred.depth("/queue/new")) == (0, 1)


async def test_subscribe_when_the_move_has_begun_then_it_stands_at_the_next_host() -> None:
    async with hosts() as of:
        await of.move(LATE_DISCONNECT)
        async with of.client.subscribe("/queue/a") as subscription:
            of.preferred.publish("/queue/a", b"1")
            assert (await anext(subscription)).body == b"1"


@pytest.mark.parametrize("late", [LATE_SEND, LATE_DISCONNECT])
async def test_leaving_a_subscription_when_the_move_has_begun_then_it_gives_back_and_does_not_stand_again(
    late: DelayReceipts,
) -> None:
    async with hosts() as of:
        async with pending_send(of, late):
            async with of.client.subscribe("/queue/a") as subscription:
                await take(of, subscription)
                of.old.publish("/queue/a", b"fetched ahead")
                await of.move()
            await of.arrive()
            assert of.old.depth("/queue/a") == 2
            of.preferred.publish("/queue/a", b"nobody is there")
            await of.client.send("/queue/b", b"", receipt=True)
            assert of.preferred.unacknowledged("/queue/a") == 0


async def test_delete_when_the_client_is_between_two_hosts_then_it_waits_for_the_next_one() -> None:
    async with hosts() as of, of.client.subscribe("/topic/t", durable="mine") as subscription:
        await of.move(LATE_DISCONNECT)
        await subscription.delete()
        assert of.client.state.endpoint == "stomp://h0:61613"
        with pytest.raises(StopAsyncIteration):
            await anext(subscription)


async def test_request_when_its_reply_has_not_come_by_the_move_then_its_outcome_is_unknown_and_it_says_why() -> None:
    async with hosts() as of:
        with pytest.raises(OutcomeUnknown, match="stomp://h1:61613 was left for stomp://h0:61613"):
            await of.client.request("/queue/a", b"?", timeout=60)
        await of.arrive()


async def test_request_when_its_reply_comes_before_the_old_host_is_left_then_it_is_returned() -> None:
    texts: list[str] = []
    async with hosts() as of:

        async def ask() -> None:
            texts.append((await of.client.request("/queue/a", b"?", timeout=60)).text)

        async with pending_send(of), trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await of.move()
            (request,) = of.old.messages("/queue/a")
            correlation = ("correlation-id", request.headers["correlation-id"])
            of.old.publish(request.headers["reply-to"], "42", [correlation])
    assert texts == ["42"]


async def test_browser_when_its_end_came_before_the_move_then_it_ends_well() -> None:
    async with hosts() as of:
        of.old.publish("/queue/a", b"1")
        async with of.client.subscribe("/queue/a", browse=True) as browser:
            await of.arrive()
            assert [message.body async for message in browser] == [b"1"]


# --- transactions -----------------------------------------------------------------------------------------------------


async def test_transaction_when_committed_before_disconnect_then_it_takes_effect() -> None:
    async with hosts() as of, of.client.subscribe("/queue/a") as subscription:
        message = await take(of, subscription)
        async with pending_send(of):
            async with of.client.transaction() as transaction:
                await of.move()
                await transaction.send("/queue/b", b"1")
                await transaction.ack(message)
        await of.arrive()
        assert (of.old.depth("/queue/a"), of.old.depth("/queue/b")) == (0, 1)


async def test_transaction_when_open_at_disconnect_then_it_is_lost_and_says_why() -> None:
    async with hosts() as of, of.client.subscribe("/queue/a") as subscription:
        message = await take(of, subscription)
        with pytest.raises(TransactionLost, match=r"nothing in it takes effect: .* was left for stomp://h0:61613"):
            async with of.client.transaction() as transaction:
                await transaction.send("/queue/b", b"1")
                await transaction.ack(message)
                await of.move(LATE_DISCONNECT)
                await transaction.send("/queue/b", b"2")
        await of.arrive()
        assert (of.old.depth("/queue/a"), of.old.depth("/queue/b")) == (1, 0)


@pytest.mark.parametrize("late", [LATE_DISCONNECT, None])
async def test_run_transaction_when_the_client_moves_meanwhile_then_it_runs_again_at_the_next_host(
    late: DelayReceipts | None,
) -> None:
    attempts = 0

    async def work(transaction: Transaction) -> str:
        nonlocal attempts
        attempts += 1
        await transaction.send("/queue/b", b"1")
        await trio.sleep_until(FAIL_BACK_AFTER + 1)
        await transaction.send("/queue/b", b"2")
        return "done"

    async with hosts() as of:
        if late is not None:
            of.old.faults.now(late)
        assert await of.client.run_transaction(work) == "done"
        assert attempts == 2
        assert (of.old.depth("/queue/b"), of.preferred.depth("/queue/b")) == (0, 2)


async def test_run_transaction_when_it_settles_a_message_of_the_old_host_then_the_message_is_stale() -> None:
    async with hosts() as of, of.client.subscribe("/queue/a") as subscription:
        message = await take(of, subscription)

        async def work(transaction: Transaction) -> None:
            await trio.sleep_until(FAIL_BACK_AFTER + 1)
            await transaction.ack(message)

        with pytest.raises(StaleMessage, match="its connection is gone"):
            await of.client.run_transaction(work)


@pytest.mark.parametrize("server", ["ActiveMQ-Artemis/2.44", "RabbitMQ/3.13", "trio-stomp-testing/1"])
async def test_commit_when_its_receipt_pends_as_the_move_begins_then_the_move_waits_for_all_of_it(server: str) -> None:
    async with hosts(server, versions=["1.1"]) as of, of.client.subscribe("/queue/a") as subscription:
        message = await take(of, subscription)
        of.old.faults.now(DelayReceipts(command=Command.COMMIT, seconds=FAIL_BACK_AFTER + DELAY))
        async with of.client.transaction() as transaction:
            await transaction.send("/queue/b", b"1")
            await transaction.ack(message)
        assert message.settlement is Settlement.ACKED
        await of.arrive()
        # On Artemis the ACK follows the COMMIT, and DISCONNECT does not come between them.
        assert (of.old.depth("/queue/a"), of.old.depth("/queue/b")) == (0, 1)


async def test_commit_when_its_receipt_never_comes_then_the_outcome_is_unknown() -> None:
    async with hosts(disconnect_timeout=3) as of:
        of.old.faults.now(SwallowReceipts(command=Command.COMMIT))
        with pytest.raises(OutcomeUnknown, match="was left for"):
            async with of.client.transaction() as transaction:
                await transaction.send("/queue/b", b"1")
        await of.arrive()


# --- ends of the move -------------------------------------------------------------------------------------------------


async def test_leaving_when_a_message_is_unconfirmed_at_the_old_host_then_the_next_one_confirms_it() -> None:
    async with hosts(disconnect_timeout=10) as of:
        async with pending_send(of, SwallowReceipts(command=Command.SEND)):
            await of.move()
            # The old host keeps its RECEIPT to itself until the move gives up waiting for it.
            await trio.sleep(5)
            assert await of.client.disconnect() is DisconnectResult.RECEIPT
        assert of.preferred.depth("/queue/pending") == 1


async def test_leaving_when_disconnect_was_said_for_the_move_then_the_client_ends_well() -> None:
    async with hosts() as of:
        await of.move(LATE_DISCONNECT)
    assert of.client.state.phase is Phase.CLOSED
    assert of.client.state.cause is None
    await trio.testing.wait_all_tasks_blocked()
    assert of.preferred.sessions == of.old.sessions == ()


# The move and the program that leaves wait for the same RECEIPT, and trio wakes them in either order.
@pytest.mark.parametrize("attempt", range(10))
async def test_leaving_when_the_move_waits_for_a_receipt_then_the_old_host_still_gets_disconnect(attempt: int) -> None:
    async with hosts(make_second=TappedHost) as of, pending_send(of):
        await of.move()
        assert await of.client.disconnect() is DisconnectResult.CLOSED
        assert isinstance(of.second, TappedHost)
        (link,) = of.second.links
    assert b"DISCONNECT" in link.sent, attempt


@pytest.mark.parametrize("late", [LATE_SEND, LATE_DISCONNECT])
async def test_move_when_cancelled_then_both_links_are_closed_at_once(late: DelayReceipts) -> None:
    of: Hosts | None = None
    with trio.move_on_after(FAIL_BACK_AFTER + 1) as scope:
        async with hosts() as of:
            async with pending_send(of, late), of.client.subscribe("/queue/a"):
                await trio.sleep_forever()
    assert scope.cancelled_caught
    assert trio.current_time() == pytest.approx(FAIL_BACK_AFTER + 1)
    await trio.testing.wait_all_tasks_blocked()
    assert of is not None
    assert of.preferred.sessions == of.old.sessions == ()


@pytest.mark.parametrize("late", [LATE_SEND, LATE_DISCONNECT])
async def test_move_when_the_old_link_is_lost_meanwhile_then_the_client_goes_on_at_the_next_host(
    late: DelayReceipts,
) -> None:
    async with hosts() as of, of.client.subscribe("/queue/a") as subscription:
        message = await take(of, subscription)
        async with pending_send(of, late):
            await of.move()
            of.old.faults.now(DropLink())
            await of.arrive()
            with pytest.raises(StaleMessage):
                await message.ack()
        of.preferred.publish("/queue/a", b"goes on")
        assert (await anext(subscription)).body == b"goes on"
        assert len(of.first.dialed) == 2  # at the beginning, and for the move


async def test_move_when_both_hosts_are_gone_then_the_client_comes_back_when_one_is() -> None:
    async with hosts() as of, of.client.subscribe("/queue/a") as subscription:
        async with pending_send(of):
            await of.move()
            of.first.refuses = of.second.refuses = True
            of.preferred.faults.now(DropLink())
            of.old.faults.now(DropLink())
            await trio.sleep(30)
            assert not of.client.state.healthy
            of.second.refuses = False
            of.old.publish("/queue/a", b"goes on")
            assert (await anext(subscription)).body == b"goes on"


async def test_move_when_the_last_loss_is_still_being_restored_then_it_is_tried_again() -> None:
    async with hosts() as of, of.client.subscribe("/queue/a"):
        of.first.refuses = True
        # The connection that follows is restored only when this RECEIPT has come.
        of.old.faults.plan(DelayReceipts(command=Command.SUBSCRIBE, seconds=FAIL_BACK_AFTER + DELAY))
        of.old.faults.now(DropLink())
        await trio.sleep(2)
        of.first.refuses = False
        await of.arrive()
        # The link that was opened too early is closed.
        assert len(of.preferred.sessions) == 1


async def test_deadline_when_a_moved_connection_is_lost_then_it_counts_from_that_loss() -> None:
    policy = Reconnect(
        first_delay=0.5, fail_back_after=FAIL_BACK_AFTER, deadline=20, stable_after=5, random=lambda: 1.0
    )
    async with hosts(reconnect=policy) as of:
        of.first.refuses = True
        await trio.sleep(100)
        of.first.refuses = False
        await of.arrive()
        of.first.refuses = of.second.refuses = True
        of.preferred.faults.now(DropLink())
        await trio.sleep(10)
        of.second.refuses = False
        await of.client.send("/queue/a", b"", receipt=True)


async def test_state_and_hooks_when_the_client_moves_then_they_tell_where_to() -> None:
    causes: list[StompError | None] = []

    class Told(Hooks):
        def disconnected(self, peer: ConnectionInfo, cause: StompError | None) -> None:
            causes.append(cause)

    phases: list[tuple[Phase, str]] = []
    async with hosts(hooks=[Told()]) as of:

        async def watch() -> None:
            phases.extend([(state.phase, str(state.cause)) async for state in of.client.state_changes()])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch)
            await of.arrive()
            await of.client.disconnect()
    left = "the connection to stomp://h1:61613 was left for stomp://h0:61613"
    assert phases[1:] == [(Phase.LOST, left), (Phase.CONNECTED, "None"), (Phase.CLOSED, "None")]
    assert [str(cause) for cause in causes] == [left, "None"]


async def test_publisher_when_the_client_moves_to_and_fro_then_all_is_confirmed_once_and_in_order() -> None:
    async with hosts() as of:
        try:
            async with of.client.publisher(max_in_flight=8) as publisher:
                for number in range(2000):
                    await publisher.send("/queue/a", b"%d" % number)
                    await trio.sleep(0.05)
                    if number % 500 == 499:
                        # Away from the preferred host, which is back in time for the next move.
                        of.first.refuses = True
                        of.preferred.faults.now(DropLink())
                        await trio.sleep(1)
                        of.first.refuses = False
        except UnconfirmedError as error:
            pytest.fail(str(error))
        assert of.client.statistics().reconnections >= 6
        got: list[int] = []
        for broker in (of.preferred, of.old):
            async with (
                trio_stomp.connect_stream(broker.connect_stream()) as reader,
                reader.subscribe("/queue/a", ack="auto", prefetch=5000) as subscription,
            ):
                here = [int(message.body) for message in await subscription.receive_batch(5000, linger=5)]
                assert here == sorted(here)
                got += here
        assert set(got) == set(range(2000))
