"""Synchronous code at the real brokers: the verbs, and what a subscription gives back that has crossed the threads."""

from __future__ import annotations

import trio_stomp.blocking
from tests.interop.bench import Destination
from tests.interop.broker_facts import Broker

COUNT = 500


def test_messages_when_sent_and_acknowledged_without_waiting_then_none_is_left(
    broker: Broker, destination: Destination
) -> None:
    queue = destination("blocking")
    with trio_stomp.blocking.connect(broker.url()) as client:
        for number in range(COUNT):
            client.send(queue, b"%d" % number)
        client.send(queue, b"last", receipt=True)
        taken: list[bytes] = []
        with client.subscribe(queue) as subscription:
            for message in subscription:
                with message:
                    taken.append(message.body)
                if message.body == b"last":
                    break
        assert taken == [*(b"%d" % number for number in range(COUNT)), b"last"]

        # All were acknowledged: what comes next is what is sent next.
        client.send(queue, b"new", receipt=True)
        with client.subscribe(queue) as subscription, next(subscription) as message:
            assert message.body == b"new"


def test_leaving_when_messages_have_crossed_and_were_not_handed_out_then_given_back_in_order(
    broker: Broker, destination: Destination
) -> None:
    queue = destination("blocking-leave")
    with trio_stomp.blocking.connect(broker.url()) as client:
        with client.publisher() as publisher:
            for number in range(50):
                publisher.send(queue, b"%d" % number)
        assert publisher.confirmed == 50
        with client.subscribe(queue, prefetch=20) as subscription:
            for expected in range(5):
                with next(subscription) as message:
                    assert int(message.body) == expected
        # The same connection lives on, so that nothing is given back by its end.
        with client.subscribe(queue, prefetch=20) as subscription:
            rest: list[int] = []
            for message in subscription:
                with message:
                    rest.append(int(message.body))
                if len(rest) == 45:
                    break
        assert sorted(rest) == list(range(5, 50))
