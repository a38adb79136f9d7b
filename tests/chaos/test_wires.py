"""The proxy does to a connection what it says, and no less."""

from __future__ import annotations

import itertools
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
import trio

from tests.chaos.ledger import Ledger
from tests.chaos.looking import wait_until
from tests.chaos.wires import Befalls, Toward, Trap, Wire, open_wire
from trio_stomp.testing import open_broker

PATIENCE = 60.0
QUIET = 0.1


@dataclass
class Line:
    """Both ends of a connection through a wire."""

    wire: Wire
    client: trio.SocketStream
    broker: trio.SocketStream


async def expect(stream: trio.SocketStream, count: int) -> bytes:
    found = b""
    with trio.fail_after(PATIENCE):
        while len(found) < count and (data := await stream.receive_some(count - len(found))):
            found += bytes(data)
    return found


async def expect_nothing(stream: trio.SocketStream) -> None:
    with trio.move_on_after(QUIET):
        data = await stream.receive_some()
        pytest.fail(f"expected nothing, got {bytes(data)!r}")


async def how_it_ends(stream: trio.SocketStream) -> str:
    with trio.fail_after(PATIENCE):
        try:
            while await stream.receive_some():
                pass
        except trio.BrokenResourceError:
            return "reset"
    return "end"


@asynccontextmanager
async def open_line(mark: re.Pattern[bytes] | None = None) -> AsyncGenerator[Line]:
    send, receive = trio.open_memory_channel[trio.SocketStream](1)

    async def serve(stream: trio.SocketStream) -> None:
        await send.send(stream)
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        await nursery.start(trio.serve_listeners, serve, [listener])
        async with open_wire("127.0.0.1", listener.socket.getsockname()[1], mark=mark) as wire:
            async with await trio.open_tcp_stream("127.0.0.1", wire.port) as client:
                assert isinstance(client, trio.SocketStream)
                broker = await receive.receive()
                with trio.fail_after(PATIENCE):
                    await wait_until(lambda: wire.newest is not None)
                yield Line(wire, client, broker)
        nursery.cancel_scope.cancel()


async def test_wire_when_nothing_befalls_it_then_bytes_pass_in_both_directions() -> None:
    async with open_line() as line:
        await line.client.send_all(b"to the broker")
        await line.broker.send_all(b"to the client")

        assert await expect(line.broker, 13) == b"to the broker"
        assert await expect(line.client, 13) == b"to the client"
        await line.client.send_eof()
        assert await how_it_ends(line.broker) == "end"


@pytest.mark.parametrize(
    ("what", "client", "broker"), [(Befalls.RESET, "reset", "reset"), (Befalls.END, "end", "end")], ids=str
)
@pytest.mark.parametrize("toward", Toward, ids=str)
async def test_wire_when_it_is_cut_then_so_many_bytes_have_passed_and_both_ends_see_it(
    what: Befalls, client: str, broker: str, toward: Toward
) -> None:
    async with open_line() as line:
        source, target = (line.client, line.broker) if toward is Toward.BROKER else (line.broker, line.client)
        trap = Trap(what, toward, 7)
        line.wire.set_trap(trap)
        await source.send_all(b"01234")
        assert await expect(target, 5) == b"01234"
        assert not trap.sprung.is_set()

        await source.send_all(b"5678")

        with trio.fail_after(PATIENCE):
            await trap.sprung.wait()
        if what is Befalls.END:
            # A reset may overtake bytes that have passed.
            assert await expect(target, 99) == b"56"
        assert await how_it_ends(line.client) == client
        assert await how_it_ends(line.broker) == broker


async def test_wire_when_it_falls_silent_then_nothing_passes_and_nobody_is_told() -> None:
    async with open_line() as line:
        trap = Trap(Befalls.SILENCE, Toward.BROKER, 0)
        line.wire.set_trap(trap)
        await line.client.send_all(b"lost")
        with trio.fail_after(PATIENCE):
            await trap.sprung.wait()
        await line.broker.send_all(b"lost")

        await expect_nothing(line.broker)
        await expect_nothing(line.client)


@pytest.mark.parametrize("gone", [Befalls.BROKER_GONE, Befalls.CLIENT_GONE], ids=str)
async def test_wire_when_one_end_is_gone_then_the_other_one_is_not_told(gone: Befalls) -> None:
    async with open_line() as line:
        line.wire.set_trap(Trap(gone, Toward.BROKER, 3))
        await line.client.send_all(b"0123")

        reset, left = (line.broker, line.client) if gone is Befalls.BROKER_GONE else (line.client, line.broker)
        assert await how_it_ends(reset) == "reset"
        if left is line.broker:
            assert await expect(left, 3) == b"012"
        await expect_nothing(left)


