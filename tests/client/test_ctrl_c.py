"""Ctrl-C on trio: it interrupts functions of the program at once, and ends a program within its bounds."""

from __future__ import annotations

import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from math import inf

import pytest
import trio
import trio.testing
from trio.testing import MockClock

import trio_stomp
from tests.kit.each_hook import EachHook
from tests.kit.reconnecting import reconnecting
from trio_stomp import (
    Client,
    DeliveryStatus,
    Hooks,
    Message,
    OutgoingMessage,
    Reconnect,
    Retry,
    StompError,
    Transaction,
)
from trio_stomp.testing import Broker, DropLink, HalfOpen, open_broker
from trio_stomp.types import ConnectionInfo, SendCallback, Sending

# --- functions of the program -----------------------------------------------------------------------------------------


class Endless:
    """Stands for an endless loop: Ctrl-C comes while it runs."""

    def __init__(self) -> None:
        self.went_on = False

    def __call__(self, *_: object) -> float:
        signal.raise_signal(signal.SIGINT)
        self.went_on = True
        return 0.0


def interrupted(clock: MockClock, main: Callable[[Broker, Endless], Awaitable[None]]) -> None:
    """Run a program with an endless loop, and require that Ctrl-C ends it there."""
    endless = Endless()

    async def run() -> None:
        async with open_broker(listen=False) as broker:
            broker.publish("/queue/in", b"x")
            with trio.fail_after(1000):
                await main(broker, endless)

    with pytest.raises((KeyboardInterrupt, BaseExceptionGroup)) as caught:  # noqa: ASYNC401  # with one interrupt it is not in a group
        trio.run(run, clock=clock)
    if isinstance(caught.value, BaseExceptionGroup):
        assert caught.group_contains(KeyboardInterrupt)
    assert not endless.went_on


@pytest.mark.parametrize(
    "where", ["connected", "disconnected", "sending", "sent", "received", "handling", "begin", "end", "settled"]
)
def test_hook_when_it_never_ends_then_ctrl_c_interrupts_it(where: str, autojump_clock: MockClock) -> None:
    async def main(broker: Broker, endless: Endless) -> None:
        hooks = EachHook(lambda name: endless() if name == where else None)
        async with (
            trio_stomp.connect_stream(broker.connect_stream(), hooks=hooks) as client,
            client.subscribe("/queue/in") as subscription,
        ):
            async with await anext(subscription):
                await client.send("/queue/out", b"x", receipt=True)

    interrupted(autojump_clock, main)


@pytest.mark.parametrize("good_ones", [0, 1])
def test_credentials_when_they_never_come_then_ctrl_c_interrupts_them(
    good_ones: int, autojump_clock: MockClock
) -> None:
    """Those of the first connection, and those after a loss."""

    async def main(broker: Broker, endless: Endless) -> None:
        calls = 0

        async def credentials() -> tuple[str, str]:
            nonlocal calls
            calls += 1
            await trio.lowlevel.checkpoint()
            return ("guest", "guest") if calls <= good_ones else (str(endless()), "")

        async with reconnecting(broker, reconnect=Reconnect(), credentials=credentials):
            broker.faults.now(DropLink())
            await trio.sleep(10)

    interrupted(autojump_clock, main)


def test_delay_when_its_chance_never_comes_then_ctrl_c_interrupts_it(autojump_clock: MockClock) -> None:
    async def main(broker: Broker, endless: Endless) -> None:
        async with reconnecting(broker, reconnect=Reconnect(random=endless)):
            broker.faults.now(DropLink())
            await trio.sleep(1)

    interrupted(autojump_clock, main)


