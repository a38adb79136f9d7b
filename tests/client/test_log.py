"""What the log says of connections: each loss and each return once, and nothing of a clean exit."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
import trio

import trio_stomp
from tests.client.connecting import Credentials
from tests.kit.loops import on_loops
from tests.kit.reconnecting import reconnecting
from trio_stomp.testing import Broker, DropLink, SwallowReceipts, open_broker
from trio_stomp.types import Command

pytestmark = [pytest.mark.anyio, on_loops("trio")]


@pytest.fixture(autouse=True)
def at_info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "trio_stomp")


def _said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.INFO]


async def _leave(_client: trio_stomp.Client) -> None:
    await trio.lowlevel.checkpoint()


async def _disconnect(client: trio_stomp.Client) -> None:
    await client.disconnect()


async def _fail(_client: trio_stomp.Client) -> None:
    await trio.lowlevel.checkpoint()
    raise KeyError


@pytest.mark.parametrize("end", [_leave, _disconnect, _fail])
@pytest.mark.parametrize("reconnects", [False, True])
async def test_log_when_the_program_leaves_then_nothing_above_debug(
    broker: Broker,
    caplog: pytest.LogCaptureFixture,
    end: Callable[[trio_stomp.Client], Awaitable[None]],
    *,
    reconnects: bool,
) -> None:
    with suppress(KeyError):
        async with reconnecting(broker, reconnect=reconnects) as client, client.subscribe("/queue/a"):
            await client.send("/queue/b", b"", receipt=True)
            await end(client)
    assert _said(caplog) == []


async def test_log_when_connected_again_then_once_with_the_host_and_what_was_restored_and_sent_again(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    async with reconnecting(broker) as client, client.subscribe("/queue/a"), client.subscribe("/queue/b"):
        async with client.publisher() as publisher:
            broker.faults.now(SwallowReceipts(command=Command.SEND))
            await publisher.send("/queue/c", b"1")
            await trio.sleep(1)
            broker.faults.now(DropLink())
        # The publisher is left with the RECEIPT, which may be before the client has said that all is restored.
        await trio.sleep(5)
        assert client.state.healthy
    lost, again = _said(caplog)
    assert "connection to stomp://h0:61613 lost, reconnecting" in lost
    assert again == "connected to stomp://h0:61613 again; subscriptions restored: 2, messages sent again: 1"


async def test_log_when_the_first_connection_needs_attempts_then_it_says_that_it_was_made(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with open_broker() as broker:
        credentials = Credentials(ConnectionError("no token yet"), ("guest", "guest"))
        policy = trio_stomp.Reconnect(retry_first=True, random=lambda: 0)
        async with trio_stomp.connect(broker.url, credentials=credentials, reconnect=policy):
            assert _said(caplog)[-1] == f"connected to stomp://127.0.0.1:{broker.port} at attempt 2"
