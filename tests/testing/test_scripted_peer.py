from collections.abc import AsyncGenerator, Awaitable, Callable

import anyio
import pytest
import trio

from tests.kit.loops import REAL_LOOPS_OF_BROKER, on_loops
from trio_stomp.testing import MemoryLink, ScriptedPeer, ScriptMismatchError, open_scripted_peer
from trio_stomp.types import Command, Version

pytestmark = pytest.mark.anyio

CONNECT = b"CONNECT\naccept-version:1.0,1.1,1.2\nhost:h\nheart-beat:1000,0\n\n\0"


@pytest.fixture
async def peer() -> AsyncGenerator[ScriptedPeer]:
    async with open_scripted_peer() as opened:
        yield opened


async def ready(peer: ScriptedPeer, version: str = "1.2") -> MemoryLink:
    stream = peer.connect_stream()
    await stream.send_all(CONNECT)
    await peer.accept_connect(version=version)
    await stream.receive_some()
    return stream


async def test_connect_when_accepted_then_connected_says_what_the_script_says(peer: ScriptedPeer) -> None:
    stream = peer.connect_stream()
    await stream.send_all(CONNECT)

    frame = await peer.accept_connect(version="1.1", heart_beat=(1.0, 2.5), server="Test/1", headers={"session": "s"})

    assert frame.headers["heart-beat"] == "1000,0"
    assert peer.version is Version.V1_1
    assert await stream.receive_some() == (
        b"CONNECTED\nversion:1.1\nheart-beat:1000,2500\nserver:Test/1\nsession:s\n\n\0"
    )


async def test_connect_when_a_frame_begins_in_the_same_chunk_then_it_is_read_too(peer: ScriptedPeer) -> None:
    stream = peer.connect_stream()
    await stream.send_all(CONNECT + b"\nSEND\ndestination:/queue/a\nx:")

    await peer.accept_connect()
    await stream.send_all(b"\\c\n\nbody\0")
    frame = await peer.expect(Command.SEND, body=b"body", destination="/queue/a", x=":")

    assert [each.command for each in peer.received] == [Command.CONNECT, Command.SEND]
    assert peer.received[1] is frame
    assert peer.received_bytes.startswith(CONNECT)
    assert peer.heart_beats == 1


async def test_connect_when_version_was_not_offered_then_mismatch(peer: ScriptedPeer) -> None:
    await peer.connect_stream().send_all(b"CONNECT\naccept-version:1.1\nhost:h\n\n\0")

    with pytest.raises(ScriptMismatchError, match=r"offer of version 1\.2"):
        await peer.accept_connect(version="1.2")


async def test_frames_when_sent_by_the_script_then_come_in_the_version_in_force(peer: ScriptedPeer) -> None:
    stream = await ready(peer, "1.0")

    await peer.send(Command.MESSAGE, {"destination": "/queue/a:b", "message-id": "1"}, b"x")
    await peer.send_bytes(b"\n\n")

    assert await stream.receive_some() == (
        b"MESSAGE\ndestination:/queue/a:b\nmessage-id:1\ncontent-length:1\n\nx\0\n\n"
    )


async def test_receipt_when_confirmed_then_names_the_frame(peer: ScriptedPeer) -> None:
    stream = await ready(peer)
    await stream.send_all(b"SEND\ndestination:/queue/a\nreceipt:r-1\n\n\0BEGIN\ntransaction:t\n\n\0")

    await peer.confirm(await peer.expect(Command.SEND))

    assert await stream.receive_some() == b"RECEIPT\nreceipt-id:r-1\n\n\0"
    with pytest.raises(ScriptMismatchError, match="receipt header"):
        await peer.confirm(await peer.next_frame())


async def test_disconnect_when_expected_then_confirmed_and_closed(peer: ScriptedPeer) -> None:
    stream = await ready(peer)

    async def client() -> None:
        await stream.send_all(b"DISCONNECT\nreceipt:bye\n\n\0")
        assert await stream.receive_some() == b"RECEIPT\nreceipt-id:bye\n\n\0"
        await stream.send_eof()
        assert await stream.receive_some() == b""

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client)
        await peer.expect_disconnect()


