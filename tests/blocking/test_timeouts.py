"""Time limits of blocking calls: TimeoutError in time, and afterwards the client works and nothing is lost."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from functools import partial

import pytest
import trio

import trio_stomp.blocking
from tests.blocking.conftest import QUEUE, await_arrival, bodies, left, threads
from tests.kit.ctrl_c import CtrlC
from trio_stomp import (
    LocalProtocolError,
    OperationTimeout,
    OutgoingMessage,
    RequestTimeout,
    SubscriptionEnded,
)
from trio_stomp.blocking import Client, Message
from trio_stomp.testing import DelayReceipts, SwallowReceipts, ThreadedBroker

SHORT = 0.02
MESSAGE = OutgoingMessage(QUEUE, b"x")

Verb = Callable[[Client, float | None], object]


def silence(broker: ThreadedBroker, count: int = 1) -> None:
    """Let the broker leave out its next RECEIPTs."""
    broker.call(lambda inner: inner.faults.now(SwallowReceipts(count=count)))


def in_transaction(client: Client, timeout: float | None) -> None:
    with client.transaction(timeout=timeout) as transaction:
        transaction.send(QUEUE, b"in a transaction")


def in_publisher(client: Client, timeout: float | None) -> None:
    with client.publisher(timeout=timeout) as publisher:
        publisher.send(QUEUE, b"published")


def wait_for_publication(client: Client, timeout: float | None) -> None:
    with client.publisher(timeout=timeout) as publisher:
        publisher.send(QUEUE, b"published").wait(timeout=timeout)


VERBS: dict[str, Verb] = {
    "send": lambda client, timeout: client.send(QUEUE, b"x", receipt=True, timeout=timeout),
    "send_many": lambda client, timeout: client.send_many([MESSAGE], receipt=True, timeout=timeout),
    "request": lambda client, timeout: client.request("/queue/nobody", b"x", timeout=timeout),
    "transaction": in_transaction,
    "publisher": in_publisher,
    "publication": wait_for_publication,
}


@pytest.mark.parametrize("is_default", [False, True])
@pytest.mark.parametrize("name", VERBS)
def test_verb_when_the_broker_is_silent_then_timeout_and_the_client_works(
    broker: ThreadedBroker, name: str, *, is_default: bool
) -> None:
    with trio_stomp.blocking.connect(
        broker.url, timeout=SHORT if is_default else None, disconnect_timeout=0.05
    ) as client:
        if name != "request":
            silence(broker)
        with pytest.raises(RequestTimeout if name == "request" else OperationTimeout):
            VERBS[name](client, None if is_default else SHORT)
        client.send("/queue/other", b"x", receipt=True, timeout=60)

        assert client.statistics().unconfirmed == 0


@pytest.mark.parametrize("timeout", [None, 60])
def test_send_when_its_receipt_takes_long_then_the_wait_takes_no_processor_time(
    broker: ThreadedBroker, client: Client, timeout: float | None
) -> None:
    spent: list[float] = []
    for _ in range(2):
        broker.call(lambda inner: inner.faults.now(DelayReceipts(seconds=0.2)))
        began = time.thread_time()
        client.send(QUEUE, b"x", receipt=True, timeout=timeout)
        spent.append(time.thread_time() - began)
    assert min(spent) < 0.01


@pytest.mark.parametrize("timeout", [-1, math.nan, True])
def test_timeout_when_it_is_no_number_of_seconds_then_refused_at_the_call(client: Client, timeout: float) -> None:
    for receipt in (False, True):
        with pytest.raises(LocalProtocolError, match="timeout must be"):
            client.send(QUEUE, b"x", receipt=receipt, timeout=timeout)
    with client.subscribe(QUEUE) as messages:
        with pytest.raises(LocalProtocolError, match="timeout must be"):
            messages.receive(timeout=timeout)
        with pytest.raises(LocalProtocolError, match="timeout must be"):
            messages.receive_batch(1, timeout=timeout)
        with pytest.raises(LocalProtocolError, match="timeout must be"):
            messages.messages(timeout=timeout)


def test_send_when_its_turn_does_not_come_in_time_then_timeout_and_it_was_not_sent(
    broker: ThreadedBroker, client: Client
) -> None:
    gate = trio.Event()
    client._calls.post(gate.wait)
    client.send(QUEUE, b"x" * 900_000)
    # There is no room for another one.
    for timeout in (0, SHORT):
        with pytest.raises(OperationTimeout):
            client.send(QUEUE, b"y" * 900_000, timeout=timeout)
    with pytest.raises(OperationTimeout):
        client.send(QUEUE, b"y", receipt=True, timeout=SHORT)
    client._calls.link.thread.soon(gate.set)
    client.send(QUEUE, b"z", receipt=True)

    assert [body[:1] for body in bodies(broker)] == [b"x", b"z"]


def test_send_when_its_turn_comes_in_time_then_the_rest_of_its_limit_is_for_the_receipt(
    broker: ThreadedBroker, client: Client
) -> None:
    client._calls.post(partial(trio.sleep, SHORT))
    client.send(QUEUE, b"x", receipt=True, timeout=60)

    silence(broker)
    client._calls.post(partial(trio.sleep, SHORT))
    with pytest.raises(OperationTimeout):
        client.send(QUEUE, b"y", receipt=True, timeout=10 * SHORT)


# --- receiving ------------------------------------------------------------------------------------------------------


def test_receive_when_none_comes_in_time_then_timeout_and_the_next_is_returned(
    broker: ThreadedBroker, client: Client
) -> None:
    with client.subscribe(QUEUE) as messages:
        for timeout in (0, SHORT):
            said = rf"\(\) from '{QUEUE}' took longer than its timeout of {timeout} s; no message was taken"
            with pytest.raises(OperationTimeout, match=f"^receive{said}"):
                messages.receive(timeout=timeout)
            with pytest.raises(OperationTimeout, match=f"^receive_batch{said}"):
                messages.receive_batch(10, linger=60, timeout=timeout)
        for number in range(3):
            client.send(QUEUE, b"%d" % number, receipt=True)
        await_arrival(client, messages, 3)

        assert messages.receive(timeout=60).body == b"0"
        assert [each.body for each in messages.receive_batch(10, linger=60, timeout=SHORT)] == [b"1", b"2"]


def test_receive_when_another_thread_waits_without_a_limit_then_timeout_all_the_same(client: Client) -> None:
    with client.subscribe(QUEUE) as messages:
        with threads(lambda: next(iter(messages)).ack()):
            while not messages._fetching.locked():
                pass
            with pytest.raises(
                OperationTimeout, match=rf"^receive\(\) from '{QUEUE}' took longer than .* of {SHORT} s"
            ):
                messages.receive(timeout=SHORT)
            client.send(QUEUE, b"x")


def test_receive_when_the_subscription_was_left_then_ended(client: Client) -> None:
    with client.subscribe(QUEUE) as messages:
        pass

    with pytest.raises(SubscriptionEnded):
        messages.receive(timeout=1)
    with pytest.raises(SubscriptionEnded):
        list(messages.messages(timeout=1))
    assert messages.receive_batch(5) == []


def test_messages_when_none_comes_for_a_while_then_the_iteration_ends_and_another_goes_on(client: Client) -> None:
    for number in range(3):
        client.send(QUEUE, b"%d" % number, receipt=True)
    with client.subscribe(QUEUE) as messages:
        await_arrival(client, messages, 3)
        assert [each.body for each in messages.messages(timeout=SHORT)] == [b"0", b"1", b"2"]
        assert list(messages.messages(timeout=0)) == []
        client.send(QUEUE, b"3", receipt=True)
        await_arrival(client, messages, 1)
        assert [each.body for each in messages.messages(timeout=SHORT)] == [b"3"]


def test_messages_when_a_queue_is_browsed_then_end_with_its_last_message(client: Client) -> None:
    client.send(QUEUE, b"0", receipt=True)
    with client.subscribe(QUEUE, browse=True) as messages:
        assert [each.body for each in messages.messages(timeout=60)] == [b"0"]


@pytest.mark.slow
def test_work_when_interrupted_then_a_handler_may_take_longer_than_other_calls(
    broker: ThreadedBroker, client: Client, ctrl_c: CtrlC
) -> None:
    client.send(QUEUE, b"x", receipt=True)
    begun, end = threading.Event(), threading.Event()

    def handle(message: Message) -> None:
        threading.Timer(1.5, end.set).start()
        begun.set()
        assert end.wait(60)

    ctrl_c(begun)
    with client.subscribe(QUEUE) as messages, pytest.raises(KeyboardInterrupt):
        messages.work(handle)
    client.send("/queue/other", b"", receipt=True)

    assert left(broker) == 0


# --- the end --------------------------------------------------------------------------------------------------------


def test_close_when_its_time_is_over_then_timeout_and_it_is_closed(broker: ThreadedBroker) -> None:
    client = trio_stomp.blocking.open(broker.url)
    client._calls.post(trio.Event().wait)
    begun = time.monotonic()
    with pytest.raises(OperationTimeout):
        client.close(timeout=SHORT)

    assert time.monotonic() - begun < 5
    assert client.state.phase is trio_stomp.types.Phase.CLOSED
    client.close()


def test_close_when_what_was_posted_waits_for_a_connection_then_no_longer_than_disconnect_timeout(
    broker: ThreadedBroker,
) -> None:
    client = trio_stomp.blocking.open(broker.url, disconnect_timeout=0.05)
    client._calls.post(trio.Event().wait)
    begun = time.monotonic()
    client.close()

    assert time.monotonic() - begun < 5


def test_leaving_when_interrupted_then_no_long_wait_for_what_was_posted(
    broker: ThreadedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trio_stomp.blocking.link._HASTE", SHORT)
    client = trio_stomp.blocking.open(broker.url, disconnect_timeout=20)
    client._calls.post(trio.Event().wait)
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt), client:
        raise KeyboardInterrupt

    assert time.monotonic() - begun < 10


def test_wait_closed_when_the_default_is_short_then_not_limited_by_it(broker: ThreadedBroker) -> None:
    with trio_stomp.blocking.connect(broker.url, timeout=SHORT) as client:
        waiting = threading.Thread(target=client.wait_closed)
        waiting.start()
        waiting.join(10 * SHORT)
        assert waiting.is_alive()
        with pytest.raises(OperationTimeout):
            client.wait_closed(timeout=SHORT)
    waiting.join(60)
    assert not waiting.is_alive()
