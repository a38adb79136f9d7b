"""Where an embedded broker listens."""

from __future__ import annotations

import ssl
from pathlib import Path
from types import SimpleNamespace

import pytest
import trio

from trio_stomp.testing import Broker, open_broker, sockets
from trio_stomp.testing.listeners import Address


@pytest.mark.parametrize(
    ("address", "url"),
    [
        (Address(port=1), "stomp://u%40:p%2F@127.0.0.1:1"),
        (Address(port=1, host="::1"), "stomp://u%40:p%2F@[::1]:1"),
        (Address(port=1, websocket=True), "ws://u%40:p%2F@127.0.0.1:1/ws"),
        (Address(listen=False), "stomp://u%40:p%2F@memory.invalid:61613"),
        (Address(unix_socket="/a b/c%"), "stomp+unix://u%40:p%2F@/a%20b/c%25"),
    ],
)
def test_url_when_asked_for_then_it_leads_there(address: Address, url: str) -> None:
    assert address.url("u@", "p/") == url


def test_url_when_there_is_tls_then_its_scheme_says_so() -> None:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    assert Address(port=1, tls=tls).url("u", "p").startswith("stomps://")
    assert Address(port=1, tls=tls, websocket=True).url("u", "p").startswith("wss://")
    assert Address(listen=False, tls=tls).url("u", "p").startswith("stomps://")


def test_address_when_a_unix_socket_is_to_have_tls_or_websocket_then_refused() -> None:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    with pytest.raises(ValueError, match="a Unix socket carries STOMP alone"):
        Address(unix_socket="/s", tls=tls)
    with pytest.raises(ValueError, match="a Unix socket carries STOMP alone"):
        Address(unix_socket="/s", websocket=True)


async def can_connect(broker: Broker, path: Path) -> bool:
    try:
        stream = await trio.open_unix_socket(str(path))
    except OSError:
        return False
    await stream.send_all(b"CONNECT\naccept-version:1.2\nhost:h\n\n\0")
    answer = await stream.receive_some()
    await stream.aclose()
    await broker.wait_until(lambda: broker.sessions == ())
    return answer.startswith(b"CONNECTED\n")


async def test_unix_socket_when_the_broker_runs_then_it_is_there_and_else_it_is_not(tmp_path: Path) -> None:
    path = tmp_path / "stomp.sock"
    async with open_broker(unix_socket=path) as broker:
        assert broker.url == f"stomp+unix://guest:guest@{path}"
        assert await can_connect(broker, path)
        await broker.stop_listening()
        assert not path.exists()
        assert not await can_connect(broker, path)
        await broker.start_listening()
        await broker.start_listening()
        assert await can_connect(broker, path)
        with pytest.raises(RuntimeError, match="no port"):
            _ = broker.port
    assert not path.exists()


async def test_unix_socket_when_the_path_is_taken_then_os_error_and_it_stays(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("mine")
    with pytest.raises(OSError, match="in use"):
        async with open_broker(unix_socket=path):
            raise AssertionError
    assert path.read_text() == "mine"


async def test_port_when_listening_stops_and_starts_then_it_stays_the_same() -> None:
    async with open_broker() as broker:
        port = broker.port
        await broker.stop_listening()
        with pytest.raises(OSError, match="connect"):
            await trio.open_tcp_stream("127.0.0.1", port)
        await broker.start_listening()
        assert broker.port == port
        await (await trio.open_tcp_stream("127.0.0.1", port)).aclose()


async def test_broker_when_anyio_is_the_oldest_that_is_supported_then_it_accepts_connections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # There it has its old name alone.
    oldest = SimpleNamespace(wait_socket_readable=trio.lowlevel.wait_readable)
    monkeypatch.setattr(sockets, "anyio", oldest)
    path = tmp_path / "stomp.sock"
    async with open_broker(unix_socket=path) as broker:
        assert await can_connect(broker, path)
