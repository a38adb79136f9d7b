"""Proxies: their URLs, and connecting through SOCKS5 and HTTP CONNECT."""

from __future__ import annotations

import errno
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager

import pytest
import trustme

import trio_stomp
from tests.client.connecting import refused
from tests.kit.certificates import client_context, server_context
from tests.kit.tunneling import Tunnels, open_http_proxy, open_resetting_port, open_silent_port, open_socks_proxy
from trio_stomp import AuthenticationError, ConnectError
from trio_stomp.errors import LocalProtocolError
from trio_stomp.runtime import ByteStream, _trio
from trio_stomp.testing import Broker, BrokerOptions, open_broker
from trio_stomp.transport import Proxy

OpenProxy = Callable[[Tunnels], AbstractAsyncContextManager[Tunnels]]

# A name that only the proxy knows.
NAME = "broker.behind-the-proxy.invalid"

BOTH = pytest.mark.parametrize("open_proxy", [open_socks_proxy, open_http_proxy])


@pytest.fixture
async def behind() -> AsyncGenerator[Broker]:
    async with open_broker() as broker:
        yield broker


@BOTH
@pytest.mark.parametrize("piecewise", [False, True])
async def test_tunnel_when_the_proxy_agrees_then_it_looks_the_name_up_and_stomp_goes_through(
    behind: Broker, open_proxy: OpenProxy, piecewise: bool
) -> None:
    tunnels = Tunnels(names={NAME: "127.0.0.1"}, piecewise=piecewise)
    async with (
        open_proxy(tunnels),
        trio_stomp.connect(f"stomp://guest:guest@{NAME}:{behind.port}", proxy=tunnels.url) as client,
    ):
        await client.send("/queue/a", b"through", receipt=True)
    assert tunnels.asked == [(NAME, behind.port)]
    assert behind.depth("/queue/a") == 1


@BOTH
async def test_tunnel_when_the_proxy_knows_the_user_then_it_agrees(behind: Broker, open_proxy: OpenProxy) -> None:
    tunnels = Tunnels(login=("ann", "p@ss:w/rd"), names={NAME: "127.0.0.1"})
    async with open_proxy(tunnels):
        proxy = tunnels.url.replace("://", "://ann:p%40ss%3Aw%2Frd@")
        async with trio_stomp.connect(f"stomp://{NAME}:{behind.port}", proxy=proxy):
            pass


@BOTH
@pytest.mark.parametrize("user", ["", "ann:hush-hush@"])
async def test_tunnel_when_the_proxy_does_not_know_the_user_then_authentication_error(
    behind: Broker, open_proxy: OpenProxy, user: str
) -> None:
    tunnels = Tunnels(login=("ann", "right"))
    async with open_proxy(tunnels):
        error = await refused(f"stomp://{NAME}:{behind.port}", proxy=tunnels.url.replace("://", f"://{user}"))
    assert isinstance(error, AuthenticationError)
    assert error.failures[0].step == "proxy"
    assert tunnels.url in str(error)
    assert "user and passcode of proxy=" in str(error)
    assert "hush-hush" not in str(error)
    assert behind.statistics().connections == 0


async def test_tunnel_when_it_is_lost_at_once_then_said_so_and_its_socket_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sockets: list[socket.socket] = []

    async def unusable(sock: socket.socket) -> ByteStream:  # noqa: ASYNC124  # the form of the runtime's own
        """As on macOS, which refuses to set options of a socket whose other side has closed it."""
        sockets.append(sock)
        raise OSError(errno.EINVAL, "Invalid argument")

    tunnels = Tunnels(names={NAME: "127.0.0.1"})
    monkeypatch.setattr(_trio, "socket_stream", unusable)
    async with open_socks_proxy(tunnels), open_silent_port() as port:
        error = await refused(f"stomp://{NAME}:{port}", proxy=tunnels.url)
    assert "broke the link: [Errno 22] Invalid argument" in str(error)
    assert [sock.fileno() for sock in sockets] == [-1]


