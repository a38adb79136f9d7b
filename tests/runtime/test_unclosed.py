"""Clients that the program leaves open, each in a program of its own."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import re
import textwrap
import tracemalloc
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Final, Protocol

import pytest
import trio

import trio_stomp
from tests.kit.on_asyncio import run_on_asyncio
from tests.kit.warm_python import WarmPython
from trio_stomp.testing import BrokerOptions, StallReading, ThreadedBroker, run_broker_in_thread
from trio_stomp.types import ConnectionInfo, Phase

QUEUE: Final = "/queue/a"
HEAD: Final = """
import asyncio, os, sys, threading
import trio_stomp
url, QUEUE = sys.argv[1:]
"""


# What a client imports in each loop.
IMPORTS: Final = (
    "asyncio",
    "trio_stomp.runtime._asyncio",
    "anyio._backends._asyncio",
    "trio_stomp.runtime._trio",
    "anyio._backends._trio",
)


def warning(broker: ThreadedBroker) -> str:
    address = re.escape(broker.url.rpartition("@")[2])
    return rf"the client of stomp://{address}, opened at .*:\d+, was not closed: await its aclose\(\)"


class Run(Protocol):
    """Runs a program whose `url` is the broker's; returns what it prints as errors, once it has ended by itself."""

    def __call__(
        self, broker: ThreadedBroker, program: str, *, options: tuple[str, ...] = ..., status: int = 0
    ) -> list[str]: ...


@pytest.fixture(scope="module")
def pythons() -> Generator[Callable[[tuple[str, ...]], WarmPython]]:
    """What programs are forked from: for each set of options a process that has imported what they import."""
    with ExitStack() as stack:

        @cache
        def with_options(options: tuple[str, ...]) -> WarmPython:
            return stack.enter_context(WarmPython(imports=IMPORTS, options=options))

        yield with_options


@pytest.fixture
def run(pythons: Callable[[tuple[str, ...]], WarmPython], tmp_path: Path) -> Run:
    def run(
        broker: ThreadedBroker, program: str, *, options: tuple[str, ...] = ("-W", "always"), status: int = 0
    ) -> list[str]:
        (tmp_path / "program.py").write_text(HEAD + textwrap.dedent(program), "utf-8")
        with pythons(options).run("program.py", broker.url, QUEUE, folder=tmp_path) as started:
            ended = started.wait(60)
            assert ended == status, started.errors()
            return started.errors().splitlines()

    return run


def unwritten(broker: ThreadedBroker) -> str:
    address = re.escape(broker.url.rpartition("@")[2])
    return rf"the client of stomp://{address} was not closed: \d+ bytes were never written; await its aclose\(\)"


def bodies(broker: ThreadedBroker) -> list[str]:
    return [message.body.decode() for message in broker.call(lambda inner: inner.messages(QUEUE))]


def test_exit_when_a_client_is_open_then_warned_of_and_nothing_else_is_said(run: Run, broker: ThreadedBroker) -> None:
    said = run(
        broker,
        """
        async def main():
            global client
            client = await trio_stomp.open(url)
            await client.send(QUEUE, "sent", receipt=True)

        asyncio.run(main())
        sys.exit(3)
        """,
        status=3,
    )

    # Python shows the place that the warning is for, and its line of source where it has it.
    assert re.search(warning(broker), said[0])
    assert "ResourceWarning" in said[0]
    assert not [line for line in said if "Traceback" in line or "destroyed" in line]


@pytest.mark.parametrize("holder", ["global client", "client = None"])
def test_exit_when_plain_sends_wait_in_an_open_client_then_they_are_written_and_no_task_of_ours_is_named(
    run: Run, broker: ThreadedBroker, holder: str
) -> None:
    program = f"""
        async def main():
            {holder}
            client = await trio_stomp.open(url)
            for _ in range(10):
                await client.send(QUEUE, "x")

        asyncio.run(main())
        """

    assert run(broker, program, options=()) == []
    assert not [line for line in run(broker, program) if "never awaited" in line]
    broker.call(lambda inner: inner.wait_until(lambda: inner.depth(QUEUE) == 20))


