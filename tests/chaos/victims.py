"""The brokers that are broken here: private ones, beside those of the interop tests, and the embedded one.

`scripts/brokers` runs them from a folder of their own on ports of their own, so that nobody else's tests lose theirs.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import tempfile
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final, Protocol, TextIO

import trio

from tests.interop.broker_facts import BROKERS, SCRIPT, excused
from trio_stomp.testing import Broker, open_broker

__all__ = [
    "EMBEDDED",
    "REAL",
    "VICTIMS",
    "BrokerScriptFailed",
    "EmbeddedVictim",
    "RealVictim",
    "Victim",
    "at_hand",
    "open_victim",
    "real_brokers",
]

EMBEDDED: Final = "embedded"
# Below the ports that systems give out by themselves (Linux: 32768 and up): while a broker is down, somebody's outgoing
# connection would take one of its ports now and then, and it could not start again. That has happened.
_PORTS: Final = {"rabbitmq": 21613, "rabbitmq4": 26613, "activemq": 22613, "artemis": 23613}
REAL: Final = tuple(_PORTS)
VICTIMS: Final = (*REAL, EMBEDDED)

# A process that was killed is gone from its port after this.
_DOWN_SECONDS: Final = 5.0

_PROJECT: Final = Path(__file__).parents[2]
# What `scripts/brokers` sets as RabbitMQ's limit, and one that any node is over.
_CALM: Final = ("set_vm_memory_high_watermark", "absolute", "1GB")
_ALARMED: Final = ("set_vm_memory_high_watermark", "0.0001")


def at_hand() -> list[str]:
    """The brokers without those that cannot run on this machine."""
    return [name for name in VICTIMS if name == EMBEDDED or not excused(name)]


def _folder() -> Path:
    base = os.environ.get("TRIO_STOMP_BROKERS_DIR")
    return (Path(base) if base else _PROJECT / ".brokers") / "chaos"


def _environment() -> dict[str, str]:
    ports = {f"TRIO_STOMP_{name.upper()}_PORT": str(port) for name, port in _PORTS.items()}
    return {**os.environ, **ports, "TRIO_STOMP_BROKERS_DIR": str(_folder())}


class BrokerScriptFailed(Exception):
    """The broker could not be stopped, started or told."""


class Victim(Protocol):
    """A broker that can be broken."""

    @property
    def port(self) -> int:
        """Where it listens on 127.0.0.1."""
        ...

    async def stop(self) -> None:
        """Shut it down in order."""

    async def kill(self) -> None:
        """End it as a crash would."""

    async def start(self) -> None:
        """Start it again; returns when it answers."""

    async def alarm(self, *, up: bool) -> None:
        """Let its memory be short, or not any more."""


class RealVictim:
    """A broker process of `scripts/brokers`.

    Args:
        name: Its name there.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def port(self) -> int:
        """Where it listens on 127.0.0.1."""
        return _PORTS[self.name]

    async def _run(self, *arguments: str) -> None:
        done = await trio.run_process(
            [SCRIPT, *arguments], env=_environment(), capture_stdout=True, capture_stderr=True, check=False
        )
        if done.returncode:
            said = (done.stdout + done.stderr).decode(errors="replace")
            raise BrokerScriptFailed(f"scripts/brokers {' '.join(arguments)} failed:\n{said}")

    async def stop(self) -> None:
        """Shut it down in order."""
        await self._run("stop", self.name)
        await self._require_down()

    async def kill(self) -> None:
        """End it with SIGKILL."""
        await self._run("kill", self.name)
        await self._require_down()

    async def _require_down(self) -> None:
        """Make sure that it was the one on its port: a broker of somebody else's would go on, and nothing be broken.

        Raises:
            BrokerScriptFailed: The port still answers.
        """
        with trio.move_on_after(_DOWN_SECONDS):
            while True:
                try:
                    stream = await trio.open_tcp_stream("127.0.0.1", self.port)
                except OSError:
                    return
                await trio.aclose_forcefully(stream)
                await trio.sleep(0.05)
        raise BrokerScriptFailed(f"{self.name} was ended, and port {self.port} still answers: another process has it")

    async def start(self) -> None:
        """Start it again; returns when it answers."""
        await self._run("start", self.name)

    async def alarm(self, *, up: bool) -> None:
        """RabbitMQ stops reading from whoever publishes while it is over its memory limit."""
        await self._run("ctl", self.name, *(_ALARMED if up else _CALM))

    async def forget(self, destination: str) -> None:
        """Delete a queue, where the broker would keep it for ever."""
        if BROKERS[self.name].profile == "rabbitmq":
            await self._run("ctl", self.name, "delete_queue", destination.removeprefix("/queue/"))


class EmbeddedVictim:
    """The broker of `trio_stomp.testing`. It keeps its queues when it is "killed": they are all that it has.

    Args:
        broker: The broker.
    """

    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    @property
    def port(self) -> int:
        """Where it listens on 127.0.0.1."""
        return self.broker.port

    async def stop(self) -> None:
        """Listen no more, drop all links."""
        await self.broker.stop_listening()
        self.broker.drop_connections()

    async def kill(self) -> None:
        """Drop all links; the port refuses from then on."""
        self.broker.drop_connections()
        await self.broker.stop_listening()

    async def start(self) -> None:
        """Listen again."""
        await self.broker.start_listening()

    async def alarm(self, *, up: bool) -> None:
        """It has none."""
        raise NotImplementedError("the embedded broker has no memory alarm")


@asynccontextmanager
async def _embedded() -> AsyncGenerator[Victim]:
    async with open_broker() as broker:
        yield EmbeddedVictim(broker)


@asynccontextmanager
async def _real(name: str) -> AsyncGenerator[Victim]:
    victim = RealVictim(name)
    await victim.start()
    yield victim


def open_victim(name: str) -> AbstractAsyncContextManager[Victim]:
    """A broker to break, running, for the length of a block. A real one still runs afterwards."""
    return _embedded() if name == EMBEDDED else _real(name)


def _script(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SCRIPT, *arguments], env=_environment(), check=False, capture_output=True, text=True)


def _hold(name: str) -> TextIO:
    """Keep off others who would break the same broker, until the file that is returned is closed."""
    # By port, not by folder: other checkouts on this machine would break the same one.
    lock = (Path(tempfile.gettempdir()) / f"trio-stomp-chaos-{_PORTS[name]}.lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise BrokerScriptFailed(f"another run breaks the private {name} just now; wait until it is done") from None
    return lock


@contextmanager
def real_brokers(names: Sequence[str]) -> Generator[None]:
    """Have private brokers run for the length of a block, and keep off others who would break the same ones.

    Raises:
        BrokerScriptFailed: Another run is under way, or a broker does not start.
    """
    if not names:
        yield
        return
    folder = _folder()
    folder.mkdir(parents=True, exist_ok=True)
    downloads = folder / "downloads"
    if not downloads.is_symlink():
        # What was downloaded for the others need not be downloaded again.
        (folder.parent / "downloads").mkdir(exist_ok=True)
        downloads.symlink_to("../downloads")
    with ExitStack() as stack:
        for name in names:
            stack.enter_context(_hold(name))
        try:
            started = _script("start", *names)
            if started.returncode:
                raise BrokerScriptFailed(f"scripts/brokers start {' '.join(names)} failed:\n{started.stderr}")
            yield
        finally:
            _script("stop", *names)
