"""An ERROR that names no frame: what was restored well before it is not blamed for it."""

from __future__ import annotations

import pytest
import trio

from tests.kit.loops import on_loops
from tests.kit.reconnecting import PeerHost, reconnecting
from trio_stomp import BrokerError, Client, Reconnect

pytestmark = [pytest.mark.anyio, on_loops("trio")]

POLICY = Reconnect(first_delay=0.1, max_delay=0.1)


async def _refuse(client: Client) -> None:
    """Let a plain send be refused, and wait for the next connection."""
    await client.send("/queue/closed", b"")
    await trio.sleep(5)
    assert client.state.healthy


async def test_subscription_when_later_messages_are_refused_then_it_goes_on(refusing: PeerHost) -> None:
    done: list[int] = []
    # That a plain one was refused is raised at the end.
    with pytest.raises(BrokerError, match="access refused"):
        async with reconnecting(refusing, reconnect=POLICY) as client, client.subscribe("/queue/open") as subscription:
            for number in range(3):
                await _refuse(client)
                await client.send("/queue/open", str(number))
                async with await anext(subscription) as message:
                    assert message.text == str(number)
                done.append(number)
    assert done == [0, 1, 2]


async def test_confirmed_messages_when_plain_ones_are_refused_before_then_each_is_confirmed(refusing: PeerHost) -> None:
    done: list[int] = []
    # That a plain one was refused is raised at the end.
    with pytest.raises(BrokerError, match="access refused"):
        async with reconnecting(refusing, reconnect=POLICY) as client:
            for number in range(3):
                await client.send("/queue/closed", b"")
                # It is in flight when the ERROR comes, is sent again alone, and was not to blame.
                await client.send("/queue/open", b"", receipt=True)
                await _refuse(client)
                async with client.publisher() as publisher:
                    await publisher.send("/queue/open", b"")
                    await client.send("/queue/closed", b"")
                done.append(number)
    assert done == [0, 1, 2]