@pytest.mark.parametrize("holder", ["global client", "client = None"])
@pytest.mark.parametrize("sizes", ["[30_000_000]", "[30_000_000, 7]"])
@pytest.mark.parametrize("loop", ["asyncio", "uvloop", "trio"])
def test_client_when_dropped_with_unwritten_bytes_then_the_log_says_how_many(
    run: Run, broker: ThreadedBroker, loop: str, sizes: str, holder: str
) -> None:
    pytest.importorskip(loop)
    broker.call(lambda inner: inner.faults.plan(StallReading(after_bytes=500)))

    said = run(
        broker,
        f"""
        import {loop}

        async def main():
            {holder}
            client = await trio_stomp.open(url, outbox_bytes=100_000_000)
            for size in {sizes}:
                await client.send(QUEUE, b"x" * size)

        {loop}.run({"main" if loop == "trio" else "main()"})
        """,
        options=(),
    )

    assert len(said) == 1
    assert re.fullmatch(unwritten(broker), said[0])


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_client_when_dropped_over_a_websocket_with_unwritten_bytes_then_the_log_says_how_many(
    run: Run, loop: str
) -> None:
    with run_broker_in_thread(websocket=True) as broker:
        broker.call(lambda inner: inner.faults.plan(StallReading(after_bytes=500)))
        said = run(
            broker,
            f"""
            import {loop}

            async def main():
                client = await trio_stomp.open(url, outbox_bytes=100_000_000)
                await client.send(QUEUE, b"x" * 30_000_000)

            {loop}.run({"main" if loop == "trio" else "main()"})
            """,
            options=(),
        )
    assert [re.sub(r":\d+/", "/", re.sub(r"\d{8} bytes", "N bytes", line)) for line in said] == [
        "the client of ws://127.0.0.1/ws was not closed: N bytes were never written; await its aclose()"
    ]


def test_loop_when_closed_with_unwritten_bytes_then_the_log_says_how_many(run: Run, broker: ThreadedBroker) -> None:
    said = run(
        broker,
        """
        loop = asyncio.new_event_loop()
        client = loop.run_until_complete(trio_stomp.open(url))
        loop.call_soon(loop.stop)
        sending = loop.create_task(client.send(QUEUE, "x" * 30_000_000))
        loop.run_forever()
        loop.close()
        del client
        """,
    )

    assert [line for line in said if re.search(unwritten(broker), line)]


def test_open_when_canceled_while_it_begins_then_the_client_is_closed(broker: ThreadedBroker) -> None:
    ended: list[trio_stomp.StompError | None] = []
    opening: asyncio.Task[trio_stomp.Client]

    class Canceling(trio_stomp.Hooks):
        def connected(self, peer: ConnectionInfo) -> None:
            opening.cancel()

        def disconnected(self, peer: ConnectionInfo, cause: trio_stomp.StompError | None) -> None:
            ended.append(cause)

    async def main() -> None:
        nonlocal opening
        opening = asyncio.create_task(trio_stomp.open(broker.url, hooks=Canceling()))
        with pytest.raises(asyncio.CancelledError):
            await opening
        await broker.wait_until(lambda inner: inner.statistics().open_connections == 0)

    asyncio.run(main())

    assert ended == [None]


def test_loop_when_closed_with_an_open_client_then_a_warning_and_no_hang(run: Run, broker: ThreadedBroker) -> None:
    said = run(
        broker,
        """
        loop = asyncio.new_event_loop()
        client = loop.run_until_complete(trio_stomp.open(url))
        loop.close()
        """,
    )

    assert [line for line in said if re.search(warning(broker), line)]


async def subscribe(client: trio_stomp.Client) -> None:
    async with client.subscribe(QUEUE):
        raise AssertionError


