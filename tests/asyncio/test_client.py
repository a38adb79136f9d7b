"""The client on asyncio: its verbs."""

from __future__ import annotations

import asyncio
import gc

import pytest
import trio

import trio_stomp.asyncio
from tests.kit.on_asyncio import on_asyncio
from trio_stomp import (
    BrokerError,
    ConnectError,
    ConnectionClosed,
    ConnectionLost,
    Farewell,
    LocalProtocolError,
    OutgoingMessage,
    Reconnect,
    RequestTimeout,
    UnconfirmedError,
)
from trio_stomp.asyncio import Client, Message, Publication, Transaction
from trio_stomp.testing import Broker, BrokerOptions, ThreadedBroker, run_broker_in_thread
from trio_stomp.types import Phase, Settlement, TransactionState, Version

QUEUE = "/queue/a"


def bodies(broker: ThreadedBroker, queue: str = QUEUE) -> list[bytes]:
    return broker.call(lambda inner: [message.body for message in inner.messages(queue)])


def depth(broker: ThreadedBroker, queue: str = QUEUE) -> int:
    return broker.call(lambda inner: inner.depth(queue))


def phase(client: Client) -> Phase:
    return client.state.phase


def settlement(message: Message) -> Settlement:
    return message.settlement


async def lose(broker: ThreadedBroker, client: Client) -> None:
    broker.call(Broker.drop_connections)
    with pytest.raises(ConnectionLost):
        await client.wait_closed()


# --- connecting -------------------------------------------------------------------------------------------------------


@on_asyncio
async def test_client_when_connected_then_shows_what_was_agreed_upon(broker: ThreadedBroker) -> None:
    async with trio_stomp.asyncio.connect(broker.url) as client:
        assert client.version is Version.V1_2
        assert (client.server or "").startswith("trio-stomp-testing")
        assert client.session
        assert client.profile.name == "trio_stomp.testing"
        assert client.heart_beat.client_sends_ms
        assert phase(client) is Phase.CONNECTED
        assert client.statistics().frames_sent == 0
    assert phase(client) is Phase.CLOSED
    assert client.statistics().frames_sent == 1


@on_asyncio
async def test_connect_when_the_broker_is_not_there_then_connect_error_and_no_thread_is_left() -> None:
    with pytest.raises(ConnectError):
        async with trio_stomp.asyncio.connect("stomp://127.0.0.1:1"):
            pytest.fail("connected")


@on_asyncio
async def test_connect_when_the_body_raises_then_that_same_exception_and_closed_at_once(broker: ThreadedBroker) -> None:
    error = ValueError("mine")
    opened: list[Client] = []
    with pytest.raises(ValueError, match="mine") as caught:
        async with trio_stomp.asyncio.connect(broker.url) as client:
            opened.append(client)
            raise error
    assert caught.value is error
    assert phase(opened[0]) is Phase.CLOSED
    with pytest.raises(ConnectionClosed):
        await opened[0].send(QUEUE, b"1")


@on_asyncio
async def test_open_when_closed_then_disconnected_and_a_second_close_does_nothing(broker: ThreadedBroker) -> None:
    client = await trio_stomp.asyncio.open(broker.url)
    await client.send(QUEUE, b"1")
    await client.aclose()
    await client.aclose()
    assert phase(client) is Phase.CLOSED
    assert bodies(broker) == [b"1"]


@on_asyncio
async def test_open_when_closed_by_another_task_then_the_same(broker: ThreadedBroker) -> None:
    client = await asyncio.create_task(trio_stomp.asyncio.open(broker.url))
    await asyncio.create_task(client.aclose())  # noqa: ASYNC300  # awaited in the same line
    assert phase(client) is Phase.CLOSED


# --- sending ----------------------------------------------------------------------------------------------------------


@on_asyncio
async def test_send_when_not_confirmed_then_in_the_order_of_the_calls(broker: ThreadedBroker) -> None:
    async with trio_stomp.asyncio.connect(broker.url) as client:
        await client.send(QUEUE, b"1")
        # What is not plain keeps its place.
        await client.send(QUEUE, b"2", headers={"a": "line\nend"})
        await client.send(QUEUE, "3", headers={"a": "b"})
        await client.send_many([OutgoingMessage(QUEUE, "4"), OutgoingMessage(QUEUE, "ü")])
        await client.send(QUEUE, b"6", receipt=True)
        assert bodies(broker) == [b"1", b"2", b"3", b"4", "ü".encode(), b"6"]