Expectation = Callable[[ScriptedPeer], Awaitable[object]]

MISMATCHES: list[tuple[bytes, Expectation, str]] = [
    (b"BEGIN\ntransaction:t\n\n\0", lambda peer: peer.expect(Command.SEND), "expected a SEND frame, got BEGIN"),
    (b"BEGIN\ntransaction:t\n\n\0", lambda peer: peer.expect(Command.BEGIN, transaction="u"), "transaction:u"),
    (b"SEND\ndestination:d\n\nx\0", lambda peer: peer.expect(Command.SEND, body=b"y"), "expected the body b'y'"),
    (b"", lambda peer: peer.expect(Command.SEND), "nothing came within 5"),
    (b"", lambda peer: peer.expect_eof(), "expected the end of the link"),
    (b"BEGIN\ntransaction:t\n\n\0", lambda peer: peer.expect_eof(), "expected the end of the link, got BEGIN"),
    (b"WRONG\n\n\0", lambda peer: peer.next_frame(), "the client sent no STOMP: .*WRONG"),
    (b"\n", lambda peer: peer.expect_silence(1.0), "seconds of silence"),
    (b"", lambda peer: peer.expect_heart_beat(within=1.0), "expected a heart-beat within 1.0 seconds, got nothing"),
    (b"BEGIN\ntransaction:t\n\n\0", lambda peer: peer.expect_heart_beat(within=1.0), "got BEGIN"),
    (b"BEGIN\ntransaction:t\n\n\0", lambda peer: peer.accept_connect(), "expected a CONNECT frame"),
]
# And then the link ends.
ENDINGS: list[tuple[bytes, Expectation, str]] = [
    (b"", lambda peer: peer.next_frame(), "the client has closed the link"),
    (b"", lambda peer: peer.expect_silence(1.0), "the end of the link"),
    (b"", lambda peer: peer.expect_heart_beat(within=1.0), "the end of the link"),
    (b"SEND\ndestination:d\n\nhal", lambda peer: peer.expect_eof(), "within a frame"),
    (b"SEND\ndesti", lambda peer: peer.next_frame(), "within a frame; the last bytes: .*desti"),
]


@pytest.mark.parametrize(
    ("data", "expectation", "complaint", "ends"),
    [*((*each, False) for each in MISMATCHES), *((*each, True) for each in ENDINGS)],
)
async def test_expectation_when_client_does_something_else_then_mismatch_says_what(
    peer: ScriptedPeer, data: bytes, expectation: Expectation, complaint: str, *, ends: bool
) -> None:
    stream = await ready(peer)
    await stream.send_all(data)
    if ends:
        await stream.aclose()

    with pytest.raises(ScriptMismatchError, match=complaint):
        await expectation(peer)


async def test_header_when_its_name_has_an_underscore_then_expected_as_one_with_a_hyphen_is(peer: ScriptedPeer) -> None:
    stream = await ready(peer)
    await stream.send_all(b"SEND\ndestination:d\norder_id:1\ncorrelation-id:2\n\n\0" * 2)

    await peer.expect(Command.SEND, order_id="1", correlation_id="2")
    with pytest.raises(ScriptMismatchError, match="expected header order_id:2, got SEND"):
        await peer.expect(Command.SEND, order_id="2")


async def test_command_when_it_is_text_then_type_error(peer: ScriptedPeer) -> None:
    await ready(peer)
    said = r"command must be a Command such as Command\.SEND, got 'SEND'"

    with pytest.raises(TypeError, match=said):
        await peer.expect("SEND")  # type: ignore[arg-type]  # what is refused
    with pytest.raises(TypeError, match=said):
        await peer.send("SEND", {})  # type: ignore[arg-type]  # what is refused


async def test_end_when_client_closes_in_order_then_expected(peer: ScriptedPeer) -> None:
    stream = await ready(peer)
    await stream.send_all(b"SEND\ndestination:d\n\n\0\n\n")
    await stream.aclose()

    await peer.expect(Command.SEND)
    await peer.expect_eof()


