"""Publishers: confirmed sends in a window."""

import gc

import anyio
import pytest
import trio

import trio_stomp
from tests.client.clients import client_of
from tests.kit.costs import collect_only_new
from tests.kit.loops import LOOPS, lasting, on_loops
from tests.kit.reconnecting import Host, reconnecting
from trio_stomp import (
    BrokerError,
    Client,
    ConnectionClosed,
    ConnectionLost,
    DeliveryStatus,
    LocalProtocolError,
    OperationTimeout,
    OutgoingMessage,
    Publication,
    Reconnect,
    UnconfirmedError,
)
from trio_stomp.testing import (
    Broker,
    DelayReceipts,
    DropLink,
    SwallowReceipts,
)

pytestmark = [pytest.mark.anyio, on_loops("trio")]


def bodies(broker: Broker) -> list[str]:
    return [message.body.decode() for message in broker.messages("/queue/a")]


async def test_publisher_when_left_then_all_are_confirmed_in_order(broker: Broker, client: Client) -> None:
    async with client.publisher(max_in_flight=7) as publisher:
        publications = [await publisher.send("/queue/a", str(number)) for number in range(50)]
        assert publisher.in_flight <= 7
    assert publisher.confirmed == 50
    assert {publication.delivery for publication in publications} == {DeliveryStatus.CONFIRMED}
    assert repr(publications[0]) == f"<Publication {publications[0].id} to '/queue/a': confirmed>"
    assert bodies(broker) == [str(number) for number in range(50)]


@pytest.mark.parametrize(
    ("session", "window"), [((3, 100), (99, 9999)), ((99, 9999), (3, 100))], ids=["of the session", "of the publisher"]
)
@pytest.mark.parametrize(
    ("sizes", "waits"),
    [
        ([0, 0, 0], False),
        ([0, 0, 0, 0], True),
        ([40, 60], False),
        ([40, 61], True),
        # One that is larger than all goes by itself.
        ([1000], False),
        ([1000, 0], True),
    ],
)
async def test_room_when_a_bound_is_reached_exactly_then_messages_go_up_to_it_and_wait_beyond(
    session: tuple[int, int], window: tuple[int, int], sizes: list[int], broker: Broker, *, waits: bool
) -> None:
    async with (
        trio_stomp.connect_stream(
            broker.connect_stream(), unconfirmed_messages=session[0], unconfirmed_bytes=session[1]
        ) as client,
        client.publisher(window[0], max_in_flight_bytes=window[1]) as publisher,
    ):
        broker.faults.now(DelayReceipts(seconds=10, count=None))
        with lasting(10 if waits else 0):
            for size in sizes:
                await publisher.send("/queue/a", b"x" * size)


@pytest.mark.parametrize("many", [False, True])
async def test_room_when_text_has_more_bytes_than_characters_then_the_bytes_count(
    broker: Broker, client: Client, *, many: bool
) -> None:
    broker.faults.now(DelayReceipts(seconds=10, count=None))
    async with client.publisher(max_in_flight_bytes=100) as publisher:
        with lasting(10):
            for _ in range(2):
                if many:
                    await publisher.send_many([OutgoingMessage("/queue/a", "č" * 30)])
                else:
                    await publisher.send("/queue/a", "č" * 30)


