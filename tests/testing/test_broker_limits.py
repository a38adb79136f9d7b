"""What clients can make the broker hold, and what they are told past the limits."""

import functools

import anyio
import pytest
import trio
import trustme

import trio_stomp
from tests.kit.certificates import client_context, server_context
from tests.kit.loops import on_loops, wait_all_tasks_blocked
from tests.testing.flood import FLOODS, MIB, broker_process, run_floods
from tests.testing.raw_client import RawClient, connected, with_options
from trio_stomp import Limits
from trio_stomp.testing import Broker, BrokerOptions, NackPolicy, Refusal, open_broker
from trio_stomp.testing.memory import Memory
from trio_stomp.types import Command

pytestmark = pytest.mark.anyio


def memory(broker: Broker) -> Memory:
    return broker._state.memory  # the accounts are not public, and must come to nothing


async def refused(client: RawClient, *words: str) -> None:
    """Expect an ERROR that names a limit."""
    frame = await client.expect(Command.ERROR)
    text = frame.body.decode()
    for word in words:
        assert word in text, text


@with_options(BrokerOptions(max_queue_bytes=20_000, errors_leave_open=True))
async def test_queue_when_its_bytes_are_used_then_send_is_refused_until_there_is_room(client: RawClient) -> None:
    await client.send("/queue/a", b"x" * 15_000)
    await client.send("/queue/a", b"x" * 15_000)
    await refused(client, "/queue/a", "20000", "max_queue_bytes")
    await client.send("/queue/b", b"x" * 15_000, receipt="b")
    await client.expect(Command.RECEIPT, receipt_id="b")

    await client.subscribe("/queue/a", "client-individual")
    message = await client.message()
    # Delivered and not acknowledged, it is still held.
    await client.send("/queue/a", b"x" * 15_000)
    await refused(client, "max_queue_bytes")
    await client.acknowledge(message)
    await client.send("/queue/a", b"x" * 15_000)
    await client.message()


@with_options(BrokerOptions(max_stored_bytes=50_000, errors_leave_open=True))
async def test_all_queues_when_their_bytes_are_used_then_send_is_refused(broker: Broker, client: RawClient) -> None:
    for name in "abcd":
        await client.send(f"/queue/{name}", b"x" * 15_000)
    await refused(client, "50000", "max_stored_bytes")

    assert broker.depth("/queue/d") == 0
    with pytest.raises(Refusal, match="memory limit"):
        broker.publish("/queue/d", b"x" * 15_000)


@with_options(BrokerOptions(max_stored_bytes=50_000, errors_leave_open=True))
async def test_transaction_when_stored_bytes_are_used_then_send_is_refused_and_abort_makes_room(
    broker: Broker, client: RawClient
) -> None:
    await client.write(Command.BEGIN, transaction="t")
    for _ in range(4):
        await client.send("/queue/a", b"x" * 15_000, transaction="t")
    await refused(client, "max_stored_bytes")

    await client.confirmed(Command.ABORT, transaction="t")

    assert memory(broker).stored.used == 0


@with_options(BrokerOptions(max_queue_length=2, nack=NackPolicy.DEAD_LETTER, dead_letter="/queue/dead"))
async def test_commit_when_its_nacks_take_the_room_of_its_sends_then_all_of_it_happens(
    broker: Broker, client: RawClient
) -> None:
    await client.subscribe("/queue/a", "client-individual")
    broker.publish("/queue/dead", "old")
    await client.send("/queue/a", "nacked")
    message = await client.message("nacked")

    await client.write(Command.BEGIN, transaction="t")
    await client.acknowledge(message, Command.NACK, transaction="t")
    await client.send("/queue/dead", "sent", transaction="t")
    await client.confirmed(Command.COMMIT, transaction="t")

    # The dead letters have no room for the message that was NACKed, so it comes again.
    await client.message("nacked")
    assert [waiting.body for waiting in broker.messages("/queue/dead")] == [b"old", b"sent"]


@with_options(BrokerOptions(max_stored_bytes=200_000))
async def test_topic_when_many_subscribe_then_a_message_is_held_once(broker: Broker, client: RawClient) -> None:
    for number in range(50):
        await client.subscribe("/topic/t", "client", str(number))
    await client.send("/topic/t", b"x" * 100_000)
    frames = [await client.message() for _ in range(50)]

    assert memory(broker).stored.used > 100_000
    for frame in frames:
        await client.acknowledge(frame)
    await client.confirmed(Command.SEND, destination="/queue/other")
    assert memory(broker).stored.used < 1000