async def test_silence_when_a_frame_is_unread_then_mismatch(peer: ScriptedPeer) -> None:
    stream = await ready(peer)
    await stream.send_all(b"BEGIN\ntransaction:t\n\n\0BEGIN\ntransaction:u\n\n\0")
    await peer.expect(Command.BEGIN)

    with pytest.raises(ScriptMismatchError, match="silence, got BEGIN"):
        await peer.expect_silence(1.0)


async def test_silence_when_kept_then_takes_its_time(peer: ScriptedPeer) -> None:
    await ready(peer)
    start = anyio.current_time()

    await peer.expect_silence(60.0)

    assert anyio.current_time() - start == pytest.approx(60)


async def test_heart_beats_when_exchanged_then_counted_and_sent(peer: ScriptedPeer) -> None:
    stream = await ready(peer)
    await stream.send_all(b"\n")

    await peer.expect_heart_beat(within=1.0)
    await peer.send_heart_beat()

    assert await stream.receive_some() == b"\n"
    assert peer.heart_beats == 1


async def test_connections_when_several_then_script_moves_from_one_to_the_next(peer: ScriptedPeer) -> None:
    first = await ready(peer)
    await peer.aclose()
    assert await first.receive_some() == b""

    second = peer.connect_stream()
    await peer.accept()
    assert peer.received == ()
    await second.send_all(CONNECT)
    await peer.accept_connect(version="1.1")
    assert (await second.receive_some()).startswith(b"CONNECTED\nversion:1.1")

    await peer.send_eof()
    assert await second.receive_some() == b""
    await second.send_all(b"SEND\ndestination:d\n\n\0")
    await peer.expect(Command.SEND)


async def test_connection_when_none_comes_then_mismatch() -> None:
    async with open_scripted_peer(patience=2.0) as peer:
        start = anyio.current_time()

        with pytest.raises(ScriptMismatchError, match=r"a connection, but nothing came within 2\.0 seconds"):
            await peer.accept()

        assert anyio.current_time() - start == pytest.approx(2)


async def test_state_when_nobody_has_connected_then_is_empty(  # noqa: ASYNC124  # its fixture needs a loop
    peer: ScriptedPeer,
) -> None:
    assert (peer.received, peer.received_bytes, peer.heart_beats) == ((), b"", 0)
    assert peer.version is Version.V1_2
    with pytest.raises(ScriptMismatchError, match="no connection"):
        peer.use_version("1.2")
    with pytest.raises(RuntimeError, match="connect_stream"):
        _ = peer.port
    assert peer.url == "stomp://guest:guest@use-connect-stream.invalid:61613"


async def test_version_when_set_by_hand_then_later_frames_are_read(peer: ScriptedPeer) -> None:
    stream = peer.connect_stream()
    await stream.send_all(CONNECT + b"SEND\ndestination:d\n\n\0")
    await peer.expect(Command.CONNECT)

    peer.use_version("1.0")

    await peer.expect(Command.SEND)


async def test_peer_when_left_then_all_links_are_closed() -> None:
    async with open_scripted_peer() as peer:
        accepted = await ready(peer)
        waiting = peer.connect_stream()

    assert await accepted.receive_some() == b""
    assert await waiting.receive_some() == b""


@on_loops(*REAL_LOOPS_OF_BROKER)
async def test_peer_when_it_listens_then_speaks_over_a_socket() -> None:
    async with open_scripted_peer(listen=True) as peer:
        assert peer.url == f"stomp://guest:guest@127.0.0.1:{peer.port}"
        with pytest.raises(RuntimeError, match="socket"):
            peer.connect_stream()
        async with await anyio.connect_tcp("127.0.0.1", peer.port) as stream:
            await stream.send(CONNECT)

            await peer.accept_connect()

            assert (await stream.receive()).startswith(b"CONNECTED")
        await peer.expect_eof()


@on_loops("trio-real")
async def test_link_when_client_resets_it_then_counts_as_its_end() -> None:
    async with open_scripted_peer(listen=True) as peer:
        stream = await trio.open_tcp_stream("127.0.0.1", peer.port)
        await stream.send_all(CONNECT)
        await peer.accept_connect()
        await peer.send_bytes(b"never read")
        # Closing with bytes unread makes the system reset the link.
        await stream.aclose()

        await peer.expect_eof()
