"""What carries the bytes: chosen by the URL and the options, each failure told by its step."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
import pytest
import trio
import trio.testing

import trio_stomp
from tests.kit.cancelling import Outcome, cancelled_at_step
from tests.kit.tunneling import Tunnels, open_http_proxy, open_silent_port, open_socks_proxy
from trio_stomp import ConnectError
from trio_stomp.errors import LocalProtocolError
from trio_stomp.session.dialing import dial
from trio_stomp.session.settings import Settings
from trio_stomp.testing import open_broker


async def refused(url: str, **options: object) -> ConnectError:
    with trio.fail_after(60), pytest.raises(ConnectError) as caught:
        async with trio_stomp.connect(url, **options):  # type: ignore[arg-type]  # passed on as given
            raise AssertionError
    return caught.value


async def test_unix_when_a_broker_listens_then_connected(tmp_path: Path) -> None:
    async with (
        open_broker(unix_socket=tmp_path / "a b.sock") as broker,
        trio_stomp.connect(broker.url, proxy="socks5://127.0.0.1:1") as client,
        client.subscribe("/queue/a") as messages,
    ):
        await client.send("/queue/a", b"\xff" * 300_000, receipt=True)
        async with await anext(messages) as message:
            assert message.body == b"\xff" * 300_000
        assert await client.disconnect() is trio_stomp.DisconnectResult.RECEIPT


async def test_unix_when_the_broker_comes_back_then_reconnected(tmp_path: Path) -> None:
    policy = trio_stomp.Reconnect(first_delay=0.001)
    async with (
        open_broker(unix_socket=tmp_path / "s") as broker,
        trio_stomp.connect(broker.url, reconnect=policy) as client,
    ):
        broker.faults.drop()
        with trio.fail_after(60):
            await client.send("/queue/a", b"1", receipt=True)
        assert broker.depth("/queue/a") == 1


async def test_unix_when_nothing_is_there_then_said_so(tmp_path: Path) -> None:
    error = await refused(f"stomp+unix://{tmp_path}/none")
    assert error.failures[0].step == "unix"
    assert error.failures[0].address == f"stomp+unix://{tmp_path}/none"
    assert "No such file or directory; is a broker listening there, and may this user use its socket?" in str(error)
    (tmp_path / "file").write_text("")
    assert "Connection refused" in str(await refused(f"stomp+unix://{tmp_path}/file"))


async def test_websocket_when_the_port_is_plain_then_hint(tmp_path: Path) -> None:
    async with open_broker() as broker:
        error = await refused(f"ws://127.0.0.1:{broker.port}/ws")
    assert error.failures[0].step == "websocket"
    assert "; this is a plain STOMP port: use stomp://" in str(error)


async def test_websocket_when_the_port_is_silent_then_the_timeout_hints_at_the_plain_port(
    mock_clock: trio.testing.MockClock,
) -> None:
    async with open_silent_port(clock=mock_clock) as port:
        error = await refused(f"ws://127.0.0.1:{port}/ws", connect_timeout=1)
    assert error.failures[0].step == "timeout"
    assert "at this step: websocket; is this the broker's plain STOMP port?" in str(error)


async def test_tcp_when_the_port_is_silent_then_the_timeout_hints_at_tls(mock_clock: trio.testing.MockClock) -> None:
    async with open_silent_port(clock=mock_clock) as port:
        error = await refused(f"stomp://127.0.0.1:{port}", connect_timeout=1)
    assert error.failures[0].step == "timeout"
    assert "at this step: connect; is the port a STOMP port without TLS?" in str(error)


async def test_tcp_when_the_port_speaks_websocket_then_hint_at_the_url() -> None:
    async with open_broker(websocket=True) as broker:
        error = await refused(f"stomp://127.0.0.1:{broker.port}")
    assert error.failures[0].step == "connect"
    assert "this port speaks HTTP: STOMP over WebSocket needs a URL like ws://host:port/ws" in str(error)


async def test_tcp_when_the_name_is_not_legal_for_the_resolver_then_dns() -> None:
    # Python's own IDNA allows a name of symbols; the one of the resolver does not.
    error = await refused("stomp://☃-.example")
    assert error.failures[0].step == "dns"
    assert "it is not a valid name" in str(error)


@pytest.mark.parametrize("way", ["websocket", "unix", "socks5", "http"])
async def test_connect_when_cancelled_at_any_step_then_what_was_opened_is_closed(tmp_path: Path, way: str) -> None:
    path = tmp_path / "s" if way == "unix" else None
    async with (
        open_broker(websocket=way == "websocket", unix_socket=path) as broker,
        open_socks_proxy(Tunnels()) as socks,
        open_http_proxy(Tunnels()) as http,
    ):
        url = broker.url.replace("127.0.0.1", "localhost")
        settings = Settings.of(url, {"proxy": {"socks5": socks.url, "http": http.url}.get(way)})

        async def connect_and_leave() -> None:
            link = await dial(settings.endpoints[0], settings)
            await anyio.aclose_forcefully(link.stream)

        step, outcome = 0, Outcome(reached=True, cancelled=False)
        with trio.fail_after(60):
            while outcome.reached:
                step += 1
                outcome = await cancelled_at_step(connect_and_leave, step)
                await broker.wait_until(lambda: broker.sessions == ())
        assert step > 5


@pytest.mark.parametrize(
    ("module", "package", "url", "options", "words"),
    [
        ("websocket", "wsproto", "ws://127.0.0.1:1", {}, "a ws:// or wss:// URL requires wsproto"),
        (
            "proxy",
            "python_socks",
            "stomp://127.0.0.1:1",
            {"proxy": "socks5://127.0.0.1:1"},
            "proxy= requires python_socks",
        ),
    ],
)
async def test_extra_when_it_is_missing_then_its_name_is_told_and_nothing_is_opened(
    monkeypatch: pytest.MonkeyPatch, module: str, package: str, url: str, options: dict[str, str], words: str
) -> None:
    if module == "websocket":
        monkeypatch.delitem(sys.modules, "trio_stomp.transport.websocket", raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(LocalProtocolError) as caught:
        async with trio_stomp.connect(url, **options):  # type: ignore[arg-type]  # passed on as given
            raise AssertionError
    assert str(caught.value) == f"{words}. Run: pip install 'trio-stomp[{module}]'"


async def test_extras_when_neither_is_used_then_their_packages_are_not_imported() -> None:
    program = """
import sys, trio, trio_stomp
from trio_stomp.testing import open_broker

async def main():
    async with open_broker() as broker, trio_stomp.connect(broker.url) as client:
        await client.send("/queue/a", "x", receipt=True)

trio.run(main)
print(sorted({"h11", "wsproto", "python_socks"} & set(sys.modules)))
"""
    done = await trio.run_process([sys.executable, "-c", program], capture_stdout=True)
    assert done.stdout.decode().strip() == "[]"
