"""The link is cut after every single byte of a session, in either direction, by an end of file and by a reset.

Whatever was waiting ends, with the right error and in bounded time; what was confirmed is there; what was not
acknowledged comes again; no task is left. A client that reconnects loses it at each step of each operation.
"""

from __future__ import annotations

import anyio
import pytest

import trio_stomp
from tests.client.test_cancellation_sweep import (
    SWEPT,
    Operation,
    Stage,
    Steps,
    publish,
    reply_confirmed,
    send_confirmed,
    send_many_confirmed,
    transact,
    transact_by_function,
    transact_many,
    watch_state,
)
from tests.kit.cancelling import cancelled_at_step
from tests.kit.loops import LOOPS_OF_BROKER, nothing_left, on_loops
from tests.kit.reconnecting import TappedHost, reconnecting
from tests.kit.tapped_stream import TappedStream
from trio_stomp import BrokerError, ConnectError, ConnectionLost, OutcomeUnknown, StompError, TransactionLost
from trio_stomp.testing import Broker, BrokerOptions, DropLink, open_broker
from trio_stomp.types import AckName, Settlement

pytestmark = [pytest.mark.anyio, on_loops(*LOOPS_OF_BROKER)]


class Session:
    """A session with everything in it, which notes how far it came."""

    def __init__(self) -> None:
        self.confirmed: list[bytes] = []
        self.ack_tried: list[bytes] = []
        self.acked: list[bytes] = []
        self.committed: bool | None = None
        self.left_well = False
        self.error: StompError | None = None

    async def run(self, stream: TappedStream, version: str) -> None:
        try:
            async with trio_stomp.connect_stream(stream, heart_beat=(1, 1), versions=[version]) as client:
                for body in (b"1", b"2"):
                    await client.send("/queue/a", body, receipt=True)
                    self.confirmed.append(body)
                await client.send("/queue/b", b"unconfirmed")
                async with client.subscribe("/queue/a", ack=_ack(version)) as a:
                    message = await anext(a)
                    self.ack_tried.append(message.body)
                    await message.ack(receipt=True)
                    self.acked.append(message.body)
                    second = await anext(a)
                    self.committed = False
                    async with client.transaction() as transaction:
                        await transaction.send("/queue/c", b"3")
                        await transaction.ack(second)
                    self.committed = True
                    assert second.settlement is Settlement.ACKED
                async with client.transaction() as transaction:
                    await transaction.send("/queue/c", b"aborted")
                    transaction.abort()
                # Heart-beats cross the wire too.
                await anyio.sleep(2)
            self.left_well = True
        except StompError as error:
            self.error = error

    def check(self, broker: Broker) -> None:
        here = [frame.body for frame in broker.messages("/queue/a")]
        if self.error is None:
            assert self.left_well
        else:
            assert isinstance(
                self.error, (ConnectError, ConnectionLost, TransactionLost, OutcomeUnknown, BrokerError)
            ), self.error
        for body in self.confirmed:
            # An ACK whose RECEIPT did not come may have taken effect; a message is never there twice.
            assert here.count(body) <= 1
            if body not in self.ack_tried and not (body == b"2" and broker.depth("/queue/c")):
                assert here.count(body) == 1
        for body in self.acked:
            assert body not in here
        third = [frame.body for frame in broker.messages("/queue/c")]
        if self.committed:
            assert third == [b"3"]
            assert here == []
        else:
            # Together or not at all.
            assert (b"3" in third) == (self.committed is not None and b"2" not in here)
        assert b"aborted" not in third
        if isinstance(self.error, TransactionLost):
            assert third == []


def _ack(version: str) -> AckName:
    return "client" if version in ("draft", "1.0") else "client-individual"


async def session_with(version: str, **cuts: int | bool | None) -> tuple[Session, TappedStream]:
    async with open_broker(listen=False, options=BrokerOptions(draft=version == "draft")) as broker:
        stream = TappedStream(broker.connect_stream(), **cuts)  # type: ignore[arg-type]  # one dict for all of them
        session = Session()
        async with nothing_left():
            with anyio.fail_after(60):
                await session.run(stream, version)
                await broker.wait_until(lambda: broker.statistics().open_connections == 0)
            session.check(broker)
    return session, stream


