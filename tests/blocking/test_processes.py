"""Clients that are not closed, forked processes, threads that are not waited for: each a program of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
import trio

from tests.blocking.conftest import QUEUE, bodies
from tests.kit.warm_python import WarmPython
from trio_stomp.testing import Broker, ThreadedBroker

HEAD: Final = """\
import os, sys, threading, time
import trio, trio_stomp, trio_stomp.blocking
url, QUEUE = sys.argv[1:]
"""
NEEDS_FORK: Final = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork()")


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What a program has printed."""

    output: str
    errors: str


class Run:
    """Runs programs whose `url` is the broker's, forked from a process that has imported what they import."""

    def __init__(self, python: WarmPython, url: str, folder: Path) -> None:
        self._python = python
        self._url = url
        self._folder = folder

    def __call__(self, program: str, *, status: int = 0) -> Done:
        """Run a program, and see that it ends by itself, with this status."""
        file = self._folder / "program.py"
        file.write_text(HEAD + textwrap.dedent(program), "utf-8")
        with self._python.run(file.name, self._url, QUEUE, folder=self._folder) as process:
            ended = process.wait(60)
            done = Done(output=process.output(), errors=process.errors())
        assert ended == status, done.errors
        return done


@pytest.fixture(scope="module")
def python() -> Generator[WarmPython]:
    # For the client's own thread, which runs Trio.
    imports = ("trio_stomp.blocking", "trio_stomp.runtime._trio", "anyio._backends._trio")
    # Python 3.12 warns of a fork while threads run, which is what is tried here.
    environment = {**os.environ, "PYTHONWARNINGS": "ignore::DeprecationWarning"}
    with WarmPython(imports=imports, options=("-W", "error"), environment=environment) as started:
        yield started


@pytest.fixture
def run(python: WarmPython, broker: ThreadedBroker, tmp_path: Path) -> Run:
    return Run(python, broker.url, tmp_path)


@contextmanager
def running(broker: ThreadedBroker, program: str) -> Generator[subprocess.Popen[str]]:
    """Run a program that talks with the test by its standard streams; it is connected when the block begins."""
    with subprocess.Popen(
        [sys.executable, "-c", HEAD + textwrap.dedent(program), broker.url, QUEUE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "connected\n"
            yield process
        finally:
            process.kill()


def texts(broker: ThreadedBroker) -> list[str]:
    return sorted(body.decode() for body in bodies(broker))


# --- exit -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("end", "status", "said"), [("sys.exit(3)", 3, []), ("raise ValueError('mine')", 1, ["ValueError: mine"])]
)
def test_exit_when_a_client_is_open_then_its_messages_are_sent_and_the_status_is_kept(
    broker: ThreadedBroker, run: Run, end: str, status: int, said: list[str]
) -> None:
    done = run(
        f"""
        client = trio_stomp.blocking.open(url)
        for number in range(1000):
            client.send(QUEUE, b"x")
        {end}
        """,
        status=status,
    )

    assert done.errors.splitlines()[-1:] == said
    assert len(bodies(broker)) == 1000


@pytest.mark.parametrize("opens", ["connect(url)", "open(url)"])
def test_exit_when_blocks_were_entered_by_hand_and_are_collected_after_the_client_then_ends(
    broker: ThreadedBroker, run: Run, opens: str
) -> None:
    done = run(
        f"""
        manager = trio_stomp.blocking.{opens}
        client = manager.__enter__()
        blocks = [client.subscribe("/queue/other"), client.publisher()]
        for block in blocks:
            block.__enter__()
        client.send(QUEUE, b"sent")
        """,
    )

    assert "Traceback" not in done.errors
    assert texts(broker) == ["sent"]


def test_exit_when_interactive_then_ends(broker: ThreadedBroker) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-i", "-c", f"{HEAD}client = trio_stomp.blocking.open(url)", broker.url, QUEUE],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
        input="client.send(QUEUE, b'sent')\n",
    )

    assert "Traceback" not in done.stderr
    assert texts(broker) == ["sent"]