# --- receiving --------------------------------------------------------------------------------------------------------


@on_asyncio
async def test_subscription_when_iterated_then_each_message_can_be_acknowledged(broker: ThreadedBroker) -> None:
    async with trio_stomp.asyncio.connect(broker.url) as client:
        for number in range(300):
            await client.send(QUEUE, b"%d" % number)
        taken: list[bytes] = []
        async with client.subscribe(QUEUE, prefetch=50) as subscription:
            async for message in subscription:
                taken.append(message.body)
                await message.ack()
                assert message.settlement is Settlement.ACKED
                if len(taken) == 300:
                    break
        assert taken == [b"%d" % number for number in range(300)]
        await client.send("/queue/after", b"", receipt=True)
        assert depth(broker) == 0


# --- transactions -----------------------------------------------------------------------------------------------------


@on_asyncio
async def test_transaction_when_its_block_ends_then_all_of_it_takes_effect(broker: ThreadedBroker) -> None:
    async with trio_stomp.asyncio.connect(broker.url) as client, client.subscribe(QUEUE) as subscription:
        await client.send(QUEUE, b"1")
        message = await anext(subscription)
        async with client.transaction() as transaction:
            await transaction.send("/queue/b", b"2")
            await transaction.ack(message)
            assert settlement(message) is Settlement.IN_TRANSACTION
            assert depth(broker, "/queue/b") == 0
        assert transaction.state is TransactionState.COMMITTED
        assert settlement(message) is Settlement.ACKED
        assert bodies(broker, "/queue/b") == [b"2"]


@on_asyncio
async def test_transaction_when_its_block_raises_then_nothing_takes_effect_and_the_message_is_open(
    broker: ThreadedBroker,
) -> None:
    async with trio_stomp.asyncio.connect(broker.url) as client, client.subscribe(QUEUE) as subscription:
        await client.send(QUEUE, b"1")
        message = await anext(subscription)
        error = ValueError("mine")
        with pytest.raises(ValueError, match="mine") as caught:
            async with client.transaction() as transaction:
                await transaction.ack(message)
                raise error
        assert caught.value is error
        assert settlement(message) is Settlement.OPEN
        await message.ack()


@on_asyncio
async def test_abort_when_called_then_the_state_says_so_at_once_and_a_second_one_is_refused(
    broker: ThreadedBroker,
) -> None:
    async with trio_stomp.asyncio.connect(broker.url) as client, client.transaction() as transaction:
        await transaction.send(QUEUE, b"1")
        transaction.abort()
        assert transaction.state is TransactionState.ABORTED
        with pytest.raises(LocalProtocolError, match="begin another one"):
            transaction.abort()
        with pytest.raises(LocalProtocolError, match="begin another one"):
            await transaction.send(QUEUE, b"2")
    assert depth(broker) == 0


@on_asyncio
async def test_run_transaction_when_the_link_is_lost_before_commit_then_runs_again(broker: ThreadedBroker) -> None:
    attempts: list[int] = []

    async def work(transaction: Transaction) -> str:
        attempts.append(len(attempts))
        await transaction.send(QUEUE, b"%d" % len(attempts))
        if len(attempts) == 1:
            changes = client.state_changes()
            broker.call(Broker.drop_connections)
            async for state in changes:
                if state.phase is not Phase.CONNECTED:
                    break
        return "done"

    async with trio_stomp.asyncio.connect(broker.url, reconnect=Reconnect(first_delay=0)) as client:
        assert await client.run_transaction(work) == "done"
        with pytest.raises(LocalProtocolError, match="attempts must be at least 1"):
            await client.run_transaction(work, attempts=0)
    assert attempts == [0, 1]
    assert bodies(broker) == [b"2"]


# --- failures ---------------------------------------------------------------------------------------------------------


@on_asyncio
async def test_send_when_the_connection_is_lost_then_raised_by_the_verbs_that_follow(broker: ThreadedBroker) -> None:
    with pytest.raises(ConnectionLost):
        async with trio_stomp.asyncio.connect(broker.url) as client:
            await lose(broker, client)
            await client.send(QUEUE, b"1")


