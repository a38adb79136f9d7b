"""The command in this process, against an embedded broker in another thread."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import pytest
import trio
from click.testing import CliRunner, Result

from tests.cli.processes import PATIENCE, on_pipes, on_terminal, warm_python
from trio_stomp.cli.command_line import command_line
from trio_stomp.testing import Broker, ThreadedBroker

__all__ = ["Cli", "bodies", "left", "on_pipes", "on_terminal", "publish", "wait_until_left", "warm_python"]


class Cli(Protocol):
    """Runs ``trio-stomp`` with these arguments."""

    def __call__(self, *arguments: str, input: str | bytes | None = None) -> Result: ...  # noqa: A002  # click's name


@pytest.fixture
def cli(stomp_broker_thread: ThreadedBroker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cli:
    """Run ``trio-stomp`` with these arguments; the broker is the one that `stomp_broker_thread` gives."""
    for name in ("TRIO_STOMP_CONTEXT", "TRIO_STOMP_LOGIN", "TRIO_STOMP_PASSCODE", "TRIO_STOMP_PASSCODE_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TRIO_STOMP_URL", stomp_broker_thread.url)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    # Wide enough for any line to stay one.
    monkeypatch.setenv("COLUMNS", "400")

    def run(*arguments: str, input: str | bytes | None = None) -> Result:  # noqa: A002  # as click calls it
        return CliRunner().invoke(command_line, list(arguments), input=input, prog_name="trio-stomp")

    return run


def publish(broker: ThreadedBroker, *texts: str, shop: str = "7") -> None:
    """Put messages with the header `shop` into /queue/a, in this order."""

    def inside(broker: Broker) -> None:
        for text in texts:
            broker.publish("/queue/a", text, [("shop", shop)])

    broker.call(inside)


def bodies(broker: ThreadedBroker, destination: str = "/queue/a") -> list[bytes]:
    """Return the bodies of the messages that wait in a queue."""
    return broker.call(lambda inside: [message.body for message in inside.messages(destination)])


def left(broker: ThreadedBroker, destination: str = "/queue/a") -> int:
    """Return how many messages a queue has, those that a consumer holds included."""
    return broker.call(lambda inside: inside.depth(destination) + inside.unacknowledged(destination))


def wait_until_left(broker: ThreadedBroker, number: int, destination: str = "/queue/a") -> None:
    """Wait until a queue has exactly `number` messages, including those delivered and not yet settled."""

    async def wait(inside: Broker) -> None:
        with trio.fail_after(PATIENCE):
            await inside.wait_until(lambda: inside.depth(destination) + inside.unacknowledged(destination) == number)

    broker.call(wait)
