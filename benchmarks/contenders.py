"""Who takes part, and how one measurement of one of them is run: as a process of its own."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from benchmarks.order import UVLOOP, Order
from benchmarks.payload import BODY
from benchmarks.results import OURS, RAW

__all__ = ["ROOT", "Contender", "ContenderFailed", "aiostomp", "contenders", "on_uvloop", "own", "python_peer"]

ROOT: Final = Path(__file__).resolve().parents[1]
_HERE: Final = Path(__file__).resolve().parent
_NODE_MODULES: Final = Path(sys.prefix) / "node_modules"

# As much of an error as is shown.
_SAID: Final = 200

# The module by which it is known that a peer is installed, its distribution, and the script that drives it.
_PYTHON_PEERS: Final = {
    "stomp.py": ("stomp", "stomp.py", "stomp_py.py"),
    "stompest": ("stompest", "stompest", "stompest_py.py"),
    "stompman": ("stompman", "stompman", "stompman_py.py"),
}
# Beside stompman, for the table of asyncio code alone: it cannot do most of what the other tables ask for.
_AIOSTOMP: Final = ("aiostomp", "aiostomp", "aiostomp_py.py")


class ContenderFailed(Exception):
    """It ended without an answer."""


@dataclass(frozen=True, slots=True)
class Contender:
    """One client, or the bare loop.

    Attributes:
        name: As in the tables.
        version: Its version, for the tables.
        command: What starts it; the order is added.
        more: Arguments after the order.
        has_codec: Whether it has a codec that can be called without a connection.
        package: Where its own trio_stomp is, in place of this checkout's.
    """

    name: str
    version: str
    command: tuple[str, ...]
    more: tuple[str, ...] = ()
    has_codec: bool = True
    package: Path | None = None

    def run(self, order: Order) -> dict[str, float]:
        """Run one measurement.

        Raises:
            ContenderFailed: It ended without an answer, or not in time.
        """
        timeout = order.patience + 2 * (order.warm_up + order.seconds)
        places = [ROOT] if self.package is None else [self.package, ROOT]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, places))}
        # An older commit's own code may not know an option that was added since.
        argument = order.as_argument(whole=self.package is None)
        try:
            done = subprocess.run(
                [*self.command, argument, *self.more],
                cwd=ROOT,
                env=environment,
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise ContenderFailed(f"{self.name}, {order.scenario}: no result after {timeout:.0f} s") from None
        lines = done.stdout.strip().splitlines()
        if done.returncode or not lines:
            words = [line for line in done.stderr.splitlines() if any(map(str.isalnum, line))]
            said = (words or ["nothing"])[-1].strip()[:_SAID]
            raise ContenderFailed(f"{self.name}, {order.scenario}: status {done.returncode}, said: {said}")
        result: dict[str, float] = json.loads(lines[-1])
        return result


def own(name: str, module: str) -> Contender:
    """A module of benchmarks/contestants."""
    version = importlib.metadata.version("trio-stomp" if name == OURS else "trio")
    return Contender(name, version, (sys.executable, "-m", f"benchmarks.contestants.{module}"))


def on_uvloop(contender: Contender) -> Contender:
    """The same client of asyncio's, on uvloop."""
    return replace(contender, name=f"{contender.name}, {UVLOOP}", more=(UVLOOP,))


def aiostomp() -> Contender | None:
    """aiostomp, or None where it is not installed."""
    return _python_peer("aiostomp", *_AIOSTOMP)


def python_peer(name: str, script: str) -> Contender | None:
    """A client with another script than the usual one, or None where it is not installed."""
    module, distribution, _ = _PYTHON_PEERS[name]
    return _python_peer(name, module, distribution, script)


def _python_peer(name: str, module: str, distribution: str, script: str) -> Contender | None:
    if importlib.util.find_spec(module) is None:
        return None
    command = (sys.executable, str(_HERE / "peers" / script))
    return Contender(name, importlib.metadata.version(distribution), command)


def contenders() -> tuple[list[Contender], list[str]]:
    """Those that are installed in this environment, and the names of those that are not."""
    found = [own(OURS, "ours"), own(RAW, "raw")]
    missing: list[str] = []
    for name, peer in _PYTHON_PEERS.items():
        contender = _python_peer(name, *peer)
        if contender is None:
            missing.append(name)
        else:
            found.append(contender)
    node, package = shutil.which("node"), _NODE_MODULES / "stompit" / "package.json"
    if node is None or not package.exists():
        return found, [*missing, "stompit"]
    about: dict[str, str] = json.loads(package.read_text(encoding="utf-8"))
    command = (node, str(_HERE / "peers" / "stompit.js"))
    more = (str(_NODE_MODULES), BODY.decode("ascii"))
    found.append(Contender("stompit", about["version"], command, more, has_codec=False))
    return found, missing
