"""The client: its verbs from synchronous code and from several threads."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

import anyio
import pytest

import trio_stomp.blocking
from tests.blocking.conftest import QUEUE, bodies, lose, threads
from tests.kit.ctrl_c import CtrlC
from trio_stomp import (
    BrokerError,
    ConnectionClosed,
    ConnectionLost,
    DisconnectResult,
    Hooks,
    LocalProtocolError,
    OutgoingMessage,
    Reconnect,
    StompError,
    TransactionLost,
    UnconfirmedError,
)
from trio_stomp import Message as AsyncMessage
from trio_stomp.blocking import Client, Message, Transaction
from trio_stomp.testing import Broker, BrokerOptions, ThreadedBroker, run_broker_in_thread
from trio_stomp.types import ConnectionInfo, Phase, SendCallback, Sending, Version


def test_client_when_connected_then_shows_what_was_agreed_upon(client: Client) -> None:
    assert client.version is Version.V1_2
    assert (client.server or "").startswith("trio-stomp-testing")
    assert client.session_id
    assert client.profile.name == "trio_stomp.testing"
    assert client.heart_beat.client_sends_ms
    assert client.state.phase is Phase.CONNECTED


def test_send_when_not_confirmed_then_in_the_order_of_the_calls(broker: ThreadedBroker, client: Client) -> None:
    client.send(QUEUE, b"1")
    # What is not surely sendable is waited for, and keeps its place.
    client.send(QUEUE, b"2", headers={"a": "line\nend"})
    client.send(QUEUE, "3", headers={"a": "b"})
    client.send_many([OutgoingMessage(QUEUE, "4"), OutgoingMessage(QUEUE, "ü")])
    client.send(QUEUE, b"6", content_type="text/plain", receipt=True)

    assert bodies(broker) == [b"1", b"2", b"3", b"4", "ü".encode(), b"6"]


def test_send_when_no_call_follows_then_sent_all_the_same(broker: ThreadedBroker, client: Client) -> None:
    client.send(QUEUE, b"x", receipt=True)
    for count in (2, 3, 4):
        client.send(QUEUE, b"x")

        async def arrived(inner: Broker, count: int = count) -> None:
            with anyio.fail_after(10):
                await inner.wait_until(lambda: inner.depth(QUEUE) == count)

        broker.call(arrived)


def test_send_when_its_arguments_are_wrong_then_refused_at_the_call(client: Client) -> None:
    for receipt in (False, True):
        with pytest.raises(LocalProtocolError):
            client.send(QUEUE, b"", headers={"receipt": "1"}, receipt=receipt)
    with pytest.raises(LocalProtocolError):
        client.send(QUEUE, b"", content_type="no type")
    with pytest.raises(LocalProtocolError):
        client.send_many([OutgoingMessage(QUEUE, b"", headers={"a": "\0"})])

    client.send(QUEUE, b"1", receipt=True)
    assert client.statistics().frames_sent == 1


def test_send_when_hooks_see_it_later_then_headers_may_be_repeated(broker: ThreadedBroker) -> None:
    with trio_stomp.blocking.connect(broker.url, hooks=Hooks()) as client:
        client.send(QUEUE, b"1", headers=[("a", "1"), ("a", "2")])
        client.send(QUEUE, b"2", receipt=True)

    first, second = broker.call(lambda inner: inner.messages(QUEUE))
    assert (first.body, first.headers.get_all("a"), second.body) == (b"1", ("1", "2"), b"2")


def test_send_when_more_than_the_queue_holds_then_all_arrive(broker: ThreadedBroker, client: Client) -> None:
    # Even one alone may be larger.
    client.send(QUEUE, b"x" * 10_000_000)
    for _ in range(40):
        client.send(QUEUE, b"x" * 200_000)
    client.send(QUEUE, b"", receipt=True)

    assert len(bodies(broker)) == 42


def test_send_many_when_confirmed_then_waited_for() -> None:
    options = BrokerOptions(max_queue_length=1, errors_leave_open=True)
    with run_broker_in_thread(options=options) as broker, trio_stomp.blocking.connect(broker.url) as client:
        client.send_many([OutgoingMessage(QUEUE, b"1")], receipt=True)
        with pytest.raises(UnconfirmedError):
            client.send_many([OutgoingMessage(QUEUE, b"2")], receipt=True)
        with pytest.raises(BrokerError):
            client.send(QUEUE, b"3", receipt=True)


def test_send_when_the_link_is_lost_then_raised_at_the_call(broker: ThreadedBroker, client: Client) -> None:
    lose(broker, client)

    with pytest.raises(ConnectionLost):
        client.send(QUEUE, b"1")


def test_send_when_threads_do_it_then_each_keeps_its_order(broker: ThreadedBroker, client: Client) -> None:
    def send_all(name: int) -> None:
        for number in range(200):
            client.send(QUEUE, f"{name} {number}", receipt=number % 50 == 0)

    with threads(*(partial(send_all, name) for name in range(4))):
        pass
    client.send("/queue/other", b"", receipt=True)

    sent = [body.decode().split() for body in bodies(broker)]
    for name in range(4):
        assert [int(number) for each, number in sent if int(each) == name] == list(range(200))


def test_subscriptions_and_transactions_when_threads_open_them_then_ids_differ(client: Client) -> None:
    ids: list[str] = []

    def open_some() -> None:
        for _ in range(20):
            with client.transaction() as transaction, client.subscribe(QUEUE) as subscription:
                ids.extend((transaction.id, subscription.id))

    with threads(*[open_some] * 4):
        pass

    assert len(set(ids)) == len(ids) == 160


def test_run_transaction_when_it_ends_well_then_returns_what_the_function_did(
    broker: ThreadedBroker, client: Client
) -> None:
    def work(transaction: Transaction) -> str:
        transaction.send(QUEUE, b"1")
        return "done"

    assert client.run_transaction(work) == "done"
    assert bodies(broker) == [b"1"]


def test_run_transaction_when_the_link_is_lost_then_the_whole_is_run_again(broker: ThreadedBroker) -> None:
    runs: list[int] = []

    with trio_stomp.blocking.connect(broker.url, reconnect=Reconnect(first_delay=0)) as client:

        def work(transaction: Transaction) -> None:
            runs.append(1)
            transaction.send(QUEUE, b"1")
            if len(runs) == 1:
                broker.call(Broker.drop_connections)
                while client.statistics().reconnections == 0:
                    pass
            transaction.send(QUEUE, b"2")

        client.run_transaction(work)

    assert len(runs) == 2
    assert bodies(broker) == [b"1", b"2"]


def test_run_transaction_when_no_connection_follows_then_lost(broker: ThreadedBroker, client: Client) -> None:
    def work(transaction: Transaction) -> None:
        lose(broker, client)

    with pytest.raises(TransactionLost):
        client.run_transaction(work)


def test_request_when_answered_then_the_reply_belongs_to_it(broker: ThreadedBroker, client: Client) -> None:
    ready, stop = threading.Event(), threading.Event()

    def serve() -> None:
        with trio_stomp.blocking.connect(broker.url) as server, server.subscribe("/queue/double") as requests:
            ready.set()
            for _ in range(3):
                with next(requests) as request:
                    request.reply(json=2 * int(request.text))
            stop.wait(60)

    with threads(serve):
        assert ready.wait(60)
        replies = [client.request("/queue/double", str(number), timeout=60, decode=int) for number in (1, 2, 3)]
        stop.set()

    assert [reply.value for reply in replies] == [2, 4, 6]
    assert replies[0].subscription.destination
    with pytest.raises(LocalProtocolError):
        replies[0].ack()


@pytest.mark.parametrize("receipt", [False, True])
def test_send_when_given_a_value_or_a_message_then_it_is_sent_as_by_the_other_client(
    broker: ThreadedBroker, client: Client, *, receipt: bool
) -> None:
    client.send(QUEUE, json={"a": 1}, receipt=receipt)
    client.send(OutgoingMessage(QUEUE, b"2", headers={"k": "v"}), receipt=receipt)
    with client.transaction() as transaction:
        transaction.send(QUEUE, json=[3])
        transaction.send(OutgoingMessage(QUEUE, "4"))
    with client.publisher() as publisher:
        publisher.send(QUEUE, json="5", encode=str)
        publisher.send(OutgoingMessage(QUEUE, b"6"))
    assert bodies(broker) == [b'{"a":1}', b"2", b"[3]", b"4", b"5", b"6"]
    wrong_calls: list[Callable[[], None]] = [
        lambda: client.send(QUEUE),
        lambda: client.send(QUEUE, b"", json=1),
        lambda: client.send(OutgoingMessage(QUEUE, b""), b""),
    ]
    with client.transaction() as transaction:
        with pytest.raises(TypeError, match="a body and json="):
            transaction.send(QUEUE, Path(__file__), json=1)
    for wrong in wrong_calls:
        with pytest.raises(TypeError, match=r"^send\(\) "):
            wrong()


def test_wait_closed_when_interrupted_then_the_client_goes_on(client: Client, ctrl_c: CtrlC) -> None:
    waiting = threading.Event()
    ctrl_c(waiting)
    with pytest.raises(KeyboardInterrupt):
        waiting.set()
        client.wait_closed()

    client.send(QUEUE, b"1", receipt=True)


def test_disconnect_when_called_then_tells_how_it_ended_and_nothing_more_is_taken(client: Client) -> None:
    client.send(QUEUE, b"1")
    result = client.disconnect()

    assert result is DisconnectResult.RECEIPT
    assert client.state.phase is Phase.CLOSED
    with pytest.raises(ConnectionClosed):
        client.send(QUEUE, b"2")


def test_statistics_when_the_client_was_left_then_those_of_the_end(broker: ThreadedBroker) -> None:
    with trio_stomp.blocking.connect(broker.url) as client:
        client.send(QUEUE, b"1", receipt=True)
        assert client.statistics().frames_sent == 1

    assert client.statistics().frames_sent == 2
    with pytest.raises(ConnectionClosed):
        client.send(QUEUE, b"2")
    with pytest.raises(ConnectionClosed):
        client.send(QUEUE, b"2", receipt=True)


def test_client_when_left_while_threads_wait_then_all_are_told(broker: ThreadedBroker) -> None:
    begun = threading.Barrier(4)

    def wait(function: Callable[[], object]) -> None:
        begun.wait(60)
        with suppress(StompError, StopIteration):
            function()

    with (
        ExitStack() as stack,
        trio_stomp.blocking.connect(broker.url) as client,
        client.subscribe(QUEUE) as subscription,
    ):
        waits: list[Callable[[], object]] = [
            lambda: next(subscription),
            lambda: subscription.receive_batch(5),
            lambda: client.request("/queue/nobody", b"", timeout=60),
        ]
        # They return once the client is left.
        stack.enter_context(threads(*(partial(wait, each) for each in waits)))
        begun.wait(60)


# --- hooks ----------------------------------------------------------------------------------------------------------

trace = contextvars.ContextVar("trace", default="none")


class Tracing(Hooks):
    """Writes down what is told, with the context that it is told in."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def sending(self, peer: ConnectionInfo, message: Sending) -> SendCallback | None:
        self.told.append((f"send {message.destination}", trace.get()))
        return None

    @contextmanager
    def handling(self, peer: ConnectionInfo, message: AsyncMessage) -> Generator[None]:
        token = trace.set(message.body.decode())
        try:
            yield
        finally:
            trace.reset(token)


