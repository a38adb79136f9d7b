"""The fixtures: used here as a user would, and in pytest runs of their own for what cannot be."""

import re
import textwrap
from collections.abc import Generator, Sequence
from pathlib import Path

import anyio
import pytest

from tests.kit.needed import needs
from tests.kit.warm_python import WarmPython
from tests.testing.raw_client import CONNECT
from trio_stomp.testing import Broker, BrokerOptions, ThreadedBroker


@pytest.fixture
def stomp_broker_options() -> BrokerOptions:
    return BrokerOptions(server="fixture/1")


async def test_stomp_broker_when_asked_for_by_a_trio_test_then_runs_in_its_loop(stomp_broker: Broker) -> None:
    stream = await anyio.connect_tcp("127.0.0.1", stomp_broker.port)
    async with stream:
        await stream.send(CONNECT)
        await stomp_broker.wait_until(lambda: any(session.connected for session in stomp_broker.sessions))

        assert b"server:fixture/1" in await stream.receive()


def test_stomp_broker_url_when_asked_for_by_a_synchronous_test_then_runs_in_a_thread(
    stomp_broker_url: str, stomp_broker_thread: ThreadedBroker
) -> None:
    async def main() -> bytes:
        async with await anyio.connect_tcp("127.0.0.1", int(stomp_broker_url.rpartition(":")[2])) as stream:
            await stream.send(b"CONNECT\naccept-version:1.2\nhost:h\n\n\0SEND\ndestination:/queue/a\nreceipt:r\n\nx\0")
            answer = b""
            while b"RECEIPT" not in answer:
                answer += await stream.receive()
            return answer

    # A loop that is not trio's.
    assert b"server:fixture/1" in anyio.run(main, backend="asyncio")
    assert stomp_broker_thread.call(lambda broker: broker.depth("/queue/a")) == 1


class Pytest:
    """Runs modules of tests, each time in a process of its own."""

    def __init__(self, python: WarmPython, folder: Path) -> None:
        self._python = python
        self._folder = folder

    def __call__(self, tests: Sequence[str], *arguments: str) -> tuple[int, str]:
        """Run modules of tests; returns the exit status, and what was printed."""
        for number, test in enumerate(tests):
            (self._folder / f"test_{number}.py").write_text(textwrap.dedent(test))
        # The folder may be inside the project's own, whose settings are for other plugins.
        (self._folder / "pytest.ini").write_text("[pytest]\n")
        plugins = ("-p", "trio_stomp.testing.pytest_plugin", "-p", "no:cacheprovider")
        with self._python.run("-m", "pytest", *plugins, "-q", *arguments, folder=self._folder) as process:
            return process.wait(120), process.output() + process.errors()


@pytest.fixture(scope="module")
def python() -> Generator[WarmPython]:
    environment = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(Path(__file__).parents[2])}
    with WarmPython(imports=("pytest", "trio_stomp"), environment=environment) as started:
        yield started


@pytest.fixture
def run_pytest(python: WarmPython, tmp_path: Path) -> Pytest:
    return Pytest(python, tmp_path)


TEST = """
    import pytest

    @pytest.fixture
    async def port(stomp_broker):
        return stomp_broker.port

    @pytest.mark.trio
    async def test_it(stomp_broker, port):
        assert stomp_broker.port == port > 0
        await stomp_broker.wait_until(lambda: True)
"""


def test_stomp_broker_when_trio_mode_is_off_then_works_in_marked_tests(run_pytest: Pytest) -> None:
    status, printed = run_pytest([TEST], "-p", "pytest_trio.plugin")

    assert status == 0, printed