@pytest.mark.slow
def test_exit_when_the_broker_is_gone_then_not_waited_for_long(broker: ThreadedBroker) -> None:
    with running(
        broker,
        """
        client = trio_stomp.blocking.open(url, reconnect=True)
        print("connected", flush=True)
        sys.stdin.readline()
        while client.state.healthy:
            pass
        threading.Thread(target=client.send, args=(QUEUE, b"never"), daemon=True).start()
        sys.exit(4)
        """,
    ) as process:
        broker.call(Broker.stop_listening)
        broker.call(Broker.drop_connections)
        begun = time.monotonic()
        _, said = process.communicate("go on\n", timeout=60)

    assert process.returncode == 4, said
    assert "Traceback" not in said
    assert time.monotonic() - begun < 30


def test_exit_when_a_daemon_thread_waits_for_messages_then_it_prints_nothing(broker: ThreadedBroker, run: Run) -> None:
    done = run(
        """
        client = trio_stomp.blocking.open(url)
        waits = threading.Event()

        def consume():
            with client.subscribe(QUEUE) as subscription:
                client.send(QUEUE, b"first")
                for message in subscription:
                    with message:
                        waits.set()

        def produce():
            while True:
                client.send("/topic/nobody", b"x", receipt=True)

        for each in (consume, produce):
            threading.Thread(target=each, daemon=True).start()
        waits.wait(60)
        """,
    )

    assert (done.output, done.errors) == ("", "")


def test_exit_when_a_client_lives_in_a_daemon_thread_then_it_prints_nothing(broker: ThreadedBroker, run: Run) -> None:
    done = run(
        """
        waits = threading.Event()

        def consume():
            with trio_stomp.blocking.connect(url) as client, client.subscribe(QUEUE) as subscription:
                waits.set()
                next(subscription)

        threading.Thread(target=consume, daemon=True).start()
        waits.wait(60)
        """,
    )

    assert (done.output, done.errors) == ("", "")


def test_exit_when_a_daemon_thread_is_closing_its_client_then_not_waited_for_long(
    broker: ThreadedBroker, run: Run
) -> None:
    run(
        """
        import trio

        closes = threading.Event()

        async def block():
            closes.set()
            await trio.sleep_forever()

        def work():
            with trio_stomp.blocking.connect(url) as client:
                client._calls.post(block)

        threading.Thread(target=work, daemon=True).start()
        closes.wait(60)
        """,
    )


def test_exit_when_one_client_is_closed_and_two_are_open_then_all_is_sent(broker: ThreadedBroker, run: Run) -> None:
    done = run(
        """
        clients = [trio_stomp.blocking.open(url) for _ in range(3)]
        for number, client in enumerate(clients):
            client.send(QUEUE, b"%d" % number)
        clients[1].close()
        """,
    )

    assert done.errors == ""
    assert texts(broker) == ["0", "1", "2"]


@pytest.mark.slow
def test_exit_when_several_clients_cannot_disconnect_then_not_waited_for_one_after_the_other(
    broker: ThreadedBroker, run: Run
) -> None:
    begun = time.monotonic()
    run(
        """
        import trio

        clients = [trio_stomp.blocking.open(url) for _ in range(8)]
        for client in clients:
            client._calls.post(trio.Event().wait)
        """,
    )

    assert time.monotonic() - begun < 15


def test_exit_when_a_thread_pool_has_used_the_client_then_all_is_sent_and_nothing_is_printed(
    broker: ThreadedBroker, run: Run
) -> None:
    done = run(
        """
        from concurrent.futures import ThreadPoolExecutor

        client = trio_stomp.blocking.open(url)
        pool = ThreadPoolExecutor(4)
        for number in range(20):
            pool.submit(client.send, QUEUE, b"%02d" % number, receipt=number % 2 == 0)
        """,
    )

    assert (done.output, done.errors) == ("", "")
    assert len(bodies(broker)) == 20


def test_client_when_dropped_without_being_closed_then_its_connection_ends_and_a_warning_names_the_place(
    broker: ThreadedBroker, run: Run
) -> None:
    done = run(
        """
        import warnings

        warnings.simplefilter("always")
        for number in range(5):
            client = trio_stomp.blocking.open(url)
            client.send(QUEUE, b"x", receipt=number % 2 == 0)
            del client
        with trio_stomp.blocking.connect(url) as client:
            client.send(QUEUE, b"x", receipt=True)
            arrived = 0
            while arrived < 6:
                with client.subscribe(QUEUE, browse=True) as messages:
                    arrived = len(list(messages))
        del client
        """,
    )

    assert done.errors.count("ResourceWarning: the client of stomp://") == 5
    assert "/program.py:9, was not closed: call its close()" in done.errors


