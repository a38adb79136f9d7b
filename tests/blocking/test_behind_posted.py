"""Calls that wait behind what was posted before: the error of a time limit says which call it was."""

from __future__ import annotations

import io
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
import trio

from trio_stomp import OperationTimeout, OutgoingMessage
from trio_stomp.blocking import Client, Message, Publication, Publisher, Subscription, Transaction

QUEUE = "/queue/a"
SHORT = 0.02
MANY = [OutgoingMessage("/queue/b", b"x")]


@dataclass
class Scene:
    """What the calls are made on. `settled` is a message that was acknowledged before, `foreign` one of `other`."""

    client: Client
    subscription: Subscription
    other: Subscription
    settled: Message
    message: Message
    foreign: Message
    transaction: Transaction
    publisher: Publisher
    publication: Publication


@contextmanager
def scene(client: Client) -> Generator[Scene]:
    for number in range(3):
        client.send("/queue/b" if number == 2 else QUEUE, b"x", receipt=True)
    with (
        client.subscribe(QUEUE) as subscription,
        client.subscribe("/queue/b") as other,
        client.publisher() as publisher,
        client.transaction() as transaction,
    ):
        settled = subscription.receive()
        settled.ack(receipt=True)
        publication = publisher.send("/queue/c", b"x")
        made = Scene(
            client=client,
            subscription=subscription,
            other=other,
            settled=settled,
            message=subscription.receive(),
            foreign=other.receive(),
            transaction=transaction,
            publisher=publisher,
            publication=publication,
        )
        gate = trio.Event()
        client._calls.post(gate.wait)
        try:
            yield made
        finally:
            client._calls.link.thread.soon(gate.set)


CALLS: list[tuple[str, Callable[[Scene], object]]] = [
    ("send()", lambda on: on.client.send("/queue/b", b"x", receipt=True, timeout=SHORT)),
    ("send()", lambda on: on.client.send("/queue/b", io.BytesIO(b"x"), timeout=SHORT)),
    ("send_many()", lambda on: on.client.send_many(MANY, timeout=SHORT)),
    ("request()", lambda on: on.client.request("/queue/b", b"x", timeout=SHORT)),
    ("ack()", lambda on: on.message.ack(receipt=True, timeout=SHORT)),
    ("nack()", lambda on: on.message.nack(timeout=SHORT)),
    ("ack_up_to()", lambda on: on.subscription.ack_up_to(on.foreign, timeout=SHORT)),
    ("delete()", lambda on: on.subscription.delete(timeout=SHORT)),
    ("work()", lambda on: on.subscription.work(Message.ack, timeout=SHORT)),
    ("send()", lambda on: on.transaction.send("/queue/b", io.BytesIO(b"x"), timeout=SHORT)),
    ("send_many()", lambda on: on.transaction.send_many(MANY, timeout=SHORT)),
    ("ack()", lambda on: on.transaction.ack(on.settled, timeout=SHORT)),
    ("nack()", lambda on: on.transaction.nack(on.message, timeout=SHORT)),
    ("send_many()", lambda on: on.publisher.send_many(MANY, timeout=SHORT)),
    ("wait()", lambda on: on.publication.wait(timeout=SHORT)),
    ("wait_settled()", lambda on: on.publication.wait_settled(timeout=SHORT)),
]


@pytest.mark.parametrize(("name", "call"), CALLS)
def test_call_when_what_was_posted_before_takes_too_long_then_the_error_names_the_call(
    client: Client, name: str, call: Callable[[Scene], object]
) -> None:
    with scene(client) as on, pytest.raises(OperationTimeout) as caught:
        call(on)

    assert str(caught.value).startswith(name)