@pytest.mark.parametrize("where", ["handler", "key", "retry_on", "random", "dead_letter", "decode"])
def test_pool_when_a_function_of_the_program_never_ends_then_ctrl_c_interrupts_it(
    where: str, autojump_clock: MockClock
) -> None:
    async def main(broker: Broker, endless: Endless) -> None:
        async def fail(_message: Message) -> None:
            await trio.lowlevel.checkpoint()
            if where == "handler":
                endless()
            raise ValueError

        def bury(_message: Message) -> str:
            return str(endless())

        async with (
            trio_stomp.connect_stream(broker.connect_stream()) as client,
            client.subscribe("/queue/in", decode=endless if where == "decode" else None) as subscription,
        ):
            await subscription.work(
                fail,
                key=endless if where == "key" else None,
                retry=Retry(
                    attempts=1 if where == "dead_letter" else 2,
                    retry_on=(lambda _error: bool(endless())) if where == "retry_on" else lambda _error: True,
                    random=endless if where == "random" else lambda: 0.0,
                ),
                dead_letter=bury,
            )

    interrupted(autojump_clock, main)


@pytest.mark.parametrize("where", ["client", "confirmed", "publisher", "transaction", "run_transaction", "body"])
def test_sender_when_what_the_program_gives_never_ends_then_ctrl_c_interrupts_it(
    where: str, autojump_clock: MockClock
) -> None:
    async def main(broker: Broker, endless: Endless) -> None:
        def messages() -> Iterator[OutgoingMessage]:
            yield OutgoingMessage("/queue/out", b"x")
            endless()

        async def pieces() -> AsyncGenerator[bytes]:  # noqa: ASYNC900, ASYNC124  # what a program sends
            yield b"x"
            endless()

        async def run(transaction: Transaction) -> None:
            await transaction.send("/queue/out", b"x")
            endless()

        async with trio_stomp.connect_stream(broker.connect_stream()) as client:
            if where in ("client", "confirmed"):
                await client.send_many(messages(), receipt=where == "confirmed")
            elif where == "publisher":
                async with client.publisher() as publisher:
                    await publisher.send_many(messages())
            elif where == "transaction":
                async with client.transaction() as transaction:
                    await transaction.send_many(messages())
            elif where == "run_transaction":
                await client.run_transaction(run)
            else:
                await client.send("/queue/out", pieces(), content_length=2)

    interrupted(autojump_clock, main)


class PressesOnce(Hooks):
    """Presses Ctrl-C when the outcome of a message is reported."""

    def __init__(self) -> None:
        self.presses = False

    def sending(self, peer: ConnectionInfo, message: Sending) -> SendCallback:
        return self._ended

    def _ended(self, delivery: DeliveryStatus | None, error: StompError | None) -> None:
        if self.presses:
            self.presses = False
            signal.raise_signal(signal.SIGINT)


def test_hook_when_ctrl_c_interrupts_it_while_the_sender_reads_then_the_connection_ends(
    autojump_clock: MockClock,
) -> None:
    """The rest of what was read is lost, and with it a message that the program would wait for."""
    hooks = PressesOnce()

    async def program() -> None:
        ours, theirs = trio.socket.socketpair()
        async with open_broker(listen=False) as broker, trio.open_nursery() as nursery:
            nursery.start_soon(broker.serve_stream, trio.SocketStream(theirs))
            async with trio_stomp.connect_stream(trio.SocketStream(ours), hooks=hooks) as client:
                for _ in range(40):
                    await client.send("/queue/a", b"x", receipt=True)
                hooks.presses = True
                with pytest.raises(KeyboardInterrupt):
                    await client.send("/queue/a", b"x", receipt=True)
                with pytest.raises(trio_stomp.ConnectionLost, match="KeyboardInterrupt"):
                    await client.send("/queue/a", b"x")
            nursery.cancel_scope.cancel()

    trio.run(program, clock=autojump_clock)


# --- how long it takes ------------------------------------------------------------------------------------------------


async def press(*times: float) -> None:
    """Press Ctrl-C at these times, in a task that is protected: it comes to the main task."""
    for time in times:
        await trio.sleep_until(time)
        signal.raise_signal(signal.SIGINT)