def test_hooks_when_told_of_what_did_not_wait_then_in_the_context_of_the_caller(broker: ThreadedBroker) -> None:
    hooks = Tracing()
    with trio_stomp.blocking.connect(broker.url, hooks=hooks) as client:
        client.send(QUEUE, b"outer")
        with client.subscribe(QUEUE) as subscription, next(subscription):
            # What is sent while a message is handled belongs to its trace, whoever carries it over.
            client.send("/queue/b", b"1")
            with client.publisher() as publisher:
                publisher.send("/queue/c", b"2")
            with client.transaction() as transaction:
                transaction.send("/queue/d", b"3")
            client.send("/queue/e", b"4", receipt=True)
            client.send_many([OutgoingMessage("/queue/f", b"5")], receipt=True)
        client.send("/queue/g", b"6")

    assert hooks.told == [
        (f"send {QUEUE}", "none"),
        ("send /queue/b", "outer"),
        ("send /queue/c", "outer"),
        ("send /queue/d", "outer"),
        ("send /queue/e", "outer"),
        ("send /queue/f", "outer"),
        ("send /queue/g", "none"),
    ]


def test_hooks_when_a_pool_handles_messages_then_its_handlers_are_in_their_context(
    broker: ThreadedBroker, ctrl_c: CtrlC
) -> None:
    hooks, done = Tracing(), threading.Event()
    seen: list[str] = []

    def handle(message: Message) -> None:
        seen.append(trace.get())
        done.set()

    ctrl_c(done)
    with trio_stomp.blocking.connect(broker.url, hooks=hooks) as client:
        client.send(QUEUE, b"mine")
        with client.subscribe(QUEUE) as subscription, pytest.raises(KeyboardInterrupt):
            subscription.work(handle)

    assert seen == ["mine"]


def test_hooks_when_one_waits_for_the_client_then_refused_instead_of_hanging_and_the_log_says_why(
    broker: ThreadedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    class Waiting(Hooks):
        def received(self, peer: ConnectionInfo, message: AsyncMessage) -> None:
            client.send(QUEUE, b"from the hook", receipt=True)

    with trio_stomp.blocking.connect(broker.url, hooks=Waiting()) as client:
        client.send(QUEUE, b"1", receipt=True)
        with client.subscribe(QUEUE) as subscription, next(subscription) as message:
            assert message.body == b"1"

    assert "the thread of the event loop cannot wait for itself: hooks, and functions given as key=" in caplog.text
    assert bodies(broker) == []
