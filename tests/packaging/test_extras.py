"""The wheel in fresh environments: alone, and with each extra alone.

`spark` is not installed here, because PySpark is 400 MB; what it says where it is missing is looked at.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest
import trio

from tests.kit.tunneling import Tunnels, open_http_proxy, open_socks_proxy
from tests.kit.wheels import build_wheel

pytestmark = pytest.mark.slow

PARTS = Path(__file__).parent / "parts"

# What somebody gets to see who uses a part without its extra.
WITHOUT = {
    "websocket": "import trio, trio_stomp\nasync def f():\n async with trio_stomp.connect('ws://b'): pass\ntrio.run(f)",
    "proxy": (
        "import trio, trio_stomp\nasync def f():\n"
        " async with trio_stomp.connect('stomp://b', proxy='http://p:1'): pass\ntrio.run(f)"
    ),
    "cli": "import trio_stomp.cli; trio_stomp.cli.main()",
    "otel": "import trio_stomp.otel",
    "spark": "import trio_stomp.spark",
}


class Environment:
    """A virtual environment with the wheel in it and nothing of this checkout."""

    def __init__(self, folder: Path, requirement: str) -> None:
        self._folder = folder
        venv.create(folder, with_pip=True)
        self.python = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
        done = self.run("-m", "pip", "install", "--quiet", "--disable-pip-version-check", requirement)
        assert done.returncode == 0, done.stderr

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run its Python to the end."""
        command, clean = [str(self.python), *arguments], {**os.environ}
        clean.pop("PYTHONPATH", None)
        return subprocess.run(command, cwd=self._folder, env=clean, capture_output=True, text=True, check=False)


def output(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--retries", "0", "--timeout", "15"]
    download = [*pip, "download", "--quiet", "--no-deps", "--dest", str(folder / "probe"), "typing-extensions"]
    probe = subprocess.run(download, capture_output=True, text=True, check=False)
    if probe.returncode:
        pytest.skip(f"no package index can be reached: {probe.stderr.strip().splitlines()[-1:]}")
    return build_wheel(folder)


@pytest.fixture(scope="module")
def alone(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment(tmp_path_factory.mktemp("alone"), str(wheel))


def test_wheel_when_installed_alone_then_client_and_embedded_broker_work(alone: Environment) -> None:
    assert output(alone.run(str(PARTS / "plain_part.py"))) == "plain"


@pytest.mark.parametrize("extra", WITHOUT)
def test_part_when_its_extra_is_missing_then_the_message_names_it(extra: str, alone: Environment) -> None:
    done = alone.run("-c", WITHOUT[extra])

    assert done.returncode != 0
    assert f"pip install 'trio-stomp[{extra}]'" in done.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize(
    ("extra", "printed"),
    [("websocket", "over a WebSocket"), ("cli", "from a shell"), ("otel", "traced")],
)
def test_extra_when_installed_alone_then_its_part_works(extra: str, printed: str, wheel: Path, tmp_path: Path) -> None:
    fresh = Environment(tmp_path, f"{wheel}[{extra}]")

    assert output(fresh.run(str(PARTS / f"{extra}_part.py"))) == printed


async def test_proxy_when_installed_alone_then_both_kinds_are_gone_through(wheel: Path, tmp_path: Path) -> None:
    fresh = Environment(tmp_path, f"{wheel}[proxy]")

    async with open_socks_proxy(Tunnels()) as socks, open_http_proxy(Tunnels()) as http:
        program = str(PARTS / "proxy_part.py")
        done = await trio.to_thread.run_sync(fresh.run, program, socks.url, http.url)

    assert output(done).split() == [socks.url, http.url]
    assert len(socks.asked) == len(http.asked) == 1