def ended_at(clock: MockClock, main: Callable[[Broker], Awaitable[None]], *times: float) -> float:
    """Run a program, press Ctrl-C at these times, and return when the program has ended by that."""

    async def run() -> None:
        async with open_broker(listen=False) as broker:
            begin = trio.current_time()
            trio.lowlevel.spawn_system_task(press, *(begin + time for time in times))
            try:
                with trio.fail_after(1000):
                    await main(broker)
            finally:
                took.append(trio.current_time() - begin)

    took: list[float] = []
    # Pressed again, it is a group of them.
    with pytest.raises((KeyboardInterrupt, BaseExceptionGroup)) as caught:  # noqa: ASYNC401  # with one interrupt it is not in a group
        trio.run(run, clock=clock)
    error: BaseException = caught.value
    assert not isinstance(error, BaseExceptionGroup) or error.split(KeyboardInterrupt)[1] is None
    return took[0]


@pytest.mark.parametrize("times", [(1.0,), (1.0, 2.0, 3.0)])
def test_pool_when_ctrl_c_comes_then_it_ends_within_drain_timeout(
    times: tuple[float, ...], autojump_clock: MockClock
) -> None:
    handled: list[bytes] = []
    left: list[bytes] = []

    async def handle(message: Message) -> None:
        await trio.sleep(100 if message.body == b"slow" else 4)
        handled.append(message.body)

    async def main(broker: Broker) -> None:
        for body in (b"quick", b"slow", b"late"):
            broker.publish("/queue/in", body)
        try:
            async with (
                trio_stomp.connect_stream(broker.connect_stream(), heart_beat=(0, 0)) as client,
                client.subscribe("/queue/in") as subscription,
            ):
                await subscription.work(handle, workers=2, drain_timeout=7)
        finally:
            await trio.testing.wait_all_tasks_blocked()  # noqa: ASYNC102  # it waits for tasks that are canceled
            left.extend(message.body for message in broker.messages("/queue/in"))

    assert ended_at(autojump_clock, main, *times) == 1 + 7
    assert handled == [b"quick"]
    assert sorted(left) == [b"late", b"slow"]


@pytest.mark.parametrize(("handled_in", "drain_timeout", "ends"), [(4, 7, 4), (inf, 0, 1)])
def test_pool_when_ctrl_c_comes_and_its_handlers_end_or_may_not_be_waited_for_then_it_ends_at_once(
    handled_in: float, drain_timeout: float, ends: float, autojump_clock: MockClock
) -> None:
    async def handle(_message: Message) -> None:
        await trio.sleep(handled_in)

    async def main(broker: Broker) -> None:
        broker.publish("/queue/in", b"x")
        async with (
            trio_stomp.connect_stream(broker.connect_stream(), heart_beat=(0, 0)) as client,
            client.subscribe("/queue/in") as subscription,
        ):
            await subscription.work(handle, drain_timeout=drain_timeout)

    assert ended_at(autojump_clock, main, 1) == ends


async def waits(client: Client) -> None:
    await client.send("/queue/a", b"x", receipt=True)


async def publishes(client: Client) -> None:
    async with client.publisher() as publisher:
        await publisher.send("/queue/a", b"x")


async def sleeps(client: Client) -> None:
    async with client.publisher() as publisher:
        await publisher.send("/queue/a", b"x")
        await trio.sleep_forever()


async def leaves(client: Client) -> None:
    await client.disconnect()


@pytest.mark.parametrize("program", [waits, publishes, sleeps, leaves])
@pytest.mark.parametrize("reconnect", [None, Reconnect()])
def test_program_when_ctrl_c_comes_while_the_broker_is_silent_then_it_ends_at_once(
    program: Callable[[Client], Awaitable[None]], reconnect: Reconnect | None, autojump_clock: MockClock
) -> None:
    async def main(broker: Broker) -> None:
        async with reconnecting(broker, reconnect=reconnect, heart_beat=(0, 0), disconnect_timeout=60) as client:
            broker.faults.now(HalfOpen())
            await program(client)

    assert ended_at(autojump_clock, main, 1) == 1