async def test_publisher_when_bytes_are_confirmed_then_they_make_room_again(broker: Broker, client: Client) -> None:
    """Three bodies of 40 bytes do not fit into 100, and two do: each time, however many went before."""
    broker.faults.now(DelayReceipts(seconds=10, count=None))
    began = trio.current_time()
    async with client.publisher(max_in_flight_bytes=100) as publisher:
        for number in range(10):
            await publisher.send("/queue/a", b"x" * 40)
            assert publisher.in_flight == number % 2 + 1
            assert trio.current_time() - began == pytest.approx(10 * (number // 2))


async def test_publisher_when_a_message_is_refused_then_its_bytes_make_room_again() -> None:
    async with client_of("ActiveMQ/6.1", versions=["1.1"]) as (client, broker):
        broker.faults.now(SwallowReceipts(count=1))
        async with client.publisher(max_in_flight_bytes=100) as publisher:
            refused = await publisher.send("/queue/a", b"x" * 60)
            broker.faults.send_error("no", receipt_id="r-1", close=False)
            with pytest.raises(BrokerError):
                await refused.wait()
            broker.faults.now(DelayReceipts(seconds=10, count=None))
            for number in range(2):
                await publisher.send("/queue/a", b"x" * 50)
                assert publisher.in_flight == number + 1


@pytest.mark.parametrize("in_one_call", [False, True], ids=["send", "send_many"])
async def test_publisher_when_links_break_all_the_time_then_nothing_is_lost_and_order_is_kept(
    broker: Broker, *, in_one_call: bool
) -> None:
    broker.faults.plan(DropLink(after_received_bytes=3000), connections=6)
    async with reconnecting(broker) as client:
        async with client.publisher(max_in_flight=20) as publisher:
            if in_one_call:
                await publisher.send_many(OutgoingMessage("/queue/a", str(number)) for number in range(100))
            else:
                for number in range(100):
                    await publisher.send("/queue/a", str(number))
        assert client.statistics().reconnections >= 3
    assert publisher.confirmed == 100
    arrived = bodies(broker)
    assert list(dict.fromkeys(arrived)) == [str(number) for number in range(100)]
    # Only what was in the window can have come twice.
    assert len(arrived) <= 100 + 20 * 6


async def test_publisher_when_the_client_gives_up_then_the_error_names_each_message(broker: Broker, host: Host) -> None:
    async with reconnecting(host, reconnect=Reconnect(attempts=2)) as client:
        publications: list[Publication] = []
        with pytest.raises(
            UnconfirmedError, match=r"5 messages were not confirmed: .* and 2 more, in .messages"
        ) as caught:
            async with client.publisher() as publisher:
                await publisher.send("/queue/a", b"fine")
                await publisher.wait_confirmed()
                broker.faults.now(SwallowReceipts(count=100))
                publications = [await publisher.send(f"/queue/{number}", b"") for number in range(5)]
                host.go_down()
    assert [message.destination for message in caught.value.messages] == [f"/queue/{number}" for number in range(5)]
    assert [message.id for message in caught.value.messages] == [each.id for each in publications]
    assert {message.delivery for message in caught.value.messages} == {DeliveryStatus.UNKNOWN}
    assert isinstance(caught.value.__cause__, ConnectionLost)


async def test_publisher_when_the_link_is_gone_for_good_then_send_names_what_is_unconfirmed(
    broker: Broker, client: Client
) -> None:
    broker.faults.now(SwallowReceipts(count=100))
    with pytest.raises(UnconfirmedError, match="1 message was not confirmed"):
        async with client.publisher() as publisher:
            await publisher.send("/queue/a", b"")
            broker.faults.now(DropLink())
            await trio.sleep(1)
            await publisher.send("/queue/a", b"")
    with pytest.raises(ConnectionLost) as caught:
        async with client.publisher() as publisher:
            await publisher.send("/queue/a", b"")
    # The chain of causes has an end.
    assert caught.value.__cause__ is not caught.value


async def test_publisher_when_the_client_is_leaving_then_send_says_so_and_a_refused_message_is_named_at_the_end(
    broker: Broker,
) -> None:
    async with reconnecting(broker) as client:
        with pytest.raises(UnconfirmedError, match="not this one"):
            async with client.publisher() as publisher, trio.open_nursery() as nursery:
                broker.faults.now(SwallowReceipts())
                refused = await publisher.send("/queue/a", b"")
                await trio.sleep(1)
                broker.faults.send_error("not this one", receipt_id=refused._receipt_id)
                await trio.sleep(5)
                broker.faults.now(DelayReceipts(seconds=5))
                await publisher.send("/queue/a", b"")
                nursery.start_soon(client.disconnect)
                await trio.sleep(1)
                with pytest.raises(ConnectionClosed):
                    await publisher.send("/queue/a", b"late")


async def test_publisher_when_failures_were_raised_to_somebody_then_it_forgets_them(broker: Broker) -> None:
    def remembered() -> int:
        gc.collect()
        return sum(type(each) is Publication for each in gc.get_objects())

    with collect_only_new():
        async with reconnecting(broker) as client, client.publisher() as publisher:
            for _ in range(20):
                broker.faults.now(SwallowReceipts())
                publication = await publisher.send("/queue/a", b"")
                await trio.sleep(1)
                broker.faults.send_error("not this one", receipt_id=publication._receipt_id)
                with pytest.raises(BrokerError, match="not this one"):
                    await publication.wait()
                assert publication.delivery is DeliveryStatus.REJECTED
                await (await publisher.send("/queue/a", b"")).wait()
            assert remembered() <= 2


async def test_publication_when_waited_for_a_little_again_and_again_then_no_wait_that_is_over_is_kept(
    broker: Broker, client: Client, autojump_clock: trio.testing.MockClock
) -> None:
    def waiters() -> int:
        return sum(type(each).__name__ == "Waiter" for each in gc.get_objects())

    async with client.publisher() as publisher:
        broker.faults.now(DelayReceipts(seconds=100))
        publication = await publisher.send("/queue/a", b"")
        before = waiters()
        for _ in range(50):
            with trio.move_on_after(0.5):
                await publication.wait()
            with pytest.raises(OperationTimeout):
                await publication.wait(timeout=0.5)
        assert not publication.is_settled
        assert waiters() - before <= 1


async def test_publisher_when_its_block_raises_what_takes_no_note_then_that_goes_out_all_the_same(
    broker: Broker, client: Client, caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    class Noteless(Exception):
        def add_note(self, note: str, /) -> None:
            raise TypeError(note)

    broker.faults.now(SwallowReceipts())
    with pytest.raises(Noteless):
        async with client.publisher() as publisher:
            await publisher.send("/queue/a", b"")
            raise Noteless
    assert "1 message was not confirmed" in caplog.text


async def test_publisher_when_its_block_raises_then_that_goes_out_with_a_note_of_what_is_unconfirmed(
    broker: Broker, client: Client
) -> None:
    broker.faults.now(SwallowReceipts(count=100))
    mine = RuntimeError("mine")
    with pytest.raises(RuntimeError) as caught:
        async with client.publisher() as publisher:
            await publisher.send("/queue/a", b"")
            raise mine
    assert caught.value is mine
    assert "1 message was not confirmed" in mine.__notes__[0]
    assert "its RECEIPT had not come" in mine.__notes__[0]
    assert client.statistics().unconfirmed == 0


async def test_publisher_when_cancelled_then_nothing_is_waited_for_or_sent_again(broker: Broker) -> None:
    async with reconnecting(broker) as client:
        broker.faults.now(SwallowReceipts(count=100))
        with trio.move_on_after(1):
            async with client.publisher() as publisher:
                for _ in range(3):
                    await publisher.send("/queue/a", b"")
        assert client.statistics().unconfirmed == client.statistics().receipts_pending == 0
        broker.faults.now(DropLink())
        await trio.sleep(10)
        assert client.statistics().resent == 0


@on_loops(*LOOPS)
async def test_publisher_when_nothing_is_left_to_wait_for_then_a_cancellation_is_raised_all_the_same(
    client: Client,
) -> None:
    async def leave() -> None:
        async with client.publisher():
            pass

    async with client.publisher() as publisher:
        publication = await publisher.send("/queue/a", b"")
        await publication.wait()
        for wait in (publication.wait, publication.wait_settled, publisher.wait_confirmed, leave):
            with anyio.CancelScope() as scope:
                scope.cancel()
                await wait()
            assert scope.cancelled_caught


@pytest.mark.parametrize("receipt", [False, True])
async def test_send_many_when_more_than_its_window_then_all_are_there_in_order(
    broker: Broker, client: Client, *, receipt: bool
) -> None:
    await client.send_many((OutgoingMessage("/queue/a", str(number)) for number in range(600)), receipt=receipt)
    await client.disconnect()
    assert bodies(broker) == [str(number) for number in range(600)]


async def test_send_many_when_a_message_cannot_be_sent_then_those_before_it_were(
    broker: Broker, client: Client
) -> None:
    messages = [OutgoingMessage("/queue/a", "1"), OutgoingMessage("/queue/a", "2", headers={"bad": "\0"})]
    with pytest.raises(LocalProtocolError):
        await client.send_many(messages)
    await client.disconnect()
    assert broker.depth("/queue/a") == 1