def test_close_when_a_signal_handler_calls_it_during_close_then_it_returns_at_once_and_the_first_finishes(
    broker: ThreadedBroker, run: Run
) -> None:
    done = run(
        """
        import signal, trio

        def stop(*_):
            client.close()
            print("handler", client.state.healthy)
            stopped.set()

        stopped = threading.Event()
        client = trio_stomp.blocking.open(url)
        signal.signal(signal.SIGTERM, stop)
        gate = trio.Event()
        client._calls.post(gate.wait)
        client.send(QUEUE, b"sent")

        def term():
            while not client._opened._closers:
                pass
            os.kill(os.getpid(), signal.SIGTERM)
            stopped.wait()
            client._calls.link.thread.soon(gate.set)

        threading.Thread(target=term).start()
        client.close()
        print("closed", client.state.healthy)
        """,
    )

    assert done.output.splitlines() == ["handler True", "closed False"]
    assert texts(broker) == ["sent"]


# --- fork -----------------------------------------------------------------------------------------------------------


@NEEDS_FORK
def test_client_when_used_in_a_forked_process_then_says_what_to_do(broker: ThreadedBroker, run: Run) -> None:
    done = run(
        """
        client = trio_stomp.blocking.open(url)
        client.send(QUEUE, b"before")
        subscription = client.subscribe("/queue/other").__enter__()
        if os.fork() == 0:
            print(client.state.phase, client.state.healthy, repr(client).endswith(": closed>"))
            print(client.state.cause)

            def use_all():
                for use in (
                    lambda: client.send(QUEUE, b"lost"),
                    lambda: client.send(QUEUE, b"lost", receipt=True),
                    lambda: client.subscribe(QUEUE).__enter__(),
                    lambda: next(subscription),
                ):
                    try:
                        use()
                    except trio_stomp.ConnectionClosed as error:
                        print(error)

            use_all()
            # It may have the identifier that the client's own thread has in the parent.
            thread = threading.Thread(target=use_all)
            thread.start()
            thread.join()
            client.close()
            sys.exit(5)
        _, status = os.wait()
        client.send(QUEUE, b"after", receipt=True)
        client.close()
        sys.exit(os.waitstatus_to_exitcode(status))
        """,
        status=5,
    )

    state, cause, *said = done.output.splitlines()
    assert state == "Phase.CLOSED False True"
    assert cause.startswith("this client was opened before os.fork()")
    assert "or pass after_fork='reopen'" in cause
    assert len(said) == 8
    assert len(set(said)) == 1
    assert "open a client in each process" in said[0]
    assert "post_fork" in said[0]
    assert texts(broker) == ["after", "before"]


@NEEDS_FORK
def test_client_when_it_reopens_after_a_fork_then_both_processes_go_on(broker: ThreadedBroker, run: Run) -> None:
    run(
        """
        client = trio_stomp.blocking.open(url, after_fork="reopen")
        client.send(QUEUE, b"before")
        children = []
        for number in range(3):
            child = os.fork()
            if not child:
                client.send(QUEUE, b"child %d" % number, receipt=True, timeout=30)
                with client.subscribe(f"/queue/{number}") as subscription:
                    client.send(f"/queue/{number}", b"")
                    next(subscription).ack(receipt=True)
                sys.exit(0)
            children.append(child)
            client.send(QUEUE, b"parent %d" % number, receipt=True)
        for child in children:
            _, status = os.waitpid(child, 0)
            assert status == 0
        client.send(QUEUE, b"after")
        """,
    )

    assert texts(broker) == ["after", "before", "child 0", "child 1", "child 2", "parent 0", "parent 1", "parent 2"]


