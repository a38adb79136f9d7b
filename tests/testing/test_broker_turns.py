"""No client keeps the broker from serving the others: after a bounded amount of work it is their turn."""

from collections.abc import Callable
from itertools import pairwise

import pytest
import trio
from trio.testing import MockClock

from tests.testing.raw_client import RawClient, connected
from trio_stomp.testing import Broker, open_broker
from trio_stomp.types import Command

_SUBSCRIPTIONS = 400
# In messages copied and delivered. Several tasks may have had their turn between two looks.
_MOST = 3000


async def _largest_step(broker: Broker, done: Callable[[], bool]) -> int:
    """The most that the broker did without a chance for others, until it is done."""
    steps: list[int] = []

    def look() -> bool:
        statistics = broker.statistics()
        copies = statistics.received[Command.SEND] * broker.consumers("/topic/a")
        steps.append(copies + statistics.sent[Command.MESSAGE])
        return done()

    await broker.wait_until(look)
    return max(after - before for before, after in pairwise(steps))


async def _subscribe(client: RawClient, destination: str, count: int, **headers: str) -> None:
    more = "".join(f"{name}:{value}\n" for name, value in headers.items())
    await client.stream.send_all(
        b"".join(f"SUBSCRIBE\nid:{n}\ndestination:{destination}\n{more}\n\0".encode() for n in range(count))
    )


async def _read(client: RawClient) -> None:
    while await client.stream.receive_some():
        pass


@pytest.mark.parametrize("readers", [1, 20])
async def test_broker_when_a_chunk_holds_many_frames_for_many_subscriptions_then_others_have_their_turn(
    readers: int, autojump_clock: MockClock
) -> None:
    async with open_broker(listen=False) as broker, trio.open_nursery() as nursery:
        for _ in range(readers):
            reader = await connected(broker)
            await _subscribe(reader, "/topic/a", _SUBSCRIPTIONS // readers)
            nursery.start_soon(_read, reader)
        await broker.wait_until(lambda: broker.consumers("/topic/a") == _SUBSCRIPTIONS)
        busy = await connected(broker)

        await busy.stream.send_all(b"SEND\ndestination:/topic/a\n\n\0" * 200)

        sent = 200 * _SUBSCRIPTIONS
        assert await _largest_step(broker, lambda: broker.statistics().sent[Command.MESSAGE] == sent) < _MOST
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("selector", ["", "n = 1 OR n = 2"])
async def test_broker_when_a_full_queue_gets_consumers_then_others_have_their_turn(
    selector: str, autojump_clock: MockClock
) -> None:
    count = 8000
    async with open_broker(listen=False) as broker, trio.open_nursery() as nursery:
        for _ in range(count):
            broker.publish("/queue/a", b"", [("n", "1")])
        readers = [await connected(broker) for _ in range(4)]
        for reader in readers:
            await _subscribe(reader, "/queue/a", 1, **({"selector": selector} if selector else {}))
            nursery.start_soon(_read, reader)

        assert await _largest_step(broker, lambda: broker.statistics().sent[Command.MESSAGE] == count) < _MOST
        nursery.cancel_scope.cancel()


async def test_broker_when_a_chunk_is_being_executed_then_another_client_gets_its_receipt(
    autojump_clock: MockClock,
) -> None:
    async with open_broker(listen=False) as broker, trio.open_nursery() as nursery:
        busy, other = await connected(broker), await connected(broker)
        await _subscribe(busy, "/topic/a", _SUBSCRIPTIONS)
        nursery.start_soon(_read, busy)
        await broker.wait_until(lambda: broker.consumers("/topic/a") == _SUBSCRIPTIONS)

        await busy.stream.send_all(b"SEND\ndestination:/topic/a\n\n\0" * 1000)
        await broker.wait_until(lambda: broker.statistics().received[Command.SEND] > 0)
        await other.send("/queue/b", receipt="r")
        await other.expect(Command.RECEIPT, receipt_id="r")

        assert broker.statistics().received[Command.SEND] < 100
        nursery.cancel_scope.cancel()
