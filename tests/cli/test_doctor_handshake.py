import pytest
import trio

from tests.cli.fake_network import Port, says, silent
from trio_stomp.brokers import RABBITMQ
from trio_stomp.cli.doctor_handshake import Answer, Kind, knock
from trio_stomp.cli.doctor_target import Target
from trio_stomp.protocol import Version
from trio_stomp.testing import BrokerOptions, open_broker, open_memory_links

TARGET = Target(host="broker", port=1000, login="ann", passcode="a\\b", headers=(("client-id", "me"),))


async def knocked(port: Port, target: Target = TARGET) -> Answer:
    ours, theirs = open_memory_links()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(port, theirs)
        answer = await knock(ours, target)
        nursery.cancel_scope.cancel()
    return answer


async def closes(stream: trio.abc.Stream) -> None:
    await stream.receive_some()
    await stream.aclose()


@pytest.mark.parametrize(
    ("port", "kind"),
    [
        (says(b"CONNECTED\nversion:1.2\n\n\0"), Kind.CONNECTED),
        (says(b"ERROR\nmessage:no\n\n\0"), Kind.REFUSED),
        (says(b"HTTP/1.1 400 Bad Request\r\n\r\n"), Kind.STRANGE),
        (says(b"AMQP"), Kind.STRANGE),
        (says(b"RECEIPT\nreceipt-id:1\n\n\0"), Kind.STRANGE),
        (closes, Kind.CLOSED),
        (silent, Kind.SILENT),
    ],
)
async def test_answer_when_something_comes_back_then_told_apart(
    port: Port, kind: Kind, autojump_clock: trio.testing.MockClock
) -> None:
    answer = await knocked(port)

    assert answer.kind is kind
    assert (answer.connected is not None) is (kind is Kind.CONNECTED)
    assert (answer.refusal is not None) is (kind is Kind.REFUSED)
    assert answer.seconds == (TARGET.timeout if kind is Kind.SILENT else 0)


async def test_answer_when_half_a_stranger_speaks_then_stalls_then_strange(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def mumbles(stream: trio.abc.Stream) -> None:
        await stream.send_all(b"\x00\x00\x01")
        await trio.sleep_forever()

    answer = await knocked(mumbles)

    assert (answer.kind, answer.seen) == (Kind.STRANGE, b"\x00\x00\x01")


async def test_answer_when_the_link_breaks_then_told_so() -> None:
    ours, theirs = open_memory_links()
    await theirs.aclose()

    answer = await knock(ours, TARGET)

    assert answer.kind is Kind.BROKEN
    assert isinstance(answer.error, trio.BrokenResourceError)


@pytest.mark.parametrize(
    ("target", "with_credentials", "expected"),
    [
        (TARGET, True, b"login:ann\npasscode:a\\b\n"),
        (Target(host="b", port=1, login="ann", passcode="a\\b", profile=RABBITMQ), True, b"passcode:a\\\\b\n"),
        (TARGET, False, b"client-id:me\n\n"),
    ],
)
async def test_connect_when_sent_then_says_who_we_are_only_where_it_should(
    target: Target, with_credentials: bool, expected: bytes
) -> None:
    ours, theirs = open_memory_links()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: knock(ours, target, with_credentials=with_credentials))
        sent = await theirs.receive_some()
        nursery.cancel_scope.cancel()

    assert expected in sent
    assert (b"passcode" in sent) is with_credentials
    assert b"host:/\n" in sent


async def test_session_when_connected_then_goes_on(autojump_clock: trio.testing.MockClock) -> None:
    async with open_broker(listen=False, options=BrokerOptions(versions=[Version.V1_1])) as broker:
        answer = await knock(broker.connect_stream(), TARGET)

    assert answer.connected is not None
    assert answer.connected.version is Version.V1_1
    assert answer.protocol.disconnect("bye")
