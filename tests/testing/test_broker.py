import ssl

import pytest
import trio
import trustme
from trio.testing import MemoryReceiveStream, MemorySendStream, MockClock, wait_all_tasks_blocked

from tests.kit.certificates import client_context, server_context
from tests.testing.raw_client import RawClient, connected
from trio_stomp.testing import Broker, BrokerOptions, Refusal, open_broker
from trio_stomp.types import Command, Version


async def over_socket(broker: Broker) -> RawClient:
    client = RawClient(await trio.open_tcp_stream("127.0.0.1", broker.port))
    await client.connect()
    return client


async def test_broker_when_on_a_socket_then_serves_it_and_closes_it() -> None:
    async with open_broker() as broker:
        client = await over_socket(broker)
        await client.subscribe("/queue/a")
        await client.send("/queue/a", "x")
        await client.message("x")
        port = broker.port

    await client.expect_eof()
    await client.stream.aclose()
    with pytest.raises(OSError, match="connect"):
        await trio.open_tcp_stream("127.0.0.1", port)


async def test_broker_when_left_then_links_in_memory_are_closed(autojump_clock: MockClock) -> None:
    async with open_broker(listen=False) as broker:
        client = await connected(broker)
        silent = broker.connect_stream()

    await client.expect_eof()
    assert await silent.receive_some() == b""
    assert broker.sessions == ()


@pytest.mark.parametrize(
    ("options", "tls", "url"),
    [
        (BrokerOptions(), False, "stomp://guest:guest@memory.invalid:61613"),
        (BrokerOptions(logins={"a@b": "p/w:d"}), False, "stomp://a%40b:p%2Fw%3Ad@memory.invalid:61613"),
        (BrokerOptions(), True, "stomps://guest:guest@memory.invalid:61613"),
    ],
)
async def test_url_when_there_is_no_socket_then_leads_nowhere(options: BrokerOptions, tls: bool, url: str) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH) if tls else None
    async with open_broker(listen=False, options=options, tls=context) as broker:
        assert broker.url == url
        with pytest.raises(RuntimeError, match="connect_stream"):
            _ = broker.port
        with pytest.raises(RuntimeError, match="no address"):
            await broker.start_listening()


async def test_url_when_there_is_a_socket_then_names_its_port() -> None:
    async with open_broker() as broker:
        assert broker.url == f"stomp://guest:guest@127.0.0.1:{broker.port}"


async def test_url_when_host_is_ipv6_then_has_brackets() -> None:
    try:
        async with open_broker(host="::1") as broker:
            assert broker.url == f"stomp://guest:guest@[::1]:{broker.port}"
    except OSError:
        pytest.skip("this machine has no IPv6")


async def test_tls_when_context_is_given_then_clients_speak_over_it() -> None:
    authority = trustme.CA()
    async with open_broker(tls=server_context(authority), options=BrokerOptions(linger=0.2)) as broker:
        assert broker.url.startswith("stomps://")
        stream = await trio.open_tcp_stream("127.0.0.1", broker.port)
        client = RawClient(trio.SSLStream(stream, client_context(authority), server_hostname="localhost"))
        await client.connect()
        await client.subscribe("/queue/a", "client")
        await client.send("/queue/a", "secret")
        await client.message("secret")
        await client.confirmed(Command.DISCONNECT)
        await client.expect_eof()
        await client.stream.aclose()

        # And a client that does not speak TLS does no harm.
        plain = await trio.open_tcp_stream("127.0.0.1", broker.port)
        await plain.send_all(b"CONNECT\naccept-version:1.2\nhost:h\n\n\0")
        while await plain.receive_some():
            pass
        await plain.aclose()
        await broker.wait_until(lambda: not broker.sessions)
        assert broker.depth("/queue/a") == 1


async def test_listening_when_stopped_then_refused_until_started_on_the_same_port() -> None:
    async with open_broker() as broker:
        client = await over_socket(broker)
        port = broker.port

        await broker.stop_listening()
        with pytest.raises(OSError, match="connect"):
            await trio.open_tcp_stream("127.0.0.1", port)
        await client.send("/queue/a", receipt="r")
        await client.expect(Command.RECEIPT)
        await broker.stop_listening()

        await broker.start_listening()
        await broker.start_listening()
        assert broker.port == port
        again = await over_socket(broker)
        for each in (client, again):
            await each.stream.aclose()


async def test_exception_when_raised_in_the_body_then_leaves_as_itself(autojump_clock: MockClock) -> None:
    cause, error = KeyError("cause"), ValueError("body")

    with pytest.raises(ValueError, match="body") as caught:
        async with open_broker(listen=False) as broker:
            await connected(broker)
            raise error from cause

    assert caught.value is error
    assert error.__cause__ is cause
    assert error.__context__ is None


