"""What carries the bytes: chosen by the URL and the options, each failure told by its step."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path

import anyio
import pytest
import trio
import trio.testing
from wsproto.events import TextMessage

import trio_stomp
from tests.client.connecting import refused
from tests.kit.cancelling import Outcome, cancelled_at_step
from tests.kit.tunneling import Tunnels, open_http_proxy, open_silent_port, open_socks_proxy
from tests.kit.websocket_peer import FarEnd
from trio_stomp.errors import LocalProtocolError, NotSupportedError
from trio_stomp.session.dialing import dial
from trio_stomp.session.settings import Settings
from trio_stomp.testing import AnswerConnect, BrokerOptions, DropLink, open_broker
from trio_stomp.transport import Endpoint, Steps
from trio_stomp.types import ProfileName


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


async def test_unix_when_nothing_is_there_then_said_so(tmp_path: Path) -> None:
    error = await refused(f"stomp+unix://{tmp_path}/none")
    assert error.failures[0].step == "unix"
    assert error.failures[0].address == f"stomp+unix://{tmp_path}/none"
    assert "No such file or directory; is a broker listening there, and may this user use its socket?" in str(error)
    (tmp_path / "file").write_text("")
    assert "Connection refused" in str(await refused(f"stomp+unix://{tmp_path}/file"))


@pytest.mark.parametrize(
    ("scheme", "step", "hint"),
    [
        ("stomp", "connect", "is the port a STOMP port without TLS?"),
        ("stomps", "tls", "is this its plain STOMP port? Then try stomp://"),
        ("ws", "websocket", "is this the broker's plain STOMP port?"),
        ("http", "proxy", "is it a proxy of that kind, and can it reach the broker?"),
        ("socks5", "proxy", "is it a proxy of that kind, and can it reach the broker?"),
    ],
)
async def test_port_when_it_is_silent_then_the_timeout_names_the_step_and_hints(
    scheme: str, step: str, hint: str, mock_clock: trio.testing.MockClock
) -> None:
    async with open_silent_port(clock=mock_clock) as port:
        url = f"{scheme}://127.0.0.1:{port}"
        if step == "proxy":
            error = await refused("stomp://broker:1", proxy=url, connect_timeout=1)
        else:
            error = await refused(url, connect_timeout=1)
    assert (error.failures[0].step, error.failures[0].pending_step) == ("timeout", step)
    assert f"at this step: {step}; {hint}" in str(error)


@pytest.mark.parametrize(
    ("url", "step", "words"),
    [
        ("stomp://b", "tcp", "are host and port right, and does a firewall drop the packets?"),
        ("ws://b", "connect", "is a STOMP broker behind that WebSocket?"),
        ("stomps://b", "connect", "is the port a STOMP port?"),
        ("stomp+unix:///s", "connect", "is the socket that of a STOMP broker?"),
    ],
)
def test_timeout_when_its_step_is_hard_to_stop_at_then_it_names_the_step_and_hints(
    url: str, step: str, words: str
) -> None:
    steps = Steps(Endpoint.parse(url), tls=url.startswith("stomps"))
    assert steps.current == ("unix" if url.startswith("stomp+unix") else "tcp")
    steps.current = step
    failed = steps.timed_out(2.5)
    assert failed.reason == f"no answer within 2.5 s (connect_timeout) at this step: {step}; {words}"
    assert (failed.step, failed.pending_step, failed.refused) == ("timeout", step, False)


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


async def test_dial_when_all_hosts_fail_then_one_cause_for_each_and_no_passcode() -> None:
    error = await refused(["stomp://u:hush@127.0.0.1:1", "stomp://no-such-host.invalid"])
    assert [failure.step for failure in error.failures] == ["tcp", "dns"]
    assert "refused" in error.failures[0].reason
    assert "'no-such-host.invalid' cannot be looked up" in error.failures[1].reason
    assert "hush" not in str(error)


async def test_dial_when_the_broker_refuses_the_default_vhost_then_the_name_of_its_host_is_tried() -> None:
    """Row 1x-CONN-10. CoilMQ, in 1.2."""
    async with open_broker(options=BrokerOptions(vhosts={"127.0.0.1"})) as broker:
        async with trio_stomp.connect(f"stomp://guest:guest@127.0.0.1:{broker.port}") as client:
            await client.send("/queue/a", b"x", receipt=True)
        # A virtual host that the user has named is the one that counts.
        error = await refused(f"stomp://guest:guest@127.0.0.1:{broker.port}/other")
        assert "'other'" in str(error)
    async with open_broker(options=BrokerOptions(vhosts={"elsewhere"})) as broker:
        error = await refused(f"stomp://guest:guest@127.0.0.1:{broker.port}")
        # What is told is the first refusal.
        assert "'/'" in str(error)
        assert "name one that exists" in str(error)


@pytest.mark.parametrize("websocket", [True, False])
async def test_dial_when_a_unix_socket_or_a_websocket_is_closed_then_no_hint_at_tls(
    tmp_path: Path, websocket: bool
) -> None:
    path = None if websocket else tmp_path / "s"
    async with open_broker(websocket=websocket, unix_socket=path) as broker:
        broker.faults.plan(AnswerConnect(data=b"", close=True))
        error = await refused(broker.url)
    assert error.failures[0].step == "connect"
    assert "is it a STOMP broker?" in str(error)
    assert "TLS" not in str(error)


@pytest.mark.parametrize(
    ("headers", "options", "longest"),
    [
        # Spring's simple broker, by what it says.
        ("heart-beat:0,0\n", {}, 8192),
        ("heart-beat:0,0\n", {"websocket_message_bytes": 100}, 100),
        ("server:other/1\n", {}, None),
        ("server:other/1\n", {"websocket_message_bytes": 100}, 100),
        ("server:other/1\n", {"profile": "spring"}, 8192),
    ],
)
async def test_websocket_when_connected_then_messages_are_as_long_as_the_option_or_the_broker_says(
    headers: str, options: dict[str, object], longest: int | None, autojump_clock: trio.testing.MockClock
) -> None:
    lengths: list[int] = []
    body = "x" * 20_000

    async def serve(stream: trio.SocketStream) -> None:
        far = FarEnd(stream)
        await far.accept(subprotocol="v12.stomp")
        await far.receive()
        await far.send(TextMessage(data=f"CONNECTED\nversion:1.2\n{headers}\n\0"))
        while await far.receive():
            pass
        whole = ""
        for event in far.events:
            if isinstance(event, TextMessage):
                whole += event.data
                if event.message_finished:
                    lengths.append(len(whole))
                    whole = ""

    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port: int = listeners[0].socket.getsockname()[1]
        nursery.start_soon(trio.serve_listeners, serve, listeners)
        async with trio_stomp.connect(
            f"ws://127.0.0.1:{port}/ws",
            heart_beat=(0, 0),
            disconnect_timeout=1,
            **options,  # type: ignore[arg-type]  # passed on as given
        ) as client:
            await client.send("/topic/a", body)
        await trio.testing.wait_all_tasks_blocked(0.1)
        nursery.cancel_scope.cancel()
    assert max(lengths) == longest if longest is not None else max(lengths) > len(body)


async def test_websocket_when_the_url_names_it_then_stomp_goes_through() -> None:
    async with (
        open_broker(websocket=True, options=BrokerOptions(logins={"guest": "guest"})) as broker,
        trio_stomp.connect(broker.url) as client,
        client.subscribe("/queue/a") as messages,
    ):
        assert broker.url == f"ws://guest:guest@127.0.0.1:{broker.port}/ws"
        for body in ("é" * 100_000, b"\xff\0" * 100_000):
            await client.send("/queue/a", body, receipt=True)
            async with await anext(messages) as message:
                assert message.body == (body.encode() if isinstance(body, str) else body)
        assert await client.disconnect() is trio_stomp.DisconnectResult.RECEIPT


@pytest.mark.parametrize(
    ("profile", "websocket", "body", "content_type", "words"),
    [
        ("activemq", False, b"\xff", None, None),
        ("activemq", True, b"\xff", None, "drops bodies .* not UTF-8 .*; connect by stomp:// or stomps://, or encode"),
        ("activemq", True, b"\xff", "application/octet-stream", "drops bodies that are not UTF-8"),
        ("activemq", True, "é", "text/plain;charset=iso-8859-1", "drops bodies that are not UTF-8"),
        ("spring", False, b"\xff", None, None),
        ("spring", True, b"\xff", None, "damages bodies .* not UTF-8 .*; pass content_type='application/octet-stream'"),
        ("spring", True, b"\xff", "application/octet-stream", None),
        ("rabbitmq", True, b"\xff", None, None),
    ],
)
async def test_send_when_the_broker_takes_only_text_over_a_websocket_then_other_bytes_are_refused_there_alone(
    profile: ProfileName, websocket: bool, body: bytes | str, content_type: str | None, words: str | None
) -> None:
    async with (
        open_broker(websocket=websocket) as broker,
        trio_stomp.connect(broker.url, profile=profile) as client,
    ):
        await client.send("/topic/a", "é".encode())
        with nullcontext() if words is None else pytest.raises(NotSupportedError, match=words):
            await client.send("/topic/a", body, content_type=content_type)


@pytest.mark.parametrize("websocket", [True, False])
async def test_link_when_a_websocket_or_a_unix_socket_is_lost_then_reconnected(tmp_path: Path, websocket: bool) -> None:
    policy = trio_stomp.Reconnect(first_delay=0.001)
    async with open_broker(websocket=websocket, unix_socket=None if websocket else tmp_path / "s") as broker:
        broker.faults.plan(DropLink(after_sent_bytes=800))
        async with (
            trio_stomp.connect(broker.url, reconnect=policy) as client,
            client.subscribe("/queue/a") as messages,
        ):
            for number in range(20):
                await client.send("/queue/a", str(number), receipt=True)
            seen: set[str] = set()
            with trio.fail_after(60):
                while len(seen) < 20:
                    async with await anext(messages) as message:
                        seen.add(message.text)
            assert client.statistics().reconnections == 1