@on_asyncio
async def test_leaving_when_the_connection_was_lost_and_nothing_noticed_then_raises(broker: ThreadedBroker) -> None:
    with pytest.raises(ConnectionLost):
        async with trio_stomp.asyncio.connect(broker.url) as client:
            broker.call(Broker.drop_connections)
            # Nothing waits for an answer; the loss is seen by the trio thread alone.
            async for state in client.state_changes():
                if state.phase is Phase.CLOSED:
                    break


@on_asyncio
async def test_subscription_when_the_client_reconnects_then_goes_on(broker: ThreadedBroker) -> None:
    async with (
        trio_stomp.asyncio.connect(broker.url, reconnect=Reconnect(first_delay=0)) as client,
        client.subscribe(QUEUE) as subscription,
    ):
        await client.send(QUEUE, b"1", receipt=True)
        async with await anext(subscription):
            pass
        await client.send("/queue/after", b"", receipt=True)
        broker.call(Broker.drop_connections)
        await client.send(QUEUE, b"2", receipt=True)
        message = await anext(subscription)
        assert message.body == b"2"
        await message.ack(receipt=True)


@on_asyncio
async def test_publisher_when_left_then_everything_is_confirmed(broker: ThreadedBroker) -> None:
    async with trio_stomp.asyncio.connect(broker.url) as client:
        async with client.publisher(max_in_flight=10) as publisher:
            sent = [await publisher.send(QUEUE, b"%d" % number) for number in range(100)]
            assert publisher.in_flight <= 10
        assert publisher.confirmed == 100
        assert all(each.is_settled and each.error is None for each in sent)
        assert len({each.id for each in sent}) == 100
        assert bodies(broker) == [b"%d" % number for number in range(100)]


@on_asyncio
async def test_publisher_when_many_are_sent_again_and_again_then_those_that_are_settled_are_freed(
    broker: ThreadedBroker,
) -> None:
    async with trio_stomp.asyncio.connect(broker.url) as client:
        async with client.publisher() as publisher:
            for _ in range(5):
                await publisher.send_many([OutgoingMessage(QUEUE, b"1")] * 10)
                await publisher.wait_confirmed()

            held = sum(isinstance(each, Publication) for each in gc.get_objects())

    assert held <= 10


@on_asyncio
async def test_publisher_when_several_tasks_send_then_none_is_lost(broker: ThreadedBroker) -> None:
    async with trio_stomp.asyncio.connect(broker.url) as client:
        async with client.publisher(max_in_flight=4) as publisher, asyncio.TaskGroup() as tasks:

            async def send(name: int) -> None:
                for number in range(20):
                    await publisher.send(QUEUE, b"%d %d" % (name, number))

            for name in range(5):
                tasks.create_task(send(name))
        for name in range(5):
            own = [body for body in bodies(broker) if body.startswith(b"%d " % name)]
            assert own == [b"%d %d" % (name, number) for number in range(20)]


@on_asyncio
async def test_publisher_when_the_broker_refuses_then_unconfirmed_error_names_each() -> None:
    with run_broker_in_thread(options=BrokerOptions(max_queue_length=1, errors_leave_open=True)) as broker:
        async with trio_stomp.asyncio.connect(broker.url) as client:
            ids: list[str] = []
            with pytest.raises(UnconfirmedError) as caught:
                async with client.publisher() as publisher:
                    await publisher.send(QUEUE, b"1")
                    refused = await publisher.send(QUEUE, b"2")
                    await refused.wait_settled()
                    ids.append(refused.id)
            assert [each.id for each in caught.value.messages] == ids


@on_asyncio
async def test_send_when_refused_then_broker_error() -> None:
    with run_broker_in_thread(options=BrokerOptions(max_queue_length=1, errors_leave_open=True)) as broker:
        async with trio_stomp.asyncio.connect(broker.url) as client:
            await client.send(QUEUE, b"1", receipt=True)
            with pytest.raises(BrokerError):
                await client.send(QUEUE, b"2", receipt=True)


@on_asyncio
async def test_send_when_a_header_cannot_be_represented_then_raised_by_that_call(broker: ThreadedBroker) -> None:
    async with trio_stomp.asyncio.connect(broker.url) as client:
        with pytest.raises(LocalProtocolError):
            await client.send(QUEUE, b"1", headers={"receipt": "mine"})
        await client.send(QUEUE, b"2", receipt=True)
    assert bodies(broker) == [b"2"]


