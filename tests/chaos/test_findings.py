"""What the chaos runs have found, each in the smallest form that shows it."""

from __future__ import annotations

import pytest
import trio

import trio_stomp
from tests.chaos.looking import wait_until
from tests.chaos.wires import Befalls, Toward, Trap, open_wire
from trio_stomp import Message, Reconnect
from trio_stomp.testing import open_broker


async def test_receive_batch_when_connection_is_lost_while_it_lingers_then_it_waits_for_the_next_one() -> None:
    batches: list[list[Message]] = []
    async with (
        open_broker() as broker,
        trio_stomp.connect(broker.url, reconnect=Reconnect(first_delay=0)) as client,
        client.subscribe("/queue/a") as subscription,
    ):

        async def receive() -> None:
            batches.append(await subscription.receive_batch(10, linger=0.3))

        broker.publish("/queue/a", b"1")
        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(receive)
                await wait_until(lambda: client.statistics().messages_received > 0)
                # Nothing may come in time on the new connection, so that only what was lost could be the batch.
                await broker.stop_listening()
                broker.drop_connections()
                await trio.sleep(0.5)
                await broker.start_listening()

    # An empty batch says that the subscription was left, and it was not.
    assert [[message.body for message in batch] for batch in batches] == [[b"1"]]


@pytest.mark.slow
async def test_subscription_when_two_links_in_a_row_go_deaf_then_it_stands_on_the_third() -> None:
    """Artemis, like the embedded broker, says by an ERROR that it has heard nothing for too long."""
    deaf = Trap(Befalls.DEAF_BROKER, Toward.BROKER, 130)  # CONNECT passes, and some of SUBSCRIBE
    async with (
        open_broker() as broker,
        open_wire("127.0.0.1", broker.port) as wire,
        trio_stomp.connect(
            f"stomp://guest:guest@127.0.0.1:{wire.port}", heart_beat=(1, 1), reconnect=Reconnect(first_delay=0)
        ) as client,
        client.subscribe("/queue/a") as subscription,
    ):
        wire.following.append(deaf)
        wire.set_trap(Trap(Befalls.DEAF_BROKER, Toward.BROKER, 0))
        wire.spring()
        with trio.fail_after(60):
            await deaf.sprung.wait()
            broker.publish("/queue/a", b"1")

            # Nobody has refused this subscription.
            message = await anext(subscription)

        assert message.body == b"1"
        assert client.statistics().reconnections == 2


@pytest.mark.slow
async def test_send_when_two_links_in_a_row_go_deaf_then_it_is_confirmed_on_the_third() -> None:
    deaf = Trap(Befalls.DEAF_BROKER, Toward.BROKER, 130)  # CONNECT passes, and some of SEND
    async with (
        open_broker() as broker,
        open_wire("127.0.0.1", broker.port) as wire,
        trio_stomp.connect(
            f"stomp://guest:guest@127.0.0.1:{wire.port}", heart_beat=(1, 1), reconnect=Reconnect(first_delay=0)
        ) as client,
    ):
        wire.following.append(deaf)
        wire.set_trap(Trap(Befalls.DEAF_BROKER, Toward.BROKER, 0))
        wire.spring()

        with trio.fail_after(60):
            # Nobody has refused this message.
            await client.send("/queue/a", "1", receipt=True)

        assert broker.depth("/queue/a") == 1