async def test_group_when_raised_in_the_body_then_leaves_as_it_is(autojump_clock: MockClock) -> None:
    group = ExceptionGroup("both", [ValueError("a"), KeyError("b")])

    with pytest.RaisesGroup(ValueError, KeyError) as caught:
        async with open_broker(listen=False):
            raise group

    # trio makes a new group of the same exceptions when it takes its own cancellation out.
    assert caught.value.exceptions == group.exceptions


async def test_cancellation_when_outside_then_ends_everything(autojump_clock: MockClock) -> None:
    with trio.move_on_after(5) as scope:
        async with open_broker(listen=False) as broker:
            await connected(broker)
            await trio.sleep_forever()

    assert scope.cancelled_caught


async def test_inspection_when_messages_wait_and_fly_then_tells_them_apart(autojump_clock: MockClock) -> None:
    async with open_broker(listen=False) as broker:
        client = await connected(broker)
        await client.subscribe("/queue/a", "client", prefetch_count="1")
        broker.publish("/queue/a", "first", [("n", "1")])
        broker.publish("/queue/a", b"second", [("n", "2"), ("n", "3"), ("message-id", "forged")])
        await client.message("first")

        assert (broker.depth("/queue/a"), broker.unacknowledged("/queue/a"), broker.consumers("/queue/a")) == (1, 1, 1)
        (message,) = broker.messages("/queue/a")
        assert (message.body, message.deliveries, message.message_id) == (b"second", 0, "m-2")
        assert message.headers.pairs == (("n", "2"), ("n", "3"))
        assert broker.depth("/queue/other") == 0


async def test_publish_when_destination_is_unknown_then_refused(autojump_clock: MockClock) -> None:
    async with open_broker(listen=False) as broker:
        with pytest.raises(Refusal, match="no such destination"):
            broker.publish("nowhere", "x")


async def test_vhosts_when_several_then_their_queues_are_apart(autojump_clock: MockClock) -> None:
    async with open_broker(listen=False, options=BrokerOptions(vhosts={"/", "/test"})) as broker:
        client = await connected(broker, host="/test")
        await client.send("/queue/a", "x", receipt="r")
        await client.expect(Command.RECEIPT)

        assert broker.depth("/queue/a", vhost="/test") == 1
        assert broker.depth("/queue/a", vhost="/") == 0
        with pytest.raises(KeyError):
            broker.depth("/queue/a", vhost="/none")


async def test_wait_until_when_condition_comes_true_then_returns(autojump_clock: MockClock) -> None:
    async with open_broker(listen=False) as broker:
        done: list[int] = []

        async def wait() -> None:
            await broker.wait_until(lambda: broker.depth("/queue/a") == 2)
            done.append(broker.depth("/queue/a"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            broker.publish("/queue/a", "1")
            await wait_all_tasks_blocked()
            assert done == []
            broker.publish("/queue/a", "2")

        assert done == [2]


async def test_drop_connections_when_called_then_all_links_break(autojump_clock: MockClock) -> None:
    async with open_broker(listen=False) as broker:
        clients = [await connected(broker) for _ in range(3)]

        broker.drop_connections()

        for client in clients:
            await client.expect_eof()


async def test_connections_when_they_come_and_go_quickly_then_broker_copes() -> None:
    """Rows 12-LING-1, 11-LING-1."""
    async with open_broker() as broker:
        for number in range(200):
            stream = await trio.open_tcp_stream("127.0.0.1", broker.port)
            if number % 2:
                await stream.send_all(b"CONNECT\naccept-version:1.1,1.2\nhost:h\n\n\0SEND\ndestination:/queue/a\n\nx\0")
            await stream.aclose()

        client = await over_socket(broker)
        await client.send("/queue/b", receipt="r")
        await client.expect(Command.RECEIPT)
        await client.stream.aclose()
        with trio.fail_after(60):
            await broker.wait_until(lambda: not broker.sessions)
        assert broker.statistics().connections == 201


async def test_versions_when_options_name_some_then_others_are_refused(autojump_clock: MockClock) -> None:
    async with open_broker(listen=False, options=BrokerOptions(versions=[Version.V1_1])) as broker:
        await connected(broker, version=Version.V1_1)
        client = RawClient(broker.connect_stream())

        await client.write(Command.CONNECT, accept_version="1.2", host="h")

        assert (await client.refused("protocol error")).headers["version"] == "1.1"


async def test_session_when_it_fails_then_broker_does_too(autojump_clock: MockClock) -> None:
    async def fail() -> None:
        await trio.lowlevel.checkpoint()
        raise ZeroDivisionError

    stream = trio.StapledStream(MemorySendStream(), MemoryReceiveStream(receive_some_hook=fail))
    async with open_broker(listen=False) as broker:
        with pytest.RaisesGroup(ZeroDivisionError):
            await broker.serve_stream(stream)

    assert broker.statistics().open_connections == 0
