"""Hooks: which are called when, in which task, and that their errors stay where they are."""

from __future__ import annotations

import contextvars
import logging
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager

import pytest
import trio

import trio_stomp
from tests.kit.each_hook import EachHook
from tests.kit.loops import on_loops
from tests.kit.reconnecting import reconnecting
from trio_stomp import (
    Client,
    ConnectionLost,
    DeliveryStatus,
    Hooks,
    LocalProtocolError,
    Message,
    RequestTimeout,
    Retry,
    StompError,
    Subscription,
)
from trio_stomp.testing import Broker, DropLink, SwallowReceipts, open_broker
from trio_stomp.types import ConnectionInfo, SendCallback, Sending, Settlement

pytestmark = [pytest.mark.anyio, on_loops("trio")]

CURRENT: contextvars.ContextVar[str] = contextvars.ContextVar("CURRENT", default="nothing")


class Diary(Hooks):
    """Writes everything down, in words."""

    def __init__(self) -> None:
        self.entries: list[str] = []

    def connected(self, peer: ConnectionInfo) -> None:
        self.entries.append("connected")

    def disconnected(self, peer: ConnectionInfo, cause: StompError | None) -> None:
        self.entries.append(f"disconnected: {type(cause).__name__}")

    def sending(self, peer: ConnectionInfo, message: Sending) -> SendCallback | None:
        kind = " in transaction" if message.transaction else " request" if message.is_request else ""
        self.entries.append(f"sending {message.destination}{kind}{' ?' if message.confirmed else ''}")
        message.add_header("x-hook", "was here")

        def ended(delivery: DeliveryStatus | None, error: StompError | None) -> None:
            known = "not sent" if delivery is None else delivery.value
            self.entries.append(known if error is None else f"{known}: {type(error).__name__}")

        return ended

    def received(self, peer: ConnectionInfo, message: Message) -> None:
        self.entries.append(f"received {message.text}")

    @contextmanager
    def handling(self, peer: ConnectionInfo, message: Message) -> Generator[None]:
        self.entries.append(f"handling {message.text}")
        token = CURRENT.set(message.text)
        try:
            yield
            self.entries.append(f"handled {message.text}")
        except Exception as error:
            self.entries.append(f"failed {message.text}: {error}")
            raise
        finally:
            CURRENT.reset(token)

    def settled(self, peer: ConnectionInfo, message: Message, how: Settlement, transaction: str | None) -> None:
        self.entries.append(f"{how.value} {message.text}{'' if transaction is None else ' in transaction'}")


@pytest.fixture
def diary() -> Diary:
    return Diary()


@asynccontextmanager
async def receiving(broker: Broker, diary: Diary, *bodies: str) -> AsyncGenerator[tuple[Client, Subscription]]:
    """A subscription to these messages; the diary begins with the first of them."""
    for body in bodies:
        broker.publish("/queue/a", body)
    async with (
        trio_stomp.connect_stream(broker.connect_stream(), hooks=diary) as client,
        client.subscribe("/queue/a") as subscription,
    ):
        diary.entries.clear()
        yield client, subscription


async def test_connection_when_lost_and_made_again_then_told_with_its_cause(broker: Broker, diary: Diary) -> None:
    broker.faults.plan(DropLink(after_sent_bytes=600), connections=1)
    async with reconnecting(broker, hooks=diary) as client:
        async with client.subscribe("/queue/a") as subscription:
            for number in range(20):
                await client.send("/queue/a", str(number), receipt=True)
            assert (await anext(subscription)).headers["x-hook"] == "was here"
    connections = [entry for entry in diary.entries if "connected" in entry]
    assert connections == ["connected", "disconnected: ConnectionLost", "connected", "disconnected: NoneType"]
    # Each is told once, however often it had to be sent.
    assert diary.entries.count("sending /queue/a ?") == diary.entries.count("confirmed") == 20


async def test_send_when_each_verb_is_used_then_told_with_what_became_of_it(broker: Broker, diary: Diary) -> None:
    async with trio_stomp.connect_stream(broker.connect_stream(), hooks=diary) as client:
        await client.send("/queue/a", "1")
        await client.send("/queue/b", "2", receipt=True)
        async with client.publisher() as publisher:
            await publisher.send("/queue/c", "3")
        async with client.transaction() as tx:
            await tx.send("/queue/d", "4")
    assert diary.entries[1:-1] == [
        "sending /queue/a",
        "sent",
        "sending /queue/b ?",
        "confirmed",
        "sending /queue/c ?",
        "confirmed",
        "sending /queue/d in transaction",
        "sent",
    ]
    assert broker.messages("/queue/d")[0].headers["x-hook"] == "was here"


