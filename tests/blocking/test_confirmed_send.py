"""A confirmed send from another thread: what it waits for, and how it ends when no RECEIPT comes."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import ExitStack, contextmanager

import pytest

import trio_stomp.blocking
from tests.blocking.conftest import bodies, threads
from tests.kit.ctrl_c import CtrlC
from trio_stomp import Hooks
from trio_stomp.blocking import Client
from trio_stomp.errors import ConnectionClosed, ConnectionLost, StompError
from trio_stomp.testing import Broker, SwallowReceipts, ThreadedBroker
from trio_stomp.types import Command, ConnectionInfo, SendCallback, Sending

QUEUE = "/queue/confirmed"


def swallow_next_receipt(broker: ThreadedBroker) -> None:
    broker.call(lambda inner: inner.faults.now(SwallowReceipts(command=Command.SEND, count=1)))


def arrived(broker: ThreadedBroker, count: int) -> threading.Event:
    """Return an event that is set when the queue has `count` messages."""
    event = threading.Event()

    def wait() -> None:
        broker.call(lambda inner: inner.wait_until(lambda: inner.depth(QUEUE) >= count))
        event.set()

    threading.Thread(target=wait, daemon=True).start()
    return event


@contextmanager
def sending(broker: ThreadedBroker, client: Client) -> Generator[list[StompError]]:
    """Another thread sends a message whose RECEIPT does not come, and which is in its queue already.

    Gives what the call has raised, once the block has ended.
    """
    raised: list[StompError] = []

    def send() -> None:
        try:
            client.send(QUEUE, b"1", receipt=True)
        except StompError as error:
            raised.append(error)

    swallow_next_receipt(broker)
    sent = arrived(broker, 1)
    with threads(send):
        assert sent.wait(60)
        yield raised


def test_send_when_interrupted_while_it_waits_then_given_up_and_not_sent_again(
    broker: ThreadedBroker, client: Client, ctrl_c: CtrlC
) -> None:
    swallow_next_receipt(broker)
    ctrl_c(arrived(broker, 1))

    with pytest.raises(KeyboardInterrupt):
        client.send(QUEUE, b"1", receipt=True)

    client.send(QUEUE, b"2", receipt=True)
    assert client.statistics().unconfirmed == 0


@pytest.mark.parametrize("reconnects", [False, True])
def test_send_when_the_link_is_lost_while_it_waits_then_raised_or_sent_again(
    broker: ThreadedBroker, reconnects: bool
) -> None:
    reconnect = trio_stomp.Reconnect() if reconnects else None
    with trio_stomp.blocking.connect(broker.url, reconnect=reconnect) as client:
        with sending(broker, client) as raised:
            broker.call(Broker.drop_connections)

    assert [type(each) for each in raised] == ([] if reconnects else [ConnectionLost])
    assert len(bodies(broker, QUEUE)) == 1 + reconnects


def test_send_when_the_client_is_left_while_it_waits_then_it_is_told(broker: ThreadedBroker) -> None:
    with ExitStack() as stack:
        with trio_stomp.blocking.connect(broker.url, disconnect_timeout=0.05) as client:
            raised = stack.enter_context(sending(broker, client))

    assert [type(each) for each in raised] in ([ConnectionClosed], [ConnectionLost])


class Told(Hooks):
    """Writes down what came of each send."""

    def __init__(self) -> None:
        self.ends: list[object] = []

    def sending(self, peer: ConnectionInfo, message: Sending) -> SendCallback | None:
        return lambda delivery, _error: self.ends.append(delivery)


def test_send_when_there_are_hooks_then_they_are_told_before_it_returns(broker: ThreadedBroker) -> None:
    told = Told()
    with trio_stomp.blocking.connect(broker.url, hooks=told) as client:
        client.send(QUEUE, b"1", receipt=True)

        assert told.ends == [trio_stomp.DeliveryStatus.CONFIRMED]


def test_send_when_what_was_posted_before_has_failed_then_raises_that_and_sends_nothing(
    broker: ThreadedBroker, client: Client
) -> None:
    async def fail() -> None:  # noqa: ASYNC124  # what is posted
        raise ConnectionLost("of an earlier call")

    client._calls.post(fail)
    # It is over when the queue is empty; then a confirmed send takes the short way.
    while not client._calls.link.queue.is_empty:
        client.statistics()
    with pytest.raises(ConnectionLost, match="of an earlier call"):
        client.send(QUEUE, b"x", receipt=True)
    client.send(QUEUE, b"y", receipt=True)

    assert bodies(broker, QUEUE) == [b"y"]