USES: Final[dict[str, Callable[[trio_stomp.Client], Awaitable[None]]]] = {
    "send": lambda client: client.send(QUEUE, b"x"),
    "confirmed send": lambda client: client.send(QUEUE, b"x", receipt=True),
    "subscribe": subscribe,
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_client_when_its_run_of_trio_has_ended_then_its_connection_is_lost(
    broker: ThreadedBroker, use: Callable[[trio_stomp.Client], Awaitable[None]]
) -> None:
    client = trio.run(trio_stomp.open, broker.url)

    async def later() -> None:
        with trio.fail_after(5), pytest.raises(trio_stomp.ConnectionLost, match="as at the end of an event loop"):
            await use(client)
        assert client.state.phase is Phase.CLOSED
        await client.aclose(timeout=5)

    trio.run(later)
    assert not bodies(broker)


def test_task_when_it_sends_while_its_loop_ends_then_the_connection_is_lost(run: Run, broker: ThreadedBroker) -> None:
    said = run(
        broker,
        """
        async def work():
            try:
                await asyncio.sleep(60)
            finally:
                for _ in range(5):
                    await asyncio.sleep(0)
                await client.send(QUEUE, "last", receipt=True)

        async def main():
            global client, working
            client = await trio_stomp.open(url)
            working = asyncio.create_task(work())
            await asyncio.sleep(0)

        asyncio.run(main())
        """,
        options=(),
    )

    assert "trio_stomp.errors.ConnectionLost: the connection to " in said[-1]
    assert "as at the end of an event loop" in said[-1]


@pytest.mark.parametrize("reconnect", [False, True])
@pytest.mark.parametrize("sends", [False, True])
def test_block_when_the_program_has_canceled_all_tasks_then_it_says_that_the_connection_is_lost(
    broker: ThreadedBroker, *, sends: bool, reconnect: bool
) -> None:
    async def main() -> None:
        async with trio_stomp.connect(broker.url, reconnect=reconnect, disconnect_timeout=600) as client:
            if sends:
                await client.send(QUEUE, b"x", receipt=True)
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.wait(others)

    with pytest.raises(trio_stomp.ConnectionLost, match="its task in the background was canceled"):
        run_on_asyncio(main)


@pytest.mark.parametrize("with_its_own", [False, True])
@pytest.mark.parametrize("opens", [False, True])
def test_connect_when_the_task_in_the_background_is_canceled_before_it_begins_then_nothing_hangs_or_is_left_open(
    broker: ThreadedBroker, *, opens: bool, with_its_own: bool
) -> None:
    canceled: list[str] = []

    class Canceling(trio_stomp.Hooks):
        def connected(self, peer: ConnectionInfo) -> None:
            own = asyncio.current_task()
            asyncio.get_running_loop().call_soon(self.cancel, own)

        def cancel(self, own: asyncio.Task[object] | None) -> None:
            for task in asyncio.all_tasks():
                if with_its_own or task is not own:
                    canceled.append(task.get_name())
                    task.cancel()

    async def use() -> None:
        if opens:
            client = await trio_stomp.open(broker.url, hooks=Canceling(), disconnect_timeout=600)
            await client.send(QUEUE, b"x", receipt=True)
            await client.aclose()
        else:
            async with trio_stomp.connect(broker.url, hooks=Canceling(), disconnect_timeout=600) as client:
                await client.send(QUEUE, b"x", receipt=True)

    with pytest.raises(asyncio.CancelledError) if with_its_own else contextlib.nullcontext():
        run_on_asyncio(use)
    gc.collect()

    assert "trio_stomp connection" in canceled
    broker.call(lambda inner: inner.wait_until(lambda: inner.statistics().open_connections == 0))
    assert bodies(broker) == ([] if with_its_own else ["x"])


@pytest.mark.parametrize("all_of_them", [False, True])
def test_connect_when_the_tasks_that_dial_are_canceled_then_connect_error(
    broker: ThreadedBroker, *, all_of_them: bool
) -> None:
    async def main() -> None:
        own = asyncio.current_task()

        async def credentials() -> tuple[str, str]:
            dialing = asyncio.all_tasks() - {own} if all_of_them else {asyncio.current_task()}
            for task in dialing:
                assert task is not None
                task.cancel()
            await asyncio.sleep(60)
            raise AssertionError

        async with trio_stomp.connect(broker.url, credentials=credentials):
            raise AssertionError

    with pytest.raises(trio_stomp.ConnectError, match="the task of this attempt was canceled"):
        run_on_asyncio(main)


# anyio makes them for tasks that then never begin.
NEVER_AWAITED: Final = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")


@contextlib.contextmanager
def canceling(is_canceled: Callable[[asyncio.Task[object]], object]) -> Generator[None]:
    """Cancel the tasks that are made in a block before they begin, if the function says so."""

    def make(
        loop: asyncio.AbstractEventLoop, given: Coroutine[object, object, object], **options: object
    ) -> asyncio.Task[object]:
        task = asyncio.Task(given, loop=loop, **options)  # type: ignore[arg-type]  # the name and the context
        if is_canceled(task):
            task.cancel()
        return task

    asyncio.get_running_loop().set_task_factory(make)  # type: ignore[arg-type]  # typeshed's protocol also has generators
    try:
        yield
    finally:
        asyncio.get_running_loop().set_task_factory(None)


@NEVER_AWAITED
@pytest.mark.parametrize("number", range(4))
def test_connect_when_one_of_its_tasks_is_canceled_before_it_begins_then_no_socket_is_left_open(
    broker: ThreadedBroker, number: int
) -> None:
    made: list[asyncio.Task[object]] = []

    def is_canceled(task: asyncio.Task[object]) -> bool:
        made.append(task)
        return len(made) == number + 1

    async def main() -> None:
        with canceling(is_canceled):
            async with trio_stomp.connect(broker.url):
                pass

    with contextlib.suppress(trio_stomp.StompError):
        run_on_asyncio(main)
    gc.collect()

    assert len(made) > number
    broker.call(lambda inner: inner.wait_until(lambda: inner.statistics().open_connections == 0))


@NEVER_AWAITED
def test_connect_when_the_task_that_dials_for_another_virtual_host_is_canceled_then_the_first_is_refused() -> None:
    made: list[asyncio.Task[object]] = []

    def is_canceled(task: asyncio.Task[object]) -> bool:
        # The host, its address, the handshake, and the address once more.
        made.append(task)
        return len(made) == 4

    async def main(url: str) -> None:
        with canceling(is_canceled):
            async with trio_stomp.connect(url):
                raise AssertionError

    with (
        run_broker_in_thread(options=BrokerOptions(vhosts=["127.0.0.1"])) as broker,
        pytest.raises(trio_stomp.ConnectError, match="unknown virtual host '/'"),
    ):
        run_on_asyncio(lambda: main(broker.url))


@NEVER_AWAITED
def test_connect_when_the_program_goes_on_canceling_its_tasks_then_nothing_hangs_or_is_left_open(
    broker: ThreadedBroker,
) -> None:
    made: list[asyncio.Task[object]] = []

    async def main() -> None:
        own = asyncio.current_task()

        def is_canceled(task: asyncio.Task[object]) -> bool:
            made.append(task)
            # Those that dial have connected by then.
            if len(made) <= 3 or own is None:
                return False
            own.cancel()
            return True

        with canceling(is_canceled):
            async with trio_stomp.connect(broker.url):
                raise AssertionError

    with pytest.raises(asyncio.CancelledError):
        run_on_asyncio(main)
    gc.collect()

    assert len(made) > 3
    broker.call(lambda inner: inner.wait_until(lambda: inner.statistics().open_connections == 0))


def test_client_when_dropped_then_memory_tracing_shows_where_it_was_opened(broker: ThreadedBroker) -> None:
    async def main() -> None:
        holder = [await trio_stomp.open(broker.url)]
        await holder[0].send(QUEUE, "sent", receipt=True)
        holder.clear()
        await broker.wait_until(lambda inner: inner.statistics().open_connections == 0)

    tracemalloc.start(20)
    try:
        with pytest.warns(ResourceWarning, match=warning(broker)) as caught:
            asyncio.run(main())
        opened = tracemalloc.get_object_traceback(caught[0].source)
    finally:
        tracemalloc.stop()

    assert Path(caught[0].filename) == Path(__file__)
    assert opened is not None
    assert __file__ in {frame.filename for frame in opened}


def test_client_when_closed_then_not_warned_of(run: Run, broker: ThreadedBroker) -> None:
    said = run(
        broker,
        """
        async def main():
            client = await trio_stomp.open(url)
            await client.aclose()
            async with trio_stomp.connect(url) as client:
                await client.send(QUEUE, b"x")

        asyncio.run(main())
        """,
    )

    assert said == []


def test_exit_when_the_loop_of_a_daemon_thread_uses_the_client_then_it_prints_nothing(
    run: Run, broker: ThreadedBroker
) -> None:
    said = run(
        broker,
        """
        waits = threading.Event()

        async def consume():
            async with trio_stomp.connect(url) as client, client.subscribe(QUEUE) as subscription:
                waits.set()
                await anext(subscription)

        threading.Thread(target=asyncio.run, args=[consume()], daemon=True).start()
        waits.wait(60)
        """,
    )

    assert said == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork()")
def test_client_when_a_forked_process_ends_then_only_the_process_that_opened_it_warns(
    run: Run, broker: ThreadedBroker
) -> None:
    said = run(
        broker,
        """
        async def main():
            global client
            client = await trio_stomp.open(url)

        asyncio.run(main())
        if (child := os.fork()) == 0:
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
        """,
        options=("-W", "always", "-W", "ignore::DeprecationWarning"),
    )

    assert len([line for line in said if re.search(warning(broker), line)]) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork()")
def test_client_when_used_in_a_forked_process_then_runtime_error_and_the_other_process_goes_on(
    run: Run,
    broker: ThreadedBroker,
) -> None:
    said = run(
        broker,
        """
        loop = asyncio.new_event_loop()
        client = loop.run_until_complete(trio_stomp.open(url))

        async def use():
            try:
                await client.send(QUEUE, "child")
            except RuntimeError as error:
                print(error, file=sys.stderr)

        if (child := os.fork()) == 0:
            asyncio.run(use())
            sys.stderr.flush()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        loop.run_until_complete(client.send(QUEUE, "parent", receipt=True))
        loop.run_until_complete(client.aclose())
        loop.close()
        """,
        options=("-W", "always", "-W", "ignore::DeprecationWarning"),
    )

    assert len(said) == 1
    assert "belongs to another event loop" in said[0]
    assert bodies(broker) == ["parent"]
