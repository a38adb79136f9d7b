import re
import ssl
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from math import inf, nan
from operator import attrgetter
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import anyio
import pytest
import trio
import trustme
from trio.testing import MemoryReceiveStream, MemorySendStream

import trio_stomp
from tests.kit.certificates import client_context, server_context
from tests.kit.loops import on_loops, wait_all_tasks_blocked
from tests.testing.raw_client import RawClient, connected, with_options
from trio_stomp.errors import LocalProtocolError
from trio_stomp.testing import Broker, BrokerOptions, Refusal, open_broker, open_scripted_peer, sockets
from trio_stomp.types import Command

pytestmark = pytest.mark.anyio
over_sockets = on_loops("trio-real")


async def over_socket(broker: Broker) -> RawClient:
    client = RawClient(await trio.open_tcp_stream("127.0.0.1", broker.port))
    await client.connect()
    return client


async def test_broker_when_left_then_links_in_memory_are_closed() -> None:
    async with open_broker(listen=False) as broker:
        client = await connected(broker)
        silent = broker.connect_stream()

    await client.expect_eof()
    assert await silent.receive_some() == b""
    assert broker.sessions == ()


@pytest.mark.parametrize(
    ("options", "tls", "url"),
    [
        (BrokerOptions(), False, "stomp://guest:guest@use-connect-stream.invalid:61613"),
        (BrokerOptions(logins={"a@b": "p/w:d"}), False, "stomp://a%40b:p%2Fw%3Ad@use-connect-stream.invalid:61613"),
        (BrokerOptions(), True, "stomps://guest:guest@use-connect-stream.invalid:61613"),
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


@over_sockets
async def test_url_when_host_is_ipv6_then_has_brackets() -> None:
    try:
        async with open_broker(host="::1") as broker:
            assert broker.url == f"stomp://guest:guest@[::1]:{broker.port}"
    except OSError:
        pytest.skip("this machine has no IPv6")


@over_sockets
async def test_tls_when_the_client_disconnects_then_the_broker_ends_tls_in_order() -> None:
    authority = trustme.CA()
    async with open_broker(tls=server_context(authority), options=BrokerOptions(linger=0.2)) as broker:
        stream = await trio.open_tcp_stream("127.0.0.1", broker.port)
        client = RawClient(trio.SSLStream(stream, client_context(authority), server_hostname="localhost"))
        await client.connect()
        await client.confirmed(Command.DISCONNECT)
        await client.expect_eof()
        await client.stream.aclose()


@pytest.mark.parametrize("tls", [ssl.create_default_context(), "cert.pem"], ids=["client", "path"])
async def test_tls_when_it_is_no_context_of_a_server_then_refused(tls: ssl.SSLContext) -> None:
    with pytest.raises((TypeError, ValueError), match=r"^tls must be a server's context, such as ssl\.create_default"):
        async with open_broker(tls=tls):
            raise AssertionError


@over_sockets
async def test_listening_when_stopped_then_refused_until_started_on_the_same_port() -> None:
    async with open_broker() as broker:
        client = await over_socket(broker)
        port = broker.port

        await broker.stop_listening()
        with pytest.raises(OSError, match="connect"):
            await trio.open_tcp_stream("127.0.0.1", port)
        await client.confirmed(Command.SEND, destination="/queue/a")
        await broker.stop_listening()

        await broker.start_listening()
        await broker.start_listening()
        assert broker.port == port
        again = await over_socket(broker)
    for each in (client, again):
        await each.expect_eof()
        await each.stream.aclose()


async def test_exception_when_raised_in_the_body_then_leaves_as_itself() -> None:
    cause, error = KeyError("cause"), ValueError("body")

    with pytest.raises(ValueError, match="body") as caught:
        async with open_broker(listen=False) as broker:
            await connected(broker)
            raise error from cause

    assert caught.value is error
    assert error.__cause__ is cause
    assert error.__context__ is None


async def test_group_when_raised_in_the_body_then_leaves_as_it_is() -> None:
    group = ExceptionGroup("both", [ValueError("a"), KeyError("b")])

    with pytest.RaisesGroup(ValueError, KeyError) as caught:
        async with open_broker(listen=False):
            raise group

    # trio makes a new group of the same exceptions when it takes its own cancellation out.
    assert caught.value.exceptions == group.exceptions


async def test_cancellation_when_outside_then_ends_everything() -> None:
    with anyio.move_on_after(5) as scope:
        async with open_broker(listen=False) as broker:
            await connected(broker)
            await anyio.sleep_forever()

    assert scope.cancelled_caught


async def test_inspection_when_messages_wait_and_fly_then_tells_them_apart(broker: Broker, client: RawClient) -> None:
    """Row 1x-SEND-5."""
    await client.subscribe("/queue/a", "client", prefetch_count="1")
    broker.publish("/queue/a", "first", [("n", "1")])
    forged = [(name, "forged") for name in ("message-id", "ack", "destination", "receipt")]
    broker.publish("/queue/a", b"second", [("n", "2"), ("n", "3"), ("N", "4"), *forged])
    await client.message("first")

    assert (broker.depth("/queue/a"), broker.unacknowledged("/queue/a"), broker.consumers("/queue/a")) == (1, 1, 1)
    (message,) = broker.messages("/queue/a")
    assert (message.body, message.deliveries, message.message_id) == (b"second", 0, "m-2")
    assert message.headers.pairs == (("n", "2"), ("n", "3"), ("N", "4"))
    assert broker.depth("/queue/other") == 0


@pytest.mark.parametrize(
    ("body", "headers", "text"),
    [
        (
            {"a": 1},
            (),
            "a body must be bytes or str, got a value of type dict; pass json= to publish JSON, or encode it",
        ),
        (memoryview(b"x"), (), "a body must be bytes or str, got a value of type memoryview"),
        ("x", [("n", 1)], "header 'n': name and value must be str, got a value of type int; use str()"),
        ("x", [(1, "n")], "header 1: name and value must be str, got a name of type int; use str()"),
        (
            "x",
            {"n": None},
            "header 'n': name and value must be str, got a value of type NoneType; leave the header out",
        ),
        ("x", None, "headers must be a mapping such as {'type': 'order'}, or a list of pairs such as [('type', "),
        ("x", ["n:1"], "got a value of type list: too many values to unpack"),
    ],
)
async def test_publish_when_given_what_no_message_can_have_then_refused_and_the_broker_goes_on(
    broker: Broker, client: RawClient, body: bytes, headers: list[tuple[str, str]], text: str
) -> None:
    with pytest.raises(LocalProtocolError, match=re.escape(text)):
        broker.publish("/queue/a", body, headers)

    assert broker.depth("/queue/a") == 0
    await client.subscribe("/queue/a")
    broker.publish("/queue/a", "x", {"n": "1"})
    await client.message("x", n="1")


@pytest.mark.parametrize("name", [None, b"/queue/a"])
async def test_destination_when_it_is_no_text_then_type_error(  # noqa: ASYNC124  # its fixture needs a loop
    broker: Broker, name: str
) -> None:
    for call in (broker.depth, broker.unacknowledged, broker.consumers, broker.messages, broker.publish):
        with pytest.raises(TypeError, match=r"^destination must be a str such as '/queue/orders', got"):
            call(name)


@pytest.mark.parametrize("body", ["x", b"x", bytearray(b"x")])
async def test_publish_when_body_is_text_or_bytes_then_bytes_are_kept(  # noqa: ASYNC124  # its fixture needs a loop
    broker: Broker, body: bytes
) -> None:
    broker.publish("/queue/a", body)

    (message,) = broker.messages("/queue/a")
    assert message.body == b"x"
    assert type(message.body) is bytes


@pytest.mark.parametrize("value", [{"item": "th\u00e9", "count": 2}, [1.5, None], "tea", 0, False])
async def test_publish_when_given_a_value_then_it_is_the_message_that_a_client_sends(
    broker: Broker, value: object
) -> None:
    async with trio_stomp.connect_stream(broker.connect_stream()) as client:
        await client.send("/queue/a", json=value, receipt=True)
    broker.publish("/queue/a", json=value)

    sent, published = broker.messages("/queue/a")
    assert published.body == sent.body
    assert published.headers == {"content-type": "application/json"}
    assert sent.headers["content-type"] == "application/json"


async def test_publish_when_the_headers_have_a_type_then_a_value_is_of_that_type(  # noqa: ASYNC124  # its fixture needs a loop
    broker: Broker,
) -> None:
    broker.publish("/queue/a", headers={"content-type": "application/geo+json"}, json={})

    (message,) = broker.messages("/queue/a")
    assert message.headers.pairs == (("content-type", "application/geo+json"),)


async def test_publish_when_a_value_cannot_be_encoded_or_there_is_a_body_too_then_refused(  # noqa: ASYNC124  # its fixture needs a loop
    broker: Broker,
) -> None:
    with pytest.raises(LocalProtocolError, match=r"json= cannot be encoded: .*; encode it, and pass the bytes as the"):
        broker.publish("/queue/a", json=nan)
    with pytest.raises(TypeError, match=r"publish\(\) was given a body and json=; leave out one"):
        broker.publish("/queue/a", b"x", json={})

    assert broker.depth("/queue/a") == 0


@pytest.mark.parametrize("name", ["/queue/", "/topic/", "orders", "", "/exchange/x", "/queue/a\n", "/queue/a\rb"])
async def test_publish_when_destination_is_of_no_known_kind_then_refused(  # noqa: ASYNC124  # its fixture needs a loop
    broker: Broker, name: str
) -> None:
    with pytest.raises(Refusal, match=r"^(no such destination|destination refused): a destination "):
        broker.publish(name, "x")


@pytest.mark.parametrize("options", [BrokerOptions(), BrokerOptions(bare_queues=True)], ids=["default", "bare"])
async def test_publish_when_destination_is_temporary_then_only_its_name_for_all_connections_is_taken(
    broker: Broker, client: RawClient
) -> None:
    await client.subscribe("/temp-queue/replies")
    await client.send("/queue/a", reply_to="/temp-queue/replies")
    await broker.wait_until(lambda: broker.depth("/queue/a") == 1)
    (question,) = broker.messages("/queue/a")

    with pytest.raises(Refusal, match=r"^no such destination: '/temp-queue/replies' names another .* reply-to header"):
        broker.publish("/temp-queue/replies", "x")
    broker.publish(question.headers["reply-to"], "answer")

    await client.message("answer")


@with_options(BrokerOptions(vhosts={"/", "/test"}))
async def test_vhosts_when_several_then_their_queues_are_apart_and_others_are_refused(broker: Broker) -> None:
    """Row 1x-CONN-11."""
    client = await connected(broker, host="/test")
    await client.confirmed(Command.SEND, destination="/queue/a")
    # Without a name it is the first of them.
    first = RawClient(broker.connect_stream())
    await first.write(Command.CONNECT, accept_version="1.2")
    await first.expect_connected()
    await first.subscribe("/queue/b")

    assert (broker.depth("/queue/a", vhost="/test"), broker.depth("/queue/a", vhost="/")) == (1, 0)
    assert broker.consumers("/queue/b", vhost="/") == broker.consumers("/queue/b") == 1
    with pytest.raises(KeyError, match=r"no virtual host .*; in BrokerOptions\(vhosts=...\) there are '/', '/test'"):
        broker.depth("/queue/a", vhost="/none")
    broker.publish("/queue/a", "y", vhost="/")
    ids = {broker.messages("/queue/a", vhost=vhost)[0].message_id for vhost in ("/", "/test")}
    assert len(ids) == 2
    other = RawClient(broker.connect_stream())
    await other.write(Command.CONNECT, accept_version="1.2", host="/other")
    await other.refused("no such virtual host")


async def test_vhosts_when_any_is_taken_then_all_share_their_queues(broker: Broker) -> None:
    one, other = await connected(broker, host="a"), await connected(broker, host="b")
    await other.subscribe("/queue/a")

    await one.send("/queue/a", "x")

    await other.message("x")


async def test_wait_until_when_condition_comes_true_then_returns(broker: Broker) -> None:
    done: list[int] = []

    async def wait() -> None:
        await broker.wait_until(lambda: broker.depth("/queue/a") == 2)
        done.append(broker.depth("/queue/a"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        broker.publish("/queue/a", "1")
        await wait_all_tasks_blocked()
        assert done == []
        broker.publish("/queue/a", "2")

    assert done == [2]


async def test_wait_until_when_condition_stays_false_then_timeout_error_says_what_the_broker_holds(
    broker: Broker, client: RawClient
) -> None:
    await client.subscribe("/topic/b")
    await client.subscribe("/topic/c.*", subscription_id="2")
    for name in ("/queue/a\x1b", "/queue/a\x1b", "/queue/d"):
        broker.publish(name, "x")
    await wait_all_tasks_blocked()
    began = anyio.current_time()

    with pytest.raises(TimeoutError) as caught:
        await broker.wait_until(lambda: False)

    assert anyio.current_time() == began + 10
    assert str(caught.value) == (
        "the condition is still false after 10 s. The broker has 1 connections; "
        "/queue/a\\x1b: depth 2, unacknowledged 0, consumers 0; /queue/d: depth 1, unacknowledged 0, consumers 0; "
        "/topic/b: depth 0, unacknowledged 0, consumers 1; /topic/c.*: depth 0, unacknowledged 0, consumers 1"
    )


@with_options(BrokerOptions(vhosts=("/", "test")))
async def test_wait_until_when_there_are_many_destinations_then_its_text_is_short(broker: Broker) -> None:
    with pytest.raises(TimeoutError, match=r"after 0\.5 s\. The broker has 0 connections; no destinations$"):
        await broker.wait_until(lambda: False, timeout=0.5)
    broker.publish("/queue/first", "x", vhost="/")
    for number in range(20):
        broker.publish(f"/queue/{number}{'x' * 1000}", "x", vhost="test")

    with pytest.raises(
        TimeoutError, match=r"; / /queue/first: .*; test /queue/0x.*; and 11 more destinations$"
    ) as caught:
        await broker.wait_until(lambda: False, timeout=1)

    assert len(str(caught.value)) < 2000


async def test_wait_until_when_the_condition_is_async_then_type_error(broker: Broker) -> None:
    async def condition() -> bool:  # noqa: ASYNC124  # what is refused
        return False

    with pytest.raises(TypeError, match="must be a function that is not async"):
        await broker.wait_until(condition)  # type: ignore[arg-type]  # what is refused


@pytest.mark.parametrize(
    ("opened", "call", "name"),
    [(open_broker, "open_broker", "broker"), (open_scripted_peer, "open_scripted_peer", "peer")],
)
async def test_broker_or_peer_when_used_without_a_block_then_says_how(
    opened: Callable[[], AbstractAsyncContextManager[object]], call: str, name: str
) -> None:
    hint = rf"^{call}\(\) .*: it is an async context manager\. Write: async with {call}\(\) as {name}:$"

    with pytest.raises(AttributeError, match=hint):
        attrgetter("url")(opened())
    with pytest.raises(TypeError, match=hint):
        await cast(Awaitable[object], opened())
    with pytest.raises(TypeError, match=hint), cast(AbstractContextManager[object], opened()):
        pass


async def test_wait_until_when_given_a_time_limit_then_keeps_to_it(broker: Broker) -> None:
    await broker.wait_until(lambda: True, timeout=0)
    with pytest.raises(TimeoutError):
        await broker.wait_until(lambda: False, timeout=0)
    for invalid in (-1, nan, "5"):
        with pytest.raises((TypeError, ValueError), match="timeout must be a number of seconds of at least 0, got"):
            await broker.wait_until(lambda: True, timeout=invalid)  # type: ignore[arg-type]  # what is refused

    with anyio.move_on_after(1000) as scope:
        await broker.wait_until(lambda: False, timeout=inf)
    assert scope.cancelled_caught


async def test_wait_until_when_the_condition_is_of_something_else_then_it_is_looked_at_once_more(
    broker: Broker,
) -> None:
    end = anyio.current_time() + 5

    await broker.wait_until(lambda: anyio.current_time() >= end)

    assert anyio.current_time() == end + 5


async def test_drop_connections_when_called_then_all_links_break(broker: Broker) -> None:
    clients = [await connected(broker) for _ in range(3)]

    broker.drop_connections()

    for client in clients:
        await client.expect_eof()


@over_sockets
async def test_connections_when_they_come_and_go_quickly_then_broker_copes() -> None:
    """Rows 12-LING-1, 11-LING-1."""
    async with open_broker() as broker:
        for number in range(200):
            stream = await trio.open_tcp_stream("127.0.0.1", broker.port)
            if number % 2:
                await stream.send_all(b"CONNECT\naccept-version:1.1,1.2\nhost:h\n\n\0SEND\ndestination:/queue/a\n\nx\0")
            await stream.aclose()

        client = await over_socket(broker)
        await client.confirmed(Command.SEND, destination="/queue/b")
        await client.leave(broker)
        assert broker.statistics().connections == 201


@on_loops("trio")
async def test_session_when_it_fails_then_broker_does_too() -> None:
    async def fail() -> None:
        await trio.lowlevel.checkpoint()
        raise ZeroDivisionError

    stream = trio.StapledStream(MemorySendStream(), MemoryReceiveStream(receive_some_hook=fail))
    async with open_broker(listen=False) as broker:
        with pytest.RaisesGroup(ZeroDivisionError):
            await broker.serve_stream(stream)

    assert broker.statistics().open_connections == 0


# --- Unix sockets -----------------------------------------------------------------------------------------------------


async def test_unix_socket_when_it_is_to_have_tls_or_websocket_then_refused() -> None:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    with pytest.raises(ValueError, match="a Unix socket carries STOMP alone"):
        async with open_broker(unix_socket="/s", tls=tls):
            raise AssertionError
    with pytest.raises(ValueError, match="a Unix socket carries STOMP alone"):
        async with open_broker(unix_socket="/s", websocket=True):
            raise AssertionError


@over_sockets
async def test_unix_socket_when_the_path_is_taken_then_os_error_and_it_stays(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("mine")
    with pytest.raises(OSError, match="in use"):
        async with open_broker(unix_socket=path):
            raise AssertionError
    assert path.read_text() == "mine"


@over_sockets
async def test_broker_when_anyio_is_the_oldest_that_is_supported_then_it_accepts_connections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # There it has its old name alone.
    oldest = SimpleNamespace(wait_socket_readable=trio.lowlevel.wait_readable)
    monkeypatch.setattr(sockets, "anyio", oldest)
    path = tmp_path / "stomp.sock"
    async with open_broker(unix_socket=path) as broker:
        client = RawClient(await trio.open_unix_socket(str(path)))
        await client.connect()
        await client.leave(broker)
