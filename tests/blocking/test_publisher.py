"""A publisher: its window, what is confirmed, and what is not, by name."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Final

import pytest
import trio

import trio_stomp.blocking
from tests.blocking.conftest import QUEUE, bodies
from trio_stomp import (
    ConnectionLost,
    DeliveryStatus,
    LocalProtocolError,
    OutgoingMessage,
    Reconnect,
    StompError,
    UnconfirmedError,
)
from trio_stomp.blocking import Client, Publication, Publisher
from trio_stomp.blocking.thread import Call
from trio_stomp.testing import Broker, BrokerOptions, SwallowReceipts, ThreadedBroker, run_broker_in_thread


def test_publisher_when_left_well_then_all_are_confirmed_in_order(broker: ThreadedBroker, client: Client) -> None:
    with client.publisher(max_in_flight=7) as publisher:
        sent = [publisher.send(QUEUE, b"%d" % number) for number in range(100)]
        sent += publisher.send_many([OutgoingMessage(QUEUE, "ü"), OutgoingMessage(QUEUE, b"101", headers={"a": "b"})])

    assert (publisher.confirmed, publisher.in_flight) == (102, 0)
    assert {each.delivery for each in sent} == {DeliveryStatus.CONFIRMED}
    assert bodies(broker) == [*(b"%d" % number for number in range(100)), "ü".encode(), b"101"]


@pytest.mark.parametrize("window", [{"max_in_flight": 3}, {"max_in_flight": 100, "max_in_flight_bytes": 3000}])
def test_window_when_full_then_never_more_on_their_way(
    broker: ThreadedBroker, client: Client, window: dict[str, int]
) -> None:
    most = 0
    with client.publisher(
        window["max_in_flight"], max_in_flight_bytes=window.get("max_in_flight_bytes", 10**6)
    ) as publisher:
        for _ in range(200):
            publisher.send(QUEUE, b"x" * 1000)
            most = max(most, publisher.in_flight)

    assert 1 <= most <= 3
    assert len(bodies(broker)) == 200


@pytest.mark.parametrize("many", [False, True])
def test_publisher_when_it_goes_on_for_long_then_it_does_not_hold_what_is_confirmed_or_was_not_sent(
    client: Client, *, many: bool
) -> None:
    messages = [OutgoingMessage(QUEUE, b"x")] * 4
    with client.publisher(max_in_flight=4) as publisher:
        for _ in range(10):
            if many:
                publisher.send_many(messages)
            else:
                for message in messages:
                    publisher.send(message)
            publisher.wait_confirmed()
            assert publisher.in_flight == 0
            assert len(publisher._open) <= (8 if many else 4)
            with pytest.raises(LocalProtocolError):
                publisher.send(QUEUE, b"x", timeout=-1)


def test_publication_when_asked_then_tells_what_became_of_it(client: Client) -> None:
    with client.publisher() as publisher:
        publication = publisher.send(QUEUE, b"1234")
        assert (publication.destination, publication.body_bytes) == (QUEUE, 4)
        assert publication.id
        publication.wait()

        assert (publication.delivery, publication.error, publication.is_settled) == (
            DeliveryStatus.CONFIRMED,
            None,
            True,
        )
        publication.wait_settled()
        assert publication.id in repr(publication)


def test_publisher_when_a_message_is_refused_then_named() -> None:
    with (
        run_broker_in_thread(options=BrokerOptions(max_queue_length=2, errors_leave_open=True)) as broker,
        trio_stomp.blocking.connect(broker.url) as client,
    ):
        sent: list[Publication] = []
        with pytest.raises(UnconfirmedError) as caught:
            with client.publisher() as publisher:
                sent += [publisher.send(QUEUE, b"%d" % number) for number in range(3)]
                sent[2].wait_settled()

        assert [each.id for each in caught.value.messages] == [sent[2].id]
        assert sent[2].delivery is DeliveryStatus.REJECTED
        assert sent[2].error is not None


def test_publisher_when_the_link_is_lost_then_every_unconfirmed_message_is_named(
    broker: ThreadedBroker, client: Client
) -> None:
    broker.call(lambda inner: inner.faults.now(SwallowReceipts(count=100)))
    sent: list[Publication] = []
    with pytest.raises(UnconfirmedError) as caught:
        with client.publisher() as publisher:
            sent += [publisher.send(QUEUE, b"") for _ in range(3)]
            assert sent[2].id
            broker.call(Broker.drop_connections)

    assert [each.id for each in caught.value.messages] == [each.id for each in sent]
    with pytest.raises(StompError):
        client.wait_closed()


def test_send_when_the_link_is_lost_before_its_turn_then_named_without_an_id(
    broker: ThreadedBroker, client: Client
) -> None:
    sent: list[Publication] = []
    with pytest.raises(UnconfirmedError) as caught:
        with client.publisher() as publisher:
            gate = trio.Event()
            client._calls.post(gate.wait)
            late = publisher.send(QUEUE, b"late")
            sent.append(late)
            assert "unknown" in repr(late)
            broker.call(Broker.drop_connections)
            with pytest.raises(ConnectionLost):
                client._calls.link.run(Call(client._inner.wait_closed))
            client._calls.link.thread.soon(gate.set)
            late.wait_settled()

    (late,) = sent
    assert late.is_settled
    assert late.error is not None
    assert late.delivery is DeliveryStatus.UNKNOWN
    (named,) = caught.value.messages
    assert (named.id, named.destination) == ("", QUEUE)
    assert "it was not sent" in named.reason
    with pytest.raises(StompError):
        assert late.id
    lengths: list[int] = []
    for _ in range(3):
        with pytest.raises(StompError) as raised:
            late.wait()
        lengths.append(len(traceback.extract_tb(raised.value.__traceback__)))
    assert len(set(lengths)) == 1


VERBS: Final[dict[str, Callable[[Publisher], object]]] = {
    # It waits for room in the queue.
    "send": lambda publisher: publisher.send(QUEUE, b"x" * 100_000),
    # It waits for what is in the queue, because its window is full.
    "send to a full window": lambda publisher: publisher.send(QUEUE, b"x" * 2_000_000),
    "send_many": lambda publisher: publisher.send_many([OutgoingMessage(QUEUE, b"x")]),
    "wait_confirmed": lambda publisher: publisher.wait_confirmed(),
}


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
def test_verb_when_an_earlier_message_fails_while_it_waits_then_that_is_named(
    broker: ThreadedBroker, client: Client, verb: Callable[[Publisher], object]
) -> None:
    queue = client._calls.link.queue

    async def until_awaited() -> None:
        while not queue._progress:  # noqa: ASYNC110  # nothing tells it
            await trio.lowlevel.checkpoint()

    with client.publisher(max_in_flight_bytes=2_000_000) as publisher:
        client._calls.post(until_awaited)
        publisher.send(QUEUE, b"x" * 1_000_000)
        broker.call(Broker.drop_connections)
        with pytest.raises(ConnectionLost):
            client._calls.link.run(Call(client._inner.wait_closed))
        with pytest.raises(UnconfirmedError) as caught:
            verb(publisher)
    (named,) = caught.value.messages
    assert (named.id, named.destination) == ("", QUEUE)
    assert "it was not sent: the connection to" in named.reason


def test_publisher_when_the_link_comes_back_then_all_are_confirmed(broker: ThreadedBroker) -> None:
    with trio_stomp.blocking.connect(broker.url, reconnect=Reconnect(first_delay=0)) as client:
        with client.publisher(max_in_flight=10) as publisher:
            for number in range(100):
                publisher.send(QUEUE, b"%d" % number)
                if number == 50:
                    broker.call(Broker.drop_connections)

    assert publisher.confirmed == 100
    assert set(bodies(broker)) == {b"%d" % number for number in range(100)}