@BOTH
async def test_tunnel_when_tls_is_asked_for_then_the_proxy_sees_nothing_of_it(open_proxy: OpenProxy) -> None:
    authority = trustme.CA()
    tunnels = Tunnels(names={NAME: "127.0.0.1"})
    async with open_broker(tls=server_context(authority, NAME)) as broker, open_proxy(tunnels):
        url = f"stomps://guest:guest@{NAME}:{broker.port}"
        async with trio_stomp.connect(url, proxy=tunnels.url, tls=client_context(authority)) as client:
            await client.send("/queue/a", b"secret", receipt=True)
    assert b"CONNECT" not in tunnels.carried
    assert b"secret" not in tunnels.carried
    assert len(tunnels.carried) > 100


@BOTH
@pytest.mark.parametrize("websocket", [False, True])
async def test_tunnel_when_the_name_has_a_final_dot_then_the_proxy_gets_it_and_tls_does_not(
    open_proxy: OpenProxy, websocket: bool
) -> None:
    authority = trustme.CA()
    names: list[object] = []
    server = server_context(authority, NAME)
    server.sni_callback = lambda _socket, name, _context: names.append(name)
    tunnels = Tunnels(names={f"{NAME}.": "127.0.0.1"})
    async with open_broker(tls=server, websocket=websocket) as broker, open_proxy(tunnels):
        url = f"{'wss' if websocket else 'stomps'}://guest:guest@{NAME}.:{broker.port}"
        async with trio_stomp.connect(url, proxy=tunnels.url, tls=client_context(authority)):
            pass
    assert names == [NAME]
    assert tunnels.asked == [(f"{NAME}.", broker.port)]


async def test_tunnel_when_the_virtual_host_is_the_host_name_then_without_its_final_dot() -> None:
    """Row 1x-CONN-10. CoilMQ, in 1.2, compares the host header with its own name."""
    tunnels = Tunnels(names={f"{NAME}.": "127.0.0.1"})
    async with open_broker(options=BrokerOptions(vhosts={NAME})) as broker, open_socks_proxy(tunnels):
        url = f"stomp://guest:guest@{NAME}.:{broker.port}"
        async with trio_stomp.connect(url, proxy=tunnels.url) as client:
            await client.send("/queue/a", b"x", receipt=True)


@pytest.mark.parametrize(
    ("open_proxy", "answer", "words"),
    [
        (open_socks_proxy, 4, "Host unreachable"),
        (open_socks_proxy, 5, "Connection refused by destination host"),
        (open_http_proxy, b"HTTP/1.1 502 Bad Gateway\r\n\r\n", "502 Bad Gateway"),
        (open_http_proxy, b"HTTP/1.1 599 What\r\n\r\n", "599 unknown status"),
    ],
)
async def test_tunnel_when_the_proxy_cannot_reach_the_broker_then_its_reason_is_told(
    open_proxy: OpenProxy, answer: int | bytes, words: str
) -> None:
    tunnels = Tunnels(answer=answer)
    async with open_proxy(tunnels):
        error = await refused(f"stomp://{NAME}:61613", proxy=tunnels.url)
    assert type(error) is ConnectError
    assert [failure.step for failure in error.failures] == ["proxy"]
    assert f"the proxy {tunnels.url} does not connect to {NAME}:61613: {words}" in str(error)


@pytest.mark.parametrize("scheme", ["socks5", "http"])
async def test_tunnel_when_no_proxy_listens_then_said_so(scheme: str) -> None:
    async with open_silent_port() as port:
        pass
    error = await refused("stomp://broker", proxy=f"{scheme}://127.0.0.1:{port}")
    assert error.failures[0].step == "proxy"
    assert f"the proxy {scheme}://127.0.0.1:{port} cannot be reached: Connection refused" in str(error)