@pytest.mark.parametrize("deaf", [Befalls.DEAF_BROKER, Befalls.DEAF_CLIENT], ids=str)
async def test_wire_when_one_end_is_deaf_then_the_other_direction_passes(deaf: Befalls) -> None:
    async with open_line() as line:
        line.wire.set_trap(Trap(deaf, Toward.BROKER, 0))
        line.wire.spring()
        source, target = (line.client, line.broker) if deaf is Befalls.DEAF_BROKER else (line.broker, line.client)
        await source.send_all(b"lost")
        await target.send_all(b"heard")

        assert await expect(source, 5) == b"heard"
        await expect_nothing(target)


async def test_wire_when_held_then_bytes_wait_and_pass_in_the_end() -> None:
    async with open_line() as line:
        line.wire.hold()
        await line.client.send_all(b"late")
        await expect_nothing(line.broker)

        line.wire.release()

        assert await expect(line.broker, 4) == b"late"


async def test_wire_when_slow_then_bytes_take_their_time_until_it_is_fast_again() -> None:
    async with open_line() as line:
        line.wire.slow_down(40)
        began = trio.current_time()
        await line.client.send_all(b"x" * 10_000)

        assert await expect(line.broker, 20) == b"x" * 20
        assert trio.current_time() - began > 0.2
        line.wire.slow_down(None)
        assert len(await expect(line.broker, 9980)) == 9980


async def test_wire_when_the_broker_refuses_then_the_client_sees_it_end() -> None:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    await listener.aclose()
    async with open_wire("127.0.0.1", port) as wire:
        async with await trio.open_tcp_stream("127.0.0.1", wire.port) as client:
            with trio.fail_after(PATIENCE):
                assert await client.receive_some() == b""


async def test_wire_when_its_connection_is_lost_before_the_trap_springs_then_the_next_one_falls_into_it() -> None:
    async with open_line() as line:
        pending, following = (Trap(Befalls.RESET, Toward.BROKER, 1) for _ in range(2))
        line.wire.set_trap(pending)
        line.wire.following.append(following)
        await line.client.aclose()
        for trap in (pending, following):
            async with await trio.open_tcp_stream("127.0.0.1", line.wire.port) as client:
                await client.send_all(b"01")

                with trio.fail_after(PATIENCE):
                    await trap.sprung.wait()


async def test_door_when_shut_then_only_new_connections_end_and_the_other_door_lets_them_in() -> None:
    async with open_broker() as broker, open_wire("127.0.0.1", broker.port, ports=2) as wire:
        first, second = wire.ports
        inside = await trio.open_tcp_stream("127.0.0.1", first)
        await wait_until(lambda: wire.connections == 1)
        wire.shut(first)
        async with await trio.open_tcp_stream("127.0.0.1", first) as refused:
            assert await how_it_ends(refused) in ("end", "reset")
        async with inside, await trio.open_tcp_stream("127.0.0.1", second) as other:
            await expect_nothing(inside)
            await expect_nothing(other)
            assert wire.connections == 2
            assert wire.open == 2
            wire.reopen(first)
            async with await trio.open_tcp_stream("127.0.0.1", first) as again:
                await expect_nothing(again)
                assert wire.connections == 3
        with trio.fail_after(PATIENCE):
            await wait_until(lambda: wire.open == 0)


async def test_wire_when_the_broker_sends_messages_then_the_connection_knows_their_numbers() -> None:
    ledger = Ledger("0abc", 2000)
    # The second is cut in its mark, the third in its number, and the last one is of another run.
    stream = ledger.body(3) + ledger.body(41) + ledger.body(1999) + b"0abd 5 "
    cuts = [0, len(ledger.body(3)) + 2, len(ledger.body(3)) + len(ledger.body(41)) + 7, len(stream)]
    async with open_line(ledger.mark) as line:
        for begin, end in itertools.pairwise(cuts):
            await line.broker.send_all(stream[begin:end])
            assert await expect(line.client, end - begin) == stream[begin:end]

        assert line.wire.newest is not None
        assert line.wire.newest.delivered == {3, 41, 1999}