@with_options(BrokerOptions(max_names_bytes=20_000, errors_leave_open=True))
async def test_names_when_their_memory_is_used_then_subscribe_begin_and_send_are_refused(
    broker: Broker, client: RawClient
) -> None:
    for number in range(10):
        await client.write(Command.SUBSCRIBE, id=str(number), destination=f"/topic/{number}")
    await refused(client, "20000", "max_names_bytes")
    await client.leave(broker)

    # With the client all its names are gone.
    assert memory(broker).names.used == 0
    client = await connected(broker)
    for number in range(100):
        await client.write(Command.BEGIN, transaction=str(number))
    await refused(client, "max_names_bytes")
    await client.leave(broker)
    client = await connected(broker)
    for number in range(10):
        await client.send(f"/queue/{number}")
    await refused(client, "max_names_bytes")


@pytest.mark.parametrize(
    ("command", "headers"),
    [
        (Command.SEND, {"destination": "/queue/" + "a" * 100}),
        (Command.SEND, {"destination": "/queue/" + "\N{GRINNING FACE}" * 25}),
        (Command.SUBSCRIBE, {"destination": "/queue/a", "id": "a" * 101}),
        (Command.SUBSCRIBE, {"destination": "/topic/a", "id": "1", "durable-subscription-name": "a" * 101}),
        (Command.BEGIN, {"transaction": "a" * 101}),
    ],
)
@with_options(BrokerOptions(max_name_length=100))
async def test_name_when_too_long_then_refused(client: RawClient, command: Command, headers: dict[str, str]) -> None:
    await client.write(command, list(headers.items()))

    await refused(client, "100 bytes", "max_name_length")


@with_options(BrokerOptions(max_name_length=100))
async def test_client_id_when_too_long_then_refused(stranger: RawClient) -> None:
    await stranger.write(Command.CONNECT, accept_version="1.2", host="h", client_id="a" * 101)

    await refused(stranger, "max_name_length")


@with_options(BrokerOptions(max_unfinished_bytes=100_000, limits=Limits(body_bytes=200_000)))
async def test_unfinished_frames_when_too_much_then_the_largest_ends(broker: Broker) -> None:
    large, small = await connected(broker), await connected(broker)
    start = b"SEND\ndestination:/queue/a\ncontent-length:150000\n\n"
    await large.stream.send_all(start + b"x" * 90_000)
    await wait_all_tasks_blocked()
    await small.stream.send_all(start + b"x" * 20_000)

    await refused(large, "100000", "max_unfinished_bytes")
    await large.expect_eof()
    await small.stream.send_all(b"x" * 130_000 + b"\0")
    await broker.wait_until(lambda: broker.depth("/queue/a") == 1)
    assert memory(broker).unfinished.used == 0


@with_options(BrokerOptions(max_unfinished_bytes=1000))
async def test_unfinished_frame_when_alone_then_may_be_as_large_as_a_frame(broker: Broker, client: RawClient) -> None:
    await client.stream.send_all(b"SEND\ndestination:/queue/a\ncontent-length:50000\n\n" + b"x" * 40_000)
    await wait_all_tasks_blocked()
    await client.stream.send_all(b"x" * 10_000 + b"\0")

    await broker.wait_until(lambda: broker.depth("/queue/a") == 1)


@with_options(BrokerOptions(max_connections=2))
async def test_connections_when_too_many_then_refused_until_one_ends(broker: Broker) -> None:
    first = await connected(broker)
    silent = broker.connect_stream()
    await wait_all_tasks_blocked()

    third = RawClient(broker.connect_stream())
    await refused(third, "limit is 2", "max_connections")
    await third.expect_eof()

    await first.stream.aclose()
    await broker.wait_until(lambda: len(broker.sessions) == 1)
    await connected(broker)
    await silent.aclose()


@with_options(BrokerOptions(max_connections=1))
async def test_connections_when_many_broke_off_before_then_refused_one_is_told_why(broker: Broker) -> None:
    await connected(broker)
    for _ in range(200):
        broker.connect_stream().close()
        await wait_all_tasks_blocked()

    await refused(RawClient(broker.connect_stream()), "limit is 1", "max_connections")


@with_options(BrokerOptions(max_connections=1))
async def test_connections_when_many_do_not_read_their_refusal_then_the_next_is_told_why(broker: Broker) -> None:
    await connected(broker)
    silent = [broker.connect_stream() for _ in range(300)]
    started = anyio.current_time()

    await refused(RawClient(broker.connect_stream()), "limit is 1", "max_connections")

    assert anyio.current_time() == started
    assert len(broker.sessions) == 1
    for each in silent:
        each.close()


@on_loops("trio-real")
@pytest.mark.parametrize("websocket", [False, True])
@pytest.mark.parametrize("tls", [False, True])
async def test_connections_when_too_many_then_our_client_is_told_why(*, websocket: bool, tls: bool) -> None:
    authority = trustme.CA()
    theirs, ours = (server_context(authority), client_context(authority)) if tls else (None, False)
    options = BrokerOptions(max_connections=1)
    async with (
        open_broker(tls=theirs, websocket=websocket, options=options) as broker,
        trio_stomp.connect(broker.url, tls=ours),
    ):
        for _ in range(20):
            with pytest.raises(trio_stomp.ConnectError, match="too many connections"):
                async with trio_stomp.connect(broker.url, tls=ours):
                    raise AssertionError