# --- messages ---------------------------------------------------------------------------------------------------------


@on_asyncio
async def test_message_when_settled_twice_then_refused(broker: ThreadedBroker) -> None:
    async with trio_stomp.asyncio.connect(broker.url) as client, client.subscribe(QUEUE) as subscription:
        await client.send(QUEUE, b"1")
        message = await anext(subscription)
        await message.ack()
        with pytest.raises(LocalProtocolError, match="settled"):
            await message.ack()


@on_asyncio
async def test_message_block_when_it_raises_then_refused_and_redelivered(broker: ThreadedBroker) -> None:
    async with trio_stomp.asyncio.connect(broker.url) as client, client.subscribe(QUEUE) as subscription:
        await client.send(QUEUE, b"1")
        error = ValueError("mine")
        with pytest.raises(ValueError, match="mine") as caught:
            async with await anext(subscription):
                raise error
        assert caught.value is error
        async with await anext(subscription) as again:
            assert again.redelivered
            assert again.delivery_count == 2


@on_asyncio
async def test_message_when_of_another_client_then_refused_in_words(broker: ThreadedBroker) -> None:
    async with trio_stomp.asyncio.connect(broker.url) as client, client.subscribe(QUEUE) as subscription:
        await client.send(QUEUE, b"1")
        message = await anext(subscription)
        async with client.subscribe("/queue/other") as other:
            with pytest.raises(LocalProtocolError, match="not over"):
                await other.ack_up_to(message)
        foreign: object = "no message"
        with pytest.raises(LocalProtocolError, match=r"expected a message of trio_stomp\.asyncio"):
            await subscription.ack_up_to(foreign)  # type: ignore[arg-type]  # wrong on purpose


@on_asyncio
async def test_ack_up_to_when_called_then_all_earlier_ones_are_settled(broker: ThreadedBroker) -> None:
    async with trio_stomp.asyncio.connect(broker.url) as client, client.subscribe(QUEUE) as subscription:
        await client.send_many([OutgoingMessage(QUEUE, b"%d" % number) for number in range(5)], receipt=True)
        batch = await subscription.receive_batch(5, linger=5)
        await subscription.ack_up_to(batch[3])
        assert [each.settlement for each in batch] == [Settlement.ACKED] * 4 + [Settlement.OPEN]
        await batch[4].ack(receipt=True)
        assert subscription.statistics().unsettled == 0
    assert depth(broker) == 0


# --- waiting ----------------------------------------------------------------------------------------------------------


@on_asyncio
async def test_waiting_when_a_timeout_ends_it_then_timeout_error_and_the_next_message_is_taken(
    broker: ThreadedBroker,
) -> None:
    async with trio_stomp.asyncio.connect(broker.url) as client, client.subscribe(QUEUE) as subscription:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await anext(subscription)
        await client.send(QUEUE, b"1")
        async with await anext(subscription) as message:
            assert message.body == b"1"


@on_asyncio
async def test_task_group_when_one_task_fails_then_the_others_leave_their_messages_to_the_broker(
    broker: ThreadedBroker,
) -> None:
    taken = asyncio.Event()

    async def consume(client: Client) -> None:
        async with client.subscribe(QUEUE) as subscription, await anext(subscription):
            taken.set()
            await asyncio.Event().wait()

    async def fail() -> None:
        await taken.wait()
        raise ValueError("mine")

    with pytest.raises(ExceptionGroup) as caught:  # noqa: ASYNC401  # its member is looked at
        async with trio_stomp.asyncio.connect(broker.url) as client, asyncio.TaskGroup() as tasks:
            await client.send(QUEUE, b"1")
            tasks.create_task(consume(client))
            tasks.create_task(fail())
    assert [str(error) for error in caught.value.exceptions] == ["mine"]
    assert depth(broker) == 1