@pytest.mark.parametrize("receipt", [False, True])
async def test_send_when_a_header_cannot_be_represented_then_told_that_nothing_was_sent(
    broker: Broker, diary: Diary, receipt: bool
) -> None:
    async with trio_stomp.connect_stream(broker.connect_stream(), hooks=diary) as client:
        with pytest.raises(LocalProtocolError):
            await client.send("/queue/a", "1", headers={"a": "\0"}, receipt=receipt)
    assert diary.entries[2:-1] == ["not sent: LocalProtocolError"]


async def test_send_when_the_sender_is_cancelled_or_the_link_lost_then_told_that_it_is_not_known(
    broker: Broker, diary: Diary
) -> None:
    async def send(client: Client) -> None:
        with pytest.raises(ConnectionLost):
            await client.send("/queue/a", "2", receipt=True)

    async with (
        trio_stomp.connect_stream(broker.connect_stream(), hooks=diary) as client,
        trio.open_nursery() as nursery,
    ):
        broker.faults.now(SwallowReceipts(count=1000))
        with trio.move_on_after(1):
            await client.send("/queue/a", "1", receipt=True)
        nursery.start_soon(send, client)
        await trio.sleep(1)
        broker.faults.drop()
    assert diary.entries == [
        "connected",
        "sending /queue/a ?",
        "unknown",
        "sending /queue/a ?",
        "disconnected: ConnectionLost",
        "unknown: ConnectionLost",
    ]


async def test_receive_when_taken_handled_and_settled_then_told_in_that_order(broker: Broker, diary: Diary) -> None:
    async with receiving(broker, diary, *"0123") as (client, subscription):
        async with await anext(subscription):
            assert CURRENT.get() == "0"
        assert CURRENT.get() == "nothing"
        with pytest.raises(ZeroDivisionError):
            async with await anext(subscription):
                raise ZeroDivisionError("no")
        async with client.transaction() as tx:
            await tx.ack(await anext(subscription))
        last = await anext(subscription)
        await subscription.ack_up_to(last)
    assert diary.entries[:10] == [
        "received 0",
        "handling 0",
        "handled 0",
        "acknowledged 0",
        "received 1",
        "handling 1",
        "failed 1: no",
        "refused 1",
        "received 2",
        "acknowledged 2 in transaction",
    ]
    assert diary.entries[-2] == "acknowledged 3"


async def test_handling_when_a_message_has_two_blocks_in_a_row_then_told_of_each(broker: Broker, diary: Diary) -> None:
    async with receiving(broker, diary, "a") as (_, subscription):
        message = await anext(subscription)
        for _ in range(2):
            async with message:
                assert CURRENT.get() == "a"
    assert diary.entries[:-1] == ["received a", "handling a", "handled a", "acknowledged a", "handling a", "handled a"]


async def test_work_when_handlers_run_then_inside_of_the_hook_and_once_for_each_attempt(
    broker: Broker, diary: Diary
) -> None:
    seen: list[str] = []

    async def handle(message: Message) -> None:
        async with message:  # inside of the handler it counts no more
            await trio.sleep(1)
            seen.append(CURRENT.get())
            if len(seen) == 1:
                raise OSError("again")

    async with receiving(broker, diary, "a") as (_, subscription):
        with trio.move_on_after(30):
            await subscription.work(handle, workers=2, retry=Retry(first_delay=0))
    assert seen == ["a", "a"]
    assert diary.entries.count("handling a") == 2
    assert diary.entries.count("failed a: again") == diary.entries.count("handled a") == 1


async def test_work_when_a_handler_only_returns_then_inside_of_the_hook_once(broker: Broker, diary: Diary) -> None:
    seen: list[str] = []

    async def handle(message: Message) -> None:
        await trio.lowlevel.checkpoint()
        seen.append(CURRENT.get())

    async with receiving(broker, diary, "a") as (_, subscription):
        with trio.move_on_after(30):
            await subscription.work(handle)
    assert seen == ["a"]
    assert diary.entries[:-1] == ["received a", "handling a", "handled a", "acknowledged a"]


