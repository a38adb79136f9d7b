"""A host name with several addresses: the one at which STOMP answers is used."""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

import anyio
import pytest
import trio
import trio.testing
import trustme

import trio_stomp
from tests.client.connecting import Credentials, refused
from tests.kit.cancelling import cancelled_at_step
from tests.kit.certificates import client_context, server_context
from trio_stomp import AuthenticationError
from trio_stomp.runtime import ByteStream, _trio
from trio_stomp.session.dialing import dial
from trio_stomp.session.settings import Settings

NAME = "broker.test"
ADDRESSES = ("127.0.0.1", "127.0.0.2", "127.0.0.3")
CONNECTED = b"CONNECTED\nversion:1.2\n\n\0"

Serve = Callable[[trio.abc.Stream], Awaitable[None]]


class Resolver(trio.abc.HostnameResolver):
    """Knows one name, with some addresses."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = addresses

    async def getaddrinfo(  # type: ignore[override]  # only what is asked here
        self, host: bytes | str | None, port: bytes | str | int | None, *_args: object, **_options: object
    ) -> list[tuple[int, int, int, str, tuple[object, ...]]]:
        assert host in (NAME, NAME.encode())
        await trio.lowlevel.checkpoint()
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in self._addresses]

    async def getnameinfo(self, sockaddr: tuple[str, int] | tuple[str, int, int, int], flags: int) -> tuple[str, str]:
        raise NotImplementedError


def says(answer: bytes, *, stays: bool = False) -> Serve:
    """Answer the first bytes, and close."""

    async def serve(stream: trio.abc.Stream) -> None:
        async for data in stream:
            if answer.startswith(b"CONNECTED") and b"DISCONNECT" in data:
                receipt = bytes(data).partition(b"receipt:")[2].partition(b"\n")[0]
                await stream.send_all(b"RECEIPT\nreceipt-id:%b\n\n\0" % receipt)
                return
            if answer:
                await stream.send_all(answer)
            if not stays:
                return

    return serve


def silent(clock: trio.testing.MockClock, seconds: float) -> Serve:
    """Answer nothing; so much time passes when something comes."""

    async def serve(stream: trio.abc.Stream) -> None:
        async for _ in stream:
            clock.jump(seconds)

    return serve


def error(message: str) -> bytes:
    return b"ERROR\nmessage:%b\n\n\0" % message.encode()


BROKER = says(CONNECTED, stays=True)


class Site:
    """Several addresses of one name.

    Attributes:
        port: The port of all of them.
        accepted: The addresses to which connections were made, in order.
    """

    def __init__(self) -> None:
        self.port = 0
        self.accepted: list[str] = []


@contextlib.asynccontextmanager
async def site(*serves: Serve | None) -> AsyncGenerator[Site]:
    """Serve the addresses of a name; None does not listen."""
    made = Site()
    trio.socket.set_custom_hostname_resolver(Resolver(ADDRESSES[: len(serves)]))
    async with trio.open_nursery() as nursery:
        # A port that is free at all addresses.
        with socket.create_server(("0.0.0.0", 0)) as probe:  # noqa: S104  # closed at once
            made.port = probe.getsockname()[1]
        for address, serve in zip(ADDRESSES, serves, strict=False):
            if serve is None:
                continue
            sock = trio.socket.socket()
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            await sock.bind((address, made.port))
            sock.listen()

            async def handle(stream: trio.SocketStream, address: str = address, serve: Serve = serve) -> None:
                made.accepted.append(address)
                with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                    await serve(stream)
                await trio.aclose_forcefully(stream)

            nursery.start_soon(trio.serve_listeners, handle, [trio.SocketListener(sock)])  # noqa: ASYNC113  # it listens already
        yield made
        nursery.cancel_scope.cancel()


HTTP = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"


@pytest.mark.parametrize(
    "first",
    [
        None,
        says(b""),
        says(HTTP),
        says(HTTP, stays=True),
        says(b"\x15\x03\x01\x00\x02\x02\x0a"),
        says(error("starting")),
    ],
    ids=["refuses", "closes", "HTTP", "HTTP that stays", "TLS", "starting"],
)
async def test_address_when_no_broker_answers_there_then_the_next_one_is_used(first: Serve | None) -> None:
    async with site(first, first, BROKER) as there:
        async with trio_stomp.connect(f"stomp://{NAME}:{there.port}") as client:
            assert client.state.endpoint == f"stomp://{NAME}:{there.port}"
        assert there.accepted == ([] if first is None else list(ADDRESSES[:2])) + [ADDRESSES[2]]


@pytest.mark.parametrize("lost", [1, 2])
async def test_address_when_a_connection_is_lost_at_once_then_the_next_one_is_used_or_named(
    monkeypatch: pytest.MonkeyPatch, lost: int
) -> None:
    """As on macOS, which refuses to set options of a socket whose other side has closed it."""
    unusable: list[socket.socket] = []

    async def socket_stream(sock: socket.socket) -> ByteStream:
        if len(unusable) < lost:
            unusable.append(sock)
            raise OSError(errno.EINVAL, "Invalid argument")
        return await made(sock)

    made = _trio.socket_stream
    monkeypatch.setattr(_trio, "socket_stream", socket_stream)
    async with site(BROKER, BROKER) as there:
        if lost == 1:
            async with trio_stomp.connect(f"stomp://{NAME}:{there.port}"):
                pass
        else:
            with pytest.raises(trio_stomp.ConnectError, match=r"127\.0\.0\.1, 127\.0\.0\.2: tcp: Invalid argument"):
                async with trio_stomp.connect(f"stomp://{NAME}:{there.port}"):
                    raise AssertionError
    assert [sock.fileno() for sock in unusable] == [-1] * lost


async def test_address_when_the_first_is_good_then_no_other_is_connected_to() -> None:
    async with site(BROKER, BROKER) as there:
        async with trio_stomp.connect(f"stomp://{NAME}:{there.port}"):
            pass
        assert there.accepted == [ADDRESSES[0]]


async def test_address_when_it_is_silent_then_the_next_one_is_used_within_the_timeout(
    mock_clock: trio.testing.MockClock,
) -> None:
    # More than a third of the timeout, and less than two.
    async with site(silent(mock_clock, 3.4), BROKER, BROKER) as there:
        async with trio_stomp.connect(f"stomp://{NAME}:{there.port}", connect_timeout=10):
            assert trio.current_time() < 10
        assert there.accepted == list(ADDRESSES[:2])


async def test_address_when_it_is_slow_then_it_may_still_win(mock_clock: trio.testing.MockClock) -> None:
    asked = [trio.Event(), trio.Event()]

    async def slow(stream: trio.abc.Stream) -> None:
        await stream.receive_some()
        asked[0].set()
        await asked[1].wait()
        await stream.send_all(CONNECTED)
        await BROKER(stream)

    async def say_nothing(stream: trio.abc.Stream) -> None:
        await stream.receive_some()
        asked[1].set()
        await trio.sleep_forever()

    async def pass_time() -> None:
        await asked[0].wait()
        mock_clock.jump(5)

    async with site(slow, say_nothing) as there, trio.open_nursery() as nursery:
        nursery.start_soon(pass_time)
        async with trio_stomp.connect(f"stomp://{NAME}:{there.port}", connect_timeout=10):
            # The other one never answers.
            assert there.accepted == list(ADDRESSES[:2])


async def test_addresses_when_all_fail_then_the_error_lists_each_with_its_reason() -> None:
    async with site(None, says(b""), says(HTTP)) as there:
        failed = await refused(f"stomp://{NAME}:{there.port}")
    (failure,) = failed.failures
    assert failure.address == f"stomp://{NAME}:{there.port}"
    assert failure.step == "connect"
    assert "127.0.0.1: tcp: Connection refused" in str(failed)
    assert "127.0.0.2: connect: the broker closed the connection instead of answering" in str(failed)
    assert "127.0.0.3: connect: the answer to CONNECT is not STOMP" in str(failed)
    assert "this port speaks HTTP" in str(failed)
    assert [(each.address, each.step) for each in failure.addresses] == [
        ("127.0.0.1", "tcp"),
        ("127.0.0.2", "connect"),
        ("127.0.0.3", "connect"),
    ]


async def test_addresses_when_all_fail_alike_then_the_reason_comes_once() -> None:
    async with site(None, None) as there:
        failed = await refused(f"stomp://{NAME}:{there.port}")
    assert "127.0.0.1, 127.0.0.2: tcp: Connection refused; is a broker listening there?" in str(failed)


async def test_addresses_when_all_are_silent_then_the_timeout_is_that_of_the_host(
    mock_clock: trio.testing.MockClock,
) -> None:
    async with site(silent(mock_clock, 5), silent(mock_clock, 5)) as there:
        failed = await refused(f"stomp://{NAME}:{there.port}", connect_timeout=10)
        assert there.accepted == list(ADDRESSES[:2])
    assert trio.current_time() == pytest.approx(10, abs=1)
    assert failed.failures[0].step == "timeout"
    assert failed.failures[0].pending_step == "connect"


async def test_address_when_a_broker_refuses_the_credentials_there_then_no_other_is_asked() -> None:
    async with site(says(b""), says(error("Access refused for user 'guest'")), BROKER) as there:
        failed = await refused(f"stomp://{NAME}:{there.port}")
        assert there.accepted == list(ADDRESSES[:2])
    assert isinstance(failed, AuthenticationError)
    assert "127.0.0.1: connect: the broker closed" in str(failed)
    assert "Access refused" in str(failed)


async def test_address_when_credentials_fail_then_no_other_is_asked() -> None:
    async with site(BROKER, BROKER) as there:
        failed = await refused(f"stomp://{NAME}:{there.port}", credentials=Credentials(OSError("down")))
        assert there.accepted == [ADDRESSES[0]]
    assert failed.failures[0].step == "credentials"


async def test_address_when_it_has_no_tls_or_another_certificate_then_the_next_one_is_used() -> None:
    authority = trustme.CA()
    wrong, right = server_context(trustme.CA(), NAME), server_context(authority, NAME)

    async def untrusted(stream: trio.abc.Stream) -> None:
        await trio.SSLStream(stream, wrong, server_side=True).do_handshake()

    async def good(stream: trio.abc.Stream) -> None:
        await BROKER(trio.SSLStream(stream, right, server_side=True))

    async with site(says(error("no TLS here")), untrusted, good) as there:
        async with trio_stomp.connect(f"stomps://{NAME}:{there.port}", tls=client_context(authority)):
            pass
        assert there.accepted == list(ADDRESSES)


async def test_address_when_it_has_no_websocket_then_the_next_one_is_tried() -> None:
    not_found = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
    async with site(says(not_found), says(error("plain"))) as there:
        failed = await refused(f"ws://{NAME}:{there.port}/ws")
        assert there.accepted == list(ADDRESSES[:2])
    assert failed.failures[0].step == "websocket"
    assert "127.0.0.1: websocket: " in str(failed)
    assert "404" in str(failed)
    assert "127.0.0.2: websocket: " in str(failed)


async def test_address_when_cancelled_at_any_step_then_what_was_opened_is_closed() -> None:
    async with site(says(b""), None, BROKER) as there:
        settings = Settings.of(f"stomp://{NAME}:{there.port}", {})

        async def connect_and_leave() -> None:
            link = await dial(settings.endpoints[0], settings)
            await anyio.aclose_forcefully(link.stream)

        # A socket that is left open is a ResourceWarning, which is an error.
        step = 1
        with trio.fail_after(60):
            while (await cancelled_at_step(connect_and_leave, step)).reached:
                step += 1
        assert step > 5


async def test_reconnecting_when_the_first_address_is_no_broker_any_more_then_the_next_one_is_used() -> None:
    connections = 0

    async def once(stream: trio.abc.Stream) -> None:
        nonlocal connections
        connections += 1
        if connections == 1:
            await stream.receive_some()
            await stream.send_all(CONNECTED)
            await trio.testing.wait_all_tasks_blocked()

    policy = trio_stomp.Reconnect(first_delay=0)
    async with site(once, BROKER) as there:
        async with trio_stomp.connect(f"stomp://{NAME}:{there.port}", reconnect=policy) as client:
            with trio.fail_after(60):
                async for _ in client.state_changes():
                    if client.statistics().reconnections and client.state.healthy:
                        break
        assert there.accepted == [ADDRESSES[0], ADDRESSES[0], ADDRESSES[1]]
