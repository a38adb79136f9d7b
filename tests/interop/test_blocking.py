"""Synchronous code at the real brokers: the verbs, and what a subscription gives back that has crossed the threads."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

import trio_stomp.blocking
from tests.interop.broker_facts import Broker
from trio_stomp.blocking import Message

Destination = Callable[[str], str]

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


def test_transaction_when_it_moves_messages_then_they_are_there_alone(broker: Broker, destination: Destination) -> None:
    source, target = destination("blocking-from"), destination("blocking-to")
    with trio_stomp.blocking.connect(broker.url()) as client:
        client.send(source, b"1", receipt=True)
        with client.subscribe(source) as subscription:
            message = next(subscription)
            with pytest.raises(ValueError, match="no"), client.transaction() as transaction:
                transaction.send(target, b"wrong")
                transaction.ack(message)
                raise ValueError("no")
            with client.transaction() as transaction:
                transaction.send(target, message.body + b"!")
                transaction.ack(message)
        with client.subscribe(target) as subscription, next(subscription) as moved:
            assert moved.body == b"1!"


def test_threads_when_they_share_a_subscription_then_each_message_goes_to_one(
    broker: Broker, destination: Destination
) -> None:
    queue = destination("blocking-threads")
    taken: list[int] = []
    done = threading.Event()

    with trio_stomp.blocking.connect(broker.url()) as client:
        with client.publisher() as publisher:
            for number in range(COUNT):
                publisher.send(queue, b"%d" % number)
        with client.subscribe(queue) as subscription:

            def consume() -> None:
                for message in subscription:
                    with message:
                        taken.append(int(message.body))
                        if len(taken) == COUNT:
                            done.set()

            threads = [threading.Thread(target=consume) for _ in range(3)]
            for each in threads:
                each.start()
            assert done.wait(60)
        for each in threads:
            each.join(10)

    assert sorted(taken) == list(range(COUNT))


def test_request_when_another_thread_answers_then_the_reply_comes(broker: Broker, destination: Destination) -> None:
    queue = destination("blocking-requests")
    ready = threading.Event()

    def answer() -> None:
        with trio_stomp.blocking.connect(broker.url()) as server, server.subscribe(queue) as requests:
            ready.set()
            with next(requests) as request:
                headers = {"correlation-id": request.headers["correlation-id"]}
                server.send(request.headers["reply-to"], request.body * 2, headers=headers, receipt=True)

    answering = threading.Thread(target=answer)
    answering.start()
    assert ready.wait(30)
    with trio_stomp.blocking.connect(broker.url()) as client:
        reply: Message = client.request(queue, b"2", timeout=30)
    answering.join(30)

    assert reply.body == b"22"