SYNCHRONOUS = """
    def test_it(stomp_broker):
        pass

    def test_url(stomp_broker_url):
        assert stomp_broker_url.startswith("stomp://")
"""
ON_ASYNCIO = """
    import asyncio
    import pytest
    import trio_stomp
    {head}

    @{fixture}
    async def client(stomp_broker):
        async with trio_stomp.connect(stomp_broker.url) as connected:
            yield connected

    @pytest.mark.{mark}
    async def test_it(client, stomp_broker):
        assert asyncio.get_running_loop().is_running()
        waiting = asyncio.create_task(stomp_broker.wait_until(lambda: stomp_broker.depth("/queue/a") == 1))
        await client.send("/queue/a", b"tea", receipt=True)
        await waiting
        assert stomp_broker.sessions[0].connected

    @pytest.mark.{mark}
    async def test_url(stomp_broker_url):
        assert stomp_broker_url.startswith("stomp://")
"""
URL_ON_ASYNCIO = """
    import asyncio
    import pytest
    import trio_stomp
    {head}

    @{fixture}
    async def client(stomp_broker_url):
        async with trio_stomp.connect(stomp_broker_url) as connected:
            yield connected

    @pytest.mark.{mark}
    async def test_connect(stomp_broker_url):
        async with trio_stomp.connect(stomp_broker_url) as client:
            await client.send("/queue/a", b"tea", receipt=True)

    @pytest.mark.{mark}
    async def test_fixture(client, stomp_broker_thread):
        async def handle(message):
            await asyncio.sleep(0)

        async with client.subscribe("/queue/a") as orders:
            # This loop has to run for the message to be acknowledged.
            worker = asyncio.create_task(orders.work(handle))
            stomp_broker_thread.call(lambda broker: broker.publish("/queue/a", b"tea"))
            await stomp_broker_thread.wait_until(
                lambda broker: not broker.depth("/queue/a") and not broker.unacknowledged("/queue/a")
            )
            worker.cancel()

    @pytest.mark.{mark}
    async def test_late(stomp_broker_thread):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await stomp_broker_thread.wait_until(lambda broker: False)
"""
ANYIO_BACKEND = 'anyio_backend = pytest.fixture(lambda: "{name}", name="anyio_backend")'
WITH_ANYIO = ("-p", "anyio.pytest_plugin")
WITH_ASYNCIO = ("-p", "pytest_asyncio.plugin", "-o", "asyncio_default_fixture_loop_scope=function")
# By the mark of the tests: the arguments, what a module needs at its head, and the decorator of an async fixture.
ASYNCIO_PLUGINS = {
    "anyio": (WITH_ANYIO, ANYIO_BACKEND.format(name="asyncio"), "pytest.fixture"),
    "asyncio": (WITH_ASYNCIO, "import pytest_asyncio", "pytest_asyncio.fixture"),
}


def test_stomp_broker_when_the_test_is_synchronous_then_says_what_to_do(run_pytest: Pytest) -> None:
    _, printed = run_pytest([SYNCHRONOUS])

    assert "requires an async test" in printed, printed
    assert "1 passed, 1 error" in printed


MARKED = """
    import pytest

    {mark}
    async def test_it(stomp_broker):
        pass
"""


@pytest.mark.parametrize("mark", ["", "@pytest.mark.trio", "@pytest.mark.asyncio"])
def test_stomp_broker_when_no_plugin_runs_the_async_test_then_says_what_to_do(mark: str, run_pytest: Pytest) -> None:
    _, printed = run_pytest([MARKED.format(mark=mark)])

    assert "test_it is async, but no plugin runs it" in printed, printed
    assert "pytest.mark.asyncio, trio or anyio, or set asyncio_mode = auto or trio_mode = true" in printed
    assert "_stomp_broker" not in re.sub("test_stomp_broker", "", printed)


@pytest.mark.parametrize(
    ("mark", "mode", "plugins"),
    [
        ("anyio", "asyncio_mode=auto", "pytest-asyncio and to anyio's plugin"),
        ("anyio", "trio_mode=true", "pytest-trio and to anyio's plugin"),
        ("asyncio", "trio_mode=true", "pytest-trio and to pytest-asyncio"),
    ],
)
def test_stomp_broker_when_several_plugins_run_the_test_then_says_what_to_do(
    mark: str, mode: str, plugins: str, run_pytest: Pytest
) -> None:
    needs("pytest_asyncio")
    loaded = (*WITH_ANYIO, *WITH_ASYNCIO, "-p", "pytest_trio.plugin")

    _, printed = run_pytest([MARKED.format(mark=f"@pytest.mark.{mark}")], *loaded, "-o", mode)

    assert f"belongs to {plugins}, each with an event loop of its own: leave trio_mode" in printed, printed