@on_asyncio
async def test_subscription_when_several_tasks_iterate_then_each_message_goes_to_one(broker: ThreadedBroker) -> None:
    taken: list[bytes] = []
    enough = asyncio.Event()

    async def consume(subscription: trio_stomp.asyncio.Subscription) -> None:
        async for message in subscription:
            async with message:
                taken.append(message.body)
                await asyncio.sleep(0)
            if len(taken) == 50:
                enough.set()

    async with trio_stomp.asyncio.connect(broker.url) as client, client.subscribe(QUEUE, prefetch=7) as subscription:
        tasks = [asyncio.create_task(consume(subscription)) for _ in range(5)]
        for number in range(50):
            await client.send(QUEUE, b"%d" % number)
        await enough.wait()
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    assert sorted(taken, key=int) == [b"%d" % number for number in range(50)]
    assert depth(broker) == 0


@on_asyncio
async def test_subscription_when_left_then_its_other_consumers_stop(broker: ThreadedBroker) -> None:
    async with trio_stomp.asyncio.connect(broker.url) as client:
        async with client.subscribe(QUEUE) as subscription:
            task = asyncio.create_task(subscription.receive_batch(1))
            await asyncio.sleep(0)
        assert await task == []
        with pytest.raises(StopAsyncIteration):
            await anext(subscription)


@on_asyncio
async def test_state_changes_when_closed_then_the_last_one_is_told(broker: ThreadedBroker) -> None:
    begun = asyncio.Event()

    async def watch(client: Client) -> list[Phase]:
        changes = client.state_changes()
        seen = [(await anext(changes)).phase]
        begun.set()
        return seen + [state.phase async for state in changes]

    async with trio_stomp.asyncio.connect(broker.url) as client:
        task = asyncio.create_task(watch(client))
        await begun.wait()
    seen = await task
    assert seen[0] is Phase.CONNECTED
    assert seen[-1] is Phase.CLOSED


@on_asyncio
async def test_disconnect_when_called_then_says_how_it_ended(broker: ThreadedBroker) -> None:
    async with trio_stomp.asyncio.connect(broker.url) as client:
        assert await client.disconnect() is Farewell.RECEIPT


@on_asyncio
async def test_request_when_answered_then_its_reply_and_otherwise_request_timeout(broker: ThreadedBroker) -> None:
    async def serve(client: Client) -> None:
        async with client.subscribe("/queue/echo", ack="auto") as requests:
            async for request in requests:
                headers = {"correlation-id": request.headers["correlation-id"]}
                await client.send(request.headers["reply-to"], request.body, headers=headers)

    async with trio_stomp.asyncio.connect(broker.url) as client:
        server = asyncio.create_task(serve(client))
        replies = await asyncio.gather(
            *(client.request("/queue/echo", b"%d" % number, timeout=30) for number in range(5))
        )
        assert [reply.body for reply in replies] == [b"%d" % number for number in range(5)]
        server.cancel()
        await asyncio.wait([server])
        with pytest.raises(RequestTimeout):
            await client.request("/queue/nobody", b"1", timeout=0.01)


# --- wrong uses -------------------------------------------------------------------------------------------------------


@on_asyncio
async def test_block_when_awaited_instead_then_the_error_says_what_to_write(broker: ThreadedBroker) -> None:
    made: object = trio_stomp.asyncio.connect(broker.url)
    with pytest.raises(TypeError, match=r"async with trio_stomp\.asyncio\.connect\(\.\.\.\) as client"):
        await made  # type: ignore[misc]  # wrong on purpose
    with pytest.raises(TypeError, match="cannot be constructed"):
        Client()
    with pytest.raises(TypeError, match="cannot be constructed"):
        Message()


def test_trio_connect_when_run_by_asyncio_then_the_error_names_the_room_for_asyncio() -> None:
    async def main() -> None:
        async with trio_stomp.connect("stomp://localhost"):
            pytest.fail("connected")

    with pytest.raises(RuntimeError, match=r"trio_stomp\.asyncio\.connect"):
        asyncio.run(main())


def test_open_when_asyncio_is_not_running_then_the_error_names_the_other_clients() -> None:
    async def main() -> None:
        async with trio_stomp.asyncio.connect("stomp://localhost"):
            pytest.fail("connected")

    with pytest.raises(RuntimeError, match=r"asyncio is not running here.* trio_stomp\.connect\(\)"):
        trio.run(main)
    with pytest.raises(RuntimeError, match=r"asyncio is not running here"):
        trio_stomp.asyncio.open("stomp://localhost").send(None)