async def test_request_when_answered_then_told_as_one_send_that_ends_with_the_reply(
    broker: Broker, diary: Diary
) -> None:
    async with (
        trio_stomp.connect_stream(broker.connect_stream()) as answerer,
        answerer.subscribe("/queue/ask") as questions,
        trio.open_nursery() as nursery,
        trio_stomp.connect_stream(broker.connect_stream(), hooks=diary) as client,
    ):

        async def answer() -> None:
            async with await anext(questions) as question:
                assert question.headers["x-hook"] == "was here"
                await question.reply("42")

        nursery.start_soon(answer)
        await client.request("/queue/ask", "?", timeout=5)
        with pytest.raises(RequestTimeout):
            await client.request("/queue/nobody", "?", timeout=5)
        with trio.move_on_after(1):
            await client.request("/queue/nobody", "?", timeout=5)
        with pytest.raises(LocalProtocolError):
            await client.request("/queue/nobody", "?", timeout=5, headers={"a": "\0"})
    assert diary.entries[1:-1] == [
        "sending /queue/ask request",
        "confirmed",
        "received 42",
        "sending /queue/nobody request",
        "unknown: RequestTimeout",
        "sending /queue/nobody request",
        "unknown",
        "sending /queue/nobody request",
        "not sent: LocalProtocolError",
    ]


async def test_hooks_when_all_of_them_raise_then_logged_and_nothing_else_notices(
    broker: Broker, diary: Diary, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(name: str) -> None:
        # For those that did not begin, there is no end to fail at.
        if name not in ("sending", "handling", "begin"):
            raise OSError(name)

    async with trio_stomp.connect_stream(broker.connect_stream(), hooks=[EachHook(fail), diary]) as client:
        await client.send("/queue/a", "a", receipt=True)
        async with client.subscribe("/queue/a") as subscription:
            async with await anext(subscription):
                pass
    assert broker.depth("/queue/a") == 0
    assert len(diary.entries) == 8
    failed = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [str(record.exc_info[1]) for record in failed if record.exc_info] == [
        "connected",
        "sent",
        "received",
        "end",
        "settled",
        "disconnected",
    ]
    assert "EachHook.connected failed" in failed[0].getMessage()


async def test_hooks_when_one_would_swallow_the_exception_of_a_block_then_it_goes_on(broker: Broker) -> None:
    class Swallow(Hooks):
        @contextmanager
        def handling(self, peer: ConnectionInfo, message: Message) -> Generator[None]:
            try:
                yield
            except ZeroDivisionError:
                return

    async with trio_stomp.connect_stream(broker.connect_stream(), hooks=Swallow()) as client:
        await client.send("/queue/a", "a")
        async with client.subscribe("/queue/a") as subscription:
            with pytest.raises(ZeroDivisionError):
                async with await anext(subscription):
                    raise ZeroDivisionError


async def test_add_header_when_called_then_the_message_has_it_last_and_what_cannot_be_sent_is_not_added(
    broker: Broker,
) -> None:
    seen: list[tuple[tuple[tuple[str, str], ...], str]] = []

    class Adding(Hooks):
        def sending(self, peer: ConnectionInfo, message: Sending) -> None:
            message.add_header("b", "2")
            with pytest.raises(LocalProtocolError):
                message.add_header("receipt", "r")
            with pytest.raises(LocalProtocolError):
                message.add_header("a", 1)  # type: ignore[arg-type]  # what is refused
            seen.append((message.headers, repr(message)))

    async with trio_stomp.connect_stream(broker.connect_stream(), hooks=Adding()) as client:
        await client.send("/queue/a", b"x", headers={"authorization": "hush"})
    ((headers, shown),) = seen
    assert headers == (("authorization", "hush"), ("b", "2"))
    assert "hush" not in shown
    assert broker.messages("/queue/a")[0].headers["b"] == "2"


async def test_hooks_when_nothing_is_overridden_then_everything_works_as_without(broker: Broker) -> None:
    async with trio_stomp.connect_stream(broker.connect_stream(), hooks=Hooks()) as client:
        await client.send("/queue/a", b"x", receipt=True)
        async with client.subscribe("/queue/a") as subscription:
            receipts = client.statistics().receipts_received
            async with await anext(subscription) as message:
                assert message.body == b"x"
            await broker.wait_until(lambda: broker.depth("/queue/a") == 0)
            assert client.statistics().receipts_received == receipts


async def test_peer_when_told_then_it_names_the_broker_without_secrets() -> None:
    seen: list[ConnectionInfo] = []

    class Watch(Hooks):
        def connected(self, peer: ConnectionInfo) -> None:
            seen.append(peer)

    async with open_broker() as broker:
        url = f"stomp://user:hush@127.0.0.1:{broker.port}"
        async with trio_stomp.connect(url, hooks=Watch()):
            pass
    assert seen == [
        ConnectionInfo(
            endpoint=f"stomp://127.0.0.1:{broker.port}",
            host="127.0.0.1",
            port=broker.port,
            broker="trio_stomp.testing",
            server=seen[0].server,
        )
    ]
    assert "hush" not in repr(seen)