PARAMETRIZED = """
    import pytest
    from trio_stomp.testing import BrokerOptions

    every = [BrokerOptions(server=name) for name in ("RabbitMQ/4.3.6", "ActiveMQ/6.2.6")]

    class TestOfFixture:
        @pytest.fixture(params=every)
        def stomp_broker_options(self, request):
            return request.param

        @pytest.mark.{mark}
        async def test_it(self, stomp_broker, stomp_broker_thread, request):
            options = request.getfixturevalue("stomp_broker_options")
            assert stomp_broker.options is options
            assert stomp_broker_thread.call(lambda broker: broker.options) is options

    @pytest.mark.{mark}
    @pytest.mark.parametrize("stomp_broker_options", every)
    async def test_broker(stomp_broker):
        assert stomp_broker.options in every
"""


@pytest.mark.parametrize("mark", ["trio", "asyncio"])
def test_stomp_broker_options_when_parametrized_then_one_test_for_each(mark: str, run_pytest: Pytest) -> None:
    needs("pytest_asyncio")

    _, printed = run_pytest([PARAMETRIZED.format(mark=mark)], *WITH_ASYNCIO, "-p", "pytest_trio.plugin")

    assert "4 passed" in printed, printed


@pytest.mark.parametrize(
    ("mark", "mode"), [("anyio", "strict"), ("asyncio", "strict"), ("asyncio", "auto")], ids=lambda text: text
)
def test_fixtures_when_the_test_is_on_asyncio_then_the_broker_runs_in_its_loop_or_in_a_thread(
    mark: str, mode: str, run_pytest: Pytest
) -> None:
    needs("pytest_asyncio")
    arguments, head, fixture = ASYNCIO_PLUGINS[mark]
    if mark == "asyncio":
        arguments = (*arguments, "-o", f"asyncio_mode={mode}")
    tests = [test.format(mark=mark, head=head, fixture=fixture) for test in (ON_ASYNCIO, URL_ON_ASYNCIO)]

    _, printed = run_pytest(tests, *arguments, "-W", "error", "-p", "pytest_trio.plugin")

    assert "5 passed" in printed, printed


SHARED_LOOP = """
    import asyncio
    import pytest
    import trio_stomp

    loops = set()

    @pytest.mark.asyncio({scope})
    @pytest.mark.parametrize("number", range(2))
    async def test_it(stomp_broker, number):
        loops.add(asyncio.get_running_loop())
        async with trio_stomp.connect(stomp_broker.url, connect_timeout=5) as client:
            await client.send("/queue/a", b"tea", receipt=True)
        assert stomp_broker.depth("/queue/a") == 1
        assert len(loops) == 1
"""


@pytest.mark.parametrize(
    ("scopes", "for_all"),
    [
        (['loop_scope="session"', 'loop_scope="module"'], ()),
        ([""], ("-o", "asyncio_default_test_loop_scope=session")),
    ],
    ids=["mark", "default"],
)
def test_stomp_broker_when_tests_share_a_loop_then_runs_in_it(
    scopes: list[str], for_all: tuple[str, ...], run_pytest: Pytest
) -> None:
    needs("pytest_asyncio")
    tests = [SHARED_LOOP.format(scope=scope) for scope in scopes]

    _, printed = run_pytest(tests, *WITH_ASYNCIO, *for_all, "-W", "error")

    assert f"{2 * len(scopes)} passed" in printed, printed


def test_stomp_broker_when_anyio_runs_the_test_on_trio_then_runs_in_its_loop(run_pytest: Pytest) -> None:
    test = """
        import pytest
        import trio_stomp

        {backend}

        @pytest.mark.anyio
        async def test_loop(stomp_broker):
            async with trio_stomp.connect(stomp_broker.url) as client:
                await client.send("/queue/a", b"tea", receipt=True)
            assert stomp_broker.depth("/queue/a") == 1

        @pytest.mark.anyio
        async def test_thread(stomp_broker_thread):
            async with trio_stomp.connect(stomp_broker_thread.url) as client:
                await client.send("/queue/a", b"tea")
                await stomp_broker_thread.wait_until(lambda broker: broker.depth("/queue/a") == 1)
            assert stomp_broker_thread.call(lambda broker: broker.depth("/queue/a")) == 1
    """
    _, printed = run_pytest([test.format(backend=ANYIO_BACKEND.format(name="trio"))], *WITH_ANYIO)

    assert "2 passed" in printed, printed
