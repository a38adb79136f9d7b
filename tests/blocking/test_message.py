"""A message: what it shows, and how it is settled without waiting."""

from __future__ import annotations

import logging
from collections.abc import Generator

import pytest

import trio_stomp.blocking
from tests.blocking.conftest import QUEUE, left, lose
from trio_stomp import ConnectionLost, LocalProtocolError, Reconnect
from trio_stomp.blocking import Client, Message, Subscription
from trio_stomp.testing import Broker, BrokerOptions, NackPolicy, ThreadedBroker, run_broker_in_thread
from trio_stomp.types import Settlement


@pytest.fixture
def subscription(client: Client) -> Generator[Subscription]:
    for number in range(5):
        client.send(QUEUE, b'{"number": %d}' % number, headers={"n": str(number)}, content_type="application/json")
    with client.subscribe(QUEUE) as opened:
        yield opened


def test_message_when_taken_then_shows_what_it_is(subscription: Subscription) -> None:
    message = next(subscription)

    assert message.json() == {"number": 0}
    assert (message.body, message.text) == (b'{"number": 0}', '{"number": 0}')
    assert (message.destination, message.content_type, message.headers["n"]) == (QUEUE, "application/json", "0")
    assert (message.redelivered, message.delivery_count, message.sequence) == (False, 1, 1)
    assert message.id == message.stable_id
    assert message.subscription is subscription
    assert message.settlement is Settlement.UNSETTLED
    assert not message.is_stale
    assert repr(message).startswith("<Message")


def test_ack_when_not_waited_for_then_shown_at_once_and_done_soon(
    broker: ThreadedBroker, client: Client, subscription: Subscription
) -> None:
    messages = [next(subscription) for _ in range(5)]
    for message in messages:
        message.ack()
        assert message.settlement is Settlement.ACKED
    client.send("/queue/other", b"", receipt=True)

    assert {message.settlement for message in messages} == {Settlement.ACKED}
    assert left(broker) == 0


def test_ack_when_more_is_asked_for_then_waited_for(broker: ThreadedBroker, subscription: Subscription) -> None:
    first, second = next(subscription), next(subscription)
    first.ack(headers={"note": "x"})
    second.ack(receipt=True)

    assert (first.settlement, second.settlement) == (Settlement.ACKED, Settlement.ACKED)
    assert left(broker) == 3


def test_ack_when_done_twice_then_refused_at_the_second_call(subscription: Subscription) -> None:
    message = next(subscription)
    message.ack()

    with pytest.raises(LocalProtocolError, match="it is settled"):
        message.ack()


def test_ack_when_in_mode_client_then_earlier_ones_are_settled_too(broker: ThreadedBroker, client: Client) -> None:
    for _ in range(3):
        client.send(QUEUE, b"x")
    with client.subscribe(QUEUE, ack="client") as subscription:
        first, second, third = (next(subscription) for _ in range(3))
        second.ack()

        assert (first.settlement, second.settlement) == (Settlement.ACKED, Settlement.ACKED)
        assert third.settlement is Settlement.UNSETTLED
        with first:
            pass
        with pytest.raises(LocalProtocolError, match="it is settled"):
            first.ack()

    assert left(broker) == 1


def test_ack_when_the_link_is_lost_then_connection_lost_at_the_call(
    broker: ThreadedBroker, subscription: Subscription, client: Client
) -> None:
    message = next(subscription)
    lose(broker, client)

    with pytest.raises(ConnectionLost):
        message.ack()


def test_nack_when_called_then_delivered_again(subscription: Subscription) -> None:
    message = next(subscription)
    message.nack()

    assert message.settlement is Settlement.NACKED
    while (again := next(subscription)).body != message.body:
        pass
    assert again.redelivered


def test_block_when_it_settles_by_itself_then_nothing_more_is_done(subscription: Subscription) -> None:
    with next(subscription) as message:
        message.ack()

    assert message.settlement is Settlement.ACKED


def test_block_when_it_raises_then_refused_and_the_error_goes_its_way() -> None:
    error = ValueError("mine")
    with (
        run_broker_in_thread(options=BrokerOptions(nack=NackPolicy.DEAD_LETTER)) as broker,
        trio_stomp.blocking.connect(broker.url) as client,
    ):
        client.send(QUEUE, b"x")
        with client.subscribe(QUEUE) as subscription:
            with pytest.raises(ValueError, match="mine") as caught, next(subscription) as message:
                raise error

            assert caught.value is error
            assert message.settlement is Settlement.NACKED
        client.send("/queue/other", b"", receipt=True)
        assert left(broker) == 0
        assert left(broker, "/queue/dead-letter") == 1


def test_block_when_interrupted_then_left_unsettled(subscription: Subscription) -> None:
    with pytest.raises(KeyboardInterrupt), next(subscription) as message:
        raise KeyboardInterrupt

    assert message.settlement is Settlement.UNSETTLED


def test_block_when_its_connection_was_lost_then_said_and_not_raised(
    broker: ThreadedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    with trio_stomp.blocking.connect(broker.url, reconnect=Reconnect(first_delay=0)) as client:
        client.send(QUEUE, b"x", receipt=True)
        with client.subscribe(QUEUE) as subscription:
            with caplog.at_level(logging.WARNING, "trio_stomp"), next(subscription) as message:
                broker.call(Broker.drop_connections)
                again: Message = next(subscription)

            assert message.is_stale
            assert "stale" in caplog.text
            assert again.body == b"x"
            again.ack(receipt=True)

    assert left(broker) == 0


def test_block_when_it_raises_after_the_client_was_closed_then_the_error_goes_its_way(broker: ThreadedBroker) -> None:
    with trio_stomp.blocking.connect(broker.url) as client:
        client.send(QUEUE, b"x")
        with client.subscribe(QUEUE) as subscription:
            message = next(subscription)

    with pytest.raises(ValueError, match="mine"), message:
        raise ValueError("mine")