@pytest.mark.parametrize(
    ("scheme", "says", "words"),
    [
        ("http", b"\x05\xff", "does not speak HTTP"),
        ("http", b"", "does not speak HTTP"),
        ("http", b"HTTP/1.1 200 OK\r\n\r\nSSH-2.0-x\r\n", "sent data before the client did"),
        ("socks5", b"HTTP/1.1 400 Bad Request\r\n\r\n", "Unexpected SOCKS version number: 72"),
    ],
)
async def test_tunnel_when_the_proxy_is_none_of_that_kind_then_said_so(scheme: str, says: bytes, words: str) -> None:
    async with open_silent_port(says) as port:
        error = await refused("stomp://broker:1", proxy=f"{scheme}://127.0.0.1:{port}")
    assert error.failures[0].step == "proxy"
    assert words in str(error)


@pytest.mark.parametrize("scheme", ["socks5", "http"])
async def test_tunnel_when_the_proxy_resets_the_link_then_said_so(scheme: str) -> None:
    async with open_resetting_port() as port:
        url = f"{scheme}://127.0.0.1:{port}"
        error = await refused("stomp://broker:1", proxy=url)
    assert error.failures[0].step == "proxy"
    assert f"the proxy {url} broke the link: " in str(error)
    assert "Connection reset by peer" in str(error)


@BOTH
async def test_tunnel_when_the_name_is_not_ascii_then_its_idna_form_is_asked_for(open_proxy: OpenProxy) -> None:
    answer = 2 if open_proxy is open_socks_proxy else b"HTTP/1.1 502 No\r\n\r\n"
    async with open_proxy(Tunnels(answer=answer)) as tunnels:
        error = await refused("stomp://bücher.example:1", proxy=tunnels.url)
    assert error.failures[0].step == "proxy"
    assert tunnels.asked == [("xn--bcher-kva.example", 1)]


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("socks5://proxy:1080", Proxy(scheme="socks5", host="proxy", port=1080)),
        ("http://proxy:3128/", Proxy(scheme="http", host="proxy", port=3128)),
        ("http://[::1]:3128", Proxy(scheme="http", host="::1", port=3128)),
        (
            "socks5://a%40b:p%3Aw@proxy:1",
            Proxy(scheme="socks5", host="proxy", port=1, login="a@b", passcode="p:w"),
        ),
        ("http://token@proxy:1", Proxy(scheme="http", host="proxy", port=1, login="token")),
    ],
)
def test_proxy_when_the_url_is_legal_then_every_part_is_read(url: str, expected: Proxy) -> None:
    assert Proxy.parse(url) == expected


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("socks4://proxy:1", "scheme 'socks4'"),
        ("proxy:1080", "scheme 'proxy'"),
        ("socks5://proxy", "host and port"),
        ("socks5://:1080", "host and port"),
        ("http://u:hush-hush@proxy:1/path", "more than host and port"),
        ("http://proxy:1?a=hush-hush", "more than host and port"),
        ("socks5://u:hush-hush%C3%A4@proxy:1", "ASCII"),
        (f"socks5://u:hush-hush{'x' * 255}@proxy:1", "1 to 255 bytes"),
        ("socks5://:hush-hush@proxy:1", "1 to 255 bytes"),
        ("socks5://u@proxy:1", "or neither"),
        ("http://proxy:0", "port of the proxy URL"),
        ("http://h\r\nX:1", "a control character in its host"),
        ("http://h%0d%0aX:1", "host of the proxy URL"),
        ("http://u:hush-hush%@h:1", "passcode of the proxy URL"),
        ("http://u%3A:hush-hush@h:1", "cannot hold a colon"),
    ],
)
def test_proxy_when_the_url_cannot_be_meant_then_said_so_without_the_passcode(url: object, words: str) -> None:
    with pytest.raises(LocalProtocolError) as caught:
        Proxy.parse(url)
    assert words in str(caught.value)
    assert "hush-hush" not in repr(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__


def test_proxy_when_printed_then_login_and_passcode_stay_out() -> None:
    proxy = Proxy.parse("socks5://user:hush-hush@[::1]:1080")
    assert str(proxy) == "socks5://[::1]:1080"
    assert "hush-hush" not in repr(proxy)
