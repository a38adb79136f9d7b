"""The fixtures: used here as a user would, and in pytest runs of their own for what cannot be."""

import subprocess
import sys
import textwrap
from pathlib import Path

import anyio
import pytest

from tests.testing.raw_client import RawClient
from trio_stomp.protocol import Command
from trio_stomp.testing import Broker, BrokerOptions, ThreadedBroker


@pytest.fixture
def stomp_broker_options() -> BrokerOptions:
    return BrokerOptions(server="fixture/1")


async def test_stomp_broker_when_asked_for_by_a_trio_test_then_runs_in_its_loop(stomp_broker: Broker) -> None:
    stream = await anyio.connect_tcp("127.0.0.1", stomp_broker.port)
    async with stream:
        await stream.send(b"CONNECT\naccept-version:1.2\nhost:h\n\n\0")
        await stomp_broker.wait_until(lambda: any(session.connected for session in stomp_broker.sessions))

        assert b"server:fixture/1" in await stream.receive()


async def test_stomp_broker_when_connected_in_memory_then_works_too(stomp_broker: Broker) -> None:
    client = RawClient(stomp_broker.connect_stream())

    frame = await client.connect()

    assert frame.command is Command.CONNECTED


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


def run_pytest(folder: Path, test: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(textwrap.dedent(test))
    plugin = "trio_stomp.testing.pytest_plugin"
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", plugin, "-p", "no:cacheprovider", "-q", *arguments, "test_it.py"],
        cwd=folder,
        env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": f"{folder}:{Path(__file__).parents[2]}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


TEST = """
    import pytest

    {mark}
    async def test_it(stomp_broker):
        assert stomp_broker.port > 0
        await stomp_broker.wait_until(lambda: True)
"""


def test_stomp_broker_when_trio_mode_is_off_then_works_in_marked_tests(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, TEST.format(mark="@pytest.mark.trio"), "-p", "pytest_trio.plugin")

    assert done.returncode == 0, done.stdout + done.stderr


def test_stomp_broker_when_pytest_trio_is_missing_then_says_what_to_do(tmp_path: Path) -> None:
    # A package of that name that cannot be found stands for one that is not installed.
    (tmp_path / "sitecustomize.py").write_text(
        textwrap.dedent(
            """
            import importlib.util

            found = importlib.util.find_spec
            missing = {"pytest_trio"}
            importlib.util.find_spec = lambda name, package=None: None if name in missing else found(name, package)
            """
        )
    )
    test = """
        def test_it(stomp_broker):
            pass

        def test_url(stomp_broker_url):
            assert stomp_broker_url.startswith("stomp://")
    """
    done = run_pytest(tmp_path, test)

    assert "requires pytest-trio" in done.stdout, done.stdout + done.stderr
    assert "1 passed, 1 error" in done.stdout
