"""Leaving `connect()`: what went wrong and was raised nowhere else is raised there, once."""

from __future__ import annotations

import io

import pytest
import trio
import trio.testing

import trio_stomp
from tests.kit.loops import on_loops
from tests.kit.peer import Peer
from tests.kit.reconnecting import PeerHost, reconnecting
from trio_stomp import BrokerError, ConnectionLost, Reconnect, RemoteProtocolError
from trio_stomp.types import Command

pytestmark = [pytest.mark.anyio, on_loops("trio")]

CONNECTED = b"CONNECTED\nversion:1.2\nheart-beat:0,0\n\n\0"
RECONNECT = Reconnect(first_delay=0.1, random=lambda: 1.0)


@pytest.mark.parametrize("reconnect", [None, RECONNECT])
@pytest.mark.parametrize("explicitly", [False, True])
async def test_leaving_when_a_plain_send_is_refused_meanwhile_then_broker_error(
    refusing: PeerHost, reconnect: Reconnect | None, *, explicitly: bool
) -> None:
    with pytest.raises(BrokerError, match="access refused"):
        async with reconnecting(refusing, reconnect=reconnect) as client:
            await client.send("/queue/closed", b"")
            if explicitly:
                await client.disconnect()


@pytest.mark.parametrize("explicitly", [False, True])
@pytest.mark.parametrize("in_a_file", [False, True])
async def test_leaving_when_a_plain_send_was_refused_and_the_client_has_reconnected_then_broker_error(
    refusing: PeerHost, *, in_a_file: bool, explicitly: bool
) -> None:
    with pytest.raises(BrokerError, match="access refused"):
        async with reconnecting(refusing, reconnect=RECONNECT) as client:
            await client.send("/queue/closed", io.BytesIO(b"x") if in_a_file else b"x")
            await trio.sleep(5)
            await client.send("/queue/open", b"", receipt=True)
            if explicitly:
                await client.disconnect()
                pytest.fail("nothing was raised")


async def test_leaving_when_the_refused_message_was_a_confirmed_one_then_only_its_send_raises(
    refusing: PeerHost,
) -> None:
    async with reconnecting(refusing, reconnect=RECONNECT) as client:
        with pytest.raises(BrokerError):
            await client.send("/queue/closed", b"", receipt=True)
        await client.send("/queue/open", b"", receipt=True)


async def test_leaving_when_a_plain_send_was_not_to_blame_then_nothing_is_raised(refusing: PeerHost) -> None:
    async with reconnecting(refusing, reconnect=RECONNECT) as client:
        await client.send("/queue/open", b"")
        # Refused twice: in the first place, when the plain one may be to blame, and alone on the next connection.
        with pytest.raises(BrokerError):
            await client.send("/queue/closed", b"", receipt=True)


async def test_leaving_when_a_call_has_raised_the_refusal_then_not_again(refusing: PeerHost) -> None:
    async with reconnecting(refusing, reconnect=None) as client:
        await client.send("/queue/closed", b"")
        await trio.sleep(1)
        with pytest.raises(BrokerError):
            await client.send("/queue/open", b"")


async def test_leaving_when_the_block_raises_then_its_exception_leaves_with_a_note(refusing: PeerHost) -> None:
    own = KeyError("own")
    with pytest.raises(KeyError) as caught:
        async with reconnecting(refusing, reconnect=RECONNECT) as client:
            await client.send("/queue/closed", b"")
            await trio.sleep(5)
            raise own
    assert caught.value is own
    assert caught.value.__notes__ == ["the connection had failed, too: access refused"]


@pytest.mark.parametrize("explicitly", [False, True])
@pytest.mark.parametrize("backlog", [0, 1_000_000])
async def test_leaving_when_the_link_has_ended_unread_then_connection_lost(backlog: int, *, explicitly: bool) -> None:
    """The program computes without a checkpoint, so nothing has read what came."""
    ours, theirs = trio.testing.memory_stream_pair()
    await theirs.send_all(CONNECTED)
    with pytest.raises(ConnectionLost, match="the broker closed it"):
        async with trio_stomp.connect_stream(ours) as client:
            await trio.testing.wait_all_tasks_blocked()
            await theirs.send_all(b"\n" * backlog)
            theirs.send_stream.close()
            if explicitly:
                await client.disconnect()


async def test_leaving_when_the_client_gave_up_while_it_restored_then_the_reason_is_raised() -> None:
    """No call of the program was waiting: what its own tasks saw does not count."""

    def prepare(peer: Peer, number: int) -> None:
        if number > 1:
            peer.on[Command.SUBSCRIBE] = lambda _: peer.put(b"NONSENSE\n\n\0")
        else:
            peer.on[Command.SEND] = lambda _: peer.hang_up()

    async with trio.open_nursery() as nursery:
        with pytest.raises(RemoteProtocolError, match="NONSENSE"):
            async with reconnecting(PeerHost(nursery, prepare), reconnect=RECONNECT) as client:
                async with client.subscribe("/queue/a", ack="auto"):
                    await client.send("/queue/a", b"")
                    await trio.sleep(60)


@pytest.mark.parametrize("reconnect", [None, RECONNECT])
@pytest.mark.parametrize("explicitly", [False, True])
@pytest.mark.parametrize("version", ["1.1", "1.2"])
async def test_leaving_when_an_error_names_the_disconnect_then_broker_error(
    reconnect: Reconnect | None, version: str, *, explicitly: bool
) -> None:
    def prepare(peer: Peer, _number: int) -> None:
        peer.on[Command.DISCONNECT] = lambda disconnect: peer.error(
            "not now", [("receipt-id", disconnect.headers["receipt"])]
        )

    async with trio.open_nursery() as nursery:
        with pytest.raises(BrokerError, match="not now"):
            async with reconnecting(PeerHost(nursery, prepare), reconnect=reconnect, versions=[version]) as client:
                if explicitly:
                    await client.disconnect()
                    pytest.fail("nothing was raised")
        nursery.cancel_scope.cancel()