@NEEDS_FORK
def test_client_when_it_cannot_reopen_after_a_fork_then_the_time_limit_of_each_call_is_kept(
    broker: ThreadedBroker,
) -> None:
    with running(
        broker,
        """
        forever = trio_stomp.Reconnect(retry_first=True)
        client = trio_stomp.blocking.open(url, reconnect=forever, after_fork="reopen", timeout=0.1)
        print("connected", flush=True)
        sys.stdin.readline()
        if os.fork() == 0:
            for call in (
                lambda: client.send(QUEUE, b"x", receipt=True),
                lambda: client.send_many([trio_stomp.OutgoingMessage(QUEUE, b"x")]),
                lambda: client.request(QUEUE, b"x"),
                lambda: client.publisher(),
                lambda: client.subscribe(QUEUE),
                lambda: client.transaction(),
            ):
                try:
                    call()
                except trio_stomp.OperationTimeout as error:
                    print(error)
            print("all", flush=True)
            sys.stdin.readline()
            client.send(QUEUE, b"later", receipt=True, timeout=30)
            sys.exit(0)
        os.wait()
        """,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        broker.call(Broker.stop_listening)
        process.stdin.write("the broker is away\n")
        process.stdin.flush()
        said = list(iter(process.stdout.readline, "all\n"))
        broker.call(Broker.start_listening)
        process.communicate("it is back\n", timeout=60)

    words = (
        "took longer than its timeout of 0.1 s; the client was not connected in this process yet, and nothing was sent"
    )
    verbs = ("send", "send_many", "request", "publisher", "subscribe", "transaction")
    assert said == [f"{verb}() {words}\n" for verb in verbs]
    assert texts(broker) == ["later"]


@NEEDS_FORK
def test_client_when_it_reopens_after_a_fork_then_the_rest_of_the_time_limit_is_for_the_call(
    broker: ThreadedBroker, run: Run
) -> None:
    done = run(
        """
        client = trio_stomp.blocking.open(url, after_fork="reopen")
        # As if another thread had it at the moment of the fork.
        client._opened.naming.acquire()
        if os.fork() == 0:
            try:
                client.request(QUEUE, b"x", timeout=2)
            except trio_stomp.OperationTimeout as error:
                print(type(error).__name__, flush=True)
            client.transaction()
            os._exit(0)
        os.wait()
        client._opened.naming.release()
        """,
    )

    assert done.output == "RequestTimeout\n"
    assert texts(broker) == ["x"]


@NEEDS_FORK
def test_state_when_a_forked_process_has_not_connected_then_it_is_known_without_waiting(
    broker: ThreadedBroker, run: Run
) -> None:
    done = run(
        """
        client = trio_stomp.blocking.open(url, after_fork="reopen")
        client.send(QUEUE, b"x", receipt=True)
        if os.fork() == 0:
            print(client.statistics().bytes_sent, client.version, repr(client).endswith(": lost>"))
            state = client.state
            print(state.phase, state.healthy, state.cause)
            client.send(QUEUE, b"y", receipt=True)
            print(client.state.phase, client.state.healthy, client.statistics().bytes_sent > 0)
            sys.exit(0)
        os.wait()
        """,
    )

    assert done.output.splitlines() == [
        "0 1.2 True",
        (
            "Phase.LOST False this client was opened before os.fork(), and the new process has not connected yet; the "
            "next call does (after_fork='reopen')"
        ),
        "Phase.CONNECTED True True",
    ]


@NEEDS_FORK
def test_state_when_only_that_is_read_in_a_forked_process_then_it_connects_in_the_end(
    broker: ThreadedBroker, run: Run
) -> None:
    """A web application that takes no work until it is healthy would otherwise never take any."""
    run(
        """
        client = trio_stomp.blocking.open(url, after_fork="reopen")
        for _ in range(2):
            # The second one is forked from a process that connects at that moment.
            if os.fork() != 0:
                _, status = os.wait()
                os._exit(os.waitstatus_to_exitcode(status))
            client.state
        while not client.state.healthy:
            time.sleep(0.001)
        client.send(QUEUE, b"x", receipt=True)
        client.close()
        assert client.state.phase is trio_stomp.types.Phase.CLOSED
        os._exit(0)
        """,
    )

    assert texts(broker) == ["x"]


@NEEDS_FORK
def test_state_when_a_forked_process_cannot_connect_then_says_why_and_tries_again(broker: ThreadedBroker) -> None:
    with running(
        broker,
        """
        client = trio_stomp.blocking.open(url, after_fork="reopen")
        print("connected", flush=True)
        sys.stdin.readline()
        if os.fork() == 0:
            while "is a broker listening there?" not in str(client.state):
                time.sleep(0.001)
            print(client.state.phase, flush=True)
            sys.stdin.readline()
            while not client.state.healthy:
                time.sleep(0.001)
            client.send(QUEUE, b"x", receipt=True)
            client.close()
            os._exit(0)
        os.wait()
        """,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        broker.call(Broker.stop_listening)
        process.stdin.write("the broker is away\n")
        process.stdin.flush()
        assert process.stdout.readline() == "Phase.LOST\n"
        broker.call(Broker.start_listening)
        process.communicate("it is back\n", timeout=60)

    assert texts(broker) == ["x"]


@NEEDS_FORK
def test_client_when_forked_before_the_task_that_opened_it_has_ended_then_it_ends_with_its_last_reference(
    run: Run,
) -> None:
    """The frame of that task stays in the forked process for good, because no thread runs it there."""
    run(
        """
        import gc, weakref
        from trio_stomp.blocking.thread import Call

        end = Call._end

        def end_slowly(call):
            end(call)
            if threading.current_thread() is not threading.main_thread():
                time.sleep(0.5)

        Call._end = end_slowly
        client = trio_stomp.blocking.open(url, after_fork="reopen")
        Call._end = end
        if os.fork() == 0:
            gc.disable()
            opened = weakref.ref(client._opened)
            del client
            os._exit(opened() is not None)
        _, status = os.wait()
        client.close()
        sys.exit(os.waitstatus_to_exitcode(status))
        """,
    )


@NEEDS_FORK
def test_client_when_its_state_has_made_a_forked_process_connect_then_it_ends_with_its_last_reference(run: Run) -> None:
    run(
        """
        import gc, weakref

        client = trio_stomp.blocking.open(url, after_fork="reopen")
        if os.fork() == 0:
            gc.disable()
            while not client.state.healthy:
                time.sleep(0.001)
            opened = weakref.ref(client._opened)
            del client
            until = time.monotonic() + 10
            while opened() is not None and time.monotonic() < until:
                time.sleep(0.001)
            os._exit(opened() is not None)
        _, status = os.wait()
        client.close()
        sys.exit(os.waitstatus_to_exitcode(status))
        """,
    )


@NEEDS_FORK
def test_client_when_closed_while_a_forked_process_connects_then_that_connection_is_closed_too(
    broker: ThreadedBroker, run: Run
) -> None:
    run(
        """
        client = trio_stomp.blocking.open(url, after_fork="reopen")
        opened, connects, is_closed = client._opened, threading.Event(), threading.Event()
        connect = opened._dial

        async def connect_late():
            connects.set()
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(is_closed.wait)
                return await connect()

        opened._dial = connect_late
        if os.fork() == 0:
            client.state
            connects.wait()
            client.close()
            assert client.state.phase is trio_stomp.types.Phase.CLOSED
            is_closed.set()
            while opened.newest.link.thread.forked or not opened.newest.link.is_closed:
                time.sleep(0.001)
            os._exit(0)
        _, status = os.wait()
        client.close()
        sys.exit(os.waitstatus_to_exitcode(status))
        """,
    )


@NEEDS_FORK
def test_client_when_closed_before_the_fork_then_stays_closed(broker: ThreadedBroker, run: Run) -> None:
    run(
        """
        client = trio_stomp.blocking.open(url, after_fork="reopen")
        client.close()
        if os.fork() == 0:
            try:
                client.send(QUEUE, b"x")
            except trio_stomp.ConnectionClosed:
                sys.exit(6)
        _, status = os.wait()
        sys.exit(os.waitstatus_to_exitcode(status))
        """,
        status=6,
    )


@NEEDS_FORK
def test_client_when_a_forked_process_ends_then_the_connection_of_the_parent_stays(
    broker: ThreadedBroker, run: Run
) -> None:
    """What a forked child inherits, it must leave alone: also in its last moments."""
    run(
        """
        client = trio_stomp.blocking.open(url)
        with client.subscribe(QUEUE) as subscription:
            for end in (lambda: os._exit(0), lambda: sys.exit(0)):
                if os.fork() == 0:
                    end()
                os.wait()
                client.send(QUEUE, b"x")
                next(subscription).ack(receipt=True)
        assert client.state.healthy
        client.close()
        """,
    )

    assert texts(broker) == []


@NEEDS_FORK
def test_client_when_its_process_is_killed_then_no_child_keeps_the_connection_open(broker: ThreadedBroker) -> None:
    with running(
        broker,
        """
        client = trio_stomp.blocking.open(url, heart_beat=(0, 0))
        if os.fork() == 0:
            sys.stdin.readline()
            os._exit(0)
        client.send(QUEUE, b"x", receipt=True)
        print("connected", flush=True)
        os.wait()
        """,
    ) as process:
        process.kill()

        async def no_sessions(inner: Broker) -> None:
            with trio.fail_after(30):
                await inner.wait_until(lambda: not inner.sessions)

        broker.call(no_sessions)
        process.communicate("end\n", timeout=60)


@NEEDS_FORK
def test_client_when_each_worker_of_a_pre_fork_server_opens_its_own_then_all_work(
    broker: ThreadedBroker, run: Run
) -> None:
    """What gunicorn does: the master loads the program, forks workers, calls post_fork in each, and they exit."""
    run(
        """
        master = trio_stomp.blocking.open(url)

        def post_fork():
            global client
            client = trio_stomp.blocking.open(url)

        def serve(number):
            client.send(QUEUE, b"request %d" % number)

        workers = []
        for number in range(3):
            worker = os.fork()
            if not worker:
                post_fork()
                serve(number)
                sys.exit(0)
            workers.append(worker)
        statuses = [os.waitpid(worker, 0)[1] for worker in workers]
        master.send(QUEUE, b"master")
        sys.exit(max(statuses))
        """,
    )

    assert texts(broker) == ["master", "request 0", "request 1", "request 2"]


@NEEDS_FORK
def test_client_when_a_fork_comes_while_threads_use_it_then_the_child_is_told_and_hangs_nowhere(
    broker: ThreadedBroker, run: Run
) -> None:
    run(
        """
        client = trio_stomp.blocking.open(url)
        stop = threading.Event()

        def use():
            with client.subscribe("/queue/own") as messages:
                while not stop.is_set():
                    client.send("/queue/own", b"x")
                    messages.receive(timeout=60).ack()
                    with client.transaction():
                        pass

        users = [threading.Thread(target=use) for _ in range(3)]
        for each in users:
            each.start()
        statuses = []
        for _ in range(20):
            child = os.fork()
            if not child:
                refused = 0
                for use in (
                    lambda: client.send(QUEUE, b"x"),
                    lambda: client.subscribe(QUEUE),
                    lambda: client.transaction(),
                    lambda: client.statistics(),
                ):
                    try:
                        use()
                    except trio_stomp.ConnectionClosed:
                        refused += 1
                with trio_stomp.blocking.connect(url) as own:
                    own.send(QUEUE, b"child", receipt=True)
                os._exit(refused)
            statuses.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        stop.set()
        for each in users:
            each.join()
        client.close()
        assert statuses == [4] * 20, statuses
        """,
    )

    assert texts(broker) == ["child"] * 20


# --- where an event loop runs already -------------------------------------------------------------------------------


def test_client_when_used_while_an_asyncio_loop_runs_then_works(broker: ThreadedBroker, run: Run) -> None:
    """What a cell of a Jupyter notebook does."""
    run(
        """
        import asyncio

        async def cell():
            global client
            client = trio_stomp.blocking.open(url)
            client.send(QUEUE, b"sent", receipt=True)
            with client.subscribe(QUEUE) as subscription, next(subscription) as message:
                print(message.text)

        asyncio.run(cell())
        client.send(QUEUE, b"in another cell", receipt=True)
        """,
    )

    assert texts(broker) == ["in another cell"]


# --- a flag that a signal handler sets ------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_loop_of_the_manual_when_a_signal_sets_its_flag_then_it_ends_soon_though_no_message_comes(
    broker: ThreadedBroker, tmp_path: Path, number: signal.Signals
) -> None:
    manual = (Path(__file__).parents[2] / "docs" / "how-to" / "synchronous.md").read_text("utf-8")
    (program,) = [each for each in re.findall(r"```python\n(.*?)```", manual, re.DOTALL) if "stopping = True" in each]
    script = tmp_path / "worker.py"
    script.write_text(program.replace("localhost:61613", f"127.0.0.1:{broker.port}"), "utf-8")
    broker.call(lambda inner: inner.publish("/queue/orders", b'{"order": 1}', [("content-type", "application/json")]))
    with subprocess.Popen([sys.executable, "-u", script], stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "{'order': 1}\n"
        begun = time.monotonic()
        worker.send_signal(number)
        assert worker.wait(60) == 0

    assert time.monotonic() - begun < 5
    assert broker.call(lambda inner: inner.depth("/queue/orders") + inner.unacknowledged("/queue/orders")) == 0