@with_options(
    BrokerOptions(max_output_bytes=200_000, outbox_bytes=150_000, stall_timeout=5, heart_beat=(0, 0), linger=0.1)
)
async def test_output_when_full_then_others_wait_and_who_does_not_read_is_given_up(broker: Broker) -> None:
    idle = [await connected(broker) for _ in range(3)]
    for client in idle:
        await client.subscribe("/topic/t")
    reader = await connected(broker)
    await reader.subscribe("/queue/q")
    for _ in range(40):
        broker.publish("/topic/t", b"x" * 50_000)

    await wait_all_tasks_blocked()
    broker.publish("/queue/q", "waits")
    started = anyio.current_time()
    await reader.message("waits")

    assert anyio.current_time() - started >= 5
    assert len(broker.sessions) < 4
    assert memory(broker).output.used < 300_000


@with_options(BrokerOptions(max_output_bytes=100_000, stall_timeout=60, heart_beat=(0, 0)))
async def test_output_when_full_and_read_at_last_then_nothing_is_lost(broker: Broker) -> None:
    slow = await connected(broker)
    await slow.subscribe("/queue/a")
    for number in range(50):
        broker.publish("/queue/a", str(number).ljust(10_000))
    await anyio.sleep(5)

    assert [int(body) for body in await slow.bodies(50)] == list(range(50))
    await broker.wait_until(lambda: memory(broker).output.used == 0)
    assert memory(broker).stored.used == 0


@pytest.mark.parametrize("ending", ["disconnect", "break"])
async def test_memory_when_all_clients_have_left_then_nothing_is_charged(broker: Broker, ending: str) -> None:
    client, other = await connected(broker), await connected(broker)
    await client.subscribe("/queue/a", "client-individual", "q", prefetch_count="2")
    await client.subscribe("/topic/t", "client", "t")
    await client.subscribe("/topic/*", "client", "w", selector="n = 1")
    await client.subscribe("/temp-queue/x", "client", "temporary")
    await client.write(Command.BEGIN, transaction="t")
    for name in ("/queue/a", "/topic/t", "/temp-queue/x"):
        for _ in range(5):
            await client.send(name, "x", n="1")
        await client.send(name, "x", transaction="t")
    frames = [await client.message() for _ in range(2 + 5 + 5 + 5)]
    first, second = [frame for frame in frames if frame.headers["subscription"] == "q"]
    await client.acknowledge(first, Command.NACK, requeue="false")
    await client.acknowledge(second, transaction="t")
    await client.confirmed_amid_messages(Command.SEND, destination="/queue/a", n="2")
    if ending == "disconnect":
        await client.write(Command.DISCONNECT)
    await client.stream.aclose()
    await other.subscribe("/queue/a", "auto", "a")
    await other.bodies(5)
    await other.stream.aclose()
    last = await connected(broker)
    await last.subscribe("/queue/dead-letter", "auto", "d")
    await last.message()
    await last.leave(broker)

    assert [account.used for account in (memory(broker).stored, memory(broker).output)] == [0, 0]
    assert [account.used for account in (memory(broker).names, memory(broker).unfinished)] == [0, 0]


# --- a real process ---------------------------------------------------------------------------------------------------

# About a twentieth of the defaults.
_SMALL = ["--max-stored-bytes", str(20 * MIB), "--max-queue-bytes", str(10 * MIB), "--max-message-bytes", str(2 * MIB)]


def test_process_when_flooded_then_refuses_and_stays_within_its_limits_and_serves_on() -> None:
    floods = [FLOODS[name] for name in ("messages", "headers", "transaction")]
    with broker_process(*_SMALL) as broker:
        flooding = functools.partial(run_floods, floods, broker, seconds=60, until="max_stored_bytes")
        outcome = trio.run(flooding)

    assert outcome.served
    assert "max_stored_bytes" in outcome.errors
    # What they may store and begin, and what Python keeps of what it had.
    assert outcome.peak - outcome.before < 120 * MIB


@pytest.mark.slow
@pytest.mark.parametrize("name", FLOODS)
def test_process_when_flooded_with_default_limits_then_stays_under_a_gibibyte(name: str) -> None:
    flood = FLOODS[name]
    with broker_process(carrier=flood.carrier) as broker:
        outcome = trio.run(functools.partial(run_floods, [flood], broker, seconds=12.0))

    assert outcome.served
    assert outcome.peak < 1024 * MIB
