"""Connecting and leaving: nothing runs on after the block, and nothing is silent."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

import pytest
import trio

import trio_stomp.blocking
from tests.blocking.conftest import QUEUE, left_running, threads
from tests.kit.ctrl_c import CtrlC
from trio_stomp import AuthenticationError, ConnectError, ConnectionClosed, ConnectionLost, LocalProtocolError
from trio_stomp.blocking import Client
from trio_stomp.testing import AnswerConnect, Broker, BrokerOptions, ThreadedBroker, run_broker_in_thread
from trio_stomp.types import Phase


@dataclass(frozen=True)
class Frozen(Exception):
    """It takes neither a note nor a traceback."""


def loop_threads() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name == "trio_stomp"]


def test_connect_when_left_well_then_all_is_sent_and_nothing_is_left(broker: ThreadedBroker) -> None:
    with trio_stomp.blocking.connect(broker.url) as client:
        assert len(loop_threads()) == 1
        for number in range(1000):
            client.send(QUEUE, b"%d" % number)

    assert not left_running()
    assert broker.call(lambda inner: inner.depth(QUEUE)) == 1000
    assert client.state.phase is Phase.CLOSED


# Of what both do, one body.
EACH = pytest.mark.parametrize("opens", [trio_stomp.blocking.connect, trio_stomp.blocking.open])
Opens = Callable[[str], AbstractContextManager[Client]]


@EACH
def test_block_when_it_raises_then_that_very_error_leaves_and_the_client_is_closed(
    broker: ThreadedBroker, opens: Opens
) -> None:
    error = ValueError("mine")

    with pytest.raises(ValueError, match="mine") as caught, opens(broker.url) as client:
        raise error

    assert caught.value is error
    assert client.state.phase is Phase.CLOSED
    assert not left_running()


def test_open_when_the_client_is_dropped_without_being_closed_then_a_warning_and_its_connection_ends(
    broker: ThreadedBroker,
) -> None:
    async def no_sessions(inner: Broker) -> None:
        with trio.fail_after(30):
            await inner.wait_until(lambda: not inner.sessions)

    with pytest.warns(ResourceWarning, match="was not closed: call its close"):
        trio_stomp.blocking.open(broker.url)
    broker.call(no_sessions)


def test_block_when_it_raises_what_cannot_be_changed_then_that_very_error_leaves(broker: ThreadedBroker) -> None:
    """Not with `connect`: contextlib itself sets the traceback of what leaves its blocks."""
    with pytest.raises(Frozen), trio_stomp.blocking.open(broker.url):
        raise Frozen


@EACH
def test_connect_or_open_when_nothing_listens_then_connect_error_and_nothing_is_left(opens: Opens) -> None:
    with run_broker_in_thread() as gone:
        url = gone.url

    with pytest.raises(ConnectError), opens(url):
        pytest.fail("connected")
    assert not left_running()


def test_connect_when_an_option_does_not_exist_then_type_error_and_nothing_is_left(broker: ThreadedBroker) -> None:
    misspelled = {"heartbeat": (1, 1)}
    with pytest.raises(TypeError, match="unexpected keyword argument 'heartbeat'"):
        with trio_stomp.blocking.connect(broker.url, **misspelled):  # type: ignore[arg-type]  # what is refused
            pytest.fail("connected")
    assert not left_running()


def test_connect_when_interrupted_then_given_up_at_once(broker: ThreadedBroker, ctrl_c: CtrlC) -> None:
    broker.call(lambda inner: inner.faults.plan(AnswerConnect()))
    waiting = threading.Event()
    ctrl_c(waiting)

    with pytest.raises(KeyboardInterrupt):
        waiting.set()
        with trio_stomp.blocking.connect(broker.url, connect_timeout=60):
            pytest.fail("connected")
    # What was interrupted ends by itself.
    deadline = time.monotonic() + 60
    while left_running() and time.monotonic() < deadline:
        pass
    assert not left_running()


def test_credentials_when_asking_for_them_takes_too_long_then_connecting_ends_in_time(broker: ThreadedBroker) -> None:
    answer = threading.Event()

    def credentials() -> tuple[str, str]:
        answer.wait(5)
        return "ann", "s3cret"

    begun = time.monotonic()
    try:
        with pytest.raises(ConnectError):
            trio_stomp.blocking.open(broker.url, credentials=credentials, connect_timeout=0.05)
        assert time.monotonic() - begun < 4
    finally:
        answer.set()


def test_credentials_when_a_function_then_asked_in_another_thread() -> None:
    asked: list[int] = []

    def credentials() -> tuple[str, str]:
        asked.append(threading.get_ident())
        return "ann", "right"

    options = BrokerOptions(logins={"ann": "right"})
    with run_broker_in_thread(options=options) as broker:
        url = f"stomp://127.0.0.1:{broker.port}"
        with trio_stomp.blocking.connect(url, credentials=credentials) as client:
            assert client.state.healthy
        with pytest.raises(AuthenticationError), trio_stomp.blocking.connect(url, credentials=lambda: ("ann", "wrong")):
            pytest.fail("connected")

    assert len(asked) == 1
    assert asked[0] != threading.get_ident()


def test_loss_when_nothing_in_the_block_has_noticed_then_raised_on_leaving(broker: ThreadedBroker) -> None:
    with pytest.raises(ConnectionLost):
        with trio_stomp.blocking.connect(broker.url) as client:
            broker.call(Broker.drop_connections)
            while client.state.healthy:
                pass


def test_failure_when_no_later_call_raised_it_then_raised_on_leaving(broker: ThreadedBroker) -> None:
    with pytest.raises(LocalProtocolError, match="posted"):
        with trio_stomp.blocking.connect(broker.url) as client:
            client.send(QUEUE, b"1")
            client._calls.failures.append(LocalProtocolError("posted"))

    # It was left in good order all the same.
    assert broker.call(lambda inner: inner.depth(QUEUE)) == 1


# --- open -----------------------------------------------------------------------------------------------------------


def test_open_when_closed_then_all_is_sent_and_closing_again_does_nothing(broker: ThreadedBroker) -> None:
    client = trio_stomp.blocking.open(broker.url)
    for number in range(1000):
        client.send(QUEUE, b"%d" % number)
    client.close()
    client.close()

    assert client.state.phase is Phase.CLOSED
    assert client.statistics().messages_received == 0
    assert broker.call(lambda inner: inner.depth(QUEUE)) == 1000
    assert not left_running()
    with pytest.raises(ConnectionClosed):
        client.send(QUEUE, b"too late")


def test_open_when_closed_by_several_threads_then_closed_once_for_all(broker: ThreadedBroker) -> None:
    client = trio_stomp.blocking.open(broker.url)
    states: list[Phase] = []

    def close() -> None:
        client.close()
        states.append(client.state.phase)

    with threads(*[close] * 4):
        pass

    assert states == [Phase.CLOSED] * 4


def test_open_when_closed_within_its_block_then_leaving_does_nothing(broker: ThreadedBroker) -> None:
    with trio_stomp.blocking.connect(broker.url) as client:
        client.send(QUEUE, b"1")
        client.close()

    assert broker.call(lambda inner: inner.depth(QUEUE)) == 1


def test_close_when_a_posted_call_has_failed_then_raised_once(broker: ThreadedBroker) -> None:
    client = trio_stomp.blocking.open(broker.url)
    client._calls.failures.append(LocalProtocolError("posted"))

    with pytest.raises(LocalProtocolError, match="posted"):
        client.close()
    client.close()
    assert not left_running()


def test_close_when_interrupted_then_the_client_is_closed_and_closing_again_is_fine(
    broker: ThreadedBroker, ctrl_c: CtrlC
) -> None:
    client = trio_stomp.blocking.open(broker.url)
    gate, closes = trio.Event(), threading.Event()
    client._calls.post(gate.wait)

    def watch() -> None:
        while not client._opened._closers:
            pass
        closes.set()

    ctrl_c(closes)
    with pytest.raises(KeyboardInterrupt), threads(watch):
        client.close()
    with contextlib.suppress(ConnectionClosed):
        # The interrupt may have come before the first step of closing.
        client._calls.link.thread.soon(gate.set)
    client.close()

    assert client.state.phase is Phase.CLOSED
    assert not left_running()


def test_open_when_the_option_for_forks_is_wrong_then_refused(broker: ThreadedBroker) -> None:
    with pytest.raises(LocalProtocolError, match="after_fork must be 'refuse' or 'reopen'"):
        trio_stomp.blocking.open(broker.url, after_fork="again")  # type: ignore[arg-type]  # what is refused


def test_clients_when_several_are_open_then_one_thread_serves_them_all(broker: ThreadedBroker) -> None:
    clients = [trio_stomp.blocking.open(broker.url) for _ in range(5)]
    for number, client in enumerate(clients):
        client.send(QUEUE, b"%d" % number, receipt=True)

    assert len(loop_threads()) == 1
    clients[0].close()
    clients[1].send(QUEUE, b"5", receipt=True)
    for client in clients:
        client.close()
    assert not left_running()
    assert broker.call(lambda inner: inner.depth(QUEUE)) == 6
