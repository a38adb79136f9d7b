import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import anyio
import pytest
import trio

from trio_stomp.testing import Broker, BrokerOptions, ThreadedBroker, run_broker_in_thread


def talk(broker: ThreadedBroker, given: bytes) -> bytes:
    """All answers to these bytes, over a plain blocking socket."""
    answer = b""
    with socket.create_connection(("127.0.0.1", broker.port), timeout=60) as link:
        link.sendall(given)
        while data := link.recv(4096):
            answer += data
    return answer


def test_broker_when_in_a_thread_then_serves_plain_sockets() -> None:
    with run_broker_in_thread(options=BrokerOptions(server="thread/1")) as broker:
        answer = talk(
            broker,
            b"CONNECT\naccept-version:1.2\nhost:h\n\n\0SEND\ndestination:/queue/a\n\nx\0DISCONNECT\nreceipt:r\n\n\0",
        )

        assert broker.url == f"stomp://guest:guest@127.0.0.1:{broker.port}"
        assert b"server:thread/1" in answer
        assert b"receipt-id:r" in answer
        assert broker.call(lambda inside: inside.depth("/queue/a")) == 1
        broker.call(Broker.stop_listening)
        with pytest.raises(ConnectionRefusedError):
            talk(broker, b"")


def test_exception_when_raised_in_the_body_then_leaves_as_itself_and_the_port_is_closed() -> None:
    error = ValueError("body")

    with pytest.raises(ValueError, match="body") as caught, run_broker_in_thread() as broker:
        raise error

    assert caught.value is error
    with pytest.raises(ConnectionRefusedError):
        talk(broker, b"")


def test_port_when_taken_then_os_error() -> None:
    with run_broker_in_thread() as broker, pytest.raises(OSError, match="in use"):
        run_broker_in_thread(port=broker.port).__enter__()


async def test_broker_when_called_from_a_trio_loop_then_answers(stomp_broker_thread: ThreadedBroker) -> None:
    stomp_broker_thread.call(lambda inner: inner.publish("/queue/a", b"x"))

    await stomp_broker_thread.wait_until(lambda inner: inner.depth("/queue/a") == 1)
    with pytest.raises(TimeoutError, match=r"0\.01 s\. The broker has 0 connections; /queue/a: depth 1, "):
        await stomp_broker_thread.wait_until(lambda _: False, timeout=0.01)


async def test_broker_when_started_inside_a_trio_loop_then_says_what_to_use() -> None:
    await trio.lowlevel.checkpoint()
    with pytest.raises(RuntimeError, match=r"use open_broker\(\)"), run_broker_in_thread():
        pass


def test_broker_when_waited_for_on_asyncio_in_vain_then_the_wait_can_be_canceled_and_the_block_left() -> None:
    def begin(_: Broker) -> bool:
        started.set()
        return False

    async def wait(broker: ThreadedBroker) -> None:
        await broker.wait_until(begin)

    async def main(broker: ThreadedBroker) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(wait, broker)
            await anyio.to_thread.run_sync(started.wait)
            group.cancel_scope.cancel()

    started = threading.Event()
    with run_broker_in_thread() as broker:
        anyio.run(main, broker, backend="asyncio")


def test_wait_when_the_test_is_synchronous_then_the_call_waits() -> None:
    with run_broker_in_thread() as broker:
        publishing = threading.Timer(0.01, lambda: broker.call(lambda inner: inner.publish("/queue/a", b"x")))
        publishing.start()

        _ = broker.wait_until(lambda inner: inner.depth("/queue/a") == 1)

        assert broker.call(lambda inner: inner.depth("/queue/a")) == 1
        with pytest.raises(TimeoutError):
            _ = broker.wait_until(lambda _: False, timeout=0.01)
        publishing.join()


def test_call_when_it_waits_and_the_broker_ends_then_raises() -> None:
    def begin() -> bool:
        started.set()
        return False

    started = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        with run_broker_in_thread() as broker:
            waiting = pool.submit(lambda: broker.call(lambda inner: inner.wait_until(begin)))
            started.wait()
        with pytest.raises(RuntimeError, match=r"^the broker has ended$"):
            waiting.result()


def test_call_when_the_broker_has_ended_then_says_so() -> None:
    with run_broker_in_thread() as broker:
        pass

    with pytest.raises(RuntimeError, match=r"^the broker has ended$"):
        broker.call(lambda inner: inner.depth("/queue/a"))
    with pytest.raises(RuntimeError, match=r"^the broker has ended$"):
        _ = broker.wait_until(lambda _: True)


def test_call_when_the_thread_of_the_broker_calls_then_says_what_to_use() -> None:
    with run_broker_in_thread() as broker:

        def call_again() -> bool:
            return broker.call(lambda inner: inner.depth("/queue/a")) == 0

        with pytest.raises(RuntimeError, match="use the broker that the function is given"):
            _ = broker.wait_until(lambda _: call_again())
        with pytest.raises(RuntimeError, match="use the broker that the function is given"):
            broker.call(lambda _: call_again())