@pytest.mark.parametrize("version", ["draft", "1.0", "1.1", "1.2"])
async def test_session_when_nothing_is_cut_then_all_of_it_happens(version: str) -> None:
    session, _ = await session_with(version)
    assert session.error is None
    assert (session.confirmed, session.acked, session.committed) == ([b"1", b"2"], [b"1"], True)


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("direction", ["cut_sent", "cut_received"])
# Every third octet in one way or another, by reset or end of file, on trio or asyncio; or every octet in each way.
@pytest.mark.parametrize("stride", [12, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("version", ["draft", "1.0", "1.1", "1.2"])
async def test_session_when_the_link_is_cut_after_any_octet_then_everybody_is_told_and_nothing_is_lost(
    version: str, stride: int, direction: str, anyio_backend_name: str, *, reset: bool
) -> None:
    first = (6 * (anyio_backend_name == "trio") + 3 * reset) % stride
    _, whole = await session_with(version)
    size = len(whole.sent if direction == "cut_sent" else whole.received)
    assert size > 300
    told = 0
    cuts = range(first, size, stride)
    for cut in cuts:
        session, _ = await session_with(version, **{direction: cut}, reset=reset)
        told += session.error is not None
    # Only behind the last words can a cut go unnoticed.
    assert told >= len(cuts) * 0.9


# --- a client that reconnects -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_canceled", [False, True])
@pytest.mark.parametrize("operation", [each for each in SWEPT if each is not watch_state])
async def test_operation_when_the_link_is_lost_at_any_step_then_the_client_works_on_and_nothing_is_lost(
    operation: Operation, *, is_canceled: bool
) -> None:
    """And it is canceled in the same moment, or not."""
    steps = Steps()
    for step in steps:
        async with open_broker(listen=False) as broker:
            host = TappedHost(broker)
            async with reconnecting(host, heart_beat=(0, 0)) as client, client.subscribe("/queue/in") as subscription:
                stage = Stage(broker, host.links[-1], client, subscription, [], [])
                for _ in range(4):
                    stage.publish()
                stage.messages += [await anext(subscription) for _ in range(2)]
                has_returned = await lose_at(stage, operation, step, steps, is_canceled=is_canceled)
                with anyio.fail_after(60):
                    await client.send("/queue/after", b"", receipt=True)
                    # An answer to a request that was given up may come later.
                    await anyio.sleep(5)
                left = client.statistics()
                assert (left.unconfirmed, left.receipts_pending) == (0, 0)
                assert [each.destination for each in left.subscriptions] == ["/queue/in"]
                here = broker.depth("/queue/in") + broker.unacknowledged("/queue/in")
                taken = [*stage.messages, *stage.taken]
                assert here >= stage.published - sum(each.settlement is not Settlement.UNSETTLED for each in taken)
                bodies = {message.body for message in broker.messages("/queue/out")}
                if operation in CONFIRMED and has_returned:
                    assert bodies == CONFIRMED[operation]
                elif operation in (transact, transact_many, transact_by_function):
                    assert bodies in (set(), {b"1", b"2"})


CONFIRMED: dict[Operation, set[bytes]] = {
    send_confirmed: {b"1"},
    reply_confirmed: {b"1"},
    send_many_confirmed: {b"0", b"1", b"2"},
    publish: {b"%d" % number for number in range(1, 8)},
}


async def lose_at(stage: Stage, operation: Operation, step: int, steps: Steps, *, is_canceled: bool) -> bool:
    """Lose the link at one step of an operation; tell whether it has returned."""
    scope = anyio.CancelScope()
    has_returned = False

    def lose() -> None:
        stage.broker.faults.now(DropLink())
        if is_canceled:
            scope.cancel()

    async def run() -> None:
        nonlocal has_returned
        with scope, anyio.fail_after(300):
            try:
                await operation(stage)
                has_returned = True
            except* StompError:
                pass

    steps.note(await cancelled_at_step(run, step, strike=lose))
    return has_returned
